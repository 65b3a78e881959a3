//! Unpacks a tar file. The `tar` crate reads it; this module decides what it may contain.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use carton_format::context::CancelToken;
use tar::{Archive, Entry, EntryType, Header};

use super::names::inside;
use super::{Tree, UnpackError};

/// The size of a tar header; a tar file has at least one.
pub(super) const TAR_BLOCK: usize = 512;

/// The largest size in bytes of the headers, long names and extensions before one entry. The `tar` crate holds them in memory.
const MAX_METADATA_BYTES: u64 = 4 << 20;

/// Whether a file with this start is a tar file: the checksum of its first header is right.
pub(super) fn is_header(start: &[u8]) -> bool {
    let Some(block) = start.get(..TAR_BLOCK) else { return false };
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    // The checksum field counts as spaces.
    let own: u32 = block[148..156].iter().map(|byte| u32::from(*byte)).sum();
    let header = Header::from_byte_slice(block);
    // In a tar file without entries, all bytes are zero.
    sum == 0 || header.cksum().is_ok_and(|expected| expected == sum - own + 8 * u32::from(b' '))
}

pub(super) fn unpack(data: impl Read, folder: &str, tree: &mut Tree<'_>) -> Result<(), UnpackError> {
    let metadata_left = Rc::new(Cell::new(Some(0)));
    let limit = tree.n_bytes_left();
    let cancel_token = tree.cancel_token();
    let limited = Limited { data, metadata_left: metadata_left.clone(), left: limit, limit, cancel_token };
    let mut archive = Archive::new(limited);
    let mut entries = archive.entries().map_err(UnpackError::from_read)?;
    loop {
        metadata_left.set(Some(MAX_METADATA_BYTES));
        let Some(entry) = entries.next() else { break };
        let mut entry = entry.map_err(UnpackError::from_read)?;
        metadata_left.set(None);
        unpack_entry(&mut entry, folder, tree)?;
        // The rest of an entry that makes no file is skipped here, under the limit of data, not of headers.
        io::copy(&mut entry, &mut io::sink()).map_err(UnpackError::from_read)?;
    }
    // Reads to the end, where damage to the compression is detected.
    metadata_left.set(None);
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(UnpackError::from_read)?;
    Ok(())
}

fn unpack_entry(entry: &mut Entry<'_, impl Read>, folder: &str, tree: &mut Tree<'_>) -> Result<(), UnpackError> {
    let kind = entry.header().entry_type();
    if kind.is_pax_global_extensions() {
        // Comments, such as the commit that `git archive` records.
        return tree.count();
    }
    let path = entry.path_bytes().into_owned();
    let Some(name) = plain_name(&path)? else { return tree.count() };
    let name = inside(folder, name);
    let refused = |found| UnpackError::Kind { name: name.escape_debug().to_string(), found };
    match kind {
        EntryType::Directory => tree.folder(&name),
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            if is_pax_sparse(entry)? {
                return Err(refused("a sparse file in a form that is not supported"));
            }
            if path.ends_with(b"/") {
                // Archives older than POSIX mark folders in this way.
                return tree.folder(&name);
            }
            let is_executable = entry.header().mode().map_err(UnpackError::Damaged)? & 0o111 != 0;
            tree.file(&name, is_executable, entry)
        }
        EntryType::Symlink => {
            let target = entry.link_name_bytes().unwrap_or_default().into_owned();
            tree.link(&name, &target)
        }
        EntryType::Link => {
            let target = entry.link_name_bytes().unwrap_or_default().into_owned();
            let target = plain_name(&target)?.map(|target| inside(folder, target)).unwrap_or_default();
            tree.hard_link(&name, &target)
        }
        EntryType::Char | EntryType::Block => Err(refused("a device")),
        EntryType::Fifo => Err(refused("a pipe")),
        _ => Err(refused("of an unknown kind")),
    }
}

/// Removes the `./` before and the slash after a name, which tar files have; `None` for the top folder itself.
fn plain_name(path: &[u8]) -> Result<Option<&str>, UnpackError> {
    let not_utf8 = |_| UnpackError::Name {
        name: path.escape_ascii().to_string(),
        source: carton_format::name::NameError::NotUtf8,
    };
    let text = std::str::from_utf8(path).map_err(not_utf8)?;
    let text = text.strip_prefix("./").unwrap_or(text);
    let text = text.strip_suffix('/').unwrap_or(text);
    let is_top = path == b"." || path == b"./";
    Ok((!is_top).then_some(text))
}

/// Whether the extensions say that the data is a sparse file in the pax form, which the `tar` crate does not support.
fn is_pax_sparse(entry: &mut Entry<'_, impl Read>) -> Result<bool, UnpackError> {
    let Some(extensions) = entry.pax_extensions().map_err(UnpackError::from_read)? else { return Ok(false) };
    for extension in extensions {
        if extension.map_err(UnpackError::from_read)?.key_bytes().starts_with(b"GNU.sparse.") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads an archive up to the limits, and until the work is cancelled.
struct Limited<'a, R> {
    data: R,
    /// How many bytes may still be read before the next entry's data; `None` within data, where there is no such limit.
    metadata_left: Rc<Cell<Option<u64>>>,
    /// How many bytes may still be read in total, including headers and padding.
    left: u64,
    limit: u64,
    /// Cancels the work. It is checked here too, because skipped data can be as long as the limit.
    cancel_token: &'a CancelToken,
}

impl<R: Read> Read for Limited<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.cancel_token.check().map_err(|cancelled| io::Error::other(UnpackError::from(cancelled)))?;
        let length = self.data.read(buffer)?;
        if let Some(left) = self.metadata_left.get() {
            let what = "bytes of headers and names of one entry";
            let left = left.checked_sub(length as u64).ok_or_else(|| limit(what, MAX_METADATA_BYTES))?;
            self.metadata_left.set(Some(left));
        }
        self.left = self.left.checked_sub(length as u64).ok_or_else(|| limit("bytes of the archive", self.limit))?;
        Ok(length)
    }
}

fn limit(what: &'static str, limit: u64) -> io::Error {
    io::Error::other(UnpackError::Limit { what, limit })
}
