//! Checks the tensors of a call against the declared inputs and outputs (spec/carton-format.md, "Inputs and outputs"). Pure. Used
//! at inference only; loading, listing and verifying a carton check no tensors.
//!
//! A symbol has one value across all inputs and outputs of a call. Symbols for a dimension and symbols for a whole shape are
//! separate: `shape = "n"` and `shape = ["n"]` do not constrain each other. `"*"` may have a different value each time.
//!
//! A nested tensor is a list. Its first dimension is the number of tensors in it, and each of them must match the rest of the
//! declared shape. If the tensors differ in a dimension, that dimension must be declared as `"*"`: a symbol is bound only once
//! here too.
//!
//! Other writers declare things that this library does not write. These are checked as far as they mean something: a missing list
//! is not checked, an empty symbol is treated as `"*"`, and for a name that several specs share only the presence of a tensor is
//! checked. A list with an empty or repeated name does not name all tensors, so tensors with other names are accepted.

mod convert;
mod fit;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use carton_tensor::{CastError, DataType, Dimension, SymbolicShape, Tensor};
use serde::Deserialize;

pub use self::convert::{CastInputError, Giver, as_declared, cast_inputs};
pub use self::fit::{Misfit, fit_outputs};
use crate::metadata::{Signature, TensorSpec};
use crate::side::Side;

/// What happens when tensors do not match the signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SignatureMode {
    /// The call fails.
    #[default]
    Strict,
    /// A warning is logged.
    Warn,
    /// Nothing is checked.
    Off,
}

impl SignatureMode {
    /// Returns `strict`, `warn` or `off`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Warn => "warn",
            Self::Off => "off",
        }
    }
}

impl fmt::Display for SignatureMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that names no [`SignatureMode`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown signature mode `{0}`, expected one of strict, warn, off")]
pub struct UnknownSignatureMode(pub String);

impl FromStr for SignatureMode {
    type Err = UnknownSignatureMode;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        [Self::Strict, Self::Warn, Self::Off]
            .into_iter()
            .find(|mode| mode.name() == name)
            .ok_or_else(|| UnknownSignatureMode(name.to_owned()))
    }
}

/// One way in which the tensors of a call differ from the signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("{side} `{name}`{}: expected {expected}, found {found}", place.as_ref().map(|place| format!(", {place}")).unwrap_or_default())]
pub struct Violation {
    /// Input or output.
    pub side: Side,
    /// The tensor's name.
    pub name: String,
    /// The kind of difference.
    pub kind: ViolationKind,
    /// The position within the tensor, such as `dimension 1`; `None` for the tensor as a whole.
    pub place: Option<String>,
    /// What the signature declares.
    pub expected: String,
    /// What the call has.
    pub found: String,
}

/// The kind of difference of a [`Violation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ViolationKind {
    /// A declared tensor is missing.
    Missing,
    /// A tensor is not declared.
    Unexpected,
    /// The type of the elements differs.
    DataType,
    /// The shape differs.
    Shape,
    /// An element is no value of the declared type, such as 2 among booleans.
    Element,
}

/// All the ways in which the tensors of a call differ from the signature, one per line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("tensors do not match the model's signature{}", violations.iter().map(|violation| format!("\n  {violation}")).collect::<String>())]
pub struct SignatureError {
    /// The differences: first in declared order, then the unexpected tensors. At most 100 are listed.
    pub violations: Vec<Violation>,
}

impl SignatureError {
    /// Whether an input is missing.
    #[must_use]
    pub fn lacks_inputs(&self) -> bool {
        self.violations.iter().any(|it| it.side == Side::Input && it.kind == ViolationKind::Missing)
    }

    /// Whether all of it is about outputs: what the model returned, not what the caller passed.
    pub fn is_of_outputs(&self) -> bool {
        self.violations.iter().all(|violation| violation.side == Side::Output)
    }

    /// Returns the first numeric input that should have another numeric type, and that type: the input can be cast. Not for booleans that may
    /// be meant as such: what they become by a cast means something else to most models.
    #[must_use]
    pub fn castable(&self) -> Option<(&str, DataType)> {
        let is_number =
            |name: &str| name.parse().ok().filter(|dtype: &DataType| dtype.size().is_some() && !dtype.is_complex());
        let mut castable = self.of_other_types().filter(|violation| !may_be_bool(violation)).filter_map(|violation| {
            let expected = is_number(&violation.expected)?;
            is_number(&violation.found)?;
            Some((violation.name.as_str(), expected))
        });
        castable.next()
    }

    /// Returns how the first input of booleans can be passed as such, if one is declared as `uint8`.
    #[must_use]
    pub fn undeclared_bool_hint(&self) -> Option<String> {
        let undeclared = self.of_other_types().find(|violation| may_be_bool(violation))?;
        Some(how_to_declare_bools(&undeclared.name))
    }

    fn of_other_types(&self) -> impl Iterator<Item = &Violation> {
        self.violations.iter().filter(|it| it.side == Side::Input && it.kind == ViolationKind::DataType)
    }
}

/// Advice for a caller who has booleans for an input that is not declared as such.
#[must_use]
pub fn how_to_declare_bools(input: &str) -> String {
    format!(
        "if `{input}` is a mask to the model, declare it in the metadata, `dtype = \"bool\"`, and pack the model again"
    )
}

/// Whether the caller passed booleans for an input that the carton declares as `uint8`. The input may be a mask.
fn may_be_bool(violation: &Violation) -> bool {
    violation.found == DataType::Bool.name() && violation.expected == DataType::Bool.carrier().name()
}

/// There are more positional tensors than declared inputs, or no signature to name them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot name positional inputs: expected at most {expected}, the declared inputs, found {found}")]
pub struct TooManyPositional {
    /// The number of declared inputs.
    pub expected: usize,
    /// The number of tensors.
    pub found: usize,
}

/// The values of the symbols in one call: bound by the inputs, consulted by the outputs.
///
/// A streamed call clones the bindings of its inputs to check each step's outputs with a fresh copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bindings {
    dimensions: BTreeMap<String, Bound<u64>>,
    shapes: BTreeMap<String, Bound<Extent>>,
}

/// The value of a symbol and the tensor that bound it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bound<T> {
    value: T,
    by: String,
}

/// The shape of a tensor as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Extent {
    Dense(Vec<usize>),
    /// The shapes of the tensors of a list.
    Ragged(Vec<Vec<usize>>),
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dense(shape) => write!(f, "shape {shape:?}"),
            Self::Ragged(shapes) if shapes.len() <= 4 => write!(f, "a list of shapes {shapes:?}"),
            Self::Ragged(shapes) => write!(f, "a list of {} shapes", shapes.len()),
        }
    }
}

/// Checks the inputs of the model, and binds their symbols.
///
/// # Errors
/// All differences: missing and unexpected names, dtypes, ranks, sizes, symbols with two values. An optional input may be
/// missing.
pub fn check_inputs<'tensors>(
    signature: &Signature,
    bindings: &mut Bindings,
    tensors: impl IntoIterator<Item = (&'tensors str, &'tensors Tensor)>,
) -> Result<(), SignatureError> {
    check(Side::Input, signature.inputs.as_deref(), bindings, tensors)
}

/// Checks the outputs of the model. `bindings` has the symbols of the inputs.
///
/// # Errors
/// As [`check_inputs`].
pub fn check_outputs<'tensors>(
    signature: &Signature,
    bindings: &mut Bindings,
    tensors: impl IntoIterator<Item = (&'tensors str, &'tensors Tensor)>,
) -> Result<(), SignatureError> {
    check(Side::Output, signature.outputs.as_deref(), bindings, tensors)
}

/// Gives positional tensors the names of the declared inputs, in order.
///
/// # Errors
/// There are more tensors than declared inputs. If there are fewer, [`check_inputs`] reports that.
pub fn name_positional(
    signature: Option<&Signature>,
    tensors: Vec<Tensor>,
) -> Result<Vec<(String, Tensor)>, TooManyPositional> {
    let inputs = signature.map(Signature::positional_inputs).unwrap_or_default();
    if tensors.len() > inputs.len() {
        return Err(TooManyPositional { expected: inputs.len(), found: tensors.len() });
    }
    Ok(inputs.iter().map(|spec| spec.name.clone()).zip(tensors).collect())
}

fn check<'tensors>(
    side: Side,
    specs: Option<&[TensorSpec]>,
    bindings: &mut Bindings,
    tensors: impl IntoIterator<Item = (&'tensors str, &'tensors Tensor)>,
) -> Result<(), SignatureError> {
    let Some(specs) = specs else { return Ok(()) };
    let tensors: BTreeMap<&str, &Tensor> = tensors.into_iter().collect();
    let mut violations = Vec::new();
    let mut declared: BTreeMap<&str, Named> = BTreeMap::new();
    for spec in specs {
        let named = declared.entry(&spec.name).or_default();
        named.count += 1;
        named.is_optional |= spec.is_optional();
    }
    for spec in specs {
        let mut place = TensorCheck { side, name: &spec.name, violations: &mut violations };
        let Some(named) = declared.get_mut(spec.name.as_str()) else { continue };
        match tensors.get(spec.name.as_str()) {
            Some(tensor) if named.count == 1 => place.check_tensor(spec, bindings, tensor),
            Some(_) => {}
            None if named.is_optional || named.is_missed || spec.name.is_empty() => {}
            None => {
                named.is_missed = true;
                place.report(ViolationKind::Missing, None, described_spec(spec), "nothing".to_owned());
            }
        }
    }
    let tells_all_names = declared.iter().all(|(name, named)| !name.is_empty() && named.count == 1);
    let unexpected = tensors.iter().filter(|(name, _)| tells_all_names && !declared.contains_key(*name));
    for (name, tensor) in unexpected {
        let expected = match specs.len() {
            0 => format!("no {side}s"),
            _ => {
                let names: Vec<_> = specs.iter().map(|spec| format!("`{}`", spec.name)).collect();
                format!("only {}", names.join(", "))
            }
        };
        let found = described_tensor(tensor);
        let mut place = TensorCheck { side, name, violations: &mut violations };
        place.report(ViolationKind::Unexpected, None, expected, found);
    }
    if violations.is_empty() { Ok(()) } else { Err(SignatureError { violations }) }
}

/// The declared inputs or outputs that share one name.
#[derive(Default)]
struct Named {
    count: usize,
    is_optional: bool,
    /// Whether their absence was reported.
    is_missed: bool,
}

/// The largest number of differences that are collected.
const MAX_VIOLATIONS: usize = 100;

/// The tensor being checked, and the list that its violations are added to.
struct TensorCheck<'check> {
    side: Side,
    name: &'check str,
    violations: &'check mut Vec<Violation>,
}

impl TensorCheck<'_> {
    fn report(&mut self, kind: ViolationKind, place: Option<String>, expected: String, found: String) {
        // A list of a million wrong tensors would otherwise give a million violations.
        if self.violations.len() >= MAX_VIOLATIONS {
            return;
        }
        let name = self.name.to_owned();
        self.violations.push(Violation { side: self.side, name, kind, place, expected, found });
    }

    fn report_element(&mut self, dtype: DataType, error: CastError) {
        let expected = if dtype == DataType::Bool { "0 or 1 (bool)".to_owned() } else { format!("a value of {dtype}") };
        match error {
            CastError::Element { tensor, index, lost } => {
                let list = tensor.map(|tensor| format!("tensor {tensor} of the list, ")).unwrap_or_default();
                let place = Some(format!("{list}element {index:?}"));
                self.report(ViolationKind::Element, place, expected, lost.value);
            }
            CastError::Pairs { shape, .. } => {
                let expected = format!("a last dimension of 2, the real and the imaginary part of {dtype}");
                self.report(ViolationKind::Shape, None, expected, format!("shape {shape:?}"));
            }
            CastError::Encoding { index, reason } => {
                let place = Some(format!("element {index:?}"));
                self.report(
                    ViolationKind::Element,
                    place,
                    "base64, which carries bytes".to_owned(),
                    format!("other text ({reason})"),
                );
            }
            CastError::NotText { position, reason } => {
                let place = Some(format!("element {position}"));
                self.report(
                    ViolationKind::Element,
                    place,
                    "text in UTF-8".to_owned(),
                    format!("other bytes ({reason})"),
                );
            }
            other => self.report(ViolationKind::Element, None, expected, other.to_string()),
        }
    }

    fn check_tensor(&mut self, spec: &TensorSpec, bindings: &mut Bindings, tensor: &Tensor) {
        // An empty nested tensor has no dtype and matches any.
        if let Some(dtype) = tensor.dtype()
            && dtype != spec.dtype
        {
            self.report(ViolationKind::DataType, None, spec.dtype.to_string(), dtype.to_string());
        }
        match (&spec.shape, tensor) {
            (SymbolicShape::Any, _) => {}
            (SymbolicShape::Symbol(symbol), _) if symbol.is_empty() => {}
            (SymbolicShape::Symbol(symbol), _) => self.bind_shape(symbol, bindings, extent(tensor)),
            (SymbolicShape::Dimensions(dimensions), Tensor::Nested(nested)) => match dimensions.split_first() {
                None => self.report(ViolationKind::Shape, None, "a scalar".to_owned(), described_tensor(tensor)),
                Some((first, rest)) => {
                    self.check_dimension("dimension 0", first, bindings, nested.elements().len());
                    for (index, element) in nested.elements().iter().enumerate() {
                        let shape = element.shape().unwrap_or_default();
                        self.check_dimensions(rest, bindings, shape, Some(index));
                    }
                }
            },
            (SymbolicShape::Dimensions(dimensions), _) => {
                self.check_dimensions(dimensions, bindings, tensor.shape().unwrap_or_default(), None);
            }
        }
    }

    /// Checks one shape. `element` is the position of the tensor in a nested tensor, whose declared shape has one more dimension
    /// than `dimensions`.
    fn check_dimensions(
        &mut self,
        dimensions: &[Dimension],
        bindings: &mut Bindings,
        shape: &[usize],
        element: Option<usize>,
    ) {
        let place = |rest: &str| match element {
            None => rest.to_owned(),
            Some(index) => format!("tensor {index} of the list{}{rest}", if rest.is_empty() { "" } else { ", " }),
        };
        if dimensions.len() != shape.len() {
            let expected = described_rank(dimensions.len());
            let found = format!("{} (shape {shape:?})", described_rank(shape.len()));
            let place = Some(place("")).filter(|place| !place.is_empty());
            return self.report(ViolationKind::Shape, place, expected, found);
        }
        for (position, (dimension, &size)) in dimensions.iter().zip(shape).enumerate() {
            self.check_dimension(&place(&format!("dimension {position}")), dimension, bindings, size);
        }
    }

    fn check_dimension(&mut self, place: &str, dimension: &Dimension, bindings: &mut Bindings, size: usize) {
        // The size of a tensor in memory always fits into 64 bits.
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        let expected = match dimension {
            Dimension::Any => return,
            Dimension::Symbol(symbol) if symbol.is_empty() => return,
            Dimension::Fixed(expected) if *expected == size => return,
            Dimension::Fixed(expected) => expected.to_string(),
            Dimension::Symbol(symbol) => match bindings.dimensions.get(symbol) {
                None => {
                    let by = format!("{} `{}`", self.side, self.name);
                    bindings.dimensions.insert(symbol.clone(), Bound { value: size, by });
                    return;
                }
                Some(bound) if bound.value == size => return,
                Some(bound) => format!("{} (`{symbol}` in {})", bound.value, bound.by),
            },
        };
        self.report(ViolationKind::Shape, Some(place.to_owned()), expected, size.to_string());
    }

    fn bind_shape(&mut self, symbol: &str, bindings: &mut Bindings, extent: Extent) {
        match bindings.shapes.get(symbol) {
            None => {
                let by = format!("{} `{}`", self.side, self.name);
                bindings.shapes.insert(symbol.to_owned(), Bound { value: extent, by });
            }
            Some(bound) if bound.value == extent => {}
            Some(bound) => {
                let expected = format!("{} (`{symbol}` in {})", bound.value, bound.by);
                self.report(ViolationKind::Shape, None, expected, extent.to_string());
            }
        }
    }
}

/// Returns the shape of a tensor as a whole. A list of tensors of the same shape counts as one tensor with one more dimension.
fn extent(tensor: &Tensor) -> Extent {
    let Tensor::Nested(nested) = tensor else {
        return Extent::Dense(tensor.shape().unwrap_or_default().to_vec());
    };
    let shapes: Vec<Vec<usize>> =
        nested.elements().iter().map(|element| element.shape().unwrap_or_default().to_vec()).collect();
    match shapes.split_first() {
        Some((first, rest)) if rest.iter().all(|shape| shape == first) => {
            Extent::Dense(std::iter::once(shapes.len()).chain(first.iter().copied()).collect())
        }
        _ => Extent::Ragged(shapes),
    }
}

fn described_rank(rank: usize) -> String {
    match rank {
        0 => "a scalar".to_owned(),
        1 => "1 dimension".to_owned(),
        rank => format!("{rank} dimensions"),
    }
}

fn described_spec(spec: &TensorSpec) -> String {
    let shape = match &spec.shape {
        SymbolicShape::Any => "any shape".to_owned(),
        SymbolicShape::Symbol(symbol) => format!("shape `{symbol}`"),
        SymbolicShape::Dimensions(dimensions) => {
            let dimensions: Vec<_> = dimensions
                .iter()
                .map(|dimension| match dimension {
                    Dimension::Any => "*".to_owned(),
                    Dimension::Symbol(symbol) => symbol.clone(),
                    Dimension::Fixed(size) => size.to_string(),
                })
                .collect();
            format!("shape [{}]", dimensions.join(", "))
        }
    };
    format!("a tensor of {}, {shape}", spec.dtype)
}

fn described_tensor(tensor: &Tensor) -> String {
    let dtype = tensor.dtype().map_or("nothing", DataType::name);
    match tensor {
        Tensor::Nested(nested) => format!("a list of {} tensors of {dtype}", nested.elements().len()),
        _ => format!("a tensor of {dtype}, {}", extent(tensor)),
    }
}
