//! The error of the public API. It wraps the errors of all layers and sorts them by what a caller does about them.

use std::fmt;
use std::path::{Path, PathBuf};

use carton_format::archive::ArchiveError;
use carton_format::context::Cancelled;
use carton_format::error_kind::ErrorKind;
use carton_format::manifest::ManifestHash;
use carton_format::metadata::MetadataError;
use carton_format::signature::{SignatureError, TooManyPositional, ViolationKind};
use carton_network::http::NetworkError;
use carton_network::hub::HubError;
use carton_network::oci::OciError;
use carton_network::place::PlaceError;
use carton_runner_interface::host::CallError;
use carton_runner_interface::runner::{RunnerError, RunnerErrorKind};
use carton_tensor::content::Content;
use carton_tensor::npy::NpyError;

use crate::cache::CacheError;
use crate::config::ConfigError;
use crate::contents::ContentsError;
use crate::location::PinError;
use crate::package::PackageError;
use crate::runner::launch::LaunchError;
use crate::runner::session::StartError;
use crate::runner::{Crash, InstallError, NoRunner, RegistryError};
use crate::runner_message::{RunnerMessage, runner_error};
use crate::sandbox::{SuspectedLimit, limits_hint};
use crate::self_test_report::SelfTestReport;
use crate::shrink_error::ShrinkError;
use crate::trust::TrustError;
use crate::variables::VariableError;

/// Why an operation failed. [`kind`](Self::kind) classifies the failure, [`hint`](Self::hint) says what to do about it, and
/// [`source`](std::error::Error::source) leads to the causes.
///
/// `Debug` is written for people: the message, the causes and the hint. A program whose `main` returns this error prints it, and
/// `unwrap` shows it.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The carton cannot be read.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// The carton cannot be packed from this input.
    #[error(transparent)]
    Pack(PackageError),
    /// A file of the carton is missing, damaged, or not the one its manifest lists.
    #[error(transparent)]
    Contents(#[from] ContentsError),
    /// Metadata given to `pack` breaks a rule of the format.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// A tensor file given to `pack` cannot be used.
    #[error("cannot use `{}`", path.display())]
    TensorFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: NpyError,
    },
    /// The model to be packed is an empty or truncated file.
    #[error("cannot pack `{}`", path.display())]
    ModelFile {
        /// The file.
        path: PathBuf,
        /// Which of the two.
        source: ArchiveError,
    },
    /// The model to be packed is another kind of file, which stands in its place.
    #[error("cannot pack `{}`: it is {content}", path.display())]
    ModelContent {
        /// The file.
        path: PathBuf,
        /// What it is.
        content: Content,
    },
    /// The metadata of a model to be packed refers to something that cannot be used.
    #[error("{place} refers to `{reference}`")]
    Reference {
        /// The self-test or example, and its input or output.
        place: String,
        /// The file, and the array in it.
        reference: String,
        /// The cause.
        source: Box<Error>,
    },
    /// An `.npz` file holds several arrays and none was named.
    #[error("`{}` holds {} arrays, name one with `#`: {}", path.display(), names.len(), names.join(", "))]
    NpzMember {
        /// The file.
        path: PathBuf,
        /// The arrays in it.
        names: Vec<String>,
    },
    /// Self-tests cannot be recorded, because the model's inputs are unknown.
    #[error("a self-test can be recorded only where inputs are declared, and the model does not tell its own")]
    NoSignature,
    /// The metadata given to `pack` declares inputs alone, and nothing tells the outputs.
    #[error("the inputs are declared and the outputs are not, and neither the model nor a self-test tells them")]
    OutputsUnknown,
    /// The metadata given to `pack` has mistakes that [`Pack::strict`](crate::Pack::strict) refuses.
    #[error("the metadata has mistakes:\n{}", lines(mistakes))]
    Mistakes {
        /// One sentence for each mistake.
        mistakes: Vec<String>,
    },
    /// The metadata given to `pack` contradicts the model.
    #[error("the declared inputs and outputs are not those of the model:\n{}", lines(mismatches))]
    SignatureMismatch {
        /// One sentence for each contradiction, in the words of the runner.
        mismatches: Vec<String>,
    },
    /// Self-tests of the packed model failed; nothing was written.
    #[error("{}", .0.failures())]
    SelfTests(SelfTestReport),
    /// The packed model could not be checked; nothing was written. [`kind`](Self::kind) is that of the source.
    #[error("the packed model {what}")]
    Check {
        /// What went wrong: `does not load`, `stops in a self-test`.
        what: &'static str,
        /// The cause.
        source: Box<Error>,
    },
    /// A runner gave an invalid answer.
    #[error("runner {runner} answered `{found}`, expected {expected}")]
    RunnerAnswer {
        /// Name and version of the runner.
        runner: String,
        /// What would be valid.
        expected: &'static str,
        /// What it answered.
        found: String,
    },
    /// The carton supports only other platforms.
    #[error("the model runs on {} only, this is {found}", required.join(", "))]
    Platform {
        /// `required_platforms` of the carton.
        required: Vec<String>,
        /// This platform.
        found: &'static str,
    },
    /// A registry of cartons does not do what it is asked for.
    #[error(transparent)]
    Oci(Box<OciError>),
    /// Something on the Hugging Face Hub cannot be used.
    #[error(transparent)]
    Hub(HubError),
    /// Installed runners cannot be listed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// No installed runner fits.
    #[error(transparent)]
    NoRunner(#[from] Box<NoRunner>),
    /// A runner could not be installed.
    #[error(transparent)]
    Install(Box<InstallError>),
    /// The runner's process could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The runner died, hung at its start, or broke the protocol.
    #[error(transparent)]
    RunnerCrashed(#[from] Crash),
    /// The runner died earlier, and the carton was loaded with restarts turned off.
    #[error("runner {runner} died earlier and is not restarted")]
    RunnerGone {
        /// Name and version of the runner.
        runner: String,
    },
    /// The runner will not load or pack this model.
    #[error("runner {runner} refused the model")]
    LoadRefused {
        /// Name and version of the runner.
        runner: String,
        /// The message of the runner.
        source: RunnerMessage,
    },
    /// The runner lacks something on this machine that the model needs: a library, a tool, packages.
    #[error("runner {runner} lacks something that the model needs")]
    Unavailable {
        /// Name and version of the runner.
        runner: String,
        /// The message of the runner.
        source: RunnerMessage,
    },
    /// Something that the runner needs for the model must be fetched over the network and cannot be.
    #[error("runner {runner} cannot get what the model needs")]
    RunnerNetwork {
        /// Name and version of the runner.
        runner: String,
        /// The message of the runner.
        source: RunnerMessage,
    },
    /// Something on this machine, or in what was asked for, keeps the runner from preparing the model.
    #[error("runner {runner} cannot prepare the model")]
    RunnerSetup {
        /// Name and version of the runner.
        runner: String,
        /// The message of the runner.
        source: RunnerMessage,
    },
    /// The model or its framework failed in this call; the runner goes on.
    #[error("the model failed in runner {runner}")]
    Model {
        /// Name and version of the runner.
        runner: String,
        /// The message of the runner.
        source: RunnerMessage,
    },
    /// A call took longer than its timeout.
    #[error("{}", timeout_text(runner, *waiting))]
    Timeout {
        /// Name and version of the runner.
        runner: String,
        /// Whether the call was still waiting: for its turn, for a fresh runner, or for the answer to a ping. If it was running,
        /// the runner was killed.
        waiting: bool,
        /// What the user can do about it, if more is known than that it takes long.
        hint: Option<String>,
    },
    /// The runner did not load the model within [`Load::load_timeout`](crate::Load::load_timeout), and was killed.
    #[error("loading the model ran out of time; runner {runner} was killed")]
    LoadTimeout {
        /// Name and version of the runner.
        runner: String,
        /// What the user can do about it, if more is known than that it takes long.
        hint: Option<String>,
    },
    /// A call could not be made: too many are waiting, or there is no room for its tensors.
    #[error(transparent)]
    Call(CallError),
    /// Inputs or outputs contradict the carton's signature.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// Positional inputs that the signature has no names for.
    #[error(transparent)]
    TooManyPositional(#[from] TooManyPositional),
    /// Sealed inputs were passed to another model than the one that they are sealed for.
    #[error("the inputs are sealed for another model")]
    SealedForAnother,
    /// Something must be fetched over the network and cannot be.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The location is a URL that is not valid.
    #[error(transparent)]
    Location(#[from] PlaceError),
    /// The text after `#sha256=` is not a hash.
    #[error("expected 64 lower-case hexadecimal digits after `#sha256=`, found {found}")]
    Pin {
        /// The text, in backticks, as far as it may be shown.
        found: String,
    },
    /// Two different hashes are expected of one carton.
    #[error("the location pins the carton to {pinned}, the options expect {expect}")]
    TwoPins {
        /// From the location.
        pinned: ManifestHash,
        /// From the options.
        expect: ManifestHash,
    },
    /// The caller named no runner, and the model's files do not show which one runs it.
    #[error("cannot tell from `{}` which runner runs the model", path.display())]
    RunnerUnknown {
        /// The model.
        path: PathBuf,
        /// What the file is, if it is recognized.
        content: Option<Content>,
    },
    /// A file could not be read or written.
    #[error("cannot {what} `{}`", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The carton is not signed as the configuration or the caller requires.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The model cannot get an environment variable that the caller names.
    #[error(transparent)]
    Variable(#[from] VariableError),
    /// The carton cannot be shrunk.
    #[error(transparent)]
    Shrink(#[from] ShrinkError),
    /// A bug in this library.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// For `map_err`: the action `what` failed for the file at `path`.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { what, path, source }
    }

    /// The error for a model that `runner` refuses to load or pack.
    pub(crate) fn refused(runner: String, error: RunnerError, limits: Vec<SuspectedLimit>) -> Self {
        let kind = error.kind;
        let source = runner_error(error, limits);
        match kind {
            RunnerErrorKind::Unavailable => Self::Unavailable { runner, source },
            RunnerErrorKind::Network => Self::RunnerNetwork { runner, source },
            RunnerErrorKind::Setup => Self::RunnerSetup { runner, source },
            _ => Self::LoadRefused { runner, source },
        }
    }

    /// Wraps an error of the check of a packed model. An interruption is returned as it is, because it says nothing about the model.
    pub(crate) fn in_check(self, what: &'static str) -> Self {
        match self.kind() {
            ErrorKind::Interrupted => self,
            _ => Self::Check { what, source: Box::new(self) },
        }
    }

    /// Returns the kind of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Package(error) => error.kind(),
            Self::Contents(error) => error.kind(),
            // The fault is in the model or the metadata to be packed, not in a carton.
            Self::Pack(error) => match error.kind() {
                kind @ (ErrorKind::Interrupted | ErrorKind::Machine) => kind,
                _ => ErrorKind::InvalidInput,
            },
            Self::Check { source, .. } | Self::Reference { source, .. } => source.kind(),
            Self::SelfTests(_) => ErrorKind::SelfTest,
            Self::SignatureMismatch { .. } => ErrorKind::SignatureMismatch,
            Self::Oci(error) => error.kind(),
            Self::Hub(error) => error.kind(),
            Self::Network(error) => error.kind(),
            Self::RunnerNetwork { .. } => ErrorKind::Network,
            Self::NoRunner(_) | Self::Unavailable { .. } => ErrorKind::NoRunner,
            Self::Install(error) => error.kind(),
            Self::Launch(
                LaunchError::NoLauncher { .. }
                | LaunchError::Sandbox { .. }
                | LaunchError::Scratch { .. }
                | LaunchError::NotUtf8 { .. }
                | LaunchError::NotMounted { .. },
            ) => ErrorKind::Machine,
            Self::Launch(_) | Self::RunnerCrashed(_) | Self::RunnerGone { .. } | Self::Call(CallError::Closed(_)) => {
                ErrorKind::RunnerCrashed
            }
            Self::Model { .. } | Self::LoadRefused { .. } => ErrorKind::Model,
            Self::Signature(error) if error.is_of_outputs() => ErrorKind::Model,
            Self::Platform { .. } => ErrorKind::Unsupported,
            Self::Timeout { .. } | Self::LoadTimeout { .. } => ErrorKind::Timeout,
            // The inputs can never fit into a pool of this size.
            Self::Call(CallError::PoolFull { bytes, cap, .. }) if bytes > cap => ErrorKind::InvalidInput,
            Self::Call(CallError::QueueFull { .. } | CallError::PoolFull { .. }) => ErrorKind::Busy,
            Self::Call(CallError::InputsTooLarge { .. } | CallError::TooLarge { .. } | CallError::Tensor(_))
            | Self::Signature(_)
            | Self::TooManyPositional(_)
            | Self::SealedForAnother
            | Self::Location(_)
            | Self::Pin { .. }
            | Self::TwoPins { .. }
            | Self::Config(_)
            | Self::Metadata(_)
            | Self::TensorFile { .. }
            | Self::ModelFile { .. }
            | Self::ModelContent { .. }
            | Self::NpzMember { .. }
            | Self::NoSignature
            | Self::OutputsUnknown
            | Self::Mistakes { .. }
            | Self::RunnerUnknown { .. }
            | Self::Variable(_)
            | Self::Shrink(_) => ErrorKind::InvalidInput,
            Self::Cache(error) => error.kind(),
            Self::Trust(error) => error.kind(),
            Self::Io { what, source, .. } => ErrorKind::of_io(what, source),
            Self::Registry(_) | Self::RunnerSetup { .. } | Self::Call(CallError::Io { .. }) => ErrorKind::Machine,
            _ => ErrorKind::Other,
        }
    }

    /// What the user can do about the error, if anything.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let full = || "make room; pruning the cache deletes unused entries".to_owned();
        let limits = limits_hint(self.suspected_limits());
        limits.or_else(|| self.own_hint()).or_else(|| self.is_disk_full().then(full))
    }

    /// Returns the resource limits that are the likely cause. Empty if no limit is set, or if the failure does not look like one of a limit.
    #[must_use]
    pub fn suspected_limits(&self) -> &[SuspectedLimit] {
        match self {
            Self::Check { source, .. } | Self::Reference { source, .. } => source.suspected_limits(),
            Self::Launch(error) => error.suspected_limits(),
            Self::RunnerCrashed(crash) => &crash.limits,
            Self::LoadRefused { source, .. }
            | Self::Unavailable { source, .. }
            | Self::RunnerNetwork { source, .. }
            | Self::RunnerSetup { source, .. }
            | Self::Model { source, .. } => &source.limits,
            _ => &[],
        }
    }

    /// Whether a cause of this error is a full disk.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        let causes = std::iter::successors(Some(self as &dyn std::error::Error), |error| error.source());
        let is_full = |error: &std::io::Error| error.kind() == std::io::ErrorKind::StorageFull;
        causes.filter_map(|error| error.downcast_ref::<std::io::Error>()).any(is_full)
    }

    fn own_hint(&self) -> Option<String> {
        match self {
            Self::Cache(error) => error.hint(),
            Self::NoRunner(error) => Some(error.hint()),
            Self::Registry(error) => error.hint(),
            Self::Launch(error) => error.hint(),
            Self::Check { source, .. } => source.hint(),
            Self::SignatureMismatch { .. } => Some("correct [[input]] and [[output]]".to_owned()),
            Self::SelfTests(report) => report.self_tests.iter().find_map(|test| test.hint.clone()),
            Self::Reference { source, .. } => source.own_hint(),
            Self::LoadRefused { source, .. }
            | Self::Unavailable { source, .. }
            | Self::RunnerNetwork { source, .. }
            | Self::RunnerSetup { source, .. }
            | Self::Model { source, .. } => source.hint.clone(),
            Self::ModelContent { content, .. } => content.hint().map(str::to_owned),
            Self::TensorFile { source: NpyError::NotNpz { content, .. }, .. } => content.hint().map(str::to_owned),
            Self::NoSignature => Some("declare them in the metadata: a carton.toml with [[input]]".to_owned()),
            Self::OutputsUnknown => {
                Some("declare [[output]], record a self-test, or give a self-test its expected_out".to_owned())
            }
            Self::Network(error) => error.hint(),
            Self::Oci(error) => error.hint(),
            Self::Hub(error) => error.hint(),
            Self::Trust(error) => error.hint(),
            Self::Contents(error) | Self::Package(PackageError::Contents(error)) => error.hint(),
            Self::Install(error) => error.hint(),
            Self::Shrink(error) => error.hint(),
            Self::Variable(error) => error.hint(),
            Self::Package(PackageError::Archive(ArchiveError::NotZip { content: Some(content), .. })) => {
                content.hint().map(str::to_owned)
            }
            Self::Package(PackageError::OutputIsSource { .. }) => Some("name another file to write".to_owned()),
            Self::Package(PackageError::ExampleInput { .. }) => Some(
                "make a tensor of the file, as the model needs it, and pass that; unpacking the carton gives the file"
                    .to_owned(),
            ),
            Self::Signature(error) if error.lacks_inputs() => {
                Some("pass it; or load the model with the signature mode `warn`, where it does without it".to_owned())
            }
            Self::Signature(error) => Some(signature_hint(error)),
            Self::TooManyPositional(_) => Some("pass inputs by name".to_owned()),
            Self::SealedForAnother => Some("seal them for the model that is called".to_owned()),
            Self::Timeout { hint, .. } | Self::LoadTimeout { hint, .. } => {
                hint.clone().or_else(|| Some("allow more time, or check that the model does not hang".to_owned()))
            }
            Self::Call(CallError::InputsTooLarge { .. }) => {
                Some("pass the input in parts, or use a runner that supports shared memory".to_owned())
            }
            Self::Call(CallError::PoolFull { .. }) => {
                Some("drop outputs that are no longer needed, or allow more shared memory".to_owned())
            }
            _ => None,
        }
    }
}

impl From<PinError> for Error {
    fn from(error: PinError) -> Self {
        match error {
            PinError::Invalid { found } => Self::Pin { found },
            PinError::Two { pinned, expect } => Self::TwoPins { pinned, expect },
        }
    }
}

impl From<HubError> for Error {
    fn from(error: HubError) -> Self {
        match error {
            HubError::Network(error) => Self::Network(error),
            error => Self::Hub(error),
        }
    }
}

impl From<Cancelled> for Error {
    fn from(cancelled: Cancelled) -> Self {
        Self::Network(cancelled.into())
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

fn signature_hint(error: &SignatureError) -> String {
    if let Some(hint) = error.undeclared_bool_hint() {
        return format!("{hint}; if the model takes 0 and 1 as numbers, pass these");
    }
    match error.castable() {
        Some((input, dtype)) => format!("pass `{input}` as {dtype}, by a cast that changes no value but by rounding"),
        // Refused in every mode.
        None if error.violations.iter().any(|violation| violation.kind == ViolationKind::Element) => {
            "the carton declares what the model expects".to_owned()
        }
        None => "the carton declares what the model expects; where it declares the wrong thing, the signature mode `warn` runs the model \
                 anyway"
            .to_owned(),
    }
}

/// How many contradictions a message lists.
const MAX_MISMATCHES: usize = 50;

fn lines(texts: &[String]) -> String {
    let mut text = texts.iter().take(MAX_MISMATCHES).cloned().collect::<Vec<_>>().join("\n");
    if texts.len() > MAX_MISMATCHES {
        text.push_str(&format!("\nand {} more", texts.len() - MAX_MISMATCHES));
    }
    text
}

fn timeout_text(runner: &str, waiting: bool) -> String {
    if waiting {
        format!("the call ran out of time while it waited for runner {runner}")
    } else {
        format!("the call ran out of time; runner {runner} was killed")
    }
}

impl From<OciError> for Error {
    fn from(error: OciError) -> Self {
        Self::Oci(Box::new(error))
    }
}

impl From<InstallError> for Error {
    fn from(error: InstallError) -> Self {
        match error {
            InstallError::Registry(error) => Self::Registry(error),
            InstallError::NoRunner(error) => Self::NoRunner(error),
            InstallError::Cache(error) => Self::Cache(error),
            error => Self::Install(Box::new(error)),
        }
    }
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Launch(error) => Self::Launch(error),
            StartError::Crash(crash) => Self::RunnerCrashed(crash),
            StartError::Refused { runner, error, limits } => Self::refused(runner, error, limits),
            StartError::LoadTimeout { runner, hint } => Self::LoadTimeout { runner, hint },
            StartError::Call(error) => Self::Call(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_is_for_people() {
        let gone = Error::RunnerGone { runner: "onnx 1.32.0".to_owned() };
        assert_eq!(format!("{gone:?}"), "runner onnx 1.32.0 died earlier and is not restarted");
        let source = runner_error(
            RunnerError {
                message: "outer\nsecond line".to_owned(),
                causes: vec!["inner".to_owned()],
                hint: Some("do this".to_owned()),
                ..RunnerError::default()
            },
            Vec::new(),
        );
        let refused = Error::LoadRefused { runner: "onnx 1.32.0".to_owned(), source };
        let expected = "runner onnx 1.32.0 refused the model\n\nCaused by:\n    outer\n    second line\n    inner\n\n\
                        hint: do this";
        assert_eq!(format!("{refused:?}"), expected);
        assert_eq!(format!("{refused:#?}"), expected);
    }

    /// The commands that help are named by the program that has them.
    #[test]
    fn hints_name_no_commands() {
        let inputs = CallError::InputsTooLarge { input: "x".to_owned(), input_bytes: 2, bytes: 2, cap: 1 };
        let missing = InstallError::NotInstalled { asked: "t".to_owned(), runner_dir: PathBuf::from("runners") };
        for error in [Error::Call(inputs), missing.into()] {
            let hint = error.hint();
            assert!(hint.as_deref().is_some_and(|hint| !hint.contains("`carton ")), "{hint:?}");
        }
    }
}
