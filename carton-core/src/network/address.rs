//! What is shown of a URL.

use url::Url;

/// The URL as errors and logs show it: without user, password, query and fragment, each of which may hold a secret (signed URLs
/// have theirs in the query).
///
/// ```
/// use carton_core::network::{Url, address};
/// let url = Url::parse("https://me:secret@host:8443/a/b.carton?X-Signature=1f")?;
/// assert_eq!(address(&url), "https://host:8443/a/b.carton?…");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn address(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let query = if url.query().is_some() { "?…" } else { "" };
    format!("{}://{host}{port}{}{query}", url.scheme(), url.path())
}
