//! Writes tensors to a file of another format, piece by piece, or to the shards of a checkpoint.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use carton_tensor::files::PendingFile;
use carton_tensor::weights::SCALE_SUFFIX;
use serde::Serialize;

use crate::error::TensorFilesError;
use crate::groups::Groups;
use crate::metered::metered;
use crate::plan::{Job, check_output, kind, piece, warn_of_lost, warn_of_version};
use crate::planned::{Planned, PlannedKind};
use crate::rounded::{RoundedType, Rounding};
use crate::roundings::Roundings;
use crate::selection::{Selection, check_names};
use crate::shards;
use crate::sink::{Complete, Piece, Sink};
use crate::source::TensorSource;
use crate::tensor_info::TensorInfo;
use crate::write_options::{OutputFormat, WriteOptions};
use crate::written_metadata::{MetadataOptions, WrittenMetadata, written_metadata};

/// What was written.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Written {
    /// The file; of several, their index.
    pub path: PathBuf,
    /// The files of tensors, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<PathBuf>,
    /// The number of tensors.
    pub tensors: usize,
    /// The size of all files, in bytes.
    pub size: u64,
    /// What was lost or left out in the new file, one sentence each.
    pub warnings: Vec<String>,
}

/// What happens to quantized groups and other quantized tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupHandling {
    /// They stay quantized groups.
    #[default]
    Kept,
    /// The float32 numbers that they represent are written, and the dense tensors that packed ones stand for (spec/packed.md), under their names.
    Numbers,
    /// Groups are made of each int8 matrix `NAME` and its scale `NAME.scale`, with the fewest bits that hold its integers; for zTensor files.
    /// The group multiplies by 1 / scale, rounded to float32.
    Made,
}

/// How [`convert`] writes tensors.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// How they are stored.
    pub write: WriteOptions,
    /// Which of them, and under which names.
    pub selection: Selection,
    /// What happens to quantized groups.
    pub groups: GroupHandling,
    /// How floats are rounded to another type. Without it, no number changes. Tensors that are quantized already are left as they are, with their scales.
    pub rounding: Option<Rounding>,
    /// The most bytes of tensors in a file, for safetensors. If there are more, several files are written, `NAME-00001-of-00002.safetensors` and so
    /// on, and their index `NAME.safetensors.index.json` (spec/safetensors.md §7). A larger tensor has a file of its own. An index of this name that
    /// is there is replaced, and removed if one file holds everything. At most [`MAX_SHARDS`] files are written.
    pub shard_size: Option<u64>,
    /// What becomes of the metadata.
    pub metadata: MetadataOptions,
}

/// The most files of a checkpoint that are written: each is open until all are complete.
pub const MAX_SHARDS: usize = 500;

/// Writes the tensors of all `sources` to the file at `output`, in the format that its extension names. Values that a format cannot hold are
/// refused, and rounded only where that is asked for. The file appears under its name when it is complete; of a checkpoint in several files, the index last. The
/// digests of zTensor sources are compared.
///
/// Tensors are copied in pieces. Sparse ones and strided ones of PyTorch, arrays in Fortran order, and those that become groups or sparse are in memory as a
/// whole, one at a time.
///
/// # Errors
/// [`TensorFilesError`]; nothing is left behind then, except that shards which have their names stay if the next one cannot get its name. There is no
/// index then.
pub fn convert(
    sources: &[&TensorSource],
    output: &Path,
    options: &ConvertOptions,
) -> Result<Written, TensorFilesError> {
    let format = options.write.format(output)?;
    if options.groups == GroupHandling::Made {
        format.expect_ztensor("groups", output)?;
    }
    if options.shard_size.is_some() && format != OutputFormat::Safetensors {
        return Err(TensorFilesError::NoShards { path: output.to_path_buf(), format: format.name() });
    }
    if options.shard_size == Some(0) {
        return Err(TensorFilesError::EmptyShards);
    }
    if let Some(Rounding { to: RoundedType::Blocks(to), .. }) = options.rounding
        && format != OutputFormat::Gguf
    {
        let (of, path) = (to.ggml_type(), output.to_path_buf());
        return Err(TensorFilesError::NoBlocks { of, path, format: format.name() });
    }
    let mut warnings = Vec::new();
    if options.selection.only.is_empty() {
        warnings.extend(sources.iter().flat_map(|source| source.not_written()));
    }
    let dequantize = options.groups == GroupHandling::Numbers;
    let mut selected = options.selection.select(sources, dequantize, &mut warnings)?;
    if dequantize {
        selected.iter().try_for_each(|one| one.source.expect_dense(&one.listed.name))?;
        let names = |source: &TensorSource| -> Vec<&str> {
            let of_source = selected.iter().filter(|one| std::ptr::eq(one.source, source));
            of_source.map(|one| one.listed.name.as_str()).collect()
        };
        warnings.extend(sources.iter().filter_map(|source| source.packed().not_written(&names(source))));
    }
    let groups = match (options.groups, sources) {
        (GroupHandling::Made, &[source]) => {
            let listed: Vec<&TensorInfo> = selected.iter().map(|one| one.listed).collect();
            Groups::find(source, &listed, &mut warnings)?
        }
        (GroupHandling::Made, _) => return Err(TensorFilesError::GroupsOfOne { found: sources.len() }),
        _ => Groups::default(),
    };
    selected.retain(|one| !groups.is_scale(&one.listed.name));
    check_names(&selected)?;
    let rounding = Roundings::find(sources, options.rounding);
    let mut jobs: Vec<Job<'_>> = Vec::with_capacity(selected.len());
    for one in &selected {
        let kind =
            if groups.contains(&one.listed.name) { PlannedKind::Group } else { kind(one.listed, format, dequantize) };
        let mut job = Job {
            planned: Planned { name: one.name.clone(), kind },
            source: one.source,
            listed: one.listed,
            dequantize,
            rounding: None,
        };
        rounding.apply(&mut job)?;
        jobs.push(job);
    }
    warnings.extend(rounding.left_as_they_are(&jobs));
    warnings.extend(rounding.not_in_blocks(&jobs));
    let metadata = written_metadata(sources, format, &options.metadata, &mut warnings)?;
    let listed: Vec<&TensorInfo> = selected.iter().map(|one| one.listed).collect();
    warn_of_version(&options.write, &listed, &mut warnings);
    let divided = match options.shard_size {
        Some(limit) => shards::divide(jobs.iter().map(Job::n_bytes), limit),
        None => vec![(0..jobs.len()).collect()],
    };
    if divided.len() > MAX_SHARDS {
        return Err(TensorFilesError::TooManyShards { found: divided.len(), limit: MAX_SHARDS });
    }
    let mut writing = Writing { sources, format, options, groups: &groups, metadata: &metadata, warnings };
    match divided.as_slice() {
        [_] => writing.one_file(output, &jobs),
        divided => writing.several_files(output, &jobs, divided),
    }
}

/// What all files of a conversion have in common.
struct Writing<'a> {
    sources: &'a [&'a TensorSource],
    format: OutputFormat,
    options: &'a ConvertOptions,
    groups: &'a Groups<'a>,
    metadata: &'a WrittenMetadata,
    warnings: Vec<String>,
}

impl Writing<'_> {
    fn one_file(&mut self, output: &Path, jobs: &[Job<'_>]) -> Result<Written, TensorFilesError> {
        let total = jobs.iter().map(Job::n_bytes).fold(0, u64::saturating_add);
        let meter = self.options.write.context.meter("converting", self.passes().saturating_mul(total));
        let complete = self.file(output, &jobs.iter().collect::<Vec<_>>(), &|n_bytes| Ok(meter.advance(n_bytes)?))?;
        self.options.write.context.cancel_token().begin_publishing()?;
        let size = complete.publish()?;
        if self.options.shard_size.is_some() {
            remove_index(output)?;
        }
        let warnings = std::mem::take(&mut self.warnings);
        Ok(Written { path: output.to_path_buf(), shards: Vec::new(), tensors: jobs.len(), size, warnings })
    }

    fn several_files(
        &mut self,
        output: &Path,
        jobs: &[Job<'_>],
        divided: &[Vec<usize>],
    ) -> Result<Written, TensorFilesError> {
        let total = jobs.iter().map(Job::n_bytes).fold(0, u64::saturating_add);
        let meter = self.options.write.context.meter("converting", self.passes().saturating_mul(total));
        let path = shards::index_path(output);
        check_output(self.sources, &path)?;
        for position in 0..divided.len() {
            check_output(self.sources, &shards::shard_path(output, position, divided.len()))?;
        }
        let mut files: Vec<(PathBuf, Complete)> = Vec::with_capacity(divided.len());
        let mut weight_map: BTreeMap<&str, String> = BTreeMap::new();
        for (position, shard) in divided.iter().enumerate() {
            let shard_path = shards::shard_path(output, position, divided.len());
            let of_shard: Vec<&Job<'_>> = shard.iter().filter_map(|position| jobs.get(*position)).collect();
            let file_name = shard_path.file_name().unwrap_or_default().to_string_lossy();
            weight_map.extend(of_shard.iter().map(|job| (job.planned.name.as_str(), file_name.to_string())));
            let complete = self.file(&shard_path, &of_shard, &|n_bytes| Ok(meter.advance(n_bytes)?))?;
            files.push((shard_path, complete));
        }
        let weight_map = weight_map.iter().map(|(name, file)| (*name, file.as_str())).collect();
        let index = shards::write_index(&path, weight_map, total)?;
        self.options.write.context.cancel_token().begin_publishing()?;
        // The index of an earlier checkpoint would name files of both.
        remove_index(output)?;
        let (mut shards, mut size) = (Vec::with_capacity(files.len()), 0_u64);
        for (path, complete) in files {
            size = size.saturating_add(complete.publish()?);
            shards.push(path);
        }
        publish_index(index, &path)?;
        let warnings = std::mem::take(&mut self.warnings);
        Ok(Written { path, shards, tensors: jobs.len(), size, warnings })
    }

    /// How often numbers are read. Whether a tensor becomes sparse is known when all of it was read.
    fn passes(&self) -> u64 {
        if self.options.write.sparse_below.is_some() { 2 } else { 1 }
    }

    /// Writes one file, which has no name yet.
    fn file(
        &mut self,
        output: &Path,
        jobs: &[&Job<'_>],
        advance: &dyn Fn(u64) -> Result<(), TensorFilesError>,
    ) -> Result<Complete, TensorFilesError> {
        check_output(self.sources, output)?;
        let planned: Vec<Planned> = jobs.iter().map(|job| job.planned.clone()).collect();
        let mut sink = Sink::create(output, &self.options.write, &planned, self.metadata)?;
        for position in sink.order() {
            let Some(job) = jobs.get(position) else { continue };
            let piece = self.piece(job)?;
            let is_metered = matches!(piece, Piece::Numbers(_) | Piece::Blocks(_));
            let piece = metered(piece, advance);
            sink.write(&job.planned, &piece)?;
            if !is_metered {
                advance(job.n_bytes())?;
            }
            match &piece {
                Piece::Numbers(numbers) => self.warnings.extend(numbers.warning()),
                Piece::Blocks(blocks) => self.warnings.extend(blocks.warnings()),
                _ => {}
            }
        }
        self.options.write.context.check()?;
        sink.complete()
    }

    fn piece<'j>(&mut self, job: &Job<'j>) -> Result<Piece<'j>, TensorFilesError> {
        let (source, name) = (job.source, &job.listed.name);
        let Some(group) = self.groups.read(source, name)? else { return piece(job, self.format, &mut self.warnings) };
        warn_of_lost(source, name, &mut self.warnings)?;
        warn_of_lost(source, &format!("{name}{SCALE_SUFFIX}"), &mut self.warnings)?;
        Ok(Piece::Group(Box::new(group)))
    }
}

/// Removes the index of several files, if there is one.
fn remove_index(output: &Path) -> Result<(), TensorFilesError> {
    let path = shards::index_path(output);
    match std::fs::remove_file(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(TensorFilesError::Io { action: "remove", path, source })
        }
        _ => Ok(()),
    }
}

fn publish_index(index: PendingFile, path: &Path) -> Result<(), TensorFilesError> {
    index.publish().map_err(|source| TensorFilesError::Io { action: "write", path: path.to_path_buf(), source })
}
