//! Waits for what comes at once without going to sleep.
//!
//! Waking a thread on another core costs more than an empty call, and a process that wakes up on another core than it slept on
//! leaves its caches behind. A thread whose last waits were short therefore gives its core away again and again for a moment,
//! instead of sleeping, before it waits properly: a caller that waits for an answer, and a runner that has just sent one and
//! waits for the next call. One thread a connection does so at a time, only where there is more than one core, and only
//! after waits that were worth it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// After so many waits that were in vain, the next ones are not tried.
const PATIENCE: u32 = 3;
/// How many waits later it is tried again, at first; each time that this is in vain too, twice as many.
const TRY_AGAIN_AFTER: u32 = 64;
/// How often that is doubled: a wait costs milliseconds where others keep the core that was given away.
const DOUBLINGS: u32 = 4;

/// What the waits of one kind on one connection have learnt.
pub(crate) struct Spin {
    longest: Duration,
    has_cores: bool,
    is_spinning: AtomicBool,
    /// Waits in a row that were in vain.
    in_vain: AtomicU32,
    /// Waits that are not tried before the next one that is.
    rest: AtomicU32,
}

impl Spin {
    /// Spins for at most `longest`.
    pub(crate) fn new(longest: Duration) -> Self {
        let has_cores = std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
        Self {
            longest,
            has_cores,
            is_spinning: AtomicBool::new(false),
            in_vain: AtomicU32::new(0),
            rest: AtomicU32::new(0),
        }
    }

    /// What `look` breaks with, if it does so at once. Blocks the thread for a few microseconds.
    pub(crate) fn wait<T>(&self, look: impl FnMut() -> ControlFlow<Option<T>>) -> Option<T> {
        let attempt = self.attempt()?;
        attempt.wait(look)
    }

    /// Whether waiting is worth a try now; nobody else tries meanwhile.
    pub(crate) fn attempt(&self) -> Option<Attempt<'_>> {
        let may = self.has_cores && self.is_worth_it() && !self.is_spinning.swap(true, Ordering::Acquire);
        may.then_some(Attempt(self))
    }

    fn is_worth_it(&self) -> bool {
        let rest = self.rest.load(Ordering::Relaxed);
        // Two threads that count at once count once: it is tried a little later.
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

/// The one thread that spins.
pub(crate) struct Attempt<'a>(&'a Spin);

impl Attempt<'_> {
    /// As [`Spin::wait`].
    pub(crate) fn wait<T>(self, mut look: impl FnMut() -> ControlFlow<Option<T>>) -> Option<T> {
        let until = Instant::now() + self.0.longest;
        let found = loop {
            match look() {
                ControlFlow::Break(found) => break found,
                ControlFlow::Continue(()) if Instant::now() >= until => break None,
                // Whoever has something to do on this core, the peer or a thread that works for it, does it now.
                ControlFlow::Continue(()) => std::thread::yield_now(),
            }
        };
        // Where others keep the core for long once it is given away, waiting properly is faster: whoever sleeps is woken, and comes
        // before those who run.
        self.0.learn(found.is_some() && Instant::now() < until);
        found
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.0.is_spinning.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(1);

    fn spin() -> Spin {
        Spin { has_cores: true, ..Spin::new(SOON) }
    }

    fn nothing() -> ControlFlow<Option<()>> {
        ControlFlow::Continue(())
    }

    #[test]
    fn what_comes_soon_is_found() {
        let mut looks = 0;
        let found = Spin { has_cores: true, ..Spin::new(Duration::from_secs(60)) }.wait(|| {
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
            let found = spin.wait(|| {
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
            let _: Option<()> = spin.wait(nothing);
        }
        assert!((0..1000).any(|_| spin.wait(|| ControlFlow::Break(Some(()))).is_some()));
        assert!((0..100).all(|_| spin.wait(|| ControlFlow::Break(Some(()))).is_some()));
    }

    #[test]
    fn one_thread_spins_at_a_time() {
        let spin = spin();
        let first = spin.attempt();
        assert!(first.is_some() && spin.attempt().is_none());
        drop(first);
        assert!(spin.attempt().is_some());
    }

    #[test]
    fn nobody_spins_on_the_only_core() {
        assert!(Spin { has_cores: false, ..spin() }.attempt().is_none());
    }
}
