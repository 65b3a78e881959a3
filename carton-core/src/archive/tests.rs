//! Archives that no well-behaved program would write, and legal ones that few do: what is accepted, and what is refused with
//! which words. Archives of other programs are in `tests/zip_peers.rs`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read, Write};
use std::sync::Arc;

use proptest::prelude::*;

use super::record::extra_field::write_padding;
use super::record::*;
use super::*;
use crate::causes::in_one_line;
use crate::source::MemorySource;

/// An archive to be built record by record, each of which can be spoilt.
struct Zip {
    prefix: Vec<u8>,
    items: Vec<Item>,
    /// Between the last entry and the directory.
    gap: Vec<u8>,
    /// Behind the directory's headers, counted as a part of it.
    surplus: Vec<u8>,
    zip64: bool,
    edit_zip64: fn(&mut Zip64EndOfCentralDirectory),
    edit_locator: fn(&mut Zip64EndOfCentralDirectoryLocator),
    edit_end: fn(&mut EndOfCentralDirectory),
    comment: Vec<u8>,
}

struct Item {
    name: Vec<u8>,
    method: u16,
    contents: Vec<u8>,
    data: Vec<u8>,
    mode: u32,
    local_extra: Vec<u8>,
    central_extra: Vec<u8>,
    edit_local: fn(&mut LocalFileHeader),
    edit_central: fn(&mut CentralDirectoryHeader),
    /// Behind the data: a data descriptor, for instance.
    behind: Vec<u8>,
}

fn item(name: impl AsRef<[u8]>, method: u16, contents: &[u8]) -> Item {
    let data = match method {
        method::DEFLATE => {
            let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(contents).unwrap();
            encoder.finish().unwrap()
        }
        method::ZSTD => zstd::bulk::compress(contents, 3).unwrap(),
        _ => contents.to_vec(),
    };
    Item {
        name: name.as_ref().to_vec(),
        method,
        contents: contents.to_vec(),
        data,
        mode: 0o100_644,
        local_extra: Vec::new(),
        central_extra: Vec::new(),
        edit_local: |_| {},
        edit_central: |_| {},
        behind: Vec::new(),
    }
}

fn zip(items: Vec<Item>) -> Zip {
    Zip {
        prefix: Vec::new(),
        items,
        gap: Vec::new(),
        surplus: Vec::new(),
        zip64: false,
        edit_zip64: |_| {},
        edit_locator: |_| {},
        edit_end: |_| {},
        comment: Vec::new(),
    }
}

impl Zip {
    fn build(&self) -> Vec<u8> {
        let mut bytes = self.prefix.clone();
        let mut directory = Vec::new();
        for item in &self.items {
            let offset = bytes.len() as u32;
            let mut local = LocalFileHeader {
                version_needed: 20,
                flags: 0,
                method: item.method,
                time: 0,
                // The month and the day are 0.
                date: 0,
                crc32: crc32fast::hash(&item.contents),
                compressed_size: item.data.len() as u32,
                size: item.contents.len() as u32,
                name: &item.name,
                extra: &item.local_extra,
            };
            let mut central = CentralDirectoryHeader {
                version_made_by: 3 << 8 | 20,
                version_needed: 20,
                flags: 0,
                method: item.method,
                time: 0,
                date: 0,
                crc32: local.crc32,
                compressed_size: local.compressed_size,
                size: local.size,
                disk: 0,
                internal_attributes: 0,
                external_attributes: item.mode << 16,
                header_offset: offset,
                name: &item.name,
                extra: &item.central_extra,
                comment: b"a comment",
            };
            (item.edit_local)(&mut local);
            (item.edit_central)(&mut central);
            local.write(&mut bytes);
            bytes.extend_from_slice(&item.data);
            bytes.extend_from_slice(&item.behind);
            central.write(&mut directory);
        }
        bytes.extend_from_slice(&self.gap);
        directory.extend_from_slice(&self.surplus);
        let (offset, size) = (bytes.len() as u64, directory.len() as u64);
        let n_entries = self.items.len() as u16;
        bytes.extend_from_slice(&directory);
        if self.zip64 {
            let mut record = Zip64EndOfCentralDirectory {
                record_size: 44,
                version_made_by: 45,
                version_needed: 45,
                disk: 0,
                directory_disk: 0,
                entries_on_disk: u64::from(n_entries),
                entries: u64::from(n_entries),
                directory_size: size,
                directory_offset: offset,
            };
            let mut locator = Zip64EndOfCentralDirectoryLocator { disk: 0, offset: offset + size, disks: 1 };
            (self.edit_zip64)(&mut record);
            (self.edit_locator)(&mut locator);
            record.write(&mut bytes);
            locator.write(&mut bytes);
        }
        let mut end = EndOfCentralDirectory {
            disk: 0,
            directory_disk: 0,
            entries_on_disk: n_entries,
            entries: n_entries,
            directory_size: size as u32,
            directory_offset: offset as u32,
            comment_length: self.comment.len() as u16,
        };
        (self.edit_end)(&mut end);
        end.write(&mut bytes);
        bytes.extend_from_slice(&self.comment);
        bytes
    }
}

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

/// What must come of an archive: "" when it can be read in full, else a part of the error.
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
    // Bytes before the first entry, between the entries and before the directory are nobody's.
    check(Zip { prefix: b"#!/bin/sh\n".to_vec(), ..plain() }, "");
    check(Zip { gap: vec![1; 100], ..plain() }, "");
    check_item(method::STORED, |item| item.behind = vec![1; 100], "");
    // Empty files, with and without an end of the compressed data.
    for method in [method::STORED, method::DEFLATE, method::ZSTD] {
        check(zip(vec![item("a", method, b"")]), "");
        check(zip(vec![Item { data: vec![], ..item("a", method, b"") }]), "");
    }
    // Several frames are one file.
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
    check(Zip { edit_end: |end| end.comment_length = 1, ..plain() }, "every zip file ends with it");
    let fewer = |end: &mut EndOfCentralDirectory| (end.entries, end.entries_on_disk) = (2, 2);
    check(Zip { edit_end: fewer, ..plain() }, "its end after 2 entries");
    let more = |end: &mut EndOfCentralDirectory| (end.entries, end.entries_on_disk) = (4, 4);
    check(Zip { edit_end: more, surplus: vec![0; 46], ..plain() }, "central directory header at offset");
    let many = |end: &mut EndOfCentralDirectory| (end.entries, end.entries_on_disk) = (400, 400);
    check(Zip { edit_end: many, ..plain() }, "number of entries at offset");
    check(Zip { surplus: vec![0; 5], ..plain() }, "5 more bytes");
    // Prefixed without telling the offsets: where the end records are does not fit to where they say they are.
    let mut bytes = b"prefix".to_vec();
    bytes.extend(plain().build());
    assert!(in_one_line(&open(bytes).unwrap_err()).contains("central directory at offset"));
    // A comment with another end record in it is another archive to some tools.
    check(Zip { comment: zip(vec![]).build(), ..plain() }, "central directory at offset");
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
    two("a", "a/b", "one inside `a`, which is no folder");
    two("a/b", "a", "one inside `a`, which is no folder");
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
    check(zip(vec![link(), item("a/b", 0, b"1")]), "one inside `a`, which is no folder");
    assert_eq!(open(zip(vec![link()]).build()).unwrap().entries()[0].kind(), EntryKind::Symlink);
    // The mode means nothing when the archive was not made on Unix.
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
    // In only one of both headers.
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
    // More values than are asked for, other fields, and padding that is too short for a field.
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
    // Sizes and CRC agree in both headers, and lie.
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
        // Cut short, and with something behind its end.
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

/// An archive with everything legal in it, to be damaged.
fn everything() -> Vec<u8> {
    let mut zip = plain();
    zip.items.push(Item { mode: 0o040_755, ..item("e/", 0, b"") });
    zip.items.push(Item { mode: 0o120_777, ..item("e/link", 0, b"../a") });
    zip.items.push(Item {
        edit_local: |header| {
            header.flags = flag::STREAMED;
            (header.crc32, header.size, header.compressed_size) = (0, 0, 0);
        },
        edit_central: |header| header.flags = flag::STREAMED,
        behind: vec![7; 16],
        ..item("f", method::DEFLATE, b"streamed")
    });
    zip.items.push(Item {
        edit_local: |header| (header.size, header.compressed_size) = (u32::MAX, u32::MAX),
        local_extra: [1, 0, 16, 0, 5, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0].to_vec(),
        ..item("g", method::STORED, b"zip64")
    });
    zip.zip64 = true;
    zip.comment = b"comment".to_vec();
    zip.build()
}

#[test]
fn cut_at_every_length() {
    let whole = everything();
    assert_eq!(read_all(whole.clone(), 100).unwrap().len(), 7);
    for length in 0..whole.len() {
        let error = read_all(whole[..length].to_vec(), 100).unwrap_err();
        assert!(matches!(error, ArchiveError::Format { .. }), "{length}: {error:?}");
    }
    // From the front too: the offsets do not fit any more.
    for length in 1..whole.len() {
        assert!(read_all(whole[length..].to_vec(), 100).is_err(), "{length}");
    }
}

#[test]
fn damage_never_panics_and_never_passes_for_good() {
    let whole = everything();
    let good = read_all(whole.clone(), 100).unwrap();
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..30_000 {
        let mut damaged = whole.clone();
        for _ in 0..=random(4) {
            let at = random(damaged.len());
            match random(4) {
                0 => damaged[at] ^= 1 << random(8),
                1 => damaged[at] = [0, 1, 0x7F, 0x80, 0xFF][random(5)],
                2 => drop(damaged.remove(at)),
                _ => damaged.insert(at, random(256) as u8),
            }
        }
        // What still can be read says what it said before, but for names: those have no checksum.
        if let Ok(all) = read_all(damaged, 64) {
            assert!(all.iter().all(|(_, contents)| good.iter().any(|(_, expected)| expected == contents)));
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(read_all(bytes, 16).is_err());
    }

    #[test]
    fn any_contents_survive(
        contents in proptest::collection::btree_map("([a-z]{1,3}/){0,2}[0-9]{1,5}", proptest::collection::vec(any::<u8>(), 0..2000), 0..8),
        methods in proptest::collection::vec(proptest::sample::select(&[0u16, 8, 93][..]), 8),
        piece in 1usize..3000,
    ) {
        let items = contents.iter().zip(methods).map(|((name, contents), method)| item(name, method, contents)).collect();
        let all = read_all(zip(items).build(), piece).unwrap();
        prop_assert_eq!(all, contents.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn extra_fields_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64), saturated: [bool; 4]) {
        if let Ok(fields) = ExtraFields::parse(&bytes, 0) {
            let _ = fields.zip64_values(saturated, 0);
            let _ = fields.check_unicode_path(b"a", 0);
        }
    }
}
