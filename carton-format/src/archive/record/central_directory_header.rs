//! A central directory header (§4.3.12): the directory's record of one entry.

use super::fixed;
use crate::archive::ArchiveError;

const NAME: &str = "central directory header";
const LENGTH: usize = 46;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CentralDirectoryHeader<'a> {
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
    pub(crate) header_offset: u32,
    pub(crate) name: &'a [u8],
    pub(crate) extra: &'a [u8],
    pub(crate) comment: &'a [u8],
}

impl<'a> CentralDirectoryHeader<'a> {
    pub(crate) const SIGNATURE: u32 = 0x0201_4b50;
    /// The length without name, extra fields and comment.
    pub(crate) const LENGTH: usize = LENGTH;

    /// The header at the start of `bytes`, and the bytes after it.
    pub(crate) fn parse(bytes: &'a [u8], offset: u64) -> Result<(Self, &'a [u8]), ArchiveError> {
        let fields = fixed::<LENGTH>(bytes, Self::SIGNATURE, NAME, offset)?;
        let lengths = [fields.u16::<28>(), fields.u16::<30>(), fields.u16::<32>()].map(usize::from);
        let mut rest = &bytes[Self::LENGTH..];
        let n_bytes = lengths.iter().sum::<usize>();
        if n_bytes > rest.len() {
            return Err(ArchiveError::format(
                NAME,
                offset,
                format_args!("{n_bytes} bytes of name, extra fields and comment"),
                format_args!("{} before the directory's end", rest.len()),
            ));
        }
        let [name, extra, comment] = lengths.map(|length| {
            let (part, behind) = rest.split_at(length);
            rest = behind;
            part
        });
        let header = Self {
            version_made_by: fields.u16::<4>(),
            version_needed: fields.u16::<6>(),
            flags: fields.u16::<8>(),
            method: fields.u16::<10>(),
            time: fields.u16::<12>(),
            date: fields.u16::<14>(),
            crc32: fields.u32::<16>(),
            compressed_size: fields.u32::<20>(),
            size: fields.u32::<24>(),
            disk: fields.u16::<34>(),
            internal_attributes: fields.u16::<36>(),
            external_attributes: fields.u32::<38>(),
            header_offset: fields.u32::<42>(),
            name,
            extra,
            comment,
        };
        Ok((header, rest))
    }

    /// The type and permissions of the file, if the archive was made on Unix (§4.4.2 and the upper half of §4.4.15).
    pub(crate) fn unix_mode(&self) -> Option<u32> {
        let host = self.version_made_by >> 8;
        matches!(host, HOST_UNIX | HOST_DARWIN).then_some(self.external_attributes >> 16)
    }

    /// Appends the header. Name, extra fields and comment must each be shorter than 64 KiB.
    pub(crate) fn write(&self, output: &mut Vec<u8>) {
        output.extend_from_slice(&Self::SIGNATURE.to_le_bytes());
        for value in [self.version_made_by, self.version_needed, self.flags, self.method, self.time, self.date] {
            output.extend_from_slice(&value.to_le_bytes());
        }
        for value in [self.crc32, self.compressed_size, self.size] {
            output.extend_from_slice(&value.to_le_bytes());
        }
        for part in [self.name, self.extra, self.comment] {
            output.extend_from_slice(&(part.len() as u16).to_le_bytes());
        }
        output.extend_from_slice(&self.disk.to_le_bytes());
        output.extend_from_slice(&self.internal_attributes.to_le_bytes());
        output.extend_from_slice(&self.external_attributes.to_le_bytes());
        output.extend_from_slice(&self.header_offset.to_le_bytes());
        for part in [self.name, self.extra, self.comment] {
            output.extend_from_slice(part);
        }
    }
}

/// Unix, as the host that made an entry (§4.4.2.2).
pub(crate) const HOST_UNIX: u16 = 3;
const HOST_DARWIN: u16 = 19;
