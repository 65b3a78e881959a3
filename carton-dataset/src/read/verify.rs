//! Compares everything that can be compared in a dataset: the manifest with the files, their headers and the index (spec/dataset.md §7).
//! Differences are findings; an error means that there was nothing to compare with.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carton_tensor::context::{Context, ProgressEvent};
use carton_tensor::safetensors::{Header, Reader, TensorInfo, dtype_name};

use super::folder::{Access, Folder, ShardLocation};
use super::samples::{self, SampleLayouts, Samples};
use super::{Category, Finding};
use crate::error::DatasetError;
use crate::index::{self, INDEX_NAME, IndexRow};
use crate::manifest::{Manifest, Shard, TensorSchema};
use crate::shard_metadata::ShardMode;
use crate::write::staging::TASKS;

/// The largest number of findings that are listed. Further ones are only counted, because a longer list would not be read.
const MOST_FINDINGS: usize = 1000;

/// The extent of a verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checks {
    /// Compares the existence and sizes of files.
    Sizes,
    /// Also compares every shard's header, and the index.
    #[default]
    Headers,
}

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verification {
    /// The findings, in the order of the shards; those about the whole dataset come last.
    pub findings: Vec<Finding>,
    /// The number of findings that are not listed.
    pub n_omitted: u64,
    /// The number of shards in the manifest.
    pub n_shards: u64,
    /// The number of samples in the manifest.
    pub n_samples: u64,
}

impl Verification {
    /// Whether there are no findings.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    fn add(&mut self, category: Category, file: &str, problem: impl Into<String>) {
        if self.findings.len() < MOST_FINDINGS {
            self.findings.push(Finding { category, file: file.to_owned(), problem: problem.into() });
        } else {
            self.n_omitted = self.n_omitted.saturating_add(1);
        }
    }
}

/// Compares the manifest of the dataset at `path` with the files. Reports the checked shards to `context`, as the stage `verifying`,
/// before each shard and once at the end.
///
/// # Errors
/// [`DatasetError::NoFolder`], [`DatasetError::NoManifest`], [`DatasetError::Manifest`] and [`DatasetError::Io`] if the manifest or the folder cannot be read;
/// [`DatasetError::Interrupted`]. Problems of shards and index are findings, not errors.
pub fn verify(path: impl AsRef<Path>, checks: Checks, context: &Context) -> Result<Verification, DatasetError> {
    let (folder, manifest) = Folder::open(path.as_ref())?;
    let manifest = Arc::new(manifest);
    let layouts = SampleLayouts::new(Arc::clone(&manifest));
    let n_shards = manifest.shards().len() as u64;
    let mut verification = Verification { n_shards, n_samples: manifest.total_samples(), ..Verification::default() };
    let mut index = match checks {
        Checks::Headers => IndexCheck::open(&folder, &mut verification),
        Checks::Sizes => None,
    };
    let mut schema = SchemaCheck::new(&manifest);
    let mut dimensions = DimensionCheck::default();
    let checked = |n_checked| ProgressEvent::new("verifying", n_checked, Some(n_shards), "shards");
    for (n_checked, shard) in (0..).zip(manifest.shards()) {
        context.advance(&checked(n_checked))?;
        let Some(file) = check_file(&folder, shard, &mut verification)? else { continue };
        if checks == Checks::Sizes {
            continue;
        }
        let file_name = &shard.shard_path;
        let reader = match Access::Copy.bytes(&file).map(|bytes| Reader::new(bytes, file_name.clone())) {
            Ok(Ok(reader)) => reader,
            Ok(Err(error)) => {
                verification.add(Category::Unreadable, file_name, error.source().map_or(error.to_string(), chain));
                continue;
            }
            Err(error) => {
                verification.add(Category::Unreadable, file_name, error.to_string());
                continue;
            }
        };
        let header = reader.header();
        let samples = match layouts.of(header, shard.samples_count) {
            Ok(samples) => {
                if let Err(problem) = samples::check(header, shard.samples_count, &samples) {
                    verification.add(Category::Samples, file_name, problem);
                }
                samples
            }
            Err(problem) => {
                verification.add(Category::Samples, file_name, problem);
                Samples::Rows
            }
        };
        dimensions.check(file_name, layouts.may_count_dimensions(header, shard.samples_count, &samples));
        schema.check(file_name, header, &samples, &mut verification);
        if let Some(index) = &mut index {
            index.check(file_name, header, &mut verification);
        }
    }
    context.report(&checked(n_shards));
    dimensions.finish(&mut verification);
    if checks == Checks::Headers {
        schema.finish(&mut verification);
    }
    if let Some(index) = index {
        index.finish(&manifest, &mut verification);
    }
    find_others(&folder, &manifest, &mut verification)?;
    Ok(verification)
}

/// Returns the path of a shard if it exists and has the expected size.
fn check_file(
    folder: &Folder,
    shard: &Shard,
    verification: &mut Verification,
) -> Result<Option<PathBuf>, DatasetError> {
    let (name, expected) = (&shard.shard_path, shard.bytes);
    match folder.find(name) {
        Ok(ShardLocation::File(path, found)) if found == expected => return Ok(Some(path)),
        Ok(ShardLocation::File(_, found)) => {
            let category = if found < expected { Category::Truncated } else { Category::Altered };
            verification.add(category, name, format!("{found} bytes, expected {expected}"));
        }
        Ok(ShardLocation::Missing) => verification.add(Category::Missing, name, "is not there"),
        Ok(ShardLocation::NoFile) => verification.add(Category::Missing, name, "is no file"),
        Ok(ShardLocation::Outside) => {
            verification.add(Category::Link, name, "a link leads out of the dataset's folder")
        }
        // Concerns one shard only, such as one without read permission.
        Err(DatasetError::Io { source, .. }) => verification.add(Category::Unreadable, name, source.to_string()),
        Err(error) => return Err(error),
    }
    Ok(None)
}

/// Checks that the manifest does not count dimensions as samples (spec/dataset.md §2.3). If it seems so of one shard, that may be a
/// coincidence; if of all, it is none.
#[derive(Default)]
struct DimensionCheck {
    files: Vec<String>,
    has_other: bool,
}

impl DimensionCheck {
    fn check(&mut self, file: &str, may_count_dimensions: bool) {
        match may_count_dimensions {
            true => self.files.push(file.to_owned()),
            false => self.has_other = true,
        }
    }

    fn finish(self, verification: &mut Verification) {
        for file in self.files.iter().filter(|_| !self.has_other) {
            let problem = "the manifest counts the first dimension of its tensors, but the tensors are named after samples: other \
                           shards have other tensors";
            verification.add(Category::Samples, file, problem);
        }
    }
}

/// Checks that schema and shards have the same tensors.
struct SchemaCheck<'m> {
    schema: &'m BTreeMap<String, TensorSchema>,
    /// Each tensor of the schema that some shard has. The value is a file and a problem if no shard so far has the shape of the schema.
    seen: BTreeMap<&'m str, Option<(String, String)>>,
    n_shards: usize,
    n_read: usize,
}

impl<'m> SchemaCheck<'m> {
    fn new(manifest: &'m Manifest) -> Self {
        Self { schema: manifest.schema(), seen: BTreeMap::new(), n_shards: manifest.shards().len(), n_read: 0 }
    }

    fn check(&mut self, file: &str, header: &Header, samples: &Samples, verification: &mut Verification) {
        self.n_read += 1;
        // Only shards whose metadata states batch mode are known to need a tensor for every column.
        if ShardMode::of(header.metadata()) == Some(ShardMode::Batch) {
            for name in self.schema.keys().filter(|name| header.get(name).is_none()) {
                let problem = format!("tensor `{}` of the manifest's schema is missing", name.escape_debug());
                verification.add(Category::Schema, file, problem);
            }
        }
        for tensor in header.iter() {
            let shown = tensor.name.escape_debug();
            let Some((name, expected)) = self.schema.get_key_value(tensor.name) else {
                verification.add(Category::Schema, file, format!("tensor `{shown}` is not in the manifest's schema"));
                continue;
            };
            let found = dtype_name(tensor.dtype).unwrap_or_default();
            if found != expected.dtype {
                let problem = format!("tensor `{shown}` is {found}, expected {}", expected.dtype.escape_debug());
                verification.add(Category::Schema, file, problem);
                self.seen.insert(name, None);
                continue;
            }
            let is_same = same_shape(tensor.shape, &expected.shape);
            let problem = || format!("tensor `{shown}` has shape {:?}, expected {:?}", tensor.shape, expected.shape);
            match samples {
                // The last batch may have fewer rows.
                Samples::Rows => {
                    let is_same = match (tensor.shape.split_first(), expected.shape.split_first()) {
                        (Some((_, found)), Some((_, expected))) => same_shape(found, expected),
                        _ => is_same,
                    };
                    if !is_same {
                        verification.add(Category::Schema, file, problem());
                    }
                    self.seen.insert(name, None);
                }
                // The schema has the entry of one shard; if several shards have the name, the others may differ in shape.
                Samples::Named { .. } => {
                    if is_same {
                        self.seen.insert(name, None);
                    } else {
                        self.seen.entry(name).or_insert_with(|| Some((file.to_owned(), problem())));
                    }
                }
            }
        }
    }

    fn finish(self, verification: &mut Verification) {
        for (file, problem) in self.seen.values().flatten() {
            verification.add(Category::Schema, file, problem.clone());
        }
        // A shard that could not be read may have the missing tensors.
        if self.n_read < self.n_shards {
            return;
        }
        for name in self.schema.keys().filter(|name| !self.seen.contains_key(name.as_str())) {
            let problem = format!("its schema has tensor `{}`, which no shard has", name.escape_debug());
            verification.add(Category::Schema, crate::manifest::MANIFEST_NAME, problem);
        }
    }
}

fn same_shape(found: &[usize], expected: &[u64]) -> bool {
    found.iter().map(|&size| size as u64).eq(expected.iter().copied())
}

/// Checks that the index has a row for each tensor of the shards, and no other rows.
struct IndexCheck {
    /// The rows of shards that have not been checked yet.
    rows: BTreeMap<String, Vec<IndexRow>>,
}

impl IndexCheck {
    /// Reads the index. Returns `None` if there is no index, or if it cannot be read, which is a finding.
    fn open(folder: &Folder, verification: &mut Verification) -> Option<Self> {
        let path = folder.named.join(INDEX_NAME);
        if let Err(error) = fs::metadata(&path)
            && error.kind() == io::ErrorKind::NotFound
        {
            return None;
        }
        let index = match index::read(&path) {
            Ok(index) => index,
            Err(error) => {
                verification.add(Category::Index, INDEX_NAME, chain(&error));
                return None;
            }
        };
        let mut rows: BTreeMap<String, Vec<IndexRow>> = BTreeMap::new();
        for row in index.into_rows() {
            match rows.get_mut(&*row.file_name) {
                Some(rows) => rows.push(row),
                None => drop(rows.insert(row.file_name.to_string(), vec![row])),
            }
        }
        Some(Self { rows })
    }

    fn check(&mut self, file: &str, header: &Header, verification: &mut Verification) {
        let rows = self.rows.remove(file).unwrap_or_default();
        let shard = file.escape_debug();
        let mut known = BTreeSet::new();
        for row in &rows {
            let key = row.tensor_key.escape_debug();
            known.insert(&*row.tensor_key);
            let problem = match header.get(&row.tensor_key) {
                None => Some("the shard does not have it".to_owned()),
                Some(tensor) => check_row(row, &tensor).err(),
            };
            if let Some(problem) = problem {
                verification.add(Category::Index, INDEX_NAME, format!("tensor `{key}` of `{shard}`: {problem}"));
            }
        }
        for name in header.names().filter(|name| !known.contains(name)) {
            let problem = format!("tensor `{}` of `{shard}`: the index does not have it", name.escape_debug());
            verification.add(Category::Index, INDEX_NAME, problem);
        }
    }

    /// Reports the rows of files that are not shards. The other rows left belong to shards that are missing or could not be read, which
    /// has been reported.
    fn finish(self, manifest: &Manifest, verification: &mut Verification) {
        let shards: BTreeSet<&str> = manifest.shards().iter().map(|shard| shard.shard_path.as_str()).collect();
        for (file, rows) in self.rows.iter().filter(|(file, _)| !shards.contains(file.as_str())) {
            let problem = format!("{} tensors of `{}`, which is no shard", rows.len(), file.escape_debug());
            verification.add(Category::Index, INDEX_NAME, problem);
        }
    }
}

/// Checks that a row of the index agrees with the tensor of the shard.
pub(super) fn check_row(row: &IndexRow, tensor: &TensorInfo<'_>) -> Result<(), String> {
    let dtype = dtype_name(tensor.dtype).unwrap_or_default();
    if *row.dtype != *dtype {
        return Err(format!("the index says {}, the shard {dtype}", row.dtype.escape_debug()));
    }
    if !same_shape(tensor.shape, &row.shape) {
        return Err(format!("the index says shape {:?}, the shard {:?}", row.shape, tensor.shape));
    }
    Ok(())
}

/// Looks for shards that are not in the manifest, in the folders where the manifest has shards, and for what writers left behind.
fn find_others(folder: &Folder, manifest: &Manifest, verification: &mut Verification) -> Result<(), DatasetError> {
    let shards: BTreeSet<&str> = manifest.shards().iter().map(|shard| shard.shard_path.as_str()).collect();
    let below = shards.iter().filter_map(|path| path.rsplit_once('/')).map(|(below, _)| format!("{below}/"));
    let mut folders: BTreeSet<String> = below.collect();
    folders.insert(String::new());
    for below in folders {
        let path = folder.named.join(&below);
        let io = DatasetError::io("read", &path);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            // The shards of that folder are missing, too, which has been reported.
            Err(_) if !below.is_empty() => continue,
            Err(error) => return Err(io(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry.map_err(&io)?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        for name in names {
            let file = format!("{below}{name}");
            if below.is_empty() && name == TASKS {
                verification.add(Category::Unfinished, &file, "a writer was stopped here, or is not done yet");
            } else if name.ends_with(".safetensors") && !shards.contains(file.as_str()) {
                verification.add(Category::Extra, &file, "the manifest does not name it");
            }
        }
    }
    Ok(())
}

/// Formats an error and its chain of causes.
fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
