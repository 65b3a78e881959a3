//! The location of tensors, parsed from its text: a file, a carton, or one tensor of either.

use std::fmt;
use std::path::{Path, PathBuf};

use carton_core::{Location, Place};

/// Where tensors are: a tensor file, the folder of a checkpoint, or a carton, on this machine or at a URL; and which of them.
///
/// `#NAME` after a file is one tensor of it. After a carton, `#NAME` and `#tensor_data/NAME` are one tensor of its self-tests and examples,
/// and `#model/FILE` is a tensor file of its model, which may be followed by another `#NAME`. A carton may have a pin, `#sha256=HASH`, before
/// that. An existing file whose own name contains `#` is taken as it is.
///
/// ```
/// use carton_tensor_files::TensorLocation;
/// let carton = TensorLocation::from("https://host/m.carton#model/w.safetensors#bias");
/// assert_eq!(carton, TensorLocation::Carton("https://host/m.carton".into(), Some("model/w.safetensors#bias".into())));
/// let file = TensorLocation::from("hf://team/model/w.safetensors#bias");
/// assert_eq!(file, TensorLocation::Url("hf://team/model/w.safetensors".into(), Some("bias".into())));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub enum TensorLocation {
    /// A file or folder of this machine, and the name of the requested tensor, if any.
    File(PathBuf, Option<String>),
    /// A path or URL of a carton, and the text after its `#`.
    Carton(String, Option<String>),
    /// A URL that may be that of a tensor file or of a carton, which its bytes decide, and the text after its `#`.
    Url(String, Option<String>),
}

/// The folder of a carton's tensors, which may stand between `#` and a name.
pub(crate) const TENSOR_DATA: &str = "tensor_data";
/// The text after `#` that pins a carton to a hash, which is part of its location.
const PIN: &str = "sha256=";
/// The scheme of registries, which have cartons and no other files.
const REGISTRY: &str = "oci:";

impl fmt::Debug for TensorLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As a location, whose form leaves out what may be secret in a URL.
        let (kind, place, part) = match self {
            Self::File(path, part) => ("File", path.display().to_string(), part),
            Self::Carton(place, part) => ("Carton", Location::from(place).to_string(), part),
            Self::Url(url, part) => ("Url", Location::from(url).to_string(), part),
        };
        f.debug_tuple(kind).field(&place).field(part).finish()
    }
}

impl From<&Path> for TensorLocation {
    fn from(source: &Path) -> Self {
        match source.to_str() {
            Some(text) => Self::from(text),
            None => Self::File(source.to_path_buf(), None),
        }
    }
}

impl From<PathBuf> for TensorLocation {
    fn from(source: PathBuf) -> Self {
        Self::from(source.as_path())
    }
}

impl From<String> for TensorLocation {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&str> for TensorLocation {
    fn from(text: &str) -> Self {
        if Place::is_url(text) && !text.starts_with("file:") {
            return of_url(text);
        }
        let exists = Path::new(text).exists();
        // Splits at the first `#`, because the name of a tensor may contain another one.
        let is_carton = |place: &str, rest: &str| {
            !rest.starts_with(PIN) && (names_a_carton(place) || tensor_data_part(rest).is_some())
        };
        if !exists && let Some((carton, part)) = split_where(text, "#", is_carton) {
            return Self::Carton(carton.into(), Some(part.to_owned()).filter(|part| !part.is_empty()));
        }
        if names_a_carton(text) {
            return Self::Carton(text.into(), None);
        }
        if exists {
            return Self::File(text.into(), None);
        }
        match split_where(text, "#", |file, _| Path::new(file).exists()) {
            Some((file, name)) => Self::File(file.into(), Some(name.to_owned())),
            None => Self::File(text.into(), None),
        }
    }
}

/// Splits a URL from what follows its `#`. A pin follows one of its own.
fn of_url(text: &str) -> TensorLocation {
    let (place, part) = match text.split_once('#') {
        Some((place, rest)) if rest.starts_with(PIN) => match rest.split_once('#') {
            Some((pin, part)) => (format!("{place}#{pin}"), Some(part)),
            None => (text.to_owned(), None),
        },
        Some((place, part)) => (place.to_owned(), Some(part)),
        None => (text.to_owned(), None),
    };
    let is_carton = place.starts_with(REGISTRY)
        || place.contains('#')
        || place.ends_with(".carton")
        || part.is_some_and(|part| tensor_data_part(part).is_some());
    let part = part.filter(|part| !part.is_empty()).map(str::to_owned);
    match is_carton {
        true => TensorLocation::Carton(place, part),
        false => TensorLocation::Url(place, part),
    }
}

/// Whether text is the path of a carton, judged by the text and by what exists there.
fn names_a_carton(text: &str) -> bool {
    let place = text.split_once(&format!("#{PIN}")).map_or(text, |(place, _)| place);
    let path = Path::new(place);
    place.ends_with(".carton") || (path.is_dir() && path.join("carton.toml").is_file())
}

/// Returns the text after the folder of tensors, if `part` begins with it; empty if `part` is that folder.
pub(crate) fn tensor_data_part(part: &str) -> Option<&str> {
    let rest = part.strip_prefix(TENSOR_DATA)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// Splits the text at the first separator for which `is_right` accepts the text before and after it.
pub(crate) fn split_where<'a>(
    text: &'a str,
    separator: &str,
    is_right: impl Fn(&str, &str) -> bool,
) -> Option<(&'a str, &'a str)> {
    let mut places = text.match_indices(separator).map(|(at, found)| (&text[..at], &text[at + found.len()..]));
    places.find(|(before, behind)| is_right(before, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let check = |text: &str, expected: TensorLocation| assert_eq!(TensorLocation::from(text), expected);
        let name = |name: &str| Some(name.to_owned());
        check("none.zt", TensorLocation::File("none.zt".into(), None));
        check("none.zt#x", TensorLocation::File("none.zt#x".into(), None));
        check("Cargo.toml#x", TensorLocation::File("Cargo.toml".into(), name("x")));
        check("Cargo.toml#x#y", TensorLocation::File("Cargo.toml".into(), name("x#y")));
        let carton = |place: &str, part: &str| {
            TensorLocation::Carton(place.into(), Some(part.to_owned()).filter(|part| !part.is_empty()))
        };
        check("m.carton", carton("m.carton", ""));
        check("m.carton#", carton("m.carton", ""));
        check("m.carton#x", carton("m.carton", "x"));
        check("m.carton#a/b#c.carton", carton("m.carton", "a/b#c.carton"));
        check("m.carton#tensor_data/x#tensor_data", carton("m.carton", "tensor_data/x#tensor_data"));
        check("m.carton#tensor_data", carton("m.carton", "tensor_data"));
        check("m#tensor_data/a/b", carton("m", "tensor_data/a/b"));
        check("m#tensor_dates", TensorLocation::File("m#tensor_dates".into(), None));
        check("m.carton#sha256=12", carton("m.carton#sha256=12", ""));
        check("m.carton#sha256=12#x", carton("m.carton#sha256=12", "x"));
        check("https://host/m#tensor_data/x", carton("https://host/m", "tensor_data/x"));
        check("https://host/m.carton", carton("https://host/m.carton", ""));
        check("https://host/m.carton#x", carton("https://host/m.carton", "x"));
        check("https://host/m#sha256=12", carton("https://host/m#sha256=12", ""));
        check("https://host/m#sha256=12#x", carton("https://host/m#sha256=12", "x"));
        check("oci://host/m:1#x", carton("oci://host/m:1", "x"));
        let unknown = |place: &str, part: Option<&str>| TensorLocation::Url(place.to_owned(), part.map(str::to_owned));
        check("https://host/m", unknown("https://host/m", None));
        check("https://host/m#x#y", unknown("https://host/m", Some("x#y")));
        check("hf://a/b/c.safetensors#x", unknown("hf://a/b/c.safetensors", Some("x")));
        check("s3://a/b.npy", unknown("s3://a/b.npy", None));
    }

    #[test]
    fn what_is_shown_holds_no_secret() {
        for text in
            ["https://me:secret@host/m.carton?key=secret#x", "https://me:secret@host/w.safetensors?key=secret#x"]
        {
            assert!(!format!("{:?}", TensorLocation::from(text)).contains("secret"), "{text}");
        }
    }
}
