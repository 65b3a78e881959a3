//! Why a model cannot be packed.

use std::path::PathBuf;

use carton_format::archive::ArchiveError;
use carton_format::digest::Sha256Digest;
use carton_format::error_kind::ErrorKind;
use carton_format::url::ShownUrl;
use carton_network::hub::InvalidHubName;
use carton_templates::TemplateError;
use carton_tensor::content::Content;
use carton_tensor::npy::NpyError;

use crate::error::{Advice, Error, Failure};
use crate::package::PackageError;
use crate::sandbox::SuspectedLimit;
use crate::self_test_report::SelfTestReport;

/// Why a model cannot be packed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PackError {
    /// The carton cannot be written from this input.
    #[error(transparent)]
    Package(PackageError),
    /// A tensor file cannot be used.
    #[error("cannot use `{}`", path.display())]
    TensorFile { path: PathBuf, source: NpyError },
    /// The model is an empty or truncated file.
    #[error("cannot pack `{}`", path.display())]
    ModelFile { path: PathBuf, source: ArchiveError },
    /// The model is another kind of file, which stands in its place.
    #[error("cannot pack `{}`: it is {content}", path.display())]
    ModelContent { path: PathBuf, content: Content },
    /// The files of a framework cannot be read.
    #[error(transparent)]
    Template(TemplateError),
    /// The model is known, and no runner runs it.
    #[error("cannot pack `{}`: it is {kind}, which nothing runs as it is", path.display())]
    NotRun { path: PathBuf, kind: String, hint: String },
    /// The name is none of a repository on the Hub.
    #[error("cannot use `{name}`")]
    HubName { name: ShownUrl, source: InvalidHubName },
    /// The file is not the one whose digest follows its address.
    #[error("`{location}` is another file than the one that is asked for: expected SHA-256 {expected}, found {found}")]
    OtherFile { location: String, expected: Sha256Digest, found: Sha256Digest },
    /// The user gives the digest of a folder.
    #[error("`{location}` is a folder, which has no SHA-256")]
    DigestOfFolder { location: String },
    /// No template is known for the files.
    #[error("no template runs `{}`", path.display())]
    NoTemplate { path: PathBuf },
    /// Files that would be packed hold secrets.
    #[error("the model has what looks like a secret:\n{}", lines(secrets))]
    Secrets {
        /// The files, and what they hold.
        secrets: Vec<String>,
        /// The path of the first, as it is to be allowed.
        first: String,
        /// Whether that is a file of the model's folder.
        is_in_folder: bool,
    },
    /// The metadata refers to something that cannot be used.
    #[error("{place} refers to `{reference}`")]
    Reference {
        /// The self-test or example, and its input or output.
        place: String,
        /// The file, and the array in it.
        reference: String,
        source: Error,
    },
    /// An `.npz` file holds several arrays and none was named.
    #[error("`{}` holds {} arrays, name one with `#`: {}", path.display(), names.len(), names.join(", "))]
    NpzMember { path: PathBuf, names: Vec<String> },
    /// The inputs of a self-test that is to be recorded have no names.
    #[error("the inputs of a self-test have no names, and neither the metadata nor the model declares any")]
    NoSignature,
    /// The metadata declares inputs alone, and nothing tells the outputs.
    #[error("the inputs are declared and the outputs are not, and neither the model nor a self-test tells them")]
    OutputsUnknown,
    /// The metadata has mistakes that [`Pack::strict`](crate::Pack::strict) refuses: one sentence for each.
    #[error("the metadata has mistakes:\n{}", lines(mistakes))]
    Mistakes { mistakes: Vec<String> },
    /// The metadata contradicts the model: one sentence for each contradiction, in the words of the runner.
    #[error("the declared inputs and outputs are not those of the model:\n{}", lines(mismatches))]
    SignatureMismatch { mismatches: Vec<String> },
    /// Self-tests of the packed model failed; nothing was written.
    #[error("{}", .0.failures())]
    SelfTests(SelfTestReport),
    /// The packed model could not be checked; nothing was written.
    #[error("the packed model {what}")]
    Check {
        /// What went wrong: `does not load`, `stops in a self-test`.
        what: &'static str,
        source: Error,
    },
    /// The caller named no runner, and the model's files do not show which one runs it.
    #[error("cannot tell from `{}` which runner runs the model", path.display())]
    RunnerUnknown {
        path: PathBuf,
        /// What the file is, if it is recognized.
        content: Option<Content>,
    },
}

impl Failure for PackError {
    fn kind(&self) -> ErrorKind {
        match self {
            // The fault is in the model or the metadata to be packed, not in a carton.
            Self::Package(error) => match error.kind() {
                kind @ (ErrorKind::Interrupted | ErrorKind::Machine) => kind,
                _ => ErrorKind::InvalidInput,
            },
            Self::Template(TemplateError::Io { verb, source, .. }) => ErrorKind::of_io(verb, source),
            Self::Check { source, .. } | Self::Reference { source, .. } => source.kind(),
            Self::SelfTests(_) => ErrorKind::SelfTest,
            Self::SignatureMismatch { .. } => ErrorKind::SignatureMismatch,
            _ => ErrorKind::InvalidInput,
        }
    }

    fn advice(&self) -> Option<Advice> {
        match self {
            Self::Check { source, .. } | Self::Reference { source, .. } => source.advice(),
            Self::SignatureMismatch { .. } => Some("correct [[input]] and [[output]]".into()),
            Self::SelfTests(report) => report.self_tests.iter().find_map(|test| test.hint.clone()).map(Advice::Text),
            Self::ModelContent { content, .. } | Self::TensorFile { source: NpyError::NotNpz { content, .. }, .. } => {
                content.hint().map(Advice::from)
            }
            Self::Template(error) => error.hint().map(Advice::from),
            Self::NoTemplate { .. } => Some(
                "only the files of frameworks have one, such as those of XGBoost or Keras; other models are packed as they are".into(),
            ),
            Self::NotRun { hint, .. } => Some(Advice::Text(hint.clone())),
            Self::Secrets { first, is_in_folder, .. } => {
                Some(Advice::AllowSecret { path: first.clone(), is_in_folder: *is_in_folder })
            }
            Self::DigestOfFolder { .. } => {
                Some("a repository of the Hub is pinned by a commit: hf://OWNER/REPOSITORY@COMMIT".into())
            }
            Self::NoSignature => Some(Advice::DeclareInputs),
            Self::OutputsUnknown => Some(Advice::DeclareOutputs),
            Self::RunnerUnknown { content, .. } => Some(Advice::NameRunner { content: *content }),
            _ => None,
        }
    }

    fn suspected_limits(&self) -> &[SuspectedLimit] {
        self.within().map_or(&[], Error::suspected_limits)
    }

    fn is_not_found(&self) -> bool {
        match self {
            Self::Package(error) => error.is_not_found(),
            Self::Template(TemplateError::Io { source, .. }) => source.kind() == std::io::ErrorKind::NotFound,
            _ => false,
        }
    }

    fn within(&self) -> Option<&Error> {
        match self {
            Self::Check { source, .. } | Self::Reference { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl Error {
    /// The results of the self-tests of a packed model, if some of them failed.
    #[must_use]
    pub fn self_test_report(&self) -> Option<&SelfTestReport> {
        match self.find()? {
            PackError::SelfTests(report) => Some(report),
            _ => None,
        }
    }

    /// Whether a model was packed, and could not be loaded or run to check the carton. [`Pack::check`](crate::Pack::check) switches the check
    /// off.
    #[must_use]
    pub fn is_of_check(&self) -> bool {
        matches!(self.find(), Some(PackError::Check { .. }))
    }

    /// Wraps an error of the check of a packed model. An interruption is returned as it is, because it says nothing about the model.
    pub(super) fn in_check(self, what: &'static str) -> Self {
        match self.kind() {
            ErrorKind::Interrupted => self,
            _ => PackError::Check { what, source: self }.into(),
        }
    }
}

/// How many contradictions, mistakes or secrets a message lists.
const MAX_LINES: usize = 50;

fn lines(texts: &[String]) -> String {
    let mut text = texts.iter().take(MAX_LINES).cloned().collect::<Vec<_>>().join("\n");
    if texts.len() > MAX_LINES {
        text.push_str(&format!("\nand {} more", texts.len() - MAX_LINES));
    }
    text
}
