//! Opens an archive: finds, reads and checks its central directory.
//!
//! One read of the last 64 KiB usually covers everything; a larger directory takes a second read.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use carton_tensor::content::Content as FileContent;

use super::entry::{Entry, describe};
use super::record::{
    CentralDirectoryHeader, EndOfCentralDirectory, IN_ZIP64_16, IN_ZIP64_32, LocalFileHeader,
    Zip64EndOfCentralDirectory, Zip64EndOfCentralDirectoryLocator,
};
use super::{ArchiveError, EntryReader, MAX_DIRECTORY_LENGTH, MAX_ENTRIES, entry_reader};
use crate::name::{self, Overlap};
use crate::source::Source;

/// The number of bytes at the end of the file that are read first.
pub const SUFFIX_LENGTH: u64 = 64 << 10;

/// An open zip file: the table of its entries, and the source of their data.
///
/// Opening checks everything that the central directory alone shows (spec/carton-format.md, "What is accepted"). An entry's local header
/// is checked when its data is opened, and the data itself while it is read.
///
/// ```
/// use std::sync::Arc;
/// use carton_format::archive::Archive;
/// use carton_format::source::MemorySource;
///
/// // The smallest zip file: an end of central directory record, and no entries.
/// let bytes = [b"PK\x05\x06".as_slice(), &[0; 18]].concat();
/// let archive = Archive::open(Arc::new(MemorySource::new(bytes, "empty.zip")))?;
/// assert!(archive.entries().is_empty());
/// # Ok::<(), carton_format::archive::ArchiveError>(())
/// ```
#[derive(Clone)]
pub struct Archive {
    source: Arc<dyn Source>,
    table: Arc<Table>,
}

struct Table {
    entries: Vec<Entry>,
    /// Indices of `entries`, sorted by name.
    by_name: Vec<u32>,
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let location = self.source.location();
        formatter.debug_struct("Archive").field("location", &location).field("entries", &self.entries().len()).finish()
    }
}

impl Archive {
    /// Reads the central directory of `source`.
    ///
    /// # Errors
    /// [`ArchiveError::Empty`], [`ArchiveError::Truncated`] or [`ArchiveError::NotZip`] if it does not end as a zip file does,
    /// [`ArchiveError::Format`] or [`ArchiveError::Name`] if it contradicts itself, [`ArchiveError::Unsupported`] or
    /// [`ArchiveError::Limit`] if it uses a feature or a size that is not supported, and [`ArchiveError::Io`] if the source fails.
    pub fn open(source: Arc<dyn Source>) -> Result<Archive, ArchiveError> {
        let suffix_offset = source.len().saturating_sub(SUFFIX_LENGTH);
        let suffix = read(&*source, suffix_offset..source.len())?;
        match EndOfCentralDirectory::find(&suffix, suffix_offset)? {
            Some((position, record)) => Self::from_record(&source, &suffix, suffix_offset, position, record),
            // Only a comment of nearly 64 KiB can push the record out of the suffix.
            None => {
                let suffix_offset = source.len().saturating_sub(EndOfCentralDirectory::MAX_LENGTH as u64);
                let suffix = read(&*source, suffix_offset..source.len())?;
                match EndOfCentralDirectory::find(&suffix, suffix_offset)? {
                    Some((position, record)) => Self::from_record(&source, &suffix, suffix_offset, position, record),
                    None => Err(without_end(&*source, &suffix)?),
                }
            }
        }
    }

    fn from_record(
        source: &Arc<dyn Source>,
        suffix: &[u8],
        suffix_offset: u64,
        position: usize,
        record: EndOfCentralDirectory,
    ) -> Result<Archive, ArchiveError> {
        let directory = locate(&**source, suffix, suffix_offset, position, &record)?;
        let read_bytes;
        let in_suffix = directory.range.start.checked_sub(suffix_offset).and_then(|start| {
            let start = usize::try_from(start).ok()?;
            let end = start.checked_add(usize::try_from(directory.range.end - directory.range.start).ok()?)?;
            suffix.get(start..end)
        });
        let bytes = match in_suffix {
            Some(slice) => slice,
            None => {
                read_bytes = read(&**source, directory.range.clone())?;
                &read_bytes
            }
        };
        let entries = parse_entries(bytes, &directory)?;
        let entries = limit_entries(entries, directory.range.start)?;
        let by_name = sort_names(&entries)?;
        Ok(Archive { source: source.clone(), table: Arc::new(Table { entries, by_name }) })
    }

    /// All entries, in the order of the central directory.
    pub fn entries(&self) -> &[Entry] {
        &self.table.entries
    }

    /// The entry with this name. The name of a folder has no slash at the end.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        let Table { entries, by_name } = &*self.table;
        let found = by_name.binary_search_by(|index| entries[*index as usize].name().cmp(name)).ok()?;
        Some(&entries[by_name[found] as usize])
    }

    /// The source of the bytes.
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    /// Reads a whole entry of at most `cap` bytes, and checks its CRC.
    ///
    /// # Errors
    /// [`ArchiveError::Limit`] if it is larger than `cap`; otherwise as [`Archive::reader`] and [`EntryReader`].
    pub fn read(&self, entry: &Entry, cap: u64) -> Result<Vec<u8>, ArchiveError> {
        let too_large =
            || ArchiveError::Limit { what: format!("size of `{}`", entry.name()), limit: cap, found: entry.size() };
        if entry.size() > cap {
            return Err(too_large());
        }
        let mut bytes = vec![0; usize::try_from(entry.size()).map_err(|_| too_large())?];
        let mut reader = self.reader(entry)?;
        std::io::Read::read_exact(&mut reader, &mut bytes)
            .and_then(|()| reader.finish())
            .map_err(|error| ArchiveError::from_read(error, self.source.location()))?;
        Ok(bytes)
    }

    /// Opens an entry's data for reading, decompressed.
    ///
    /// # Errors
    /// [`ArchiveError::Format`] if the local header is malformed or disagrees with the central directory.
    pub fn reader(&self, entry: &Entry) -> Result<EntryReader, ArchiveError> {
        EntryReader::open(self.source.clone(), entry.clone())
    }

    /// The same archive, with its bytes read from another source, such as one that has a part of them nearby.
    pub fn with_source(&self, source: Arc<dyn Source>) -> Archive {
        Archive { source, table: self.table.clone() }
    }

    /// The range of bytes to read for an entry: its local header, of the usual length, and its data. If the header is longer than usual,
    /// more bytes are needed.
    pub fn window(&self, entry: &Entry) -> Range<u64> {
        let length = entry_reader::usual_length(entry);
        entry.header_offset..entry.header_offset.saturating_add(length).min(entry.limit)
    }

    /// The range of a stored entry's bytes in the source; `None` if it is compressed.
    ///
    /// # Errors
    /// As [`Archive::reader`].
    pub fn stored_range(&self, entry: &Entry) -> Result<Option<Range<u64>>, ArchiveError> {
        if entry.method() != super::Method::Stored {
            return Ok(None);
        }
        self.data_range(entry).map(Some)
    }

    /// The range of an entry's data in the source. Reads the local header for it, and checks the header.
    pub(super) fn data_range(&self, entry: &Entry) -> Result<Range<u64>, ArchiveError> {
        let (range, ..) = entry_reader::open_header(&*self.source, entry)?;
        Ok(range)
    }
}

/// Diagnoses a file without an end of central directory record at its end, by its last and its first bytes.
fn without_end(source: &dyn Source, suffix: &[u8]) -> Result<ArchiveError, ArchiveError> {
    if let Some(end) = EndOfCentralDirectory::last_end(suffix).filter(|end| *end < suffix.len()) {
        let offset = source.len() - (suffix.len() - end) as u64;
        let found = format_args!("bytes behind it, up to {}", source.len());
        return Ok(ArchiveError::format("end of the archive", offset, "the end of the file too", found));
    }
    let signature = LocalFileHeader::SIGNATURE.to_le_bytes();
    let length = source.len();
    let mut begin = read(source, 0..length.min(FileContent::START as u64))?;
    // That it is text, its first bytes say.
    let content = FileContent::of_start(&begin).filter(|content| *content != FileContent::Text);
    begin.truncate(signature.len());
    Ok(if begin.is_empty() {
        ArchiveError::Empty
    } else if signature.starts_with(&begin) {
        ArchiveError::Truncated { length }
    } else {
        ArchiveError::NotZip { begin, content }
    })
}

/// The range of the central directory, and the number of its headers.
struct DirectoryLocation {
    range: Range<u64>,
    entries: u64,
}

fn read(source: &dyn Source, range: Range<u64>) -> Result<Vec<u8>, ArchiveError> {
    let length = usize::try_from(range.end - range.start).map_err(|_| ArchiveError::Limit {
        what: "central directory size".to_owned(),
        limit: MAX_DIRECTORY_LENGTH,
        found: range.end - range.start,
    })?;
    let mut bytes = vec![0; length];
    source.read_at(range.start, &mut bytes).map_err(|source_error| ArchiveError::Io {
        action: "read",
        location: source.location().to_owned(),
        source: source_error,
    })?;
    Ok(bytes)
}

/// Finds the central directory through the end of central directory record at `position` of `suffix` and, if there is one, the zip64
/// record before it.
fn locate(
    source: &dyn Source,
    suffix: &[u8],
    suffix_offset: u64,
    position: usize,
    record: &EndOfCentralDirectory,
) -> Result<DirectoryLocation, ArchiveError> {
    let record_offset = suffix_offset + position as u64;
    let mut values = Zip64EndOfCentralDirectory {
        record_size: 0,
        version_made_by: 0,
        version_needed: 0,
        disk: u32::from(record.disk),
        directory_disk: u32::from(record.directory_disk),
        entries_on_disk: u64::from(record.entries_on_disk),
        entries: u64::from(record.entries),
        directory_size: u64::from(record.directory_size),
        directory_offset: u64::from(record.directory_offset),
    };
    let mut directory_end = record_offset;
    // Bytes that look like a locator may also be the end of the directory itself.
    let ends_at_record = values.directory_offset + values.directory_size == record_offset;
    let has_directory = record.directory_size != IN_ZIP64_32 && record.directory_offset != IN_ZIP64_32;
    if !(has_directory && ends_at_record && record.entries != IN_ZIP64_16) {
        match read_zip64(source, suffix, suffix_offset, position)? {
            Some((offset, zip64)) => {
                agree(record, &zip64, record_offset)?;
                values = zip64;
                directory_end = offset;
            }
            None if has_directory => {}
            None => {
                let what = "zip64 end of central directory locator";
                return Err(ArchiveError::format(what, record_offset, "one before this offset", "none"));
            }
        }
    }
    if values.disk != 0 || values.directory_disk != 0 || values.entries_on_disk != values.entries {
        let found = format_args!("disk {} of an archive of {} entries", values.disk, values.entries);
        return Err(ArchiveError::unsupported("an archive on several disks", found));
    }
    // Bytes before the first entry, as in a self-extracting archive, are accepted as long as all offsets count from the start of the
    // file: the directory is read only where its record says that it is.
    let range_end = values.directory_offset.checked_add(values.directory_size);
    if range_end != Some(directory_end) {
        return Err(ArchiveError::format(
            "central directory",
            record_offset,
            format_args!("its end at {directory_end}, where the end records start"),
            format_args!("offset {} and size {}", values.directory_offset, values.directory_size),
        ));
    }
    for (what, limit, found) in [
        ("number of entries", MAX_ENTRIES, values.entries),
        ("central directory size", MAX_DIRECTORY_LENGTH, values.directory_size),
    ] {
        if found > limit {
            return Err(ArchiveError::Limit { what: what.to_owned(), limit, found });
        }
    }
    if values.entries * CentralDirectoryHeader::LENGTH as u64 > values.directory_size {
        return Err(ArchiveError::format(
            "number of entries",
            record_offset,
            format_args!("as many as fit into a directory of {} bytes", values.directory_size),
            values.entries,
        ));
    }
    Ok(DirectoryLocation { range: values.directory_offset..directory_end, entries: values.entries })
}

/// The zip64 end of central directory record and its offset, if there is a locator before the end of central directory record.
fn read_zip64(
    source: &dyn Source,
    suffix: &[u8],
    suffix_offset: u64,
    position: usize,
) -> Result<Option<(u64, Zip64EndOfCentralDirectory)>, ArchiveError> {
    let record_offset = suffix_offset + position as u64;
    let Some(locator_offset) = record_offset.checked_sub(Zip64EndOfCentralDirectoryLocator::LENGTH as u64) else {
        return Ok(None);
    };
    let read_locator;
    let locator = match position.checked_sub(Zip64EndOfCentralDirectoryLocator::LENGTH) {
        Some(start) => &suffix[start..position],
        None => {
            read_locator = read(source, locator_offset..record_offset)?;
            &read_locator
        }
    };
    if !locator.starts_with(&Zip64EndOfCentralDirectoryLocator::SIGNATURE.to_le_bytes()) {
        return Ok(None);
    }
    let locator = Zip64EndOfCentralDirectoryLocator::parse(locator, locator_offset)?;
    if locator.disk != 0 || locator.disks > 1 {
        return Err(ArchiveError::unsupported("an archive on several disks", format_args!("{} disks", locator.disks)));
    }
    let length = Zip64EndOfCentralDirectory::LENGTH as u64;
    if locator.offset.checked_add(length).is_none_or(|end| end > locator_offset) {
        return Err(ArchiveError::format(
            "zip64 end of central directory locator",
            locator_offset,
            "an offset before itself",
            locator.offset,
        ));
    }
    let bytes = read(source, locator.offset..locator.offset + length)?;
    let record = Zip64EndOfCentralDirectory::parse(&bytes, locator.offset)?;
    let end = locator.offset.checked_add(Zip64EndOfCentralDirectory::UNCOUNTED);
    if end.and_then(|end| end.checked_add(record.record_size)) != Some(locator_offset) {
        return Err(ArchiveError::format(
            "zip64 end of central directory record",
            locator.offset,
            format_args!("its end at {locator_offset}, where its locator starts"),
            format_args!("a size of {}", record.record_size),
        ));
    }
    Ok(Some((locator.offset, record)))
}

/// Checks that both end records agree in the values that the first one states.
fn agree(record: &EndOfCentralDirectory, zip64: &Zip64EndOfCentralDirectory, offset: u64) -> Result<(), ArchiveError> {
    let short = |name, value: u16, in_zip64: u64| (name, value != IN_ZIP64_16, u64::from(value), in_zip64);
    let long = |name, value: u32, in_zip64: u64| (name, value != IN_ZIP64_32, u64::from(value), in_zip64);
    for (name, present, value, in_zip64) in [
        short("disk", record.disk, u64::from(zip64.disk)),
        short("directory's disk", record.directory_disk, u64::from(zip64.directory_disk)),
        short("number of entries on the disk", record.entries_on_disk, zip64.entries_on_disk),
        short("number of entries", record.entries, zip64.entries),
        long("directory size", record.directory_size, zip64.directory_size),
        long("directory offset", record.directory_offset, zip64.directory_offset),
    ] {
        if present && value != in_zip64 {
            let what = format_args!("{name} in the end of central directory record");
            return Err(ArchiveError::format(what, offset, format_args!("{in_zip64}, as in the zip64 record"), value));
        }
    }
    Ok(())
}

/// Reads all headers of the directory in `bytes`.
fn parse_entries(bytes: &[u8], directory: &DirectoryLocation) -> Result<Vec<Entry>, ArchiveError> {
    // `locate` checked that this many headers fit into the bytes that were read.
    let count = directory.entries as usize;
    let mut names = String::with_capacity(bytes.len().saturating_sub(count * CentralDirectoryHeader::LENGTH));
    let mut entries = Vec::with_capacity(count);
    let all_names = Arc::new(OnceLock::new());
    let mut rest = bytes;
    for _ in 0..count {
        let offset = directory.range.start + (bytes.len() - rest.len()) as u64;
        let (header, behind) = CentralDirectoryHeader::parse(rest, offset)?;
        rest = behind;
        let described = describe(&header, offset)?;
        entries.push(Entry {
            names: all_names.clone(),
            // MAX_DIRECTORY_LENGTH keeps the start within 32 bits, and the length of a name is a 16-bit field.
            name_start: names.len() as u32,
            name_length: described.name.len() as u16,
            flags: header.flags,
            kind: described.kind,
            method: described.method,
            is_executable: described.is_executable,
            crc32: header.crc32,
            size: described.size,
            compressed_size: described.compressed_size,
            header_offset: described.header_offset,
            limit: 0,
        });
        names.push_str(described.name);
    }
    if !rest.is_empty() {
        return Err(ArchiveError::format(
            "central directory",
            directory.range.end - rest.len() as u64,
            format_args!("its end after {count} entries"),
            format_args!("{} more bytes", rest.len()),
        ));
    }
    all_names.get_or_init(|| names);
    Ok(entries)
}

/// Sets each entry's limit, which is the next entry's header or the directory. No two entries may share a byte, because a small archive
/// could otherwise decompress to any size.
fn limit_entries(mut entries: Vec<Entry>, directory_offset: u64) -> Result<Vec<Entry>, ArchiveError> {
    let mut by_offset: Vec<u32> = Vec::new();
    if !entries.is_sorted_by_key(|entry| entry.header_offset) {
        by_offset = (0..entries.len() as u32).collect();
        by_offset.sort_unstable_by_key(|index| entries[*index as usize].header_offset);
    }
    let mut limit = directory_offset;
    for position in (0..entries.len()).rev() {
        let entry = &mut entries[by_offset.get(position).map_or(position, |index| *index as usize)];
        let slash = u64::from(entry.kind == super::EntryKind::Directory);
        let least = (LocalFileHeader::LENGTH as u64 + u64::from(entry.name_length) + slash)
            .saturating_add(entry.compressed_size);
        let end = entry.header_offset.saturating_add(least);
        if end > limit {
            return Err(ArchiveError::format(
                format_args!("data of `{}`", entry.name()),
                entry.header_offset,
                format_args!("its end at or before {limit}, where the next record starts"),
                format_args!("{end} or later"),
            ));
        }
        entry.limit = limit;
        limit = entry.header_offset;
    }
    Ok(entries)
}

/// The indices of the entries, sorted by name. Refuses names that exclude each other.
fn sort_names(entries: &[Entry]) -> Result<Vec<u32>, ArchiveError> {
    let mut by_name: Vec<u32> = (0..entries.len() as u32).collect();
    // A stable sort, because it takes linear time for a few sorted runs, which this writer and many others produce.
    by_name.sort_by(|a, b| entries[*a as usize].name().cmp(entries[*b as usize].name()));
    let mut tree = name::Tree::default();
    for index in &by_name {
        let entry = &entries[*index as usize];
        tree.add(entry.name(), entry.kind == super::EntryKind::Directory).map_err(|overlap| {
            let found = match overlap {
                Overlap::Duplicate => "a second one".to_owned(),
                Overlap::InsideFile(file) => format!("one inside `{file}`, which is not a folder"),
            };
            let what = format_args!("entry `{}`", entry.name());
            ArchiveError::format(what, entry.header_offset, "names that can exist beside each other", found)
        })?;
    }
    Ok(by_name)
}
