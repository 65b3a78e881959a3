//! Describes what the weights of a model should be, from a TOML file or a built-in text (spec/weights.md §3).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::files::ElementType;

mod raw;
mod read;

/// The most tensors that a description may expand to: more than any model has, and few enough to hold in memory.
const MAX_TENSORS: usize = 1_000_000;

/// The most bytes that all expanded names may have.
const MAX_NAMES: usize = 256 << 20;

/// The tensors and values that the weights of a model should have.
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

/// The range of plausible values. A bound of `None` does not restrict anything.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ValueRange {
    /// The smallest plausible value.
    pub min: Option<f64>,
    /// The largest plausible value.
    pub max: Option<f64>,
}

/// The quantization of the tensors that a description marks as quantized.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantization {
    /// Every number is 0, `s` or `-s`. The scale `s` is the same for all numbers of a tensor, and may have any value if `scale` is
    /// `None`. For integer tensors `scale` is not compared, because their scale is stored elsewhere.
    Ternary {
        /// The expected scale.
        scale: Option<f64>,
    },
    /// The integers -127 to 127. A tensor of floats needs a `scale`: multiplied by it, each number must be one of these integers.
    Int8 {
        /// The number by which floats are multiplied to get integers.
        scale: Option<f64>,
    },
}

/// The expected shape, element types and quantization of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpectedTensor {
    /// All tensors of an entry share it.
    shape: Arc<[usize]>,
    dtypes: Option<Arc<[ElementType]>>,
    quantized: bool,
}

impl ExpectedTensor {
    /// The dimensions.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Whether the tensor should be quantized as the description says.
    #[must_use]
    pub fn is_quantized(&self) -> bool {
        self.quantized
    }
}

/// The reason that a description is invalid or cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptionError {
    /// The file cannot be read.
    #[error("cannot read the description `{place}`")]
    Io {
        /// The file.
        place: String,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The text is not TOML, lacks a field, or has an unknown one.
    #[error("the description is not valid TOML, or not what spec/weights.md §3 asks for")]
    Toml(#[from] Box<toml::de::Error>),
    /// The description in a file is invalid.
    #[error("`{place}` is no description of a model")]
    File {
        /// The file.
        place: String,
        /// The rule that the description breaks.
        #[source]
        source: Box<DescriptionError>,
    },
    /// The version is not supported.
    #[error("the description has version {found}, expected 1 [spec/weights.md §3.1]")]
    Version {
        /// The version that was found.
        found: i64,
    },
    /// A field has an invalid value.
    #[error("{place}: {problem} [spec/weights.md §3.{section}]")]
    Invalid {
        /// The field, the tensor or the file.
        place: String,
        /// What was expected and found.
        problem: String,
        /// The subsection of spec/weights.md §3.
        section: u8,
    },
}

impl Description {
    /// The name of the model.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The sizes that shapes and repetitions refer to, by name.
    #[must_use]
    pub fn sizes(&self) -> &BTreeMap<String, usize> {
        &self.sizes
    }

    /// The expected tensors, sorted by name.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = (&str, &ExpectedTensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// Returns the expected tensor of this name.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&ExpectedTensor> {
        self.tensors.get(name)
    }

    /// The number of expected tensors.
    #[must_use]
    pub fn n_tensors(&self) -> usize {
        self.tensors.len()
    }

    /// The number of elements of all expected tensors together.
    #[must_use]
    pub fn n_parameters(&self) -> u64 {
        self.n_parameters
    }

    /// Whether a tensor that may have floats may be quantized instead: stored as `int8` with scales beside it, or in groups.
    #[must_use]
    pub fn accepts_quantized(&self) -> bool {
        self.accepts_quantized
    }

    /// The range of plausible values.
    #[must_use]
    pub fn values(&self) -> ValueRange {
        self.values
    }

    /// The quantization of the tensors that are marked as quantized.
    #[must_use]
    pub fn quantization(&self) -> Option<Quantization> {
        self.quantization
    }

    /// Removes the quantization, for checking weights before they are quantized.
    #[must_use]
    pub fn without_quantization(mut self) -> Self {
        self.quantization = None;
        self
    }

    /// The element types that the tensor may have. Empty if it may have any.
    #[must_use]
    pub fn dtypes<'a>(&'a self, tensor: &'a ExpectedTensor) -> &'a [ElementType] {
        tensor.dtypes.as_deref().unwrap_or(&self.dtypes)
    }
}

#[cfg(test)]
mod tests;
