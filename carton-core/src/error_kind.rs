//! What sorts of failures there are. Apart from [`Error`](crate::Error), which knows the errors of every layer, so that the layers
//! can say of which sort theirs are.

/// What sort of failure an [`Error`](crate::Error) is; the `carton` command has an exit code for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// None of the others: the model failed, an input is wrong, a file cannot be written.
    Failure,
    /// The carton is malformed, damaged, tampered with, or not the one that was expected.
    Integrity,
    /// No installed runner fits the carton, or one lacks what it needs on this machine.
    NoRunner,
    /// The runner died, could not be started, or refused the model.
    RunnerCrashed,
    /// A self-test of a model that was packed failed.
    SelfTest,
    /// The metadata declares other inputs or outputs than the model has that was to be packed.
    SignatureMismatch,
    /// Something has to come over the network and cannot.
    Network,
    /// The work was given up on request.
    Interrupted,
}
