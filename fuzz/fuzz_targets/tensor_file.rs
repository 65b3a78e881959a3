#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    carton_fuzz::oracle::tensor_file::check(bytes);
});
