//! Writes float tensors as int8, each with its scale or the scales of its channels, or as quantized groups (spec/weights.md §2).

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use carton_tensor::context::ProgressEvent;
use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::weights::{
    self, Filter, Granularity, LoadOptions, QuantizationError, QuantizedMatrix, Quantizer, SCALE_SUFFIX,
};
use carton_tensor::ztensor::QuantizedGroup;
use serde::Serialize;

use crate::already::{left_as_they_are, quantized_already};
use crate::convert::Written;
use crate::error::TensorFilesError;
use crate::layout::TensorLayout;
use crate::numbers::{Numbers, VisitPiece};
use crate::plan::{self, Job};
use crate::planned::{Planned, PlannedKind};
use crate::selection::Selection;
use crate::sink::{Piece, Sink};
use crate::source::TensorSource;
use crate::tensor_info::TensorInfo;
use crate::text::{shown_name, shown_names};
use crate::write_options::WriteOptions;
use crate::written_metadata::{MetadataOptions, written_metadata};

/// The role of a tensor that is written.
#[derive(Clone, Copy)]
enum Role {
    AsItIs,
    Integers,
    Scale,
    Group(usize),
}

/// How [`quantize()`] quantizes and writes tensors.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QuantizeOptions {
    /// How they are stored.
    pub write: WriteOptions,
    /// Which numbers share a scale.
    pub granularity: Granularity,
    /// The rows of a column that share a scale, if matrices become quantized groups; for zTensor files.
    pub group_size: Option<usize>,
    /// Whether to measure what is lost.
    pub measure: bool,
    /// Quantizes only tensors whose names match one of these patterns, if there are any, and writes the others unchanged.
    pub only: Vec<String>,
}

impl Default for QuantizeOptions {
    fn default() -> Self {
        Self {
            write: WriteOptions::default(),
            granularity: Granularity::Tensor,
            group_size: None,
            measure: false,
            only: Vec::new(),
        }
    }
}

impl QuantizeOptions {
    /// How numbers are quantized.
    fn numbers(&self) -> weights::QuantizeOptions {
        let mut options = weights::QuantizeOptions::default();
        options.granularity = self.granularity;
        options.measure = self.measure;
        options
    }
}

/// What was written and, if it was measured, what was lost (spec/weights.md §2.4).
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct QuantizeReport {
    /// The file.
    #[serde(flatten)]
    pub written: Written,
    /// The tensors that were quantized, by name.
    pub quantized: Vec<QuantizedInfo>,
    /// The number of tensors that were written as they were.
    #[serde(skip)]
    pub unchanged: usize,
    /// The error of all quantized tensors together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<Loss>,
}

/// A tensor that was quantized.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct QuantizedInfo {
    /// Its name.
    pub name: String,
    /// The factor of all its numbers; `None` if there are several scales.
    pub scale: Option<f64>,
    /// The number of scales.
    pub scales: usize,
    /// The number of values that were not finite, and became 0.
    pub non_finite: u64,
    /// What was lost, if that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Loss>,
}

/// The loss of quantization.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct Loss {
    /// The norm of the differences divided by the norm of the numbers.
    pub relative: f64,
    /// The differences.
    #[serde(flatten)]
    pub error: QuantizationError,
}

impl From<QuantizationError> for Loss {
    fn from(error: QuantizationError) -> Self {
        Self { relative: error.relative(), error }
    }
}

impl QuantizedInfo {
    fn new(name: &str, quantizer: &Quantizer<'_>, error: Option<QuantizationError>) -> Result<Self, TensorFilesError> {
        let scales = quantizer.scales()?;
        Ok(Self {
            name: name.to_owned(),
            scale: scales.of_tensor(),
            scales: scales.as_slice().len(),
            non_finite: quantizer.n_non_finite(),
            error: error.map(Loss::from),
        })
    }

    fn of_group(name: &str, matrix: &QuantizedMatrix) -> Self {
        Self {
            name: name.to_owned(),
            scale: None,
            scales: matrix.scales.n_elements(),
            non_finite: matrix.n_non_finite,
            error: matrix.error.map(Loss::from),
        }
    }
}

/// Returns a warning about values that were not finite.
fn not_finite(quantized: &[QuantizedInfo]) -> Option<String> {
    let lost: u64 = quantized.iter().map(|one| one.non_finite).sum();
    let names = quantized.iter().filter(|one| one.non_finite > 0).map(|one| one.name.as_str());
    let names = shown_names(names);
    let were = if lost == 1 { "1 number was".to_owned() } else { format!("{lost} numbers were") };
    (lost > 0).then(|| format!("{were} not finite and became 0, in {names}"))
}

impl QuantizeReport {
    fn new(mut written: Written, mut quantized: Vec<QuantizedInfo>, unchanged: usize) -> Self {
        quantized.sort_by(|one, other| one.name.cmp(&other.name));
        written.warnings.extend(not_finite(&quantized));
        let errors = quantized.iter().filter_map(|one| one.error).map(|loss| loss.error);
        let total = errors.reduce(QuantizationError::merge).map(Loss::from);
        Self { written, quantized, unchanged, total }
    }
}

/// Whether a tensor holds floats, stored dense or sparse.
fn is_float(listed: &TensorInfo) -> bool {
    matches!(listed.format, TensorLayout::Dense | TensorLayout::SparseCsr | TensorLayout::SparseCoo)
        // An unknown logical type may mean anything, regardless of its storage type.
        && listed.element_type.is_some_and(|dtype| dtype.is_float() && listed.dtype.as_deref() == Some(dtype.name()))
}

/// Writes the tensors of `source` to the file at `output`, its float tensors as int8 (spec/weights.md §2). The file appears under its name when
/// it is complete. Tensors of other types are written unchanged, and so is what is quantized already, with its scales.
///
/// # Errors
/// [`TensorFilesError`]; nothing is left behind then.
pub fn quantize(
    source: &TensorSource,
    output: &Path,
    settings: &QuantizeOptions,
) -> Result<QuantizeReport, TensorFilesError> {
    let context = &settings.write.context;
    let filter = match settings.only.is_empty() {
        true => Filter::ALL,
        false => Filter::any_glob(&settings.only)?,
    };
    plan::check_output(&[source], output)?;
    let format = settings.write.format(output)?;
    if settings.group_size.is_some() {
        format.expect_ztensor("group_size", output)?;
    }
    let mut warnings = source.not_written();
    let mut planned = Vec::new();
    let mut roles: Vec<(&TensorInfo, Role)> = Vec::new();
    let already = quantized_already(source);
    for selected in Selection::default().select(&[source], false, &mut warnings)? {
        let (name, listed) = (selected.name, selected.listed);
        if is_float(listed) && !already.contains_key(name.as_str()) && filter.accepts(&name) {
            let shape = listed.shape.clone().unwrap_or_default();
            let fits = QuantizedGroup::fits(&shape) && !shape.contains(&0);
            if let Some(group_size) = settings.group_size.filter(|_| fits) {
                planned.push(Planned { name, kind: PlannedKind::Group });
                roles.push((listed, Role::Group(group_size)));
                continue;
            }
            let (scale, scale_shape) = (format!("{name}{SCALE_SUFFIX}"), settings.granularity.scale_shape(&shape));
            planned.push(Planned { name, kind: PlannedKind::Numbers(ElementType::Int8, shape) });
            roles.push((listed, Role::Integers));
            planned.push(Planned { name: scale, kind: PlannedKind::Numbers(ElementType::Float64, scale_shape) });
            roles.push((listed, Role::Scale));
        } else {
            planned.push(Planned { name, kind: plan::kind(listed, format, false) });
            roles.push((listed, Role::AsItIs));
        }
    }
    if !roles.iter().any(|(_, role)| matches!(role, Role::Integers | Role::Group(_))) {
        let schemes: BTreeSet<&str> = already.into_values().collect();
        let (place, schemes) = (source.place().to_owned(), schemes.into_iter().collect());
        return Err(TensorFilesError::NothingToQuantize { place, schemes });
    }
    if settings.group_size.is_some() && !roles.iter().any(|(_, role)| matches!(role, Role::Group(_))) {
        let what = "no tensor becomes a quantized group: none is a matrix of floats whose rows are a multiple of 4";
        warnings.push(what.to_owned());
    }
    warnings.extend(left_as_they_are(&already));
    let metadata = written_metadata(&[source], format, &MetadataOptions::default(), &mut warnings)?;
    let mut sink = Sink::create(output, &settings.write, &planned, &metadata)?;
    let total = source.total();
    let (mut done, mut quantized) = (0_u64, Vec::new());
    // The scales of a tensor are next to its integers in a zTensor file, and before all integers in a safetensors file.
    let mut quantizers: BTreeMap<&str, Rc<Quantizer<'_>>> = BTreeMap::new();
    for position in sink.order() {
        context.advance(&ProgressEvent::new("quantizing", done, Some(total), "bytes"))?;
        let (Some(planned), Some((listed, role))) = (planned.get(position), roles.get(position)) else { continue };
        match role {
            Role::AsItIs => {
                let job = Job { planned: planned.clone(), source, listed, dequantize: false, rounding: None };
                sink.write(planned, &plan::piece(&job, format, &mut warnings)?)?;
            }
            Role::Scale => {
                let scales = quantizer(&mut quantizers, source, listed, settings)?.scales()?;
                sink.write(planned, &Piece::from(scales.to_tensor()?))?;
                continue;
            }
            Role::Group(group_size) => {
                plan::warn_of_lost(source, &listed.name, &mut warnings)?;
                let matrix = weights::quantize_groups(&read(source, listed)?, *group_size, &settings.numbers());
                let matrix = matrix.map_err(|error| TensorFilesError::not_in_groups(&listed.name, error))?;
                quantized.push(QuantizedInfo::of_group(&listed.name, &matrix));
                let group = QuantizedGroup::from_integers(&matrix.integers, 8, Some(*group_size), matrix.scales)?;
                sink.write(planned, &Piece::Group(Box::new(group)))?;
            }
            Role::Integers => {
                plan::warn_of_lost(source, &listed.name, &mut warnings)?;
                let quantizer = quantizer(&mut quantizers, source, listed, settings)?;
                let integers = Rc::new(QuantizedNumbers { quantizer: Rc::clone(&quantizer), error: Cell::new(None) });
                sink.write(planned, &Piece::Numbers(Box::new(Rc::clone(&integers))))?;
                quantized.push(QuantizedInfo::new(&listed.name, &quantizer, integers.error.get())?);
            }
        }
        done = done.saturating_add(listed.bytes.unwrap_or(0));
    }
    context.check()?;
    let (path, size) = (output.to_path_buf(), sink.finish()?);
    let written = Written { path, shards: Vec::new(), tensors: planned.len(), size, warnings };
    let unchanged = roles.iter().filter(|(_, role)| matches!(role, Role::AsItIs)).count();
    Ok(QuantizeReport::new(written, quantized, unchanged))
}

fn read(source: &TensorSource, listed: &TensorInfo) -> Result<RawTensor, TensorFilesError> {
    let unknown = || TensorFilesError::UnknownKind { name: shown_name(&listed.name) };
    source.read(&listed.name)?.into_numbers().ok_or_else(unknown)
}

/// The scales of a tensor, which are found when the first of its two tensors is written.
fn quantizer<'a>(
    quantizers: &mut BTreeMap<&'a str, Rc<Quantizer<'a>>>,
    source: &'a TensorSource,
    listed: &'a TensorInfo,
    settings: &QuantizeOptions,
) -> Result<Rc<Quantizer<'a>>, TensorFilesError> {
    if let Some(quantizer) = quantizers.remove(listed.name.as_str()) {
        return Ok(quantizer);
    }
    let load = LoadOptions::default().context(settings.write.context.clone());
    let quantizer = Rc::new(match source.entry(&listed.name)? {
        Some(entry) => Quantizer::of_entry(entry, &settings.numbers(), &load)?,
        None => Quantizer::of_tensor(&read(source, listed)?, &settings.numbers(), &load)?,
    });
    quantizers.insert(&listed.name, Rc::clone(&quantizer));
    Ok(quantizer)
}

/// The integers of a quantized tensor.
struct QuantizedNumbers<'a> {
    quantizer: Rc<Quantizer<'a>>,
    /// What was lost, once it is known.
    error: Cell<Option<QuantizationError>>,
}

impl Numbers for Rc<QuantizedNumbers<'_>> {
    fn dtype(&self) -> ElementType {
        ElementType::Int8
    }

    fn shape(&self) -> &[usize] {
        self.quantizer.shape()
    }

    fn visit(&self, visit: &mut VisitPiece<'_>) -> Result<(), TensorFilesError> {
        self.error.set(self.quantizer.visit(visit)?);
        Ok(())
    }
}
