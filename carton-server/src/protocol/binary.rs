//! Tensors as bytes (the protocol's binary tensor extension, and the raw contents of gRPC): little-endian elements in C order, and for
//! strings and bytes a length of four bytes before each.

use bytes::Bytes;
use carton_core::tensor::BoolByte;
use carton_core::{DataType, NumericTensor, Tensor};

use super::bytes_elements::BytesElements;
use crate::failure::Failure;

/// The bytes before each element of `BYTES`: its length.
const LENGTH_BYTES: usize = 4;

/// Parses elements of `BYTES`. `count` is the number of elements of `shape`.
///
/// # Errors
/// The bytes end in an element, hold another number of elements, or are not what the input takes.
pub(crate) fn parse(
    place: &str,
    bytes: &[u8],
    kind: BytesElements,
    shape: &[usize],
    count: usize,
) -> Result<Tensor, Failure> {
    let invalid = |reason: String| Failure::invalid(format!("{place}: {reason}"));
    // Each element takes at least four bytes.
    let mut elements = Vec::with_capacity(count.min(bytes.len() / LENGTH_BYTES));
    let mut rest = bytes;
    while let Some((length, behind)) = rest.split_first_chunk::<LENGTH_BYTES>() {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let Some((element, behind)) = behind.split_at_checked(length) else {
            return Err(invalid(format!("an element of {length} bytes is cut off after {}", behind.len())));
        };
        if elements.len() == count {
            return Err(invalid(format!("expected {count} elements, as the shape says, found more")));
        }
        elements.push(element.to_vec());
        rest = behind;
    }
    if !rest.is_empty() {
        return Err(invalid("the length of an element is cut off".to_owned()));
    }
    if elements.len() != count {
        return Err(invalid(format!("expected {count} elements, as the shape says, found {}", elements.len())));
    }
    kind.tensor(elements, shape.to_vec()).map_err(invalid)
}

/// Checks numbers that came as bytes: each of a boolean is 0 or 1.
///
/// # Errors
/// Names the first that is neither.
pub(crate) fn check_numbers(place: impl std::fmt::Display, numbers: &NumericTensor) -> Result<(), Failure> {
    let other = match numbers.dtype() {
        DataType::Bool => numbers.bytes().iter().enumerate().find(|(_, byte)| **byte > 1),
        _ => None,
    };
    match other {
        Some((position, byte)) => {
            Err(Failure::invalid(format!("{place}: element {position} of BOOL is {byte}, neither 0 nor 1")))
        }
        None => Ok(()),
    }
}

/// The bytes of a tensor. Numbers are not copied: the result holds the tensor. `None` for a nested tensor, which the protocol does not have.
pub(crate) fn bytes(tensor: &Tensor) -> Option<Bytes> {
    match tensor {
        // Other bytes than 0 and 1 of a runner are true, too.
        Tensor::Numeric(numbers) if numbers.dtype() == DataType::Bool => {
            let elements = numbers.to_vec::<BoolByte>().ok()?;
            Some(elements.into_iter().map(|element| u8::from(element.get())).collect::<Vec<u8>>().into())
        }
        Tensor::Numeric(numbers) => Some(Bytes::from_owner(Numbers(numbers.clone()))),
        Tensor::String(strings) => with_lengths(strings.elements()),
        Tensor::Bytes(bytes) => with_lengths(bytes.elements()),
        _ => None,
    }
}

fn with_lengths(elements: &[impl AsRef<[u8]>]) -> Option<Bytes> {
    let n_bytes = elements.iter().map(|element| LENGTH_BYTES + element.as_ref().len()).sum();
    let mut bytes = Vec::with_capacity(n_bytes);
    for element in elements {
        bytes.extend_from_slice(&u32::try_from(element.as_ref().len()).ok()?.to_le_bytes());
        bytes.extend_from_slice(element.as_ref());
    }
    Some(bytes.into())
}

struct Numbers(NumericTensor);

impl AsRef<[u8]> for Numbers {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn strings_and_back() {
        let tensor = Tensor::from_strings(["", "äb", "c"], vec![3]).unwrap();
        let written = bytes(&tensor).unwrap();
        assert_eq!(written, b"\0\0\0\0\x03\0\0\0\xc3\xa4b\x01\0\0\0c".as_slice());
        assert_eq!(parse("x", &written, BytesElements::of(DataType::String), &[3], 3), Ok(tensor));
        let empty = Tensor::from_strings([""; 0], vec![0, 2]).unwrap();
        assert_eq!(parse("x", &[], BytesElements::of(DataType::String), &[0, 2], 0), Ok(empty));
    }

    #[test]
    fn bytes_and_back() {
        let tensor = Tensor::from_bytes([b"\xff\0".to_vec(), Vec::new()], vec![2]).unwrap();
        let written = bytes(&tensor).unwrap();
        assert_eq!(written, b"\x02\0\0\0\xff\0\0\0\0\0".as_slice());
        assert_eq!(parse("x", &written, BytesElements::of(DataType::Bytes), &[2], 2), Ok(tensor));
    }

    #[test]
    fn booleans_are_0_or_1() {
        let tensor = NumericTensor::copy_from_bytes(DataType::Bool, vec![3], &[0, 1, 2]).unwrap();
        let error = check_numbers("input `x`", &tensor).unwrap_err();
        assert_eq!(error.message, "input `x`: element 2 of BOOL is 2, neither 0 nor 1");
        assert_eq!(bytes(&tensor.into()).unwrap(), [0, 1, 1].as_slice());
    }

    #[test]
    fn lying_lengths() {
        let check = |bytes: &[u8], expected: &str| {
            let parsed = parse("x", bytes, BytesElements::of(DataType::String), &[1], 1);
            assert_eq!(parsed.unwrap_err().message, format!("x: {expected}"));
        };
        check(b"\xff\xff\xff\xffab", "an element of 4294967295 bytes is cut off after 2");
        check(b"\x01\0\0", "the length of an element is cut off");
        check(b"\x01\0\0\0a\0\0\0\0", "expected 1 elements, as the shape says, found more");
        check(b"", "expected 1 elements, as the shape says, found 0");
        check(
            b"\x01\0\0\0\xff",
            "element 0 is not UTF-8, as an input of strings needs; one that takes any bytes is declared with `dtype = \"bytes\"`",
        );
    }
}
