//! Any bytes, as an `.npy` and as an `.npz` file. They are an error or arrays, in no more memory than they are worth. What can be read is
//! written again, and is the same when it is read once more.

use std::io::Cursor;

use carton_tensor::Tensor;
use carton_tensor::npy::{Array, ArrayInfo, Npz, NpzWriter, read, write, write_array};

/// What an array may take. What is compressed in an archive stands for up to a thousand times its bytes.
const MAX_ARRAY: u64 = 1 << 20;

/// Checks these bytes, and says whether they are accepted.
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
            // NumPy's files cannot hold strings that end in NUL, and a name may be one that archives cannot hold.
            let _ = writer.add_array(&name, &array);
        }
    }
    let _ = writer.finish();
    true
}

/// Writes what was read, and reads it again.
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

/// What the header said is what there is.
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
