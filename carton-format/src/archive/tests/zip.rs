//! Builds archives record by record, so that a test can spoil each record.

use std::io::Write;

use super::*;

/// An archive to build record by record, each of which can be spoiled.
pub(super) struct Zip {
    pub(super) prefix: Vec<u8>,
    pub(super) items: Vec<Item>,
    /// Bytes between the last entry and the directory.
    pub(super) gap: Vec<u8>,
    /// Bytes after the directory's headers, counted as a part of the directory.
    pub(super) surplus: Vec<u8>,
    pub(super) zip64: bool,
    pub(super) edit_zip64: fn(&mut Zip64EndOfCentralDirectory),
    pub(super) edit_locator: fn(&mut Zip64EndOfCentralDirectoryLocator),
    pub(super) edit_end: fn(&mut EndOfCentralDirectory),
    pub(super) comment: Vec<u8>,
}

pub(super) struct Item {
    pub(super) name: Vec<u8>,
    pub(super) method: u16,
    pub(super) contents: Vec<u8>,
    pub(super) data: Vec<u8>,
    pub(super) mode: u32,
    pub(super) local_extra: Vec<u8>,
    pub(super) central_extra: Vec<u8>,
    pub(super) edit_local: fn(&mut LocalFileHeader),
    pub(super) edit_central: fn(&mut CentralDirectoryHeader),
    /// Bytes after the data, such as a data descriptor.
    pub(super) behind: Vec<u8>,
}

pub(super) fn item(name: impl AsRef<[u8]>, method: u16, contents: &[u8]) -> Item {
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

pub(super) fn zip(items: Vec<Item>) -> Zip {
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
    pub(super) fn build(&self) -> Vec<u8> {
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
