#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    carton_fuzz::oracle::model_card::check(bytes);
});
