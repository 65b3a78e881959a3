//! The elements of a tensor, from whichever field has them, piece by piece.

use std::ops::{ControlFlow, Range};

use super::error::{Problem, malformed, quoted};
use super::onnx_type::{OnnxType, Values};
use super::source::{FileSource, Message};
use super::tensor::TensorInfo;
use super::wire::Budget;
use crate::files::{ElementType, FileBytes, Visit, visit_range};

/// Gets bytes as `raw_data` has them.
type Raw<'r> = &'r mut dyn FnMut(&[u8]) -> Result<(), Problem>;

/// Passes the elements of a tensor to `visit`, in pieces of `n_elements`; of those of less than a byte in the file, of the next multiple of 8.
/// `raw` passes the bytes of `raw_data`, or what it would have, in pieces of the size that it gets.
pub(super) fn visit_elements(
    tensor: &TensorInfo,
    of: OnnxType,
    n_elements: usize,
    visit: Visit<'_>,
    raw: impl FnOnce(usize, Raw<'_>) -> Result<(), Problem>,
) -> Result<(), Problem> {
    // Any 8 elements are a whole number of bytes, as many as an element has bits.
    let bits = of.bits() as usize;
    let (unit, unit_bytes) = if bits < 8 { (8, bits) } else { (1, bits / 8) };
    let piece = n_elements.div_ceil(unit).clamp(1, usize::MAX / unit_bytes.max(1)).saturating_mul(unit_bytes);
    let mut left = usize::try_from(tensor.n_elements()).unwrap_or(usize::MAX);
    let mut elements = Vec::new();
    raw(piece, &mut |bytes| {
        let shown = if of.is_narrow_integer() {
            elements.clear();
            of.unpack(bytes, left, &mut elements);
            left = left.saturating_sub(elements.len());
            &elements
        } else {
            if of == OnnxType::Bool && bytes.iter().any(|byte| *byte > 1) {
                return malformed(format!("bools of tensor {} are neither 0 nor 1", quoted(&tensor.name)));
            }
            bytes
        };
        match visit(shown) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Problem::Stopped),
        }
    })
}

/// Passes a range of a file in pieces of `n_bytes`.
pub(super) fn visit_raw(file: &FileBytes, range: Range<u64>, n_bytes: usize, each: Raw<'_>) -> Result<(), Problem> {
    let mut failure = None;
    visit_range(file, range, n_bytes, &mut |bytes| match each(bytes) {
        Ok(()) => ControlFlow::Continue(()),
        Err(problem) => {
            failure = Some(problem);
            ControlFlow::Break(())
        }
    })?;
    failure.map_or(Ok(()), Err)
}

/// Collects bytes, and passes them on in pieces.
struct Pieces<'e> {
    bytes: Vec<u8>,
    n_bytes: usize,
    each: Raw<'e>,
}

impl Pieces<'_> {
    fn push(&mut self, mut bytes: &[u8]) -> Result<(), Problem> {
        while !bytes.is_empty() {
            let free = self.n_bytes.saturating_sub(self.bytes.len()).max(1);
            let (now, later) = bytes.split_at(free.min(bytes.len()));
            self.bytes.extend_from_slice(now);
            bytes = later;
            if self.bytes.len() >= self.n_bytes {
                self.finish()?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Problem> {
        if !self.bytes.is_empty() {
            (self.each)(&self.bytes)?;
            self.bytes.clear();
        }
        Ok(())
    }
}

/// Passes the values of the message of a tensor as `raw_data` would have them, in pieces of `n_bytes`.
pub(super) fn visit_values(
    file: &FileBytes,
    message: Range<u64>,
    tensor: &TensorInfo,
    of: OnnxType,
    n_bytes: usize,
    each: Raw<'_>,
) -> Result<(), Problem> {
    let (source, budget) = (FileSource::new(file.clone()), Budget::default());
    let (number, field_name) = of.values().field();
    let expected = of.n_values(tensor.n_elements()).unwrap_or(u64::MAX);
    let mut pieces = Pieces { bytes: Vec::new(), n_bytes, each };
    let mut count = 0_u64;
    let is_float6 = matches!(of, OnnxType::Float6E2m3 | OnnxType::Float6E3m2);
    let mut float6 = (0_u32, 0_u32);
    for field in Message::new(&source, message, &budget) {
        let field = field?;
        if field.number() != number {
            continue;
        }
        if let Some(size) = of.values().size() {
            let range = field.fixed(size)?;
            count = count.saturating_add((range.end - range.start) / size);
            visit_raw(file, range, n_bytes, &mut |bytes| pieces.push(bytes))?;
            continue;
        }
        field.integers(|value| {
            count += 1;
            if count > expected {
                return malformed(format!(
                    "`{field_name}` of tensor {} has more than {expected} values",
                    quoted(&tensor.name)
                ));
            }
            if !of.has_value(value) {
                return malformed(format!(
                    "value {} of `{field_name}` of tensor {} is {value}, which {} has not",
                    count - 1,
                    quoted(&tensor.name),
                    of.name()
                ));
            }
            if is_float6 {
                // Four elements are packed into three bytes, from the lowest bit on.
                let (packed, n_packed) = float6;
                // The value is from 0 to 63.
                let packed = packed | (value as u32) << (6 * n_packed);
                float6 = (packed, n_packed + 1);
                if n_packed == 3 {
                    float6 = (0, 0);
                    let [first, second, third, _] = packed.to_le_bytes();
                    return pieces.push(&[first, second, third]);
                }
                return Ok(());
            }
            // The value is in the range of the type, so that it is in its lowest bytes.
            let bytes = value.to_le_bytes();
            pieces.push(bytes.get(..of.value_bits() as usize / 8).unwrap_or_default())
        })?;
    }
    if count != expected {
        return malformed(format!(
            "`{field_name}` of tensor {} has {count} values, expected {expected}",
            quoted(&tensor.name)
        ));
    }
    pieces.finish()
}

/// Passes the strings in the message of a tensor.
pub(super) fn visit_strings(
    file: &FileBytes,
    message: Range<u64>,
    tensor: &TensorInfo,
    mut each: impl FnMut(String) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let (source, budget) = (FileSource::new(file.clone()), Budget::default());
    for field in Message::new(&source, message, &budget) {
        let field = field?;
        if field.number() != Values::String.field().0 {
            continue;
        }
        let bytes = file.read(field.range()?)?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => each(text.to_owned())?,
            Err(_) => {
                return malformed(format!(
                    "a string of tensor {} at byte {} is not valid UTF-8",
                    quoted(&tensor.name),
                    field.offset()
                ));
            }
        }
    }
    Ok(())
}

/// Calls `each` for the position of each value of a sparse tensor among the elements of the dense one. They ascend.
pub(super) fn visit_positions(
    tensor: &TensorInfo,
    indices: &[u8],
    is_linear: bool,
    mut each: impl FnMut(u64) -> Result<(), Problem>,
) -> Result<(), Problem> {
    debug_assert_eq!(ElementType::Int64.bits(), 64);
    let n_elements = tensor.n_elements();
    let rank = if is_linear { 1 } else { tensor.shape.len() };
    let mut next = 0;
    let wrong = |number: usize, what: String| {
        malformed(format!("index {number} of sparse tensor {} {what}", quoted(&tensor.name)))
    };
    let (numbers, _) = indices.as_chunks();
    for (number, index) in numbers.chunks(rank.max(1)).enumerate() {
        let mut position = 0_u64;
        for (dimension, coordinate) in index.iter().enumerate() {
            let coordinate = i64::from_le_bytes(*coordinate);
            let size = if is_linear { n_elements } else { tensor.shape.get(dimension).map_or(0, |size| *size as u64) };
            match u64::try_from(coordinate).ok().filter(|coordinate| *coordinate < size) {
                // Less than the number of elements, which fits.
                Some(coordinate) => position = position.saturating_mul(size).saturating_add(coordinate),
                None => return wrong(number, format!("has {coordinate}, expected from 0 to below {size}")),
            }
        }
        if position < next {
            return wrong(number, "does not follow the one before, expected ascending indices".to_owned());
        }
        next = position + 1;
        each(position)?;
    }
    Ok(())
}
