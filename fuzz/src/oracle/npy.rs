//! Arbitrary bytes as an `.npy` and as an `.npz` file. Reading gives an error or arrays, with limited memory. What can be read is the
//! same after writing and reading it again.

use std::io::Cursor;

use carton_tensor::Tensor;
use carton_tensor::npy::{Array, ArrayInfo, Npz, NpzWriter, read, write, write_array};

/// The most bytes of an array. Compressed bytes in an archive can represent up to a thousand times their number.
const MAX_ARRAY: u64 = 1 << 20;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let array = read(bytes, MAX_ARRAY);
    if let Ok(tensor) = &array {
        check_written(tensor);
    }
    let Ok(mut archive) = Npz::from_reader(Cursor::new(bytes), "input") else { return array.is_ok() };
    archive = archive.with_limit(MAX_ARRAY);
    let mut writer = NpzWriter::new(Cursor::new(Vec::new()));
    for name in archive.names().to_vec() {
        let info = archive.array_info(&name);
        if let Ok(tensor) = archive.read(&name) {
            check_written(&tensor);
        }
        if let Ok(array) = archive.read_array(&name) {
            check_info(&info.expect("the array was read"), &array);
            // NumPy's files cannot hold strings that end in NUL, and some names are not possible in archives.
            let _ = writer.add_array(&name, &array);
        }
    }
    let _ = writer.finish();
    true
}

/// Writes the tensor and reads it again.
fn check_written(tensor: &Tensor) {
    let mut written = Vec::new();
    if write(&mut written, tensor).is_err() {
        assert!(matches!(tensor, Tensor::String(_)), "numbers can always be written");
        return;
    }
    let again = read(written.as_slice(), u64::MAX).expect("it was written");
    let mut twice = Vec::new();
    write(&mut twice, &again).expect("it was read");
    assert_eq!(twice, written);
}

/// Checks that the header describes the array.
fn check_info(info: &ArrayInfo, array: &Array) {
    let mut written = Vec::new();
    match array {
        Array::Numbers(tensor) => {
            assert_eq!((info.dtype, info.shape.as_slice()), (Some(tensor.dtype()), tensor.shape()));
            assert_eq!(info.n_bytes, tensor.bytes().len() as u64);
            write_array(&mut written, array).expect("it came from such a file");
        }
        Array::Strings(strings) => {
            assert_eq!((info.dtype, info.shape.as_slice()), (None, strings.shape()));
            let _ = write_array(&mut written, array);
        }
    }
}
