//! The names by which a server may be called.
//!
//! A page that somebody opens can make its own name resolve to this machine (DNS rebinding), and is of the server's own origin then, to the
//! browser. Its requests still have that name in their `Host`.

use std::net::IpAddr;

use axum::http::uri::Authority;

/// The hosts that requests may be for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// Any host. Tokens, or a network that others reach, decide about clients.
    #[default]
    Any,
    /// Addresses, the names of this machine for itself, and these, in lower case.
    Named(Vec<String>),
}

impl Hosts {
    /// Reads names that are allowed.
    ///
    /// # Errors
    /// A text is not the name of a host.
    pub(crate) fn named(texts: &[String]) -> Result<Self, String> {
        let name = |text: &String| {
            let authority = text.parse::<Authority>().ok();
            let is_host = authority.is_some_and(|authority| authority.host() == text && !text.is_empty());
            let invalid = || {
                format!(
                    "allowed hosts: expected a name without a port (`models.internal`), found `{}`",
                    text.escape_debug()
                )
            };
            is_host.then(|| text.to_ascii_lowercase()).ok_or_else(invalid)
        };
        texts.iter().map(name).collect::<Result<_, _>>().map(Self::Named)
    }

    /// Whether a request may be for this host, which can have a port.
    pub(crate) fn allow(&self, authority: &str) -> bool {
        let Self::Named(names) = self else { return true };
        let Ok(authority) = authority.parse::<Authority>() else { return false };
        let host = authority.host().trim_end_matches('.').to_ascii_lowercase();
        // No other name leads to a request for an address, so that such a request is no attack by a name.
        let is_address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
        is_address || host == "localhost" || host.ends_with(".localhost") || names.contains(&host)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn names_that_nobody_else_can_have_are_allowed() {
        let hosts = Hosts::named(&["Models.internal".to_owned()]).unwrap();
        for host in
            ["127.0.0.1:8080", "[::1]:8080", "10.0.0.1", "localhost", "LOCALHOST:80", "a.localhost", "localhost."]
        {
            assert!(hosts.allow(host), "{host}");
        }
        assert!(hosts.allow("models.internal:8080"));
        for host in [
            "",
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "models",
            "a b",
        ] {
            assert!(!hosts.allow(host), "{host}");
            assert!(Hosts::Any.allow(host));
        }
        for text in ["", "a:80", "http://a", "a/b", "a b", "me@a"] {
            assert!(Hosts::named(&[text.to_owned()]).unwrap_err().contains("allowed hosts: expected"), "{text}");
        }
    }
}
