//! The elements of an `.npy` file: reads them in bounded steps, converts them to C order and little-endian, and writes them.

use std::io::{self, Read, Write};

use bytemuck::Pod;
use ndarray::{ArrayView, ArrayViewMut, IxDyn, ShapeBuilder};

use super::error::Problem;
use super::header::{self, DtypeKind, Header};
use crate::fill::fill;
use crate::position::index_of;
use crate::{AlignedBytes, BytesTensor, DataType, NumericTensor, StringTensor, Tensor, TensorError, element_count};

/// The bytes to allocate before any data has arrived, for a reader of unknown size.
const FIRST_STEP: usize = 1 << 20;

/// Reads exactly `n_bytes`. If `known` is false, the bytes may be missing, so the allocation only grows as data arrives.
pub(super) fn read_bytes(reader: &mut impl Read, n_bytes: u64, known: bool) -> Result<AlignedBytes, Problem> {
    let too_large = |_| Problem::TooLarge { needed: n_bytes, limit: usize::MAX as u64 };
    let total = usize::try_from(n_bytes).map_err(too_large)?;
    let mut bytes = zeroed(if known { total } else { total.min(FIRST_STEP) })?;
    let mut filled = 0;
    loop {
        let room = &mut bytes.as_mut_slice()[filled..];
        let wanted = room.len();
        let found = fill(reader, room)?;
        filled += found;
        if found < wanted {
            return Err(truncated(n_bytes, filled as u64));
        }
        if filled == total {
            return Ok(bytes);
        }
        let mut larger = zeroed(filled.saturating_mul(2).min(total))?;
        larger.as_mut_slice()[..filled].copy_from_slice(bytes.as_slice());
        bytes = larger;
    }
}

fn truncated(expected: u64, found: u64) -> Problem {
    Problem::Format(format!("it is truncated: its array should have {expected} bytes, found {found}"))
}

/// Reads bytes in pieces of one size, but for the last.
#[cfg(feature = "weights")]
pub(super) struct Pieces {
    n_bytes: u64,
    filled: u64,
    piece: usize,
    buffer: AlignedBytes,
}

#[cfg(feature = "weights")]
impl Pieces {
    /// Pieces of `piece` bytes, of `n_bytes` in all.
    pub(super) fn new(n_bytes: u64, piece: usize) -> Self {
        Self { n_bytes, filled: 0, piece: piece.max(1), buffer: AlignedBytes::zeroed(0) }
    }

    /// Reads the next piece; `None` after the last.
    pub(super) fn next(&mut self, reader: &mut impl Read) -> Result<Option<&mut [u8]>, Problem> {
        let rest = usize::try_from(self.n_bytes - self.filled).unwrap_or(usize::MAX);
        let wanted = rest.min(self.piece);
        if wanted == 0 {
            return Ok(None);
        }
        if self.buffer.as_slice().len() < wanted {
            self.buffer = zeroed(wanted)?;
        }
        let piece = self.buffer.as_mut_slice().get_mut(..wanted).unwrap_or_default();
        let found = fill(reader, piece)?;
        self.filled += found as u64;
        if found < wanted {
            return Err(truncated(self.n_bytes, self.filled));
        }
        Ok(Some(piece))
    }
}

/// Makes a tensor of the bytes as they are in the file.
pub(super) fn decode(header: Header, bytes: AlignedBytes) -> Result<Tensor, Problem> {
    match header.dtype.kind {
        DtypeKind::Number(dtype) => {
            let bytes = into_little_endian_c_order(&header, bytes)?;
            if dtype == DataType::Bool
                && let Some(position) = bytes.as_slice().iter().position(|&byte| byte > 1)
            {
                let found = bytes.as_slice()[position];
                let index = index_of(position, &header.shape);
                return Err(Problem::Format(format!(
                    "element {index:?}: expected 0 or 1, the values of bool, found {found}"
                )));
            }
            let tensor = NumericTensor::new(dtype, header.shape, std::sync::Arc::new(bytes)).map_err(of_tensor)?;
            Ok(tensor.into())
        }
        DtypeKind::Unicode(_) => Ok(decode_strings(header, bytes.as_slice())?.into()),
        // NumPy's bytes are texts to most who save them. Those that are none stay bytes.
        DtypeKind::Bytes(size) => {
            let trimmed = |element: &[u8]| {
                element[..element.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)].to_vec()
            };
            let elements: Vec<Vec<u8>> = bytes.as_slice().chunks_exact(size.max(1)).map(trimmed).collect();
            if elements.iter().all(|element| std::str::from_utf8(element).is_ok()) {
                return Ok(decode_strings(header, bytes.as_slice())?.into());
            }
            Ok(BytesTensor::new(c_order(&header, elements)?, header.shape).map_err(of_tensor)?.into())
        }
    }
}

#[allow(clippy::needless_pass_by_value)] // `map_err` passes it by value.
fn of_tensor(error: TensorError) -> Problem {
    Problem::Format(error.to_string())
}

fn zeroed(len: usize) -> Result<AlignedBytes, Problem> {
    AlignedBytes::try_zeroed(len).ok_or_else(|| Problem::Io(io::ErrorKind::OutOfMemory.into()))
}

pub(super) fn into_little_endian_c_order(header: &Header, mut bytes: AlignedBytes) -> Result<AlignedBytes, Problem> {
    into_little_endian(header, bytes.as_mut_slice())?;
    if is_c_order(header) {
        return Ok(bytes);
    }
    match header.dtype.kind.size() {
        Some(16) => transposed::<u128>(header, &bytes),
        Some(2) => transposed::<u16>(header, &bytes),
        Some(4) => transposed::<u32>(header, &bytes),
        Some(8) => transposed::<u64>(header, &bytes),
        _ => transposed::<u8>(header, &bytes),
    }
}

/// Swaps the bytes of each number, if the file has them big-endian. The bytes are aligned for their type.
pub(super) fn into_little_endian(header: &Header, bytes: &mut [u8]) -> Result<(), Problem> {
    let kind = header.dtype.kind;
    if !header.dtype.big_endian {
        return Ok(());
    }
    match kind.size() {
        // An element is two numbers. Swapping all its bytes also exchanges the numbers, and the rotation restores their order.
        Some(8) if kind == DtypeKind::Number(DataType::Complex64) => {
            swap::<u64>(bytes, |both| both.swap_bytes().rotate_left(32))
        }
        Some(16) => swap::<u128>(bytes, |both| both.swap_bytes().rotate_left(64)),
        Some(2) => swap::<u16>(bytes, u16::swap_bytes),
        Some(4) => swap::<u32>(bytes, u32::swap_bytes),
        Some(8) => swap::<u64>(bytes, u64::swap_bytes),
        _ => Ok(()),
    }
}

/// Whether the file has the elements as a tensor has them.
#[cfg(feature = "files")]
pub(super) fn is_little_endian_c_order(header: &Header) -> bool {
    (!header.dtype.big_endian || header.dtype.kind.size() == Some(1)) && is_c_order(header)
}

/// Whether the elements are in C order. With at most one dimension larger than one, both orders are the same. They are also the same for an
/// array without elements, whose shape ndarray may refuse.
pub(super) fn is_c_order(header: &Header) -> bool {
    let is_empty = header.shape.contains(&0);
    !header.fortran_order || is_empty || header.shape.iter().filter(|&&dimension| dimension != 1).count() <= 1
}

fn not_whole(_: bytemuck::PodCastError) -> Problem {
    Problem::Format("its array is not a whole number of elements".to_owned())
}

/// Replaces each word, which has the size of an element.
fn swap<T: Pod>(bytes: &mut [u8], swap: fn(T) -> T) -> Result<(), Problem> {
    let words: &mut [T] = bytemuck::try_cast_slice_mut(bytes).map_err(not_whole)?;
    for word in words {
        *word = swap(*word);
    }
    Ok(())
}

/// Returns the elements of an array in Fortran order in C order. Treats elements as plain words of their size.
fn transposed<T: Pod>(header: &Header, bytes: &AlignedBytes) -> Result<AlignedBytes, Problem> {
    let words: &[T] = bytemuck::try_cast_slice(bytes.as_slice()).map_err(not_whole)?;
    let refused = |error: ndarray::ShapeError| Problem::Format(format!("shape {:?}: {error}", header.shape));
    let mut transposed = zeroed(size_of_val(words))?;
    let target = bytemuck::try_cast_slice_mut(transposed.as_mut_slice()).map_err(not_whole)?;
    let source = ArrayView::from_shape(IxDyn(&header.shape).f(), words).map_err(refused)?;
    ArrayViewMut::from_shape(IxDyn(&header.shape), target).map_err(refused)?.assign(&source);
    Ok(transposed)
}

/// The bytes of strings that are checked at a time.
#[cfg(feature = "weights")]
const STRINGS_PIECE: usize = 1 << 20;

/// Checks strings as [`decode_strings`] does, without holding them. The elements follow in `reader`.
#[cfg(feature = "weights")]
pub(super) fn check_strings(reader: &mut impl Read, header: &Header, n_bytes: u64) -> Result<(), Problem> {
    let size = header.dtype.kind.size().unwrap_or_default().max(1);
    if size > STRINGS_PIECE {
        // A string is checked as a whole. Its size is only claimed, so the memory grows as it arrives.
        return (0..n_bytes / size as u64).try_for_each(|position| {
            let element = read_bytes(reader, size as u64, false)?;
            string(header, position as usize, element.as_slice()).map(drop)
        });
    }
    let mut pieces = Pieces::new(n_bytes, STRINGS_PIECE / size * size);
    let mut first = 0;
    while let Some(piece) = pieces.next(reader)? {
        for (position, element) in piece.chunks_exact(size).enumerate() {
            string(header, first + position, element)?;
        }
        first += piece.len() / size;
    }
    Ok(())
}

fn string(header: &Header, position: usize, element: &[u8]) -> Result<String, Problem> {
    let string = match header.dtype.kind {
        DtypeKind::Unicode(_) => unicode(element, header.dtype.big_endian),
        _ => utf8(element),
    };
    string.map_err(|problem| Problem::Format(format!("string {position} of dtype `{}` {problem}", header.dtype.descr)))
}

pub(super) fn decode_strings(header: Header, bytes: &[u8]) -> Result<StringTensor, Problem> {
    let count = element_count(&header.shape).unwrap_or_default();
    let size = header.dtype.kind.size().unwrap_or_default();
    let mut elements = Vec::with_capacity(count);
    for (position, element) in bytes.chunks_exact(size.max(1)).enumerate() {
        elements.push(string(&header, position, element)?);
    }
    StringTensor::new(c_order(&header, elements)?, header.shape).map_err(of_tensor)
}

/// Returns elements of any length, in the order of the file, in C order.
fn c_order<T: Clone>(header: &Header, elements: Vec<T>) -> Result<Vec<T>, Problem> {
    if !header.fortran_order || elements.is_empty() {
        return Ok(elements);
    }
    let view = ArrayView::from_shape(IxDyn(&header.shape).f(), &elements)
        .map_err(|error| Problem::Format(format!("shape {:?}: {error}", header.shape)))?;
    Ok(view.iter().cloned().collect())
}

/// Decodes four bytes per code point. The zeros with which NumPy pads are not part of the string.
fn unicode(element: &[u8], big_endian: bool) -> Result<String, String> {
    let (points, _) = element.as_chunks::<4>();
    let point = |bytes: &[u8; 4]| if big_endian { u32::from_be_bytes(*bytes) } else { u32::from_le_bytes(*bytes) };
    let length = points.iter().rposition(|bytes| point(bytes) != 0).map_or(0, |last| last + 1);
    points[..length]
        .iter()
        .map(|bytes| char::from_u32(point(bytes)).ok_or_else(|| format!("has no character {:#x}", point(bytes))))
        .collect()
}

fn utf8(element: &[u8]) -> Result<String, String> {
    let length = element.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    String::from_utf8(element[..length].to_vec()).map_err(|error| format!("is not UTF-8: {error}"))
}

/// Writes a complete `.npy` file.
pub(super) fn write(writer: &mut impl Write, tensor: &Tensor) -> Result<(), Problem> {
    match tensor {
        Tensor::Numeric(tensor) => write_numbers(writer, tensor),
        Tensor::String(tensor) => write_strings(writer, tensor),
        Tensor::Bytes(tensor) => write_bytes(writer, tensor),
        Tensor::Nested(_) => Err(Problem::Unsupported(
            "an .npy file cannot hold a nested tensor; write each of its tensors to a file of its own".to_owned(),
        )),
    }
}

fn write_numbers(writer: &mut impl Write, tensor: &NumericTensor) -> Result<(), Problem> {
    let descr = descr(tensor.dtype())?;
    let size = tensor.dtype().size().unwrap_or_default();
    let bytes = tensor.bytes();
    let expected = element_count(tensor.shape()).and_then(|count| count.checked_mul(size));
    if expected != Some(bytes.len()) {
        return Err(Problem::Format(format!(
            "its storage gives {} bytes for shape {:?} of {}",
            bytes.len(),
            tensor.shape(),
            tensor.dtype()
        )));
    }
    writer.write_all(&header::format(descr, tensor.shape())?)?;
    Ok(writer.write_all(bytes)?)
}

/// Whether `.npy` files can hold tensors of this dtype: whether NumPy has it.
#[must_use]
pub fn holds(dtype: DataType) -> bool {
    matches!(dtype, DataType::String | DataType::Bytes) || descr(dtype).is_ok()
}

/// Returns NumPy's name of a dtype.
pub(super) fn descr(dtype: DataType) -> Result<&'static str, Problem> {
    Ok(match dtype {
        DataType::Float32 => "<f4",
        DataType::Float64 => "<f8",
        DataType::Int8 => "|i1",
        DataType::Int16 => "<i2",
        DataType::Int32 => "<i4",
        DataType::Int64 => "<i8",
        DataType::Uint8 => "|u1",
        DataType::Uint16 => "<u2",
        DataType::Uint32 => "<u4",
        DataType::Uint64 => "<u8",
        DataType::Bool => "|b1",
        DataType::Float16 => "<f2",
        DataType::Complex64 => "<c8",
        DataType::Complex128 => "<c16",
        _ => return Err(no_descr(dtype.name())),
    })
}

pub(super) fn no_descr(dtype: &str) -> Problem {
    Problem::Unsupported(format!("NumPy has no dtype for {dtype}; safetensors and zTensor do"))
}

fn write_bytes(writer: &mut impl Write, tensor: &BytesTensor) -> Result<(), Problem> {
    let elements = tensor.elements();
    if let Some(position) = elements.iter().position(|element| element.ends_with(b"\0")) {
        return Err(Problem::Unsupported(format!("element {position} ends in NUL, which an .npy file would lose")));
    }
    let length = elements.iter().map(Vec::len).max().unwrap_or(0).max(1);
    writer.write_all(&header::format(&format!("|S{length}"), tensor.shape())?)?;
    let padding = vec![0; length];
    for element in elements {
        writer.write_all(element)?;
        writer.write_all(&padding[element.len()..])?;
    }
    Ok(())
}

pub(super) fn write_strings(writer: &mut impl Write, tensor: &StringTensor) -> Result<(), Problem> {
    let strings = tensor.elements();
    if let Some(position) = strings.iter().position(|string| string.ends_with('\0')) {
        return Err(Problem::Unsupported(format!("string {position} ends in NUL, which an .npy file would lose")));
    }
    let length = strings.iter().map(|string| string.chars().count()).max().unwrap_or(0).max(1);
    writer.write_all(&header::format(&format!("<U{length}"), tensor.shape())?)?;
    let mut element = Vec::new();
    for string in strings {
        element.clear();
        element.extend(string.chars().flat_map(|character| u32::from(character).to_le_bytes()));
        element.resize(length.saturating_mul(4), 0);
        writer.write_all(&element)?;
    }
    Ok(())
}
