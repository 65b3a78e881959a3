//! Who reads what the runner sends: a thread of the connection, or a caller whose answer comes soon.
//!
//! Threads take turns at reading, as those of a runner do. A caller that spins for its answer takes the turn and reads the answer itself, so that no
//! other thread has to wake up for it. It never waits for the rest of a message, and handles no message that comes with descriptors, because
//! closing one can take long: a runner must not block a task. At all other times the thread of the connection has the turn.

use std::io;
use std::ops::ControlFlow;

use parking_lot::MutexGuard;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::calls::Answer;
use super::dispatch::{dispatch, greet, last_words};
use super::incoming::Incoming;
use super::shared::Shared;
use super::{CallError, CloseReason};
use crate::frame::Frame;
use crate::transport::reader::{FrameReader, ReadError, TryNext};

/// The thread of the connection: reads messages until the connection is closed. Never waits for the runner to read, so the runner can
/// always finish what it sends.
pub(super) fn read(shared: &Shared, our_features: &[&str], said_hello: oneshot::Sender<()>) {
    let Incoming { reader, turn } = &shared.incoming;
    let mut held = HeldTurn::new(shared, reader.lock());
    let greeted = greet(shared, &mut held.reader, our_features);
    let is_greeted = held.is_well(greeted);
    drop(held);
    if !is_greeted {
        return;
    }
    // If the caller has given up, the connection is closed, and reading fails.
    let _ = said_hello.send(());
    loop {
        if let Err(error) = turn.wait() {
            return close(shared, error.into());
        }
        let reader = reader.lock();
        if shared.closed.borrow().is_some() {
            return;
        }
        // A caller may have taken the turn meanwhile and read what woke this thread. It has passed the turn on.
        if turn.is_taken_in_turns() && reader.is_readable() == Some(false) {
            continue;
        }
        let mut held = HeldTurn::new(shared, reader);
        // What was read ahead is handled before the turn is passed, because passing it costs calls of the system.
        loop {
            let frame = held.reader.next();
            if !held.handle(frame) {
                return;
            }
            if !held.reader.has_read_ahead() {
                break;
            }
        }
    }
}

/// Waits a moment for the answer to a call. `None` if it has not come yet, or if there will be none.
pub(super) fn spin(
    shared: &Shared,
    answer: &mut oneshot::Receiver<Result<Answer, CallError>>,
) -> Option<Result<Answer, CallError>> {
    let attempt = shared.spin.attempt()?;
    let mut look = || match answer.try_recv() {
        Ok(answer) => ControlFlow::Break(Some(answer)),
        Err(TryRecvError::Closed) => ControlFlow::Break(Some(Err(shared.closed_error()))),
        Err(TryRecvError::Empty) => ControlFlow::Continue(()),
    };
    let Incoming { reader, turn } = &shared.incoming;
    let Some(reader) = reader.try_lock().filter(|_| turn.take().is_ok_and(|taken| taken)) else {
        // The thread of the connection is reading.
        return attempt.wait(look);
    };
    let mut held = HeldTurn::new(shared, reader);
    attempt.wait(|| {
        let found = look();
        if found.is_break() {
            return found;
        }
        let frame = match held.reader.try_next() {
            Ok(TryNext::Frame(frame)) => Ok(frame),
            Ok(TryNext::NotYet) => return ControlFlow::Continue(()),
            Ok(TryNext::ToBeWaitedFor) => return ControlFlow::Break(None),
            Err(error) => Err(error),
        };
        if !held.handle(frame) {
            return ControlFlow::Break(None);
        }
        match look() {
            // It was something else, such as the answer to another call, whose task this one must not keep from running.
            ControlFlow::Continue(()) => ControlFlow::Break(None),
            found => found,
        }
    })
}

/// The turn to read, with the lock on the reader.
///
/// Dropping this passes the turn and then releases the lock. In the other order, a second thread could read and pass its turn in between. The first
/// thread's turn would then wake a thread for bytes that are read already, and no thread would wait for the next bytes.
///
/// If the runner broke the protocol, the connection is closed first, so that no other thread reads on.
struct HeldTurn<'a> {
    shared: &'a Shared,
    reader: MutexGuard<'a, FrameReader>,
    broken: Option<CloseReason>,
    /// Whether a message is being handled. It still is when a callback has panicked.
    is_handling: bool,
}

impl<'a> HeldTurn<'a> {
    fn new(shared: &'a Shared, reader: MutexGuard<'a, FrameReader>) -> Self {
        Self { shared, reader, broken: None, is_handling: false }
    }

    /// Handles a message. Returns whether reading goes on.
    fn handle(&mut self, frame: Result<Frame, ReadError>) -> bool {
        self.is_handling = true;
        let handled = frame.map_err(CloseReason::from).and_then(|frame| dispatch(self.shared, &mut self.reader, frame));
        self.is_handling = false;
        self.is_well(handled)
    }

    fn is_well(&mut self, result: Result<(), CloseReason>) -> bool {
        self.broken = result.err();
        self.broken.is_none()
    }
}

impl Drop for HeldTurn<'_> {
    fn drop(&mut self) {
        let panicked = || CloseReason::from(io::Error::other("a callback for messages of the runner panicked"));
        if let Some(reason) = self.broken.take().or_else(|| self.is_handling.then(panicked)) {
            close(self.shared, reason);
        }
        if let Err(error) = self.shared.incoming.turn.pass(self.reader.has_read_ahead()) {
            close(self.shared, error.into());
        }
    }
}

fn close(shared: &Shared, reason: CloseReason) {
    last_words(shared, &reason);
    shared.close(reason);
}
