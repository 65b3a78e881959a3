//! Serves one host: the threads that read its messages and run its calls. `dispatch` interprets the messages.
//!
//! Threads take turns at reading. The thread that has the turn reads until a call arrives, passes the turn on, and runs the call
//! itself. So no call waits for another thread to wake up. The reading thread never waits for the host to read.

use std::any::Any;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::call::{AnswerError, Call, OutputStream};
use super::dispatch::{Job, Work};
use super::state::{End, ServeError, ServeOptions, Server, lock};
use super::{Runner, RunnerError, RunnerErrorKind, Statement, Tensors};
use crate::dtypes::Dtypes;
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
/// The most shared memory a host may lend. Hosts are trusted; the limit catches one that counts wrongly.
const PEER_CAP: u64 = 8 << 40;
/// Frameworks expect the stack of a main thread.
const STACK: usize = 8 << 20;

/// The longest time for which a thread that has answered a call spins for the next one. A host that makes one call after another
/// takes about this long if its core fell asleep during the last call.
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
    // If the host is gone already, the first read reports it.
    let _ = link.send_plain(version::hello(&features, R::DTYPES, &description.name, &description.framework_version));
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
                    // The host found no version in common. The user gets its message.
                    Message::Error(error) => {
                        let found = format!("error: {}", error.message);
                        return Err(ProtocolError::ExpectedHello { found }.into());
                    }
                    other => return Err(ProtocolError::ExpectedHello { found: other.name().to_owned() }.into()),
                },
                Parsed::Unknown { name, .. } => return Err(ProtocolError::ExpectedHello { found: name }.into()),
            };
            self.link.set_peer_dtypes(Dtypes::of_names(&hello.dtypes));
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
                // Threads that look later still see the end.
                *end = Some(Ok(()));
                return result;
            }
            self.ended.wait(&mut end);
        }
    }

    /// The loop of each thread: takes the turn, reads until a call arrives, passes the turn on, and runs the call.
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

    /// Returns the next call. A thread that has just answered a call may spin for it.
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
        // After the end, passing the turn wakes the other threads, which then see the end.
        self.pass_turn(reader);
        job
    }

    fn wait_for_turn(&self) -> MutexGuard<'_, FrameReader> {
        loop {
            if let Err(error) = self.turn.wait() {
                self.finish(End::Failed(error.into()));
            }
            let reader = lock(&self.reader);
            // Another thread may have taken the turn and read what woke this one. It has passed the turn on.
            if !self.turn.is_taken_in_turns() || reader.is_readable() != Some(false) || self.has_ended() {
                return reader;
            }
        }
    }

    /// Takes the turn if the next message comes at once. This thread has just answered a call, so it is awake and its caches are
    /// warm. No other thread is woken meanwhile.
    fn take_turn(&self) -> Option<MutexGuard<'_, FrameReader>> {
        let attempt = self.spin.attempt()?;
        let reader = self.reader.try_lock()?;
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
        // Before the lock is released: turns are passed in the order in which bytes were read.
        if let Err(error) = self.turn.pass(reader.has_read_ahead()) {
            self.finish(End::Failed(error.into()));
        }
        drop(reader);
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
                    RunnerErrorKind::Unprepared => code::UNPREPARED,
                },
                code => code,
            };
            // If the connection is closed, the reading thread reports it.
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
            // No other thread sets the model, because only one gets past `loading`.
            let _ = self.model.set(model);
            return answer(Message::Loaded { max_concurrency });
        }
        if let Work::Prepare(request) = work {
            let prepared = R::prepare(request, call).map_err(failed)?;
            prepared
                .check()
                .map_err(|problem| failed(RunnerError::new(format!("the answer to `prepare`: {problem}"))))?;
            return answer(Message::Prepared(prepared));
        }
        if let Work::Pack(request) = work {
            let mut packed = R::pack(request, call).map_err(failed)?;
            let dtypes = self.link.peer_dtypes();
            dtypes.declare(&mut packed.inputs);
            dtypes.declare(&mut packed.outputs);
            return answer(Message::Packed(packed));
        }
        let Some(model) = self.model.get() else { return refused(code::NOT_LOADED, "no model is loaded") };
        match work {
            Work::Load(_) | Work::Prepare(_) | Work::Pack(_) => Ok(()),
            Work::Describe => {
                let statement = model.state(call).map_err(failed)?;
                let Statement { mut inputs, mut outputs, optional_inputs, optional_outputs, descriptions, example } =
                    statement;
                let dtypes = self.link.peer_dtypes();
                dtypes.declare(&mut inputs);
                dtypes.declare(&mut outputs);
                call.send_tensors(example, |example| Message::Described {
                    inputs,
                    outputs,
                    optional_inputs,
                    optional_outputs,
                    descriptions,
                    example,
                })
            }
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
            // The host does not want the outputs any more, so they are not copied.
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
