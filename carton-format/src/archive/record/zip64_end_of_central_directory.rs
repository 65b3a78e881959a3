//! The zip64 end of central directory record (§4.3.14): the same values as the end of central directory record, in 64 bits.

use super::fixed;
use crate::archive::ArchiveError;

const NAME: &str = "zip64 end of central directory record";
const LENGTH: usize = 56;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Zip64EndOfCentralDirectory {
    /// The length of the rest of the record, after this field.
    pub(crate) record_size: u64,
    pub(crate) version_made_by: u16,
    pub(crate) version_needed: u16,
    pub(crate) disk: u32,
    pub(crate) directory_disk: u32,
    pub(crate) entries_on_disk: u64,
    pub(crate) entries: u64,
    pub(crate) directory_size: u64,
    pub(crate) directory_offset: u64,
}

impl Zip64EndOfCentralDirectory {
    pub(crate) const SIGNATURE: u32 = 0x0606_4b50;
    /// The length without the extensible data, which is not in use.
    pub(crate) const LENGTH: usize = LENGTH;
    /// The bytes that `record_size` does not count: the signature and the field itself.
    pub(crate) const UNCOUNTED: u64 = 12;

    pub(crate) fn parse(bytes: &[u8], offset: u64) -> Result<Self, ArchiveError> {
        let fields = fixed::<LENGTH>(bytes, Self::SIGNATURE, NAME, offset)?;
        Ok(Self {
            record_size: fields.u64::<4>(),
            version_made_by: fields.u16::<12>(),
            version_needed: fields.u16::<14>(),
            disk: fields.u32::<16>(),
            directory_disk: fields.u32::<20>(),
            entries_on_disk: fields.u64::<24>(),
            entries: fields.u64::<32>(),
            directory_size: fields.u64::<40>(),
            directory_offset: fields.u64::<48>(),
        })
    }

    pub(crate) fn write(&self, output: &mut Vec<u8>) {
        output.extend_from_slice(&Self::SIGNATURE.to_le_bytes());
        output.extend_from_slice(&self.record_size.to_le_bytes());
        output.extend_from_slice(&self.version_made_by.to_le_bytes());
        output.extend_from_slice(&self.version_needed.to_le_bytes());
        output.extend_from_slice(&self.disk.to_le_bytes());
        output.extend_from_slice(&self.directory_disk.to_le_bytes());
        for value in [self.entries_on_disk, self.entries, self.directory_size, self.directory_offset] {
            output.extend_from_slice(&value.to_le_bytes());
        }
    }
}
