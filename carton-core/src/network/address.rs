//! The form of a URL that may be shown.

use url::Url;

/// The URL as errors and logs show it: without user, password, query and fragment, each of which may hold a secret (signed URLs carry
/// theirs in the query).
pub(crate) fn address(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let query = if url.query().is_some() { "?…" } else { "" };
    format!("{}://{host}{port}{}{query}", url.scheme(), url.path())
}

/// Formats text that may be a URL for errors and logs: a URL as its `address`, other text unchanged. Of text that begins like a URL but
/// cannot be parsed, only the scheme is shown, because any other part of it may be a password.
///
/// ```
/// use carton_core::shown_url;
/// assert_eq!(shown_url("https://me:secret@host/index.json?token=secret"), "https://host/index.json?…");
/// assert_eq!(shown_url("https://me:secret@host:port/index.json"), "https:…");
/// assert_eq!(shown_url("folder/index.json"), "folder/index.json");
/// ```
pub fn shown(text: &str) -> String {
    let scheme = text.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    match (Url::parse(text), scheme) {
        (Ok(url), _) if url.has_host() => address(&url),
        (_, Some(scheme)) if matches!(scheme.as_str(), "http" | "https") || text.contains("://") => {
            format!("{scheme}:…")
        }
        _ => text.to_owned(),
    }
}
