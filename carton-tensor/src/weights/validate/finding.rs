//! What is said about weights that are not as they should be (spec/weights.md §4).

use std::fmt;

use serde::Serialize;

/// What validation found. Errors are what makes weights unusable or wrong, warnings what somebody should look at.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Validation {
    /// The model whose description it was.
    pub model: String,
    /// How many tensors were looked at, beside scales.
    pub n_tensors: usize,
    /// How many tensors hold the scales of others, or should.
    pub n_scales: usize,
    /// How many numbers they have.
    pub n_parameters: u64,
    /// What is wrong.
    pub errors: Vec<Finding>,
    /// What is odd.
    pub warnings: Vec<Finding>,
}

impl Validation {
    /// Whether there are no errors.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    pub(super) fn add(&mut self, finding: Finding) {
        if finding.category.is_error() { self.errors.push(finding) } else { self.warnings.push(finding) }
    }
}

/// One thing that validation found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// What sort of thing.
    pub category: Category,
    /// The tensor that it is about, if it is about one.
    pub tensor: Option<String>,
    /// A sentence with all that matters.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The sorts of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Category {
    /// Error: there are no tensors.
    NoTensors,
    /// Error: there are tensors, and the description has none of them, so that nothing was compared.
    NoExpectedTensors,
    /// Error: the bytes of a tensor break a rule of its format, or one of the description is no tensor of numbers.
    Unreadable,
    /// Error: a tensor has no dimensions where some are expected.
    EmptyShape,
    /// Error: a dimension is zero.
    ZeroDimension,
    /// Error: a tensor has no bytes.
    NoData,
    /// Error: a tensor has another number of bytes than dtype and shape ask for.
    SizeMismatch,
    /// Error: a tensor has another shape than the description says.
    ShapeMismatch,
    /// Error: a tensor has another element type than the description says.
    DtypeMismatch,
    /// Error: there are NaNs.
    ContainsNan,
    /// Error: there are infinities.
    ContainsInf,
    /// Error: values beyond the range of the description.
    ValueRange,
    /// Error: a tensor is not quantized as the description says.
    Quantization,
    /// Error: what should hold the scales of an int8 tensor cannot.
    Scale,
    /// Warning: an int8 tensor has no scale, while others have.
    MissingScale,
    /// Warning: something that the description does not have is no tensor of numbers, and was not looked at.
    NotNumbers,
    /// Warning: tensors of the description are not there.
    MissingLayers,
    /// Warning: tensors are there that the description does not have.
    UnexpectedTensors,
    /// Warning: another number of parameters than the description has.
    ParameterCount,
    /// Warning: several element types where one is expected.
    InconsistentDtypes,
}

impl Category {
    /// Whether it is an error; else it is a warning.
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

    /// About the tensor `name`.
    pub(super) fn of(self, name: &str, what: impl fmt::Display) -> Finding {
        let shown = name.escape_debug();
        Finding { category: self, tensor: Some(name.to_owned()), message: format!("Tensor {shown} {what}") }
    }

    /// About all tensors.
    pub(super) fn of_all(self, message: String) -> Finding {
        Finding { category: self, tensor: None, message }
    }
}

/// Some names, for a message.
pub(super) fn some_names<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 5;
    let n_more = names.len().saturating_sub(SHOWN);
    let shown: Vec<String> = names.take(SHOWN).map(|name| name.escape_debug().to_string()).collect();
    let more = if n_more > 0 { format!(" and {n_more} more") } else { String::new() };
    shown.join(", ") + &more
}
