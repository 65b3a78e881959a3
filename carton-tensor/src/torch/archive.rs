//! The container since PyTorch 1.6: a zip archive with one folder, which holds the pickle (`data.pkl`) and the storages (`data/KEY`)
//! (spec/torch.md §1.1).

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use zip::read::ZipArchive;
use zip::result::ZipError;
use zip::{CompressionMethod, read::ZipArchiveMetadata};

use super::contents::{Contents, Place, Storage, number};
use super::error::{Problem, malformed, quoted, refused};
use super::interpreter::{Interpreter, PersistentIds};
use super::names::name_tensors;
use crate::content::Content;
use crate::files::{FileBytes, FileReader};

/// The longest pickle that is read, in bytes.
pub(super) const MAX_PICKLE: u64 = 1 << 26;
/// The versions of the archive that PyTorch has.
const VERSIONS: RangeInclusive<u64> = 1..=10;

/// The entries of an archive, by their names without the folder.
struct Entries {
    list: Arc<ZipArchiveMetadata>,
    folder: String,
    positions: HashMap<String, usize>,
}

/// Reads what an archive has.
pub(super) fn open(bytes: &FileBytes) -> Result<(Contents, ZipArchive<FileReader>), Problem> {
    let archive = ZipArchive::new(FileReader::new(bytes.clone())).map_err(of_zip)?;
    let entries = Entries::of(&archive, bytes.len())?;
    check_end(bytes, &entries.list)?;
    entries.check_version(bytes)?;
    entries.check_byte_order(bytes)?;
    entries.check_alignment(bytes)?;
    entries.check_notes(bytes)?;
    let pickle = entries.find("data.pkl")?;
    if pickle.n_bytes > MAX_PICKLE {
        return refused(format!("a pickle of {} bytes, expected at most {MAX_PICKLE}", pickle.n_bytes));
    }
    let start = pickle.start(bytes)?;
    let pickle = bytes.read(start..start.saturating_add(pickle.n_bytes))?;
    let mut interpreter = Interpreter::new();
    let (root, end) = interpreter.follow(&pickle, 0, PersistentIds::Archive)?;
    if end != pickle.len() {
        return malformed(format!("{} bytes follow the end of its pickle", pickle.len().saturating_sub(end)));
    }
    let made = interpreter.made;
    let (names, left_out) = name_tensors(&made, root)?;
    let mut storages = Vec::with_capacity(made.storages.len());
    for storage in &made.storages {
        let found = entries.find(&format!("data/{}", storage.key))?;
        if found.n_bytes != storage.n_bytes {
            return malformed(format!(
                "storage {} has {} bytes, expected {} ({} of {})",
                quoted(&storage.key),
                found.n_bytes,
                storage.n_bytes,
                storage.n_elements,
                storage.element_type
            ));
        }
        storages.push(found);
    }
    Ok((Contents::new(names, made.tensors, storages, left_out), archive))
}

impl Entries {
    fn of(archive: &ZipArchive<FileReader>, length: u64) -> Result<Self, Problem> {
        if archive.has_duplicate_names() {
            return malformed("two entries of its archive have the same name");
        }
        if archive.offset() != 0 {
            return malformed("its archive does not begin at its first byte");
        }
        let list = archive.metadata();
        let mut names = Vec::with_capacity(list.len());
        for position in 0..list.len() {
            let entry = list.entry(position).map_err(of_zip)?;
            if entry.encrypted()
                || entry.compression() != CompressionMethod::Stored
                || entry.size() != entry.compressed_size()
            {
                let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
                return refused(format!(
                    "entry {} is compressed or encrypted, expected it stored, as PyTorch writes it",
                    quoted(&name)
                ));
            }
            if entry.header_start().checked_add(entry.size()).is_none_or(|end| end > length) {
                let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
                return malformed(format!("entry {} of its archive is not inside of the file", quoted(&name)));
            }
            match std::str::from_utf8(entry.name_raw()) {
                Ok(name) if name.ends_with('/') => return malformed(format!("entry {} is a folder", quoted(name))),
                Ok(name) => names.push(name.to_owned()),
                Err(_) => {
                    let name = entry.name_raw().escape_ascii().to_string();
                    return malformed(format!("the name of entry {} is not UTF-8", quoted(&name)));
                }
            }
        }
        let content = Content::of_zip(names.iter().map(String::as_str));
        if content != Content::TorchArchive {
            return Err(Problem::OtherContent(content));
        }
        let folder = names.first().and_then(|name| name.split_once('/')).map(|(folder, _)| folder.to_owned());
        let folder = folder.unwrap_or_default();
        let (mut positions, mut seen) = (HashMap::with_capacity(names.len()), HashSet::with_capacity(names.len()));
        for (position, name) in names.into_iter().enumerate() {
            let Some(inner) = name.strip_prefix(&folder).and_then(|rest| rest.strip_prefix('/')) else {
                return malformed(format!(
                    "entry {} of its archive is not in the folder {}",
                    quoted(&name),
                    quoted(&folder)
                ));
            };
            // PyTorch looks entries up without regard to case.
            if !seen.insert(inner.to_ascii_lowercase()) {
                return malformed(format!("two entries of its archive have the name {} but for case", quoted(inner)));
            }
            positions.insert(inner.to_owned(), position);
        }
        // By which PyTorch knows TorchScript, with code or without.
        if seen.contains("constants.pkl") {
            return Err(Problem::OtherContent(Content::TorchScript));
        }
        Ok(Self { list, folder, positions })
    }

    /// Finds an entry.
    fn find(&self, name: &str) -> Result<Storage, Problem> {
        let Some(&position) = self.positions.get(name) else {
            return malformed(format!("its archive has no entry {}", quoted(&format!("{}/{name}", self.folder))));
        };
        let entry = self.list.entry(position).map_err(of_zip)?;
        let place = Place::Entry { position, header_start: entry.header_start(), name: entry.name_raw().to_vec() };
        Ok(Storage::new(entry.size(), place))
    }

    /// Reads a short entry.
    fn read(&self, name: &str, bytes: &FileBytes) -> Result<Vec<u8>, Problem> {
        const MAX: u64 = 64;
        let entry = self.find(name)?;
        if entry.n_bytes > MAX {
            return malformed(format!("entry {} has {} bytes, expected at most {MAX}", quoted(name), entry.n_bytes));
        }
        let start = entry.start(bytes)?;
        Ok(bytes.read(start..start.saturating_add(entry.n_bytes))?.to_vec())
    }

    fn check_version(&self, bytes: &FileBytes) -> Result<(), Problem> {
        // Where PyTorch 1.4 and newer put it, in the order in which they look.
        let name = if self.positions.contains_key(".data/version") { ".data/version" } else { "version" };
        let found = self.read(name, bytes)?;
        let number = std::str::from_utf8(&found).ok().map(|text| text.trim_end_matches('\n'));
        let number = number.filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
        match number.and_then(|text| text.parse().ok()).filter(|version| VERSIONS.contains(version)) {
            Some(_) => Ok(()),
            None => refused(format!(
                "version `{}` of the archive, expected a number from {} to {}",
                found.escape_ascii(),
                VERSIONS.start(),
                VERSIONS.end()
            )),
        }
    }

    /// How the bytes of entries are aligned: a number, which is not needed to find them.
    fn check_alignment(&self, bytes: &FileBytes) -> Result<(), Problem> {
        const NAME: &str = ".storage_alignment";
        if !self.positions.contains_key(NAME) {
            return Ok(());
        }
        let found = self.read(NAME, bytes)?;
        match !found.is_empty() && found.iter().all(u8::is_ascii_digit) {
            true => Ok(()),
            false => malformed(format!("an alignment of `{}`, expected a number", found.escape_ascii())),
        }
    }

    /// Notes that PyTorch reads, and that nothing here depends on.
    fn check_notes(&self, bytes: &FileBytes) -> Result<(), Problem> {
        for name in [".format_version", ".data/serialization_id"] {
            if self.positions.contains_key(name) && !self.read(name, bytes)?.is_ascii() {
                return malformed(format!("entry {} is not text", quoted(name)));
            }
        }
        Ok(())
    }

    fn check_byte_order(&self, bytes: &FileBytes) -> Result<(), Problem> {
        if !self.positions.contains_key("byteorder") {
            return Ok(());
        }
        let found = self.read("byteorder", bytes)?;
        match found.as_slice() {
            b"little" => Ok(()),
            b"big" => refused("its numbers are big-endian, expected little-endian"),
            other => malformed(format!("byte order `{}`, expected `little` or `big`", other.escape_ascii())),
        }
    }
}

/// Checks the last record of the archive, and that of an archive with large numbers before it: they count the entries, and say that the archive
/// has one part. The library that reads the list of entries does not compare all of this, and PyTorch does.
fn check_end(bytes: &FileBytes, entries: &ZipArchiveMetadata) -> Result<(), Problem> {
    let n_entries = entries.len() as u64;
    const END: u64 = 22;
    const LOCATOR: u64 = 20;
    const LARGE: u64 = 56;
    let wrong = || malformed("the last record of its archive is not one that PyTorch writes");
    let Some(at) = bytes.len().checked_sub(END) else { return wrong() };
    let end = bytes.read(at..bytes.len())?;
    // Numbers of this disk, of that of the list, of its entries here and in all; the size of the list and where it is; of the comment.
    let [disk, list_disk, here, all, size, start, comment] =
        [(4, 2), (6, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2)].map(|(at, length)| number(&end, at, length));
    if !end.starts_with(b"PK\x05\x06") || comment != Some(0) {
        return wrong();
    }
    let locator = match at.checked_sub(LOCATOR) {
        Some(before) => bytes.read(before..at)?,
        None => return wrong(),
    };
    if !locator.starts_with(b"PK\x06\x07") {
        let list_end = size.zip(start).map(|(size, start)| size + start);
        let is_right = [disk, list_disk] == [Some(0); 2] && [here, all] == [Some(n_entries); 2] && list_end == Some(at);
        return match start.filter(|_| is_right) {
            Some(start) => check_list(bytes, start..at, entries),
            None => wrong(),
        };
    }
    let large_at = number(&locator, 8, 8);
    let expected = at.checked_sub(LOCATOR + LARGE);
    if number(&locator, 4, 4) != Some(0) || number(&locator, 16, 4) != Some(1) || large_at != expected {
        return wrong();
    }
    let Some(large_at) = expected else { return wrong() };
    let large = bytes.read(large_at..large_at + LARGE)?;
    let [length, disk, list_disk, here_large, all_large, size_large, start_large] =
        [(4, 8), (16, 4), (20, 4), (24, 8), (32, 8), (40, 8), (48, 8)].map(|(at, length)| number(&large, at, length));
    let list_end = size_large.zip(start_large).and_then(|(size, start)| size.checked_add(start));
    let is_right = large.starts_with(b"PK\x06\x06")
        && length == Some(LARGE - 12)
        && [disk, list_disk] == [Some(0); 2]
        && [here_large, all_large] == [Some(n_entries); 2]
        && list_end == Some(large_at)
        // Each number of the last record is the same, or all ones where it does not fit.
        && [(here, here_large, 0xffff), (all, all_large, 0xffff), (size, size_large, 0xffff_ffff), (start, start_large, 0xffff_ffff)]
            .iter()
            .all(|(short, long, ones)| short == long || *short == Some(*ones));
    match start_large.filter(|_| is_right) {
        Some(start) => check_list(bytes, start..large_at, entries),
        None => wrong(),
    }
}

/// Checks that the list of entries is one record after another, each of an entry in this part of the archive, and that no record names its entry
/// or states its numbers twice: PyTorch takes the first name and the first numbers, and the library takes the last.
fn check_list(bytes: &FileBytes, range: Range<u64>, entries: &ZipArchiveMetadata) -> Result<(), Problem> {
    const RECORD: usize = 46;
    // Encrypted, a patch, strongly encrypted, a masked list.
    const FLAGS: u64 = 0x2061;
    // PyTorch finds nothing in an entry that is a folder.
    const FOLDER: u64 = 0x10;
    const LIST: &str = "the list of entries of its archive is not one that PyTorch writes";
    let list = bytes.read(range)?;
    let mut rest: &[u8] = &list;
    for position in 0..entries.len() {
        let known = entries.entry(position).map_err(of_zip)?;
        let [flags, name, extra, comment, disk] = [8, 28, 30, 32, 34].map(|at| number(rest, at, 2));
        let [name, extra, comment] = [name, extra, comment].map(|length| length.unwrap_or_default() as usize);
        let lengths = name + extra + comment;
        let is_named_once = rest.get(RECORD..RECORD + name) == Some(known.name_raw());
        let has_one_of_each = rest.get(RECORD + name..RECORD + name + extra).is_some_and(has_one_of_each);
        match rest.get(RECORD + lengths..) {
            Some(behind)
                if rest.starts_with(b"PK\x01\x02")
                    && is_named_once
                    && has_one_of_each
                    && disk == Some(0)
                    && number(rest, 38, 4).is_some_and(|attributes| attributes & FOLDER == 0)
                    && flags.is_some_and(|flags| flags & FLAGS == 0) =>
            {
                rest = behind;
            }
            _ => return malformed(LIST),
        }
    }
    if rest.is_empty() { Ok(()) } else { malformed(LIST) }
}

/// Whether extra fields follow each other to the end, no two of one kind.
fn has_one_of_each(mut fields: &[u8]) -> bool {
    let mut seen = HashSet::new();
    while !fields.is_empty() {
        let (Some(kind), Some(length)) = (number(fields, 0, 2), number(fields, 2, 2)) else { return false };
        let Some(behind) = fields.get(4 + length as usize..) else { return false };
        if !seen.insert(kind) {
            return false;
        }
        fields = behind;
    }
    true
}

/// Compares the checksum of an entry.
pub(super) fn check(mut archive: ZipArchive<FileReader>, position: usize) -> Result<(), Problem> {
    let mut entry = archive.by_index(position).map_err(of_zip)?;
    let mut piece = vec![0; 1 << 18];
    loop {
        match entry.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            // The library says this of a checksum that differs.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::Other) => {
                let name = entry.name().map(|name| name.into_owned()).unwrap_or_default();
                return malformed(format!(
                    "entry {} does not match its checksum: it is damaged, or was saved without checksums ({error})",
                    quoted(&name)
                ));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[allow(clippy::needless_pass_by_value)] // `map_err` passes it by value.
fn of_zip(error: ZipError) -> Problem {
    match error {
        ZipError::Io(error) => error.into(),
        _ => Problem::Malformed(format!("its archive: {error}")),
    }
}
