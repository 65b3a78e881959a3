//! Checks the pages of a Parquet file before `parquet` decodes them, because `parquet` allocates memory for as many values as a page
//! claims.

use std::sync::Arc;

use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use super::parquet_headers::PageFile;

/// The largest accepted number of strings in a page whose lengths are decoded all at once. Writers end pages after some ten thousand
/// values.
const MAX_STRINGS: u64 = 1 << 24;

/// One row group of a file.
#[derive(Clone)]
pub(super) struct RowGroup {
    pub(super) file: Arc<PageFile>,
    pub(super) metadata: Arc<ParquetMetaData>,
    pub(super) position: usize,
}

impl RowGroup {
    /// The metadata of the row group.
    pub(super) fn described(&self) -> Option<&RowGroupMetaData> {
        self.metadata.row_groups().get(self.position)
    }

    fn pages(&self, column: usize) -> Result<CheckedPages> {
        let described = self.described();
        let chunk = described.and_then(|row_group| Some((row_group.num_rows(), row_group.columns().get(column)?)));
        let Some((n_rows, chunk)) = chunk else {
            return Err(ParquetError::General(format!("row group {} has no column {column}", self.position)));
        };
        let descriptor = chunk.column_descr();
        let levels = [descriptor.max_rep_level() > 0, descriptor.max_def_level() > 0];
        let n_rows = usize::try_from(n_rows).unwrap_or_default();
        Ok(CheckedPages { pages: SerializedPageReader::new(Arc::clone(&self.file), chunk, n_rows, None)?, levels })
    }

    /// Returns the length of the longest byte string in the dictionary of a column; 0 without a dictionary. A row can refer to that
    /// string by a few bits.
    pub(super) fn longest_in_dictionary(&self, column: usize) -> Result<u64> {
        let Some(Page::DictionaryPage { buf, .. }) = self.pages(column)?.get_next_page()? else { return Ok(0) };
        let mut rest = buf.as_ref();
        let mut longest = 0;
        while let Some((length, after)) = rest.split_first_chunk() {
            let length = u32::from_le_bytes(*length);
            longest = longest.max(length.into());
            let after = usize::try_from(length).ok().and_then(|length| after.get(length..));
            rest = after.ok_or_else(|| ParquetError::EOF("a dictionary that ends inside a value".into()))?;
        }
        Ok(longest)
    }
}

impl RowGroups for RowGroup {
    fn num_rows(&self) -> usize {
        self.described().and_then(|row_group| usize::try_from(row_group.num_rows()).ok()).unwrap_or_default()
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>> {
        Ok(Box::new(Chunk(Some(self.pages(column)?))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.described().into_iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The pages of a column chunk, of which a row group has one for each column.
struct Chunk(Option<CheckedPages>);

impl Iterator for Chunk {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(Ok(Box::new(self.0.take()?)))
    }
}

impl PageIterator for Chunk {}

/// The pages of a column chunk, each checked before it is returned.
struct CheckedPages {
    pages: SerializedPageReader<PageFile>,
    /// Whether the column has repetition levels, and definition levels.
    levels: [bool; 2],
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        if let Some(page) = &page {
            check(page, self.levels)?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}

fn check(page: &Page, levels: [bool; 2]) -> Result<()> {
    let general = |problem: String| Err(ParquetError::General(problem));
    let (values, n_values, encoding) = match page {
        Page::DictionaryPage { buf, num_values, .. } => {
            // Each value takes at least one byte.
            return match u64::from(*num_values) <= buf.len() as u64 {
                true => Ok(()),
                false => general(format!("a dictionary of {num_values} values in {} bytes", buf.len())),
            };
        }
        Page::DataPage { buf, num_values, encoding, .. } => {
            let mut rest = buf.as_ref();
            if is_delta(*encoding) {
                for _ in levels.iter().filter(|has_levels| **has_levels) {
                    rest = skip_levels(rest)
                        .ok_or_else(|| ParquetError::EOF("levels that end after their page".into()))?;
                }
            }
            (rest, *num_values, *encoding)
        }
        Page::DataPageV2 { buf, num_values, encoding, def_levels_byte_len, rep_levels_byte_len, .. } => {
            let start = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
            let rest = usize::try_from(start).ok().and_then(|start| buf.get(start..));
            let rest = rest.ok_or_else(|| ParquetError::EOF("levels that end after their page".into()))?;
            (rest, *num_values, *encoding)
        }
    };
    if !is_delta(encoding) {
        return Ok(());
    }
    let most = u64::from(n_values).min(MAX_STRINGS);
    let mut rest = values;
    // One block of lengths; or lengths of prefixes, then lengths of suffixes.
    for _ in 0..if encoding == Encoding::DELTA_BYTE_ARRAY { 2 } else { 1 } {
        match skip_delta(rest, most) {
            Ok(after) => rest = after,
            Err(problem) => return general(problem),
        }
    }
    Ok(())
}

/// Whether the encoding stores the lengths of strings apart from their bytes.
fn is_delta(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::DELTA_LENGTH_BYTE_ARRAY | Encoding::DELTA_BYTE_ARRAY)
}

/// Returns the bytes after levels that begin with their length.
fn skip_levels(page: &[u8]) -> Option<&[u8]> {
    let (length, rest) = page.split_first_chunk()?;
    rest.get(usize::try_from(u32::from_le_bytes(*length)).ok()?..)
}

/// Returns the bytes after numbers in the encoding `DELTA_BINARY_PACKED`, of which there may be at most `most`.
fn skip_delta(mut bytes: &[u8], most: u64) -> std::result::Result<&[u8], String> {
    let ends = || "deltas that end after their page".to_owned();
    let block_size = varint(&mut bytes).ok_or_else(ends)?;
    let n_miniblocks = varint(&mut bytes).ok_or_else(ends)?;
    let n_values = varint(&mut bytes).ok_or_else(ends)?;
    if n_values > most {
        return Err(format!("{n_values} lengths of strings in a page of at most {most} values"));
    }
    varint(&mut bytes).ok_or_else(ends)?;
    let per_miniblock =
        block_size.checked_div(n_miniblocks).filter(|size| *size > 0 && size.is_multiple_of(32)).ok_or_else(ends)?;
    let mut left = n_values.saturating_sub(1);
    while left > 0 {
        varint(&mut bytes).ok_or_else(ends)?;
        let n_widths = usize::try_from(n_miniblocks).map_err(|_| ends())?;
        let widths = bytes.get(..n_widths).ok_or_else(ends)?;
        bytes = bytes.get(n_widths..).ok_or_else(ends)?;
        for &width in widths {
            if left == 0 {
                break;
            }
            let n_bytes = per_miniblock.checked_mul(width.into()).map(|n_bits| n_bits / 8).ok_or_else(ends)?;
            let n_bytes = usize::try_from(n_bytes).map_err(|_| ends())?;
            // The last miniblock may be truncated after its values.
            bytes =
                bytes.get(n_bytes.min(if left <= per_miniblock { bytes.len() } else { n_bytes })..).ok_or_else(ends)?;
            left = left.saturating_sub(per_miniblock);
        }
    }
    Ok(bytes)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if *first < 0x80 {
            return Some(value);
        }
    }
    None
}
