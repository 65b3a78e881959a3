//! Waits for quick answers without going to sleep.
//!
//! Waking a thread on another core costs more than an empty call. A caller whose last calls were answered within
//! microseconds therefore gives its core away again and again for a moment, instead of sleeping, before it waits properly.
//! One caller a connection does so at a time, only where there is more than one core, and only after quick answers.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

/// How long a caller spins at most.
const LONGEST: Duration = Duration::from_micros(40);
/// After so many answers that did not come while the caller spun, the next ones are not spun for.
const PATIENCE: u32 = 3;
/// How many calls later it is tried again.
const TRY_AGAIN_AFTER: u32 = 64;

/// What the calls of one connection have learnt.
pub(super) struct Spin {
    has_cores: bool,
    is_spinning: AtomicBool,
    /// Answers in a row that were slow, and then calls since.
    slow: AtomicU32,
}

impl Spin {
    pub(super) fn new() -> Self {
        let has_cores = std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
        Self { has_cores, is_spinning: AtomicBool::new(false), slow: AtomicU32::new(0) }
    }

    /// The answer, if it comes at once. Blocks the thread for a few microseconds.
    pub(super) fn receive<T>(&self, answer: &mut oneshot::Receiver<T>) -> Option<T> {
        if !self.has_cores || !self.is_worth_it() || self.is_spinning.swap(true, Ordering::Acquire) {
            return None;
        }
        let until = Instant::now() + LONGEST;
        let received = loop {
            match answer.try_recv() {
                Ok(answer) => break Some(answer),
                Err(TryRecvError::Closed) => break None,
                Err(TryRecvError::Empty) if Instant::now() >= until => break None,
                // Whoever has something to do on this core, the runner or the thread that reads from it, does it now.
                Err(TryRecvError::Empty) => std::thread::yield_now(),
            }
        };
        self.is_spinning.store(false, Ordering::Release);
        match &received {
            Some(_) => self.slow.store(0, Ordering::Relaxed),
            None => drop(self.slow.fetch_add(1, Ordering::Relaxed)),
        }
        received
    }

    fn is_worth_it(&self) -> bool {
        let slow = self.slow.load(Ordering::Relaxed);
        if slow < PATIENCE {
            return true;
        }
        let next = if slow >= PATIENCE + TRY_AGAIN_AFTER { PATIENCE - 1 } else { slow + 1 };
        self.slow.store(next, Ordering::Relaxed);
        false
    }
}
