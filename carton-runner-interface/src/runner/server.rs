//! Serves one host: the threads that read its messages and run its calls. What a message asks for is in `dispatch`.
//!
//! Threads take turns at reading. The one whose turn it is reads until a call arrives, passes the turn on, and runs the
//! call itself, so that no call waits for another thread to wake up. Whoever reads never waits for the host to read.

use std::any::Any;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::call::{AnswerError, Call, OutputStream};
use super::dispatch::{Job, Work};
use super::state::{End, ServeError, ServeOptions, Server, lock};
use super::{Runner, RunnerError, RunnerErrorKind, Tensors};
use crate::link::{Link, LinkOptions};
use crate::message::{Message, Parsed, Side, WireError, code, parse};
use crate::protocol_error::ProtocolError;
use crate::spin::Spin;
use crate::transport::Transport;
use crate::transport::reader::FrameReader;
use crate::transport::turn::Turn;
use crate::version;

/// The largest frame a runner reads.
const FRAME_CAP: u64 = 4 << 30;
/// The most shared memory a host may lend. Hosts are trusted; this is for those that count wrongly.
const PEER_CAP: u64 = 8 << 40;
/// Frameworks expect the stack of a main thread.
const STACK: usize = 8 << 20;

/// How long a thread that has answered a call spins for the next one at most: about as long as a host takes that makes one call
/// after the other, and whose core fell asleep during the last one.
const LONGEST_SPIN: Duration = Duration::from_micros(400);

/// Serves the host at the other end of `transport` until it is gone or asks to shut down. Calls that still run then are
/// cancelled, and not waited for.
///
/// # Errors
/// The host broke the protocol, or IO.
pub fn serve<R: Runner>(transport: Transport, options: ServeOptions) -> Result<(), ServeError> {
    let (sender, receiver) = transport.split();
    let link = Link::new(
        Side::Runner,
        sender,
        LinkOptions { frame_cap: options.frame_cap, pool_cap: options.pool_cap, peer_cap: PEER_CAP },
    )?;
    let mut features = vec![version::DESCRIPTORS];
    if options.shared_memory {
        features.push(version::SHARED_MEMORY);
    }
    let description = R::describe();
    // A host that is gone already is found out about by the first read.
    let _ = link.send_plain(version::hello(&features, &description.name, &description.framework_version));
    let turn = Turn::new(&receiver)?;
    let server = Arc::new(Server::<R> {
        options,
        link,
        turn,
        spin: Spin::new(LONGEST_SPIN),
        reader: Mutex::new(FrameReader::new(receiver, FRAME_CAP)),
        n_waiting: AtomicUsize::new(0),
        model: OnceLock::new(),
        loading: AtomicBool::new(false),
        calls: Mutex::default(),
        sealed: Mutex::default(),
        last_handle: AtomicU64::new(0),
        stopping: AtomicBool::new(false),
        end: Mutex::new(None),
        ended: Condvar::new(),
    });
    server.greet(&features);
    server.add_thread();
    server.wait_for_end()
}

impl<R: Runner> Server<R> {
    /// Waits for the host's hello.
    fn greet(&self, features: &[&str]) {
        let mut reader = lock(&self.reader);
        let mut greet = || -> Result<(), End> {
            let frame = reader.next()?;
            let hello = match parse(&frame.json)? {
                Parsed::Known(envelope) => match envelope.message {
                    Message::Hello(hello) => hello,
                    // The host found no version in common and says so; its words are for people.
                    Message::Error(error) => {
                        let found = format!("error: {}", error.message);
                        return Err(ProtocolError::ExpectedHello { found }.into());
                    }
                    other => return Err(ProtocolError::ExpectedHello { found: other.name().to_owned() }.into()),
                },
                Parsed::Unknown { name, .. } => return Err(ProtocolError::ExpectedHello { found: name }.into()),
            };
            if version::agree(features, &hello)?.has(version::SHARED_MEMORY) {
                self.link.memory.enable();
            }
            Ok(())
        };
        if let Err(end) = greet() {
            self.finish(end);
        }
        self.pass_turn(reader);
    }

    fn add_thread(self: &Arc<Self>) {
        let server = Arc::clone(self);
        let spawned =
            std::thread::Builder::new().name("runner".to_owned()).stack_size(STACK).spawn(move || server.work());
        if let Err(error) = spawned {
            self.finish(End::Failed(error.into()));
        }
    }

    fn wait_for_end(&self) -> Result<(), ServeError> {
        let mut end = lock(&self.end);
        loop {
            if let Some(result) = end.take() {
                // Stays ended for the threads that look at it later.
                *end = Some(Ok(()));
                return result;
            }
            end = self.ended.wait(end).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What each thread does: take a turn at reading, pass it on when a call arrived, run the call.
    fn work(self: &Arc<Self>) {
        let mut has_answered = false;
        while let Some(job) = self.next_job(has_answered) {
            if self.n_waiting.load(Ordering::Acquire) == 0 {
                self.add_thread();
            }
            self.run(job);
            has_answered = true;
        }
    }

    /// The next call. A thread that has just answered one may stay awake for it.
    fn next_job(&self, has_answered: bool) -> Option<Job> {
        self.n_waiting.fetch_add(1, Ordering::AcqRel);
        let turn = if has_answered { self.take_turn() } else { None };
        let mut reader = turn.unwrap_or_else(|| self.wait_for_turn());
        self.n_waiting.fetch_sub(1, Ordering::AcqRel);
        let mut job = None;
        while job.is_none() && !self.has_ended() {
            match reader.next().map_err(End::from).and_then(|frame| self.dispatch(&mut reader, frame)) {
                Ok(found) => job = found,
                Err(end) => self.finish(end),
            }
        }
        // Once everything has ended, this is how the other threads learn of it.
        self.pass_turn(reader);
        job
    }

    fn wait_for_turn(&self) -> MutexGuard<'_, FrameReader> {
        loop {
            if let Err(error) = self.turn.wait() {
                self.finish(End::Failed(error.into()));
            }
            let reader = lock(&self.reader);
            // A thread that took the turn may have read what this one was woken for, and has passed the turn since, or will.
            if reader.is_readable() != Some(false) || self.has_ended() {
                return reader;
            }
        }
    }

    /// The turn, if the next message comes at once: this thread, which has just answered a call, is awake, and its caches
    /// are warm. No other thread is woken meanwhile.
    fn take_turn(&self) -> Option<MutexGuard<'_, FrameReader>> {
        let attempt = self.spin.attempt()?;
        let reader = self.reader.try_lock().ok()?;
        if !self.turn.take().ok()? {
            return None;
        }
        let found = attempt.wait(|| match reader.is_readable() {
            Some(true) => ControlFlow::Break(Some(())),
            Some(false) => ControlFlow::Continue(()),
            None => ControlFlow::Break(None),
        });
        if found.is_some() {
            return Some(reader);
        }
        self.pass_turn(reader);
        None
    }

    fn pass_turn(&self, reader: MutexGuard<'_, FrameReader>) {
        let more = reader.has_read_ahead();
        drop(reader);
        if let Err(error) = self.turn.pass(more) {
            self.finish(End::Failed(error.into()));
        }
    }

    fn run(&self, job: Job) {
        let Job { call, id, work } = job;
        let answered = catch_unwind(AssertUnwindSafe(|| self.perform(&call, work)));
        let answered = answered.unwrap_or_else(|panic| {
            let message = format!("the runner panicked: {}", panic_message(panic.as_ref()));
            Err(AnswerError { code: code::PANICKED, error: RunnerError::new(message) })
        });
        if let Err(AnswerError { code, error: RunnerError { message, causes, hint, kind } }) = answered {
            let code = match code {
                _ if call.is_cancelled() => code::CANCELLED,
                code::FAILED => match kind {
                    RunnerErrorKind::Failed => code::FAILED,
                    RunnerErrorKind::Unavailable => code::UNAVAILABLE,
                    RunnerErrorKind::Network => code::NETWORK,
                    RunnerErrorKind::Setup => code::SETUP,
                },
                code => code,
            };
            // A closed connection is found out about by the thread that reads.
            let _ = call.send(Message::Error(WireError { code: code.to_owned(), message, causes, hint }));
        }
        lock(&self.calls).remove(&id);
        self.stop_when_idle();
    }

    /// Runs a call and answers it, unless it failed.
    fn perform(&self, call: &Call, work: Work) -> Result<(), AnswerError> {
        let failed = |error: RunnerError| AnswerError { code: code::FAILED, error };
        let refused = |code, message: &str| Err(AnswerError { code, error: RunnerError::new(message) });
        let answer = |message| call.send(message).map_err(|error| failed(RunnerError::from_error(&error)));
        if let Work::Load(request) = work {
            if self.loading.swap(true, Ordering::AcqRel) {
                return refused(code::ALREADY_LOADED, "a model is loaded already");
            }
            let model = R::load(request, call).map_err(|error| {
                self.loading.store(false, Ordering::Release);
                failed(error)
            })?;
            let max_concurrency = model.max_concurrency().max(1) as u64;
            // Nobody else sets it: `loading` is set once.
            let _ = self.model.set(model);
            return answer(Message::Loaded { max_concurrency });
        }
        if let Work::Pack(request) = work {
            return answer(Message::Packed(R::pack(request, call).map_err(failed)?));
        }
        let Some(model) = self.model.get() else { return refused(code::NOT_LOADED, "no model is loaded") };
        match work {
            Work::Load(_) | Work::Pack(_) => Ok(()),
            Work::Infer(inputs) => self.answer_outputs(call, model.infer(inputs, call).map_err(failed)?),
            Work::Stream(inputs) => {
                model.infer_stream(inputs, call, &mut OutputStream::new(call)).map_err(failed)?;
                answer(Message::StreamEnd {})
            }
            Work::Seal(inputs) => {
                let sealed = model.seal(inputs, call).map_err(failed)?;
                let handle = self.last_handle.fetch_add(1, Ordering::Relaxed) + 1;
                lock(&self.sealed).insert(handle, Arc::new(sealed));
                answer(Message::Sealed { handle })
            }
            Work::InferSealed(handle) => {
                let sealed = lock(&self.sealed).get(&handle).cloned();
                let Some(sealed) = sealed else {
                    return refused(code::UNKNOWN_HANDLE, &format!("no inputs are sealed under handle {handle}"));
                };
                let outputs = model.infer_sealed(&sealed, call).map_err(failed)?;
                self.answer_outputs(call, outputs)
            }
        }
    }

    fn answer_outputs(&self, call: &Call, outputs: Tensors) -> Result<(), AnswerError> {
        if call.is_cancelled() {
            // Nobody wants them: not worth a copy.
            return Err(AnswerError { code: code::CANCELLED, error: RunnerError::new("the call was cancelled") });
        }
        call.send_tensors(outputs, |outputs| Message::Inferred { outputs })
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("with no message")
}
