//! Writes a model with low-rank adapters merged into its weights (spec/weights.md §9).

use std::path::{Path, PathBuf};

use carton_tensor::checkpoint::FollowLinks;
use carton_tensor::context::ProgressEvent;
use carton_tensor::weights::FloatType;

use crate::adapted::Adapted;
use crate::adapter::Adapter;
use crate::blended::{Blended, rounded};
use crate::convert::Written;
use crate::error::TensorFilesError;
use crate::merge_error::MergeError;
use crate::numbers::{EntryNumbers, Numbers};
use crate::plan::{Job, check_output, kind, piece, warn_of_lost};
use crate::planned::{Planned, PlannedKind};
use crate::rounded::Rounding;
use crate::roundings::Roundings;
use crate::sink::{Piece, Sink};
use crate::source::TensorSource;
use crate::text::shown_name;
use crate::write_options::WriteOptions;
use crate::written_metadata::{MetadataOptions, written_metadata};

/// How adapters are merged.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AdapterOptions {
    /// The type of the floats that are written; by default that of the model.
    pub dtype: Option<FloatType>,
    /// Which links to the adapters' files are followed.
    pub links: FollowLinks,
    /// How tensors are stored.
    pub write: WriteOptions,
}

/// Pairs each adapter with the factor by which its change is multiplied. Without factors, each gets 1.
///
/// # Errors
/// There are more or fewer factors than adapters.
pub fn with_scales(adapters: Vec<PathBuf>, scales: &[f64]) -> Result<Vec<(PathBuf, f64)>, TensorFilesError> {
    let (expected, found) = (adapters.len(), scales.len());
    if !scales.is_empty() && found != expected {
        return Err(MergeError::Scales { expected, found }.into());
    }
    let scales = scales.iter().copied().chain(std::iter::repeat(1.0));
    Ok(adapters.into_iter().zip(scales).collect())
}

/// Writes the tensors of the only one of `models`, changed by adapters of PEFT one after another, to the file at `output`, in the format that its extension names. Each adapter is a
/// file or a folder, with a factor of what it adds. Tensors that no adapter changes are written as they are. The weights are read in pieces; the two matrices of a
/// product are in memory, one product at a time. The file appears under its name when it is complete.
///
/// # Errors
/// [`TensorFilesError`]: among others, an adapter changes a tensor that the model does not have. Nothing is left behind then.
pub fn merge_adapters(
    models: &[TensorSource],
    adapters: &[(PathBuf, f64)],
    output: &Path,
    options: &AdapterOptions,
) -> Result<Written, TensorFilesError> {
    let context = &options.write.context;
    let [model] = models else { return Err(MergeError::OneModel { found: models.len() }.into()) };
    let format = options.write.format(output)?;
    let mut opened = Vec::with_capacity(adapters.len());
    for (path, scale) in adapters {
        let mut adapter = Adapter::open(path, *scale, options.links)?;
        adapter.check(model)?;
        opened.push(adapter);
    }
    check_output(&[model].into_iter().chain(opened.iter().map(Adapter::source)).collect::<Vec<_>>(), output)?;
    let mut warnings = model.not_written();
    let roundings = Roundings::find(&[model], options.dtype.map(|to| Rounding { to: to.into(), saturate: false }));
    let mut jobs = Vec::new();
    for listed in model.tensors() {
        let is_changed = opened.iter().any(|adapter| adapter.changes(&listed.name));
        let kind = match (kind(listed, format, false), listed.element_type) {
            // A sparse object of the model becomes a dense one.
            (PlannedKind::Object { .. }, Some(dtype)) if is_changed => {
                PlannedKind::Numbers(dtype, listed.shape.clone().unwrap_or_default())
            }
            (kind, _) => kind,
        };
        let planned = Planned { name: listed.name.clone(), kind };
        let mut job = Job { planned, source: model, listed, dequantize: false, rounding: None };
        roundings.apply(&mut job)?;
        jobs.push(job);
    }
    warnings.extend(roundings.left_as_they_are(&jobs));
    let metadata = written_metadata(&[model], format, &MetadataOptions::default(), &mut warnings)?;
    let planned: Vec<Planned> = jobs.iter().map(|job| job.planned.clone()).collect();
    let mut sink = Sink::create(output, &options.write, &planned, &metadata)?;
    let (total, mut done) = (model.total(), 0_u64);
    for position in sink.order() {
        context.advance(&ProgressEvent::new("merging", done, Some(total), "bytes"))?;
        let Some(job) = jobs.get(position) else { continue };
        let changing: Vec<&Adapter> = opened.iter().filter(|adapter| adapter.changes(&job.listed.name)).collect();
        let piece = match changing.is_empty() {
            true => piece(job, format, &mut warnings)?,
            false => changed(job, &changing, &mut warnings)?,
        };
        sink.write(&job.planned, &piece)?;
        done = done.saturating_add(job.listed.bytes.unwrap_or(0));
    }
    context.check()?;
    Ok(Written { path: output.to_path_buf(), shards: Vec::new(), tensors: jobs.len(), size: sink.finish()?, warnings })
}

/// The numbers of a tensor that adapters change. They are rounded to the type of the model after each adapter, as they are where adapters are merged into a model
/// in memory; after the last one to the type that is written.
fn changed<'a>(
    job: &Job<'a>,
    changing: &[&'a Adapter],
    warnings: &mut Vec<String>,
) -> Result<Piece<'a>, TensorFilesError> {
    let (model, listed) = (job.source, job.listed);
    let again = || TensorFilesError::Changed(format!("tensor `{}` is another one", shown_name(&listed.name)));
    let (Some(entry), Some(dtype)) = (model.entry(&listed.name)?, listed.element_type) else { return Err(again()) };
    warn_of_lost(model, &listed.name, warnings)?;
    let of_model = PlannedKind::Numbers(dtype, listed.shape.clone().unwrap_or_default());
    let mut numbers: Box<dyn Numbers + 'a> = Box::new(EntryNumbers::new(entry, dtype));
    let last = changing.len().saturating_sub(1);
    for (position, adapter) in changing.iter().enumerate() {
        numbers = Box::new(Adapted::new(&listed.name, numbers, adapter));
        let kind = if position == last { &job.planned.kind } else { &of_model };
        numbers = rounded(&listed.name, numbers, kind);
    }
    debug_assert!(Blended::computed_in(dtype).is_some(), "`Adapter::check` refuses other types");
    Ok(Piece::Numbers(numbers))
}
