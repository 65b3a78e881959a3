//! The zip64 end of central directory locator (§4.3.15), directly before the end of central directory record.

use super::fixed;
use crate::archive::ArchiveError;

const NAME: &str = "zip64 end of central directory locator";
const LENGTH: usize = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Zip64EndOfCentralDirectoryLocator {
    /// The disk that holds the zip64 end of central directory record.
    pub(crate) disk: u32,
    /// The offset of that record.
    pub(crate) offset: u64,
    /// The number of disks.
    pub(crate) disks: u32,
}

impl Zip64EndOfCentralDirectoryLocator {
    pub(crate) const SIGNATURE: u32 = 0x0706_4b50;
    pub(crate) const LENGTH: usize = LENGTH;

    pub(crate) fn parse(bytes: &[u8], offset: u64) -> Result<Self, ArchiveError> {
        let fields = fixed::<LENGTH>(bytes, Self::SIGNATURE, NAME, offset)?;
        Ok(Self { disk: fields.u32::<4>(), offset: fields.u64::<8>(), disks: fields.u32::<16>() })
    }

    pub(crate) fn write(&self, output: &mut Vec<u8>) {
        output.extend_from_slice(&Self::SIGNATURE.to_le_bytes());
        output.extend_from_slice(&self.disk.to_le_bytes());
        output.extend_from_slice(&self.offset.to_le_bytes());
        output.extend_from_slice(&self.disks.to_le_bytes());
    }
}
