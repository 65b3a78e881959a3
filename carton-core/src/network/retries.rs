//! Trying again: how often, and after which pause.

use std::time::Duration;

use super::{NetworkError, NetworkOptions};

/// The longest pause, whatever a server asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The attempts at one request.
#[derive(Debug)]
pub struct Retries {
    max_retries: u32,
    first_pause: Duration,
    failures: u32,
}

impl Retries {
    pub(super) fn new(options: &NetworkOptions) -> Retries {
        Retries { max_retries: options.max_retries, first_pause: options.first_pause, failures: 0 }
    }

    /// To be called when an attempt got somewhere: what failed before it does not count any more.
    pub fn progress(&mut self) {
        self.failures = 0;
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// `error` itself, when another attempt would not help or there were enough of them.
    pub async fn pause(&mut self, error: NetworkError) -> Result<(), NetworkError> {
        if !error.is_transient() || self.failures >= self.max_retries {
            return Err(error);
        }
        let asked = match &error {
            NetworkError::Status { retry_after, .. } => *retry_after,
            _ => None,
        };
        let pause = asked.unwrap_or(self.first_pause * 2_u32.saturating_pow(self.failures)).min(LONGEST_PAUSE);
        self.failures += 1;
        tracing::warn!(%error, retry = self.failures, of = self.max_retries, ?pause, "trying again");
        tokio::time::sleep(pause).await;
        Ok(())
    }
}
