//! The end of central directory record (§4.3.16), which ends every zip file, except for a comment after it.

use super::fixed;
use crate::archive::ArchiveError;

const NAME: &str = "end of central directory record";
const LENGTH: usize = 22;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndOfCentralDirectory {
    pub(crate) disk: u16,
    pub(crate) directory_disk: u16,
    pub(crate) entries_on_disk: u16,
    pub(crate) entries: u16,
    pub(crate) directory_size: u32,
    pub(crate) directory_offset: u32,
    pub(crate) comment_length: u16,
}

impl EndOfCentralDirectory {
    pub(crate) const SIGNATURE: u32 = 0x0605_4b50;
    /// The length without the comment.
    pub(crate) const LENGTH: usize = LENGTH;
    /// The length with the longest comment.
    pub(crate) const MAX_LENGTH: usize = Self::LENGTH + u16::MAX as usize;

    pub(crate) fn parse(bytes: &[u8], offset: u64) -> Result<Self, ArchiveError> {
        let fields = fixed::<LENGTH>(bytes, Self::SIGNATURE, NAME, offset)?;
        Ok(Self {
            disk: fields.u16::<4>(),
            directory_disk: fields.u16::<6>(),
            entries_on_disk: fields.u16::<8>(),
            entries: fields.u16::<10>(),
            directory_size: fields.u32::<12>(),
            directory_offset: fields.u32::<16>(),
            comment_length: fields.u16::<20>(),
        })
    }

    /// Finds the record in `suffix`, the last bytes of a file: the last position from which its comment reaches exactly to the end.
    ///
    /// Tools that ignore the length of the comment would take a further signature within the comment for the record, and see a different
    /// archive; such a comment is refused.
    pub(crate) fn find(suffix: &[u8], suffix_offset: u64) -> Result<Option<(usize, Self)>, ArchiveError> {
        let signature = Self::SIGNATURE.to_le_bytes();
        let Some(last) = suffix.len().checked_sub(Self::LENGTH) else { return Ok(None) };
        for position in (0..=last).rev() {
            if suffix[position..position + 4] != signature {
                continue;
            }
            let record = Self::parse(&suffix[position..], suffix_offset + position as u64)?;
            let comment = position + Self::LENGTH;
            if comment + usize::from(record.comment_length) != suffix.len() {
                continue;
            }
            // Also refuses a signature too close to the end for a whole record: such a tool then finds no archive at all.
            if let Some(stray) = suffix[comment..].windows(signature.len()).position(|bytes| bytes == signature) {
                return Err(ArchiveError::format(
                    "archive comment",
                    suffix_offset + (comment + stray) as u64,
                    "no signature of an end of central directory record",
                    "one",
                ));
            }
            return Ok(Some((position, record)));
        }
        Ok(None)
    }

    /// The end of the last record in `suffix`, including its comment. It may lie beyond the end of `suffix`.
    pub(crate) fn last_end(suffix: &[u8]) -> Option<usize> {
        let signature = Self::SIGNATURE.to_le_bytes();
        let position = suffix.windows(Self::LENGTH).rposition(|record| record.starts_with(&signature))?;
        let record = Self::parse(suffix.get(position..)?, 0).ok()?;
        Some(position + Self::LENGTH + usize::from(record.comment_length))
    }

    pub(crate) fn write(&self, output: &mut Vec<u8>) {
        output.extend_from_slice(&Self::SIGNATURE.to_le_bytes());
        for value in [self.disk, self.directory_disk, self.entries_on_disk, self.entries] {
            output.extend_from_slice(&value.to_le_bytes());
        }
        output.extend_from_slice(&self.directory_size.to_le_bytes());
        output.extend_from_slice(&self.directory_offset.to_le_bytes());
        output.extend_from_slice(&self.comment_length.to_le_bytes());
    }
}
