//! Archives that no well-behaved program writes, and valid ones that few write: what is accepted, and with which message the rest is
//! refused. Archives of other programs are in `tests/zip_peers.rs`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod damage;
mod zip;

use std::io::{Read, Write};
use std::sync::Arc;

use super::record::extra_field::write_padding;
use super::record::*;
use super::*;
use crate::causes::in_one_line;
use crate::source::MemorySource;
use zip::{Item, Zip, item, zip};

fn open(bytes: Vec<u8>) -> Result<Archive, ArchiveError> {
    Archive::open(Arc::new(MemorySource::new(bytes, "memory")))
}

/// Opens the archive and reads every entry, in pieces of the given length.
fn read_all(bytes: Vec<u8>, piece: usize) -> Result<Vec<(String, Vec<u8>)>, ArchiveError> {
    let archive = open(bytes)?;
    let mut all = Vec::new();
    for entry in archive.entries() {
        let mut reader = archive.reader(entry)?;
        let mut contents = Vec::new();
        let mut buffer = vec![0; piece];
        loop {
            let length = reader.read(&mut buffer).map_err(|error| ArchiveError::from_read(error, "memory"))?;
            if length == 0 {
                break;
            }
            contents.extend_from_slice(&buffer[..length]);
        }
        assert_eq!(archive.read(entry, u64::MAX)?, contents);
        archive.stored_range(entry)?;
        all.push((entry.name().to_owned(), contents));
    }
    Ok(all)
}

/// Checks the result of reading an archive: "" if it can be read in full, otherwise a part of the error.
#[track_caller]
fn check(zip: Zip, expected: &str) {
    for piece in [1, 7, 1 << 20] {
        match (read_all(zip.build(), piece), expected) {
            (Ok(all), "") => {
                assert_eq!(all.len(), zip.items.len());
                for ((name, contents), item) in all.iter().zip(&zip.items) {
                    assert_eq!(name.as_bytes(), item.name.strip_suffix(b"/").unwrap_or(&item.name));
                    assert_eq!(*contents, item.contents);
                }
            }
            (Err(error), expected) if !expected.is_empty() => {
                let found = in_one_line(&error);
                assert!(found.contains(expected), "expected `{expected}`, found `{found}`");
            }
            (Ok(_), _) => panic!("expected `{expected}`, but all could be read"),
            (Err(error), _) => panic!("expected success, found `{}`", in_one_line(&error)),
        }
    }
}

fn text() -> Vec<u8> {
    b"some words, some more words, and some more of those words. ".repeat(20)
}

/// One entry of each method.
fn plain() -> Zip {
    zip(vec![
        item("a", method::STORED, b"stored"),
        item("b/c", method::DEFLATE, &text()),
        item("b/d", method::ZSTD, &text()),
    ])
}

#[track_caller]
fn check_item(method: u16, edit: impl Fn(&mut Item), expected: &str) {
    let mut zip = plain();
    let mut edited = item("model/x", method, &text());
    edit(&mut edited);
    zip.items.insert(1, edited);
    check(zip, expected);
}

#[test]
fn legal_archives() {
    check(plain(), "");
    check(zip(vec![]), "");
    check(Zip { comment: b"a comment".to_vec(), ..plain() }, "");
    check(Zip { comment: vec![b'x'; 65_535], ..plain() }, "");
    check(Zip { comment: vec![b'x'; 65_535], zip64: true, ..plain() }, "");
    // Bytes before the first entry, between the entries and before the directory are ignored.
    check(Zip { prefix: b"#!/bin/sh\n".to_vec(), ..plain() }, "");
    check(Zip { gap: vec![1; 100], ..plain() }, "");
    check_item(method::STORED, |item| item.behind = vec![1; 100], "");
    // Empty files, with and without an end of the compressed data.
    for method in [method::STORED, method::DEFLATE, method::ZSTD] {
        check(zip(vec![item("a", method, b"")]), "");
        check(zip(vec![Item { data: vec![], ..item("a", method, b"") }]), "");
    }
    // Several frames make up one file.
    let two = [zstd::bulk::compress(b"one ", 1).unwrap(), zstd::bulk::compress(b"two", 1).unwrap()].concat();
    check(zip(vec![Item { data: two, ..item("a", method::ZSTD, b"one two") }]), "");
}

#[test]
fn the_end_of_the_archive() {
    check(Zip { edit_end: |end| end.disk = 1, ..plain() }, "an archive on several disks is not supported");
    check(Zip { edit_end: |end| end.directory_disk = 1, ..plain() }, "an archive on several disks is not supported");
    check(Zip { edit_end: |end| end.entries_on_disk = 1, ..plain() }, "an archive on several disks is not supported");
    check(Zip { edit_end: |end| end.directory_size += 1, ..plain() }, "central directory at offset");
    check(Zip { edit_end: |end| end.directory_offset -= 1, ..plain() }, "central directory at offset");
    check(Zip { edit_end: |end| end.directory_offset = u32::MAX - 1, ..plain() }, "central directory at offset");
    check(Zip { edit_end: |end| end.comment_length = 1, ..plain() }, "the file is truncated");
    let mut behind = plain().build();
    behind.extend(b"<!-- -->");
    assert!(
        in_one_line(&open(behind).unwrap_err()).contains("expected the end of the file too, found bytes behind it")
    );
    let fewer = |end: &mut EndOfCentralDirectory| (end.entries, end.entries_on_disk) = (2, 2);
    check(Zip { edit_end: fewer, ..plain() }, "its end after 2 entries");
    let more = |end: &mut EndOfCentralDirectory| (end.entries, end.entries_on_disk) = (4, 4);
    check(Zip { edit_end: more, surplus: vec![0; 46], ..plain() }, "central directory header at offset");
    let many = |end: &mut EndOfCentralDirectory| (end.entries, end.entries_on_disk) = (400, 400);
    check(Zip { edit_end: many, ..plain() }, "number of entries at offset");
    check(Zip { surplus: vec![0; 5], ..plain() }, "5 more bytes");
    // A prefix that the offsets do not count: the end records are not where their offsets say.
    let mut bytes = b"prefix".to_vec();
    bytes.extend(plain().build());
    assert!(in_one_line(&open(bytes).unwrap_err()).contains("central directory at offset"));
    // To some tools, a comment that contains another end record is a different archive.
    check(Zip { comment: zip(vec![]).build(), ..plain() }, "central directory at offset");
    check(Zip { comment: b"PK\x05\x06".to_vec(), ..plain() }, "archive comment at offset");
    check(
        Zip { comment: b"PK\x05\x06 and some more text than 22 bytes".to_vec(), ..plain() },
        "archive comment at offset",
    );
}

#[test]
fn zip64_end_records() {
    let from_zip64 = |end: &mut EndOfCentralDirectory| {
        (end.entries, end.entries_on_disk) = (u16::MAX, u16::MAX);
        (end.directory_size, end.directory_offset) = (u32::MAX, u32::MAX);
    };
    let both = || Zip { zip64: true, ..plain() };
    let zip64 = || Zip { edit_end: from_zip64, ..both() };
    check(both(), "");
    check(zip64(), "");
    check(Zip { edit_end: |end| (end.disk, end.directory_disk) = (u16::MAX, u16::MAX), ..both() }, "");
    check(Zip { edit_end: |end| end.directory_offset = u32::MAX, ..both() }, "");
    check(
        Zip { edit_end: |end| end.directory_offset += 1, ..both() },
        "directory offset in the end of central directory",
    );
    check(Zip { edit_end: |end| end.entries += 1, ..both() }, "number of entries in the end of central directory");
    check(Zip { edit_end: from_zip64, ..plain() }, "zip64 end of central directory locator at offset");
    check(Zip { edit_zip64: |end| end.entries = 1 << 60, ..zip64() }, "an archive on several disks");
    let many = |end: &mut Zip64EndOfCentralDirectory| (end.entries, end.entries_on_disk) = (1 << 60, 1 << 60);
    check(Zip { edit_zip64: many, ..zip64() }, "number of entries: at most 1048576 allowed");
    check(Zip { edit_zip64: |end| end.directory_size = u64::MAX, ..zip64() }, "central directory at offset");
    check(Zip { edit_zip64: |end| end.directory_offset = u64::MAX, ..zip64() }, "central directory at offset");
    check(Zip { edit_zip64: |end| end.record_size += 1, ..zip64() }, "where its locator starts");
    check(Zip { edit_zip64: |end| end.record_size = u64::MAX, ..zip64() }, "where its locator starts");
    check(Zip { edit_zip64: |end| end.disk = 1, ..zip64() }, "disk in the end of central directory record at offset");
    check(Zip { edit_locator: |locator| locator.offset = u64::MAX, ..zip64() }, "an offset before itself");
    check(Zip { edit_locator: |locator| locator.offset -= 1, ..zip64() }, "the signature 0x06064b50");
    check(Zip { edit_locator: |locator| locator.disks = 2, ..zip64() }, "an archive on several disks");
    check(Zip { edit_locator: |locator| locator.disks = 0, ..zip64() }, "");
}

#[test]
fn entries_that_are_not_supported() {
    for (flags, expected) in
        [(1, "encryption"), (1 << 6, "encryption"), (1 << 13, "encryption"), (1 << 5, "patch data")]
    {
        let edit = move |item: &mut Item| {
            item.edit_central = match flags {
                1 => |header| header.flags = 1,
                64 => |header| header.flags = 64,
                32 => |header| header.flags = 32,
                _ => |header| header.flags = 1 << 13,
            }
        };
        check_item(method::STORED, edit, &format!("{expected} is not supported: `model/x`"));
    }
    // bzip2, LZMA, the old number of Zstandard.
    for method in [1, 12, 14, 20, 95] {
        let expected = format!("a compression method is not supported: {method} of `model/x`");
        check_item(method, |_| {}, &expected);
    }
    check_item(0, |item| item.edit_central = |header| header.version_needed = 64, "`model/x` needs 6.4");
    check_item(0, |item| item.edit_central = |header| header.disk = 1, "an archive on several disks");
    for mode in [0o010_644, 0o020_644, 0o060_644, 0o140_644, 0o040_755] {
        check_item(0, |item| item.mode = mode, "neither file, link nor folder is not supported: `model/x` of type");
    }
}

#[test]
fn names() {
    let named = |name: &[u8], expected: &str| {
        let item = item(name, method::STORED, b"");
        check(zip(vec![item]), expected);
    };
    named("größe".as_bytes(), "");
    named(b"a=b", "");
    for (name, expected) in [
        (&b""[..], "the entry name `` is not allowed: it is empty"),
        (b"../x", "the entry name `../x` is not allowed: a component is `.` or `..`"),
        (b"a/../x", "a component is `.` or `..`"),
        (b"./x", "a component is `.` or `..`"),
        (b"/x", "it is absolute"),
        (b"/", "it is empty"),
        (b"a//x", "a component is empty"),
        (b"a\\x", "it has a back slash"),
        (b"a\nx", "`a\\nx` is not allowed: it has a NUL or a line break"),
        (b"a\0", "it has a NUL or a line break"),
        (b"a\xFF", "it is not UTF-8"),
        (&[b'x'; 4000], "it is longer than 3072 bytes"),
    ] {
        named(name, expected);
    }
    let two = |a: &str, b: &str, expected: &str| {
        check(zip(vec![item(a, 0, b"1"), item(b, 0, b"2")]), expected);
    };
    two("a", "A", "");
    two("a", "a", "a second one");
    two("a", "a/b", "one inside `a`, which is not a folder");
    two("a/b", "a", "one inside `a`, which is not a folder");
    let folder = || Item { mode: 0o040_755, ..item("a/", 0, b"") };
    check(zip(vec![folder(), item("a/b", 0, b"1")]), "");
    check(zip(vec![folder(), item("a", 0, b"1")]), "a second one");
    check(zip(vec![folder(), folder()]), "a second one");
    check(zip(vec![Item { mode: 0, ..folder() }]), "");
    // Java streams empty folders through Deflate.
    check(zip(vec![Item { mode: 0, ..item("a/", method::DEFLATE, b"") }]), "");
    check(zip(vec![item("a/", 0, b"")]), "neither file, link nor folder");
    check(zip(vec![Item { mode: 0, ..item("a/", 0, b"1") }]), "folder entry `a/` at offset 33: expected no data");
    let link = || Item { mode: 0o120_777, ..item("a", 0, b"target") };
    check(zip(vec![link()]), "");
    check(zip(vec![link(), item("a/b", 0, b"1")]), "one inside `a`, which is not a folder");
    assert_eq!(open(zip(vec![link()]).build()).unwrap().entries()[0].kind(), EntryKind::Symlink);
    // The mode has no meaning if the archive was not made on Unix.
    let dos = Item { edit_central: |header| header.version_made_by = 20, ..link() };
    assert_eq!(open(zip(vec![dos]).build()).unwrap().entries()[0].kind(), EntryKind::File);
}

#[test]
fn headers_that_disagree() {
    type EditLocal = fn(&mut LocalFileHeader);
    let local: [(EditLocal, &str); 9] = [
        (|header| header.flags ^= 1 << 11, "flags in the local header of `model/x`"),
        (|header| header.flags ^= flag::STREAMED, "flags in the local header of `model/x`"),
        (|header| header.method ^= 1, "compression method in the local header of `model/x`"),
        (|header| header.crc32 ^= 1, "CRC-32 in the local header of `model/x`"),
        (|header| header.crc32 = 0, "CRC-32 in the local header of `model/x`"),
        (|header| header.size += 1, "size in the local header of `model/x`"),
        (|header| header.compressed_size += 1, "compressed size in the local header of `model/x`"),
        (|header| header.name = b"model/y", "name in the local header of `model/x`"),
        (|header| header.name = b"model/xx", "name in the local header of `model/x`"),
    ];
    for method in [method::STORED, method::DEFLATE, method::ZSTD] {
        for (edit, expected) in local {
            check_item(method, |item| item.edit_local = edit, expected);
        }
        // Nothing depends on these.
        check_item(method, |item| item.edit_local = |header| header.time = 99, "");
        check_item(method, |item| item.edit_local = |header| header.date = 99, "");
        check_item(method, |item| item.edit_local = |header| header.version_needed = 99, "");
    }
    type EditCentral = fn(&mut CentralDirectoryHeader);
    let central: [(EditCentral, &str); 8] = [
        (|header| header.flags ^= 1 << 11, "flags in the local header"),
        (|header| header.crc32 ^= 1, "CRC-32 in the local header"),
        (|header| header.size -= 1, "size"),
        (|header| header.compressed_size -= 1, "size"),
        (|header| header.compressed_size += 1, "`model/x`"),
        (|header| header.name = b"model/z", "name in the local header of `model/z`"),
        (|header| header.header_offset += 1, "where the next record starts"),
        (|header| header.header_offset = 0, "its end at or before 0, where the next record starts"),
    ];
    for method in [method::STORED, method::DEFLATE, method::ZSTD] {
        for (edit, expected) in central {
            check_item(method, |item| item.edit_central = edit, expected);
        }
    }
}

#[test]
fn streamed_entries() {
    let streamed = |item: &mut Item| {
        item.edit_local = |header| {
            header.flags |= flag::STREAMED;
            (header.crc32, header.size, header.compressed_size) = (0, 0, 0);
        };
        item.edit_central = |header| header.flags |= flag::STREAMED;
        item.behind = [0x0807_4b50u32, 1, 2, 3].iter().flat_map(|value| value.to_le_bytes()).collect();
    };
    for method in [method::STORED, method::DEFLATE, method::ZSTD] {
        check_item(method, streamed, "");
        // Sizes in 64 bits in the local header, though not needed.
        check_item(
            method,
            |item| {
                streamed(item);
                item.edit_local = |header| {
                    header.flags |= flag::STREAMED;
                    (header.crc32, header.size, header.compressed_size) = (0, u32::MAX, u32::MAX);
                };
                item.local_extra = [1, 0, 16, 0].into_iter().chain([0; 16]).collect();
            },
            "",
        );
    }
}

#[test]
fn zip64_extra_fields() {
    let extra = |values: &[u64]| {
        let mut bytes = vec![1, 0, 8 * values.len() as u8, 0];
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        bytes
    };
    let (size, offset) = (text().len() as u64, 30 + 1 + 6);
    let saturate = |item: &mut Item| {
        item.edit_local = |header| (header.size, header.compressed_size) = (u32::MAX, u32::MAX);
        item.edit_central = |header| {
            (header.size, header.compressed_size, header.header_offset) = (u32::MAX, u32::MAX, u32::MAX);
            header.disk = u16::MAX;
        };
        item.local_extra = extra(&[size, size]);
        item.central_extra = extra(&[size, size, offset, 0]);
    };
    check_item(0, saturate, "");
    // The field is in only one of the two headers.
    check_item(0, |item| (saturate(item), item.edit_central = |_| {}).0, "");
    check_item(0, |item| (saturate(item), item.edit_local = |_| {}).0, "");
    let changed = |change: &dyn Fn(&mut Item), expected: &str| {
        check_item(0, |item| (saturate(item), change(item)).0, expected);
    };
    changed(&|item| item.local_extra = extra(&[size, size + 1]), "compressed size in the local header");
    changed(&|item| item.local_extra = extra(&[size + 1, size]), "size in the local header");
    changed(&|item| item.local_extra = extra(&[size]), "one with the compressed size, found a shorter one");
    changed(&|item| item.local_extra = vec![], "one with the size, found none");
    changed(&|item| item.central_extra = vec![], "one with the size, found none");
    changed(&|item| item.central_extra = extra(&[size, size, offset]), "one with the disk number");
    changed(&|item| item.central_extra = extra(&[size, size, offset, 1]), "an archive on several disks");
    changed(&|item| item.central_extra = extra(&[size, size, u64::MAX, 0]), "its end at or before");
    changed(&|item| item.central_extra = extra(&[u64::MAX, size, offset, 0]), "size of `model/x`");
    changed(&|item| item.central_extra = extra(&[u64::MAX, u64::MAX, offset, 0]), "its end at or before");
    changed(&|item| item.central_extra.extend(extra(&[1])), "extra field 0x0001 at offset");
    changed(&|item| item.central_extra = vec![1, 0, 40, 0, 0], "extra field 0x0001 at offset");
    // More values than are needed, other fields, and padding that is too short for a field.
    changed(&|item| item.local_extra.extend([9, 9, 2, 0, 7, 7, 0, 0, 0]), "");
    changed(&|item| write_padding(100, 4096, &mut item.local_extra), "");

    let path = |name: &str| {
        let mut bytes = vec![0x75, 0x70, 5 + name.len() as u8, 0, 1, 0, 0, 0, 0];
        bytes.extend_from_slice(name.as_bytes());
        bytes
    };
    check_item(0, |item| item.central_extra = path("model/x"), "");
    check_item(0, |item| item.central_extra = path("model/y"), "Unicode path extra field at offset");
    check_item(0, |item| item.local_extra = path("model/y"), "Unicode path extra field at offset");
}

#[test]
fn data_that_is_not_what_was_declared() {
    // Sizes and CRC agree in both headers, but not with the data.
    let lie = |method: u16, contents: &[u8], declared: &[u8]| {
        let lying = Item { contents: declared.to_vec(), ..item("x", method, contents) };
        (lying, declared.to_vec())
    };
    for method in [method::DEFLATE, method::ZSTD] {
        let shorter = &text()[..text().len() - 1];
        check(zip(vec![lie(method, &text(), shorter).0]), "size mismatch for `x`: expected 1179, found more than 1179");
        check(zip(vec![lie(method, shorter, &text()).0]), "size mismatch for `x`: expected 1180, found 1179");
        check(zip(vec![lie(method, &text(), b"").0]), "found more than 0");
        let mut other = text();
        other[0] ^= 1;
        check(zip(vec![lie(method, &other, &text()).0]), "CRC-32 mismatch for `x`");
        // Truncated, and with bytes after its end.
        let cut = |item: &mut Item| item.data.truncate(item.data.len() - 1);
        check_item(method, cut, "model/x");
        check_item(method, |item| item.data.push(0), "the compressed data of `model/x` is corrupt");
        check_item(method, |item| item.data[0] = 0xFF, "the compressed data of `model/x` is corrupt");
    }
    check(zip(vec![lie(0, b"abd", b"abc").0]), "CRC-32 mismatch for `x`");
    // Ten gigabytes from a kilobyte.
    let huge = |item: &mut Item| {
        item.edit_local = |header| header.size = 4_000_000_000;
        item.edit_central = |header| header.size = 4_000_000_000;
    };
    check_item(method::STORED, huge, "size of `model/x` at offset");
    check_item(method::DEFLATE, huge, "size of `model/x` at offset");
    check_item(method::ZSTD, huge, "size of `model/x` at offset");
    // Entries that share bytes.
    let shared = |item: &mut Item| item.edit_central = |header| header.compressed_size += 60;
    check_item(method::DEFLATE, shared, "its end at or before");
    // A local header whose extra fields reach into the data.
    let mut bytes = zip(vec![item("x", method::STORED, &text())]).build();
    bytes[28] = 200;
    assert!(in_one_line(&read_all(bytes, 100).unwrap_err()).contains("data of `x` at offset 231"));
}

#[test]
fn the_window_of_zstd_is_capped() {
    for (window_log, expected) in [(27, ""), (28, "the compressed data of `x` is corrupt")] {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(window_log).unwrap();
        encoder.write_all(&text()).unwrap();
        let data = encoder.finish().unwrap();
        check(zip(vec![Item { data, ..item("x", method::ZSTD, &text()) }]), expected);
    }
}

#[test]
fn a_cap_is_kept() {
    let archive = open(plain().build()).unwrap();
    let entry = archive.get("b/c").unwrap();
    assert_eq!(archive.read(entry, entry.size()).unwrap(), text());
    let error = archive.read(entry, entry.size() - 1).unwrap_err();
    assert_eq!(error.to_string(), "size of `b/c`: at most 1179 allowed, found 1180");
    assert!(archive.get("b").is_none() && archive.get("b/").is_none());
}
