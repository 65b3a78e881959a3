//! What the fuzz targets need of this crate's parsers, each alone: bytes to frames, frames to messages, messages to tensors. Callers have
//! both sides of a connection, which take threads and sockets. `cargo fuzz` alone sets `cfg(fuzzing)`, so that this is no part of the API.

use std::sync::Weak;

use carton_tensor::AlignedBytes;

use crate::frame::{HEADER_LENGTH, Header};
use crate::message::{Message, Parsed, Side, WireTensor, parse};
use crate::model::Tensors;
use crate::protocol_error::ProtocolError;
use crate::shared_memory::{NoListener, SharedMemory};
use crate::tensor_encoding::{decode, encode};

/// The JSON and the bytes of the frame that `stream` begins with, and what follows it. `None` when it ends within the frame.
///
/// # Errors
/// The two lengths are no frame's, or above their caps.
#[expect(clippy::type_complexity, reason = "three parts of one slice")]
pub fn frame(stream: &[u8], frame_cap: u64) -> Result<Option<(&[u8], &[u8], &[u8])>, ProtocolError> {
    let Some((header, rest)) = stream.split_first_chunk::<HEADER_LENGTH>() else { return Ok(None) };
    let Header { json, body } = Header::parse(*header, frame_cap)?;
    let parts = rest.split_at_checked(json).and_then(|(json, rest)| {
        let (body, rest) = rest.split_at_checked(body)?;
        Some((json, body, rest))
    });
    Ok(parts)
}

/// The frame with these parts.
pub fn write_frame(json: &[u8], body: &[u8], frame_cap: u64) -> Option<Vec<u8>> {
    Some([&Header::encode(json.len(), body.len(), frame_cap)?, json, body].concat())
}

/// What the JSON of a frame says.
#[derive(Debug, PartialEq)]
pub struct Said(Parsed);

impl Said {
    /// Reads the JSON of a frame.
    ///
    /// # Errors
    /// It is no message.
    pub fn parse(json: &[u8]) -> Result<Self, ProtocolError> {
        parse(json).map(Self)
    }

    /// The same as JSON; `None` for messages that this version does not know.
    pub fn to_json(&self) -> Option<Result<Vec<u8>, serde_json::Error>> {
        match &self.0 {
            Parsed::Known(envelope) => Some(serde_json::to_vec(envelope)),
            Parsed::Unknown { .. } => None,
        }
    }

    /// The tensors that the message carries in the `body` of its frame; `None` for messages that carry none.
    pub fn tensors(self, body: &[u8]) -> Option<Result<Tensors, ProtocolError>> {
        let Parsed::Known(envelope) = self.0 else { return None };
        let (Message::Infer { inputs: tensors }
        | Message::InferStream { inputs: tensors, .. }
        | Message::Seal { inputs: tensors }
        | Message::Inferred { outputs: tensors }
        | Message::StreamItem { outputs: tensors }) = envelope.message
        else {
            return None;
        };
        Some(read(tensors, body))
    }
}

/// These tensors, sent and received once more.
///
/// # Errors
/// As text, because what was received can be sent.
pub fn passed_on(tensors: &Tensors) -> Result<Tensors, String> {
    let encoded = encode(&memory(), tensors.clone(), Vec::new()).map_err(|error| error.to_string())?;
    read(encoded.tensors, &encoded.body).map_err(|error| error.to_string())
}

fn read(tensors: Vec<WireTensor>, body: &[u8]) -> Result<Tensors, ProtocolError> {
    decode(&memory(), tensors, AlignedBytes::copy_of(body))
}

/// Without anything shared.
fn memory() -> SharedMemory {
    SharedMemory::new(Side::Runner, 0, 0, Weak::<NoListener>::new())
}
