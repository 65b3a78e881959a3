//! The findings of a validation (spec/weights.md §4).

use std::fmt;

use serde::Serialize;

use super::super::description::Description;

/// The result of a validation. Errors make the weights unusable or wrong; warnings deserve attention.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Validation {
    /// The name of the model in the description.
    pub model: String,
    /// The number of tensors that were validated, without scales.
    pub n_tensors: usize,
    /// The number of tensors that hold, or should hold, the scales of others.
    pub n_scales: usize,
    /// The number of elements of the validated tensors.
    pub n_parameters: u64,
    /// The errors.
    pub errors: Vec<Finding>,
    /// The warnings.
    pub warnings: Vec<Finding>,
}

impl Validation {
    /// The validation of a file without tensors, also of one without bytes: the error [`Category::NoTensors`].
    #[must_use]
    pub fn of_no_tensors(place: &str, description: &Description) -> Self {
        Self::of_none(format!("No tensors found in {place}"), description)
    }

    pub(super) fn of_none(message: String, description: &Description) -> Self {
        let mut validation = Self { model: description.name().to_owned(), ..Self::default() };
        validation.add(Category::NoTensors.of_all(message));
        validation
    }

    /// Whether there are no errors.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    pub(super) fn add(&mut self, finding: Finding) {
        if finding.category.is_error() { self.errors.push(finding) } else { self.warnings.push(finding) }
    }
}

/// One error or warning.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The category.
    pub category: Category,
    /// The tensor that the finding is about, if it is about one.
    pub tensor: Option<String>,
    /// The finding as a complete sentence.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The categories of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Category {
    /// Error: there are no tensors.
    NoTensors,
    /// Error: no tensor has a name from the description, so that nothing was compared.
    NoExpectedTensors,
    /// Error: the bytes of a tensor break a rule of its format, or an expected tensor is not a tensor of numbers.
    Unreadable,
    /// Error: a tensor has no dimensions, but some are expected.
    EmptyShape,
    /// Error: a dimension is zero.
    ZeroDimension,
    /// Error: a tensor has no bytes.
    NoData,
    /// Error: the number of bytes of a tensor does not match dtype and shape.
    SizeMismatch,
    /// Error: the shape of a tensor differs from the description.
    ShapeMismatch,
    /// Error: the element type of a tensor differs from the description.
    DtypeMismatch,
    /// Error: a tensor contains NaN.
    ContainsNan,
    /// Error: a tensor contains infinities.
    ContainsInf,
    /// Error: a tensor has values outside the range of the description.
    ValueRange,
    /// Error: a tensor is not quantized as the description says.
    Quantization,
    /// Error: the tensor that should hold the scales of an int8 tensor cannot.
    Scale,
    /// Warning: an int8 tensor has no scale, but others have one.
    MissingScale,
    /// Warning: an entry that is not in the description is not a tensor of numbers, and was not validated.
    NotNumbers,
    /// Warning: tensors of the description are missing.
    MissingLayers,
    /// Warning: there are tensors that the description does not have.
    UnexpectedTensors,
    /// Warning: the number of parameters differs from the description.
    ParameterCount,
    /// Warning: tensors have several element types instead of one.
    InconsistentDtypes,
}

impl Category {
    /// Whether the category is an error. Otherwise it is a warning.
    #[must_use]
    pub const fn is_error(self) -> bool {
        !matches!(
            self,
            Self::MissingScale
                | Self::NotNumbers
                | Self::MissingLayers
                | Self::UnexpectedTensors
                | Self::ParameterCount
                | Self::InconsistentDtypes
        )
    }

    /// Makes a finding about the tensor `name`.
    pub(super) fn of(self, name: &str, what: impl fmt::Display) -> Finding {
        let shown = name.escape_debug();
        Finding { category: self, tensor: Some(name.to_owned()), message: format!("Tensor {shown} {what}") }
    }

    /// Makes a finding about all tensors together.
    pub(super) fn of_all(self, message: String) -> Finding {
        Finding { category: self, tensor: None, message }
    }
}

/// Joins the first few names for a message.
pub(super) fn some_names<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 5;
    let n_more = names.len().saturating_sub(SHOWN);
    let shown: Vec<String> = names.take(SHOWN).map(|name| name.escape_debug().to_string()).collect();
    let more = if n_more > 0 { format!(" and {n_more} more") } else { String::new() };
    shown.join(", ") + &more
}
