//! Arbitrary bytes as a tensor file of any format. It is opened, or named as another kind of file. Reading a tensor piece by piece gives what
//! reading it whole gives, or an error where that is an error.

use carton_tensor::any_file::{ElementOrder, Entry, TensorFile, TensorFileError, TensorFileFormat};
use carton_tensor::content::Content;

/// The most bytes of a tensor that is read. Compressed and sparse ones can represent any number.
const MAX_TENSOR: u64 = 1 << 20;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let content = Content::of_start(bytes);
    let file = match TensorFile::new(bytes.to_vec(), "input") {
        Ok(file) => file.with_max_dense(MAX_TENSOR),
        Err(error) => {
            let text = error.to_string();
            assert!(!text.contains(|char: char| char.is_control()), "{text}");
            assert!(error.content().and_then(Content::hint).is_none_or(|hint| error.hint() == Some(hint)), "{text}");
            return false;
        }
    };
    assert!(!matches!(content, Some(Content::GitLfsPointer | Content::Html)), "a tensor file is not {content:?}");
    for entry in file.entries().filter(is_small) {
        let mut visited = Vec::new();
        let streamed = entry.visit(ElementOrder::C, 8, |piece| {
            visited.extend_from_slice(piece);
            Ok::<_, TensorFileError>(())
        });
        let whole = entry.dequantize();
        assert_eq!(streamed.is_ok(), whole.is_ok(), "{streamed:?} {whole:?}");
        if let Ok(whole) = whole {
            assert!(visited == **whole.bytes(), "`{}` differs", entry.name());
        }
        let (checked, read) = (entry.check(), entry.read_array());
        // Only checking compares the checksums of a PyTorch checkpoint. It makes no sparse tensor dense, and holds no strings.
        let may_fail = match file.format() {
            TensorFileFormat::Torch => read.is_ok(),
            TensorFileFormat::Onnx => checked.is_ok(),
            _ => false,
        };
        assert!(checked.is_ok() == read.is_ok() || may_fail, "{checked:?} {read:?}");
    }
    true
}

fn is_small(entry: &Entry<'_>) -> bool {
    let n_elements = entry.shape().iter().try_fold(1_u64, |product, &size| product.checked_mul(size as u64));
    entry.n_bytes().is_some_and(|n_bytes| n_bytes <= MAX_TENSOR) && n_elements.is_some_and(|count| count <= MAX_TENSOR)
}
