//! The kinds of failures. They are apart from the error of `carton-core`, so that the crates below it can classify their own errors.

use std::io;

/// The kind of an error of `carton-core`, which decides what a caller does about it. The `carton` command has an exit code for some
/// kinds; a server can have a status for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller passed something wrong: inputs that contradict the signature, an invalid name or location, a path where nothing is,
    /// metadata that breaks a rule. The same call fails again.
    InvalidInput,
    /// A call, or loading the model, took longer than its timeout. The runner was killed if it was working on it.
    Timeout,
    /// The model is busy: too many calls wait for it, or their tensors fill its shared memory. The same call may succeed later.
    Busy,
    /// The model or its framework failed in the call, and the runner goes on; or the model returned something else than the signature
    /// declares. Or the runner refuses to load the model.
    Model,
    /// The runner's process died or could not be started.
    RunnerCrashed,
    /// No installed runner fits the carton, or the runner lacks something on this machine.
    NoRunner,
    /// The carton is malformed, damaged, tampered with, or not the one that was expected.
    Integrity,
    /// The carton is not signed by a signer that is trusted for its place, and must be.
    Untrusted,
    /// The carton may be valid, but this library cannot use it: it has a later version of the format, needs another platform, or exceeds
    /// a limit, such as the number of files.
    Unsupported,
    /// Something must be fetched over the network and cannot be.
    Network,
    /// The operating system refused something: a file cannot be read or written, the disk is full, memory is exhausted.
    Machine,
    /// A self-test of the packed model failed.
    SelfTest,
    /// The metadata declares other inputs or outputs than the model to be packed has.
    SignatureMismatch,
    /// The caller cancelled the work.
    Interrupted,
    /// Any other failure.
    Other,
}

impl ErrorKind {
    /// The kind of the operating system's refusal of `action`. If there is nothing to open, the caller named a wrong path.
    pub fn of_io(action: &str, source: &io::Error) -> Self {
        match (action, source.kind()) {
            ("open", io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Self::InvalidInput,
            _ => Self::Machine,
        }
    }
}
