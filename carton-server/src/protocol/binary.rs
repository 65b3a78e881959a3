//! Tensors as bytes (the protocol's binary tensor extension, and the raw contents of gRPC): little-endian elements in C order, and for
//! strings a length of four bytes before each.

use bytes::Bytes;
use carton_core::{NumericTensor, StringTensor, Tensor};

use crate::failure::Failure;

/// The bytes before each string: its length.
const LENGTH_BYTES: usize = 4;

/// Parses strings. `count` is the number of elements of `shape`.
///
/// # Errors
/// The bytes end in a string, hold another number of strings, or are not UTF-8.
pub(crate) fn strings(place: &str, bytes: &[u8], shape: &[usize], count: usize) -> Result<Tensor, Failure> {
    let invalid = |reason: String| Failure::invalid(format!("{place}: {reason}"));
    // Each string takes at least four bytes.
    let mut elements = Vec::with_capacity(count.min(bytes.len() / LENGTH_BYTES));
    let mut rest = bytes;
    while let Some((length, behind)) = rest.split_first_chunk::<LENGTH_BYTES>() {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let Some((string, behind)) = behind.split_at_checked(length) else {
            return Err(invalid(format!("a string of {length} bytes is cut off after {}", behind.len())));
        };
        if elements.len() == count {
            return Err(invalid(format!("expected {count} strings, as the shape says, found more")));
        }
        let string = std::str::from_utf8(string);
        let string = string.map_err(|_| invalid(format!("string {} is not UTF-8, as cartons need", elements.len())))?;
        elements.push(string.to_owned());
        rest = behind;
    }
    if !rest.is_empty() {
        return Err(invalid("the length of a string is cut off".to_owned()));
    }
    if elements.len() != count {
        return Err(invalid(format!("expected {count} strings, as the shape says, found {}", elements.len())));
    }
    let tensor = StringTensor::new(elements, shape.to_vec());
    Ok(Tensor::String(tensor.map_err(|error| invalid(error.to_string()))?))
}

/// The bytes of a tensor. Numbers are not copied: the result holds the tensor. `None` for a nested tensor, which the protocol does not have.
pub(crate) fn bytes(tensor: &Tensor) -> Option<Bytes> {
    match tensor {
        Tensor::Numeric(numbers) => Some(Bytes::from_owner(Numbers(numbers.clone()))),
        Tensor::String(strings) => {
            let n_bytes = strings.elements().iter().map(|string| LENGTH_BYTES + string.len()).sum();
            let mut bytes = Vec::with_capacity(n_bytes);
            for string in strings.elements() {
                bytes.extend_from_slice(&u32::try_from(string.len()).ok()?.to_le_bytes());
                bytes.extend_from_slice(string.as_bytes());
            }
            Some(bytes.into())
        }
        _ => None,
    }
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
        assert_eq!(strings("x", &written, &[3], 3), Ok(tensor));
        assert_eq!(strings("x", &[], &[0, 2], 0), Ok(Tensor::from_strings([""; 0], vec![0, 2]).unwrap()));
    }

    #[test]
    fn lying_lengths() {
        let check = |bytes: &[u8], expected: &str| {
            assert_eq!(strings("x", bytes, &[1], 1).unwrap_err().message, format!("x: {expected}"));
        };
        check(b"\xff\xff\xff\xffab", "a string of 4294967295 bytes is cut off after 2");
        check(b"\x01\0\0", "the length of a string is cut off");
        check(b"\x01\0\0\0a\0\0\0\0", "expected 1 strings, as the shape says, found more");
        check(b"", "expected 1 strings, as the shape says, found 0");
        check(b"\x01\0\0\0\xff", "string 0 is not UTF-8, as cartons need");
    }
}
