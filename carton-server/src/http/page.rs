//! Pages for people: the models, and for each its card with a form to try it. The HTML is that of `carton-card`.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, Response};
use axum::routing::get;
use carton_card::{Card, SCRIPT, SCRIPT_PATH, STYLE, STYLE_PATH, ServedModel, index_page};
use tokio::sync::Mutex;

use super::path::ModelPath;
use crate::app::App;
use crate::failure::Failure;
use crate::model::repository::State as ModelState;
use crate::model::served::Served;
use crate::work::{on_task, on_thread};

/// What the pages need.
struct Pages {
    app: Arc<App>,
    /// The cards that were made, each for as long as its model is loaded. Held while one is made, so that clients can make the server read
    /// the files of one carton at a time.
    cards: Mutex<HashMap<String, MadeCard>>,
}

/// A card, and the loaded model that it was made for.
struct MadeCard {
    served: Weak<Served>,
    card: Arc<Card>,
}

/// The pages.
pub(super) fn router(app: &Arc<App>) -> Router {
    let pages = Pages { app: Arc::clone(app), cards: Mutex::default() };
    Router::new()
        .route("/", get(index))
        .route("/models/{model}", get(model))
        .route("/models/{model}/versions/{version}", get(model))
        .route(STYLE_PATH, get(async || asset("text/css; charset=utf-8", STYLE)))
        .route(SCRIPT_PATH, get(async || asset("text/javascript; charset=utf-8", SCRIPT)))
        .with_state(Arc::new(pages))
}

async fn index(State(pages): State<Arc<Pages>>) -> Response<Body> {
    let entries = pages.app.repository.index();
    let lines: Vec<_> = entries.iter().map(|entry| (entry, entry.state.described())).collect();
    let models: Vec<_> = lines
        .iter()
        .map(|(entry, (state, reason))| {
            let model = ServedModel::new(&entry.name).version(&entry.version);
            let path = format!("/models/{}/versions/{}", entry.name, entry.version);
            let model = model.page_path(path).state(match *state {
                "READY" => carton_card::State::Ready,
                "LOADING" => carton_card::State::Loading,
                _ => carton_card::State::NotReady(reason),
            });
            let metadata = match &entry.state {
                ModelState::Ready(served) => served.package().metadata().short_description(),
                _ => None,
            };
            metadata.into_iter().fold(model, ServedModel::short_description)
        })
        .collect();
    html(index_page(&models))
}

async fn model(State(pages): State<Arc<Pages>>, path: ModelPath) -> Result<Response<Body>, Failure> {
    let served = pages.app.repository.find(&path.model, path.version.as_deref())?;
    let card = pages.card(&served).await?;
    let infer_path = format!("/v2/models/{}/versions/{}/infer", served.name, served.version);
    let mut model = ServedModel::new(&served.name).version(&served.version).infer_path(infer_path);
    if !served.is_ready() {
        model = model.state(carton_card::State::NotReady("its runners keep dying"));
    }
    model = model.takes_token(pages.app.tokens.are_needed());
    Ok(html(card.page(&served.self_tests().into_iter().fold(model, ServedModel::self_tests))))
}

impl Pages {
    /// The card of a model. It is made once, on a thread for such work, also if the client leaves meanwhile.
    async fn card(self: &Arc<Self>, served: &Arc<Served>) -> Result<Arc<Card>, Failure> {
        let (pages, served) = (Arc::clone(self), Arc::clone(served));
        on_task(async move { pages.make_card(&served).await }).await
    }

    async fn make_card(&self, served: &Arc<Served>) -> Result<Arc<Card>, Failure> {
        let key = format!("{}/{}", served.name, served.version);
        let mut cards = self.cards.lock().await;
        if let Some(made) = cards.get(&key)
            && made.served.as_ptr() == Arc::as_ptr(served)
        {
            return Ok(Arc::clone(&made.card));
        }
        let package = served.package().clone();
        let card = Arc::new(on_thread(move || Ok(Card::new(&package))).await?);
        cards.retain(|_, made| made.served.strong_count() > 0);
        cards.insert(key, MadeCard { served: Arc::downgrade(served), card: Arc::clone(&card) });
        Ok(card)
    }
}

fn html(text: String) -> Response<Body> {
    let mut response = with_type("text/html; charset=utf-8", text.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(carton_card::CONTENT_SECURITY_POLICY));
    // What is shown changes with the models.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn asset(content_type: &'static str, text: &'static str) -> Response<Body> {
    with_type(content_type, text.into())
}

fn with_type(content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
