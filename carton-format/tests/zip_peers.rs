//! Reads archives that other programs wrote, and lets them read ours: Python's `zipfile`, Info-ZIP's `zip` and `unzip`, and the
//! `zip` crate.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Cursor, Read, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use carton_format::archive::{Archive, Compression, Content, EntryKind, Method, Tail, write};
use carton_format::context::Context;
use carton_format::digest::Sha256Digest;
use carton_format::source::{FileSource, MemorySource, Source};

/// Opens `source` and checks that it holds exactly `expected`, each entry read whole and in small pieces.
fn check(source: Arc<dyn Source>, expected: &BTreeMap<&str, (EntryKind, Vec<u8>)>) {
    let archive = Archive::open(source).unwrap();
    let names: Vec<_> = archive.entries().iter().map(|entry| entry.name()).collect();
    assert_eq!(names.len(), expected.len(), "{names:?}");
    for (name, (kind, bytes)) in expected {
        let entry = archive.get(name).unwrap_or_else(|| panic!("no `{name}` in {names:?}"));
        assert_eq!(entry.kind(), *kind, "{name}");
        assert_eq!(entry.size(), bytes.len() as u64, "{name}");
        assert!(archive.read(entry, bytes.len() as u64).unwrap() == *bytes, "{name}");
        let mut pieces = Vec::new();
        let mut reader = archive.reader(entry).unwrap();
        let mut piece = [0; 777];
        loop {
            let length = reader.read(&mut piece).unwrap();
            if length == 0 {
                break;
            }
            pieces.extend_from_slice(&piece[..length]);
        }
        assert!(pieces == *bytes, "{name} in pieces");
        let range = archive.stored_range(entry).unwrap();
        assert_eq!(range.is_some(), entry.method() == Method::Stored, "{name}");
        if let Some(range) = range {
            let mut stored = vec![0; (range.end - range.start) as usize];
            archive.source().read_at(range.start, &mut stored).unwrap();
            assert!(stored == *bytes, "{name} in place");
        }
    }
}

/// Bytes that compress a little, the same on every run.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 27) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn contents() -> BTreeMap<&'static str, (EntryKind, Vec<u8>)> {
    BTreeMap::from([
        ("empty", (EntryKind::File, Vec::new())),
        ("small", (EntryKind::File, b"hello".to_vec())),
        ("model/größe=1.txt", (EntryKind::File, b"a line\n".repeat(1000))),
        ("model/large.bin", (EntryKind::File, noise(1_000_000))),
    ])
}

/// Runs a program in `folder`. Returns `false` if it is not installed.
fn run(folder: &Path, program: &str, arguments: &[&str]) -> bool {
    let result = Command::new(program).args(arguments).current_dir(folder).output();
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: `{program}` is not installed");
            false
        }
        result => {
            let output = result.unwrap();
            assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
            true
        }
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, (_, bytes)) in contents() {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    folder
}

#[test]
fn python() {
    const SCRIPT: &str = r#"
import sys, zipfile, io
names = ["empty", "small", "model/größe=1.txt", "model/large.bin"]
class Pipe(io.RawIOBase):
    "Cannot seek, so that sizes follow the data."
    def __init__(self, path): self.file = open(path, "wb")
    def writable(self): return True
    def write(self, data): return self.file.write(data)
for method, label in [(zipfile.ZIP_STORED, "stored"), (zipfile.ZIP_DEFLATED, "deflate")]:
    for zip64 in [False, True]:
        for output, how in [(f"{label}{zip64}seek.zip", open), (f"{label}{zip64}pipe.zip", None)]:
            file = open(output, "wb") if how else Pipe(output)
            with zipfile.ZipFile(file, "w", method) as archive:
                for name in names:
                    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                    info.compress_type = method
                    with archive.open(info, "w", force_zip64=zip64) as entry:
                        entry.write(open(name, "rb").read())
                link = zipfile.ZipInfo("model/link")
                link.external_attr = 0o120777 << 16
                archive.writestr(link, "large.bin")
                archive.writestr(zipfile.ZipInfo("model/folder/"), "")
                archive.comment = b"a comment"
            file.flush() if not how else file.close()
"#;
    let folder = folder();
    if !run(folder.path(), "python3", &["-c", SCRIPT]) {
        return;
    }
    let mut expected = contents();
    expected.insert("model/link", (EntryKind::Symlink, b"large.bin".to_vec()));
    expected.insert("model/folder", (EntryKind::Directory, Vec::new()));
    let mut n_archives = 0;
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "zip") {
            check(Arc::new(FileSource::open(&path).unwrap()), &expected);
            n_archives += 1;
        }
    }
    assert_eq!(n_archives, 8);
}

#[test]
fn info_zip() {
    let folder = folder();
    let mut expected = contents();
    expected.insert("model", (EntryKind::Directory, Vec::new()));
    if !run(folder.path(), "zip", &["-v"]) {
        return;
    }
    // To a pipe, `zip` streams all entries. (Info-ZIP cannot stream links.)
    assert!(run(folder.path(), "sh", &["-c", "zip -qr - empty small model | cat > b.zip"]));
    check(Arc::new(FileSource::open(&folder.path().join("b.zip")).unwrap()), &expected);
    std::os::unix::fs::symlink("large.bin", folder.path().join("model/link")).unwrap();
    expected.insert("model/link", (EntryKind::Symlink, b"large.bin".to_vec()));
    for arguments in [&["-qry", "a.zip"][..], &["-qry0", "a.zip"], &["-qry", "-fz", "a.zip"]] {
        let arguments = [arguments, &["empty", "small", "model"]].concat();
        assert!(run(folder.path(), "zip", &arguments));
        let path = folder.path().join("a.zip");
        check(Arc::new(FileSource::open(&path).unwrap()), &expected);
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn zip_crate() {
    use zip::write::SimpleFileOptions;
    for large in [false, true] {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (index, (name, (_, bytes))) in contents().into_iter().enumerate() {
            let method = [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated][index % 2];
            let options =
                SimpleFileOptions::default().compression_method(method).large_file(large).with_alignment(4096);
            writer.start_file(name, options).unwrap();
            writer.write_all(&bytes).unwrap();
        }
        writer.add_symlink("model/link", "large.bin", SimpleFileOptions::default()).unwrap();
        writer.add_directory("model/folder", SimpleFileOptions::default()).unwrap();
        let mut expected = contents();
        expected.insert("model/link", (EntryKind::Symlink, b"large.bin".to_vec()));
        expected.insert("model/folder", (EntryKind::Directory, Vec::new()));
        let bytes = writer.finish().unwrap().into_inner();
        check(Arc::new(MemorySource::new(bytes, "zip crate")), &expected);
    }
}

/// Writes a carton of the contents, read from files, with the given compression. Returns all files that it must have.
fn pack(folder: &Path, compression: Compression) -> BTreeMap<String, Vec<u8>> {
    let mut expected: BTreeMap<_, _> =
        contents().into_iter().map(|(name, (_, bytes))| (format!("model/{name}"), bytes)).collect();
    let mut entries: Vec<_> =
        contents().keys().map(|name| (format!("model/{name}"), Content::File(folder.join(name)))).collect();
    let target = Sha256Digest::of(&expected["model/small"]);
    entries.push(("model/link".to_owned(), Content::Symlink("small".to_owned(), target)));
    let tail = Tail { carton_toml: b"spec_version = 1".to_vec(), ..Tail::default() };
    expected.insert("model/link".to_owned(), b"small".to_vec());
    expected.insert("carton.toml".to_owned(), tail.carton_toml.clone());
    let mut file = File::create(folder.join("ours.carton")).unwrap();
    let manifest = write(&mut file, entries, tail, compression, &Context::default()).unwrap();
    expected.insert("MANIFEST".to_owned(), manifest.to_bytes().to_vec());
    expected
}

#[test]
fn ours_read_by_others() {
    const SCRIPT: &str = r#"
import sys, zipfile, hashlib
archive = zipfile.ZipFile("ours.carton")
assert archive.testzip() is None
for info in archive.infolist():
    assert info.date_time == (1980, 1, 1, 0, 0, 0), info
    mode = 0o120777 if info.filename == "model/link" else 0o100644
    assert info.external_attr >> 16 == mode, info
    digest = hashlib.sha256(archive.read(info)).hexdigest()
    open("digests", "a").write(f"{info.filename}={digest}\n")
"#;
    for compression in [Compression::Auto, Compression::Stored, Compression::Deflate] {
        let folder = folder();
        let expected = pack(folder.path(), compression);
        if run(folder.path(), "python3", &["-c", SCRIPT]) {
            let digests = std::fs::read_to_string(folder.path().join("digests")).unwrap();
            let mut found: Vec<_> = digests.lines().map(str::to_owned).collect();
            found.sort();
            let mut wanted: Vec<_> =
                expected.iter().map(|(name, bytes)| format!("{name}={}", Sha256Digest::of(bytes))).collect();
            wanted.sort();
            assert_eq!(found, wanted);
        }
        run(folder.path(), "unzip", &["-tq", "ours.carton"]);
        run(folder.path(), "unzip", &["-q", "ours.carton", "-d", "unpacked"]);
        let unpacked = folder.path().join("unpacked");
        if unpacked.exists() {
            assert_eq!(std::fs::read_link(unpacked.join("model/link")).unwrap(), Path::new("small"));
            for (name, bytes) in expected.iter().filter(|(name, _)| *name != "model/link") {
                assert!(std::fs::read(unpacked.join(name)).unwrap() == *bytes, "{name}");
            }
        }
        let mut peer = zip::ZipArchive::new(File::open(folder.path().join("ours.carton")).unwrap()).unwrap();
        assert_eq!(peer.len(), expected.len());
        for (name, bytes) in &expected {
            let mut read = Vec::new();
            peer.by_name(name).unwrap().read_to_end(&mut read).unwrap();
            assert!(read == *bytes, "{name}");
        }
    }
}
