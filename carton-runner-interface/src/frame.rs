//! Frames, which divide a stream of bytes into messages (spec/runner-protocol.md, "Frames"). Pure.
//!
//! ```text
//! 0        8            12                  12 + json_length        8 + length
//! ┌────────┬─────────────┬───────────────────┬───────────────────────┐
//! │ length │ json_length │ JSON message      │ bytes                 │
//! │ u64 LE │ u32 LE      │ json_length bytes │ length - 4 - json_len │
//! └────────┴─────────────┴───────────────────┴───────────────────────┘
//!          └──────────────── length counts from here ────────────────┘
//! ```

use carton_tensor::AlignedBytes;

use crate::protocol_error::ProtocolError;

/// The two lengths in front of every frame.
pub(crate) const HEADER_LENGTH: usize = 12;

/// The largest JSON part that is accepted.
pub(crate) const JSON_CAP: u64 = 16 << 20;

/// The lengths of a frame's parts, within their caps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Bytes of JSON.
    pub(crate) json: usize,
    /// Bytes after it.
    pub(crate) body: usize,
}

impl Header {
    /// Reads the lengths and checks them against the caps, so that no larger frame is ever allocated.
    pub(crate) fn parse(bytes: [u8; HEADER_LENGTH], frame_cap: u64) -> Result<Self, ProtocolError> {
        let [l0, l1, l2, l3, l4, l5, l6, l7, j0, j1, j2, j3] = bytes;
        let length = u64::from_le_bytes([l0, l1, l2, l3, l4, l5, l6, l7]);
        let json = u64::from(u32::from_le_bytes([j0, j1, j2, j3]));
        if length > frame_cap {
            return Err(ProtocolError::FrameTooLarge { length, cap: frame_cap });
        }
        if json > JSON_CAP {
            return Err(ProtocolError::JsonTooLarge { length: json, cap: JSON_CAP });
        }
        let body = length
            .checked_sub(4)
            .and_then(|rest| rest.checked_sub(json))
            .ok_or(ProtocolError::FrameLengths { length, json })?;
        match (usize::try_from(json), usize::try_from(body)) {
            (Ok(json), Ok(body)) => Ok(Self { json, body }),
            _ => Err(ProtocolError::FrameTooLarge { length, cap: usize::MAX as u64 }),
        }
    }

    /// Encodes the lengths; `None` if the parts are too large for a frame of `frame_cap`.
    pub(crate) fn encode(json: usize, body: usize, frame_cap: u64) -> Option<[u8; HEADER_LENGTH]> {
        let json_length = u32::try_from(json).ok().filter(|&json| u64::from(json) <= JSON_CAP)?;
        let length = u64::try_from(body).ok()?.checked_add(u64::from(json_length))?.checked_add(4)?;
        if length > frame_cap {
            return None;
        }
        let mut header = [0; HEADER_LENGTH];
        header[..8].copy_from_slice(&length.to_le_bytes());
        header[8..].copy_from_slice(&json_length.to_le_bytes());
        Some(header)
    }
}

/// A whole frame. The bytes are aligned to 64, so that tensors in them can be used in place.
pub(crate) struct Frame {
    /// The JSON message, not parsed yet.
    pub(crate) json: Vec<u8>,
    /// The bytes after it.
    pub(crate) body: AlignedBytes,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn header(length: u64, json: u32) -> [u8; HEADER_LENGTH] {
        let mut bytes = [0; HEADER_LENGTH];
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        bytes[8..].copy_from_slice(&json.to_le_bytes());
        bytes
    }

    #[test]
    fn lengths_are_checked_before_anything_is_allocated() {
        let cap = 1 << 20;
        for (length, json, expected) in [
            (4, 0, Ok(Header { json: 0, body: 0 })),
            (14, 10, Ok(Header { json: 10, body: 0 })),
            (20, 10, Ok(Header { json: 10, body: 6 })),
            (13, 10, Err(ProtocolError::FrameLengths { length: 13, json: 10 })),
            (0, 0, Err(ProtocolError::FrameLengths { length: 0, json: 0 })),
            (cap + 1, 0, Err(ProtocolError::FrameTooLarge { length: cap + 1, cap })),
            (4 << 30, 0, Err(ProtocolError::FrameTooLarge { length: 4 << 30, cap })),
            (u64::MAX, u32::MAX, Err(ProtocolError::FrameTooLarge { length: u64::MAX, cap })),
            (8, u32::MAX, Err(ProtocolError::JsonTooLarge { length: u64::from(u32::MAX), cap: JSON_CAP })),
        ] {
            assert_eq!(Header::parse(header(length, json), cap), expected, "{length} {json}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_parsed(json in 0..=JSON_CAP as usize, body in 0..1_usize << 30) {
            let bytes = Header::encode(json, body, u64::MAX).unwrap();
            prop_assert_eq!(Header::parse(bytes, u64::MAX), Ok(Header { json, body }));
        }

        #[test]
        fn any_header_is_parsed_or_refused(bytes: [u8; HEADER_LENGTH], cap: u64) {
            if let Ok(header) = Header::parse(bytes, cap) {
                prop_assert_eq!(Header::encode(header.json, header.body, cap), Some(bytes));
            }
        }
    }
}
