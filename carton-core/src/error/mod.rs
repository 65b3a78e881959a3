//! The error of the public API: a message, its causes, and what a caller can do about it.
//!
//! Each layer has an error of its own, which is a [`Failure`]: it says its kind and its advice itself. Outside of the crate all of them are
//! an [`Error`].

mod advice;
mod lower;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use carton_format::error_kind::ErrorKind;
use carton_format::signature::{SignatureError, TooManyPositional, Violation};

use crate::sandbox::SuspectedLimit;

pub use advice::Advice;

/// Why an operation failed. [`kind`](Self::kind) classifies the failure, [`hint`](Self::hint) says what to do about it, and
/// [`source`](std::error::Error::source) leads to the causes.
///
/// The errors of the layers of this library become one by `From`. They have no names outside.
///
/// `Debug` is written for people: the message, the causes and the hint. A program whose `main` returns this error prints it, and
/// `unwrap` shows it.
///
/// ```
/// use carton_core::{Carton, ErrorKind, block_on};
///
/// let error = block_on(Carton::open("no-such.carton")).err();
/// assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::InvalidInput));
/// ```
pub struct Error(Box<dyn Failure>);

/// The error of a layer.
pub trait Failure: std::error::Error + Send + Sync + 'static {
    /// The kind of the failure.
    fn kind(&self) -> ErrorKind;

    /// What the user can do about it. A full disk and limits that are too low have their own advice, whichever error reports them.
    fn advice(&self) -> Option<Advice> {
        None
    }

    /// The resource limits that are the likely cause.
    fn suspected_limits(&self) -> &[SuspectedLimit] {
        &[]
    }

    /// Whether a server does not answer.
    fn is_unreachable(&self) -> bool {
        false
    }

    /// Whether the fault is in a location, or in the hash of what is there, as the caller gave it.
    fn is_of_location(&self) -> bool {
        false
    }

    /// Whether there is nothing at a path that the caller named.
    fn is_not_found(&self) -> bool {
        false
    }

    /// The error that this one only says the circumstances of.
    fn within(&self) -> Option<&Error> {
        None
    }

    /// Makes the public error of it.
    fn into_error(self) -> Error
    where
        Self: Sized,
    {
        Error::of(self)
    }
}

impl<E: Failure> From<E> for Error {
    fn from(failure: E) -> Self {
        failure.into_error()
    }
}

impl Error {
    /// An error that only a bug leads to, in this library or in the program that uses it. Its kind is [`ErrorKind::Other`].
    #[must_use]
    pub fn internal(what: impl Into<String>) -> Self {
        Internal(what.into()).into()
    }

    /// The public form of a failure.
    pub(crate) fn of(failure: impl Failure) -> Self {
        Self(Box::new(failure))
    }

    /// For `map_err`: the action `what` failed for the file at `path`.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| IoFailure { what, path, source }.into()
    }

    /// Returns the kind of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind()
    }

    /// What the user can do about the error, if anything, in the words of this library. It is the text of [`advice`](Self::advice).
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        self.advice().map(|advice| advice.to_string())
    }

    /// What the user can do about the error, if anything, for a program that says so in its own words.
    #[must_use]
    pub fn advice(&self) -> Option<Advice> {
        match self.suspected_limits() {
            [] if self.is_disk_full() => Some(Advice::FreeSpace),
            [] => self.0.advice(),
            limits => Some(Advice::RaiseLimits(limits.to_vec())),
        }
    }

    /// Returns the resource limits that are the likely cause. Empty if no limit is set, or if the failure does not look like one of a limit.
    #[must_use]
    pub fn suspected_limits(&self) -> &[SuspectedLimit] {
        self.0.suspected_limits()
    }

    /// Whether a cause of this error is a full disk.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        let causes = std::iter::successors(Some(self as &dyn std::error::Error), |error| error.source());
        let is_full = |error: &io::Error| error.kind() == io::ErrorKind::StorageFull;
        causes.filter_map(|error| error.downcast_ref::<io::Error>()).any(is_full)
    }

    /// Whether a server that something is read from does not answer.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        self.0.is_unreachable()
    }

    /// Whether the fault is in a location as the caller gave it, or in the hash of what is there: a URL that is not valid, for one.
    #[must_use]
    pub fn is_of_location(&self) -> bool {
        self.0.is_of_location()
    }

    /// Whether there is nothing at a path that the caller named.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.0.is_not_found()
    }

    /// The differences between the inputs or outputs of a call and the signature of the model. Empty for other errors.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        self.find::<SignatureError>().map_or(&[], |error| &error.violations)
    }

    /// Whether the inputs or outputs of a call contradict the signature of the model: there are [`violations`](Self::violations), or more
    /// positional inputs than the signature has names for.
    #[must_use]
    pub fn is_of_signature(&self) -> bool {
        self.find::<SignatureError>().is_some() || self.find::<TooManyPositional>().is_some()
    }

    /// The error of a layer, if that is what this is, or what this only says the circumstances of.
    pub(crate) fn find<E: Failure>(&self) -> Option<&E> {
        let failure: &(dyn std::error::Error + 'static) = &*self.0;
        failure.downcast_ref().or_else(|| self.0.within()?.find())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The lines of a message are indented alike.
        let indented = |text: String| text.trim_end().replace('\n', "\n    ");
        write!(f, "{}", indented(self.to_string()))?;
        let mut causes = std::iter::successors(std::error::Error::source(self), |cause| cause.source()).peekable();
        if causes.peek().is_some() {
            f.write_str("\n\nCaused by:")?;
        }
        causes.try_for_each(|cause| write!(f, "\n    {}", indented(cause.to_string())))?;
        match self.hint() {
            Some(hint) => write!(f, "\n\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// A file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} `{}`", path.display())]
pub(crate) struct IoFailure {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl Failure for IoFailure {
    fn kind(&self) -> ErrorKind {
        ErrorKind::of_io(self.what, &self.source)
    }

    fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::InvalidInput
    }
}

/// A bug.
#[derive(Debug, thiserror::Error)]
#[error("internal error: {0}")]
struct Internal(String);

impl Failure for Internal {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Other
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_full_disk_is_found_among_the_causes() {
        let full = Error::io("write", Path::new("x"))(io::ErrorKind::StorageFull.into());
        assert_eq!((full.kind(), full.advice()), (ErrorKind::Machine, Some(Advice::FreeSpace)));
        assert!(full.hint().is_some_and(|hint| !hint.contains("carton cache")));
        let refused = Error::io("write", Path::new("x"))(io::ErrorKind::PermissionDenied.into());
        assert_eq!(refused.advice(), None);
    }

    #[test]
    fn a_missing_file_is_what_the_caller_named() {
        let of = |what| Error::io(what, Path::new("x"))(io::ErrorKind::NotFound.into());
        assert!(of("open").is_not_found() && !of("write").is_not_found());
    }
}
