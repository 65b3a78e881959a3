//! The frame of a page, its style, its script and its content security policy.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

/// The style sheet, which a server sends as `text/css` for [`STYLE_PATH`].
pub const STYLE: &str = include_str!("../assets/page.css");
/// The script of the form, which a server sends as `text/javascript` for [`SCRIPT_PATH`].
pub const SCRIPT: &str = concat!(
    include_str!("../assets/page/main.js"),
    include_str!("../assets/page/tensors.js"),
    include_str!("../assets/page/fields.js"),
    include_str!("../assets/page/request.js"),
    include_str!("../assets/page/answer.js"),
    include_str!("../assets/page/start.js"),
);
/// Where the pages look for [`STYLE`].
pub const STYLE_PATH: &str = "/static/page.css";
/// Where the pages look for [`SCRIPT`].
pub const SCRIPT_PATH: &str = "/static/page.js";

/// The value of the header `Content-Security-Policy` for the pages of a server. Only [`STYLE`], [`SCRIPT`], embedded pictures and sounds, and
/// requests to the same server are allowed.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
     media-src 'self' data:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

/// What a page refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing: the style is in the page, and there is no script.
    Standalone,
    /// The style of the server.
    Served,
    /// The style and the script of the server.
    Interactive,
}

/// A complete page around the content of `body`.
pub(crate) fn document(title: &str, kind: Kind, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                @if kind == Kind::Standalone {
                    meta http-equiv="Content-Security-Policy" content=(standalone_policy());
                }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { (title) }
                @if kind == Kind::Standalone {
                    style { (PreEscaped(STYLE)) }
                } @else {
                    link rel="stylesheet" href=(STYLE_PATH);
                    // Without one, browsers ask the server for /favicon.ico.
                    link rel="icon" href="data:,";
                }
                @if kind == Kind::Interactive {
                    script src=(SCRIPT_PATH) defer {}
                }
            }
            body { (body) }
        }
    };
    page.into_string()
}

/// Allows the style of this page by its hash.
fn standalone_policy() -> String {
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; img-src data:; media-src data:; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_can_be_in_a_page() {
        assert!(!STYLE.contains("</") && !STYLE.contains("url(") && !STYLE.contains("@import"));
    }
}
