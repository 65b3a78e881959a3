//! The server over HTTP: the REST side of the Open Inference Protocol, metrics and probes (spec/serving.md §2 to §4).
//!
//! `path` reads the model that a path names, `answer` writes answers and failures, `infer` is a call. `describe`, `repository`, `watch` and
//! `page` are the other resources, and `check` is what holds for all.

mod answer;
mod check;
mod describe;
mod infer;
mod page;
mod path;
mod repository;
mod watch;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use tower::{Layer, ServiceExt, service_fn};
use tower_http::cors::CorsLayer;

use self::path::ModelPath;
use crate::app::App;
use crate::connection::{Client, Service};
use crate::observe::observe;

/// What answers requests over HTTP.
#[derive(Clone)]
pub(crate) struct Face {
    app: Arc<App>,
    router: Router,
    /// Tells browsers which pages may call the server, if any may.
    cors: Option<CorsLayer>,
}

impl Face {
    pub(crate) fn new(app: &Arc<App>) -> Self {
        Self { app: Arc::clone(app), router: router(app), cors: app.origins.layer() }
    }
}

impl Service for Face {
    // Without the router's layers, each of which allocates for every request. Calls go without the router for the same reason.
    async fn answer(&self, request: Request, client: &Client) -> Response<Body> {
        let Self { app, router, cors } = self;
        let answer = |request: Request| async move {
            if let Err(failure) = check::check(app, &request) {
                return failure.into_response();
            }
            match ModelPath::of_call(&request) {
                // In memory of its own, which the futures of other requests need not have.
                Some(path) => Box::pin(infer::infer(State(Arc::clone(app)), path, request)).await.into_response(),
                None => router.clone().oneshot(request).await.into_response(),
            }
        };
        let answer_pages = |request| async move {
            let Some(cors) = cors.as_ref().filter(|_| check::is_of_allowed_page(app, &request)) else {
                return answer(request).await;
            };
            // Also answers the browser that asks whether the page may call, which sends no token.
            let service = service_fn(|request| async { Ok::<_, Infallible>(answer(request).await) });
            let Ok(response) = cors.layer(service).oneshot(request).await;
            response
        };
        observe(app, request, client, answer_pages).await
    }
}

/// The resources of the server. Calls come here only if their path is encoded: what holds for them does not belong into a layer.
fn router(app: &Arc<App>) -> Router {
    let model = |path: &str| {
        [format!("/v2/models/{{model}}{path}"), format!("/v2/models/{{model}}/versions/{{version}}{path}")]
    };
    let mut router = Router::new()
        .route("/v2", get(describe::server))
        .route("/v2/", get(describe::server))
        .route("/v2/health/live", get(watch::live))
        .route("/v2/health/ready", get(watch::ready))
        .route("/v2/models/stats", get(describe::all_statistics))
        .route("/v2/repository/index", post(repository::index))
        .route("/v2/repository/models/{model}/load", post(repository::load))
        .route("/v2/repository/models/{model}/unload", post(repository::unload))
        .route("/metrics", get(watch::metrics));
    for path in model("/infer") {
        router = router.route(&path, post(infer::infer));
    }
    for path in model("") {
        router = router.route(&path, get(describe::model));
    }
    for path in model("/ready") {
        router = router.route(&path, get(watch::model_ready));
    }
    for path in model("/config") {
        router = router.route(&path, get(describe::config));
    }
    for path in model("/stats") {
        router = router.route(&path, get(describe::statistics));
    }
    router
        .with_state(Arc::clone(app))
        .merge(page::router(app))
        .fallback(check::not_found)
        .method_not_allowed_fallback(check::wrong_method)
}
