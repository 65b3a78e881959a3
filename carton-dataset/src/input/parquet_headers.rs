//! The file from which `parquet` reads pages. Page headers are checked before `parquet` reads them: `parquet` could take years for one
//! with lists whose elements take no bytes ([`thrift`](super::thrift)).

use std::fs::File;
use std::io::{self, Cursor, Read};

use bytes::Bytes;
use parquet::errors::Result;
use parquet::file::reader::{ChunkReader, Length};

use super::parquet_layout::PAGE_HEADER;
use super::thrift::{Compact, ThriftError};

/// The number of bytes that are read first for a header. Statistics can make a header longer.
const USUAL_HEADER: u64 = 4 << 10;
/// The longest accepted header in bytes. Other readers have the same limit.
const MAX_HEADER: u64 = 16 << 20;

/// The file whose pages are read. `parquet` requests a reader to read a header, and a number of bytes where it knows how many it needs.
pub(super) struct PageFile(pub(super) File);

impl Length for PageFile {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for PageFile {
    type T = Header;

    fn get_read(&self, start: u64) -> Result<Header> {
        Ok(Header { file: self.0.try_clone()?, start, bytes: None })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.0.get_bytes(start, length)
    }
}

/// Reads the header of a page, and nothing after it. The header is checked at the first read, because `parquet` also requests readers
/// that it does not use.
pub(super) struct Header {
    file: File,
    start: u64,
    bytes: Option<Cursor<Vec<u8>>>,
}

impl Read for Header {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = match &mut self.bytes {
            Some(bytes) => bytes,
            None => self.bytes.insert(Cursor::new(read_header(&self.file, self.start)?)),
        };
        bytes.read(buffer)
    }
}

/// Reads and checks the whole header of the page that begins at `start`.
fn read_header(file: &File, start: u64) -> io::Result<Vec<u8>> {
    let invalid =
        |problem| io::Error::new(io::ErrorKind::InvalidData, format!("a page at {start} whose header {problem}"));
    let mut length = USUAL_HEADER;
    loop {
        let mut header = Vec::new();
        file.get_read(start)?.take(length).read_to_end(&mut header)?;
        let is_more = header.len() as u64 == length && length < MAX_HEADER;
        let mut thrift = Compact { rest: &header };
        match thrift.walk(PAGE_HEADER, 0, &mut |_, _| {}) {
            Ok(()) => {
                let n_bytes = header.len() - thrift.rest.len();
                header.truncate(n_bytes);
                return Ok(header);
            }
            Err(ThriftError::Ends) if is_more => length = MAX_HEADER.min(length * 16),
            Err(ThriftError::Ends) => return Err(invalid("does not end".to_owned())),
            Err(ThriftError::Invalid(problem)) => return Err(invalid(format!("has {problem}"))),
        }
    }
}
