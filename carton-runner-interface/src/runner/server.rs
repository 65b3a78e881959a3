//! Serves one host: reads its messages and runs its calls.
//!
//! Threads take turns at reading. The one whose turn it is reads until a call arrives, passes the turn on, and runs the
//! call itself, so that no call waits for another thread to wake up. Whoever reads never waits for the host to read.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::call::{AnswerError, Call, CallState, OutputStream};
use super::files::{ModelFiles, Range};
use super::{LoadRequest, PackRequest, Runner, RunnerError, Sealed, Tensors};
use crate::frame::Frame;
use crate::link::{Link, LinkOptions, Outbound};
use crate::message::{self, Message, Parsed, Side, WireEntry, WireError, WireFiles, WireSource, code, parse};
use crate::protocol_error::ProtocolError;
use crate::shared_memory::peer::MapError;
use crate::tensor_encoding::decode;
use crate::transport::Transport;
use crate::transport::reader::{FrameReader, ReadError};
use crate::transport::turn::Turn;
use crate::version;

/// The largest frame a runner reads or writes.
const FRAME_CAP: u64 = 4 << 30;
/// The most shared memory a host may lend. Hosts are trusted; this is for those that count wrongly.
const PEER_CAP: u64 = 8 << 40;
/// Loads and packs that may run at once.
const PREPARATION_CAP: usize = 8;
/// Frameworks expect the stack of a main thread.
const STACK: usize = 8 << 20;

/// Why a runner stopped serving, other than by the end of its host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The host broke the protocol, or speaks another one.
    #[error("the host broke the protocol")]
    Protocol(#[from] ProtocolError),
    /// The operating system failed us.
    #[error("reading from or writing to the host")]
    Io(#[from] std::io::Error),
}

/// How a runner serves.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    /// Whether tensors may travel in shared memory, where the host can do that too.
    pub shared_memory: bool,
    /// The most bytes of shared memory the runner lends out.
    pub pool_cap: u64,
    /// How long a call waits for room in a full pool.
    pub pool_wait: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self { shared_memory: true, pool_cap: 4 << 30, pool_wait: Duration::from_secs(30) }
    }
}

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
        LinkOptions { frame_cap: FRAME_CAP, pool_cap: options.pool_cap, peer_cap: PEER_CAP },
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

struct Server<R> {
    options: ServeOptions,
    link: Arc<Link>,
    turn: Turn,
    reader: Mutex<FrameReader>,
    /// Threads that wait for their turn.
    n_waiting: AtomicUsize,
    model: OnceLock<R>,
    loading: AtomicBool,
    calls: Mutex<HashMap<u64, Arc<CallState>>>,
    sealed: Mutex<HashMap<u64, Arc<Sealed>>>,
    last_handle: AtomicU64,
    stopping: AtomicBool,
    end: Mutex<Option<Result<(), ServeError>>>,
    ended: Condvar,
}

/// A call that is to be run.
struct Job {
    call: Call,
    id: u64,
    work: Work,
}

enum Work {
    Load(LoadRequest),
    Pack(PackRequest),
    Infer(Tensors),
    Stream(Tensors),
    Seal(Tensors),
    InferSealed(u64),
}

/// Why reading ended.
enum End {
    HostIsGone,
    Failed(ServeError),
}

impl From<ReadError> for End {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::EndOfFile => Self::HostIsGone,
            ReadError::Protocol(error) => Self::Failed(error.into()),
            ReadError::Io(error) => Self::Failed(error.into()),
        }
    }
}

impl From<MapError> for End {
    fn from(error: MapError) -> Self {
        match error {
            MapError::Protocol(error) => Self::Failed(error.into()),
            MapError::Io(error) => Self::Failed(error.into()),
        }
    }
}

impl From<ProtocolError> for End {
    fn from(error: ProtocolError) -> Self {
        Self::Failed(error.into())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn has_ended(&self) -> bool {
        lock(&self.end).is_some()
    }

    fn finish(&self, end: End) {
        let result = match end {
            End::HostIsGone => Ok(()),
            End::Failed(error) => Err(error),
        };
        if let Err(ServeError::Protocol(error)) = &result {
            let _ = self.link.send_plain(Message::Error(WireError {
                code: code::PROTOCOL.to_owned(),
                message: error.to_string(),
                causes: Vec::new(),
            }));
        }
        lock(&self.end).get_or_insert(result);
        self.ended.notify_all();
        self.link.close();
        lock(&self.calls).values().for_each(|call| call.cancel());
        lock(&self.sealed).clear();
    }

    /// What each thread does: take a turn at reading, pass it on when a call arrived, run the call.
    fn work(self: &Arc<Self>) {
        while let Some(job) = self.next_job() {
            if self.n_waiting.load(Ordering::Acquire) == 0 {
                self.add_thread();
            }
            self.run(job);
        }
    }

    fn next_job(&self) -> Option<Job> {
        self.n_waiting.fetch_add(1, Ordering::AcqRel);
        let waited = self.turn.wait();
        let mut reader = lock(&self.reader);
        self.n_waiting.fetch_sub(1, Ordering::AcqRel);
        if let Err(error) = waited {
            self.finish(End::Failed(error.into()));
        }
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

    fn pass_turn(&self, reader: MutexGuard<'_, FrameReader>) {
        let more = reader.has_read_ahead();
        drop(reader);
        if let Err(error) = self.turn.pass(more) {
            self.finish(End::Failed(error.into()));
        }
    }

    /// Takes one frame and does what it asks for, or returns the call it makes.
    fn dispatch(&self, reader: &mut FrameReader, frame: Frame) -> Result<Option<Job>, End> {
        let envelope = match parse(&frame.json)? {
            Parsed::Known(envelope) => envelope,
            Parsed::Unknown { id, release, name } => {
                let message = format!("this runner does not know the message `{name}`");
                self.refuse(id, code::UNKNOWN_MESSAGE, message);
                self.link.released(&release)?;
                return Ok(None);
            }
        };
        let (id, release) = (envelope.id, envelope.release);
        let job = self.handle(reader, id, envelope.message, frame.body)?;
        self.link.released(&release)?;
        Ok(job)
    }

    fn handle(
        &self,
        reader: &mut FrameReader,
        id: Option<u64>,
        message: Message,
        body: carton_tensor::AlignedBytes,
    ) -> Result<Option<Job>, End> {
        let name = message.name();
        let memory = &self.link.memory;
        let (work, credits) = match message {
            Message::Load(load) => match self.load_request(reader, load)? {
                Ok(request) => (Work::Load(request), 0),
                Err(error) => {
                    self.refuse(id, code::FAILED, error);
                    return Ok(None);
                }
            },
            Message::Pack(message::Pack { path, scratch, options }) => {
                (Work::Pack(PackRequest { path, scratch, options }), 0)
            }
            Message::Infer { inputs } => (Work::Infer(decode(memory, inputs, body)?), 0),
            Message::InferStream { inputs, credits } => (Work::Stream(decode(memory, inputs, body)?), credits),
            Message::Seal { inputs } => (Work::Seal(decode(memory, inputs, body)?), 0),
            Message::InferSealed { handle } => (Work::InferSealed(handle), 0),
            other => {
                self.handle_note(reader, id, other)?;
                return Ok(None);
            }
        };
        let id = id.ok_or_else(|| ProtocolError::malformed(name, "it has no id"))?;
        let preparation = matches!(work, Work::Load(_) | Work::Pack(_));
        let Some(cap) = (if preparation { Some(PREPARATION_CAP) } else { self.call_cap() }) else {
            self.refuse(Some(id), code::NOT_LOADED, "no model is loaded".to_owned());
            return Ok(None);
        };
        let mut calls = lock(&self.calls);
        if calls.contains_key(&id) {
            return Err(ProtocolError::DuplicateCall { message: name, id }.into());
        }
        if calls.len() >= cap {
            drop(calls);
            self.refuse(Some(id), code::BUSY, "more calls than this runner runs at once".to_owned());
            return Ok(None);
        }
        let state = Arc::new(CallState::new(id, credits));
        calls.insert(id, Arc::clone(&state));
        Ok(Some(Job { call: Call::new(Arc::clone(&self.link), state, self.options.pool_wait), id, work }))
    }

    /// Messages that are not calls.
    fn handle_note(&self, reader: &mut FrameReader, id: Option<u64>, message: Message) -> Result<(), End> {
        let name = message.name();
        let unexpected = |why: &str| ProtocolError::Unexpected { message: name, why: why.to_owned() };
        // A call that has just been answered is no longer known when its cancellation or credits arrive.
        let call = || id.and_then(|id| lock(&self.calls).get(&id).cloned());
        match message {
            Message::Cancel {} => {
                if let Some(call) = call() {
                    call.cancel();
                }
            }
            Message::Credit { n } => {
                if let Some(call) = call() {
                    call.add_credits(n);
                }
            }
            Message::Unseal { handle } => {
                let sealed = lock(&self.sealed).remove(&handle);
                drop(sealed);
            }
            Message::Map { region, size } => {
                let descriptors = reader.claim(name, 1)?;
                if !self.link.memory.is_in_use() {
                    return Err(unexpected("shared memory was not agreed on").into());
                }
                for descriptor in &descriptors {
                    self.link.memory.peer.map(region, size, descriptor)?;
                }
            }
            Message::Unmap { region } => self.link.memory.peer.unmap(region)?,
            Message::Release {} | Message::Pong {} => {}
            Message::Ping {} => {
                let _ = self.link.send(Message::Pong {}, Outbound { id, ..Outbound::default() });
            }
            Message::Shutdown {} => {
                self.stopping.store(true, Ordering::Release);
                self.stop_when_idle();
            }
            // An answer to something that only this side would know of; there is nothing to be done about it.
            Message::Error(error) if error.code == code::PROTOCOL => return Err(End::HostIsGone),
            Message::Error(error) => tracing::debug!(message = %error.message, "from the host"),
            Message::Hello(_) => return Err(unexpected("it was sent before").into()),
            _ => return Err(unexpected("only runners send it").into()),
        }
        Ok(())
    }

    fn refuse(&self, id: Option<u64>, code: &'static str, message: String) {
        let error = WireError { code: code.to_owned(), message, causes: Vec::new() };
        // A closed connection is found out about by the next read.
        let _ = self.link.send(Message::Error(error), Outbound { id, ..Outbound::default() });
    }

    /// How many calls may be known at once; `None` before a model is loaded. A call is known until its answer is sent,
    /// so that the host, once it has the answer, may be ahead by as many.
    fn call_cap(&self) -> Option<usize> {
        self.model.get().map(|model| model.max_concurrency().max(1).saturating_mul(2).saturating_add(PREPARATION_CAP))
    }

    /// The outer error is the host's fault, the inner one the files'.
    fn load_request(
        &self,
        reader: &mut FrameReader,
        load: message::Load,
    ) -> Result<Result<LoadRequest, String>, ProtocolError> {
        let message::Load { options, device, inputs, outputs, files } = load;
        let files = match files {
            WireFiles::Directory { path } => ModelFiles::from_directory(path),
            WireFiles::Ranges { sources, entries } => {
                let files = open_sources(reader, sources)?;
                match files {
                    Ok(files) => ModelFiles::from_ranges(name_ranges(&files, entries)?),
                    Err(error) => return Ok(Err(error)),
                }
            }
        };
        Ok(Ok(LoadRequest { files, options, device, inputs, outputs }))
    }

    fn run(&self, job: Job) {
        let Job { call, id, work } = job;
        let answered = catch_unwind(AssertUnwindSafe(|| self.perform(&call, work)));
        let answered = answered.unwrap_or_else(|panic| {
            let message = format!("the runner panicked: {}", panic_message(panic.as_ref()));
            Err(AnswerError { code: code::PANICKED, error: RunnerError::new(message) })
        });
        if let Err(AnswerError { code, error: RunnerError { message, causes } }) = answered {
            let code = if call.is_cancelled() { code::CANCELLED } else { code };
            // A closed connection is found out about by the thread that reads.
            let _ = call.send(Message::Error(WireError { code: code.to_owned(), message, causes }));
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
            let packed = R::pack(request, call).map_err(failed)?;
            let super::PackResponse { path, required_framework_version, inputs, outputs } = packed;
            return answer(Message::Packed(message::Packed { path, required_framework_version, inputs, outputs }));
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

    fn stop_when_idle(&self) {
        if self.stopping.load(Ordering::Acquire) && lock(&self.calls).is_empty() {
            self.finish(End::HostIsGone);
        }
    }
}

/// Opens the files that hold the model's files: descriptors that came with the message, or paths.
fn open_sources(
    reader: &mut FrameReader,
    sources: Vec<WireSource>,
) -> Result<Result<Vec<Arc<File>>, String>, ProtocolError> {
    let n_descriptors = sources.iter().filter(|source| matches!(source, WireSource::Descriptor(_))).count();
    let descriptors = reader.claim("load", n_descriptors)?;
    let mut descriptors: Vec<Option<File>> =
        descriptors.into_iter().map(|descriptor| Some(descriptor.into())).collect();
    let mut files = Vec::with_capacity(sources.len());
    for source in sources {
        files.push(Arc::new(match source {
            WireSource::Descriptor(index) => {
                let descriptor = usize::try_from(index).ok().and_then(|index| descriptors.get_mut(index)?.take());
                descriptor.ok_or_else(|| {
                    ProtocolError::malformed(
                        "load",
                        format!("descriptor {index} did not come with it, or is named twice"),
                    )
                })?
            }
            WireSource::Path(path) => match File::open(&path) {
                Ok(file) => file,
                Err(error) => return Ok(Err(format!("opening {}: {error}", path.display()))),
            },
        }));
    }
    Ok(Ok(files))
}

fn name_ranges(files: &[Arc<File>], entries: Vec<WireEntry>) -> Result<BTreeMap<String, Range>, ProtocolError> {
    let mut ranges = BTreeMap::new();
    for WireEntry { path, source, offset, length } in entries {
        let file = usize::try_from(source).ok().and_then(|source| files.get(source)).cloned();
        let file = file.ok_or_else(|| ProtocolError::malformed("load", format!("`{path}` lies in no source")))?;
        if ranges.contains_key(&path) {
            return Err(ProtocolError::malformed("load", format!("the file `{path}` is there twice")));
        }
        ranges.insert(path, Range { file, offset, length });
    }
    Ok(ranges)
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("with no message")
}
