//! Copies an entry of another archive into this one: its data in its stored form, with the checks of its contents.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::header::Outcome;
use crate::archive::{Archive, ArchiveError, Entry, EntryReader};
use crate::digest::Hasher;
use crate::source::{FileIdentity, Source};

/// Reads an entry, and keeps the stored data that it was read from until the caller takes it.
pub(super) struct EntryCopy {
    entry: Entry,
    reader: EntryReader,
    tap: Arc<Tap>,
    hasher: Hasher,
}

impl EntryCopy {
    pub(super) fn new(archive: &Archive, entry: &Entry) -> Result<Self, ArchiveError> {
        let range = archive.data_range(entry)?;
        let state = TapState { position: range.start, data: Vec::new() };
        let tap = Arc::new(Tap { source: archive.source().clone(), end: range.end, state: Mutex::new(state) });
        let reader = EntryReader::over(tap.clone(), entry.clone(), range)?;
        Ok(Self { entry: entry.clone(), reader, tap, hasher: Hasher::new() })
    }

    /// Reads and hashes the next bytes. Returns 0 at the end, where the reader has checked size and CRC.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ArchiveError> {
        loop {
            match self.reader.read(buffer) {
                Ok(n_bytes) => {
                    self.hasher.update(&buffer[..n_bytes]);
                    return Ok(n_bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ArchiveError::from_read(error, self.tap.source.location())),
            }
        }
    }

    /// The stored data that was read since the last call.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.tap.lock().data)
    }

    /// The outcome of the copy, after everything was read and taken.
    pub(super) fn finish(self) -> Result<Outcome, ArchiveError> {
        let entry = self.entry;
        let rest = self.tap.end - self.tap.lock().position;
        if rest != 0 {
            let (expected, found) = (entry.compressed_size(), entry.compressed_size() - rest);
            let (expected, found) = (expected.to_string(), found.to_string());
            let name = entry.name().to_owned();
            return Err(ArchiveError::Mismatch { what: "compressed size", name, expected, found });
        }
        Ok(Outcome {
            method: entry.method(),
            crc32: entry.crc32(),
            size: entry.size(),
            compressed_size: entry.compressed_size(),
            digest: self.hasher.finish(),
        })
    }
}

/// A source that keeps the bytes that are read from it. The reads must cover one range from its start to its end.
struct Tap {
    source: Arc<dyn Source>,
    end: u64,
    state: Mutex<TapState>,
}

struct TapState {
    /// The end of the bytes read so far.
    position: u64,
    data: Vec<u8>,
}

impl Tap {
    fn lock(&self) -> parking_lot::MutexGuard<'_, TapState> {
        self.state.lock()
    }
}

impl Source for Tap {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.source.read_at(offset, buffer)?;
        let mut state = self.lock();
        let next: Range<u64> = state.position..self.end;
        // Bytes that are read twice or left out could not be copied.
        if offset != next.start || buffer.len() as u64 > next.end - next.start {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the data was not read in order"));
        }
        state.position += buffer.len() as u64;
        state.data.extend_from_slice(buffer);
        Ok(())
    }

    fn identity(&self) -> Option<FileIdentity> {
        self.source.identity()
    }

    fn file(&self) -> Option<&File> {
        self.source.file()
    }

    fn location(&self) -> &str {
        self.source.location()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use std::collections::BTreeMap;
    use std::io::Write;

    use zip::CompressionMethod;
    use zip::write::SimpleFileOptions;

    use super::super::tests::{all_kinds, bytes, noise, open, pack_on, tail, text};
    use super::super::{Compression, Content, Tail, write_on};
    use super::*;
    use crate::archive::{EntryKind, Method};
    use crate::context::Context;
    use crate::digest::Sha256Digest;
    use crate::manifest::Manifest;
    use crate::source::MemorySource;

    /// The entries of a carton as contents of another one, with the digests of its MANIFEST for links.
    fn entries_of(archive: &Archive, manifest: &Manifest) -> Vec<(String, Content)> {
        let files =
            archive.entries().iter().filter(|entry| !["carton.toml", "LINKS", "MANIFEST"].contains(&entry.name()));
        files
            .map(|entry| {
                let content = match entry.kind() {
                    EntryKind::Symlink => {
                        let target = archive.read(entry, 1000).unwrap();
                        let digest = manifest.get(entry.name()).unwrap();
                        Content::Symlink(String::from_utf8(target).unwrap(), digest)
                    }
                    _ => Content::Entry(archive.clone(), entry.clone()),
                };
                (entry.name().to_owned(), content)
            })
            .collect()
    }

    fn copy(archive: &Archive, manifest: &Manifest, tail: Tail) -> Result<Vec<u8>, ArchiveError> {
        let mut output = tempfile::tempfile().unwrap();
        write_on(2, &mut output, entries_of(archive, manifest), tail, Compression::Auto, &Context::default())?;
        let mut written = vec![0; output.metadata().unwrap().len() as usize];
        std::os::unix::fs::FileExt::read_exact_at(&output, &mut written, 0).unwrap();
        Ok(written)
    }

    #[test]
    fn a_copy_of_ours_is_the_same_to_the_byte() {
        for compression in [Compression::Auto, Compression::Stored, Compression::Zstd, Compression::Deflate] {
            let (written, manifest) = pack_on(2, all_kinds(), tail(), compression);
            let given = Tail { manifest: Some(manifest.clone()), ..tail() };
            let copied = copy(&open(written.clone()), &manifest, given).unwrap();
            assert!(copied == written, "{compression:?}");
            let copied = copy(&open(written.clone()), &manifest, tail()).unwrap();
            assert!(copied == written, "{compression:?} with a MANIFEST that is made");
        }
    }

    /// An archive of another writer: no alignment, and an empty file that is a Deflate stream.
    fn foreign() -> (Vec<u8>, Vec<(String, Vec<u8>)>) {
        let files = vec![
            ("model/stored.bin".to_owned(), noise(100_001, 1)),
            ("model/small.bin".to_owned(), noise(10, 2)),
            ("model/deflated.txt".to_owned(), text(700_000)),
            ("model/large.txt".to_owned(), text(9 << 20)),
            ("model/empty".to_owned(), Vec::new()),
        ];
        let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (name, bytes) in &files {
            let method = if name.contains("stored") { CompressionMethod::Stored } else { CompressionMethod::Deflated };
            zip.start_file(name, SimpleFileOptions::default().compression_method(method)).unwrap();
            zip.write_all(bytes).unwrap();
        }
        (zip.finish().unwrap().into_inner(), files)
    }

    #[test]
    fn entries_of_others_stay_as_they_are_stored() {
        let (archive, files) = foreign();
        let archive = open(archive);
        let digests: BTreeMap<String, Sha256Digest> =
            files.iter().map(|(name, bytes)| (name.clone(), Sha256Digest::of(bytes))).collect();
        let mut output = tempfile::tempfile().unwrap();
        let manifest = write_on(
            3,
            &mut output,
            entries_of(&archive, &Manifest::parse(b"").unwrap()),
            tail(),
            Compression::Auto,
            &Context::default(),
        )
        .unwrap();
        let file = crate::source::FileSource::from_file(output, std::path::Path::new("copy")).unwrap();
        let copy = Archive::open(Arc::new(file)).unwrap();
        for (name, digest) in digests {
            assert_eq!(manifest.get(&name), Some(digest));
            let (before, after) = (archive.get(&name).unwrap(), copy.get(&name).unwrap());
            assert_eq!(Sha256Digest::of(&copy.read(after, 1 << 30).unwrap()), digest);
            if after.size() == 0 {
                assert_eq!((after.method(), after.compressed_size()), (Method::Stored, 0));
                continue;
            }
            assert_eq!(
                (before.method(), before.compressed_size()),
                (after.method(), after.compressed_size()),
                "{name}"
            );
            if let Some(range) = copy.stored_range(after).unwrap() {
                assert!(after.size() < 65_536 || range.start % 4096 == 0, "{name} is aligned now");
            }
        }
    }

    #[test]
    fn damage_is_not_copied() {
        for compression in [Compression::Stored, Compression::Zstd, Compression::Deflate] {
            let entries = || vec![bytes("model/a", text(200_000)), bytes("model/b", noise(70_000, 5))];
            let (written, manifest) = pack_on(1, entries(), tail(), compression);
            let archive = open(written.clone());
            for name in ["model/a", "model/b"] {
                let range = archive.data_range(archive.get(name).unwrap()).unwrap();
                for at in [range.start, (range.start + range.end) / 2, range.end - 1] {
                    let mut damaged = written.clone();
                    damaged[at as usize] ^= 0x10;
                    let error = copy(&open(damaged), &manifest, tail()).unwrap_err();
                    let found = matches!(error, ArchiveError::Mismatch { .. } | ArchiveError::Corrupt { .. });
                    assert!(found, "{compression:?} {name} {at}: {error}");
                }
            }
        }
    }

    /// Checks the result of `write` for these files and this MANIFEST.
    #[track_caller]
    fn check_given(entries: Vec<(String, Content)>, manifest: &str, linked: &[&str], expected: Result<(), &str>) {
        let linked = linked.iter().map(|name| ((*name).to_owned(), Sha256Digest::of(b"1"))).collect();
        let manifest = Manifest::parse(manifest.as_bytes()).unwrap();
        let tail = Tail { manifest: Some(manifest.clone()), linked, ..tail() };
        let mut output = tempfile::tempfile().unwrap();
        match (write_on(2, &mut output, entries, tail, Compression::Auto, &Context::default()), expected) {
            (Ok(written), Ok(())) => {
                assert_eq!(written, manifest);
                let file = crate::source::FileSource::from_file(output, std::path::Path::new("x")).unwrap();
                let archive = Archive::open(Arc::new(file)).unwrap();
                assert_eq!(archive.read(archive.get("MANIFEST").unwrap(), 10_000).unwrap(), manifest.to_bytes());
            }
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (found, expected) => panic!("expected {expected:?}, found {found:?}"),
        }
    }

    #[test]
    fn a_given_manifest_is_written_as_it_is_and_must_be_true() {
        let (one, toml) = (Sha256Digest::of(b"1"), Sha256Digest::of(&tail().carton_toml));
        let a = || vec![bytes("model/a", b"1".to_vec())];
        check_given(a(), &format!("carton.toml={toml}\nmodel/a={one}\n"), &[], Ok(()));
        // A MANIFEST of another writer: not sorted, and without the last line break.
        check_given(a(), &format!("model/a={one}\nmodel/b={one}\ncarton.toml={toml}"), &["model/b"], Ok(()));
        check_given(a(), &format!("carton.toml={toml}\nmodel/a={toml}\n"), &[], Err("digest mismatch for `model/a`"));
        check_given(a(), &format!("carton.toml={one}\nmodel/a={one}\n"), &[], Err("digest mismatch for `carton.toml`"));
        check_given(a(), &format!("carton.toml={toml}\n"), &[], Err("`model/a`: the given MANIFEST does not list it"));
        check_given(
            a(),
            &format!("carton.toml={toml}\nmodel/a={one}\nmodel/z={one}\n"),
            &[],
            Err("`model/z`: the given MANIFEST lists it, and it is not there"),
        );
        let listed = format!("carton.toml={toml}\nmodel/a={one}\nmodel/b={toml}\n");
        check_given(a(), &listed, &["model/b"], Err("digest mismatch for `model/b`"));
        check_given(a(), &format!("carton.toml={toml}\nmodel/a={one}\n"), &["b"], Err("does not list it"));
        // The mismatch is found while the file is read, whatever its treatment.
        for size in [100, 100_000, 9 << 20] {
            let listed = format!("carton.toml={toml}\nmodel/a={one}\n");
            check_given(vec![bytes("model/a", noise(size, 1))], &listed, &[], Err("digest mismatch for `model/a`"));
            check_given(vec![bytes("model/a", text(size))], &listed, &[], Err("digest mismatch for `model/a`"));
            let (written, _) = pack_on(1, vec![bytes("model/a", text(size))], tail(), Compression::Auto);
            let archive = open(written);
            let entries = entries_of(&archive, &Manifest::parse(b"").unwrap());
            check_given(entries, &listed, &[], Err("digest mismatch for `model/a`"));
        }
    }

    #[test]
    fn copying_can_be_interrupted() {
        let (written, manifest) = pack_on(1, vec![bytes("model/a", noise(20 << 20, 1))], tail(), Compression::Auto);
        let stop = Context::default();
        stop.cancel_token().cancel();
        let entries = entries_of(&open(written), &manifest);
        let result = write_on(2, &mut tempfile::tempfile().unwrap(), entries, tail(), Compression::Auto, &stop);
        assert!(matches!(result, Err(ArchiveError::Interrupted)));
    }

    #[test]
    fn what_is_read_out_of_order_is_not_copied() {
        let source = Arc::new(MemorySource::new(vec![7; 100], "memory"));
        let state = TapState { position: 10, data: Vec::new() };
        let tap = Tap { source, end: 50, state: Mutex::new(state) };
        assert!(tap.read_at(11, &mut [0; 5]).is_err());
        tap.read_at(10, &mut [0; 20]).unwrap();
        assert!(tap.read_at(10, &mut [0; 5]).is_err());
        assert!(tap.read_at(30, &mut [0; 21]).is_err());
        tap.read_at(30, &mut [0; 20]).unwrap();
        assert_eq!(tap.lock().data, [7; 40]);
    }
}
