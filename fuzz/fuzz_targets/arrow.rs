#![no_main]

use carton_fuzz::oracle::rows::check;
use carton_fuzz::panics::{none_escapes, tolerate_those_of_libraries};

libfuzzer_sys::fuzz_target!(init: tolerate_those_of_libraries(), |bytes: &[u8]| none_escapes(check, bytes));
