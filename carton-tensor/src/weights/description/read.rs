//! Descriptions from text, from files, and those that are built in (spec/weights.md §3).

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use super::{Description, DescriptionError, raw};

/// The longest description in bytes. Repetition lets a short description stand for many tensors.
const MAX_FILE: u64 = 4 << 20;

impl Description {
    /// The names of the built-in descriptions.
    pub const BUILT_IN: [&'static str; 1] = ["bitnet-7b"];

    /// Returns the built-in description of this name.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        // A test parses each of them.
        Self::built_in_text(name).and_then(|text| text.parse().ok())
    }

    /// Returns the TOML of the built-in description of this name.
    #[must_use]
    pub fn built_in_text(name: &str) -> Option<&'static str> {
        match name {
            "bitnet-7b" => Some(include_str!("bitnet-7b.toml")),
            _ => None,
        }
    }

    /// Parses a description and replaces some of its `sizes`, for smaller or larger models of the same architecture.
    ///
    /// ```
    /// use carton_tensor::weights::Description;
    /// let text = Description::built_in_text("bitnet-7b").ok_or("no such description")?;
    /// let sizes = [("num_layers".to_owned(), 2)].into();
    /// assert_eq!(Description::with_sizes(text, &sizes)?.n_tensors(), 2 + 2 * 9 + 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`DescriptionError`], also for a size that the description does not have.
    pub fn with_sizes(text: &str, sizes: &BTreeMap<String, usize>) -> Result<Self, DescriptionError> {
        raw::parse(text, sizes)
    }

    /// Reads the description at `path`.
    ///
    /// # Errors
    /// [`DescriptionError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DescriptionError> {
        Self::open_with_sizes(path, &BTreeMap::new())
    }

    /// Reads the description at `path` like [`with_sizes`](Self::with_sizes).
    ///
    /// # Errors
    /// [`DescriptionError`].
    pub fn open_with_sizes(path: impl AsRef<Path>, sizes: &BTreeMap<String, usize>) -> Result<Self, DescriptionError> {
        let path = path.as_ref();
        let mut text = String::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut text));
        let size = read.map_err(|source| DescriptionError::Io { place: path.display().to_string(), source })?;
        if size as u64 > MAX_FILE {
            let problem = format!("expected at most {MAX_FILE} bytes of description");
            return Err(DescriptionError::Invalid { place: path.display().to_string(), problem, section: 4 });
        }
        Self::with_sizes(&text, sizes)
            .map_err(|source| DescriptionError::File { place: path.display().to_string(), source: Box::new(source) })
    }
}

impl std::str::FromStr for Description {
    type Err = DescriptionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        raw::parse(text, &BTreeMap::new())
    }
}
