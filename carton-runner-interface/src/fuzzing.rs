//! Exposes this crate's parsers one by one to the fuzz targets: bytes to frames, frames to messages, messages to tensors. The public API
//! has them only behind connections, which need threads and sockets. Only `cargo fuzz` sets `cfg(fuzzing)`, so this is not part of the API.

use std::sync::Weak;

use carton_tensor::AlignedBytes;

use crate::frame::{HEADER_LENGTH, Header};
use crate::message::{Message, Parsed, Side, WireTensor, parse};
use crate::protocol_error::ProtocolError;
use crate::shared_memory::{NoListener, SharedMemory};
use crate::tensor_encoding::{decode, encode};
use carton_tensor::Tensors;

/// Returns the JSON and the bytes of the frame at the start of `stream`, and the rest; `None` if the stream ends within the frame.
///
/// # Errors
/// The two lengths contradict each other, or are above their caps.
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

/// Returns the frame of these parts; `None` if they are too large.
pub fn write_frame(json: &[u8], body: &[u8], frame_cap: u64) -> Option<Vec<u8>> {
    Some([&Header::encode(json.len(), body.len(), frame_cap)?, json, body].concat())
}

/// The parsed JSON of a frame.
#[derive(Debug, PartialEq)]
pub struct Said(Parsed);

impl Said {
    /// Reads the JSON of a frame.
    ///
    /// # Errors
    /// The JSON is not a message.
    pub fn parse(json: &[u8]) -> Result<Self, ProtocolError> {
        parse(json).map(Self)
    }

    /// Writes the message as JSON; `None` for a message that this version does not know.
    pub fn to_json(&self) -> Option<Result<Vec<u8>, serde_json::Error>> {
        match &self.0 {
            Parsed::Known(envelope) => Some(serde_json::to_vec(envelope)),
            Parsed::Unknown { .. } => None,
        }
    }

    /// Decodes the tensors that the message carries in the `body` of its frame; `None` for messages without tensors.
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

/// Sends and receives tensors once more.
///
/// # Errors
/// A text. None is expected, because tensors that were received can be sent.
pub fn passed_on(tensors: &Tensors) -> Result<Tensors, String> {
    let encoded = encode(&memory(), tensors.clone(), Vec::new()).map_err(|error| error.to_string())?;
    read(encoded.tensors, &encoded.body).map_err(|error| error.to_string())
}

fn read(tensors: Vec<WireTensor>, body: &[u8]) -> Result<Tensors, ProtocolError> {
    decode(&memory(), tensors, AlignedBytes::copy_of(body), u64::MAX)
}

/// Creates a memory without shared regions.
fn memory() -> SharedMemory {
    SharedMemory::new(Side::Runner, 0, 0, Weak::<NoListener>::new())
}
