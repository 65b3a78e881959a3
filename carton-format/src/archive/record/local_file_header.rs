//! A local file header (§4.3.7), which precedes an entry's data.

use super::fixed;
use crate::archive::ArchiveError;

const NAME: &str = "local file header";
const LENGTH: usize = 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocalFileHeader<'a> {
    pub(crate) version_needed: u16,
    pub(crate) flags: u16,
    pub(crate) method: u16,
    pub(crate) time: u16,
    pub(crate) date: u16,
    pub(crate) crc32: u32,
    pub(crate) compressed_size: u32,
    pub(crate) size: u32,
    pub(crate) name: &'a [u8],
    pub(crate) extra: &'a [u8],
}

impl<'a> LocalFileHeader<'a> {
    pub(crate) const SIGNATURE: u32 = 0x0403_4b50;
    /// The length without name and extra fields.
    pub(crate) const LENGTH: usize = LENGTH;

    /// The length of the header at the start of `bytes`, with its name and extra fields.
    pub(crate) fn length(bytes: &[u8], offset: u64) -> Result<usize, ArchiveError> {
        let fields = fixed::<LENGTH>(bytes, Self::SIGNATURE, NAME, offset)?;
        Ok(Self::LENGTH + usize::from(fields.u16::<26>()) + usize::from(fields.u16::<28>()))
    }

    /// The header at the start of `bytes`.
    pub(crate) fn parse(bytes: &'a [u8], offset: u64) -> Result<Self, ArchiveError> {
        let fields = fixed::<LENGTH>(bytes, Self::SIGNATURE, NAME, offset)?;
        let (name_length, extra_length) = (usize::from(fields.u16::<26>()), usize::from(fields.u16::<28>()));
        let rest = &bytes[Self::LENGTH..];
        if name_length + extra_length > rest.len() {
            return Err(ArchiveError::format(
                NAME,
                offset,
                format_args!("{} bytes of name and extra fields", name_length + extra_length),
                format_args!("{}", rest.len()),
            ));
        }
        let (name, rest) = rest.split_at(name_length);
        Ok(Self {
            version_needed: fields.u16::<4>(),
            flags: fields.u16::<6>(),
            method: fields.u16::<8>(),
            time: fields.u16::<10>(),
            date: fields.u16::<12>(),
            crc32: fields.u32::<14>(),
            compressed_size: fields.u32::<18>(),
            size: fields.u32::<22>(),
            name,
            extra: &rest[..extra_length],
        })
    }

    /// Appends the header. Name and extra fields must each be shorter than 64 KiB.
    pub(crate) fn write(&self, output: &mut Vec<u8>) {
        output.extend_from_slice(&Self::SIGNATURE.to_le_bytes());
        for value in [self.version_needed, self.flags, self.method, self.time, self.date] {
            output.extend_from_slice(&value.to_le_bytes());
        }
        for value in [self.crc32, self.compressed_size, self.size] {
            output.extend_from_slice(&value.to_le_bytes());
        }
        for part in [self.name, self.extra] {
            output.extend_from_slice(&(part.len() as u16).to_le_bytes());
        }
        output.extend_from_slice(self.name);
        output.extend_from_slice(self.extra);
    }
}
