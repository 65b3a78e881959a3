//! Builds good and bad cartons: each case changes one property of a small good carton.

use std::collections::BTreeMap;
use std::io::Write;

use sha2::{Digest, Sha256};

use crate::records::{Descriptor, DirectoryHeader, End, LocalHeader, Zip64End, descriptor, zip64_field};

pub(crate) const STORED: u16 = 0;
pub(crate) const DEFLATE: u16 = 8;
pub(crate) const ZSTD: u16 = 93;

pub(crate) const FILE: u32 = 0o100_644;
pub(crate) const SYMLINK: u32 = 0o120_777;
pub(crate) const FOLDER: u32 = 0o040_755;

/// Bit 3 of an entry's flags: CRC and sizes follow the data.
pub(crate) const STREAMED: u16 = 1 << 3;
/// Bit 11 of an entry's flags: the name is UTF-8.
pub(crate) const UTF8: u16 = 1 << 11;

pub(crate) const CARTON_TOML: &str = r#"spec_version = 1
model_name = "little"

[[input]]
name = "x"
dtype = "float32"
shape = ["n", 3]

[[output]]
name = "y"
dtype = "float32"
shape = ["n", 3]

[[self_test]]
name = "first"
inputs = { x = "@tensor_data/numbers" }
expected_out = { y = "@tensor_data/numbers" }

[[example]]
inputs = { x = "@misc/picture" }
sample_out = { y = "@tensor_data/numbers" }

[runner]
runner_name = "noop"
required_framework_version = "=1.0.0"
runner_compat_version = 1
"#;

pub(crate) const INDEX: &str = r#"[[tensor]]
name = "numbers"
dtype = "float32"
shape = [2, 3]
file = "tensor_0.bin"

[[tensor]]
name = "words"
dtype = "string"
shape = [2]
file = "tensor_1.toml"

[[tensor]]
name = "ragged"
dtype = "nested"
inner = ["numbers", "numbers"]
"#;

/// The values of the tensor `numbers`.
pub(crate) const NUMBERS: [f32; 6] = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0];

/// A carton to build: a list of entries, and the faults that it is to have.
#[derive(Clone)]
pub(crate) struct CartonBuilder {
    /// The entries without MANIFEST, in the order in which they are written.
    pub(crate) entries: Vec<Entry>,
    pub(crate) manifest: Manifest,
    /// The compression method of MANIFEST.
    pub(crate) manifest_method: u16,
    /// The position of MANIFEST among the entries; the end by default.
    pub(crate) manifest_position: Option<usize>,
    /// The bytes before the first entry, as in a self-extracting archive.
    pub(crate) prefix: Vec<u8>,
    pub(crate) comment: Vec<u8>,
    /// Whether there is a zip64 end of central directory record.
    pub(crate) zip64: bool,
    pub(crate) change_end: Option<fn(&mut End)>,
    /// Applied to the finished file.
    pub(crate) damage: Option<fn(&mut Vec<u8>)>,
}

/// The contents of MANIFEST.
#[derive(Clone)]
pub(crate) enum Manifest {
    /// The correct contents.
    Right,
    /// The correct contents after this edit.
    Edited(fn(String) -> Vec<u8>),
    /// There is no MANIFEST.
    Absent,
}

/// An entry to build.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    /// The data before compression.
    pub(crate) data: Vec<u8>,
    pub(crate) method: u16,
    /// Written instead of the compressed data.
    pub(crate) compressed: Option<Vec<u8>>,
    /// The file's type and permissions.
    pub(crate) mode: u32,
    pub(crate) date: u16,
    pub(crate) flags: u16,
    pub(crate) descriptor: Descriptor,
    /// Whether its sizes and offset are in zip64 extra fields.
    pub(crate) zip64: bool,
    /// The bytes between the previous entry and this one.
    pub(crate) gap: Vec<u8>,
    pub(crate) local_extra: Vec<u8>,
    pub(crate) change_local: Option<fn(&mut LocalHeader)>,
    pub(crate) change_directory: Option<fn(&mut DirectoryHeader)>,
    pub(crate) change_data: Option<fn(&mut Vec<u8>)>,
}

impl Entry {
    pub(crate) fn new(name: impl Into<Vec<u8>>, data: impl Into<Vec<u8>>) -> Self {
        Self {
            name: name.into(),
            data: data.into(),
            method: DEFLATE,
            compressed: None,
            mode: FILE,
            date: 0x0021,
            flags: UTF8,
            descriptor: Descriptor::None,
            zip64: false,
            gap: Vec::new(),
            local_extra: Vec::new(),
            change_local: None,
            change_directory: None,
            change_data: None,
        }
    }

    pub(crate) fn stored(self) -> Self {
        Self { method: STORED, ..self }
    }

    pub(crate) fn zstd(self) -> Self {
        Self { method: ZSTD, ..self }
    }

    pub(crate) fn symlink(name: &str, target: impl Into<Vec<u8>>) -> Self {
        Self { mode: SYMLINK, ..Self::new(name, target) }.stored()
    }

    pub(crate) fn folder(name: &str) -> Self {
        Self { mode: FOLDER, ..Self::new(name, "") }.stored()
    }

    fn compress(&self) -> Vec<u8> {
        let mut data = match (&self.compressed, self.method) {
            (Some(compressed), _) => compressed.clone(),
            (None, DEFLATE) => deflate(&self.data),
            (None, ZSTD) => zstd::encode_all(self.data.as_slice(), 3).unwrap(),
            (None, _) => self.data.clone(),
        };
        if let Some(change) = self.change_data {
            change(&mut data);
        }
        data
    }
}

pub(crate) fn deflate(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn hex_sha256(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns pseudo-random bytes, the same each time.
pub(crate) fn noise(length: usize, mut seed: u64) -> Vec<u8> {
    (0..length).map(|_| random(&mut seed) as u8).collect()
}

/// Returns the next pseudo-random number (SplitMix64).
pub(crate) fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut value = *state;
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl CartonBuilder {
    /// The good carton that cases start from: a file of every method, a link, a tensor of every kind.
    pub(crate) fn little() -> Self {
        let mut carton = Self::with([
            Entry::new("model/config.json", r#"{"layers": 2}"#),
            Entry::symlink("model/link", "config.json"),
            Entry::new("model/notes.txt", "note ".repeat(30)).zstd(),
            Entry::new("model/weights.bin", noise(300, 1)).stored(),
            Entry::new("misc/picture", noise(40, 2)).stored(),
            Entry::new("tensor_data/index.toml", INDEX),
            Entry::new("tensor_data/tensor_0.bin", NUMBERS.map(f32::to_le_bytes).concat()).stored(),
            Entry::new("tensor_data/tensor_1.toml", "data = [\"a\", \"b ü\"]\n"),
            Entry::new("carton.toml", CARTON_TOML),
        ]);
        carton.manifest_method = DEFLATE;
        carton
    }

    /// A carton of these entries without faults.
    pub(crate) fn with(entries: impl IntoIterator<Item = Entry>) -> Self {
        Self {
            entries: entries.into_iter().collect(),
            manifest: Manifest::Right,
            manifest_method: STORED,
            manifest_position: None,
            prefix: Vec::new(),
            comment: Vec::new(),
            zip64: false,
            change_end: None,
            damage: None,
        }
    }

    pub(crate) fn entry(&mut self, name: &str) -> &mut Entry {
        self.entries.iter_mut().find(|entry| entry.name == name.as_bytes()).unwrap()
    }

    pub(crate) fn add(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    pub(crate) fn remove(&mut self, name: &str) -> Entry {
        let position = self.entries.iter().position(|entry| entry.name == name.as_bytes()).unwrap();
        self.entries.remove(position)
    }

    /// Replaces text in a text entry.
    pub(crate) fn edit(&mut self, name: &str, from: &str, to: &str) {
        let entry = self.entry(name);
        let text = String::from_utf8(entry.data.clone()).unwrap();
        assert!(text.contains(from), "`{from}` is not in {name}");
        entry.data = text.replacen(from, to, 1).into_bytes();
    }

    /// The files that MANIFEST has to list, with the bytes that are read from them; links have the bytes of their targets.
    pub(crate) fn files(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let listed = self.entries.iter().filter(|entry| entry.mode != FOLDER && entry.name != b"LINKS");
        listed.map(|entry| (entry.name.clone(), self.resolve(entry).data.clone())).collect()
    }

    /// Returns the entry that a link leads to, or the entry itself if it is not a link or leads nowhere.
    fn resolve<'a>(&'a self, mut entry: &'a Entry) -> &'a Entry {
        for _ in 0..self.entries.len() {
            if entry.mode & 0o170_000 != 0o120_000 {
                break;
            }
            let mut path: Vec<&[u8]> = entry.name.split(|byte| *byte == b'/').collect();
            path.pop();
            for component in entry.data.split(|byte| *byte == b'/') {
                match component {
                    b".." => drop(path.pop()),
                    b"." => {}
                    _ => path.push(component),
                }
            }
            let target = path.join(&b'/');
            match self.entries.iter().find(|entry| entry.name == target) {
                Some(next) => entry = next,
                None => break,
            }
        }
        entry
    }

    pub(crate) fn manifest_bytes(&self) -> Option<Vec<u8>> {
        let mut right = Vec::new();
        for (name, data) in self.files() {
            right.extend(name);
            right.extend(format!("={}\n", hex_sha256(&data)).bytes());
        }
        match self.manifest {
            Manifest::Right => Some(right),
            Manifest::Edited(edit) => Some(edit(String::from_utf8(right).unwrap())),
            Manifest::Absent => None,
        }
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        let mut entries = self.entries.clone();
        if let Some(manifest) = self.manifest_bytes() {
            let entry = Entry { method: self.manifest_method, ..Entry::new("MANIFEST", manifest) };
            entries.insert(self.manifest_position.unwrap_or(entries.len()), entry);
        }
        let mut output = self.prefix.clone();
        let mut directory = Vec::new();
        for entry in &entries {
            write_entry(entry, &mut output, &mut directory);
        }
        let directory_offset = output.len() as u64;
        let (count, size) = (entries.len() as u64, directory.len() as u64);
        output.extend(directory);
        let mut end = End {
            disk: 0,
            directory_disk: 0,
            entries_on_disk: count as u16,
            entries: count as u16,
            directory_size: size as u32,
            directory_offset: directory_offset as u32,
            comment_length: self.comment.len() as u16,
            comment: self.comment.clone(),
            zip64: None,
        };
        if self.zip64 {
            end = End {
                entries_on_disk: u16::MAX,
                entries: u16::MAX,
                directory_size: u32::MAX,
                directory_offset: u32::MAX,
                zip64: Some(Zip64End {
                    record_size: 44,
                    disk: 0,
                    entries_on_disk: count,
                    entries: count,
                    directory_size: size,
                    directory_offset,
                    record_offset: output.len() as u64,
                    disks: 1,
                }),
                ..end
            };
        }
        if let Some(change) = self.change_end {
            change(&mut end);
        }
        end.write(&mut output);
        if let Some(damage) = self.damage {
            damage(&mut output);
        }
        output
    }
}

fn write_entry(entry: &Entry, output: &mut Vec<u8>, directory: &mut Vec<u8>) {
    output.extend(&entry.gap);
    let offset = output.len() as u64;
    let data = entry.compress();
    let (size, compressed_size) = (entry.data.len() as u64, data.len() as u64);
    let crc32 = crc32fast::hash(&entry.data);
    let streamed = entry.descriptor != Descriptor::None;
    let flags = entry.flags | if streamed { STREAMED } else { 0 };
    let version_needed = match entry.method {
        _ if entry.zip64 => 45,
        ZSTD => 63,
        _ => 20,
    };
    let shown = |value: u64| if entry.zip64 { u32::MAX } else { value as u32 };
    let mut local = LocalHeader {
        signature: 0x0403_4b50,
        version_needed,
        flags,
        method: entry.method,
        time: 0,
        date: entry.date,
        crc32: if streamed { 0 } else { crc32 },
        compressed_size: if streamed { shown(0) } else { shown(compressed_size) },
        size: if streamed { shown(0) } else { shown(size) },
        name: entry.name.clone(),
        extra: match (entry.zip64, streamed) {
            (true, true) => zip64_field(&[0, 0]),
            (true, false) => zip64_field(&[size, compressed_size]),
            (false, _) => Vec::new(),
        },
        name_length_off_by: 0,
        extra_length_off_by: 0,
    };
    local.extra.extend(&entry.local_extra);
    if let Some(change) = entry.change_local {
        change(&mut local);
    }
    local.write(output);
    output.extend(data);
    output.extend(descriptor(entry.descriptor, crc32, compressed_size, size, entry.zip64));

    let mut header = DirectoryHeader {
        signature: 0x0201_4b50,
        version_made_by: 0x031e,
        version_needed,
        flags,
        method: entry.method,
        time: 0,
        date: entry.date,
        crc32,
        compressed_size: shown(compressed_size),
        size: shown(size),
        disk: 0,
        internal_attributes: 0,
        external_attributes: entry.mode << 16,
        offset: shown(offset),
        name: entry.name.clone(),
        extra: if entry.zip64 { zip64_field(&[size, compressed_size, offset]) } else { Vec::new() },
        comment: Vec::new(),
        name_length_off_by: 0,
    };
    if let Some(change) = entry.change_directory {
        change(&mut header);
    }
    header.write(directory);
}
