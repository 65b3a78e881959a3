//! What holds for every request: tokens, origins, and resources that do not exist.

use axum::extract::Request;
use axum::http::header::{ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, HOST, ORIGIN};
use axum::http::{Method, Uri};

use crate::access::Scope;
use crate::app::App;
use crate::failure::{Failure, Reason, quoted};

/// Checks that a request is within the limits of headers, that it has the token that it needs, and that no page of another origin makes it. Probes
/// need no token.
///
/// # Errors
/// It is refused.
pub(super) fn check(app: &App, request: &Request) -> Result<(), Failure> {
    app.limits.check_headers(request.headers())?;
    if is_of_another_origin(app, request) {
        return Err(Failure::new(Reason::Forbidden, "the request comes from a page of another origin"));
    }
    let scope = match request.uri().path() {
        "/v2/health/live" | "/v2/health/ready" => return Ok(()),
        path if app.public_pages && (path == "/" || path.starts_with("/models/") || path.starts_with("/static/")) => {
            return Ok(());
        }
        path if path.starts_with("/v2/repository/") => Scope::Administration,
        _ => Scope::Calls,
    };
    app.tokens.check(scope, request.headers().get(AUTHORIZATION).map(|value| value.as_bytes()))
}

/// Whether a browser makes the request, or asks whether it may, for a page of another origin that the operator allows.
pub(super) fn is_of_allowed_page(app: &App, request: &Request) -> bool {
    let headers = request.headers();
    let is_allowed = headers.get(ORIGIN).is_some_and(|origin| app.origins.is_allowed(origin));
    is_allowed && (request.method() != Method::OPTIONS || headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD))
}

/// Whether a browser makes the request for a page of another origin that the operator does not allow. Browsers make some of those without
/// asking the server first.
fn is_of_another_origin(app: &App, request: &Request) -> bool {
    let Some(origin) = request.headers().get(ORIGIN) else { return false };
    if app.origins.is_allowed(origin) {
        return false;
    }
    let host = request.headers().get(HOST).map(|host| host.as_bytes());
    let host = request.uri().authority().map(|authority| authority.as_str().as_bytes()).or(host);
    let authority =
        origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority.as_bytes());
    authority.is_none() || authority != host
}

pub(super) async fn not_found(uri: Uri) -> Failure {
    Failure::new(Reason::NotFound, format!("there is no resource {}", quoted(uri.path())))
}

pub(super) async fn wrong_method(uri: Uri) -> Failure {
    Failure::new(Reason::WrongMethod, format!("the resource {} has no such method", quoted(uri.path())))
}
