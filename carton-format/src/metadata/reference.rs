//! References from carton.toml to the files beside it: `@tensor_data/NAME`, `@misc/PATH`, and, in drafts, files.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The target of a reference in an example (spec/carton-format.md, "References").
///
/// ```
/// use carton_format::metadata::Reference;
/// assert_eq!("@tensor_data/x".parse(), Ok(Reference::TensorData("x".to_owned())));
/// assert_eq!(Reference::Misc("cat.png".to_owned()).to_string(), "@misc/cat.png");
/// assert!("x.npy".parse::<Reference>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reference {
    /// `@tensor_data/NAME`: the tensor that `tensor_data/index.toml` lists under this name.
    TensorData(String),
    /// `@misc/PATH`: the file at this path below `misc/`.
    Misc(String),
}

/// A reference in a draft of carton.toml, which may also name a file next to the draft.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DraftReference {
    /// A reference that a finished carton.toml may contain too.
    Carton(Reference),
    /// A file: `x.npy`, `cases.npz#x`, `cat.png`.
    File {
        /// Relative to the folder of the draft, or absolute.
        path: PathBuf,
        /// The array inside an `.npz` file: the text after the last `#`.
        member: Option<String>,
    },
}

/// A text that is not a reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found `{found}`")]
pub struct InvalidReference {
    /// The allowed forms.
    pub expected: &'static str,
    /// The text.
    pub found: String,
}

const TENSOR_DATA: &str = "@tensor_data/";
const MISC: &str = "@misc/";

impl FromStr for Reference {
    type Err = InvalidReference;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |expected| InvalidReference { expected, found: text.to_owned() };
        if let Some(name) = text.strip_prefix(TENSOR_DATA) {
            return match name {
                "" => Err(invalid("a tensor's name after `@tensor_data/`")),
                _ => Ok(Self::TensorData(name.to_owned())),
            };
        }
        match text.strip_prefix(MISC) {
            Some(path) if crate::name::check_read(format!("misc/{path}").as_bytes()).is_ok() => {
                Ok(Self::Misc(path.to_owned()))
            }
            Some(_) => Err(invalid("a relative path without `.` or `..` after `@misc/`")),
            None => Err(invalid("`@tensor_data/NAME` or `@misc/PATH`")),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TensorData(name) => write!(f, "{TENSOR_DATA}{name}"),
            Self::Misc(path) => write!(f, "{MISC}{path}"),
        }
    }
}

impl FromStr for DraftReference {
    type Err = InvalidReference;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A misspelled `@tensor_date/x` is a mistake to report, not a file to look for. A file whose name begins with `@` can be written
        // as `./@x`.
        if text.starts_with('@') {
            return text.parse().map(Self::Carton);
        }
        if text.is_empty() || text.contains('\0') {
            let expected = "`@tensor_data/NAME`, `@misc/PATH` or the path of a file";
            return Err(InvalidReference { expected, found: text.to_owned() });
        }
        if let Some((path, member)) = text.rsplit_once('#')
            && path.to_ascii_lowercase().ends_with(".npz")
        {
            return Ok(Self::File { path: path.into(), member: Some(member.to_owned()) });
        }
        Ok(Self::File { path: text.into(), member: None })
    }
}

impl fmt::Display for DraftReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Carton(reference) => reference.fmt(f),
            Self::File { path, member: None } => path.display().fmt(f),
            Self::File { path, member: Some(member) } => write!(f, "{}#{member}", path.display()),
        }
    }
}

impl From<Reference> for DraftReference {
    fn from(reference: Reference) -> Self {
        Self::Carton(reference)
    }
}
