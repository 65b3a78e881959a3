//! How much one request asks for.
//!
//! What a killed process had asked for and not read yet is lost: the server has sent it, at least into the buffers of the
//! connection. Large requests cost less, though: each begins with a round trip in which nothing arrives. So requests begin
//! small and grow with what this attempt has received, which bounds the loss to a share of it. Where a round trip takes long
//! they grow at once: then the network is what limits, and the buffers are empty.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

/// The first request of an attempt.
pub(super) const SMALLEST: u64 = 256 << 10;
const LARGEST: u64 = 8 << 20;
/// All requests that are under way ask for at most one part in so many of what was received.
const SHARE: u64 = 8;
/// A round trip should be a small part of a request even on a connection that is this fast.
const BYTES_PER_SECOND: u64 = 200_000_000;

/// What the attempt has seen so far.
#[derive(Debug, Default)]
pub(super) struct Pace {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    received: u64,
    /// The shortest time from a request to the head of its answer; the first request also sets up the client and is not
    /// counted.
    round_trip: Option<Duration>,
}

impl Pace {
    pub(super) fn add_received(&self, n_bytes: u64) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).received += n_bytes;
    }

    pub(super) fn add_round_trip(&self, took: Duration) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.round_trip = Some(seen.round_trip.map_or(took, |shortest| shortest.min(took)));
    }

    /// How much the next request asks for, when so many bytes are missing and so many requests run at once.
    pub(super) fn size(&self, missing: u64, n_requests: usize) -> u64 {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let n_requests = (n_requests as u64).max(1);
        let by_round_trip = seen.round_trip.map_or(0, |took| {
            let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            micros.saturating_mul(BYTES_PER_SECOND / 1_000_000)
        });
        let grown = (seen.received / (SHARE * n_requests)).max(by_round_trip);
        // Towards the end, nobody gets more than the others, so that all end together.
        grown.min(missing / n_requests).clamp(SMALLEST, LARGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_grow_with_what_was_received() {
        let pace = Pace::default();
        let plenty = 1 << 40;
        assert_eq!(pace.size(plenty, 4), SMALLEST);
        pace.add_received(64 << 20);
        assert_eq!(pace.size(plenty, 4), 2 << 20);
        pace.add_received(1 << 30);
        assert_eq!(pace.size(plenty, 4), LARGEST);
        assert_eq!(pace.size(8 << 20, 4), 2 << 20);
        assert_eq!(pace.size(0, 0), SMALLEST);
    }

    #[test]
    fn long_round_trips_ask_for_more_at_once() {
        let pace = Pace::default();
        pace.add_round_trip(Duration::from_millis(90));
        assert_eq!(pace.size(1 << 40, 4), LARGEST);
        pace.add_round_trip(Duration::from_millis(5));
        assert_eq!(pace.size(1 << 40, 4), 1_000_000);
        // One that was held up for once says nothing.
        pace.add_round_trip(Duration::from_millis(500));
        assert_eq!(pace.size(1 << 40, 4), 1_000_000);
        pace.add_round_trip(Duration::MAX);
        pace.add_round_trip(Duration::from_micros(100));
        assert_eq!(pace.size(1 << 40, 4), SMALLEST);
    }
}
