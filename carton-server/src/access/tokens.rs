//! Bearer tokens (RFC 6750): one set for calls, one for administration.

use sha2::{Digest, Sha256};

use crate::failure::{Failure, Reason};

/// What a request asks for, which decides the tokens that allow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Calls, and what the server says of its models.
    Calls,
    /// Loading and unloading models.
    Administration,
}

/// The accepted tokens. Only their SHA-256 is kept, so that comparing them takes the same time whatever a client sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens {
    calls: Vec<[u8; 32]>,
    administration: Vec<[u8; 32]>,
}

impl Tokens {
    pub(crate) fn allow(&mut self, scope: Scope, token: &str) {
        let digests = match scope {
            Scope::Calls => &mut self.calls,
            Scope::Administration => &mut self.administration,
        };
        digests.push(digest(token));
    }

    /// Whether calls need a token.
    pub(crate) fn are_needed(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Checks the value of the header `Authorization`. A token for administration allows calls, too. If there are tokens for calls and none for
    /// administration, the server refuses all administration.
    ///
    /// # Errors
    /// The token is missing or wrong, or does not allow this.
    pub(crate) fn check(&self, scope: Scope, authorization: Option<&[u8]>) -> Result<(), Failure> {
        let is_open = match scope {
            Scope::Calls => self.calls.is_empty(),
            Scope::Administration => self.calls.is_empty() && self.administration.is_empty(),
        };
        if is_open {
            return Ok(());
        }
        let unauthenticated = |reason| Failure::new(Reason::Unauthenticated, reason);
        let token =
            authorization.and_then(|value| std::str::from_utf8(value).ok()).and_then(|value| value.split_once(' '));
        let token = token.filter(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty());
        let Some((_, token)) = token else {
            return Err(unauthenticated("the request needs a bearer token"));
        };
        let digest = digest(token.trim());
        match (self.administration.contains(&digest), self.calls.contains(&digest), scope) {
            (true, _, _) | (_, true, Scope::Calls) => Ok(()),
            (false, true, Scope::Administration) => {
                Err(Failure::new(Reason::Forbidden, "the token does not allow administration"))
            }
            _ => Err(unauthenticated("the bearer token is not valid")),
        }
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_allow_what_they_are_for() {
        let mut tokens = Tokens::default();
        let check = |tokens: &Tokens, scope, value: Option<&str>| {
            tokens.check(scope, value.map(str::as_bytes)).map_err(|failure| failure.reason)
        };
        assert_eq!(check(&tokens, Scope::Calls, None), Ok(()));
        assert_eq!(check(&tokens, Scope::Administration, None), Ok(()));
        tokens.allow(Scope::Calls, "call");
        assert_eq!(check(&tokens, Scope::Calls, Some("Bearer call")), Ok(()));
        assert_eq!(check(&tokens, Scope::Calls, Some("bearer  call")), Ok(()));
        assert_eq!(check(&tokens, Scope::Calls, None), Err(Reason::Unauthenticated));
        assert_eq!(check(&tokens, Scope::Calls, Some("Basic call")), Err(Reason::Unauthenticated));
        assert_eq!(check(&tokens, Scope::Calls, Some("Bearer other")), Err(Reason::Unauthenticated));
        assert_eq!(check(&tokens, Scope::Administration, Some("Bearer call")), Err(Reason::Forbidden));
        tokens.allow(Scope::Administration, "admin");
        assert_eq!(check(&tokens, Scope::Administration, Some("Bearer admin")), Ok(()));
        assert_eq!(check(&tokens, Scope::Calls, Some("Bearer admin")), Ok(()));
        assert_eq!(check(&tokens, Scope::Administration, None), Err(Reason::Unauthenticated));
    }
}
