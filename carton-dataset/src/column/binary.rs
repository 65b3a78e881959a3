//! Binary values: the bytes of tensors whose dtype, and perhaps shape, the options give (spec/dataset.md §4.2).

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryViewType, ByteViewType};
use arrow_array::{Array, ArrayRef, GenericBinaryArray, GenericByteViewArray, OffsetSizeTrait};
use arrow_buffer::Buffer;
use arrow_data::{ByteView, MAX_INLINE_VIEW_LEN};
use arrow_schema::DataType;
use carton_tensor::files::ElementType;
use carton_tensor::{CastProblem, LostNumber, element_count};

use super::fault::Fault;
use super::run::{Gathered, Run, slice};
use super::target::Target;
use crate::error::ColumnProblem;

/// Whether a type is binary.
pub(super) fn is_binary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_))
}

/// Converts an array of binary values, none of them missing.
pub(super) fn runs(array: &ArrayRef, target: &Target) -> Result<Vec<Run>, Fault> {
    let runs = of_bytes(array, target)?;
    check_bools(&runs)?;
    Ok(runs)
}

/// Checks that every bool is 0 or 1, because readers disagree about the meaning of other bytes.
fn check_bools(runs: &[Run]) -> Result<(), Fault> {
    let mut first_row = 0;
    for run in runs {
        if run.dtype == ElementType::Bool
            && let Some(position) = run.bytes.iter().position(|&byte| byte > 1)
        {
            let value = run.bytes.get(position).map_or_else(String::new, |byte| format!("byte {byte}"));
            let row = first_row + position.checked_div(run.row_bytes()).unwrap_or(0);
            let lost = LostNumber { position, value, to: run.dtype.name(), problem: CastProblem::OutOfRange };
            return Err(Fault { row, problem: ColumnProblem::Number(lost) });
        }
        first_row += run.n_rows;
    }
    Ok(())
}

fn of_bytes(array: &ArrayRef, target: &Target) -> Result<Vec<Run>, Fault> {
    match array.data_type() {
        DataType::Binary => of_offsets(array.as_binary::<i32>(), target),
        DataType::LargeBinary => of_offsets(array.as_binary::<i64>(), target),
        DataType::BinaryView => {
            let array = array.as_byte_view::<BinaryViewType>();
            let mut gathered = Gathered::default();
            for row in 0..array.len() {
                let at = |problem| Fault { row, problem };
                let bytes = of_view(array, row).map_err(at)?;
                let shape = shape(bytes.len(), target).map_err(at)?;
                gathered.push(target.dtype, &shape, bytes);
            }
            Ok(gathered.finish())
        }
        DataType::FixedSizeBinary(_) if array.is_empty() => Ok(Vec::new()),
        DataType::FixedSizeBinary(_) => {
            let array = array.as_fixed_size_binary();
            let length = array.value_size();
            let at = |problem| Fault { row: 0, problem };
            let shape = shape(length, target).map_err(at)?;
            let bytes = slice(array.values(), 0, length * array.len()).map_err(at)?;
            Ok(vec![Run { dtype: target.dtype, shape, n_rows: array.len(), bytes }])
        }
        other => Err(Fault { row: 0, problem: ColumnProblem::Unsupported(other.clone()) }),
    }
}

/// Converts an array whose values lie one after another in a buffer.
fn of_offsets<O: OffsetSizeTrait>(array: &GenericBinaryArray<O>, target: &Target) -> Result<Vec<Run>, Fault> {
    let offsets = array.value_offsets();
    let mut runs: Vec<Run> = Vec::new();
    let mut start = offsets.first().map_or(0, |first| first.as_usize());
    // Rows `first..row` are of one length and begin at `start`.
    let mut first = 0;
    let length = |row: usize| array.value_length(row).as_usize();
    for row in 0..array.len() {
        if row + 1 < array.len() && length(row + 1) == length(first) {
            continue;
        }
        let n_rows = row + 1 - first;
        let at = |problem| Fault { row: first, problem };
        let shape = shape(length(first), target).map_err(at)?;
        let n_bytes = length(first) * n_rows;
        let bytes = slice(array.values(), start, n_bytes).map_err(at)?;
        runs.push(Run { dtype: target.dtype, shape, n_rows, bytes });
        (start, first) = (start + n_bytes, row + 1);
    }
    Ok(runs)
}

/// Returns a value of an array whose values may lie anywhere in several buffers.
fn of_view(array: &GenericByteViewArray<BinaryViewType>, row: usize) -> Result<Buffer, ColumnProblem> {
    let bytes: &<BinaryViewType as ByteViewType>::Native = array.value(row);
    let view = array.views().get(row).map(|view| ByteView::from(*view));
    match view {
        Some(view) if view.length > MAX_INLINE_VIEW_LEN => match array.data_buffers().get(view.buffer_index as usize) {
            Some(buffer) => slice(buffer, view.offset as usize, view.length as usize),
            None => Ok(Buffer::from(bytes)),
        },
        _ => Ok(Buffer::from(bytes)),
    }
}

/// Returns the shape of a tensor of `n_bytes` bytes: the requested one, or a vector.
pub(super) fn shape(n_bytes: usize, target: &Target) -> Result<Vec<usize>, ColumnProblem> {
    let dtype = target.dtype;
    if let Some(shape) = &target.shape {
        let expected = size(dtype, shape)?;
        if expected != n_bytes {
            return Err(ColumnProblem::Bytes { expected: expected as u64, found: n_bytes as u64 });
        }
        return Ok(shape.clone());
    }
    let n_bits = n_bytes.checked_mul(8).unwrap_or(0);
    if n_bits.is_multiple_of(dtype.bits()) {
        Ok(vec![n_bits / dtype.bits()])
    } else {
        Err(ColumnProblem::PartialElement { dtype, found: n_bytes as u64 })
    }
}

/// Returns the size of a tensor in bytes.
pub(super) fn size(dtype: ElementType, shape: &[usize]) -> Result<usize, ColumnProblem> {
    element_count(shape)
        .and_then(|n_elements| dtype.n_bytes(n_elements))
        .ok_or_else(|| ColumnProblem::NoSize { dtype, shape: shape.to_vec() })
}
