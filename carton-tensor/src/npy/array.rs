//! Arrays as tensors of files.

use std::io::{self, BufReader, Read, Write};
use std::path::Path;

#[cfg(feature = "weights")]
use super::check_end;
use super::elements;
use super::error::{NpyError, Problem};
use super::header::{self, DtypeKind};
use super::{Size, UNNAMED, check_size, read_elements, read_file};
#[cfg(feature = "weights")]
use crate::files::Visit;
use crate::files::{ElementType, RawTensor, SharedBytes};
use crate::{StringTensor, Tensor, element_count};

/// An array of an `.npy` file.
#[derive(Clone, Debug)]
pub enum Array {
    /// Numbers.
    Numbers(RawTensor),
    /// Strings, of NumPy's dtype kinds `U` and `S`.
    Strings(StringTensor),
}

impl Array {
    /// Returns the array as a tensor of cartons, in the same memory.
    ///
    /// # Errors
    /// Returns the array itself if cartons lack its dtype; [`RawTensor::cast`] gives it another one.
    pub fn into_tensor(self) -> Result<Tensor, RawTensor> {
        match self {
            Self::Strings(strings) => Ok(strings.into()),
            Self::Numbers(numbers) => numbers.to_numeric().map(Tensor::Numeric).map_err(|_| numbers),
        }
    }
}

/// The description of an array, read without its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayInfo {
    /// The type of the elements; `None` for strings.
    pub dtype: Option<ElementType>,
    /// The dimensions.
    pub shape: Vec<usize>,
    /// The bytes that the elements take in the file.
    pub n_bytes: u64,
    /// Whether the elements are in C order. Those of other arrays are in Fortran order.
    pub is_c_order: bool,
    /// Where the elements start in the `.npy` data, if they are numbers as a tensor has them: little-endian and in C order.
    pub plain_from: Option<u64>,
}

impl ArrayInfo {
    /// Reads the header at the start of `reader`, and checks it against the size of the file.
    pub(super) fn read(mut reader: impl Read, size: Size) -> Result<Self, Problem> {
        let (header, header_size) = header::read(&mut reader)?;
        let n_bytes = header.n_bytes()?;
        check_size(&header, header_size.saturating_add(n_bytes), size, header_size)?;
        let dtype = element_type(header.dtype.kind);
        let is_plain = dtype.is_some() && elements::is_little_endian_c_order(&header);
        let is_c_order = elements::is_c_order(&header);
        Ok(Self { dtype, shape: header.shape, n_bytes, is_c_order, plain_from: is_plain.then_some(header_size) })
    }
}

/// Reads the header of the file at `path`, and checks it against the size of the file.
///
/// # Errors
/// [`NpyError`], naming the path.
pub fn array_info(path: impl AsRef<Path>) -> Result<ArrayInfo, NpyError> {
    read_file(path.as_ref(), |file, size| ArrayInfo::read(BufReader::new(file), size))
}

/// Reads the array of the file at `path` like [`read_path`](super::read_path), but also the dtypes that only tensor files have.
///
/// # Errors
/// [`NpyError`], naming the path.
pub fn read_array(path: impl AsRef<Path>) -> Result<Array, NpyError> {
    read_file(path.as_ref(), |file, size| read_bounded(file, size, u64::MAX))
}

/// Reads the header of a file of `size` bytes. Errors refer to the file as `place`.
#[cfg(feature = "weights")]
pub(crate) fn array_info_of(reader: impl Read, size: u64, place: &str) -> Result<ArrayInfo, NpyError> {
    ArrayInfo::read(reader, Size::Known(size)).map_err(|problem| problem.at(place))
}

/// Reads the array of a file of `size` bytes. Errors refer to the file as `place`.
#[cfg(feature = "weights")]
pub(crate) fn read_array_of(reader: impl Read, size: u64, place: &str) -> Result<Array, NpyError> {
    read_bounded(reader, Size::Known(size), u64::MAX).map_err(|problem| problem.at(place))
}

/// Passes the elements of a file of `size` bytes to `visit`, in pieces of `n_elements`; see [`visit_bounded`].
#[cfg(feature = "weights")]
pub(crate) fn visit_array_of(
    reader: impl Read,
    size: u64,
    place: &str,
    n_elements: usize,
    visit: Visit<'_>,
) -> Result<(), NpyError> {
    visit_bounded(reader, Size::Known(size), n_elements, visit).map_err(|problem| problem.at(place))
}

/// Writes an array as NumPy's `save` does: version 1, little-endian, C order, strings as `<U`.
///
/// ```
/// use carton_tensor::files::{ElementType, RawTensor};
/// use carton_tensor::npy::{Array, write_array};
/// let tensor = RawTensor::new(ElementType::Bool, vec![2], vec![0_u8, 1].into())?;
/// let mut file = Vec::new();
/// write_array(&mut file, &Array::Numbers(tensor))?;
/// assert!(file.starts_with(b"\x93NUMPY\x01\x00") && file.ends_with(&[0, 1]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`NpyError::Unsupported`] for element types that NumPy lacks, such as bfloat16 and FP8, and for strings that end in NUL;
/// [`NpyError::Io`].
pub fn write_array(mut writer: impl Write, array: &Array) -> Result<(), NpyError> {
    write(&mut writer, array).map_err(|problem| problem.at(UNNAMED))
}

pub(super) fn read_bounded(mut reader: impl Read, size: Size, limit: u64) -> Result<Array, Problem> {
    let (header, header_size) = header::read(&mut reader)?;
    let bytes = read_elements(&mut reader, &header, header_size, size, limit)?;
    let Some(dtype) = element_type(header.dtype.kind) else {
        return Ok(Array::Strings(elements::decode_strings(header, bytes.as_slice())?));
    };
    let bytes = elements::into_little_endian_c_order(&header, bytes)?;
    let tensor = RawTensor::new(dtype, header.shape, SharedBytes::from(bytes));
    Ok(Array::Numbers(tensor.map_err(|error| Problem::Format(error.to_string()))?))
}

/// Passes the elements to `visit` in pieces of `n_elements`, little-endian and in the order of the file, so that no more than a piece is
/// in memory. Whatever reading the array would refuse is an error here too. Strings are checked, and `visit` gets none of them.
#[cfg(feature = "weights")]
pub(super) fn visit_bounded(
    mut reader: impl Read,
    size: Size,
    n_elements: usize,
    visit: Visit<'_>,
) -> Result<(), Problem> {
    let (header, header_size) = header::read(&mut reader)?;
    let n_bytes = header.n_bytes()?;
    check_size(&header, header_size.saturating_add(n_bytes), size, header_size)?;
    if let Some(dtype) = element_type(header.dtype.kind) {
        let mut reading = elements::Pieces::new(n_bytes, dtype.piece_bytes(n_elements));
        while let Some(piece) = reading.next(&mut reader)? {
            elements::into_little_endian(&header, piece)?;
            if visit(piece).is_break() {
                return Ok(());
            }
        }
    } else {
        elements::check_strings(&mut reader, &header, n_bytes)?;
    }
    check_end(&mut reader, n_bytes)
}

/// Writes an array of numbers as [`write_array`] does. `write` writes its elements, little-endian and in C order.
///
/// # Errors
/// As [`write_array`]; those of `write`; [`NpyError::Format`] if it writes more or fewer bytes than dtype and shape need.
pub fn write_array_with(
    mut writer: impl Write,
    dtype: ElementType,
    shape: &[usize],
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), NpyError> {
    write_with(&mut writer, dtype, shape, write).map_err(|problem| problem.at(UNNAMED))
}

pub(super) fn write_with(
    writer: &mut impl Write,
    dtype: ElementType,
    shape: &[usize],
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Problem> {
    writer.write_all(&header::format(descr(dtype)?, shape)?)?;
    let mut counted = Counted { inner: writer, n_bytes: 0 };
    write(&mut counted)?;
    let found = counted.n_bytes;
    match element_count(shape).and_then(|count| dtype.n_bytes(count)) {
        Some(expected) if expected as u64 == found => Ok(()),
        _ => Err(Problem::Format(format!(
            "its elements have {found} bytes, which shape {shape:?} of {dtype} does not fit"
        ))),
    }
}

/// Counts the bytes that pass through.
struct Counted<'a, W: Write> {
    inner: &'a mut W,
    n_bytes: u64,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n_bytes = self.inner.write(bytes)?;
        self.n_bytes += n_bytes as u64;
        Ok(n_bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

pub(super) fn write(writer: &mut impl Write, array: &Array) -> Result<(), Problem> {
    match array {
        Array::Numbers(tensor) => {
            write_with(writer, tensor.dtype(), tensor.shape(), |out| out.write_all(tensor.bytes()))
        }
        Array::Strings(tensor) => elements::write_strings(writer, tensor),
    }
}

fn element_type(kind: DtypeKind) -> Option<ElementType> {
    match kind {
        DtypeKind::Number(dtype) => ElementType::from_data_type(dtype),
        DtypeKind::Unicode(_) | DtypeKind::Bytes(_) => None,
    }
}

fn descr(dtype: ElementType) -> Result<&'static str, Problem> {
    dtype.data_type().map_or_else(|| Err(elements::no_descr(dtype.name())), elements::descr)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use std::io::Cursor;

    use super::*;
    use crate::npy::{Npz, NpzWriter};

    fn file(descr: &str, fortran_order: &str, shape: &str, elements: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran_order}, 'shape': {shape}, }}\n");
        [
            b"\x93NUMPY\x01\x00",
            u16::try_from(header.len()).unwrap().to_le_bytes().as_slice(),
            header.as_bytes(),
            elements,
        ]
        .concat()
    }

    // The elements are the output of NumPy's `tobytes`.
    #[test]
    fn dtypes_that_cartons_lack() {
        let check = |descr, elements: &[u8], shape, expected: (ElementType, &[u8])| {
            let bytes = file(descr, "False", shape, elements);
            let place = tempfile::tempdir().unwrap();
            let path = place.path().join("a.npy");
            std::fs::write(&path, &bytes).unwrap();
            let Array::Numbers(tensor) = read_array(&path).unwrap() else { panic!("{descr}") };
            assert_eq!((tensor.dtype(), &**tensor.bytes()), expected, "{descr}");
            let info = array_info(&path).unwrap();
            assert_eq!((info.dtype, info.shape.as_slice()), (Some(expected.0), tensor.shape()));
            assert_eq!(info.n_bytes, elements.len() as u64);
            let is_plain = !descr.starts_with('>');
            assert_eq!(info.plain_from, is_plain.then_some((bytes.len() - elements.len()) as u64));
            // The array survives a round trip, alone and in an archive.
            let array = Array::Numbers(tensor.clone());
            let mut written = Vec::new();
            write_array(&mut written, &array).unwrap();
            let Array::Numbers(again) = read_bounded(written.as_slice(), Size::Unknown, 1000).unwrap() else {
                panic!("{descr}")
            };
            assert_eq!(again, tensor);
            let mut archive = Cursor::new(Vec::new());
            let mut npz = NpzWriter::new(&mut archive);
            npz.add_array("x", &array).unwrap();
            assert!(npz.add_array("x", &array).is_err());
            npz.finish().unwrap();
            let mut npz = Npz::from_reader(archive, "memory").unwrap();
            // The header is as long as NumPy makes it.
            let plain_from = Some(128);
            assert_eq!(npz.array_info("x").unwrap(), ArrayInfo { plain_from, ..info });
            let Array::Numbers(again) = npz.read_array("x").unwrap() else { panic!("{descr}") };
            assert_eq!(again, tensor);
        };
        let complex64 = [0, 0, 0x80, 0x3f, 0, 0, 0, 0x40];
        let complex128 = [0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0x40];
        check("|b1", &[1, 0], "(2,)", (ElementType::Bool, &[1, 0]));
        check("<f2", &[0, 0x3e, 0, 0xc0], "(2,)", (ElementType::Float16, &[0, 0x3e, 0, 0xc0]));
        check(">f2", &[0x3e, 0, 0xc0, 0], "(2,)", (ElementType::Float16, &[0, 0x3e, 0, 0xc0]));
        check("<c8", &complex64, "()", (ElementType::Complex64, &complex64));
        check(">c8", &[0x3f, 0x80, 0, 0, 0x40, 0, 0, 0], "()", (ElementType::Complex64, &complex64));
        check("<c16", &complex128, "(1,)", (ElementType::Complex128, &complex128));
        let big = [0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0];
        check(">c16", &big, "(1,)", (ElementType::Complex128, &complex128));
    }

    #[test]
    fn order_strings_and_dtypes_that_numpy_lacks() {
        let bytes = file("<c8", "True", "(2, 2)", &(0..32).collect::<Vec<u8>>());
        let Array::Numbers(tensor) = read_bounded(bytes.as_slice(), Size::Unknown, 1000).unwrap() else { panic!() };
        let expected: Vec<u8> = [0..8, 16..24, 8..16, 24..32].into_iter().flatten().collect();
        assert_eq!(**tensor.bytes(), expected);
        let bytes = file("<U1", "False", "(2,)", &[97, 0, 0, 0, 98, 0, 0, 0]);
        let Array::Strings(strings) = read_bounded(bytes.as_slice(), Size::Unknown, 1000).unwrap() else { panic!() };
        assert_eq!(strings.elements(), ["a", "b"]);
        let bfloat16 = RawTensor::new(ElementType::BFloat16, vec![], vec![0_u8, 0].into()).unwrap();
        let error = write_array(Vec::new(), &Array::Numbers(bfloat16)).unwrap_err().to_string();
        assert!(error.contains("NumPy has no dtype for bfloat16"), "{error}");
        let short = file("<c16", "False", "(2,)", &[0; 31]);
        assert!(read_bounded(short.as_slice(), Size::Unknown, 1000).is_err());
    }
}
