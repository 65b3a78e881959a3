//! Entries whose data differs from their headers or MANIFEST.

use crate::builder::{Entry, deflate, noise};
use crate::{bad, check_rejected, unsupported};

const WEIGHTS: &str = "model/weights.bin";
const CONFIG: &str = "model/config.json";
const NOTES: &str = "model/notes.txt";

#[test]
fn bytes_that_changed() {
    check_rejected(&[
        bad(
            "a stored byte",
            |c| c.entry(WEIGHTS).change_data = Some(|data| data[100] ^= 1),
            "CRC-32 mismatch for `model/weights.bin`",
        ),
        bad("a deflated byte", |c| c.entry(CONFIG).change_data = Some(|data| data[9] ^= 0x10), CONFIG),
        bad("a zstd byte", |c| c.entry(NOTES).change_data = Some(|data| data[9] ^= 0x10), NOTES),
        bad(
            "a byte and the CRC",
            |c| {
                // All zip headers match the data, but MANIFEST does not.
                let mut changed = noise(300, 1);
                changed[100] ^= 1;
                let entry = Entry::new(WEIGHTS, changed).stored();
                let manifest = c.manifest_bytes().unwrap();
                *c.entry(WEIGHTS) = entry;
                keep_manifest(c, &manifest);
            },
            "digest mismatch for `model/weights.bin`",
        ),
        bad(
            "carton.toml and its CRC",
            |c| {
                let manifest = c.manifest_bytes().unwrap();
                c.edit("carton.toml", "little", "LITTLE");
                keep_manifest(c, &manifest);
            },
            "digest mismatch for `carton.toml`",
        ),
        bad(
            "a tensor and its CRC",
            |c| {
                let manifest = c.manifest_bytes().unwrap();
                c.entry("tensor_data/tensor_0.bin").data[3] ^= 1;
                keep_manifest(c, &manifest);
            },
            "digest mismatch for `tensor_data/tensor_0.bin`",
        ),
        bad(
            "the index of the tensors and its CRC",
            |c| {
                let manifest = c.manifest_bytes().unwrap();
                c.edit("tensor_data/index.toml", "[2, 3]", "[3, 2]");
                keep_manifest(c, &manifest);
            },
            "digest mismatch for `tensor_data/index.toml`",
        ),
    ]);
}

/// Restores the MANIFEST from before the change.
fn keep_manifest(carton: &mut crate::builder::CartonBuilder, manifest: &[u8]) {
    carton.manifest = crate::builder::Manifest::Absent;
    carton.add(Entry::new("MANIFEST", manifest));
}

#[test]
fn data_of_another_length() {
    fn sized(size: u32, crc_of: &'static [u8], compressed: Vec<u8>, method: u16) -> Entry {
        // Both headers agree, so that only reading the data can find the fault.
        let data = crc_of[..size as usize].to_vec();
        Entry { compressed: Some(compressed), method, ..Entry::new("model/a", data) }
    }
    const TEXT: &[u8] = &[b'a'; 4000];
    check_rejected(&[
        bad(
            "deflate gives more",
            |c| c.add(sized(999, TEXT, deflate(&TEXT[..1000]), 8)),
            "size mismatch for `model/a`: expected 999",
        ),
        bad(
            "deflate gives much more",
            |c| c.add(sized(1, TEXT, deflate(&TEXT[..4000]), 8)),
            "size mismatch for `model/a`",
        ),
        bad(
            "deflate gives less",
            |c| c.add(sized(1001, TEXT, deflate(&TEXT[..1000]), 8)),
            "size mismatch for `model/a`: expected 1001, found 1000",
        ),
        bad("deflate gives nothing", |c| c.add(sized(5, TEXT, deflate(b""), 8)), "model/a"),
        bad("deflate gives something for nothing", |c| c.add(sized(0, TEXT, deflate(b"a"), 8)), "model/a"),
        bad(
            "zstd gives more",
            |c| c.add(sized(999, TEXT, zstd::encode_all(&TEXT[..1000], 3).unwrap(), 93)),
            "size mismatch for `model/a`: expected 999",
        ),
        bad(
            "zstd gives less",
            |c| c.add(sized(1001, TEXT, zstd::encode_all(&TEXT[..1000], 3).unwrap(), 93)),
            "size mismatch for `model/a`: expected 1001, found 1000",
        ),
        bad(
            "zstd gives something for nothing",
            |c| c.add(sized(0, TEXT, zstd::encode_all(&TEXT[..1], 3).unwrap(), 93)),
            "model/a",
        ),
        bad(
            "a second zstd frame",
            |c| {
                let frame = zstd::encode_all(&TEXT[..500], 3).unwrap();
                c.add(sized(500, TEXT, frame.repeat(2), 93));
            },
            "size mismatch for `model/a`",
        ),
        bad("stored is longer", |c| c.add(sized(10, TEXT, TEXT[..11].to_vec(), 0)), "size of `model/a`"),
        bad("stored is shorter", |c| c.add(sized(10, TEXT, TEXT[..9].to_vec(), 0)), "size of `model/a`"),
        bad(
            "behind the end of deflate",
            |c| {
                c.entry(CONFIG).change_data = Some(|data| data.push(0));
            },
            CONFIG,
        ),
        bad("behind the end of zstd", |c| c.entry(NOTES).change_data = Some(|data| data.push(0)), NOTES),
        bad(
            "deflate without an end",
            |c| c.entry(CONFIG).change_data = Some(|data| data.truncate(data.len() - 1)),
            CONFIG,
        ),
        bad("zstd without an end", |c| c.entry(NOTES).change_data = Some(|data| data.truncate(data.len() - 1)), NOTES),
        bad("deflate of noise", |c| c.entry(CONFIG).compressed = Some(noise(500, 7)), CONFIG),
        bad("zstd of noise", |c| c.entry(NOTES).compressed = Some(noise(500, 7)), NOTES),
        bad(
            "zlib for deflate",
            |c| {
                c.entry(CONFIG).change_data = Some(|data| drop(data.splice(0..0, [0x78, 0x9c])));
            },
            CONFIG,
        ),
        bad("deflate for zstd", |c| c.entry(NOTES).compressed = Some(deflate(&b"note ".repeat(30))), NOTES),
        bad("no deflate at all", |c| c.entry(CONFIG).compressed = Some(Vec::new()), CONFIG),
    ]);
}

#[test]
fn bombs() {
    check_rejected(&[
        bad(
            "a gigabyte of deflated zeros that is said to be a byte",
            |c| {
                let compressed = Some(deflate(&vec![0; 64 << 20]));
                c.add(Entry { compressed, ..Entry::new("model/bomb", [0]) });
            },
            "size mismatch for `model/bomb`",
        ),
        bad(
            "zstd that is said to be a byte",
            |c| {
                let compressed = Some(zstd::encode_all([0; 1 << 20].repeat(64).as_slice(), 3).unwrap());
                c.add(Entry { compressed, ..Entry::new("model/bomb", [0]).zstd() });
            },
            "size mismatch for `model/bomb`",
        ),
        bad(
            "a zstd window of 2 GiB",
            |c| {
                // A frame header with a window descriptor at the limit, and one raw block of a byte.
                let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x09, 0, 0, b'x'];
                c.add(Entry { compressed: Some(frame.to_vec()), ..Entry::new("model/window", "x").zstd() });
            },
            "model/window",
        ),
    ]);
    check_rejected(&[unsupported(
        "a link of a megabyte",
        |c| c.add(Entry::symlink("model/long", "a".repeat(1 << 20))),
        "model/long",
    )]);
    // Within the format, but larger than we accept.
    check_rejected(&[unsupported(
        "a carton.toml of 4 MiB",
        |c| {
            let entry = c.entry("carton.toml");
            entry.data.extend(b"\n".repeat(4 << 20));
        },
        "carton.toml",
    )]);
}
