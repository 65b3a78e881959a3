//! Parses the start and the end of a file (spec/ztensor2.md §1.1, §1.2): bytes in, positions out. Only [`read`] reads them from a file.

use std::ops::Range;

use super::ZTensor2Error;
use super::error::malformed;
use crate::files::FileBytes;

/// The magic number at the start and the end of a file of zTensor 2.
pub const MAGIC: [u8; 8] = *b"\x89ZT2\r\n\x1a\n";
/// The alignment that every blob has at least, in bytes.
pub const ALIGNMENT: u64 = 4096;
/// The largest manifest, in bytes.
pub const MAX_MANIFEST: u64 = 1 << 30;
/// The version of the manifest that this module reads, as the footer states it.
pub(super) const VERSION: u32 = 2;

/// The bytes of the footer.
pub(super) const FOOTER: usize = 40;
/// The bytes of the smallest file: a magic number and a footer.
pub(super) const LEAST: u64 = (MAGIC.len() + FOOTER) as u64;

/// What the last bytes of a file say about its manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footer {
    manifest: Range<u64>,
    hash: u64,
}

impl Footer {
    /// The number of bytes at the end of a file that [`parse`](Self::parse) needs.
    pub const LENGTH: usize = FOOTER;

    /// Parses the last [`LENGTH`](Self::LENGTH) bytes of a file of `file_length` bytes. `None` for a data shard, which has no manifest.
    ///
    /// # Errors
    /// The rules of sections 1.1 and 1.2.
    pub fn parse(last: &[u8; FOOTER], file_length: u64) -> Result<Option<Self>, ZTensor2Error> {
        let start = file_length.saturating_sub(FOOTER as u64);
        let (fields, magic) = last.split_at(FOOTER - MAGIC.len());
        check_magic(magic, start + 32, "the file ends")?;
        let number = |index: usize| {
            let bytes = fields.get(index..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let version =
            fields.get(24..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes));
        if version != VERSION {
            return Err(malformed("1.2", start + 24, format!("the footer has version {version}, expected {VERSION}")));
        }
        let (offset, length, hash) = (number(0), number(8), number(16));
        if length == 0 {
            if offset != 0 || hash != 0 {
                let problem = "a footer without a manifest has an offset or a hash of it, expected zeros";
                return Err(malformed("1.2", start, problem));
            }
            return Ok(None);
        }
        if length > MAX_MANIFEST {
            let problem = format!("the manifest claims {length} bytes, expected at most {MAX_MANIFEST}");
            return Err(malformed("1.2", start + 8, problem));
        }
        check_place(offset, start, "the manifest")?;
        match offset.checked_add(length) {
            Some(end) if end <= start => Ok(Some(Self { manifest: offset..end, hash })),
            _ => {
                let problem = format!(
                    "the manifest has {length} bytes from byte {offset} on, expected them to end before the footer at byte {start}"
                );
                Err(malformed("1.2", start, problem))
            }
        }
    }

    /// The range of the manifest in the file.
    #[must_use]
    pub fn manifest(&self) -> Range<u64> {
        self.manifest.clone()
    }

    /// The XXH3 of the manifest.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }
}

/// Checks where a blob starts. `stated_at` is the byte of the file that says so.
pub(super) fn check_place(offset: u64, stated_at: u64, what: &str) -> Result<(), ZTensor2Error> {
    if offset >= ALIGNMENT && offset.is_multiple_of(ALIGNMENT) {
        return Ok(());
    }
    let problem = format!("{what} starts at byte {offset}, expected a multiple of {ALIGNMENT} that is not 0");
    Err(malformed("1.3", stated_at, problem))
}

/// Checks the first bytes of a file, of which there may be fewer than eight.
pub(super) fn check_start(first: &[u8], file_length: u64) -> Result<(), ZTensor2Error> {
    // A file of another format is reported as such even if it is short.
    if first.len() == MAGIC.len() {
        check_magic(first, 0, "the file starts")?;
    }
    if file_length < LEAST {
        let problem = format!("the file has {file_length} bytes, expected at least {LEAST}");
        return Err(malformed("1.1", file_length, problem));
    }
    Ok(())
}

fn check_magic(found: &[u8], at: u64, what: &str) -> Result<(), ZTensor2Error> {
    if found == MAGIC {
        return Ok(());
    }
    let problem = format!("{what} with `{}`, expected `{}`", found.escape_ascii(), MAGIC.escape_ascii());
    Err(malformed("1.1", at, problem))
}

/// Reads the start and the end of a file. Returns what the footer says, and where it starts; `None` for a data shard.
pub(super) fn read(bytes: &FileBytes) -> Result<Option<(Footer, u64)>, ZTensor2Error> {
    let length = bytes.len();
    let first = bytes.start(MAGIC.len())?;
    check_start(&first, length)?;
    let start = length - Footer::LENGTH as u64;
    let mut last = [0; Footer::LENGTH];
    bytes.read_into(start, &mut last)?;
    Ok(Footer::parse(&last, length)?.map(|footer| (footer, start)))
}
