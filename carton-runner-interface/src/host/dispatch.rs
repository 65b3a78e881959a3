//! What is done with each message of the runner.

use std::sync::Arc;

use super::calls::{Answer, Kind};
use super::shared::Shared;
use super::{CallError, CloseReason, Event, Peer};
use crate::dtypes::Dtypes;
use crate::frame::Frame;
use crate::message::{Hello, Message, Parsed, WireError, code, parse};
use crate::model::Statement;
use crate::protocol_error::ProtocolError;
use crate::runner::{RunnerError, RunnerErrorKind};
use crate::shared_memory::peer::MapError;
use crate::tensor_encoding::decode;
use crate::transport::reader::{FrameReader, ReadError};
use crate::{link::Outbound, version};

impl From<ReadError> for CloseReason {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::EndOfFile => Self::EndOfFile,
            ReadError::Protocol(error) => Self::Protocol(error),
            ReadError::Io(error) => Self::from(error),
        }
    }
}

impl From<std::io::Error> for CloseReason {
    fn from(error: std::io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

impl From<ProtocolError> for CloseReason {
    fn from(error: ProtocolError) -> Self {
        Self::Protocol(error)
    }
}

impl From<MapError> for CloseReason {
    fn from(error: MapError) -> Self {
        match error {
            MapError::Protocol(error) => Self::Protocol(error),
            MapError::Io(error) => Self::Io(Arc::new(error)),
        }
    }
}

/// Reads the runner's hello.
pub(super) fn greet(shared: &Shared, reader: &mut FrameReader, our_features: &[&str]) -> Result<(), CloseReason> {
    let hello = read_hello(reader)?;
    let agreement = version::agree(our_features, &hello)?;
    if agreement.has(version::SHARED_MEMORY) {
        shared.link.memory.enable();
    }
    shared.link.set_peer_dtypes(Dtypes::of_names(&hello.dtypes));
    let peer = Peer {
        name: hello.name,
        framework_version: hello.framework_version,
        version: agreement.version,
        features: agreement.features.clone(),
    };
    let _ = shared.peer.set((peer, agreement));
    Ok(())
}

/// Reads the first frame.
fn read_hello(reader: &mut FrameReader) -> Result<Hello, CloseReason> {
    let frame = reader.next()?;
    match parse(&frame.json)? {
        Parsed::Known(envelope) => match envelope.message {
            Message::Hello(hello) => Ok(hello),
            Message::Error(error) => Err(refused(error)),
            other => Err(ProtocolError::ExpectedHello { found: other.name().to_owned() }.into()),
        },
        Parsed::Unknown { name, .. } => Err(ProtocolError::ExpectedHello { found: name }.into()),
    }
}

fn refused(error: WireError) -> CloseReason {
    CloseReason::Refused { code: error.code, message: error.message }
}

/// Handles one frame.
pub(super) fn dispatch(shared: &Shared, reader: &mut FrameReader, frame: Frame) -> Result<(), CloseReason> {
    let envelope = match parse(&frame.json)? {
        Parsed::Known(envelope) => envelope,
        Parsed::Unknown { id, release, name } => {
            let error = WireError::new(code::UNKNOWN_MESSAGE, format!("this host does not know the message `{name}`"));
            // If the connection is closed, the next read reports it.
            let _ = shared.link.send(Message::Error(error), Outbound { id, ..Outbound::default() });
            return Ok(shared.link.released(&release)?);
        }
    };
    let (id, release) = (envelope.id, envelope.release);
    handle(shared, reader, id, envelope.message, frame.body)?;
    Ok(shared.link.released(&release)?)
}

fn handle(
    shared: &Shared,
    reader: &mut FrameReader,
    id: Option<u64>,
    message: Message,
    body: carton_tensor::AlignedBytes,
) -> Result<(), CloseReason> {
    let name = message.name();
    let call = || id.ok_or_else(|| ProtocolError::malformed(name, "it has no id"));
    let calls = &shared.calls;
    match message {
        Message::Inferred { outputs } => {
            let outputs = decode(&shared.link.memory, outputs, body, shared.link.frame_cap())?;
            calls.answer(call()?, name, &[Kind::Infer], Ok(Answer::Outputs(outputs)))?;
        }
        Message::StreamItem { outputs } => {
            let outputs = decode(&shared.link.memory, outputs, body, shared.link.frame_cap())?;
            calls.item(call()?, outputs)?;
        }
        Message::StreamEnd {} => {
            calls.answer(call()?, name, &[Kind::Stream], Ok(Answer::Done))?;
        }
        Message::Loaded { max_concurrency } => {
            calls.answer(call()?, name, &[Kind::Load], Ok(Answer::Loaded { max_concurrency }))?;
        }
        Message::Prepared(prepared) => {
            prepared.check().map_err(|problem| ProtocolError::malformed(name, problem))?;
            calls.answer(call()?, name, &[Kind::Prepare], Ok(Answer::Prepared(prepared)))?;
        }
        Message::Packed(packed) => {
            calls.answer(call()?, name, &[Kind::Pack], Ok(Answer::Packed(packed)))?;
        }
        Message::Described { inputs, outputs, optional_inputs, optional_outputs, descriptions, example } => {
            let example = decode(&shared.link.memory, example, body, shared.link.frame_cap())?;
            let statement = Statement { inputs, outputs, optional_inputs, optional_outputs, descriptions, example };
            calls.answer(call()?, name, &[Kind::Describe], Ok(Answer::Described(statement)))?;
        }
        Message::Sealed { handle } => {
            let unwanted = calls.answer(call()?, name, &[Kind::Seal], Ok(Answer::Sealed { handle }))?;
            if unwanted.is_some() {
                let _ = shared.link.send_plain(Message::Unseal { handle });
            }
        }
        Message::Pong {} => {
            calls.answer(call()?, name, &[Kind::Ping], Ok(Answer::Done))?;
        }
        Message::Error(error) => match id {
            Some(id) => {
                let WireError { code, message, causes, hint } = error;
                let kind = match code.as_str() {
                    code::UNAVAILABLE => RunnerErrorKind::Unavailable,
                    code::NETWORK => RunnerErrorKind::Network,
                    code::SETUP => RunnerErrorKind::Setup,
                    code::UNPREPARED => RunnerErrorKind::Unprepared,
                    _ => RunnerErrorKind::Failed,
                };
                let error = RunnerError { message, causes, hint, kind };
                calls.answer(id, name, &[], Err(CallError::Runner { code, error }))?;
            }
            None if error.code == code::UNKNOWN_MESSAGE => tracing::debug!(message = %error.message, "from the runner"),
            None => return Err(refused(error)),
        },
        Message::Map { region, size } => {
            let descriptors = reader.claim(name, 1)?;
            if !shared.link.memory.is_in_use() {
                return Err(not_agreed(name).into());
            }
            for descriptor in &descriptors {
                shared.link.memory.peer.map(region, size, descriptor)?;
            }
        }
        Message::Unmap { region } => shared.link.memory.peer.unmap(region)?,
        Message::Release {} => {}
        Message::Log { level, message } => shared.tell(Event::Log { call: id, level, message }),
        Message::Progress { what, done, total } => shared.tell(Event::Progress { call: id, what, done, total }),
        Message::Ping {} => {
            let _ = shared.link.send(Message::Pong {}, Outbound { id, ..Outbound::default() });
        }
        Message::Hello(_) => return Err(unexpected(name, "it was sent before").into()),
        Message::Load(_)
        | Message::Prepare(_)
        | Message::Pack(_)
        | Message::Describe {}
        | Message::Infer { .. }
        | Message::InferStream { .. }
        | Message::Credit { .. }
        | Message::Seal { .. }
        | Message::InferSealed { .. }
        | Message::Unseal { .. }
        | Message::Cancel {}
        | Message::Shutdown {} => return Err(unexpected(name, "only hosts send it").into()),
    }
    Ok(())
}

fn unexpected(message: &'static str, why: &str) -> ProtocolError {
    ProtocolError::Unexpected { message, why: why.to_owned() }
}

fn not_agreed(message: &'static str) -> ProtocolError {
    unexpected(message, "shared memory was not agreed on")
}

/// The features a host announces.
pub(super) fn features(shared_memory: bool) -> Vec<&'static str> {
    let mut features = vec![version::DESCRIPTORS];
    if shared_memory {
        features.push(version::SHARED_MEMORY);
    }
    features
}

/// Tells the runner why the connection is about to be closed.
pub(super) fn last_words(shared: &Shared, reason: &CloseReason) {
    if let CloseReason::Protocol(error) = reason {
        let _ = shared.link.send_plain(Message::Error(WireError::new(code::PROTOCOL, error.to_string())));
    }
}
