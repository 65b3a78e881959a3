//! Computes which bytes of a message's body the requested columns need. Pure.

use std::ops::Range;

use arrow_ipc::RecordBatch;
use arrow_schema::{DataType, Schema};

/// Two buffers that are at most this many bytes apart are read by one request.
const GAP: u64 = 4096;

/// Returns the ranges of the body that these columns need, sorted and not overlapping; `None` if they cannot be determined, so that the
/// whole body has to be read. Buffers follow one another in the order of the columns, and each type has a fixed number of them.
pub(super) fn ranges(schema: &Schema, columns: &[usize], batch: RecordBatch<'_>) -> Option<Vec<Range<u64>>> {
    let buffers = batch.buffers()?;
    let mut variadic = batch.variadicBufferCounts().into_iter().flatten();
    let mut ranges = Vec::new();
    let mut next = 0_usize;
    for (position, field) in schema.fields().iter().enumerate() {
        let end = next.checked_add(n_buffers(field.data_type(), &mut variadic)?)?;
        if end > buffers.len() {
            return None;
        }
        if columns.contains(&position) {
            for buffer in (next..end).map(|position| buffers.get(position)) {
                let (start, length) = (u64::try_from(buffer.offset()).ok()?, u64::try_from(buffer.length()).ok()?);
                if length > 0 {
                    ranges.push(start..start.checked_add(length)?);
                }
            }
        }
        next = end;
    }
    if next != buffers.len() {
        return None;
    }
    Some(merged(ranges))
}

fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(GAP) => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Returns the number of buffers of a column of this type; `None` for types whose number depends on the version of the format.
fn n_buffers(data_type: &DataType, variadic: &mut impl Iterator<Item = i64>) -> Option<usize> {
    Some(match data_type {
        DataType::Null => 0,
        DataType::Utf8 | DataType::Binary | DataType::LargeUtf8 | DataType::LargeBinary => 3,
        DataType::Utf8View | DataType::BinaryView => 2_usize.checked_add(usize::try_from(variadic.next()?).ok()?)?,
        DataType::List(field) | DataType::LargeList(field) | DataType::Map(field, _) => {
            n_buffers(field.data_type(), variadic)?.checked_add(2)?
        }
        DataType::FixedSizeList(field, _) => n_buffers(field.data_type(), variadic)?.checked_add(1)?,
        DataType::Struct(fields) => {
            let mut sum = 1_usize;
            for field in fields {
                sum = sum.checked_add(n_buffers(field.data_type(), variadic)?)?;
            }
            sum
        }
        DataType::ListView(_) | DataType::LargeListView(_) | DataType::Union(..) | DataType::RunEndEncoded(..) => {
            return None;
        }
        // A validity bitmap, and a number or a dictionary index for each value.
        _ => 2,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_ranges_are_read_at_once() {
        assert_eq!(merged(vec![9000..9010, 0..8, 64..128, 100..110]), [0..128, 9000..9010]);
        assert_eq!(merged(Vec::new()), []);
    }
}
