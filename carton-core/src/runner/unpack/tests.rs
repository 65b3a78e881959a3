//! Unpacks archives of this library and of other writers, and archives that must be refused.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{Cursor, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ::tar::{Builder, EntryType, Header};
use ::zip::ZipWriter;
use ::zip::write::SimpleFileOptions;
use carton_format::context::CancelToken;
use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

use super::*;

/// Lists everything below a folder: the type (`d`, `f` or `l`), the mode, the name, and the contents of a file or the target of a
/// link.
fn listed(root: &Path) -> Vec<String> {
    fn add(folder: &Path, prefix: &str, list: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
            let metadata = fs::symlink_metadata(&path).unwrap();
            let mode = metadata.permissions().mode() & 0o7777;
            if metadata.is_symlink() {
                list.push(format!("l {name} {}", fs::read_link(&path).unwrap().display()));
            } else if metadata.is_dir() {
                list.push(format!("d {mode:o} {name}"));
                add(&path, &format!("{name}/"), list);
            } else {
                let bytes = fs::read(&path).unwrap();
                let text = if bytes.len() < 100 { bytes.escape_ascii().to_string() } else { bytes.len().to_string() };
                list.push(format!("f {mode:o} {name} {text}"));
            }
        }
    }
    let mut list = Vec::new();
    add(root, "", &mut list);
    list.sort();
    list
}

/// Unpacks an archive, and lists the result.
fn unpacked_below(bytes: &[u8], folder: &str, limits: UnpackLimits) -> Result<Vec<String>, String> {
    let root = tempfile::tempdir().unwrap();
    let archive = root.path().join("archive");
    fs::write(&archive, bytes).unwrap();
    let out = root.path().join("out");
    fs::create_dir(&out).unwrap();
    let cancel_token = CancelToken::default();
    let mut tree = Tree::new(out.clone(), limits, &cancel_token);
    let result = unpack(&archive, folder, &mut tree).and_then(|()| tree.finish());
    // Nothing was written beside the folder, whatever the archive holds.
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
    result.map(|()| listed(&out)).map_err(|error| format!("{error}: {}", carton_format::causes::in_one_line(&error)))
}

fn unpacked(bytes: &[u8]) -> Result<Vec<String>, String> {
    unpacked_below(bytes, "", UnpackLimits::default())
}

/// An entry of a tar file.
struct TarEntry {
    kind: EntryType,
    name: Vec<u8>,
    target: Vec<u8>,
    mode: u32,
    data: Vec<u8>,
}

fn entry(kind: EntryType, name: &str) -> TarEntry {
    TarEntry { kind, name: name.into(), target: Vec::new(), mode: 0o644, data: Vec::new() }
}

fn file(name: &str, mode: u32, data: &str) -> TarEntry {
    TarEntry { mode, data: data.into(), ..entry(EntryType::Regular, name) }
}

fn link(kind: EntryType, name: &str, target: &str) -> TarEntry {
    TarEntry { target: target.into(), ..entry(kind, name) }
}

/// Makes a tar file with exactly these names and targets, which the `tar` crate would refuse to write.
fn tar(entries: &[TarEntry]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for TarEntry { kind, name, target, mode, data } in entries {
        let mut header = Header::new_ustar();
        header.set_entry_type(*kind);
        header.set_mode(*mode);
        header.set_size(data.len() as u64);
        let fields = header.as_ustar_mut().unwrap();
        fields.name[..name.len()].copy_from_slice(name);
        fields.linkname[..target.len()].copy_from_slice(target);
        header.set_cksum();
        builder.append(&header, data.as_slice()).unwrap();
    }
    builder.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[track_caller]
fn refused(bytes: &[u8], expected: &str) {
    let error = unpacked(bytes).unwrap_err();
    assert!(error.contains(expected), "expected `{expected}`, found: {error}");
}

#[test]
fn modes_are_reduced_and_links_kept() {
    let entries = [
        entry(EntryType::Directory, "./"),
        TarEntry { mode: 0o2700, ..entry(EntryType::Directory, "./bin/") },
        file("./bin/run", 0o4711, "#!"),
        file("lib/a", 0o600, "a"),
        link(EntryType::Symlink, "lib64", "lib"),
        link(EntryType::Link, "lib/b", "./lib/a"),
        entry(EntryType::Directory, "bin"),
    ];
    let expected = ["d 755 bin", "d 755 lib", "f 644 lib/a a", "f 644 lib/b a", "f 755 bin/run #!", "l lib64 lib"];
    assert_eq!(unpacked(&tar(&entries)).unwrap(), expected);
    assert_eq!(unpacked(&gzip(&tar(&entries))).unwrap(), expected);
    let below = unpacked_below(&tar(&entries[3..5]), "x/y", UnpackLimits::default()).unwrap();
    assert_eq!(below, ["d 755 x", "d 755 x/y", "d 755 x/y/lib", "f 644 x/y/lib/a a", "l x/y/lib64 lib"]);
    assert!(unpacked(&tar(&[])).unwrap().is_empty());
}

#[test]
fn names_that_leave_the_folder_are_refused() {
    refused(&tar(&[file("../evil", 0o644, "x")]), "`..`");
    refused(&tar(&[file("a/../../evil", 0o644, "x")]), "`..`");
    refused(&tar(&[file("/tmp/evil", 0o644, "x")]), "absolute");
    refused(&tar(&[file(".//evil", 0o644, "x")]), "absolute");
    refused(&tar(&[file("a\nb", 0o644, "x")]), "line break");
    refused(&tar(&[TarEntry { name: vec![b'a', 0xFF], ..file("", 0o644, "") }]), "UTF-8");
    refused(&tar(&[file("a", 0o644, "x"), file("a", 0o644, "y")]), "`a` is there twice");
    refused(&tar(&[file("a", 0o644, "x"), file("./a", 0o644, "y")]), "`a` is there twice");
    refused(&tar(&[file("a", 0o644, "x"), file("a/b", 0o644, "y")]), "`a` is there twice");
    refused(&tar(&[entry(EntryType::Directory, "..")]), "`..`");
}

#[test]
fn links_that_leave_the_folder_are_refused() {
    let symlink = |name, target| link(EntryType::Symlink, name, target);
    refused(&tar(&[symlink("a", "/etc")]), "is absolute");
    refused(&tar(&[symlink("a/b", "../../etc")]), "leaves the folder");
    refused(&tar(&[symlink("a", "..")]), "leaves the folder");
    refused(&tar(&[symlink("a", "")]), "no usable target");
    // A well-known attack: first a link, then a file behind it.
    refused(&tar(&[symlink("a", "/tmp"), file("a/evil", 0o644, "x")]), "there twice");
    refused(&tar(&[symlink("a", "b"), file("a", 0o644, "x")]), "there twice");
    refused(&tar(&[link(EntryType::Link, "a", "/etc/passwd")]), "leads to no file of the archive");
    refused(&tar(&[link(EntryType::Link, "a", "../x")]), "leads to no file of the archive");
    refused(&tar(&[link(EntryType::Link, "a", "nowhere")]), "leads to no file of the archive");
    refused(&tar(&[symlink("s", "x"), link(EntryType::Link, "a", "s")]), "leads to no file of the archive");
}

#[test]
fn only_files_folders_and_links_come_out() {
    refused(&tar(&[entry(EntryType::Char, "tty")]), "a device");
    refused(&tar(&[entry(EntryType::Block, "sda")]), "a device");
    refused(&tar(&[entry(EntryType::Fifo, "pipe")]), "a pipe");
    refused(&tar(&[entry(EntryType::new(b'Z'), "odd")]), "of an unknown kind");
}

#[test]
fn what_is_no_archive_is_told_from_damage() {
    refused(b"", "found an empty file");
    refused(b"hello", "found something else");
    refused(b"\xFD7zXZ\0 and so on", "found xz");
    refused(&gzip(b"hello"), "found gzip with something else");
    refused(b"\x1F\x8B\x08 and no more", "damaged");
    let whole = tar(&[file("a", 0o644, &"x".repeat(10_000))]);
    refused(&whole[..5000], "damaged");
    let mut wrong = whole.clone();
    wrong[0] ^= 1;
    refused(&wrong, "something else");
    let zipped = gzip(&whole);
    refused(&zipped[..zipped.len() - 20], "damaged");
    let mut wrong_crc = zipped.clone();
    let position = wrong_crc.len() - 8;
    wrong_crc[position] ^= 1;
    refused(&wrong_crc, "damaged");
    let mut with_garbage = zipped;
    with_garbage.extend(b"garbage");
    refused(&with_garbage, "damaged");
}

#[test]
fn bombs_end_early() {
    let limits = UnpackLimits { n_entries: 5, n_bytes: 1000, ..UnpackLimits::default() };
    let check = |bytes: &[u8], expected: &str| {
        let error = unpacked_below(bytes, "", limits).unwrap_err();
        assert!(error.contains(expected), "expected `{expected}`, found: {error}");
    };
    check(&tar(&[file("a", 0o644, &"x".repeat(2000))]), "at most 1000 allowed");
    let many: Vec<_> = (0..6).map(|number| file(&number.to_string(), 0o644, "")).collect();
    let limits_of_entries = UnpackLimits { n_bytes: 1 << 20, ..limits };
    let error = unpacked_below(&tar(&many), "", limits_of_entries).unwrap_err();
    assert!(error.contains("number of entries: at most 5"), "{error}");
    let error = unpacked_below(&tar(&[file("a/b/c/d/e/f", 0o644, "")]), "", limits_of_entries).unwrap_err();
    assert!(error.contains("number of entries: at most 5"), "{error}");

    // 10 MiB of zeros, compressed to 10 to 50 KiB.
    let limits = UnpackLimits { free_bytes: 1 << 20, ratio: 20, ..UnpackLimits::default() };
    let check = |bytes: &[u8], expected: &str| {
        let error = unpacked_below(bytes, "", limits).unwrap_err();
        assert!(error.contains(expected), "expected `{expected}`, found: {error}");
    };
    let zeros = "\0".repeat(10 << 20);
    check(&gzip(&tar(&[file("zeros", 0o644, &zeros)])), "bytes of the archive: at most");
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file("zeros", SimpleFileOptions::default()).unwrap();
    zip.write_all(zeros.as_bytes()).unwrap();
    check(&zip.finish().unwrap().into_inner(), "unpacked bytes");
    // Bytes that belong to no file count too.
    check(&gzip(&tar(&[TarEntry { data: zeros.clone().into(), ..entry(EntryType::Directory, "d") }])), "at most");
    // A name of 10 MiB, which the `tar` crate would keep in memory.
    let name = TarEntry { data: zeros.into_bytes(), ..entry(EntryType::GNULongName, "long") };
    refused(&gzip(&tar(&[name])), "bytes of headers and names of one entry: at most 4194304");
}

#[test]
fn a_stopped_unpacking_says_so() {
    let root = tempfile::tempdir().unwrap();
    let archive = root.path().join("archive");
    fs::write(&archive, tar(&[file("a", 0o644, "x")])).unwrap();
    let cancel_token = CancelToken::default();
    cancel_token.cancel();
    let mut tree = Tree::new(root.path().join("out"), UnpackLimits::default(), &cancel_token);
    assert!(matches!(unpack(&archive, "", &mut tree), Err(UnpackError::Interrupted)));
}

/// Cancels the work once its bytes are read up to a position.
struct CancelsAt<'a> {
    data: Cursor<Vec<u8>>,
    position: u64,
    cancel_token: &'a CancelToken,
}

impl Read for CancelsAt<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.data.position() >= self.position {
            self.cancel_token.cancel();
        }
        self.data.read(buffer)
    }
}

#[test]
fn what_makes_no_file_can_be_stopped_too() {
    let out = tempfile::tempdir().unwrap();
    let skipped = TarEntry { data: vec![0; 4 << 20], ..entry(EntryType::Directory, "folder") };
    let cancel_token = CancelToken::default();
    // A position in the skipped data.
    let data = CancelsAt { data: Cursor::new(tar(&[skipped])), position: 1 << 20, cancel_token: &cancel_token };
    let mut tree = Tree::new(out.path().join("new"), UnpackLimits::default(), &cancel_token);
    fs::create_dir(out.path().join("new")).unwrap();
    assert!(matches!(super::tar::unpack(data, "", &mut tree), Err(UnpackError::Interrupted)));
}

#[test]
fn zip_files_are_read_like_cartons() {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(::zip::CompressionMethod::Stored);
    zip.add_directory("empty/", options).unwrap();
    zip.start_file("bin/run", options.unix_permissions(0o4755)).unwrap();
    zip.write_all(b"#!").unwrap();
    zip.start_file("data", options.unix_permissions(0o600)).unwrap();
    zip.add_symlink("link", "bin/run", options).unwrap();
    let bytes = zip.finish().unwrap().into_inner();
    let expected = ["d 755 bin", "d 755 empty", "f 644 data ", "f 755 bin/run #!", "l link bin/run"];
    assert_eq!(unpacked(&bytes).unwrap(), expected);
    type Change<'a> = &'a dyn Fn(&mut ZipWriter<Cursor<Vec<u8>>>);
    let with = |change: Change<'_>| {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        change(&mut zip);
        zip.finish().unwrap().into_inner()
    };
    refused(&with(&|zip| zip.add_symlink("l", "../../etc", options).unwrap()), "leaves the folder");
    refused(&with(&|zip| zip.add_symlink("l", "/etc", options).unwrap()), "is absolute");
    refused(&with(&|zip| zip.start_file("../evil", options).unwrap()), "..");
    refused(&bytes[..bytes.len() - 10], "the file is truncated");
    let mut damaged = bytes.clone();
    let position = damaged.windows(2).position(|window| window == b"#!").unwrap();
    damaged[position] ^= 1;
    refused(&damaged, "bin/run");
}

/// A folder like that of a runner, and the list that every archive of it must give.
fn peer_folder() -> (TempDir, PathBuf, Vec<String>) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("in");
    let long = format!("{}/{}", "d".repeat(120), "n".repeat(150));
    for (name, mode) in [("bin/run", 0o755), ("lib/ünï code.txt", 0o644), (long.as_str(), 0o644)] {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(&path, name.len().to_string()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    std::os::unix::fs::symlink("lib", folder.join("lib64")).unwrap();
    let expected = listed(&folder);
    (root, folder, expected)
}

#[track_caller]
fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn archives_of_gnu_tar() {
    let (root, folder, expected) = peer_folder();
    let archive = root.path().join("archive");
    for format in ["gnu", "posix"] {
        for compression in ["--no-auto-compress", "--gzip"] {
            run(Command::new("tar")
                .arg("--format")
                .arg(format)
                .arg(compression)
                .arg("-cf")
                .arg(&archive)
                .args(["-C"])
                .arg(&folder)
                .arg("."));
            assert_eq!(unpacked(&fs::read(&archive).unwrap()).unwrap(), expected, "{format} {compression}");
        }
    }
    // Sparse files: the old GNU form is supported, and the pax form is refused with a clear error.
    let sparse = folder.join("sparse");
    fs::File::create(&sparse).unwrap().set_len(1 << 20).unwrap();
    run(Command::new("tar")
        .args(["--format=gnu", "--sparse", "-cf"])
        .arg(&archive)
        .arg("-C")
        .arg(&folder)
        .arg("sparse"));
    assert_eq!(unpacked(&fs::read(&archive).unwrap()).unwrap(), ["f 644 sparse 1048576"]);
    run(Command::new("tar")
        .args(["--format=posix", "--sparse", "-cf"])
        .arg(&archive)
        .arg("-C")
        .arg(&folder)
        .arg("sparse"));
    refused(&fs::read(&archive).unwrap(), "sparse file");
}

#[test]
fn archives_of_python() {
    let (root, folder, expected) = peer_folder();
    let archive = root.path().join("archive");
    let script = "import sys, tarfile; t = tarfile.open(sys.argv[1], sys.argv[2]); t.add(sys.argv[3], '.'); t.close()";
    for mode in ["w", "w:gz"] {
        run(Command::new("python3").args(["-c", script]).arg(&archive).arg(mode).arg(&folder));
        assert_eq!(unpacked(&fs::read(&archive).unwrap()).unwrap(), expected, "{mode}");
    }
    // Python's zipfile follows links.
    fs::remove_file(folder.join("lib64")).unwrap();
    let script = "import sys, shutil; shutil.make_archive(sys.argv[1], 'zip', sys.argv[2])";
    run(Command::new("python3").args(["-c", script]).arg(&archive).arg(&folder));
    let expected: Vec<String> = expected.into_iter().filter(|line| !line.starts_with('l')).collect();
    assert_eq!(unpacked(&fs::read(archive.with_extension("zip")).unwrap()).unwrap(), expected);
}
