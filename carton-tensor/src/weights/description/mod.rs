//! What the weights of a model should be: a TOML file, or one that is built in (spec/weights.md §3).

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use crate::files::ElementType;

mod raw;

/// Tensors that a description may expand to: more than any model has, and few enough to hold.
const MAX_TENSORS: usize = 1_000_000;

/// Bytes of a description: repetition is what makes few of them describe many tensors.
const MAX_FILE: u64 = 4 << 20;

/// Bytes of all names that a description expands to.
const MAX_NAMES: usize = 256 << 20;

/// What the weights of a model should be.
///
/// ```
/// use carton_tensor::weights::Description;
/// let description: Description = r#"
///     version = 1
///     name = "tiny"
///     sizes = { layers = 2, width = 3 }
///     tensors = [{ name = "layers.{layer}.weight", repeat = "layers", shape = ["width", 4] }]
/// "#
/// .parse()?;
/// let expected = description.tensor("layers.1.weight").ok_or("no such tensor")?;
/// assert_eq!((expected.shape(), description.n_parameters()), (&[3, 4][..], 24));
/// assert_eq!(Description::built_in("bitnet-7b").map(|description| description.n_tensors()), Some(292));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    name: String,
    dtypes: Vec<ElementType>,
    accepts_quantized: bool,
    values: ValueRange,
    quantization: Option<Quantization>,
    n_parameters: u64,
    sizes: BTreeMap<String, usize>,
    tensors: BTreeMap<String, ExpectedTensor>,
}

/// Which values are plausible. A bound that is absent bounds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ValueRange {
    /// The smallest.
    pub min: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
}

/// How the tensors that a description marks are quantized.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantization {
    /// Every number is 0, `s` or `-s`. The scale `s` is one number for each tensor, of any size if it is `None`; with integers
    /// it is not compared, because their scale is kept elsewhere.
    Ternary {
        /// The scale that is expected.
        scale: Option<f64>,
    },
    /// The integers -127 to 127. Floats are divided by their step for it: each must be a whole number between these when
    /// multiplied by `scale`, and there must be one.
    Int8 {
        /// What numbers were multiplied with.
        scale: Option<f64>,
    },
}

/// A tensor that should be there.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpectedTensor {
    /// Shared by all tensors of an entry.
    shape: Arc<[usize]>,
    dtypes: Option<Arc<[ElementType]>>,
    quantized: bool,
}

impl ExpectedTensor {
    /// Its dimensions.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Whether it is quantized as the description says.
    #[must_use]
    pub fn is_quantized(&self) -> bool {
        self.quantized
    }
}

/// Why a description is none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptionError {
    /// The file cannot be read.
    #[error("cannot read the description `{place}`")]
    Io {
        /// The file.
        place: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It is no TOML, or lacks something, or has something unknown.
    #[error("the description is not valid TOML, or not what spec/weights.md §3 asks for")]
    Toml(#[from] Box<toml::de::Error>),
    /// It is a file, and this is wrong with it.
    #[error("`{place}` is no description of a model")]
    File {
        /// The file.
        place: String,
        /// What is wrong.
        #[source]
        source: Box<DescriptionError>,
    },
    /// It is of a version that is not known.
    #[error("the description has version {found}, expected 1 [spec/weights.md §3.1]")]
    Version {
        /// The version.
        found: i64,
    },
    /// It says something that cannot be.
    #[error("{place}: {problem} [spec/weights.md §3.{section}]")]
    Invalid {
        /// Where.
        place: String,
        /// What was expected and found.
        problem: String,
        /// The subsection of the specification.
        section: u8,
    },
}

impl Description {
    /// The names of the descriptions that are built in.
    pub const BUILT_IN: [&'static str; 1] = ["bitnet-7b"];

    /// The description of this name that is built in.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        // A test parses each.
        Self::built_in_text(name).and_then(|text| text.parse().ok())
    }

    /// The TOML of the description of this name that is built in.
    #[must_use]
    pub fn built_in_text(name: &str) -> Option<&'static str> {
        match name {
            "bitnet-7b" => Some(include_str!("bitnet-7b.toml")),
            _ => None,
        }
    }

    /// Reads a description of which some `sizes` are replaced by these: for smaller or larger models of the same kind.
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
    /// [`DescriptionError`]; also for a size that the description does not have.
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

    /// As [`with_sizes`](Self::with_sizes), the description at `path`.
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

    /// The model's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The sizes that shapes and repetitions name, by name.
    #[must_use]
    pub fn sizes(&self) -> &BTreeMap<String, usize> {
        &self.sizes
    }

    /// The tensors that should be there, by name.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = (&str, &ExpectedTensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// The tensor of this name.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&ExpectedTensor> {
        self.tensors.get(name)
    }

    /// How many tensors should be there.
    #[must_use]
    pub fn n_tensors(&self) -> usize {
        self.tensors.len()
    }

    /// How many numbers all tensors have together.
    #[must_use]
    pub fn n_parameters(&self) -> u64 {
        self.n_parameters
    }

    /// Whether a tensor that may have floats may be stored quantized instead: as `int8` with scales beside it, or in groups.
    #[must_use]
    pub fn accepts_quantized(&self) -> bool {
        self.accepts_quantized
    }

    /// Which values are plausible.
    #[must_use]
    pub fn values(&self) -> ValueRange {
        self.values
    }

    /// How the tensors that are marked for it are quantized.
    #[must_use]
    pub fn quantization(&self) -> Option<Quantization> {
        self.quantization
    }

    /// The same description without its quantization: for weights before they are quantized.
    #[must_use]
    pub fn without_quantization(mut self) -> Self {
        self.quantization = None;
        self
    }

    /// The element types that the tensor may have; none if it may have any.
    #[must_use]
    pub fn dtypes<'a>(&'a self, tensor: &'a ExpectedTensor) -> &'a [ElementType] {
        tensor.dtypes.as_deref().unwrap_or(&self.dtypes)
    }
}

impl std::str::FromStr for Description {
    type Err = DescriptionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        raw::parse(text, &BTreeMap::new())
    }
}

#[cfg(test)]
mod tests;
