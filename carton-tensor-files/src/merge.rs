//! Writes the tensors of several models of one architecture as one: each is a blend of theirs (spec/weights.md §8).

use std::path::Path;

use carton_tensor::context::ProgressEvent;
use carton_tensor::weights::{FloatType, MergeMethod, WITHOUT_SCALES};

use crate::already::quantized_already;
use crate::blended::{Agreed, Blended, blendable, rounded};
use crate::convert::Written;
use crate::error::TensorFilesError;
use crate::merge_error::MergeError;
use crate::numbers::Numbers;
use crate::plan::{check_output, warn_of_lost};
use crate::planned::{Planned, PlannedKind};
use crate::sink::{Piece, Sink};
use crate::source::TensorSource;
use crate::tensor_info::TensorInfo;
use crate::text::shown_name;
use crate::write_options::WriteOptions;
use crate::written_metadata::{MetadataOptions, written_metadata};

/// A way of merging models (spec/weights.md §8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MethodKind {
    /// The weighted sum of the models.
    #[default]
    Linear,
    /// Spherical interpolation between two models.
    Slerp,
    /// A base, and the weighted differences of the models from it.
    TaskArithmetic,
}

/// How models are merged. Options that the method does not have are refused.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MergeOptions {
    /// How the tensors of the models become one.
    pub method: MethodKind,
    /// A weight for each model; by default 1. Not for `Slerp`.
    pub weights: Vec<f64>,
    /// Whether to divide by the sum of the weights. By default that is done for `Linear`, and not for `TaskArithmetic`.
    pub normalize: Option<bool>,
    /// Where between the first model, 0, and the second one, 1. Only for `Slerp`, which needs it.
    pub t: Option<f64>,
    /// A factor of the sum of the differences; by default 1. Only for `TaskArithmetic`.
    pub lambda: Option<f64>,
    /// The type of the floats that are written; by default that of the models. Numbers are rounded to it once.
    pub dtype: Option<FloatType>,
    /// How tensors are stored.
    pub write: WriteOptions,
}

impl MergeOptions {
    fn method(&self, n_models: usize, has_base: bool) -> Result<MergeMethod, MergeError> {
        let Self { weights, normalize, t, lambda, .. } = self;
        let name = match self.method {
            MethodKind::Linear => "linear",
            MethodKind::Slerp => "slerp",
            MethodKind::TaskArithmetic => "task-arithmetic",
        };
        let unless = |is_allowed: bool, is_given: bool, option: &'static str| match is_given && !is_allowed {
            true => Err(MergeError::NoOption { option, method: name }),
            false => Ok(()),
        };
        let (is_slerp, is_task) = (self.method == MethodKind::Slerp, self.method == MethodKind::TaskArithmetic);
        unless(!is_slerp, !weights.is_empty(), "weights")?;
        unless(!is_slerp, normalize.is_some(), "normalize")?;
        unless(is_slerp, t.is_some(), "t")?;
        unless(is_task, lambda.is_some(), "lambda")?;
        unless(is_task, has_base, "base")?;
        let weights = if weights.is_empty() { vec![1.0; n_models] } else { weights.clone() };
        let needed = |option| MergeError::NeedsOption { option, method: name };
        Ok(match self.method {
            MethodKind::Linear => MergeMethod::Linear { weights, normalize: normalize.unwrap_or(true) },
            MethodKind::Slerp => MergeMethod::Slerp { t: t.ok_or_else(|| needed("t"))? },
            MethodKind::TaskArithmetic if !has_base => return Err(needed("base")),
            MethodKind::TaskArithmetic => MergeMethod::TaskArithmetic {
                weights,
                normalize: normalize.unwrap_or(false),
                lambda: lambda.unwrap_or(1.0),
            },
        })
    }
}

/// Writes a blend of models to the file at `output`, in the format that its extension names. All models, and the `base` of task arithmetic, have the
/// same tensors, of the same dtypes and shapes. Floats of 16 bits and more are blended, in float32 or float64. Any other tensor must have the same
/// elements in all models, and is written as it is. Tensors are read in pieces, those of all models in step. The metadata is that of the first model,
/// or of the base. The file appears under its name when it is complete.
///
/// # Errors
/// [`TensorFilesError`]; nothing is left behind then.
pub fn merge(
    models: &[TensorSource],
    base: Option<&TensorSource>,
    output: &Path,
    options: &MergeOptions,
) -> Result<Written, TensorFilesError> {
    let context = &options.write.context;
    let method = options.method(models.len(), base.is_some())?;
    let models: Vec<&TensorSource> = base.into_iter().chain(models).collect();
    method.check(models.len()).map_err(MergeError::Method)?;
    let Some((first, others)) = models.split_first() else { return Err(no_model("").into()) };
    check_output(&models, output)?;
    let format = options.write.format(output)?;
    let mut warnings: Vec<String> = models.iter().flat_map(|model| model.not_written()).collect();
    models.iter().try_for_each(|model| check_not_quantized(model))?;
    check_names(first, others)?;
    let mut planned = Vec::new();
    for listed in first.tensors() {
        let dtype = blendable(first, listed)?;
        others.iter().try_for_each(|other| check_alike((first, listed), other))?;
        let dtype = match (Blended::computed_in(dtype), options.dtype) {
            (Some(_), Some(to)) => to.element_type(),
            _ => dtype,
        };
        let shape = listed.shape.clone().unwrap_or_default();
        planned.push(Planned { name: listed.name.clone(), kind: PlannedKind::Numbers(dtype, shape) });
    }
    let metadata = written_metadata(&[*first], format, &MetadataOptions::default(), &mut warnings)?;
    let mut sink = Sink::create(output, &options.write, &planned, &metadata)?;
    let total = models.iter().map(|model| model.total()).fold(0, u64::saturating_add);
    let mut done = 0_u64;
    for position in sink.order() {
        context.advance(&ProgressEvent::new("merging", done, Some(total), "bytes"))?;
        let (Some(listed), Some(planned)) = (first.tensors().get(position), planned.get(position)) else { continue };
        let mut entries = Vec::with_capacity(models.len());
        for model in &models {
            entries.push(model.entry(&listed.name)?.ok_or_else(|| no_model(model.place()))?);
            warn_of_lost(model, &listed.name, &mut warnings)?;
            done = done.saturating_add(listed.bytes.unwrap_or(0));
        }
        let from = blendable(first, listed)?;
        let numbers: Box<dyn Numbers + '_> = match Blended::computed_in(from) {
            Some(_) => rounded(&listed.name, Box::new(Blended::new(entries, from, &method, context)), &planned.kind),
            None => Box::new(Agreed::new(entries, from)),
        };
        sink.write(planned, &Piece::Numbers(numbers))?;
    }
    context.check()?;
    Ok(Written {
        path: output.to_path_buf(),
        shards: Vec::new(),
        tensors: planned.len(),
        size: sink.finish()?,
        warnings,
    })
}

fn no_model(place: &str) -> MergeError {
    MergeError::NoModel { place: place.to_owned() }
}

/// Checks that no tensor is quantized with scales of its own.
fn check_not_quantized(model: &TensorSource) -> Result<(), MergeError> {
    let quantized = quantized_already(model).into_iter().find(|(_, scheme)| *scheme != WITHOUT_SCALES);
    match quantized {
        Some((name, scheme)) => {
            Err(MergeError::Quantized { place: model.place().to_owned(), name: shown_name(name), scheme })
        }
        None => Ok(()),
    }
}

/// Checks that all models have tensors of the same names.
fn check_names(first: &TensorSource, others: &[&TensorSource]) -> Result<(), MergeError> {
    let missing = |from: &TensorSource, than: &TensorSource| {
        let names: Vec<String> =
            than.tensors().iter().map(|info| &info.name).filter(|name| from.get(name).is_none()).cloned().collect();
        if names.is_empty() {
            return Ok(());
        }
        Err(MergeError::Missing { place: from.place().to_owned(), other: than.place().to_owned(), names })
    };
    others.iter().try_for_each(|other| {
        missing(other, first)?;
        missing(first, other)
    })
}

/// Checks that a tensor has the same dtype and shape in another model.
fn check_alike((model, listed): (&TensorSource, &TensorInfo), other: &TensorSource) -> Result<(), MergeError> {
    let form = |info: Option<&TensorInfo>| {
        let dtype = info.and_then(|info| info.dtype.clone()).unwrap_or_else(|| "no numbers".to_owned());
        format!("{} {:?}", shown_name(&dtype), info.and_then(|info| info.shape.clone()).unwrap_or_default())
    };
    let (expected, found) = (form(Some(listed)), form(other.get(&listed.name)));
    if expected == found {
        return blendable(other, other.get(&listed.name).unwrap_or(listed)).map(drop);
    }
    Err(MergeError::Unlike {
        name: shown_name(&listed.name),
        place: model.place().to_owned(),
        expected,
        other: other.place().to_owned(),
        found,
    })
}
