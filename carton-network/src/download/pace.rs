//! Decides how many bytes one request asks for.
//!
//! A killed process loses the bytes that it requested but had not read: the server has sent them, at least into the buffers of the
//! connection. Large requests are cheaper, though, because each request begins with a round trip in which nothing arrives. So requests
//! begin small and grow with the bytes that this attempt has received, which limits the loss to a share of them. Where a round trip takes
//! long, they grow at once: there the network is the bottleneck, and the buffers are nearly empty.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

/// The size of the first requests of an attempt, in bytes.
pub(super) const SMALLEST: u64 = 128 << 10;
const LARGEST: u64 = 8 << 20;
/// All requests in progress together ask for at most this fraction (1/8) of the received bytes.
const SHARE: u64 = 8;

/// A shorter round trip may be one within this machine, where the buffers are full.
const LONG_ROUND_TRIP: Duration = Duration::from_millis(5);
/// This many round trips are needed before they count, because a single one can be delayed for many reasons.
const N_ROUND_TRIPS: u32 = 6;
/// With this value, a long round trip is a tenth of a request's duration on a connection of 100 MB/s.
const BYTES_PER_SECOND: u64 = 1_000_000_000;
const LARGEST_OF_LONG: u64 = 32 << 20;

/// The measurements of this attempt so far.
#[derive(Debug, Default)]
pub(super) struct Pace {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    received: u64,
    /// The shortest time from a request to the head of its answer.
    round_trip: Option<Duration>,
    n_round_trips: u32,
}

impl Pace {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock()
    }

    pub(super) fn add_received(&self, n_bytes: u64) {
        self.seen().received += n_bytes;
    }

    /// Call this for every request but the first, whose time includes setting up the connection.
    pub(super) fn add_round_trip(&self, took: Duration) {
        let mut seen = self.seen();
        seen.round_trip = Some(seen.round_trip.map_or(took, |shortest| shortest.min(took)));
        seen.n_round_trips = seen.n_round_trips.saturating_add(1);
    }

    /// The number of bytes for the next request, with `missing` bytes left and `n_requests` requests at once.
    pub(super) fn size(&self, missing: u64, n_requests: usize) -> u64 {
        let seen = self.seen();
        let n_requests = (n_requests as u64).max(1);
        let by_share = (seen.received / (SHARE * n_requests)).clamp(SMALLEST, LARGEST);
        let by_round_trip = match seen.round_trip {
            Some(took) if took >= LONG_ROUND_TRIP && seen.n_round_trips >= N_ROUND_TRIPS => {
                let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                micros.saturating_mul(BYTES_PER_SECOND / 1_000_000).min(LARGEST_OF_LONG)
            }
            _ => 0,
        };
        // Towards the end each task gets an equal share, so that all end together, unless that costs more round trips than it is worth.
        let share_of_rest = (missing / n_requests).max(by_round_trip / 8).max(SMALLEST);
        by_share.max(by_round_trip).min(share_of_rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLENTY: u64 = 1 << 40;

    #[test]
    fn requests_grow_with_what_was_received() {
        let pace = Pace::default();
        assert_eq!(pace.size(PLENTY, 4), SMALLEST);
        pace.add_received(64 << 20);
        assert_eq!(pace.size(PLENTY, 4), 2 << 20);
        pace.add_received(1 << 30);
        assert_eq!(pace.size(PLENTY, 4), LARGEST);
        assert_eq!(pace.size(8 << 20, 4), 2 << 20);
        assert_eq!(pace.size(0, 0), SMALLEST);
    }

    #[test]
    fn long_round_trips_ask_for_more_at_once() {
        let pace = Pace::default();
        (0..6).for_each(|_| pace.add_round_trip(Duration::from_millis(90)));
        assert_eq!(pace.size(PLENTY, 4), LARGEST_OF_LONG);
        assert_eq!(pace.size(1, 4), LARGEST_OF_LONG / 8);
        pace.add_round_trip(Duration::from_millis(5));
        assert_eq!(pace.size(PLENTY, 4), 5_000_000);
        // A single delayed round trip does not matter.
        pace.add_round_trip(Duration::MAX);
        assert_eq!(pace.size(PLENTY, 4), 5_000_000);
        pace.add_round_trip(Duration::from_micros(100));
        assert_eq!(pace.size(PLENTY, 4), SMALLEST);
    }

    #[test]
    fn a_few_round_trips_tell_nothing() {
        let pace = Pace::default();
        (0..5).for_each(|_| pace.add_round_trip(Duration::from_millis(90)));
        assert_eq!(pace.size(PLENTY, 4), SMALLEST);
    }
}
