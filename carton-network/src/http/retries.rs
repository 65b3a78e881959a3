//! Retries: how many, and after which pause.

use std::time::Duration;

use super::{NetworkError, NetworkOptions};

/// The longest pause, even if a server asks for more.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// This many new bytes reset the count of failures. If one byte were enough, a server could send one byte per attempt and cause as many
/// attempts as the file has bytes; with this value, the length of the file bounds the number of attempts.
const PROGRESS: u64 = 256 << 10;

/// The retry state of one request.
#[derive(Debug)]
pub struct Retries {
    max_retries: u32,
    first_pause: Duration,
    failures: u32,
    /// New bytes since the count of failures was last reset.
    n_bytes: u64,
    /// Whether new bytes arrived since the last failure.
    got_somewhere: bool,
}

impl Retries {
    pub(super) fn new(options: &NetworkOptions) -> Retries {
        Retries {
            max_retries: options.max_retries,
            first_pause: options.first_pause,
            failures: 0,
            n_bytes: 0,
            got_somewhere: false,
        }
    }

    /// Call this when an attempt received bytes that need not be fetched again. After 256 KiB of them, earlier failures no longer count.
    pub fn progress(&mut self, n_bytes: u64) {
        self.got_somewhere |= n_bytes > 0;
        self.n_bytes = self.n_bytes.saturating_add(n_bytes);
        if self.n_bytes >= PROGRESS {
            self.n_bytes = 0;
            self.failures = 0;
        }
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// Returns `error` itself if another attempt would not help, or if the limit is reached.
    pub async fn pause(&mut self, error: NetworkError) -> Result<(), NetworkError> {
        let Some(pause) = self.next(&error, fastrand::f64()) else { return Err(error) };
        let cause = carton_format::causes::in_one_line(&error);
        let plan = format!("trying again in {:.1} s ({} of {})", pause.as_secs_f64(), self.failures, self.max_retries);
        // A connection that breaks in the middle is not alarming as long as bytes arrive.
        match std::mem::take(&mut self.got_somewhere) {
            true => tracing::info!("{cause}; {plan}"),
            false => tracing::warn!("{cause}; {plan}"),
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// The pause after this error, or `None` if there is no further attempt. `chance` is between 0 and 1 and varies the pause, so that
    /// clients turned away together do not come back together.
    fn next(&mut self, error: &NetworkError, chance: f64) -> Option<Duration> {
        if !error.is_transient() || self.failures >= self.max_retries {
            return None;
        }
        let doubled = self.first_pause.saturating_mul(2_u32.saturating_pow(self.failures)).min(LONGEST_PAUSE);
        self.failures += 1;
        let pause = match error {
            // Not earlier than the server asks for, and a little later.
            NetworkError::Status { retry_after: Some(asked), .. } => {
                asked.min(&LONGEST_PAUSE).saturating_add(self.first_pause.mul_f64(chance))
            }
            _ => doubled.mul_f64(0.5 + chance / 2.0),
        };
        Some(pause.min(LONGEST_PAUSE))
    }
}

#[cfg(test)]
mod tests {
    use carton_format::url::ShownUrl;

    use super::*;
    use crate::http::HttpStatus;

    fn retries(max_retries: u32, first_pause: Duration) -> Retries {
        Retries::new(&NetworkOptions { max_retries, first_pause, ..NetworkOptions::default() })
    }

    fn cut() -> NetworkError {
        NetworkError::Cut { url: ShownUrl::of_text("http://a/b"), expected: 2, found: 1 }
    }

    fn unavailable(retry_after: u64) -> NetworkError {
        NetworkError::Status {
            url: ShownUrl::of_text("http://a/b"),
            status: HttpStatus::of(503),
            retry_after: Some(Duration::from_secs(retry_after)),
            credentials: crate::http::CredentialsSent::None,
        }
    }

    #[test]
    fn pauses_double_and_end() {
        let mut retries = retries(4, Duration::from_secs(1));
        let pauses: Vec<_> = std::iter::from_fn(|| retries.next(&cut(), 1.0)).map(|pause| pause.as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8]);
        assert_eq!(retries.next(&cut(), 1.0), None);
    }

    #[test]
    fn no_pause_is_longer_than_the_longest() {
        let mut many = retries(u32::MAX, Duration::from_secs(u64::MAX / 2));
        assert!((0..100).all(|_| many.next(&cut(), 1.0) == Some(LONGEST_PAUSE)));
        assert_eq!(many.next(&unavailable(u64::MAX), 1.0), Some(LONGEST_PAUSE));
    }

    #[test]
    fn what_the_server_asks_for_is_waited_at_least() {
        let mut retries = retries(9, Duration::from_millis(100));
        assert_eq!(retries.next(&unavailable(3), 0.0), Some(Duration::from_secs(3)));
        assert_eq!(retries.next(&unavailable(3), 1.0), Some(Duration::from_millis(3100)));
    }

    #[test]
    fn a_byte_now_and_then_is_no_progress() {
        let mut slow = retries(3, Duration::ZERO);
        for _ in 0..3 {
            slow.progress(1);
            assert!(slow.next(&cut(), 0.0).is_some());
        }
        slow.progress(1);
        assert_eq!(slow.next(&cut(), 0.0), None);
        let mut fast = retries(3, Duration::ZERO);
        for _ in 0..100 {
            fast.progress(PROGRESS / 2);
            assert!(fast.next(&cut(), 0.0).is_some());
        }
    }

    #[test]
    fn what_cannot_help_is_not_tried() {
        let refused = NetworkError::TooLarge { url: ShownUrl::of_text("http://a/b"), limit: 1 };
        assert_eq!(retries(3, Duration::ZERO).next(&refused, 0.0), None);
    }
}
