//! Arbitrary bytes as a safetensors file. We reject what the `safetensors` library rejects. A file that we accept has the same content
//! in both, also after writing it again.

use carton_tensor::files::RawTensor;
use carton_tensor::safetensors::{Reader, write};
use safetensors::SafeTensors;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    let theirs = SafeTensors::deserialize(bytes);
    let Ok(ours) = Reader::new(bytes.to_vec(), "input") else { return false };
    let theirs = theirs.expect("only we accept it");
    assert_eq!(ours.names().len(), theirs.len());
    let tensors: Vec<(&str, RawTensor)> =
        ours.names().map(|name| (name, ours.read(name).expect("its range was checked"))).collect();
    for (name, tensor) in &tensors {
        let view = theirs.tensor(name).expect("both have the same names");
        assert_eq!((tensor.shape(), &**tensor.bytes()), (view.shape(), view.data()));
        let _ = (tensor.to_f64(), tensor.view::<f32>().is_ok());
    }

    let mut written = Vec::new();
    let pairs = || tensors.iter().map(|(name, tensor)| (*name, tensor));
    write(pairs(), ours.metadata(), &mut written).expect("it was read");
    let again = Reader::new(written.clone(), "written").expect("it was written");
    assert!(pairs().all(|(name, tensor)| again.read(name).is_ok_and(|found| found == *tensor)));
    assert!(again.metadata().iter().eq(ours.metadata().iter()));
    let mut twice = Vec::new();
    write(pairs(), again.metadata(), &mut twice).expect("it was read");
    assert_eq!(twice, written);
    true
}
