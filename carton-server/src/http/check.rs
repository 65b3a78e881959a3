//! What holds for every request: tokens, origins, and resources that do not exist.

use axum::extract::Request;
use axum::http::header::{ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, HOST, ORIGIN};
use axum::http::{Method, Uri};

use crate::access::Scope;
use crate::app::App;
use crate::failure::{Failure, Reason, quoted};

/// Checks that a request is within the limits of headers, that it has the token that it needs, that it is for a host that the server may be called
/// by, and that no page of another origin makes it. Probes need no token, and may be for any host.
///
/// # Errors
/// It is refused.
pub(super) fn check(app: &App, request: &Request) -> Result<(), Failure> {
    app.limits.check_headers(request.headers())?;
    if request.headers().get_all(HOST).iter().nth(1).is_some() {
        return Err(Failure::new(Reason::InvalidArgument, "the request has two headers `Host`"));
    }
    let is_probe = matches!(request.uri().path(), "/v2/health/live" | "/v2/health/ready");
    // No browser leaves the host out.
    if !is_probe && host(request).is_some_and(|host| !app.hosts.allow(&String::from_utf8_lossy(host))) {
        let reason = "the request is for a host that this server does not know itself by: `allowed_hosts` names those of a server on this machine \
                      without tokens";
        return Err(Failure::new(Reason::Forbidden, reason));
    }
    if is_of_another_origin(app, request) {
        return Err(Failure::new(Reason::Forbidden, "the request comes from a page of another origin"));
    }
    let scope = match request.uri().path() {
        _ if is_probe => return Ok(()),
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
    let authority =
        origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority.as_bytes());
    authority.is_none() || authority != host(request)
}

/// The host that a request is for, with its port.
fn host(request: &Request) -> Option<&[u8]> {
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    authority.or_else(|| request.headers().get(HOST).map(|host| host.as_bytes()))
}

pub(super) async fn not_found(uri: Uri) -> Failure {
    Failure::new(Reason::NotFound, format!("there is no resource {}", quoted(uri.path())))
}

pub(super) async fn wrong_method(uri: Uri) -> Failure {
    Failure::new(Reason::WrongMethod, format!("the resource {} has no such method", quoted(uri.path())))
}
