//! Arbitrary bytes as an archive. An entry that can be read has the same content however it is read, in the `zip` crate, and after it
//! was written into another archive.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Cursor, Read};
use std::sync::Arc;

use carton_core::Context;
use carton_core::Sha256Digest;
use carton_core::packing::{Compression, Method};
use carton_format::archive::{Archive, ArchiveError, Content, Entry, EntryKind, Tail, write};
use carton_format::source::{FileSource, MemorySource};

use crate::generate::file::MemoryFile;

/// The most bytes that are read of an entry. Compressed bytes can represent up to thirty thousand times their number.
const MAX_ENTRY: u64 = 1 << 20;
/// The most entries that are written again, which takes time because it uses threads.
const MAX_WRITTEN: usize = 16;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(archive) = Archive::open(Arc::new(MemorySource::new(bytes, "input"))) else { return false };
    let mut read = Vec::new();
    for entry in archive.entries() {
        assert_eq!(archive.get(entry.name()).map(Entry::name), Some(entry.name()));
        let whole = archive.read(entry, MAX_ENTRY);
        let range = archive.stored_range(entry);
        if entry.size() <= MAX_ENTRY {
            let in_pieces = in_pieces(&archive, entry);
            assert_eq!(whole.is_ok(), in_pieces.is_ok(), "{whole:?}, {in_pieces:?}");
        }
        let Ok(contents) = whole else { continue };
        assert_eq!(in_pieces(&archive, entry).expect("it was read whole"), contents);
        if let Some(range) = range.expect("its header was read") {
            assert_eq!(&bytes[range.start as usize..range.end as usize], contents);
        }
        read.push((entry, contents));
    }
    compare_with_peer(bytes, &read);
    if read.len() <= MAX_WRITTEN {
        check_written(&archive, &read);
    }
    read.len() == archive.entries().len()
}

fn in_pieces(archive: &Archive, entry: &Entry) -> Result<Vec<u8>, ArchiveError> {
    let mut reader = archive.reader(entry)?;
    let (mut contents, mut buffer) = (Vec::new(), [0; 7]);
    loop {
        let n_bytes = reader.read(&mut buffer).map_err(|error| ArchiveError::from_read(error, "input"))?;
        if n_bytes == 0 {
            break;
        }
        contents.extend_from_slice(&buffer[..n_bytes]);
        assert!(contents.len() as u64 <= entry.size());
    }
    // The end of an entry without content is only checked by reading the entry whole.
    if contents.is_empty() { archive.read(entry, 0) } else { Ok(contents) }
}

/// Checks that another reader that accepts the archive finds the same content.
fn compare_with_peer(bytes: &[u8], read: &[(&Entry, Vec<u8>)]) {
    let Ok(mut theirs) = zip::ZipArchive::new(Cursor::new(bytes)) else { return };
    for (entry, contents) in read {
        // The other reader is built without zstd.
        if entry.method() == Method::Zstd {
            continue;
        }
        let slash = if entry.kind() == EntryKind::Directory { "/" } else { "" };
        let Ok(mut file) = theirs.by_name(&format!("{}{slash}", entry.name())) else { continue };
        let mut found = Vec::new();
        if (&mut file).take(MAX_ENTRY + 1).read_to_end(&mut found).is_ok() {
            assert_eq!(found, *contents, "`{}` is another file to the zip crate", entry.name());
        }
    }
}

/// Writes what was read, as a copy of the stored bytes, and reads it again.
fn check_written(archive: &Archive, read: &[(&Entry, Vec<u8>)]) {
    let is_ours = |name: &str| ["carton.toml", "LINKS", "MANIFEST"].contains(&name);
    let files: BTreeMap<String, &(&Entry, Vec<u8>)> = read
        .iter()
        .filter(|(entry, _)| entry.kind() == EntryKind::File && !is_ours(entry.name()))
        .map(|file| (file.0.name().to_owned(), file))
        .collect();
    let copied = |(name, (entry, _)): (&String, &&(&Entry, Vec<u8>))| {
        (name.clone(), Content::Entry(archive.clone(), (*entry).clone()))
    };
    let entries = files.iter().map(copied).collect();
    let tail = Tail { carton_toml: b"spec_version = 1".to_vec(), ..Tail::default() };
    let output = MemoryFile::new(b"");
    let mut file = File::options().read(true).write(true).open(output.path()).expect("it is there");
    // The writer refuses the names of carton.toml and MANIFEST, and names that are only accepted from other writers.
    let Ok(manifest) = write(&mut file, entries, tail, Compression::Auto, &Context::default()) else {
        return;
    };
    assert_eq!(manifest.len(), files.len() + 1);
    let source = FileSource::open(&output.path()).expect("it is there");
    let again = Archive::open(Arc::new(source)).expect("it was written");
    for (name, (_, contents)) in files {
        let entry = again.get(&name).expect("it was written");
        assert_eq!(again.read(entry, MAX_ENTRY).expect("it was written"), *contents);
        let digest = Sha256Digest::of(contents);
        assert_eq!(manifest.get(&name), Some(digest));
    }
}
