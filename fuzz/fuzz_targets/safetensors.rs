//! Any bytes, as a safetensors file: an error or tensors, and never more than the `safetensors` library accepts.

#![no_main]

use carton_tensor::safetensors::Reader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let theirs = safetensors::SafeTensors::deserialize(bytes);
    let Ok(reader) = Reader::new(bytes.to_vec(), "fuzz") else { return };
    let theirs = theirs.expect("we accept what the library refuses");
    for info in reader.header().iter() {
        let (ours, theirs) = (reader.read(info.name()).unwrap(), theirs.tensor(info.name()).unwrap());
        assert_eq!((ours.shape(), &ours.bytes()[..]), (theirs.shape(), theirs.data()));
    }
});
