//! Extra fields (§4.5): the optional fields of a header, each with an identifier and a length.

use crate::archive::ArchiveError;

/// The fields that are read; all others are skipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ExtraFields<'a> {
    /// Zip64 extended information (§4.5.3).
    pub(crate) zip64: Option<&'a [u8]>,
    /// Info-ZIP Unicode path (§4.6.9): the name once more, in UTF-8.
    pub(crate) unicode_path: Option<&'a [u8]>,
}

pub(crate) const ZIP64: u16 = 0x0001;
const UNICODE_PATH: u16 = 0x7075;
/// Padding that moves the data to a multiple of a power of two: the alignment in 16 bits, then zeros. The application note does not
/// define it; Apache Commons Compress and the `zip` crate write it.
const ALIGNMENT: u16 = 0xA11E;

/// The values in a zip64 field, in this order; each is present if the corresponding 32-bit or 16-bit value is saturated (§4.5.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Zip64Values {
    pub(crate) size: Option<u64>,
    pub(crate) compressed_size: Option<u64>,
    pub(crate) header_offset: Option<u64>,
}

impl<'a> ExtraFields<'a> {
    /// Reads the extra fields of the header at `offset`.
    ///
    /// Skips up to three bytes at the end that are too short for a field: some tools write them as padding.
    pub(crate) fn parse(mut bytes: &'a [u8], offset: u64) -> Result<Self, ArchiveError> {
        let mut fields = Self::default();
        while let [id_0, id_1, length_0, length_1, rest @ ..] = bytes {
            let id = u16::from_le_bytes([*id_0, *id_1]);
            let length = usize::from(u16::from_le_bytes([*length_0, *length_1]));
            let Some((data, behind)) = rest.split_at_checked(length) else {
                return Err(ArchiveError::format(
                    format_args!("extra field {id:#06x}"),
                    offset,
                    format_args!("{length} bytes"),
                    format_args!("{}", rest.len()),
                ));
            };
            let seen = match id {
                ZIP64 => fields.zip64.replace(data).is_some(),
                UNICODE_PATH => fields.unicode_path.replace(data).is_some(),
                _ => false,
            };
            if seen {
                return Err(ArchiveError::format(format_args!("extra field {id:#06x}"), offset, "one", "two"));
            }
            bytes = behind;
        }
        Ok(fields)
    }

    /// Takes the 64-bit values of those that are `saturated` from the zip64 field. The order is: size, compressed size, offset of the
    /// local header, disk number.
    pub(crate) fn zip64_values(&self, saturated: [bool; 4], offset: u64) -> Result<Zip64Values, ArchiveError> {
        let mut data = self.zip64.unwrap_or_default();
        let missing = |name: &str| {
            let found = if self.zip64.is_some() { "a shorter one" } else { "none" };
            ArchiveError::format("zip64 extra field", offset, format_args!("one with the {name}"), found)
        };
        let mut next = |wanted: bool, name: &str| -> Result<Option<u64>, ArchiveError> {
            if !wanted {
                return Ok(None);
            }
            let (value, rest) = data.split_first_chunk::<8>().ok_or_else(|| missing(name))?;
            data = rest;
            Ok(Some(u64::from_le_bytes(*value)))
        };
        let values = Zip64Values {
            size: next(saturated[0], "size")?,
            compressed_size: next(saturated[1], "compressed size")?,
            header_offset: next(saturated[2], "offset of the local header")?,
        };
        if saturated[3] {
            let (disk, _) = data.split_first_chunk::<4>().ok_or_else(|| missing("disk number"))?;
            if u32::from_le_bytes(*disk) != 0 {
                return Err(ArchiveError::unsupported("an archive on several disks", format_args!("{disk:?}")));
            }
        }
        Ok(values)
    }

    /// Checks that the Unicode path, if there is one, equals the header's `name`.
    ///
    /// Tools that honour it would otherwise see a different name.
    pub(crate) fn check_unicode_path(&self, name: &[u8], offset: u64) -> Result<(), ArchiveError> {
        match self.unicode_path {
            // Version 1, CRC-32 of the header's name, the name.
            Some([1, _, _, _, _, path @ ..]) if path != name => Err(ArchiveError::format(
                "Unicode path extra field",
                offset,
                format_args!("the name `{}`", name.escape_ascii()),
                format_args!("`{}`", path.escape_ascii()),
            )),
            _ => Ok(()),
        }
    }
}

impl Zip64Values {
    /// Appends a field with the values that are present, or nothing if none is.
    pub(crate) fn write(&self, output: &mut Vec<u8>) {
        let values = [self.size, self.compressed_size, self.header_offset];
        let n_values = values.iter().flatten().count() as u16;
        if n_values == 0 {
            return;
        }
        output.extend_from_slice(&ZIP64.to_le_bytes());
        output.extend_from_slice(&(8 * n_values).to_le_bytes());
        for value in values.iter().flatten() {
            output.extend_from_slice(&value.to_le_bytes());
        }
    }
}

/// The length of the shortest padding that [`write_padding`] can write.
pub(crate) const MIN_PADDING: usize = 6;

/// Appends a padding field of `length` bytes in total, at least [`MIN_PADDING`]. It records `alignment`, to a multiple of which it pads.
pub(crate) fn write_padding(length: usize, alignment: u16, output: &mut Vec<u8>) {
    let end = output.len() + length;
    output.extend_from_slice(&ALIGNMENT.to_le_bytes());
    output.extend_from_slice(&(length.saturating_sub(4) as u16).to_le_bytes());
    output.extend_from_slice(&alignment.to_le_bytes());
    output.resize(end, 0);
}
