//! Checks weights against a description, and their numbers for soundness (spec/weights.md §4).

use std::collections::{BTreeMap, BTreeSet};

use super::description::{Description, ExpectedTensor, Quantization, ValueRange};
use super::load::{select, verifying_reader};
use super::options::LoadOptions;
use super::pieces::{Data, Sink, piece_size, stream};
use super::statistics::Statistics;
use super::{SCALE_SUFFIX, Weights, WeightsError};
use crate::any_file::{ElementOrder, Entry, TensorFile, TensorFileError};
use crate::element_count;
use crate::files::{ElementType, RawTensor};

mod finding;
mod numbers;
mod scales;
mod subject;

use finding::some_names;
pub use finding::{Category, Finding, Validation};
use numbers::{look_at, precision, quantization_problem, range_problem};
use scales::{OfFile, Role};
use subject::{Decoding, Subject, assign};

/// Compares the tensors of a file with a description, and checks all their numbers, piece by piece, so that little memory is needed.
///
/// Of `options`, this uses the filter, whether to verify digests, the number of threads, and the context. If the bytes of a tensor break a rule, or
/// if they are not numbers, this is a finding about the tensor, and the others are still checked.
///
/// # Errors
/// [`WeightsError`] if the file cannot be read; findings are not errors in this sense. Also [`WeightsError::NoneSelected`].
pub fn validate(
    file: &TensorFile,
    description: &Description,
    options: &LoadOptions,
) -> Result<Validation, WeightsError> {
    let entries = match select(file, &options.filter) {
        Ok(entries) => entries,
        Err(WeightsError::NoTensors { place }) => return Ok(Validation::of_no_tensors(&place, description)),
        Err(error) => return Err(error),
    };
    let verifying = verifying_reader(file, options.verify);
    let entries: Vec<_> = entries.into_iter().map(|entry| entry.read_by(verifying.as_ref())).collect();
    let failed = |source| WeightsError::from(TensorFileError::Io { place: file.place().to_owned(), source });
    let decodings: Vec<Decoding> = entries.iter().map(|_| Decoding::default()).collect();
    let stream = |(entry, decoding)| move |sink: &mut Sink<'_>| stream_or_tell(entry, decoding, sink);
    let streams: Vec<_> = entries.iter().zip(&decodings).map(stream).collect();
    let mut subjects = Vec::with_capacity(entries.len());
    for ((entry, stream), decoding) in entries.iter().zip(&streams).zip(&decodings) {
        let not_numbers = entry.not_numbers();
        subjects.push(Subject {
            name: entry.name().to_owned(),
            shape: entry.shape().to_vec(),
            dtype: entry.dtype(),
            n_bytes: None,
            // The verifying reader compares the digests of exactly the bytes that it passes on.
            data: match entry.location().filter(|_| !entry.is_verified()) {
                _ if not_numbers.is_some() && !entry.is_verified() => Data::Memory(&[]),
                Some((bytes, range)) => Data::File(bytes, range, &failed),
                None => Data::Streamed(stream),
            },
            not_numbers,
            decoding: Some(decoding),
            scaled: None,
            role: Role::Tensor,
        });
    }
    assign(&mut subjects, description, &OfFile { file, verifying: verifying.as_ref() })?;
    judge(&subjects, description, options)
}

/// Passes the numbers of a tensor to `sink`. If the content of the file prevents this, records the problem in `decoding`, and what was
/// passed before counts for nothing.
fn stream_or_tell(entry: &Entry<'_>, decoding: &Decoding, sink: &mut Sink<'_>) -> Result<(), WeightsError> {
    let streamed = match entry.quantized_group() {
        Some(group) => group
            .and_then(|group| {
                let scales = group.scales().to_f64().unwrap_or_default();
                decoding
                    .largest_step
                    .get_or_init(|| scales.iter().fold(0.0, |largest, scale| scale.abs().max(largest)));
                entry.dequantized(&group)
            })
            .map_err(WeightsError::from)
            .and_then(|tensor| tensor.bytes().chunks(piece_size(tensor.dtype())).try_for_each(sink)),
        // What is no tensor of numbers may have digests nevertheless.
        None if entry.not_numbers().is_some() => entry.verify().map(drop).map_err(WeightsError::from),
        // Channels with scales are rows in C order.
        None if entry.dtype() == Some(ElementType::Int8) => stream(entry, ElementOrder::C, sink),
        None => stream(entry, ElementOrder::File, sink),
    };
    match streamed {
        Err(WeightsError::File(error)) if error.is_about_content() => {
            decoding.problem.get_or_init(|| error.reason());
            Ok(())
        }
        streamed => streamed,
    }
}

/// Validates loaded weights like [`validate`].
///
/// # Errors
/// [`WeightsError`]. Loaded tensors do not cause any error.
pub fn validate_weights(weights: &Weights, description: &Description) -> Result<Validation, WeightsError> {
    if weights.tensors.is_empty() {
        return Ok(Validation::of_none("No tensors found".to_owned(), description));
    }
    let mut subjects: Vec<Subject<'_>> =
        weights.tensors.iter().map(|(name, tensor)| Subject::of(name, tensor)).collect();
    assign(&mut subjects, description, weights)?;
    judge(&subjects, description, &LoadOptions::default())
}

/// Checks one tensor: its shape, if one is expected, its size, and whether all numbers are finite.
///
/// # Errors
/// [`WeightsError`]. A tensor in memory does not cause any error.
pub fn validate_tensor(
    name: &str,
    tensor: &RawTensor,
    expected_shape: Option<&[usize]>,
) -> Result<Vec<Finding>, WeightsError> {
    let subject = Subject::of(name, tensor);
    let mut findings = shape_findings(&subject, expected_shape);
    let statistics = look_at(&[subject], &|_| None, &LoadOptions::default())?;
    findings.extend(statistics.into_iter().flatten().flat_map(|found| number_findings(name, found.statistics)));
    Ok(findings)
}

/// Whether all float tensors have one element type, and all other tensors too.
#[must_use]
pub fn validate_dtype_consistency<'a>(dtypes: impl IntoIterator<Item = &'a ElementType>) -> bool {
    inconsistent(dtypes.into_iter().copied()).is_none()
}

/// Returns why a tensor is not quantized in the expected way; `None` if it is.
///
/// ```
/// use carton_tensor::files::{ElementType, RawTensor};
/// use carton_tensor::weights::{Quantization, validate_quantization};
/// let tensor = RawTensor::new(ElementType::Int8, vec![4], vec![1_u8, 0, 255, 1].into())?;
/// assert!(validate_quantization(&tensor, Quantization::Ternary { scale: None })?.is_none());
/// let tensor = RawTensor::new(ElementType::Int8, vec![3], vec![1_u8, 0, 2].into())?;
/// assert!(validate_quantization(&tensor, Quantization::Ternary { scale: None })?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`WeightsError`]. A tensor in memory does not cause any error.
pub fn validate_quantization(tensor: &RawTensor, expected: Quantization) -> Result<Option<String>, WeightsError> {
    let found = look_at(&[Subject::of("", tensor)], &|_| Some(expected), &LoadOptions::default())?.pop().flatten();
    Ok(match found {
        Some(found) => quantization_problem(tensor.dtype(), stored_precision(tensor.dtype()), &found, expected),
        None => Some(format!("has complex numbers ({})", tensor.dtype())),
    })
}

/// Returns why a tensor is numerically unstable: NaNs, infinities, or values outside the range; `None` if it is stable.
///
/// # Errors
/// [`WeightsError`]. A tensor in memory does not cause any error.
pub fn check_numerical_stability(tensor: &RawTensor, range: ValueRange) -> Result<Option<String>, WeightsError> {
    let found = look_at(&[Subject::of("", tensor)], &|_| None, &LoadOptions::default())?.pop().flatten();
    let Some(found) = found else { return Ok(None) };
    let mut problems: Vec<String> = number_problems(found.statistics).map(|(_, problem)| problem).collect();
    problems.extend(range_problem(&found, 0.0, range));
    Ok((!problems.is_empty()).then(|| problems.join("; ")))
}

/// The differences between the names of some tensors and those of a description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LayerStructure {
    /// Expected tensors that are missing.
    pub missing: Vec<String>,
    /// Tensors that are not expected.
    pub unexpected: Vec<String>,
}

impl LayerStructure {
    /// Whether there are exactly the expected tensors.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty()
    }
}

/// Compares the names of tensors with those of a description.
pub fn verify_layer_structure<'a>(
    names: impl IntoIterator<Item = &'a str>,
    description: &Description,
) -> LayerStructure {
    let names: BTreeSet<&str> = names.into_iter().collect();
    let missing = description.tensors().map(|(name, _)| name).filter(|name| !names.contains(name));
    let unexpected = names.iter().filter(|name| description.tensor(name).is_none());
    LayerStructure {
        missing: missing.map(str::to_owned).collect(),
        unexpected: unexpected.map(|&name| name.to_owned()).collect(),
    }
}

/// Returns the relative tolerance between ternary numbers of this dtype and their scale; `None` for integers, which are codes.
fn stored_precision(dtype: ElementType) -> Option<f64> {
    dtype.is_float().then(|| precision(dtype))
}

/// Returns this tolerance for a tensor that may be quantized. The description is the only source for the dtype before quantization.
fn expected_precision(subject: &Subject<'_>, dtypes: &[ElementType]) -> Option<f64> {
    if !subject.is_quantized() {
        return stored_precision(subject.dtype.unwrap_or(ElementType::Float32));
    }
    let floats = dtypes.iter().filter_map(|&dtype| stored_precision(dtype)).reduce(f64::max);
    floats.or(stored_precision(ElementType::BFloat16))
}

fn judge(
    subjects: &[Subject<'_>],
    description: &Description,
    options: &LoadOptions,
) -> Result<Validation, WeightsError> {
    let filter = &options.filter;
    let n_scales = subjects.iter().filter(|subject| subject.is_scales()).count();
    let mut validation = Validation {
        model: description.name().to_owned(),
        n_tensors: subjects.len() - n_scales,
        n_scales,
        ..Validation::default()
    };
    let quantization_of = |subject: &Subject<'_>| {
        let described = description.tensor(&subject.name).filter(|tensor| tensor.is_quantized());
        let expected = described.and_then(|_| description.quantization());
        // The format of a quantized group limits its integers to 8 bits.
        expected.filter(|expected| !(subject.dtype.is_none() && matches!(expected, Quantization::Int8 { .. })))
    };
    let some_have_scales = subjects.iter().any(|subject| subject.scaled.is_some());
    let found = look_at(subjects, &|index| quantization_of(&subjects[index]), options)?;
    for (subject, found) in subjects.iter().zip(&found) {
        let expected = description.tensor(&subject.name);
        if let Some(what) = &subject.not_numbers {
            if let Some(problem) = subject.problem() {
                validation.add(Category::Unreadable.of(&subject.name, format!("cannot be read: {problem}")));
            }
            let category = if expected.is_some() { Category::Unreadable } else { Category::NotNumbers };
            validation.add(category.of(&subject.name, format!("is no tensor of numbers, it is {what}")));
            continue;
        }
        if let Role::Scales { of, problem } = &subject.role {
            if let Some(problem) = subject.problem() {
                validation.add(Category::Unreadable.of(&subject.name, format!("cannot be read: {problem}")));
            } else if let Some(problem) = problem {
                let what = format!("holds no scales of {}: {problem}", of.escape_debug());
                validation.add(Category::Scale.of(&subject.name, what));
            }
            continue;
        }
        for finding in shape_findings(subject, expected.map(ExpectedTensor::shape)) {
            validation.add(finding);
        }
        let dtypes = expected.map(|expected| description.dtypes(expected)).unwrap_or_default();
        let are_codes = subject.dtype == Some(ElementType::Int8) && subject.scaled.is_none();
        // Without a scale, it is unknown which numbers the integers represent.
        let mut lacks_scale = false;
        if let Some(problem) = dtype_problem(subject, dtypes, description.accepts_quantized()) {
            validation.add(Category::DtypeMismatch.of(&subject.name, problem));
            lacks_scale = are_codes;
        } else if some_have_scales && are_codes {
            lacks_scale = true;
            let scale = format!("{}{SCALE_SUFFIX}", subject.name.escape_debug());
            let what = format!("has no scale that fits, and other int8 tensors have one: expected {scale}");
            validation.add(Category::MissingScale.of(&subject.name, what));
        }
        let count = element_count(&subject.shape).unwrap_or_default() as u64;
        validation.n_parameters = validation.n_parameters.saturating_add(count);
        if let Some(problem) = subject.problem() {
            validation.add(Category::Unreadable.of(&subject.name, format!("cannot be read: {problem}")));
            continue;
        }
        let Some(found) = found else { continue };
        for finding in number_findings(&subject.name, found.statistics) {
            validation.add(finding);
        }
        let problem = if lacks_scale { None } else { range_problem(found, subject.rounded_by(), description.values()) };
        if let Some(problem) = problem {
            validation.add(Category::ValueRange.of(&subject.name, problem));
        }
        let problem = quantization_of(subject).and_then(|expected| {
            let dtype = subject.dtype.unwrap_or(ElementType::Float32);
            quantization_problem(dtype, expected_precision(subject, dtypes), found, expected)
        });
        if let Some(problem) = problem {
            validation.add(Category::Quantization.of(&subject.name, problem));
        }
    }
    whole_findings(subjects, description, filter, &mut validation);
    Ok(validation)
}

/// Adds the findings about all tensors together.
fn whole_findings(
    subjects: &[Subject<'_>],
    description: &Description,
    filter: &super::Filter,
    validation: &mut Validation,
) {
    let tensors = || subjects.iter().filter(|subject| !subject.is_scales());
    let mut structure = verify_layer_structure(tensors().map(|subject| subject.name.as_str()), description);
    // A tensor that the filter excludes is not missing.
    structure.missing.retain(|name| filter.accepts(name));
    if structure.unexpected.len() == tensors().count() {
        let names = some_names(description.tensors().map(|(name, _)| name));
        validation.add(Category::NoExpectedTensors.of_all(match description.n_tensors() {
            0 => "No expected tensors found: the description has none".to_owned(),
            n_tensors => format!("No expected tensors found: none is one of the {n_tensors} ({names})"),
        }));
    } else if !structure.missing.is_empty() {
        let (n_missing, names) = (structure.missing.len(), some_names(structure.missing.iter().map(String::as_str)));
        validation.add(Category::MissingLayers.of_all(format!(
            "Some expected layers are missing: {n_missing} of {} tensors ({names})",
            description.n_tensors()
        )));
    }
    if !structure.unexpected.is_empty() {
        let names = some_names(structure.unexpected.iter().map(String::as_str));
        let message = format!("{} tensors are not expected ({names})", structure.unexpected.len());
        validation.add(Category::UnexpectedTensors.of_all(message));
    }
    let is_all = description.tensors().all(|(name, _)| filter.accepts(name));
    if is_all && validation.n_parameters != description.n_parameters() {
        validation.add(Category::ParameterCount.of_all(format!(
            "Parameter count differs from expected: {}, expected {}",
            validation.n_parameters,
            description.n_parameters()
        )));
    }
    if let Some(message) =
        inconsistent(tensors().filter(|subject| !subject.is_quantized()).filter_map(|subject| subject.dtype))
    {
        validation.add(Category::InconsistentDtypes.of_all(message));
    }
}

/// Describes how the element types disagree, if they do.
fn inconsistent(dtypes: impl Iterator<Item = ElementType>) -> Option<String> {
    let mut counts: BTreeMap<ElementType, usize> = BTreeMap::new();
    for dtype in dtypes {
        *counts.entry(dtype).or_default() += 1;
    }
    let n_floats = counts.keys().filter(|dtype| dtype.is_float()).count();
    if n_floats <= 1 && counts.len() - n_floats <= 1 {
        return None;
    }
    let counts: Vec<String> = counts.iter().map(|(dtype, count)| format!("{dtype} in {count}")).collect();
    Some(format!("Dtypes are not consistent: {} tensors", counts.join(", ")))
}

/// Returns what is wrong with a tensor's dtype. A quantized tensor represents floats.
fn dtype_problem(subject: &Subject<'_>, dtypes: &[ElementType], accepts_quantized: bool) -> Option<String> {
    let is_quantized = subject.is_quantized();
    if is_quantized && accepts_quantized && (dtypes.is_empty() || dtypes.iter().any(|dtype| dtype.is_float())) {
        return None;
    }
    let is_right = match subject.dtype {
        // Integers with scales may be what is described, but only by their dtype.
        Some(dtype) => dtypes.contains(&dtype) || (dtypes.is_empty() && !is_quantized),
        None => false,
    };
    let names: Vec<&str> = dtypes.iter().map(|dtype| dtype.name()).collect();
    let expected = if names.is_empty() { "tensors that are not quantized".to_owned() } else { names.join(" or ") };
    let found = match subject.dtype {
        Some(ElementType::Int8) if subject.scaled.is_none() => "has dtype int8 and no scale".to_owned(),
        Some(dtype) if is_quantized && dtypes.is_empty() => format!("is quantized to {dtype}"),
        Some(dtype) => format!("has dtype {dtype}"),
        None => "is quantized in groups".to_owned(),
    };
    (!is_right).then(|| format!("{found}, expected {expected}"))
}

fn shape_findings(subject: &Subject<'_>, expected: Option<&[usize]>) -> Vec<Finding> {
    let Subject { name, shape, .. } = subject;
    let mut findings = Vec::new();
    match expected {
        _ if shape.is_empty() && expected.is_none_or(|expected| !expected.is_empty()) => {
            findings.push(Category::EmptyShape.of(name, "has empty shape"));
        }
        Some(expected) if expected != shape.as_slice() => {
            let what = format!("shape mismatch: {shape:?}, expected {expected:?}");
            findings.push(Category::ShapeMismatch.of(name, what));
        }
        _ => {}
    }
    let has_zero = shape.contains(&0);
    if has_zero {
        findings.push(Category::ZeroDimension.of(name, format!("has zero dimension: {shape:?}")));
    }
    if let (Some(found), Some(dtype)) = (subject.n_bytes, subject.dtype) {
        let expected = element_count(shape).and_then(|count| dtype.n_bytes(count));
        if found == 0 && !has_zero {
            findings.push(Category::NoData.of(name, "has no data"));
        } else if expected != Some(found) {
            let expected = expected.map_or_else(|| "more than fit in memory".to_owned(), |bytes| bytes.to_string());
            let what = format!("data size mismatch: {found} bytes, expected {expected}");
            findings.push(Category::SizeMismatch.of(name, what));
        }
    }
    findings
}

fn number_problems(statistics: Statistics) -> impl Iterator<Item = (Category, String)> {
    let Statistics { n_elements, n_nan, n_infinite, .. } = statistics;
    let problem = move |category, count, what| {
        (count > 0).then(|| (category, format!("contains {what} ({count} of {n_elements} numbers)")))
    };
    let nan = problem(Category::ContainsNan, n_nan, "NaN");
    nan.into_iter().chain(problem(Category::ContainsInf, n_infinite, "Inf"))
}

fn number_findings(name: &str, statistics: Statistics) -> impl Iterator<Item = Finding> {
    number_problems(statistics).map(move |(category, problem)| category.of(name, problem))
}

#[cfg(test)]
mod tests;
