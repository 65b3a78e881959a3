//! Reads record batches from Arrow IPC files and streams (spec/dataset.md §4.1).

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::ops::Range;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary};
use arrow_ipc::{Block, MessageHeader, root_as_footer};
use arrow_schema::SchemaRef;
use carton_tensor::files::FileBytes;

use super::ipc_message::{self, Encapsulated, invalid};
use super::rows::Rows;
use super::{InputError, ipc_projection};

/// The last bytes of a file, after the length of its footer.
const MAGIC: &[u8; 6] = b"ARROW1";
/// The size of the footer's length and the magic.
const TRAILER: u64 = 4 + MAGIC.len() as u64;

/// Decodes messages to record batches.
struct Decoder {
    /// The schema of all columns.
    schema: SchemaRef,
    /// The requested columns, and the schema of those.
    projection: Option<(Vec<usize>, SchemaRef)>,
    dictionaries: HashMap<i64, ArrayRef>,
}

impl Decoder {
    fn new(schema: arrow_ipc::Schema<'_>) -> Result<Self, InputError> {
        if !schema.endianness().equals_to_target_endianness() {
            return Err(invalid("numbers are big-endian, expected little-endian"));
        }
        Ok(Self { schema: try_fb_to_schema(schema)?.into(), projection: None, dictionaries: HashMap::new() })
    }

    fn projected_schema(&self) -> SchemaRef {
        self.projection.as_ref().map_or(&self.schema, |(_, schema)| schema).clone()
    }

    fn project(&mut self, columns: Vec<usize>) -> Result<(), InputError> {
        let schema = self.schema.project(&columns)?;
        self.projection = Some((columns, schema.into()));
        Ok(())
    }

    /// Decodes a message to a batch. Returns `None` for a dictionary, which is kept for the batches after it.
    fn decode(&mut self, encapsulated: &Encapsulated) -> Result<Option<RecordBatch>, InputError> {
        encapsulated.check()?;
        let (message, body) = (encapsulated.message()?, &encapsulated.body);
        match message.header_type() {
            MessageHeader::RecordBatch => {
                let batch = message.header_as_record_batch().ok_or_else(|| invalid("a message without its batch"))?;
                let (schema, dictionaries) = (self.schema.clone(), &self.dictionaries);
                let batch = RecordBatchDecoder::try_new(body, batch, schema, dictionaries, &message.version())?
                    .with_projection(self.projection.as_ref().map(|(columns, _)| columns.as_slice()))
                    .read_record_batch()?;
                Ok(Some(batch))
            }
            MessageHeader::DictionaryBatch => {
                let dictionary = message.header_as_dictionary_batch();
                let dictionary = dictionary.ok_or_else(|| invalid("a message without its dictionary"))?;
                read_dictionary(body, dictionary, &self.schema, &mut self.dictionaries, &message.version())?;
                Ok(None)
            }
            other => Err(invalid(format!("a message of kind {other:?} among the batches"))),
        }
    }
}

/// A stream, read from its beginning to its end.
pub(super) struct IpcStream {
    reader: BufReader<Box<dyn Read + Send>>,
    decoder: Decoder,
    /// The size of the file in bytes, if the stream is a file.
    file_length: Option<u64>,
    read: u64,
}

impl IpcStream {
    pub(super) fn open(stream: Box<dyn Read + Send>, file_length: Option<u64>) -> Result<Box<dyn Rows>, InputError> {
        let mut reader = Counting { inner: BufReader::with_capacity(1 << 16, stream), read: 0 };
        let first = ipc_message::read(&mut reader)?.ok_or_else(|| invalid("the stream ends before its schema"))?;
        first.check()?;
        let schema = first.message()?.header_as_schema();
        let schema = schema.ok_or_else(|| invalid("the stream does not begin with its schema"))?;
        let decoder = Decoder::new(schema)?;
        Ok(Box::new(Self { reader: reader.inner, decoder, file_length, read: reader.read }))
    }
}

impl Rows for IpcStream {
    fn schema(&self) -> SchemaRef {
        self.decoder.projected_schema()
    }

    fn n_rows(&self) -> Option<u64> {
        None
    }

    fn project(&mut self, columns: Vec<usize>) -> Result<(), InputError> {
        self.decoder.project(columns)
    }

    fn next_batch(&mut self, _max_rows: usize) -> Result<Option<RecordBatch>, InputError> {
        loop {
            let mut reader = Counting { inner: &mut self.reader, read: self.read };
            let message = ipc_message::read(&mut reader)?;
            self.read = reader.read;
            let Some(message) = message else { break };
            if let Some(batch) = self.decoder.decode(&message)? {
                return Ok(Some(batch));
            }
        }
        match self.file_length.map(|length| length.saturating_sub(self.read)) {
            None | Some(0) => Ok(None),
            Some(n_bytes) => Err(InputError::TrailingBytes { n_bytes }),
        }
    }
}

/// Counts the bytes that are read.
struct Counting<R> {
    inner: R,
    read: u64,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n_bytes = self.inner.read(buffer)?;
        self.read += n_bytes as u64;
        Ok(n_bytes)
    }
}

/// An Arrow IPC file, whose footer lists the positions of its batches.
pub(super) struct IpcFile {
    file: FileBytes,
    decoder: Decoder,
    dictionaries: std::vec::IntoIter<MessageRanges>,
    batches: std::vec::IntoIter<MessageRanges>,
    n_rows: u64,
}

/// The byte ranges of a message in a file.
#[derive(Clone, Debug)]
struct MessageRanges {
    metadata: Range<u64>,
    body: Range<u64>,
}

impl IpcFile {
    pub(super) fn open(file: File) -> Result<Box<dyn Rows>, InputError> {
        let file = FileBytes::from_file(file)?;
        let end = file.len().checked_sub(TRAILER).ok_or_else(|| invalid("the file ends inside its first bytes"))?;
        let trailer = file.read(end..file.len())?;
        let (length, magic) = trailer.split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
        if magic != MAGIC {
            return Err(invalid("the file does not end with `ARROW1`: its writer was stopped before it was done"));
        }
        let length = u64::from(u32::from_le_bytes(*length));
        ipc_message::check_metadata_length(length)?;
        let start = end.checked_sub(length).ok_or_else(|| invalid(format!("a footer of {length} bytes")))?;
        let footer = file.read(start..end)?;
        let footer =
            root_as_footer(&footer).map_err(|error| invalid(format!("a footer that cannot be read: {error}")))?;
        let schema = footer.schema().ok_or_else(|| invalid("a footer without schema"))?;
        let decoder = Decoder::new(schema)?;

        let mut room = start;
        let mut place = |block: &Block| MessageRanges::new(block, start, &mut room);
        let dictionaries =
            footer.dictionaries().into_iter().flatten().map(&mut place).collect::<Result<Vec<_>, _>>()?;
        let batches = footer.recordBatches().into_iter().flatten().map(&mut place).collect::<Result<Vec<_>, _>>()?;
        let mut n_rows = 0_u64;
        for place in &batches {
            let metadata = place.metadata(&file)?;
            let message = ipc_message::parse(&metadata)?;
            let batch = message.header_as_record_batch();
            let batch = batch.ok_or_else(|| invalid("a footer that takes another message for a batch"))?;
            n_rows = n_rows.saturating_add(ipc_message::row_count(batch)?);
        }
        let (dictionaries, batches) = (dictionaries.into_iter(), batches.into_iter());
        Ok(Box::new(Self { file, decoder, dictionaries, batches, n_rows }))
    }

    fn read(&self, place: &MessageRanges) -> Result<Encapsulated, InputError> {
        let metadata = place.metadata(&self.file)?;
        let ranges = self.ranges(&metadata)?;
        Encapsulated::new(metadata, |n_bytes| {
            let found = place.body.end - place.body.start;
            if n_bytes > found {
                return Err(invalid(format!("a body of {n_bytes} bytes where the footer says {found}")));
            }
            let mut body = ipc_message::zeroed(usize::try_from(n_bytes).unwrap_or(usize::MAX))?;
            // Memory of columns that are not requested is never touched, so the kernel does not allocate it.
            for range in ranges.unwrap_or_else(|| std::iter::once(0..n_bytes).collect()) {
                let outside = || invalid(format!("a buffer that ends at {}, in a body of {n_bytes}", range.end));
                let start = usize::try_from(range.start).map_err(|_| outside())?;
                let end = usize::try_from(range.end).map_err(|_| outside())?;
                let piece = body.as_slice_mut().get_mut(start..end).ok_or_else(outside)?;
                self.file.read_into(place.body.start + range.start, piece)?;
            }
            Ok(Buffer::from(body))
        })
    }

    /// Returns the ranges of a batch's body that the requested columns need; `None` for the whole body.
    fn ranges(&self, metadata: &[u8]) -> Result<Option<Vec<Range<u64>>>, InputError> {
        let Some((columns, _)) = &self.decoder.projection else { return Ok(None) };
        let batch = ipc_message::parse(metadata)?.header_as_record_batch();
        Ok(batch.and_then(|batch| ipc_projection::ranges(&self.decoder.schema, columns, batch)))
    }
}

impl MessageRanges {
    /// Returns the ranges of a block, which must lie before the footer at `end`. Each block takes its bytes from `room`, so that no
    /// footer can cause a file to be read more than once.
    fn new(block: &Block, end: u64, room: &mut u64) -> Result<Self, InputError> {
        let (offset, metadata, body) = (block.offset(), block.metaDataLength(), block.bodyLength());
        let outside = || invalid(format!("a message at {offset} of {metadata} and {body} bytes, in a file of {end}"));
        let start = u64::try_from(offset).map_err(|_| outside())?;
        let middle = u64::try_from(metadata).ok().and_then(|length| start.checked_add(length)).ok_or_else(outside)?;
        let stop = u64::try_from(body).ok().and_then(|length| middle.checked_add(length)).ok_or_else(outside)?;
        if stop > end {
            return Err(outside());
        }
        *room = room.checked_sub(stop - start).ok_or_else(|| invalid("a footer that names the same bytes twice"))?;
        ipc_message::check_metadata_length(middle - start)?;
        Ok(Self { metadata: start..middle, body: middle..stop })
    }

    /// Reads the message, without the length in front of it.
    fn metadata(&self, file: &FileBytes) -> Result<Vec<u8>, InputError> {
        let metadata = file.read(self.metadata.clone())?;
        ipc_message::strip_length(&metadata)
    }
}

impl Rows for IpcFile {
    fn schema(&self) -> SchemaRef {
        self.decoder.projected_schema()
    }

    fn n_rows(&self) -> Option<u64> {
        Some(self.n_rows)
    }

    fn project(&mut self, columns: Vec<usize>) -> Result<(), InputError> {
        self.decoder.project(columns)
    }

    fn next_batch(&mut self, _max_rows: usize) -> Result<Option<RecordBatch>, InputError> {
        while let Some(place) = self.dictionaries.next() {
            let message = self.read(&place)?;
            if self.decoder.decode(&message)?.is_some() {
                return Err(invalid("a footer that takes a batch for a dictionary"));
            }
        }
        let Some(place) = self.batches.next() else { return Ok(None) };
        let message = self.read(&place)?;
        let batch = self.decoder.decode(&message)?;
        batch.ok_or_else(|| invalid("a footer that takes a dictionary for a batch")).map(Some)
    }
}
