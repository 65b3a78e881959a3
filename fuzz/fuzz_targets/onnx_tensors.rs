#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    carton_fuzz::oracle::onnx_tensors::check(bytes);
});
