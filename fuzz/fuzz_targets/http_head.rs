#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| carton_fuzz::oracle::http_head::check(text));
