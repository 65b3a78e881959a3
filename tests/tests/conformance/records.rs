//! The records of a zip file as plain fields, which are written to bytes without checks.
//!
//! Written from the ZIP Application Note and independently of the code under test, so that a mistake there is not repeated here.

/// The local file header before an entry's data (§4.3.7).
#[derive(Clone, Debug)]
pub(crate) struct LocalHeader {
    pub(crate) signature: u32,
    pub(crate) version_needed: u16,
    pub(crate) flags: u16,
    pub(crate) method: u16,
    pub(crate) time: u16,
    pub(crate) date: u16,
    pub(crate) crc32: u32,
    pub(crate) compressed_size: u32,
    pub(crate) size: u32,
    pub(crate) name: Vec<u8>,
    pub(crate) extra: Vec<u8>,
    /// Added to the length of the name that is written.
    pub(crate) name_length_off_by: i32,
    /// Added to the length of the extra fields that is written.
    pub(crate) extra_length_off_by: i32,
}

/// An entry's header in the central directory (§4.3.12).
#[derive(Clone, Debug)]
pub(crate) struct DirectoryHeader {
    pub(crate) signature: u32,
    pub(crate) version_made_by: u16,
    pub(crate) version_needed: u16,
    pub(crate) flags: u16,
    pub(crate) method: u16,
    pub(crate) time: u16,
    pub(crate) date: u16,
    pub(crate) crc32: u32,
    pub(crate) compressed_size: u32,
    pub(crate) size: u32,
    pub(crate) disk: u16,
    pub(crate) internal_attributes: u16,
    pub(crate) external_attributes: u32,
    pub(crate) offset: u32,
    pub(crate) name: Vec<u8>,
    pub(crate) extra: Vec<u8>,
    pub(crate) comment: Vec<u8>,
    /// Added to the length of the name that is written.
    pub(crate) name_length_off_by: i32,
}

/// The end of central directory record (§4.3.16), and the zip64 record and locator before it (§4.3.14, §4.3.15).
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) disk: u16,
    pub(crate) directory_disk: u16,
    pub(crate) entries_on_disk: u16,
    pub(crate) entries: u16,
    pub(crate) directory_size: u32,
    pub(crate) directory_offset: u32,
    pub(crate) comment_length: u16,
    pub(crate) comment: Vec<u8>,
    pub(crate) zip64: Option<Zip64End>,
}

/// The zip64 end of central directory record and its locator.
#[derive(Clone, Debug)]
pub(crate) struct Zip64End {
    pub(crate) record_size: u64,
    pub(crate) disk: u32,
    pub(crate) entries_on_disk: u64,
    pub(crate) entries: u64,
    pub(crate) directory_size: u64,
    pub(crate) directory_offset: u64,
    /// The offset of the record in the locator.
    pub(crate) record_offset: u64,
    /// The number of disks in the locator.
    pub(crate) disks: u32,
}

/// Whether and how CRC and sizes follow the data (§4.3.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Descriptor {
    /// They do not follow: the local header has them.
    None,
    /// They follow, after a signature.
    Signed,
    /// They follow, without the optional signature.
    Unsigned,
}

fn put(output: &mut Vec<u8>, values: &[u16]) {
    values.iter().for_each(|value| output.extend(value.to_le_bytes()));
}

fn put_long(output: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|value| output.extend(value.to_le_bytes()));
}

fn put_zip64(output: &mut Vec<u8>, values: &[u64]) {
    values.iter().for_each(|value| output.extend(value.to_le_bytes()));
}

fn length(bytes: &[u8], off_by: i32) -> u16 {
    (bytes.len() as i32 + off_by) as u16
}

impl LocalHeader {
    pub(crate) fn write(&self, output: &mut Vec<u8>) {
        put_long(output, &[self.signature]);
        put(output, &[self.version_needed, self.flags, self.method, self.time, self.date]);
        put_long(output, &[self.crc32, self.compressed_size, self.size]);
        put(output, &[length(&self.name, self.name_length_off_by), length(&self.extra, self.extra_length_off_by)]);
        output.extend(&self.name);
        output.extend(&self.extra);
    }
}

impl DirectoryHeader {
    pub(crate) fn write(&self, output: &mut Vec<u8>) {
        put_long(output, &[self.signature]);
        put(output, &[self.version_made_by, self.version_needed, self.flags, self.method, self.time, self.date]);
        put_long(output, &[self.crc32, self.compressed_size, self.size]);
        put(output, &[length(&self.name, self.name_length_off_by), length(&self.extra, 0), length(&self.comment, 0)]);
        put(output, &[self.disk, self.internal_attributes]);
        put_long(output, &[self.external_attributes, self.offset]);
        output.extend(&self.name);
        output.extend(&self.extra);
        output.extend(&self.comment);
    }
}

impl End {
    pub(crate) fn write(&self, output: &mut Vec<u8>) {
        if let Some(zip64) = &self.zip64 {
            put_long(output, &[0x0606_4b50]);
            put_zip64(output, &[zip64.record_size]);
            put(output, &[0x031e, 45]);
            put_long(output, &[zip64.disk, zip64.disk]);
            let Zip64End { entries_on_disk, entries, directory_size, directory_offset, .. } = *zip64;
            put_zip64(output, &[entries_on_disk, entries, directory_size, directory_offset]);
            put_long(output, &[0x0706_4b50, 0]);
            put_zip64(output, &[zip64.record_offset]);
            put_long(output, &[zip64.disks]);
        }
        put_long(output, &[0x0605_4b50]);
        put(output, &[self.disk, self.directory_disk, self.entries_on_disk, self.entries]);
        put_long(output, &[self.directory_size, self.directory_offset]);
        put(output, &[self.comment_length]);
        output.extend(&self.comment);
    }
}

/// An extra field (§4.5.1).
pub(crate) fn extra_field(id: u16, data: &[u8]) -> Vec<u8> {
    let mut field = Vec::new();
    put(&mut field, &[id, data.len() as u16]);
    field.extend(data);
    field
}

/// A zip64 extra field (§4.5.3) with these values.
pub(crate) fn zip64_field(values: &[u64]) -> Vec<u8> {
    let mut data = Vec::new();
    put_zip64(&mut data, values);
    extra_field(1, &data)
}

/// Returns the data descriptor, which follows the data of a streamed entry.
pub(crate) fn descriptor(kind: Descriptor, crc32: u32, compressed_size: u64, size: u64, zip64: bool) -> Vec<u8> {
    let mut output = Vec::new();
    match kind {
        Descriptor::None => return output,
        Descriptor::Signed => put_long(&mut output, &[0x0807_4b50]),
        Descriptor::Unsigned => {}
    }
    put_long(&mut output, &[crc32]);
    match zip64 {
        true => put_zip64(&mut output, &[compressed_size, size]),
        false => put_long(&mut output, &[compressed_size as u32, size as u32]),
    }
    output
}
