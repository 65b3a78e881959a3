//! Reads one entry's data: checks its local header, decompresses, and checks size and CRC.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, InBuffer, Operation, OutBuffer};

use super::record::{ExtraFields, IN_ZIP64_32, LocalFileHeader, flag, method};
use super::section::Section;
use super::{ArchiveError, Entry, EntryKind, MAX_ZSTD_WINDOW_LOG, Method};
use crate::source::Source;

/// The uncompressed bytes of an entry.
///
/// Reading returns exactly the declared number of bytes. The last of them are returned only after the CRC was found right and the
/// compressed data was found to end where it should, so a caller that has read [`Entry::size`] bytes has read the right ones. Errors are
/// an [`ArchiveError`] inside the [`io::Error`]; [`ArchiveError::from_read`] extracts it.
pub struct EntryReader {
    entry: Entry,
    section: Section,
    decoder: Decoder,
    crc32: crc32fast::Hasher,
    /// The number of bytes that were returned.
    produced: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Reading,
    Finished,
    Failed,
}

enum Decoder {
    Stored,
    Deflate {
        decompress: Box<Decompress>,
        ended: bool,
    },
    Zstd {
        decoder: ZstdDecoder<'static>,
        /// Whether a frame is complete and no further one has begun.
        ended: bool,
    },
}

impl std::fmt::Debug for EntryReader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("EntryReader").field("entry", &self.entry).field("produced", &self.produced).finish()
    }
}

impl EntryReader {
    pub(super) fn open(source: Arc<dyn Source>, entry: Entry) -> Result<Self, ArchiveError> {
        let (range, buffer, header_length) = open_header(&*source, &entry)?;
        Self::from_section(Section::new(source, range.start, range.end, buffer, header_length), entry)
    }

    /// Reads data whose range is known from its local header.
    pub(super) fn over(source: Arc<dyn Source>, entry: Entry, data: Range<u64>) -> Result<Self, ArchiveError> {
        Self::from_section(Section::new(source, data.start, data.end, Vec::new(), 0), entry)
    }

    fn from_section(section: Section, entry: Entry) -> Result<Self, ArchiveError> {
        let corrupt = |source| ArchiveError::Corrupt { name: entry.name().to_owned(), source };
        // Empty data is not a complete stream of either method, but some writers use it for the empty file.
        let no_data = entry.compressed_size == 0;
        let decoder = match entry.method {
            Method::Stored => Decoder::Stored,
            Method::Deflate => Decoder::Deflate { decompress: Box::new(Decompress::new(false)), ended: no_data },
            Method::Zstd => {
                let mut decoder = ZstdDecoder::new().map_err(corrupt)?;
                decoder.set_parameter(DParameter::WindowLogMax(MAX_ZSTD_WINDOW_LOG)).map_err(corrupt)?;
                Decoder::Zstd { decoder, ended: no_data }
            }
        };
        let crc32 = crc32fast::Hasher::new();
        Ok(Self { entry, section, decoder, crc32, produced: 0, state: State::Reading })
    }

    /// The entry being read.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Checks the end of the data, after all of it was read. Reading the last bytes does so already; entries without any bytes need this
    /// call.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        if self.state == State::Finished {
            return Ok(());
        }
        let result = self.check_end();
        self.state = if result.is_ok() { State::Finished } else { State::Failed };
        result
    }

    fn check_end(&mut self) -> io::Result<()> {
        let mut surplus = [0];
        if self.decode(&mut surplus)? != 0 {
            let found = format!("more than {}", self.produced);
            return Err(self.mismatch("size", self.entry.size.to_string(), found));
        }
        let ended = match &self.decoder {
            Decoder::Stored => true,
            Decoder::Deflate { ended, .. } | Decoder::Zstd { ended, .. } => *ended,
        };
        if self.produced != self.entry.size {
            return Err(self.mismatch("size", self.entry.size.to_string(), self.produced.to_string()));
        }
        if !ended || self.section.remaining() != 0 {
            let what = if ended { "there is more after its end" } else { "it has no end" };
            return Err(self.corrupt(io::Error::new(io::ErrorKind::InvalidData, what)));
        }
        let found = self.crc32.clone().finalize();
        if found != self.entry.crc32 {
            return Err(self.mismatch("CRC-32", format!("{:#010x}", self.entry.crc32), format!("{found:#010x}")));
        }
        Ok(())
    }

    /// Decompresses into `output` until it is full or the data ends. Returns the number of bytes.
    fn decode(&mut self, output: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < output.len() {
            let free = &mut output[filled..];
            match &mut self.decoder {
                Decoder::Stored => {
                    let length = self.section.read(free)?;
                    if length == 0 {
                        break;
                    }
                    filled += length;
                }
                Decoder::Deflate { ended: true, .. } => break,
                Decoder::Deflate { decompress, ended } => {
                    let input = self.section.peek()?;
                    let at_end = input.is_empty();
                    let (input_before, output_before) = (decompress.total_in(), decompress.total_out());
                    let status = decompress.decompress(input, free, FlushDecompress::None);
                    let consumed = (decompress.total_in() - input_before) as usize;
                    let produced = (decompress.total_out() - output_before) as usize;
                    self.section.take(consumed);
                    filled += produced;
                    match status {
                        Ok(Status::StreamEnd) => *ended = true,
                        Ok(_) if consumed == 0 && produced == 0 && at_end => break,
                        Ok(Status::Ok) if consumed != 0 || produced != 0 => {}
                        Ok(_) => return Err(self.corrupt(io::ErrorKind::InvalidData.into())),
                        Err(error) => return Err(self.corrupt(io::Error::new(io::ErrorKind::InvalidData, error))),
                    }
                }
                Decoder::Zstd { decoder, ended } => {
                    let input = self.section.peek()?;
                    if *ended && input.is_empty() {
                        break;
                    }
                    let at_end = input.is_empty();
                    let mut input = InBuffer::around(input);
                    let mut free = OutBuffer::around(free);
                    let hint = decoder.run(&mut input, &mut free);
                    let (consumed, produced) = (input.pos(), free.pos());
                    self.section.take(consumed);
                    filled += produced;
                    match hint {
                        Ok(hint) => *ended = hint == 0,
                        Err(error) => return Err(self.corrupt(error)),
                    }
                    if consumed == 0 && produced == 0 {
                        if at_end {
                            break;
                        }
                        if !*ended {
                            return Err(self.corrupt(io::ErrorKind::InvalidData.into()));
                        }
                    }
                }
            }
        }
        Ok(filled)
    }

    fn mismatch(&self, what: &'static str, expected: String, found: String) -> io::Error {
        let name = self.entry.name().to_owned();
        io::Error::new(io::ErrorKind::InvalidData, ArchiveError::Mismatch { what, name, expected, found })
    }

    fn corrupt(&self, source: io::Error) -> io::Error {
        let name = self.entry.name().to_owned();
        io::Error::new(io::ErrorKind::InvalidData, ArchiveError::Corrupt { name, source })
    }

    fn read_some(&mut self, output: &mut [u8]) -> io::Result<usize> {
        let remaining = self.entry.size - self.produced;
        let wanted = usize::try_from(remaining).unwrap_or(usize::MAX).min(output.len());
        let length = self.decode(&mut output[..wanted])?;
        self.crc32.update(&output[..length]);
        self.produced += length as u64;
        if self.produced == self.entry.size || length < wanted {
            self.finish()?;
        }
        Ok(length)
    }
}

impl Read for EntryReader {
    fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        match self.state {
            State::Finished => Ok(0),
            State::Failed => Err(io::Error::new(io::ErrorKind::InvalidData, "reading this entry failed before")),
            State::Reading if output.is_empty() => Ok(0),
            State::Reading => {
                let result = self.read_some(output);
                if result.is_err() {
                    self.state = State::Failed;
                }
                result
            }
        }
    }
}

/// The number of bytes after the shortest possible local header that are read with it, so that small entries take one read.
const READ_AHEAD: u64 = 32 << 10;
/// How many of those may be extra fields of the header.
const EXPECTED_EXTRA: u64 = 64;

/// The usual padding before data by writers that align it, such as this one.
const USUAL_PADDING: u64 = 4096 + 16;

/// The usual upper bound for the length of an entry with its local header.
pub(super) fn usual_length(entry: &Entry) -> u64 {
    let header = LocalFileHeader::LENGTH as u64 + u64::from(entry.name_length) + EXPECTED_EXTRA;
    (header + USUAL_PADDING).saturating_add(entry.compressed_size)
}

/// Reads and checks the local header of `entry`. Returns the range of its data, a buffer with the header and perhaps the first bytes
/// after it, and the length of the header.
pub(super) fn open_header(source: &dyn Source, entry: &Entry) -> Result<(Range<u64>, Vec<u8>, usize), ArchiveError> {
    let offset = entry.header_offset;
    let least = (LocalFileHeader::LENGTH as u64) + u64::from(entry.name_length);
    let ahead = if entry.compressed_size <= READ_AHEAD { entry.compressed_size } else { 0 };
    let mut buffer = Vec::new();
    // Opening the archive checked that the limit lies within the file.
    let available = entry.limit - offset;
    let read_to = |buffer: &mut Vec<u8>, length: u64| {
        let filled = buffer.len();
        // At most 128 KiB of header and 32 KiB of data.
        buffer.resize(length as usize, 0);
        source.read_at(offset + filled as u64, &mut buffer[filled..]).map_err(|error| ArchiveError::Io {
            action: "read",
            location: source.location().to_owned(),
            source: error,
        })
    };
    read_to(&mut buffer, available.min(least + EXPECTED_EXTRA + ahead))?;
    let header_length = LocalFileHeader::length(&buffer, offset)?;
    let data_start = offset + header_length as u64;
    let fits = data_start.checked_add(entry.compressed_size).filter(|end| *end <= entry.limit);
    let Some(data_end) = fits else {
        return Err(ArchiveError::format(
            format_args!("data of `{}`", entry.name()),
            data_start,
            format_args!("its end at or before {}, where the next record starts", entry.limit),
            format_args!("{} bytes", entry.compressed_size),
        ));
    };
    if buffer.len() < header_length {
        read_to(&mut buffer, (header_length as u64 + ahead).min(available))?;
    }
    let header = LocalFileHeader::parse(&buffer[..header_length], offset)?;
    check_header(&header, entry)?;
    Ok((data_start..data_end, buffer, header_length))
}

/// Checks that a local header agrees with the central directory.
///
/// Tools differ in which of the two they trust; if the two disagree, the same archive has different contents for each tool.
fn check_header(header: &LocalFileHeader<'_>, entry: &Entry) -> Result<(), ArchiveError> {
    let offset = entry.header_offset;
    let disagree = |what: &str, expected: &dyn std::fmt::Display, found: &dyn std::fmt::Display| {
        let what = format_args!("{what} in the local header of `{}`", entry.name());
        ArchiveError::format(what, offset, format_args!("{expected}, as in the central directory"), found)
    };
    let name_matches = match entry.kind {
        EntryKind::Directory => header.name.strip_suffix(b"/") == Some(entry.name().as_bytes()),
        EntryKind::File | EntryKind::Symlink => header.name == entry.name().as_bytes(),
    };
    if !name_matches {
        let found = format_args!("`{}`", header.name.escape_ascii());
        return Err(disagree("name", &"the same", &found));
    }
    if header.flags != entry.flags {
        return Err(disagree("flags", &format_args!("{:#06x}", entry.flags), &format_args!("{:#06x}", header.flags)));
    }
    let method = match entry.method {
        Method::Stored => method::STORED,
        Method::Deflate => method::DEFLATE,
        Method::Zstd => method::ZSTD,
    };
    if header.method != method {
        return Err(disagree("compression method", &method, &header.method));
    }
    let extra = ExtraFields::parse(header.extra, offset)?;
    extra.check_unicode_path(header.name, offset)?;
    if header.flags & flag::STREAMED != 0 {
        // The CRC and the sizes were unknown when this header was written.
        return Ok(());
    }
    let saturated = [header.size == IN_ZIP64_32, header.compressed_size == IN_ZIP64_32, false, false];
    let values = extra.zip64_values(saturated, offset)?;
    for (what, expected, found) in [
        ("CRC-32", u64::from(entry.crc32), u64::from(header.crc32)),
        ("size", entry.size, values.size.unwrap_or(u64::from(header.size))),
        ("compressed size", entry.compressed_size, values.compressed_size.unwrap_or(u64::from(header.compressed_size))),
    ] {
        if expected != found {
            return Err(disagree(what, &expected, &found));
        }
    }
    Ok(())
}
