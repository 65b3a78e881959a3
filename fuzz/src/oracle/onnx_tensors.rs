//! Arbitrary bytes as the tensors of an ONNX model. Of a model that is accepted, the data of each tensor is inside of its file, is the same in pieces and
//! where the file has it, and another ONNX reader finds initializers of the same names, shapes and bytes.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use carton_tensor::files::FileBytes;
use carton_tensor::onnx::Reader;
use rten_onnx::onnx::{ModelProto, TensorProto};

/// The most bytes of a tensor that is read. Sparse ones can have any number.
const MAX_TENSOR: u64 = 1 << 20;
/// The bytes of each file of external data.
const BESIDE: [u8; 64] = [1; 64];

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let beside = |name: &str| {
        assert!(name.split('/').all(|part| !matches!(part, "" | "." | "..")), "{name}");
        Ok(FileBytes::from(BESIDE.to_vec()))
    };
    let reader = match Reader::new(bytes.to_vec(), "input", Some(&beside)) {
        Ok(reader) => reader,
        Err(error) => {
            let text = error.to_string();
            assert!(error.is_about_content(), "{text}");
            assert!(!text.contains(|char: char| char.is_control()), "{text}");
            return false;
        }
    };
    let other = ModelProto::parse_buf(bytes).ok().and_then(|model| model.graph);
    let initializers = other.map(|graph| graph.initializer).unwrap_or_default();
    let others: BTreeMap<&str, &TensorProto> =
        initializers.iter().map(|tensor| (tensor.name.as_deref().unwrap_or_default(), tensor)).collect();
    for info in reader.tensors() {
        assert_eq!(reader.get(info.name()), Some(info));
        let checked = reader.check(info);
        if info.is_strings() {
            let read = reader.read_strings(info, MAX_TENSOR);
            assert!(read.is_err() || checked.is_ok());
            continue;
        }
        let Ok(tensor) = reader.read_within(info, MAX_TENSOR) else { continue };
        checked.expect("it was read");
        assert_eq!((info.dtype(), info.shape()), (Some(tensor.dtype()), tensor.shape()));
        if let Some((file, range)) = reader.location(info) {
            assert_eq!(*file.read(range).expect("it is inside of the file"), **tensor.bytes());
        }
        if info.is_sparse() {
            continue;
        }
        let mut pieces = Vec::new();
        reader
            .visit(info, 8, &mut |piece| {
                pieces.extend_from_slice(piece);
                ControlFlow::Continue(())
            })
            .expect("it was read");
        assert_eq!(pieces, **tensor.bytes());
        if let Some(other) = others.get(info.name()) {
            let shape: Vec<i64> = tensor.shape().iter().map(|size| *size as i64).collect();
            assert_eq!(other.dims, shape);
            if let (Some(raw), Some(_), None) = (&other.raw_data, reader.location(info), other.data_location) {
                assert_eq!(*raw.borrow(), **tensor.bytes());
            }
        }
    }
    true
}
