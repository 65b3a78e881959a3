//! The block of bytes of a tensor of strings or bytes.

use carton_tensor::{VariableElement, VariableTensor};

/// The bytes that elements take on the wire.
pub(super) fn block_length<T: VariableElement>(tensor: &VariableTensor<T>) -> usize {
    let text: usize = tensor.elements().iter().map(|element| element.as_ref().len()).sum();
    (tensor.elements().len() + 1) * 8 + text
}

/// Writes `n + 1` offsets into the text, and the text.
pub(super) fn write_block<T: VariableElement>(elements: &[T], target: &mut [u8]) {
    let (offsets, text) = target.split_at_mut((elements.len() + 1) * 8);
    let mut end = 0;
    let mut ends = offsets.chunks_exact_mut(8);
    if let Some(first) = ends.next() {
        first.copy_from_slice(&0_u64.to_le_bytes());
    }
    for (element, offset) in elements.iter().zip(ends) {
        let element = element.as_ref();
        text[end..end + element.len()].copy_from_slice(element);
        end += element.len();
        offset.copy_from_slice(&(end as u64).to_le_bytes());
    }
}

/// Reads `n` strings. The peer must not be able to change `block`.
pub(super) fn read_strings(n: usize, block: &[u8]) -> Result<Vec<String>, String> {
    let elements = elements(n, block)?.into_iter().enumerate().map(|(index, bytes)| {
        let text = std::str::from_utf8(bytes).map_err(|error| format!("string {index} is not UTF-8: {error}"))?;
        Ok(text.to_owned())
    });
    elements.collect()
}

/// Reads `n` elements of any bytes.
pub(super) fn read_bytes(n: usize, block: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    Ok(elements(n, block)?.into_iter().map(<[u8]>::to_vec).collect())
}

/// Finds `n` elements in a block.
fn elements(n: usize, block: &[u8]) -> Result<Vec<&[u8]>, String> {
    let offsets_length = n.checked_add(1).and_then(|count| count.checked_mul(8));
    let Some((offsets, text)) = offsets_length.and_then(|length| block.split_at_checked(length)) else {
        return Err(format!("{} bytes cannot hold the offsets of {n} strings", block.len()));
    };
    let mut offsets = offsets.chunks_exact(8).map(|bytes| {
        let mut offset = [0; 8];
        offset.copy_from_slice(bytes);
        u64::from_le_bytes(offset)
    });
    if offsets.next() != Some(0) {
        return Err("the first string does not start at 0".to_owned());
    }
    let mut elements = Vec::with_capacity(n);
    let mut start = 0;
    for (index, end) in offsets.enumerate() {
        let bytes = usize::try_from(end).ok().and_then(|end| text.get(start..end));
        let bytes = bytes.ok_or_else(|| {
            format!("string {index} from {start} to {end} does not lie inside {} bytes of text", text.len())
        })?;
        start += bytes.len();
        elements.push(bytes);
    }
    if start == text.len() {
        Ok(elements)
    } else {
        Err(format!("the last string ends at {start}, the text at {}", text.len()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use carton_tensor::{BytesTensor, StringTensor};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn strings_come_back_as_they_were(elements: Vec<String>) {
            let tensor = StringTensor::new(elements.clone(), vec![elements.len()]).unwrap();
            let mut block = vec![0xAA; block_length(&tensor)];
            write_block(&elements, &mut block);
            prop_assert_eq!(read_strings(elements.len(), &block), Ok(elements));
        }

        #[test]
        fn bytes_come_back_as_they_were(elements: Vec<Vec<u8>>) {
            let tensor = BytesTensor::new(elements.clone(), vec![elements.len()]).unwrap();
            let mut block = vec![0xAA; block_length(&tensor)];
            write_block(&elements, &mut block);
            prop_assert_eq!(read_bytes(elements.len(), &block), Ok(elements));
        }

        #[test]
        fn any_block_is_read_as_strings_or_refused(n in 0..8_usize, words: Vec<u64>, text: Vec<u8>) {
            let mut block: Vec<u8> = words.iter().flat_map(|word| (word % 20).to_le_bytes()).collect();
            block.extend(text);
            if let Ok(elements) = read_strings(n, &block) {
                prop_assert_eq!(elements.len(), n);
            }
            prop_assert!(read_strings(usize::MAX - n, &block).is_err());
        }
    }
}
