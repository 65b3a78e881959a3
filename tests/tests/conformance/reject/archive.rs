//! Files that are not zip files, that contradict themselves, or that need unsupported features.

use crate::builder::{CartonBuilder, Entry, STREAMED, UTF8};
use crate::records::{extra_field, zip64_field};
use crate::{bad, check_rejected, unsupported};

const WEIGHTS: &str = "model/weights.bin";
const CONFIG: &str = "model/config.json";

/// Returns the offset of the entry's local header.
fn header_of(bytes: &[u8], name: &str) -> usize {
    let position = bytes.windows(name.len()).position(|window| window == name.as_bytes()).unwrap();
    position - 30
}

#[test]
fn no_zip_file_at_all() {
    check_rejected(&[
        bad("empty", |c| c.damage = Some(Vec::clear), "the file is empty"),
        bad("a newline", |c| c.damage = Some(|bytes| *bytes = b"\n".to_vec()), "not a zip file"),
        bad("text", |c| c.damage = Some(|bytes| *bytes = b"not a zip file. ".repeat(9000)), "not a zip file"),
        bad("zeros", |c| c.damage = Some(|bytes| bytes.fill(0)), "not a zip file"),
        bad(
            "an archive of nothing",
            |c| {
                c.damage = Some(|bytes| *bytes = [b"PK\x05\x06".as_slice(), &[0; 18]].concat());
            },
            "no file MANIFEST",
        ),
        bad("the first half", |c| c.damage = Some(|bytes| bytes.truncate(bytes.len() / 2)), "the file is truncated"),
        bad("the second half", |c| c.damage = Some(|bytes| drop(bytes.drain(..bytes.len() / 2))), "central directory"),
        bad("something behind the end", |c| c.damage = Some(|bytes| bytes.push(b'\n')), "bytes behind it"),
        bad("something before the start", |c| c.damage = Some(|bytes| bytes.insert(0, b'#')), "central directory"),
        bad(
            "a tar file's name",
            |c| c.damage = Some(|bytes| *bytes = [b"ustar".as_slice(), &[0; 2000]].concat()),
            "not a zip file",
        ),
    ]);
}

#[test]
fn names_and_lengths_of_local_headers() {
    check_rejected(&[
        bad("local signature", |c| c.entry(WEIGHTS).change_local = Some(|h| h.signature ^= 1), "local file header"),
        bad("local name", |c| c.entry(WEIGHTS).change_local = Some(|h| h.name[8] = b'E'), WEIGHTS),
        bad("local name is shorter", |c| c.entry(WEIGHTS).change_local = Some(|h| h.name_length_off_by = -1), WEIGHTS),
        bad("local name is longer", |c| c.entry(WEIGHTS).change_local = Some(|h| h.name_length_off_by = 5), WEIGHTS),
        bad(
            "local name reaches into the next entry",
            |c| {
                c.entry(WEIGHTS).change_local = Some(|h| h.name_length_off_by = 400);
            },
            WEIGHTS,
        ),
        bad(
            "local name reaches behind the file",
            |c| {
                c.entry("carton.toml").change_local = Some(|h| h.name_length_off_by = 60_000);
            },
            "carton.toml",
        ),
        bad(
            "local extra fields reach into the next entry",
            |c| {
                c.entry(WEIGHTS).change_local = Some(|h| h.extra_length_off_by = 400);
            },
            WEIGHTS,
        ),
        bad(
            "local extra fields shift the data",
            |c| {
                c.entry(CONFIG).gap = vec![0; 8];
                c.entry(CONFIG).change_local = Some(|h| h.extra_length_off_by = 3);
            },
            CONFIG,
        ),
        bad(
            "a Unicode path that says otherwise",
            |c| {
                c.entry(WEIGHTS).local_extra = extra_field(0x7075, b"\x01\0\0\0\0model/other.bin");
            },
            "Unicode path",
        ),
    ]);
}

#[test]
fn values_of_local_headers() {
    check_rejected(&[
        bad("local flags", |c| c.entry(WEIGHTS).change_local = Some(|h| h.flags ^= UTF8), "flags"),
        bad("local encryption", |c| c.entry(WEIGHTS).change_local = Some(|h| h.flags |= 1), "flags"),
        bad(
            "only the local header is streamed",
            |c| {
                c.entry(WEIGHTS).change_local = Some(|h| (h.flags, h.crc32) = (h.flags | STREAMED, 0));
            },
            "flags",
        ),
        bad(
            "only the central directory is streamed",
            |c| {
                c.entry(WEIGHTS).change_directory = Some(|h| h.flags |= STREAMED);
            },
            "flags",
        ),
        bad("local method", |c| c.entry(CONFIG).change_local = Some(|h| h.method = 0), "method"),
        bad("local unknown method", |c| c.entry(CONFIG).change_local = Some(|h| h.method = 12), "method"),
        bad("local CRC", |c| c.entry(WEIGHTS).change_local = Some(|h| h.crc32 ^= 1), "CRC-32 in the local header"),
        bad("local size", |c| c.entry(CONFIG).change_local = Some(|h| h.size += 1), "size in the local header"),
        bad(
            "local compressed size",
            |c| {
                c.entry(CONFIG).change_local = Some(|h| h.compressed_size -= 1);
            },
            "compressed size in the local header",
        ),
        bad(
            "local zip64 size",
            |c| {
                c.entry(WEIGHTS).zip64 = true;
                c.entry(WEIGHTS).change_local = Some(|h| h.extra = zip64_field(&[301, 300]));
            },
            "size in the local header",
        ),
        bad(
            "local zip64 field is missing",
            |c| {
                c.entry(WEIGHTS).change_local = Some(|h| h.size = u32::MAX);
            },
            "zip64",
        ),
    ]);
}

#[test]
fn values_of_the_central_directory() {
    check_rejected(&[
        bad("central CRC", |c| c.entry(WEIGHTS).change_directory = Some(|h| h.crc32 ^= 1), "CRC-32"),
        bad(
            "central name",
            |c| {
                c.entry("misc/picture").change_directory = Some(|h| h.name[5] = b'P');
            },
            "misc/",
        ),
        bad("central method", |c| c.entry(CONFIG).change_directory = Some(|h| h.method = 93), "method"),
        bad("central size", |c| c.entry(CONFIG).change_directory = Some(|h| h.size += 1), CONFIG),
        bad("central compressed size", |c| c.entry(CONFIG).change_directory = Some(|h| h.compressed_size -= 1), CONFIG),
        bad(
            "streamed and another size",
            |c| {
                c.entry(CONFIG).descriptor = crate::records::Descriptor::Signed;
                c.entry(CONFIG).change_directory = Some(|h| h.size += 1);
            },
            CONFIG,
        ),
        bad(
            "streamed and another CRC",
            |c| {
                c.entry(WEIGHTS).descriptor = crate::records::Descriptor::Signed;
                c.entry(WEIGHTS).change_directory = Some(|h| h.crc32 ^= 1);
            },
            "CRC-32 mismatch for `model/weights.bin`",
        ),
    ]);
}

#[test]
fn where_entries_are() {
    check_rejected(&[
        bad(
            "offset one too far",
            |c| {
                c.entry("misc/picture").gap = vec![0; 8];
                c.entry(WEIGHTS).change_directory = Some(|h| h.offset += 1);
            },
            "local file header",
        ),
        bad(
            "offset in the directory",
            |c| c.entry("carton.toml").change_directory = Some(|h| h.offset += 9000),
            "carton.toml",
        ),
        bad(
            "offset behind the file",
            |c| c.entry(WEIGHTS).change_directory = Some(|h| h.offset = 0xffff_fff0),
            WEIGHTS,
        ),
        bad(
            "two entries at one place",
            |c| c.entry(WEIGHTS).change_directory = Some(|h| h.offset = 0),
            "where the next record starts",
        ),
        bad(
            "two entries for one file",
            |c| {
                // As in a zip bomb, all entries share the same large data.
                let name = "model/weights.bin";
                c.add(Entry {
                    change_directory: Some(|h| {
                        (h.offset, h.name) = (0, b"model/twin".to_vec());
                    }),
                    ..Entry::new(name, "")
                });
            },
            "where the next record starts",
        ),
        bad(
            "data reaches into the next entry",
            |c| {
                c.entry(WEIGHTS).change_directory = Some(|h| (h.size, h.compressed_size) = (340, 340));
            },
            WEIGHTS,
        ),
        bad(
            "data reaches behind the file",
            |c| {
                c.entry(WEIGHTS).change_directory = Some(|h| (h.size, h.compressed_size) = (1 << 30, 1 << 30));
            },
            WEIGHTS,
        ),
        bad(
            "data reaches behind any file",
            |c| {
                c.entry(WEIGHTS).zip64 = true;
                c.entry(WEIGHTS).change_directory = Some(|h| h.extra = zip64_field(&[u64::MAX, u64::MAX, u64::MAX]));
            },
            WEIGHTS,
        ),
        bad(
            "an offset in zip64 behind any file",
            |c| {
                c.entry(WEIGHTS).zip64 = true;
                c.entry(WEIGHTS).change_directory = Some(|h| h.extra = zip64_field(&[300, 300, u64::MAX - 20]));
            },
            WEIGHTS,
        ),
    ]);
}

#[test]
fn the_central_directory() {
    check_rejected(&[
        bad(
            "signature",
            |c| c.entry(WEIGHTS).change_directory = Some(|h| h.signature ^= 1),
            "central directory header",
        ),
        bad(
            "a name that is shorter",
            |c| {
                c.entry(WEIGHTS).change_directory = Some(|h| h.name_length_off_by = -1);
            },
            "central directory",
        ),
        bad(
            "a name that reaches behind the directory",
            |c| {
                c.entry("carton.toml").change_directory = Some(|h| h.name_length_off_by = 60_000);
            },
            "central directory header",
        ),
        bad(
            "zip64 sizes without a field",
            |c| c.entry(WEIGHTS).change_directory = Some(|h| h.size = u32::MAX),
            "zip64",
        ),
        bad(
            "a zip64 field that is too short",
            |c| {
                c.entry(WEIGHTS).change_directory = Some(|h| {
                    (h.size, h.compressed_size, h.extra) = (u32::MAX, u32::MAX, zip64_field(&[300]));
                });
            },
            "zip64",
        ),
        bad(
            "two zip64 fields",
            |c| {
                c.entry(WEIGHTS).change_directory = Some(|h| {
                    (h.size, h.extra) = (u32::MAX, [zip64_field(&[300]), zip64_field(&[299])].concat());
                });
            },
            "extra field 0x0001",
        ),
        bad(
            "an extra field longer than all of them",
            |c| {
                c.entry(WEIGHTS).change_directory = Some(|h| h.extra = vec![0x55, 0x54, 200, 0, 1]);
            },
            "extra field 0x5455",
        ),
        bad(
            "a Unicode path that says otherwise",
            |c| {
                c.entry(WEIGHTS).change_directory =
                    Some(|h| h.extra = extra_field(0x7075, b"\x01\0\0\0\0model/other.bin"));
            },
            "Unicode path",
        ),
        unsupported("encrypted", |c| c.entry(WEIGHTS).flags |= 1, "encryption is not supported: `model/weights.bin`"),
        unsupported("strongly encrypted", |c| c.entry(WEIGHTS).flags |= 1 << 6, "encryption"),
        unsupported("masked headers", |c| c.entry(WEIGHTS).flags |= 1 << 13, "encryption"),
        unsupported("patch data", |c| c.entry(WEIGHTS).flags |= 1 << 5, "patch data"),
        unsupported("a method of old", |c| c.entry(WEIGHTS).method = 6, "6 of `model/weights.bin`"),
        unsupported("bzip2", |c| c.entry(WEIGHTS).method = 12, "12 of `model/weights.bin`"),
        unsupported("xz", |c| c.entry(WEIGHTS).method = 95, "95 of `model/weights.bin`"),
        unsupported("AES", |c| c.entry(WEIGHTS).method = 99, "99 of `model/weights.bin`"),
        unsupported("another disk", |c| c.entry(WEIGHTS).change_directory = Some(|h| h.disk = 1), "several disks"),
        unsupported(
            "a later version of zip",
            |c| {
                c.entry(WEIGHTS).change_directory = Some(|h| h.version_needed = 64);
            },
            "zip version",
        ),
        unsupported("a pipe", |c| c.entry(WEIGHTS).mode = 0o010_644, WEIGHTS),
        unsupported("a device", |c| c.entry(WEIGHTS).mode = 0o020_644, WEIGHTS),
        unsupported("a socket", |c| c.entry(WEIGHTS).mode = 0o140_644, WEIGHTS),
        unsupported("a folder's mode for a file", |c| c.entry(WEIGHTS).mode = 0o040_755, WEIGHTS),
        unsupported(
            "a file's mode for a folder",
            |c| c.add(Entry { mode: 0o100_644, ..Entry::folder("model/") }),
            "model/",
        ),
        bad("a folder with data", |c| c.add(Entry { data: b"data".to_vec(), ..Entry::folder("model/") }), "model/"),
    ]);
}

#[test]
fn the_end_records() {
    check_rejected(&[
        bad(
            "an entry more",
            |c| c.change_end = Some(|e| (e.entries, e.entries_on_disk) = (11, 11)),
            "central directory",
        ),
        bad("an entry less", |c| c.change_end = Some(|e| (e.entries, e.entries_on_disk) = (9, 9)), "after 9 entries"),
        bad("no entry", |c| c.change_end = Some(|e| (e.entries, e.entries_on_disk) = (0, 0)), "central directory"),
        bad(
            "more entries than the directory has room for",
            |c| {
                c.change_end = Some(|e| (e.entries, e.entries_on_disk) = (65_534, 65_534));
            },
            "number of entries",
        ),
        bad("directory size", |c| c.change_end = Some(|e| e.directory_size -= 1), "central directory"),
        bad("directory offset", |c| c.change_end = Some(|e| e.directory_offset += 1), "central directory"),
        bad(
            "directory behind the file",
            |c| c.change_end = Some(|e| e.directory_offset = 0xffff_0000),
            "central directory",
        ),
        bad(
            "directory moved",
            |c| {
                c.change_end =
                    Some(|e| (e.directory_offset, e.directory_size) = (e.directory_offset - 9, e.directory_size + 9));
            },
            "central directory header",
        ),
        bad("comment length", |c| c.change_end = Some(|e| e.comment_length += 1), "the file is truncated"),
        bad("a comment that is longer", |c| c.change_end = Some(|e| e.comment = b"x".to_vec()), "bytes behind it"),
        bad(
            "two ends",
            |c| {
                // Tools that look for the last signature see an archive of nothing.
                c.comment = [b"PK\x05\x06".as_slice(), &[0; 19]].concat();
            },
            "archive comment",
        ),
        bad("an archive within the comment", |c| c.comment = CartonBuilder::little().build(), "central directory"),
        unsupported("several disks", |c| c.change_end = Some(|e| e.disk = 1), "several disks"),
        unsupported(
            "the directory on another disk",
            |c| c.change_end = Some(|e| e.directory_disk = 2),
            "several disks",
        ),
        unsupported("entries on another disk", |c| c.change_end = Some(|e| e.entries_on_disk = 1), "several disks"),
        bad(
            "zip64 values without a record",
            |c| c.change_end = Some(|e| e.directory_offset = u32::MAX),
            "central directory",
        ),
    ]);
}

/// A change to the end of a carton that has a zip64 end record.
macro_rules! zip64_end {
    ($end:ident, $zip64:ident, $change:expr) => {
        |c: &mut CartonBuilder| {
            c.zip64 = true;
            c.change_end = Some(|$end| {
                let $zip64 = $end.zip64.as_mut().unwrap();
                $change;
            });
        }
    };
}

#[test]
fn the_zip64_end_records() {
    check_rejected(&[
        bad(
            "entries differ",
            |c| {
                c.zip64 = true;
                c.change_end = Some(|e| e.entries = 9);
            },
            "number of entries",
        ),
        bad(
            "directory size differs",
            |c| {
                c.zip64 = true;
                c.change_end = Some(|e| e.directory_size = 9);
            },
            "directory size",
        ),
        bad(
            "directory offset differs",
            |c| {
                c.zip64 = true;
                c.change_end = Some(|e| e.directory_offset = 9);
            },
            "directory offset",
        ),
        bad(
            "its entries",
            zip64_end!(_end, zip64, (zip64.entries, zip64.entries_on_disk) = (9, 9)),
            "central directory",
        ),
        bad("its size", zip64_end!(_end, zip64, zip64.directory_size -= 1), "central directory"),
        bad("its offset", zip64_end!(_end, zip64, zip64.directory_offset = u64::MAX), "central directory"),
        bad(
            "its length",
            zip64_end!(_end, zip64, zip64.record_size = u64::MAX),
            "zip64 end of central directory record",
        ),
        bad(
            "the locator's offset",
            zip64_end!(_end, zip64, zip64.record_offset -= 1),
            "zip64 end of central directory",
        ),
        bad("the locator's offset behind the file", zip64_end!(_end, zip64, zip64.record_offset = u64::MAX), "locator"),
        bad("a locator in itself", zip64_end!(_end, zip64, zip64.record_offset += 57), "locator"),
        unsupported("disks", zip64_end!(_end, zip64, zip64.disks = 2), "several disks"),
        bad("another disk", zip64_end!(_end, zip64, zip64.disk = 1), "disk"),
        bad(
            "a directory of exabytes",
            zip64_end!(_end, zip64, {
                zip64.directory_size = 1 << 60;
                zip64.directory_offset = zip64.record_offset.wrapping_sub(1 << 60);
            }),
            "central directory",
        ),
        unsupported(
            "a billion entries",
            zip64_end!(_end, zip64, (zip64.entries, zip64.entries_on_disk) = (1 << 30, 1 << 30)),
            "number of entries",
        ),
        bad(
            "more entries than the directory has room for",
            zip64_end!(_end, zip64, (zip64.entries, zip64.entries_on_disk) = (1 << 20, 1 << 20)),
            "number of entries",
        ),
    ]);
}

#[test]
fn sizes_are_not_believed() {
    check_rejected(&[
        bad(
            "10 GiB stored in a file of 2 KB",
            |c| {
                c.entry(WEIGHTS).zip64 = true;
                c.entry(WEIGHTS).change_directory = Some(|h| h.extra = zip64_field(&[10 << 30, 10 << 30, 0]));
                c.entry(WEIGHTS).change_local = Some(|h| h.extra = zip64_field(&[10 << 30, 10 << 30]));
            },
            "where the next record starts",
        ),
        bad(
            "10 GiB from 300 stored bytes",
            |c| {
                c.entry(WEIGHTS).zip64 = true;
                c.damage = Some(|bytes| {
                    for (at, _) in
                        bytes.clone().windows(16).enumerate().filter(|(_, w)| *w == [44, 1, 0, 0, 0, 0, 0, 0].repeat(2))
                    {
                        bytes[at..at + 8].copy_from_slice(&(10_u64 << 30).to_le_bytes());
                    }
                });
            },
            "size of `model/weights.bin`",
        ),
        bad(
            "10 GiB from a little deflate",
            |c| {
                c.entry(CONFIG).zip64 = true;
                c.damage = Some(|bytes| {
                    let size = zip64_field(&[13, 15])[4..].to_vec();
                    assert!(bytes.windows(16).any(|window| window == size), "the case fits no more");
                    for (at, _) in bytes.clone().windows(16).enumerate().filter(|(_, window)| *window == size) {
                        bytes[at..at + 8].copy_from_slice(&(10_u64 << 30).to_le_bytes());
                    }
                });
            },
            "size of `model/config.json`",
        ),
        bad(
            "MANIFEST of 1 GiB",
            |c| {
                c.damage = Some(|bytes| {
                    let at = bytes.windows(8).rposition(|window| window == b"MANIFEST").unwrap() - 46;
                    bytes[at + 24..at + 28].copy_from_slice(&(1_u32 << 30).to_le_bytes());
                });
            },
            "MANIFEST",
        ),
    ]);
}

#[test]
fn damage_within_a_local_header_shows_at_the_entry() {
    check_rejected(&[
        bad(
            "a header of zeros",
            |c| {
                c.damage = Some(|bytes| {
                    let at = header_of(bytes, WEIGHTS);
                    bytes[at..at + 30].fill(0);
                });
            },
            WEIGHTS,
        ),
        bad(
            "its first byte",
            |c| {
                c.damage = Some(|bytes| {
                    let at = header_of(bytes, WEIGHTS);
                    bytes[at] ^= 0x80;
                });
            },
            WEIGHTS,
        ),
    ]);
}
