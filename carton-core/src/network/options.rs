//! What requests may cost.

use std::time::Duration;

use super::Credentials;

/// Limits and permissions of all requests. Build it from the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkOptions {
    /// Refuses every request. That is about this library's own requests, not about what a model does.
    pub offline: bool,
    /// How long a server may take to answer, and to send each further 1 KiB of a body.
    pub idle_timeout: Duration,
    /// How often a request that made no progress is sent again.
    pub max_retries: u32,
    /// The pause before the first retry. It doubles with each further one.
    pub first_pause: Duration,
    /// How many redirects are followed.
    pub max_redirects: usize,
    /// How many ranges of one file are fetched at once.
    pub n_ranges: usize,
    /// Who we are to servers.
    pub credentials: Credentials,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self {
            offline: false,
            idle_timeout: Duration::from_secs(30),
            max_retries: 5,
            first_pause: Duration::from_millis(250),
            max_redirects: 10,
            n_ranges: 4,
            credentials: Credentials::default(),
        }
    }
}
