//! Who reads what the runner sends: a thread of the connection, or a caller whose answer comes soon.
//!
//! Threads take turns at reading, as those of a runner do. A caller that spins for its answer takes the turn and reads the answer itself, so that no
//! other thread has to wake up for it. It never waits for the rest of a message: a runner that sends half of one must not block a task. At all
//! other times the thread of the connection has the turn.

use std::ops::ControlFlow;

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::calls::Answer;
use super::dispatch::{dispatch, greet, last_words};
use super::incoming::Incoming;
use super::shared::Shared;
use super::{CallError, CloseReason};
use crate::transport::reader::FrameReader;

/// The thread of the connection: reads messages until the connection is closed. Never waits for the runner to read, so the runner can
/// always finish what it sends.
pub(super) fn read(shared: &Shared, our_features: &[&str], said_hello: oneshot::Sender<()>) {
    let Err(reason) = read_until_closed(shared, our_features, said_hello);
    close(shared, reason);
}

/// The value of what does not end but by an error.
enum Never {}

fn read_until_closed(
    shared: &Shared,
    our_features: &[&str],
    said_hello: oneshot::Sender<()>,
) -> Result<Never, CloseReason> {
    let Incoming { reader, turn } = &shared.incoming;
    let more = {
        let mut reader = reader.lock();
        greet(shared, &mut reader, our_features)?;
        reader.has_read_ahead()
    };
    turn.pass(more)?;
    // If the caller has given up, the connection is closed, and reading fails.
    let _ = said_hello.send(());
    loop {
        turn.wait()?;
        let mut reader = reader.lock();
        // A caller may have taken the turn meanwhile and read what woke this thread. It passes the turn on.
        if reader.is_readable() == Some(false) {
            continue;
        }
        // What was read ahead is handled before the turn is passed, because passing it costs two calls of the system.
        loop {
            let frame = reader.next()?;
            dispatch(shared, &mut reader, frame)?;
            if !reader.has_read_ahead() {
                break;
            }
        }
        drop(reader);
        turn.pass(false)?;
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
        Err(TryRecvError::Closed) => ControlFlow::Break(None),
        Err(TryRecvError::Empty) => ControlFlow::Continue(()),
    };
    let Incoming { reader, turn } = &shared.incoming;
    let Some(mut reader) = reader.try_lock().filter(|_| turn.take().is_ok_and(|taken| taken)) else {
        // The thread of the connection is reading.
        return attempt.wait(look);
    };
    let mut broken = None;
    // One message each time, so that a runner that sends without end does not keep the caller longer than it may spin.
    let answered = attempt.wait(|| match look() {
        ControlFlow::Continue(()) => match read_one(shared, &mut reader) {
            Ok(true) => look(),
            Ok(false) => ControlFlow::Continue(()),
            Err(reason) => {
                broken = Some(reason);
                ControlFlow::Break(None)
            }
        },
        found => found,
    });
    let more = reader.has_read_ahead();
    drop(reader);
    // Closed first: the thread of the connection finds the connection closed, and its reason, when it has the turn.
    if let Some(reason) = broken {
        close(shared, reason);
    }
    if let Err(error) = turn.pass(more) {
        close(shared, error.into());
    }
    answered
}

/// Handles the next message if it has arrived whole. Returns whether it has.
fn read_one(shared: &Shared, reader: &mut FrameReader) -> Result<bool, CloseReason> {
    let Some(frame) = reader.try_next()? else { return Ok(false) };
    dispatch(shared, reader, frame)?;
    Ok(true)
}

fn close(shared: &Shared, reason: CloseReason) {
    last_words(shared, &reason);
    shared.close(reason);
}
