//! Handles panics of libraries that our code catches. The hook of libFuzzer ends the process at every panic. If files are read under a
//! guard, only panics of our own code and uncaught panics are findings.

use std::cell::RefCell;
use std::panic::{PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::path::Path;

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Lets panics of libraries pass until they are caught. Call this once, after the fuzzer has set its own hook.
pub fn tolerate_those_of_libraries() {
    let ends_the_process = take_hook();
    set_hook(Box::new(move |panic| {
        if is_ours(panic) {
            ends_the_process(panic);
        }
        LAST.set(panic.to_string());
    }));
}

/// Runs `check`. If it panics, prints the panic and ends the process.
pub fn none_escapes(check: fn(&[u8]) -> bool, bytes: &[u8]) {
    if catch_unwind(|| check(bytes)).is_err() {
        eprintln!("nothing caught the panic: {}", LAST.take());
        std::process::abort();
    }
}

fn is_ours(panic: &PanicHookInfo<'_>) -> bool {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    // Paths in this crate are relative.
    panic.location().is_some_and(|location| {
        location.file().starts_with("src/")
            || repository.is_some_and(|place| Path::new(location.file()).starts_with(place))
    })
}
