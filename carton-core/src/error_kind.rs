//! What sorts of failures there are. Apart from [`Error`](crate::Error), which knows the errors of every layer, so that the layers
//! can say of which sort theirs are.

/// What sort of failure an [`Error`](crate::Error) is: what a caller does about it. The `carton` command has an exit code for some, a
/// server a status for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// What the caller passed is wrong: inputs that contradict the signature, a name or a location that is not valid, metadata that
    /// breaks a rule. The same call fails again.
    InvalidInput,
    /// A call took longer than it was allowed to. The runner was killed if it was working on the call.
    Timeout,
    /// The model is busy: too many calls wait for it, or their tensors fill its shared memory. The same call may succeed later.
    Busy,
    /// The model or its framework failed in the call, after which the runner goes on; or the runner refuses to load the model.
    Model,
    /// The runner died, or could not be started.
    RunnerCrashed,
    /// No installed runner fits the carton, or one lacks what it needs on this machine.
    NoRunner,
    /// The carton is malformed, damaged, tampered with, or not the one that was expected.
    Integrity,
    /// The carton needs something that this version of the library or this platform lacks, or it is beyond a limit of the library:
    /// a later version of the format, another platform, too many files. The carton may be fine.
    Unsupported,
    /// Something has to come over the network and cannot.
    Network,
    /// This machine refused something: a file cannot be read or written, a disk is full, memory cannot be had.
    Machine,
    /// A self-test of a model that was packed failed.
    SelfTest,
    /// The metadata declares other inputs or outputs than the model has that was to be packed.
    SignatureMismatch,
    /// The work was given up on request.
    Interrupted,
    /// None of the others.
    Other,
}
