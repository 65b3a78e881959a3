//! Splits Arrow IPC streams into messages, and checks that what a message claims is possible (spec/dataset.md §4.1).
//!
//! `arrow-ipc` decodes the messages. This module first checks the claims that `arrow-ipc` believes: `arrow-ipc` slices by offsets in a
//! message without checking them, and allocates the size that a compressed buffer claims, which ends the process if there is not enough
//! memory.

use std::io::Read;

use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::{CompressionType, Message, MessageHeader, RecordBatch, root_as_message};

use super::InputError;
use super::read_start::read_start;

/// The marker in front of a message's length since Arrow 0.15.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// The longest accepted message in bytes, without its body.
pub(super) const MAX_METADATA: u64 = 64 << 20;
/// The size in bytes that the buffers of any compressed message may decompress to; a larger message may have more (§4.1).
const MAX_DECOMPRESSED: u64 = 1 << 30;
/// The highest compression ratio of LZ4, which repeats data 255 times for each byte.
const LZ4_RATIO: u64 = 255;
/// The highest compression ratio of zstd: a block takes at least four bytes and decompresses to at most 128 KiB.
const ZSTD_RATIO: u64 = ZSTD_BLOCK / 4;
const ZSTD_BLOCK: u64 = 128 << 10;
/// The largest accepted number of values in an array: far more than fit in memory, and few enough that the number of their bits fits in
/// an `i64`.
const MAX_VALUES: i64 = 1 << 40;
/// The largest accepted number of rows in a batch. Columns that are entirely null take no bytes, so the size of the body does not limit
/// the rows.
const MAX_ROWS: i64 = i32::MAX as i64;
/// The number of bytes that are allocated first for a body whose true size is not known.
const PIECE: usize = 16 << 20;

/// Whether a stream can begin with these bytes: with a message that is not empty. Streams older than Arrow 0.15 begin with its length.
pub(super) fn begins_a_stream(start: &[u8]) -> bool {
    match start.split_first_chunk::<4>() {
        Some((first, _)) if *first == CONTINUATION => true,
        Some((first, _)) => (1..=MAX_METADATA).contains(&u64::from(u32::from_le_bytes(*first))),
        None => false,
    }
}

/// A message and its body.
pub(super) struct Encapsulated {
    /// The flatbuffer of the message, verified.
    metadata: Vec<u8>,
    pub(super) body: Buffer,
}

impl Encapsulated {
    /// Reads the body with `read_body`, which is given the length that the message declares, in bytes.
    pub(super) fn new(
        metadata: Vec<u8>,
        read_body: impl FnOnce(u64) -> Result<Buffer, InputError>,
    ) -> Result<Self, InputError> {
        let n_bytes = body_length(&metadata)?;
        let body = read_body(n_bytes)?;
        Ok(Self { metadata, body })
    }

    pub(super) fn message(&self) -> Result<Message<'_>, InputError> {
        parse(&self.metadata)
    }

    /// [Checks](check) the batch of the message. Returns its number of rows or values, 0 for a schema.
    pub(super) fn check(&self) -> Result<u64, InputError> {
        let message = self.message()?;
        let n_bytes = self.body.len() as u64;
        match message.header_type() {
            MessageHeader::RecordBatch => {
                let batch = message.header_as_record_batch().ok_or_else(|| invalid("a message without its batch"))?;
                check(batch, &self.body)?;
                row_count(batch)
            }
            MessageHeader::DictionaryBatch => {
                let dictionary = message.header_as_dictionary_batch();
                let batch = dictionary.and_then(|dictionary| dictionary.data());
                let batch = batch.ok_or_else(|| invalid("a dictionary without its values"))?;
                check(batch, &self.body)?;
                row_count(batch)
            }
            _ if n_bytes > 0 => Err(invalid(format!("a body of {n_bytes} bytes where there is none"))),
            _ => Ok(0),
        }
    }
}

/// Parses a flatbuffer as a message, verifying its offsets.
pub(super) fn parse(metadata: &[u8]) -> Result<Message<'_>, InputError> {
    root_as_message(metadata).map_err(|error| invalid(format!("a message that cannot be read: {error}")))
}

fn body_length(metadata: &[u8]) -> Result<u64, InputError> {
    let found = parse(metadata)?.bodyLength();
    u64::try_from(found).map_err(|_| invalid(format!("a body of {found} bytes")))
}

/// Returns the number of rows of a batch, checked against the limit.
pub(super) fn row_count(batch: RecordBatch<'_>) -> Result<u64, InputError> {
    let n_rows = batch.length();
    if !(0..=MAX_ROWS).contains(&n_rows) {
        return Err(invalid(format!("a batch of {n_rows} rows, expected 0 to {MAX_ROWS}")));
    }
    Ok(n_rows.unsigned_abs())
}

/// Reads the next message of a stream; returns `None` at the end-of-stream marker. Allocates at most 16 MiB or twice the bytes that
/// really exist, whichever is more.
pub(super) fn read(reader: &mut impl Read) -> Result<Option<Encapsulated>, InputError> {
    let mut length = [0; 4];
    match read_start(&mut *reader, &mut length)? {
        4 => {}
        0 => return Err(InputError::EndsEarly),
        _ => return Err(ends_inside()),
    }
    if length == CONTINUATION && read_start(&mut *reader, &mut length)? < 4 {
        return Err(ends_inside());
    }
    let length = u64::from(u32::from_le_bytes(length));
    if length == 0 {
        return Ok(None);
    }
    check_metadata_length(length)?;
    let mut metadata = Vec::new();
    let n_bytes = (&mut *reader).take(length).read_to_end(&mut metadata)?;
    if n_bytes as u64 != length {
        return Err(ends_inside());
    }
    Encapsulated::new(metadata, |n_bytes| read_body(reader, n_bytes)).map(Some)
}

pub(super) fn check_metadata_length(length: u64) -> Result<(), InputError> {
    if length > MAX_METADATA {
        return Err(invalid(format!("a message of {length} bytes without its body, expected at most {MAX_METADATA}")));
    }
    Ok(())
}

fn read_body(reader: &mut impl Read, n_bytes: u64) -> Result<Buffer, InputError> {
    let n_bytes = usize::try_from(n_bytes).map_err(|_| invalid(format!("a body of {n_bytes} bytes")))?;
    let mut body = zeroed(n_bytes.min(PIECE))?;
    let mut filled = 0;
    while filled < n_bytes {
        let target = body.len();
        let piece = body.as_slice_mut().get_mut(filled..target).unwrap_or_default();
        if read_start(&mut *reader, piece)? < piece.len() {
            return Err(ends_inside());
        }
        filled = target;
        if filled < n_bytes {
            let longer = n_bytes.min(target.saturating_mul(2));
            body.try_resize(longer, 0).map_err(|error| invalid(format!("a body of {n_bytes} bytes: {error}")))?;
        }
    }
    Ok(body.into())
}

/// Allocates zeroed memory with the alignment that Arrow requires.
pub(super) fn zeroed(n_bytes: usize) -> Result<MutableBuffer, InputError> {
    MutableBuffer::try_from_len_zeroed(n_bytes).map_err(|error| invalid(format!("a body of {n_bytes} bytes: {error}")))
}

/// Checks that all arrays of a batch lie in its body, and that the sizes of compressed buffers are possible.
fn check(batch: RecordBatch<'_>, body: &Buffer) -> Result<(), InputError> {
    let n_bytes = body.len() as u64;
    for node in batch.nodes().into_iter().flatten() {
        let (length, null_count) = (node.length(), node.null_count());
        if !(0..=MAX_VALUES).contains(&length) || !(0..=length).contains(&null_count) {
            return Err(invalid(format!("an array of {length} values, {null_count} of them null")));
        }
    }
    let ratio = batch.compression().map(|compression| match compression.codec() {
        CompressionType::LZ4_FRAME => LZ4_RATIO,
        _ => ZSTD_RATIO,
    });
    let mut decompressed = 0_u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let (offset, length) = (buffer.offset(), buffer.length());
        let outside = || invalid(format!("a buffer of {length} bytes at {offset}, in a body of {n_bytes}"));
        let start = usize::try_from(offset).map_err(|_| outside())?;
        let end = usize::try_from(length).ok().and_then(|length| start.checked_add(length)).ok_or_else(outside)?;
        let bytes = body.get(start..end).ok_or_else(outside)?;
        if let Some(ratio) = ratio
            && !bytes.is_empty()
        {
            let length = bytes.first_chunk().map(|length| i64::from_le_bytes(*length));
            let length = length.ok_or_else(|| invalid("a compressed buffer without its length"))?;
            match u64::try_from(length) {
                Ok(length) => {
                    let most = (bytes.len() as u64).saturating_mul(ratio).max(ZSTD_BLOCK);
                    if length > most {
                        let found = bytes.len();
                        return Err(invalid(format!(
                            "{found} compressed bytes that claim to be {length}, more than {most}"
                        )));
                    }
                    decompressed = decompressed.saturating_add(length);
                }
                // The length -1 marks a buffer that is not compressed.
                Err(_) if length == -1 => {}
                Err(_) => return Err(invalid(format!("a compressed buffer of {length} bytes"))),
            }
        }
    }
    let most = MAX_DECOMPRESSED.max(n_bytes.saturating_mul(LZ4_RATIO));
    if decompressed > most {
        let problem =
            format!("a body of {n_bytes} compressed bytes that claims to be {decompressed}, more than {most}");
        return Err(invalid(problem));
    }
    Ok(())
}

pub(super) fn invalid(problem: impl Into<String>) -> InputError {
    InputError::Invalid(problem.into())
}

fn ends_inside() -> InputError {
    invalid("the stream ends inside a message")
}

/// Returns the message in a block of a file, without the length in front of it.
pub(super) fn strip_length(block: &[u8]) -> Result<Vec<u8>, InputError> {
    let block = block.strip_prefix(CONTINUATION.as_slice()).unwrap_or(block);
    let (length, rest) = block.split_first_chunk::<4>().ok_or_else(|| invalid("a message without its length"))?;
    let length = u32::from_le_bytes(*length);
    let message = usize::try_from(length).ok().and_then(|length| rest.get(..length));
    let n_bytes = rest.len();
    let message = message.ok_or_else(|| invalid(format!("a message of {length} bytes in {n_bytes}")))?;
    Ok(message.to_vec())
}
