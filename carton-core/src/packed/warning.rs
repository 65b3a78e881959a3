//! What packing warns of.

use std::fmt;
use std::path::PathBuf;

use carton_format::digest::Sha256Digest;
use carton_format::metadata::Metadata;
use carton_format::unknown_keys::UnknownKey;
use carton_tensor::SymbolicShape;
use carton_tensor::content::Content;

use crate::runner::PLATFORM;

/// Something about a packed model that may be unintended, that differs from what the model says of itself, or that keeps other readers from
/// opening the carton. The text form is one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PackWarning {
    /// The metadata has a key that means nothing.
    UnknownKey(UnknownKey),
    /// A file of the model is a pointer of Git LFS, not the file itself.
    GitLfsPointer {
        /// The path in the model.
        path: PathBuf,
    },
    /// The Python model that runs a file of a framework has a peculiarity.
    Template {
        /// The peculiarity, a sentence.
        text: String,
    },
    /// A pattern of [`Pack::exclude`](crate::Pack::exclude) leaves nothing out.
    IdlePattern {
        /// The pattern.
        pattern: String,
    },
    /// A description refers to a file that is not in the carton.
    MissingFile {
        /// What the description is of, such as `model_description`.
        place: String,
        /// The path in `misc/`.
        path: String,
    },
    /// One of the required platforms is no target triple that the compiler of this library knows. Platforms are compared as texts, so that
    /// the model runs on none by that name.
    UnknownPlatform {
        /// The text.
        platform: String,
        /// The most similar triple, if one is similar enough.
        nearest: Option<&'static str>,
    },
    /// An input is optional although its declaration does not say so.
    OptionalInput {
        /// The input.
        input: String,
        /// The first self-test or example that leaves it out.
        left_out_by: String,
    },
    /// The model returns an output whose shape is not the one that it declares. The carton declares a shape that holds.
    ShapeCorrected {
        /// The output.
        output: String,
        /// What the model declares.
        declared: SymbolicShape,
        /// What the carton declares.
        corrected: SymbolicShape,
        /// What the model returned, and for which sizes.
        found: String,
    },
    /// On an input of zeros, the model contradicts outputs that cannot be corrected, because the metadata declares them, or because more than
    /// their shapes differ.
    OutputDiffers {
        /// The difference.
        difference: String,
    },
    /// The carton has a file that holds many tensors, so that only readers that know such files can open it
    /// (spec/carton-format-extensions.md, "Tensor files").
    TensorFile,
    /// Options of the runner are lists or tables. Readers that know only numbers, strings, booleans and dates, such as the first
    /// implementation, cannot open the carton.
    NestedOptions {
        /// Their names, sorted.
        names: Vec<String>,
    },
    /// Some of the [known links](crate::Pack::known_links) match no file that can be left out.
    Unmatched {
        /// Their digests, sorted.
        digests: Vec<Sha256Digest>,
    },
}

impl PackWarning {
    /// Whether this is a mistake in the metadata, which [`Pack::strict`](crate::Pack::strict) refuses.
    #[must_use]
    pub fn is_mistake(&self) -> bool {
        matches!(self, Self::UnknownKey(_) | Self::MissingFile { .. } | Self::UnknownPlatform { .. })
    }

    /// What keeps other readers from opening a carton with this metadata.
    pub(crate) fn of_format(metadata: &Metadata, has_tensor_file: bool) -> Vec<Self> {
        let names = metadata.nested_options();
        let nested = (!names.is_empty()).then_some(Self::NestedOptions { names });
        has_tensor_file.then_some(Self::TensorFile).into_iter().chain(nested).collect()
    }
}

impl fmt::Display for PackWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey(key) => write!(f, "metadata, {key}"),
            Self::GitLfsPointer { path } => write!(
                f,
                "`{}` is {}, not the file itself: run `git lfs pull` in the model's repository, and pack it again",
                path.display(),
                Content::GitLfsPointer
            ),
            Self::Template { text } => f.write_str(text),
            Self::IdlePattern { pattern } => write!(
                f,
                "the pattern `{}` leaves nothing out: patterns are those of .gitignore, for paths in the model's folder",
                pattern.escape_debug()
            ),
            Self::MissingFile { place, path } => {
                write!(f, "`{place}` refers to `@misc/{}`, which is not in the carton", path.escape_debug())
            }
            Self::UnknownPlatform { platform, nearest } => {
                write!(f, "`required_platforms`: `{platform}` is no known target triple; ")?;
                match nearest {
                    Some(nearest) => write!(f, "did you mean `{nearest}`?"),
                    None => write!(f, "one is `{PLATFORM}`, this machine's"),
                }
            }
            Self::OptionalInput { input, left_out_by } => write!(
                f,
                "input `{}` is optional, because {} leaves it out: state it by `optional = true` or `optional = false` in its [[input]]",
                input.escape_debug(),
                left_out_by.escape_debug()
            ),
            Self::ShapeCorrected { output, declared, corrected, found } => write!(
                f,
                "output `{}`: the model declares shape {declared} and returns {found}; the carton declares {corrected}",
                output.escape_debug()
            ),
            Self::OutputDiffers { difference } => {
                write!(f, "for an input of zeros, the model returns something else than the carton declares: {difference}")
            }
            Self::TensorFile => f.write_str(
                "the carton's tensors are in one file, which only readers that know of it can read: others cannot open the carton",
            ),
            Self::NestedOptions { names } => {
                let names: Vec<String> = names.iter().map(|name| format!("`{}`", name.escape_debug())).collect();
                write!(
                    f,
                    "a list or table is stored as a runner option ({}): readers that know only numbers, strings, booleans and dates \
                     cannot open the carton",
                    names.join(", ")
                )
            }
            Self::Unmatched { digests } => {
                let files = if digests.len() == 1 { "file" } else { "files" };
                write!(f, "not among the packed files that can be left out: {} linked {files}", digests.len())?;
                digests.first().map_or(Ok(()), |first| write!(f, ", such as {first}"))
            }
        }
    }
}
