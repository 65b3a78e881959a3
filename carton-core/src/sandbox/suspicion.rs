//! Which resource limit is the likely cause of a failure: a guess, from how a process ended and from what it said. Pure.
//!
//! A process that meets a limit gets an error of the system like any other, and says what its framework makes of that.

use std::fmt;

use carton_sandbox::Limits;

/// A limit that is the likely cause of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SuspectedLimit {
    /// The name of the limit, such as `memory`.
    pub name: &'static str,
    /// Its value: bytes, seconds or a number.
    pub value: u64,
}

impl fmt::Display for SuspectedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if Limits::is_size(self.name) { " bytes" } else { "" };
        write!(f, "`{}` of {}{unit}", self.name, self.value)
    }
}

/// The signals that a process dies by when a limit ends it, or when it cannot go on without what a limit refuses. Their numbers are those
/// of Linux on all architectures that runners exist for.
const SIGNALS: &[(i32, &[&str])] = &[
    // At once where the hard limit is reached, and by the system when a cgroup is full.
    (9, &["cpu_seconds", "memory"]),
    (24, &["cpu_seconds"]),
    (25, &["file_size"]),
    // Programs that get no memory abort, or use what they did not get.
    (6, &["memory"]),
    (7, &["memory", "file_size"]),
    (11, &["memory"]),
];

/// What programs and libraries say, in lower case, about the errors that limits cause.
const WORDS: &[(&str, &[&str])] = &[
    // ENOMEM, and what allocators, C++, Rust, Python and NumPy say.
    ("cannot allocate memory", &["memory"]),
    ("failed to allocate memory", &["memory"]),
    ("memory allocation", &["memory"]),
    ("out of memory", &["memory"]),
    ("bad_alloc", &["memory"]),
    ("memoryerror", &["memory"]),
    ("unable to allocate", &["memory"]),
    ("failed to map segment", &["memory"]),
    // EAGAIN: there is no room for a process or thread, or none for its stack.
    ("resource temporarily unavailable", &["processes", "memory"]),
    ("can't start new thread", &["processes", "memory"]),
    // EMFILE. The dynamic linker says its number only.
    ("too many open files", &["open_files"]),
    ("cannot open shared object file: error 24", &["open_files"]),
    // EFBIG.
    ("file too large", &["file_size"]),
];

/// Returns the limits that are the likely cause of a failure, of those that are set: by the signal that ended the process, if one did, and by
/// what was said.
pub(crate) fn suspected_limits<'a>(
    limits: &Limits,
    signal: Option<i32>,
    texts: impl IntoIterator<Item = &'a str>,
) -> Vec<SuspectedLimit> {
    let mut names: Vec<&'static str> = Vec::new();
    for text in texts {
        // The memory of a GPU is not limited.
        let text = text.to_lowercase();
        let words = WORDS.iter().filter(|(words, _)| text.contains(words) && !text.contains("cuda"));
        names.extend(words.flat_map(|(_, names)| *names));
    }
    let is_set = |name: &&str| limits.get(name).is_some();
    // What was said is more certain than what a signal means.
    if !names.iter().any(is_set) {
        let meant = SIGNALS.iter().filter(|(number, _)| Some(*number) == signal);
        names.extend(meant.flat_map(|(_, names)| *names));
    }
    let all = Limits::NAMES.iter().filter(|name| names.contains(name));
    all.filter_map(|name| Some(SuspectedLimit { name, value: limits.get(name)? })).collect()
}

/// What the user can do about limits that are too low.
pub(crate) fn hint(limits: &[SuspectedLimit]) -> String {
    let named: Vec<String> = limits.iter().map(ToString::to_string).collect();
    format!("the limit {} may be too low: raise it", named.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_put_down_to_the_limits_that_are_set() {
        let mut all = Limits::default();
        for name in Limits::NAMES {
            let _ = all.set(name, 7);
        }
        let check = |signal: Option<i32>, text: &str, expected: &[&str]| {
            let names =
                |limits| suspected_limits(limits, signal, [text]).iter().map(|limit| limit.name).collect::<Vec<_>>();
            assert_eq!(names(&all), expected, "{signal:?} {text}");
            assert!(names(&Limits::default()).is_empty(), "{signal:?} {text}");
        };
        check(
            None,
            "a launcher cannot start a thread: Resource temporarily unavailable (os error 11)",
            &["memory", "processes"],
        );
        check(None, "OSError: [Errno 24] Too many open files: '/dev/null'", &["open_files"]);
        check(None, "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8 GiB", &["memory"]);
        check(None, "OpenBLAS error: Memory allocation still failed after 10 retries, giving up.", &["memory"]);
        check(None, "ONNX Runtime: Failed to allocate memory for requested buffer of size 1200000000", &["memory"]);
        check(None, "CUDA error: out of memory", &[]);
        check(None, "OSError: [Errno 27] File too large", &["file_size"]);
        check(None, "the model has no layer 7", &[]);
        check(Some(9), "", &["memory", "cpu_seconds"]);
        check(Some(24), "", &["cpu_seconds"]);
        check(Some(6), "terminate called after throwing 'std::bad_alloc'", &["memory"]);
        check(Some(6), "too many open files", &["open_files"]);
        check(Some(15), "", &[]);
    }

    #[test]
    fn a_limit_is_named_with_its_value() {
        let limits = [SuspectedLimit { name: "memory", value: 1024 }, SuspectedLimit { name: "processes", value: 3 }];
        let expected = "the limit `memory` of 1024 bytes or `processes` of 3 may be too low: raise it";
        assert_eq!(hint(&limits), expected);
    }
}
