//! One thread per connection for deferred work: the timers of calls, and ticks while there is something to tidy up.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Work that is done on ticks.
pub(crate) trait Tick: Send + Sync {
    /// Does the work that is due. Returns the time until the next tick; `None`: no tick before [`Housekeeper::activity`].
    fn tick(&self) -> Option<Duration>;
}

/// The time from some activity to the first tick. It is long, because a tick interrupts the thread that runs on its core.
const FIRST_TICK: Duration = Duration::from_millis(50);

/// The handle to the thread. The thread ends when its subject is dropped.
pub(crate) struct Housekeeper {
    state: Mutex<State>,
    changed: Condvar,
    ticking: AtomicBool,
}

#[derive(Default)]
struct State {
    timers: BTreeMap<(Instant, u64), Waker>,
    last_timer: u64,
    next_tick: Option<Instant>,
    /// The time at which the thread wakes up; `None`: never.
    sleeping_until: Option<Instant>,
    stopped: bool,
}

impl Housekeeper {
    /// Starts the thread.
    pub(crate) fn start(subject: Weak<dyn Tick>) -> io::Result<Arc<Self>> {
        let housekeeper =
            Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), ticking: AtomicBool::new(false) });
        let thread = Arc::clone(&housekeeper);
        std::thread::Builder::new().name("carton-keeper".to_owned()).spawn(move || thread.run(&subject))?;
        Ok(housekeeper)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Asks for a tick, because something happened after which tidying up may be due. Cheap if ticks are coming already.
    pub(crate) fn activity(&self) {
        if self.ticking.load(Ordering::Relaxed) || self.ticking.swap(true, Ordering::AcqRel) {
            return;
        }
        self.lock().next_tick = Some(Instant::now() + FIRST_TICK);
        self.changed.notify_one();
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_one();
    }

    /// Wakes `waker` at `deadline`, unless the timer is dropped before.
    fn timer(&self, deadline: Instant, waker: Waker) -> Timer<'_> {
        let mut state = self.lock();
        state.last_timer += 1;
        let key = (deadline, state.last_timer);
        state.timers.insert(key, waker);
        // The thread is woken only for a timer that comes before everything it waits for.
        if state.sleeping_until.is_none_or(|until| deadline < until) {
            self.changed.notify_one();
        }
        Timer { housekeeper: self, key }
    }

    fn run(&self, subject: &Weak<dyn Tick>) {
        let mut state = self.lock();
        while !state.stopped {
            let now = Instant::now();
            let due: Vec<Waker> =
                state.timers.extract_if(..=(now, u64::MAX), |_, _| true).map(|(_, waker)| waker).collect();
            let tick = state.next_tick.is_some_and(|at| at <= now);
            if !due.is_empty() || tick {
                drop(state);
                due.into_iter().for_each(Waker::wake);
                let next = if tick { self.tick(subject) } else { None };
                state = self.lock();
                if tick && (next.is_some() || !self.ticking.load(Ordering::Acquire)) {
                    state.next_tick = next;
                }
                continue;
            }
            let first_timer = state.timers.first_key_value().map(|((at, _), _)| *at);
            let until = [first_timer, state.next_tick].into_iter().flatten().min();
            state.sleeping_until = until;
            match until {
                None => self.changed.wait(&mut state),
                Some(at) => {
                    self.changed.wait_for(&mut state, at.saturating_duration_since(now));
                }
            }
        }
    }

    fn tick(&self, subject: &Weak<dyn Tick>) -> Option<Instant> {
        // Cleared first, so that activity during the tick asks for another one.
        self.ticking.store(false, Ordering::Release);
        let Some(subject) = subject.upgrade() else {
            self.lock().stopped = true;
            return None;
        };
        let next = subject.tick()?;
        self.ticking.store(true, Ordering::Release);
        Some(Instant::now() + next)
    }

    /// Waits for `future`, at most until `deadline`.
    pub(crate) async fn within<F: Future>(&self, deadline: Option<Instant>, future: F) -> Result<F::Output, Elapsed> {
        let mut future = pin!(future);
        let mut timer: Option<Timer<'_>> = None;
        std::future::poll_fn(move |context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            let Some(deadline) = deadline else { return Poll::Pending };
            if Instant::now() >= deadline {
                return Poll::Ready(Err(Elapsed));
            }
            drop(timer.replace(self.timer(deadline, context.waker().clone())));
            Poll::Pending
        })
        .await
    }
}

/// The deadline passed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elapsed;

struct Timer<'a> {
    housekeeper: &'a Housekeeper,
    key: (Instant, u64),
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        self.housekeeper.lock().timers.remove(&self.key);
    }
}
