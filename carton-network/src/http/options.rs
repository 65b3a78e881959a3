//! Limits and permissions of requests.

use std::time::Duration;

use super::{Credentials, ProxyConfig};

/// Limits and permissions of all requests. Build it from the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkOptions {
    /// Refuses every request. This concerns only the library's own requests, not what a model does.
    pub offline: bool,
    /// How long a server may take to answer, and to send each further 1 KiB of a body.
    pub idle_timeout: Duration,
    /// How many times a request is retried without progress in between.
    pub max_retries: u32,
    /// The pause before the first retry. It doubles with each further retry.
    pub first_pause: Duration,
    /// The largest number of redirects that are followed.
    pub max_redirects: usize,
    /// The number of ranges of one file that are fetched at once.
    pub n_ranges: usize,
    /// The credentials for servers.
    pub credentials: Credentials,
    /// The proxy that requests go through.
    pub proxy: ProxyConfig,
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
            proxy: ProxyConfig::default(),
        }
    }
}
