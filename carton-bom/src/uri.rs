//! Texts of cartons that may stand where a document must have a URI.

use carton_core::Url;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What purls leave as it is.
const PURL: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The text, if it is an address on the web of which every reader of URIs agrees that it is one.
pub(crate) fn web(text: &str) -> Option<&str> {
    let is_web = text.starts_with("https://") || text.starts_with("http://");
    // Those of RFC 3986; brackets, which it has for addresses of IPv6 alone, are not worth their rules.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?#@!$&'()*+,;=%".contains(&byte);
    let escapes = text.split('%').skip(1);
    let mut are_escapes_right =
        escapes.map(|rest| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit()));
    let is_right = is_web
        && text.bytes().all(is_plain)
        && text.matches('#').count() <= 1
        && are_escapes_right.all(|is_right| is_right)
        && text.parse::<Url>().is_ok();
    is_right.then_some(text)
}

/// The package URL of a Python package.
pub(crate) fn of_python_package(name: &str, version: &str) -> String {
    format!("pkg:pypi/{}@{}", utf8_percent_encode(name, PURL), utf8_percent_encode(version, PURL))
}
