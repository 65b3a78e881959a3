//! Arbitrary bytes as a GGUF file. Of a file that is accepted, the data of each tensor is inside of the file and shares no byte with another's;
//! a tensor has as many elements as its shape says, dequantized too. An error shows no control characters.

use carton_tensor::files::ElementType;
use carton_tensor::gguf::{GgufError, Reader};

/// The most elements of a tensor that is read. 50 bytes hold 256.
const MAX_ELEMENTS: usize = 1 << 22;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let reader = match Reader::new(bytes.to_vec(), "input") {
        Ok(reader) => reader,
        Err(error) => {
            let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
            let text: String = causes.map(ToString::to_string).collect();
            assert!(!text.contains(|char: char| char.is_control()), "{text}");
            assert!(matches!(error, GgufError::Header { .. }), "{text}");
            return false;
        }
    };
    let header = reader.header();
    let mut ranges = Vec::new();
    for tensor in header.tensors() {
        assert_eq!(header.get(&tensor.name), Some(tensor));
        let range = tensor.range.clone();
        assert!(range.start <= range.end && range.end <= bytes.len() as u64);
        assert!(range.is_empty() || range.start >= header.data_start());
        ranges.push((range.start, range.end));
        let n_elements: usize = tensor.shape.iter().product();
        if n_elements > MAX_ELEMENTS {
            continue;
        }
        match reader.read(tensor) {
            Ok(read) => {
                let dtype = tensor.ggml_type.element_type().unwrap_or(ElementType::Float32);
                assert_eq!((read.dtype(), read.shape()), (dtype, tensor.shape.as_slice()));
                assert_eq!(Some(read.bytes().len()), dtype.n_bytes(n_elements));
            }
            Err(error) => assert!(!tensor.ggml_type.is_dequantized() && tensor.ggml_type.is_quantized(), "{error}"),
        }
    }
    ranges.retain(|(start, end)| start < end);
    ranges.sort_unstable();
    assert!(ranges.iter().zip(ranges.iter().skip(1)).all(|(first, second)| first.1 <= second.0));
    assert!(header.metadata().iter().all(|(key, _)| header.value(key).is_some()));
    true
}
