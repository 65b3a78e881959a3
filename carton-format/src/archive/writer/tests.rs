//! Archives that were written, read back by this library's reader; `tests/zip_peers.rs` reads them with other programs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::archive::{Archive, EntryKind, Method};
use crate::context::Context;
use crate::digest::Sha256Digest;
use crate::name::NameError;
use crate::progress::Stage;
use crate::source::{FileSource, MemorySource};

/// Bytes that do not compress, the same on every machine.
pub(super) fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Numbers as text, which compress to about half.
pub(super) fn text(length: usize) -> Vec<u8> {
    let mut text = Vec::new();
    let mut number = 1u64;
    while text.len() < length {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.extend_from_slice(format!("{}, ", number >> 33).as_bytes());
    }
    text.truncate(length);
    text
}

pub(super) fn tail() -> Tail {
    Tail { carton_toml: b"spec_version = 1\n".to_vec(), ..Tail::default() }
}

pub(super) fn bytes(name: &str, bytes: Vec<u8>) -> (String, Content) {
    (name.to_owned(), Content::Bytes(bytes))
}

pub(super) fn pack_on(
    threads: usize,
    entries: Vec<(String, Content)>,
    tail: Tail,
    compression: Compression,
) -> (Vec<u8>, Manifest) {
    let mut output = tempfile::tempfile().unwrap();
    let manifest = write_on(threads, &mut output, entries, tail, compression, &Context::default()).unwrap();
    let mut written = Vec::new();
    output.seek(SeekFrom::Start(0)).unwrap();
    output.read_to_end(&mut written).unwrap();
    (written, manifest)
}

pub(super) fn open(bytes: Vec<u8>) -> Archive {
    Archive::open(Arc::new(MemorySource::new(bytes, "memory"))).unwrap()
}

/// A carton with every kind of entry.
pub(super) fn all_kinds() -> Vec<(String, Content)> {
    let target = Sha256Digest::of(b"hello");
    vec![
        bytes("tensor_data/index.toml", text(3000)),
        bytes("misc/größe=1.png", noise(100, 1)),
        bytes("misc/a", Vec::new()),
        bytes("model/weights.bin", noise(300_000, 2)),
        bytes("model/config.json", text(200_000)),
        bytes("model/large.json", text((8 << 20) + 1)),
        bytes("model/z.bin", noise(65_536, 3)),
        bytes("model/below.bin", noise(65_535, 4)),
        ("model/a/link".to_owned(), Content::Symlink("../hello.txt".to_owned(), target)),
        bytes("model/hello.txt", b"hello".to_vec()),
        bytes("extra", b"1".to_vec()),
    ]
}

#[test]
fn layout_and_methods() {
    let tail = Tail { links: Some(b"version = 1\n".to_vec()), ..tail() };
    let (written, manifest) = pack_on(2, all_kinds(), tail, Compression::Auto);
    let archive = open(written.clone());
    let described: Vec<_> =
        archive.entries().iter().map(|entry| (entry.name(), entry.method(), entry.kind())).collect();
    let file = EntryKind::File;
    assert_eq!(
        described,
        [
            ("model/a/link", Method::Stored, EntryKind::Symlink),
            ("model/below.bin", Method::Stored, file),
            ("model/config.json", Method::Deflate, file),
            ("model/hello.txt", Method::Stored, file),
            ("model/large.json", Method::Zstd, file),
            ("model/weights.bin", Method::Stored, file),
            ("model/z.bin", Method::Stored, file),
            ("misc/a", Method::Stored, file),
            ("misc/größe=1.png", Method::Stored, file),
            ("tensor_data/index.toml", Method::Deflate, file),
            ("extra", Method::Stored, file),
            ("LINKS", Method::Stored, file),
            ("carton.toml", Method::Stored, file),
            ("MANIFEST", Method::Deflate, file),
        ]
    );
    for entry in archive.entries() {
        if let Some(range) = archive.stored_range(entry).unwrap() {
            assert!(entry.size() < 65_536 || range.start % 4096 == 0, "{} at {}", entry.name(), range.start);
        }
        let read = archive.read(entry, u64::MAX).unwrap();
        if entry.kind() == EntryKind::File && !["MANIFEST", "LINKS"].contains(&entry.name()) {
            assert_eq!(manifest.get(entry.name()), Some(Sha256Digest::of(&read)), "{}", entry.name());
        }
    }
    assert_eq!(manifest.get("model/a/link"), Some(Sha256Digest::of(b"hello")));
    assert_eq!(manifest.len(), archive.entries().len() - 2);
    let read = archive.read(archive.get("MANIFEST").unwrap(), u64::MAX).unwrap();
    assert_eq!(Manifest::parse(&read).unwrap(), manifest);
    assert_eq!(archive.read(archive.get("model/a/link").unwrap(), 100).unwrap(), b"../hello.txt");
}

#[test]
fn the_users_choice() {
    for (compression, method) in [
        (Compression::Stored, Method::Stored),
        (Compression::Zstd, Method::Zstd),
        (Compression::Deflate, Method::Deflate),
    ] {
        let (written, _) = pack_on(2, all_kinds(), tail(), compression);
        let archive = open(written);
        for entry in archive.entries() {
            let name = entry.name();
            let expected = match name {
                "carton.toml" | "MANIFEST" => continue,
                // Compression does not make these smaller.
                _ if !name.ends_with(".json") && !name.ends_with(".toml") => Method::Stored,
                _ => method,
            };
            assert_eq!(entry.method(), expected, "{name} with {compression:?}");
            archive.read(entry, u64::MAX).unwrap();
        }
        assert_ne!(archive.get("MANIFEST").unwrap().method(), Method::Zstd);
    }
}

#[test]
fn the_bytes_never_change() {
    // If this fails, the same input gives another file than before: say so in CHANGELOG.md, and only then change the hash.
    const GOLDEN: &str = "d56eff4d984ab866c39c1ea72f69cbc4b126979d1730b01abaf9d9c98f8b614f";
    let mut shuffled = all_kinds();
    shuffled.reverse();
    let (first, _) = pack_on(1, all_kinds(), tail(), Compression::Auto);
    for threads in [1, 2, 3, 8] {
        for _ in 0..3 {
            let (again, _) = pack_on(threads, shuffled.clone(), tail(), Compression::Auto);
            assert!(again == first, "{threads} threads");
            shuffled.rotate_left(1);
        }
    }
    assert_eq!(Sha256Digest::of(&first).to_string(), GOLDEN);
}

#[test]
fn many_small_files_and_some_large_ones_on_any_number_of_threads() {
    let mut entries = Vec::new();
    for index in 0..2000u64 {
        let length = if index % 500 == 7 { 40 << 20 } else { (index * 37 % 5000) as usize };
        let contents = match index % 500 {
            7 => vec![0; 1],
            _ if index % 3 == 0 => noise(length, index),
            _ => text(length),
        };
        entries.push(bytes(&format!("model/{index:05}"), contents));
    }
    for index in [3, 1203] {
        entries[index].1 = Content::Bytes(text(9 << 20));
    }
    for index in [7, 507, 1999] {
        entries[index].1 = Content::Bytes(noise(33 << 20, index as u64));
    }
    let (first, manifest) = pack_on(1, entries.clone(), tail(), Compression::Auto);
    assert_eq!(manifest.len(), 2001);
    let archive = open(first.clone());
    for entry in archive.entries().iter().filter(|entry| entry.name() != "MANIFEST") {
        let read = archive.read(entry, u64::MAX).unwrap();
        assert_eq!(manifest.get(entry.name()), Some(Sha256Digest::of(&read)));
    }
    for threads in [2, 5] {
        let (again, _) = pack_on(threads, entries.clone(), tail(), Compression::Auto);
        assert!(again == first, "{threads} threads");
    }
}

#[test]
fn names_that_cannot_be_packed() {
    let check = |names: &[&str], expected: &str| {
        let entries = names.iter().map(|name| bytes(name, Vec::new())).collect();
        let mut output = tempfile::tempfile().unwrap();
        let error = write(&mut output, entries, tail(), Compression::Auto, &Context::default()).unwrap_err();
        let text = match error {
            ArchiveError::Input { name, reason } => format!("{name}: {reason}"),
            ArchiveError::Name { name, source } => format!("{name}: {source}"),
            error => panic!("{error:?}"),
        };
        assert_eq!(text, expected);
    };
    check(&["model/a", "model/a"], "model/a: it is there twice");
    check(&["model/a/b", "model/a"], "model/a/b: `model/a` is a file");
    check(&["MANIFEST"], "MANIFEST: the name is reserved");
    check(&["LINKS"], "LINKS: the name is reserved");
    check(&["carton.toml"], "carton.toml: the name is reserved");
    check(&["carton.toml/a"], "carton.toml/a: the name is reserved");
    check(&["../a"], &format!("../a: {}", NameError::DotComponent));
    check(&["/a"], &format!("/a: {}", NameError::Absolute));
    check(&["a\nb"], &format!("a\nb: {}", NameError::ControlCharacter));
    check(&[""], &format!(": {}", NameError::Empty));

    let linked = [("model/a".to_owned(), Sha256Digest::of(b""))].into();
    let tail = Tail { linked, ..tail() };
    let result = write(
        &mut tempfile::tempfile().unwrap(),
        vec![bytes("model/a", Vec::new())],
        tail,
        Compression::Auto,
        &Context::default(),
    );
    assert!(matches!(result, Err(ArchiveError::Input { .. })));
    for target in ["../../etc/passwd", "/etc/passwd", "", "a\0"] {
        let link = ("model/link".to_owned(), Content::Symlink(target.to_owned(), Sha256Digest::of(b"")));
        let result = write(
            &mut tempfile::tempfile().unwrap(),
            vec![link],
            super::tests::tail(),
            Compression::Auto,
            &Context::default(),
        );
        assert!(matches!(result, Err(ArchiveError::Input { .. })), "{target}");
    }
}

#[test]
fn linked_files_are_listed_without_an_entry() {
    let digest = Sha256Digest::of(b"elsewhere");
    let tail = Tail { linked: [("model/b".to_owned(), digest)].into(), ..tail() };
    let (written, manifest) = pack_on(2, vec![bytes("model/a", Vec::new())], tail, Compression::Auto);
    assert_eq!(manifest.get("model/b"), Some(digest));
    assert_eq!(manifest.len(), 3);
    assert!(open(written).get("model/b").is_none());
}

#[test]
fn files_that_change_or_are_not_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for (length, new_length) in [(100, 50), (100, 200), (40 << 20, 1 << 20), (40 << 20, 41 << 20), (9 << 20, 1)] {
        // Zeros are streamed through zstd, noise is stored.
        for contents in [vec![0; length], noise(length, 5)] {
            std::fs::write(&path, contents).unwrap();
            let entries = vec![("model/file".to_owned(), Content::File(path.clone()))];
            let plan = plan::make(entries, tail(), Compression::Auto, 1).unwrap();
            // The size changes between planning and reading.
            File::options().write(true).open(&path).unwrap().set_len(new_length).unwrap();
            let result = worker::run(&plan, 2, &tempfile::tempfile().unwrap(), &Context::default());
            match result.map(|_| ()) {
                Err(ArchiveError::SourceChanged { path: named, expected, found }) => {
                    assert_eq!((named, expected, found), (path.clone(), length as u64, new_length));
                }
                other => panic!("{other:?}"),
            }
        }
    }
    // The size changes during reading: the progress callback extends the file.
    std::fs::write(&path, noise(40 << 20, 6)).unwrap();
    let growing = path.clone();
    let grow = Context::watched(move |_, _| {
        File::options().append(true).open(&growing).unwrap().write_all(b"more").unwrap();
    });
    let entries = vec![("model/file".to_owned(), Content::File(path.clone()))];
    let result = write(&mut tempfile::tempfile().unwrap(), entries, tail(), Compression::Auto, &grow);
    assert!(matches!(result, Err(ArchiveError::SourceChanged { .. })), "{result:?}");

    for path in [folder.path().to_owned(), folder.path().join("none")] {
        let entries = vec![("model/file".to_owned(), Content::File(path.clone()))];
        match write(&mut tempfile::tempfile().unwrap(), entries, tail(), Compression::Auto, &Context::default()) {
            Err(ArchiveError::Io { location, .. }) => assert_eq!(location, path.display().to_string()),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn progress_is_told_and_can_stop() {
    let entries = vec![bytes("model/a", noise(40 << 20, 1)), bytes("model/b", text(9 << 20))];
    let total = (49 << 20) + tail().carton_toml.len() as u64;
    let last = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&last);
    let watch = Context::watched(move |progress, _| {
        assert_eq!((progress.total, progress.stage.clone()), (Some(total), Stage::Pack));
        assert!(progress.done <= total);
        counted.fetch_max(progress.done, Ordering::Relaxed);
    });
    write(&mut tempfile::tempfile().unwrap(), entries.clone(), tail(), Compression::Auto, &watch).unwrap();
    assert_eq!(last.load(Ordering::Relaxed), total);

    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let stop = Context::watched(move |_, cancel_token| {
        if counted.fetch_add(1, Ordering::Relaxed) == 3 {
            cancel_token.cancel();
        }
    });
    let result = write(&mut tempfile::tempfile().unwrap(), entries.clone(), tail(), Compression::Auto, &stop);
    assert!(matches!(result, Err(ArchiveError::Interrupted)), "{result:?}");
    assert!(calls.load(Ordering::Relaxed) < 8);

    // A panic in the callback reaches the caller, and no thread waits forever.
    let panic = Context::watched(|_, _| panic!("in the callback"));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        write_on(4, &mut tempfile::tempfile().unwrap(), entries, tail(), Compression::Auto, &panic).map(|_| ())
    }));
    assert!(result.is_err());
}

#[test]
fn a_full_disk_is_an_error() {
    let Ok(mut output) = File::options().write(true).open("/dev/full") else { return };
    let result =
        write(&mut output, vec![bytes("model/a", text(9 << 20))], tail(), Compression::Auto, &Context::default());
    assert!(matches!(result, Err(ArchiveError::Io { action: "write", .. })), "{result:?}");
}

#[test]
fn archives_larger_than_four_gigabytes() {
    if std::env::var_os("CARTON_TEST_FULL_SIZE").is_none() {
        eprintln!("skipped: an archive of 4 GiB takes that much disk; CARTON_TEST_FULL_SIZE=1 writes it");
        return;
    }
    // A sparse file as input: 4 GiB and a few more zeros, stored, then an entry at an offset beyond 32 bits.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hole");
    let length = (4 << 30) + 10;
    File::create(&path).unwrap().set_len(length).unwrap();
    let output = folder.path().join("output");
    let entries = vec![
        ("model/hole".to_owned(), Content::File(path)),
        bytes("model/z", text(100)),
        bytes("misc/a", noise(70_000, 1)),
    ];
    let mut file = File::create(&output).unwrap();
    let manifest = write(&mut file, entries, tail(), Compression::Stored, &Context::default()).unwrap();
    let archive = Archive::open(Arc::new(FileSource::open(&output).unwrap())).unwrap();
    let hole = archive.get("model/hole").unwrap();
    assert_eq!((hole.size(), hole.compressed_size()), (length, length));
    let range = archive.stored_range(hole).unwrap().unwrap();
    assert_eq!((range.start % 4096, range.end - range.start), (0, length));
    for name in ["model/z", "misc/a", "carton.toml"] {
        let read = archive.read(archive.get(name).unwrap(), 1 << 20).unwrap();
        assert_eq!(manifest.get(name), Some(Sha256Digest::of(&read)));
    }
}

#[test]
fn more_entries_than_16_bits_count() {
    let entries = (0..70_000).map(|index| bytes(&format!("model/{index}"), Vec::new())).collect();
    let (written, manifest) = pack_on(2, entries, tail(), Compression::Auto);
    let archive = open(written);
    assert_eq!((archive.entries().len(), manifest.len()), (70_002, 70_001));
    assert!(archive.get("model/69999").is_some());
}

#[test]
fn files_to_be_used_in_place_are_stored_and_aligned_whatever_their_size() {
    let in_place = |(name, content): (String, Content)| (name, Content::InPlace(Box::new(content)));
    for compression in [Compression::Auto, Compression::Stored, Compression::Zstd, Compression::Deflate] {
        let entries = vec![
            bytes("tensor_data/a.toml", text(300)),
            in_place(bytes("tensor_data/b.zt", text(300))),
            in_place(bytes("tensor_data/c.zt", vec![0; 9 << 20])),
            in_place(bytes("tensor_data/d.zt", Vec::new())),
        ];
        let (written, manifest) = pack_on(2, entries, tail(), compression);
        let check = |archive: &Archive| {
            for (name, expected) in [("b", text(300)), ("c", vec![0; 9 << 20]), ("d", Vec::new())] {
                let entry = archive.get(&format!("tensor_data/{name}.zt")).unwrap();
                let range = archive.stored_range(entry).unwrap().expect("it is stored");
                assert_eq!(range.start % 4096, 0, "{name}");
                assert!(archive.read(entry, u64::MAX).unwrap() == expected, "{name}");
            }
        };
        let archive = open(written.clone());
        check(&archive);
        // Copied to another archive, where their offsets would differ.
        let copied = |name: &str| {
            let entry = archive.get(name).unwrap().clone();
            (name.to_owned(), Content::Entry(archive.clone(), entry))
        };
        let names = archive.entries().iter().map(crate::archive::Entry::name);
        let mut entries = vec![bytes("model/first", text(100))];
        entries.extend(names.filter(|name| name.ends_with(".zt")).map(|name| in_place(copied(name))));
        check(&open(pack_on(2, entries, tail(), compression).0));
        assert_eq!(manifest.len(), 5);
    }
}

#[test]
fn what_is_compressed_elsewhere_stays_so_even_in_place() {
    let (written, _) = pack_on(1, vec![bytes("tensor_data/a.zt", text(3000))], tail(), Compression::Deflate);
    let archive = open(written);
    let entry = archive.get("tensor_data/a.zt").unwrap().clone();
    let content = Content::InPlace(Box::new(Content::Entry(archive, entry)));
    let (written, _) = pack_on(1, vec![("tensor_data/a.zt".to_owned(), content)], tail(), Compression::Auto);
    let archive = open(written);
    let entry = archive.get("tensor_data/a.zt").unwrap();
    assert_eq!(entry.method(), Method::Deflate);
    assert!(archive.read(entry, u64::MAX).unwrap() == text(3000));
}
