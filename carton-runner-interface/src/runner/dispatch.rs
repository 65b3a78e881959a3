//! Handles the messages of the host. The thread that has the turn to read runs this code.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::call::{Call, CallState};
use super::files::{ModelFiles, Range};
use super::state::{End, Server, lock};
use super::{LoadRequest, PackRequest, Runner, Tensors};
use crate::frame::Frame;
use crate::link::Outbound;
use crate::message::{Message, Parsed, WireEntry, WireError, WireFiles, WireSource, code, parse};
use crate::model;
use crate::protocol_error::ProtocolError;
use crate::tensor_encoding::decode;
use crate::transport::reader::FrameReader;

/// Calls of `load`, `prepare` and `pack` that may run at once.
const PREPARATION_CAP: usize = 8;

/// A call that is to be run.
pub(super) struct Job {
    pub(super) call: Call,
    pub(super) id: u64,
    pub(super) work: Work,
}

pub(super) enum Work {
    Load(LoadRequest),
    Prepare(LoadRequest),
    Pack(PackRequest),
    Describe,
    Infer(Tensors),
    Stream(Tensors),
    Seal(Tensors),
    InferSealed(u64),
}

impl<R: Runner> Server<R> {
    /// Handles one frame. Returns the call if the message makes one.
    pub(super) fn dispatch(&self, reader: &mut FrameReader, frame: Frame) -> Result<Option<Job>, End> {
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
            Message::Load(request) => match self.load_request(reader, id, name, request)? {
                Some(request) => (Work::Load(request), 0),
                None => return Ok(None),
            },
            Message::Prepare(request) => match self.load_request(reader, id, name, request)? {
                Some(request) => (Work::Prepare(request), 0),
                None => return Ok(None),
            },
            Message::Pack(request) => (Work::Pack(request), 0),
            Message::Describe {} => (Work::Describe, 0),
            Message::Infer { inputs } => (Work::Infer(decode(memory, inputs, body, u64::MAX)?), 0),
            Message::InferStream { inputs, credits } => {
                (Work::Stream(decode(memory, inputs, body, u64::MAX)?), credits)
            }
            Message::Seal { inputs } => (Work::Seal(decode(memory, inputs, body, u64::MAX)?), 0),
            Message::InferSealed { handle } => (Work::InferSealed(handle), 0),
            other => {
                self.handle_note(reader, id, other)?;
                return Ok(None);
            }
        };
        let id = id.ok_or_else(|| ProtocolError::malformed(name, "it has no id"))?;
        let preparation = matches!(work, Work::Load(_) | Work::Prepare(_) | Work::Pack(_));
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

    /// Handles a message that is not a call.
    fn handle_note(&self, reader: &mut FrameReader, id: Option<u64>, message: Message) -> Result<(), End> {
        let name = message.name();
        let unexpected = |why: &str| ProtocolError::Unexpected { message: name, why: why.to_owned() };
        // The call may have been answered before its cancellation or credits arrive. It is not known any more then.
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
            // The host reports an error. Only a broken protocol ends the connection.
            Message::Error(error) if error.code == code::PROTOCOL => return Err(End::HostIsGone),
            Message::Error(error) => tracing::debug!(message = %error.message, "from the host"),
            Message::Hello(_) => return Err(unexpected("it was sent before").into()),
            _ => return Err(unexpected("only runners send it").into()),
        }
        Ok(())
    }

    fn refuse(&self, id: Option<u64>, code: &'static str, message: String) {
        let error = WireError::new(code, message);
        // If the connection is closed, the next read reports it.
        let _ = self.link.send(Message::Error(error), Outbound { id, ..Outbound::default() });
    }

    /// The most calls that may be known at once; `None` before a model is loaded. The host counts a call as ended when it reads the
    /// answer, which may be before this side forgets the call. So there may be twice `max_concurrency`.
    fn call_cap(&self) -> Option<usize> {
        self.model.get().map(|model| model.max_concurrency().max(1).saturating_mul(2).saturating_add(PREPARATION_CAP))
    }

    /// Opens the files of a request to load or prepare. Refuses the call and returns `None` if one cannot be opened.
    fn load_request(
        &self,
        reader: &mut FrameReader,
        id: Option<u64>,
        name: &'static str,
        request: model::LoadRequest<WireFiles>,
    ) -> Result<Option<LoadRequest>, ProtocolError> {
        let model::LoadRequest { options, device, inputs, outputs, files } = request;
        let files = match files {
            WireFiles::Directory { path } => ModelFiles::from_directory(path),
            WireFiles::Ranges { sources, entries } => {
                let files = open_sources(reader, name, sources)?;
                match files {
                    Ok(files) => ModelFiles::from_ranges(name_ranges(name, &files, entries)?),
                    Err(error) => {
                        self.refuse(id, code::FAILED, error);
                        return Ok(None);
                    }
                }
            }
        };
        Ok(Some(LoadRequest { files, options, device, inputs, outputs }))
    }
}

/// Opens the files that hold the model's files: descriptors that came with the message, or paths.
fn open_sources(
    reader: &mut FrameReader,
    name: &'static str,
    sources: Vec<WireSource>,
) -> Result<Result<Vec<Arc<File>>, String>, ProtocolError> {
    let n_descriptors = sources.iter().filter(|source| matches!(source, WireSource::Descriptor(_))).count();
    let descriptors = reader.claim(name, n_descriptors)?;
    let mut descriptors: Vec<Option<File>> =
        descriptors.into_iter().map(|descriptor| Some(descriptor.into())).collect();
    let mut files = Vec::with_capacity(sources.len());
    for source in sources {
        files.push(Arc::new(match source {
            WireSource::Descriptor(index) => {
                let descriptor = usize::try_from(index).ok().and_then(|index| descriptors.get_mut(index)?.take());
                descriptor.ok_or_else(|| {
                    ProtocolError::malformed(
                        name,
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

fn name_ranges(
    name: &str,
    files: &[Arc<File>],
    entries: Vec<WireEntry>,
) -> Result<BTreeMap<String, Range>, ProtocolError> {
    let mut ranges = BTreeMap::new();
    for WireEntry { path, source, offset, length } in entries {
        let file = usize::try_from(source).ok().and_then(|source| files.get(source)).cloned();
        let file = file.ok_or_else(|| ProtocolError::malformed(name, format!("`{path}` lies in no source")))?;
        if ranges.contains_key(&path) {
            return Err(ProtocolError::malformed(name, format!("the file `{path}` is there twice")));
        }
        ranges.insert(path, Range { file, offset, length });
    }
    Ok(ranges)
}
