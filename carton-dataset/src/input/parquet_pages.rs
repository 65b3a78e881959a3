//! The pages of a Parquet file, looked at before `parquet` decodes them, which takes memory for as many values as a page claims.

use std::fs::File;
use std::sync::Arc;

use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

/// The strings of a page whose lengths are kept all at once. Writers end pages after some ten thousand values.
const MAX_STRINGS: u64 = 1 << 24;

/// All row groups of a file.
pub(super) struct Chunks {
    pub(super) file: Arc<File>,
    pub(super) metadata: Arc<ParquetMetaData>,
}

impl RowGroups for Chunks {
    fn num_rows(&self) -> usize {
        usize::try_from(self.metadata.file_metadata().num_rows()).unwrap_or_default()
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>> {
        let (file, metadata) = (Arc::clone(&self.file), Arc::clone(&self.metadata));
        Ok(Box::new(ColumnPages { file, metadata, column, next: 0 }))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.metadata.row_groups().iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The chunks of a column, one a row group.
struct ColumnPages {
    file: Arc<File>,
    metadata: Arc<ParquetMetaData>,
    column: usize,
    next: usize,
}

impl Iterator for ColumnPages {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        let row_group = self.metadata.row_groups().get(self.next)?;
        self.next += 1;
        let Some(chunk) = row_group.columns().get(self.column) else {
            return Some(Err(ParquetError::General(format!("row group {} has no column {}", self.next, self.column))));
        };
        let n_rows = usize::try_from(row_group.num_rows()).unwrap_or_default();
        let column = chunk.column_descr();
        let levels = [column.max_rep_level() > 0, column.max_def_level() > 0];
        let pages = SerializedPageReader::new(Arc::clone(&self.file), chunk, n_rows, None);
        Some(pages.map(|pages| Box::new(CheckedPages { pages, levels }) as Box<dyn PageReader>))
    }
}

impl PageIterator for ColumnPages {}

/// The pages of a chunk, each checked.
struct CheckedPages {
    pages: SerializedPageReader<File>,
    /// Whether there are repetition and definition levels.
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
            // Each value takes a byte at least.
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
    // Lengths; or lengths of prefixes and then of suffixes.
    for _ in 0..if encoding == Encoding::DELTA_BYTE_ARRAY { 2 } else { 1 } {
        match skip_delta(rest, most) {
            Ok(after) => rest = after,
            Err(problem) => return general(problem),
        }
    }
    Ok(())
}

/// Whether the lengths of strings are encoded apart from them.
fn is_delta(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::DELTA_LENGTH_BYTE_ARRAY | Encoding::DELTA_BYTE_ARRAY)
}

/// What follows levels that begin with their length.
fn skip_levels(page: &[u8]) -> Option<&[u8]> {
    let (length, rest) = page.split_first_chunk()?;
    rest.get(usize::try_from(u32::from_le_bytes(*length)).ok()?..)
}

/// What follows numbers of the encoding `DELTA_BINARY_PACKED`, of which there are at most `most`.
fn skip_delta(mut bytes: &[u8], most: u64) -> std::result::Result<&[u8], String> {
    let ends = || "deltas that end after their page".to_owned();
    let block_size = varint(&mut bytes).ok_or_else(ends)?;
    let n_miniblocks = varint(&mut bytes).ok_or_else(ends)?;
    let n_values = varint(&mut bytes).ok_or_else(ends)?;
    if n_values > most {
        return Err(format!("{n_values} lengths of strings in a page of at most {most} values"));
    }
    varint(&mut bytes).ok_or_else(ends)?;
    let per_miniblock = block_size.checked_div(n_miniblocks).filter(|size| *size > 0).ok_or_else(ends)?;
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
            // The last one may be cut off where its values end.
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
