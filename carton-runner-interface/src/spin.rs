//! Spins for events that come soon, instead of sleeping.
//!
//! Waking a thread on another core costs more than an empty call, and a process that wakes up on another core loses its caches. A
//! thread whose last waits were short therefore yields its core repeatedly for a moment before it sleeps, and reads what comes itself. Callers
//! that wait for an answer do this, and runners that have just sent an answer and wait for the next call. At most one thread of a connection spins
//! at a time, only if earlier waits were short, and at most as many threads of a process as the machine has pairs of cores: the others work.

use std::ops::ControlFlow;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The number of vain attempts in a row after which spinning is suspended.
const PATIENCE: u32 = 3;
/// The number of waits without spinning after which it is tried again. Each further vain attempt doubles it.
const TRY_AGAIN_AFTER: u32 = 64;
/// How often the number is doubled at most. A vain attempt costs milliseconds if other processes keep the yielded core.
const DOUBLINGS: u32 = 4;

/// Decides whether the waits of one kind on one connection spin, from what earlier attempts brought.
pub(crate) struct Spin {
    longest: Duration,
    places: &'static SpinPlaces,
    is_spinning: AtomicBool,
    /// Vain attempts in a row.
    in_vain: AtomicU32,
    /// Waits without spinning that are left before the next attempt.
    rest: AtomicU32,
}

impl Spin {
    /// Creates a spin of at most `longest`.
    pub(crate) fn new(longest: Duration) -> Self {
        Self::in_places(&PLACES, longest)
    }

    fn in_places(places: &'static SpinPlaces, longest: Duration) -> Self {
        Self {
            longest,
            places,
            is_spinning: AtomicBool::new(false),
            in_vain: AtomicU32::new(0),
            rest: AtomicU32::new(0),
        }
    }

    /// Returns an attempt if spinning is worth a try now, and the process has a place for it. No other thread gets one until it is dropped.
    pub(crate) fn attempt(&self) -> Option<Attempt<'_>> {
        if !self.is_worth_it() || self.is_spinning.load(Ordering::Relaxed) {
            return None;
        }
        let place = self.places.take()?;
        let is_first = !self.is_spinning.swap(true, Ordering::Acquire);
        // Not `then_some`: dropping an attempt that was made in vain would let another thread spin beside the first.
        is_first.then(|| Attempt { spin: self, _place: place })
    }

    fn is_worth_it(&self) -> bool {
        let rest = self.rest.load(Ordering::Relaxed);
        // Two threads that count at the same time may count once. The next attempt only comes a little later.
        self.rest.store(rest.saturating_sub(1), Ordering::Relaxed);
        rest == 0
    }

    fn learn(&self, was_worth_it: bool) {
        if was_worth_it {
            self.in_vain.store(0, Ordering::Relaxed);
            return;
        }
        let in_vain = self.in_vain.load(Ordering::Relaxed).saturating_add(1);
        self.in_vain.store(in_vain, Ordering::Relaxed);
        if let Some(beyond) = in_vain.checked_sub(PATIENCE) {
            self.rest.store(TRY_AGAIN_AFTER << beyond.min(DOUBLINGS), Ordering::Relaxed);
        }
    }
}

/// The places of a process for threads that spin.
struct SpinPlaces {
    n_taken: AtomicUsize,
    n_places: usize,
}

/// The places of this process.
static PLACES: LazyLock<SpinPlaces> = LazyLock::new(|| {
    let n_cores = std::thread::available_parallelism().map_or(1, usize::from);
    SpinPlaces { n_taken: AtomicUsize::new(0), n_places: n_cores / 2 }
});

impl SpinPlaces {
    /// Takes a place; `None` if all are taken.
    fn take(&self) -> Option<SpinPlace<'_>> {
        let take = |n_taken: usize| (n_taken < self.n_places).then_some(n_taken + 1);
        self.n_taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok().map(|_| SpinPlace(self))
    }
}

/// A place, which is free again when this is dropped.
struct SpinPlace<'a>(&'a SpinPlaces);

impl Drop for SpinPlace<'_> {
    fn drop(&mut self) {
        self.0.n_taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The one thread of a connection that spins.
pub(crate) struct Attempt<'a> {
    spin: &'a Spin,
    _place: SpinPlace<'a>,
}

impl Attempt<'_> {
    /// Calls `look` until it breaks, for a moment at most. Returns the value that it breaks with, or `None` after the time. `look` breaks with
    /// `None` if waiting here makes no sense any more; that says nothing about how long waits take.
    pub(crate) fn wait<T>(self, mut look: impl FnMut() -> ControlFlow<Option<T>>) -> Option<T> {
        let until = Instant::now() + self.spin.longest;
        loop {
            match look() {
                ControlFlow::Break(Some(found)) => {
                    // If other processes keep the yielded core for long, sleeping is faster: the scheduler prefers a thread that wakes up to
                    // those that run.
                    self.spin.learn(Instant::now() < until);
                    return Some(found);
                }
                ControlFlow::Break(None) => return None,
                ControlFlow::Continue(()) if Instant::now() >= until => {
                    self.spin.learn(false);
                    return None;
                }
                // Lets the peer, or a thread that works for it, run on this core.
                ControlFlow::Continue(()) => std::thread::yield_now(),
            }
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.spin.is_spinning.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(1);

    /// Places that no other test takes.
    fn places(n_places: usize) -> &'static SpinPlaces {
        Box::leak(Box::new(SpinPlaces { n_taken: AtomicUsize::new(0), n_places }))
    }

    fn spin() -> Spin {
        Spin::in_places(places(1), SOON)
    }

    fn wait<T>(spin: &Spin, look: impl FnMut() -> ControlFlow<Option<T>>) -> Option<T> {
        spin.attempt()?.wait(look)
    }

    fn nothing() -> ControlFlow<Option<()>> {
        ControlFlow::Continue(())
    }

    #[test]
    fn what_comes_soon_is_found() {
        let mut looks = 0;
        let spin = Spin::in_places(places(1), Duration::from_secs(60));
        let found = wait(&spin, || {
            looks += 1;
            if looks < 5 { ControlFlow::Continue(()) } else { ControlFlow::Break(Some(looks)) }
        });
        assert_eq!(found, Some(5));
    }

    #[test]
    fn what_does_not_come_soon_is_not_waited_for_all_the_time() {
        let spin = spin();
        let tried: Vec<bool> =
            (0..200).map(|_| spin.attempt().map(|attempt| attempt.wait(nothing)).is_some()).collect();
        assert_eq!(tried.iter().take_while(|&&tried| tried).count(), PATIENCE as usize);
        let n_tried = tried.iter().filter(|&&tried| tried).count();
        assert!((PATIENCE as usize + 1..=PATIENCE as usize + 5).contains(&n_tried), "{n_tried}");
    }

    #[test]
    fn what_comes_late_is_found_but_was_not_worth_it() {
        let spin = spin();
        for _ in 0..PATIENCE {
            let found = wait(&spin, || {
                std::thread::sleep(SOON * 2);
                ControlFlow::Break(Some(()))
            });
            assert_eq!(found, Some(()));
        }
        assert!(spin.attempt().is_none());
    }

    #[test]
    fn it_is_tried_as_before_once_it_was_worth_it_again() {
        let spin = spin();
        for _ in 0..100 {
            let _: Option<()> = wait(&spin, nothing);
        }
        assert!((0..1000).any(|_| wait(&spin, || ControlFlow::Break(Some(()))).is_some()));
        assert!((0..100).all(|_| wait(&spin, || ControlFlow::Break(Some(()))).is_some()));
    }

    #[test]
    fn one_thread_spins_at_a_time() {
        let spin = Spin::in_places(places(8), SOON);
        let first = spin.attempt();
        assert!(first.is_some());
        for _ in 0..3 {
            assert!(spin.attempt().is_none());
        }
        drop(first);
        assert!(spin.attempt().is_some());
    }

    #[test]
    fn as_many_threads_of_a_process_spin_as_may() {
        let places = places(2);
        let spins = [(); 4].map(|()| Spin::in_places(places, SOON));
        let mut attempts: Vec<_> = spins.iter().map(Spin::attempt).collect();
        let is_spinning =
            |attempts: &[Option<Attempt<'_>>]| -> Vec<bool> { attempts.iter().map(Option::is_some).collect() };
        assert_eq!(is_spinning(&attempts), [true, true, false, false]);
        attempts.clear();
        assert!(spins[3].attempt().is_some());
        // On a machine with one core.
        assert!(Spin::in_places(self::places(0), SOON).attempt().is_none());
    }
}
