//! Everything that can be compared in a dataset: the manifest with the files, their headers and the index (spec/dataset.md §7).

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carton_tensor::safetensors::{Header, Reader, TensorInfo, dtype_name};

use super::folder::{Access, Folder, Found};
use super::samples::{self, SampleLayouts, Samples};
use super::{Category, Finding};
use crate::error::DatasetError;
use crate::index::{self, INDEX_NAME, IndexRow};
use crate::manifest::{Manifest, Shard, TensorSchema};
use crate::shard_metadata::{BATCH, MODE_KEY};
use crate::write::attempt::TASKS;

/// The findings that are told one by one: where everything is wrong, nobody reads on.
const MOST_FINDINGS: usize = 1000;

/// What is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checks {
    /// Which files there are, and their sizes.
    Sizes,
    /// Also every shard's header, and the index.
    #[default]
    Headers,
}

/// How far a verification has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyProgress {
    /// Shards that were checked.
    pub shards: u64,
    /// All shards of the manifest.
    pub n_shards: u64,
}

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verification {
    /// What is wrong, in the order of the shards; what concerns the whole dataset comes last.
    pub findings: Vec<Finding>,
    /// How many more there are.
    pub n_omitted: u64,
    /// The shards of the manifest.
    pub n_shards: u64,
    /// The samples of the manifest.
    pub n_samples: u64,
}

impl Verification {
    /// Whether nothing was found.
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

/// Compares what the manifest of the dataset at `path` says with what is there. `on_progress` is called before each shard, and may end
/// the work.
///
/// # Errors
/// [`DatasetError::NoManifest`], [`DatasetError::Manifest`] and [`DatasetError::Io`] where there is nothing to compare with;
/// [`DatasetError::Interrupted`]. What is wrong with shards and index are findings.
pub fn verify(
    path: impl AsRef<Path>,
    checks: Checks,
    mut on_progress: impl FnMut(&VerifyProgress) -> ControlFlow<()>,
) -> Result<Verification, DatasetError> {
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
    for (position, shard) in manifest.shards().iter().enumerate() {
        if on_progress(&VerifyProgress { shards: position as u64, n_shards }).is_break() {
            return Err(DatasetError::Interrupted);
        }
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
        schema.check(file_name, header, &samples, &mut verification);
        if let Some(index) = &mut index {
            index.check(file_name, header, &mut verification);
        }
    }
    let _ = on_progress(&VerifyProgress { shards: n_shards, n_shards });
    if checks == Checks::Headers {
        schema.finish(&mut verification);
    }
    if let Some(index) = index {
        index.finish(&manifest, &mut verification);
    }
    find_others(&folder, &manifest, &mut verification)?;
    Ok(verification)
}

/// The path of a shard that is there and as large as it should be.
fn check_file(
    folder: &Folder,
    shard: &Shard,
    verification: &mut Verification,
) -> Result<Option<PathBuf>, DatasetError> {
    let (name, expected) = (&shard.shard_path, shard.bytes);
    match folder.find(name) {
        Ok(Found::File(path, found)) if found == expected => return Ok(Some(path)),
        Ok(Found::File(_, found)) => {
            let category = if found < expected { Category::Truncated } else { Category::Altered };
            verification.add(category, name, format!("{found} bytes, expected {expected}"));
        }
        Ok(Found::Missing) => verification.add(Category::Missing, name, "is not there"),
        Ok(Found::NoFile) => verification.add(Category::Missing, name, "is no file"),
        Ok(Found::Outside) => verification.add(Category::Link, name, "a link leads out of the dataset's folder"),
        // Of one shard, such as one that nobody may read.
        Err(DatasetError::Io { source, .. }) => verification.add(Category::Unreadable, name, source.to_string()),
        Err(error) => return Err(error),
    }
    Ok(None)
}

/// Whether the schema has what the shards have, and nothing else.
struct SchemaCheck<'m> {
    schema: &'m BTreeMap<String, TensorSchema>,
    /// For each tensor of the schema that was seen: none of its shards has the shape of the schema, but this one another.
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
        // Of a shard that does not say so it is not certain that its rows should have a value of every column.
        if header.metadata().get(MODE_KEY) == Some(BATCH) {
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
                // The schema has what one of the shards says: of a name that several have, another may have another shape.
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
        // A shard that could not be read may have them.
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

/// Whether the index has a row for each tensor of the shards, and no other.
struct IndexCheck {
    /// The rows of each shard that was not checked yet.
    rows: BTreeMap<String, Vec<IndexRow>>,
}

impl IndexCheck {
    /// `None` if there is no index, or none that can be read.
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

    /// What is left are shards that are not there or could not be read, which was told, and files that are no shards.
    fn finish(self, manifest: &Manifest, verification: &mut Verification) {
        let shards: BTreeSet<&str> = manifest.shards().iter().map(|shard| shard.shard_path.as_str()).collect();
        for (file, rows) in self.rows.iter().filter(|(file, _)| !shards.contains(file.as_str())) {
            let problem = format!("{} tensors of `{}`, which is no shard", rows.len(), file.escape_debug());
            verification.add(Category::Index, INDEX_NAME, problem);
        }
    }
}

/// Whether a row of the index says what the shard says.
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

/// Shards that the manifest does not name, in the folders where it has shards, and what writers left behind.
fn find_others(folder: &Folder, manifest: &Manifest, verification: &mut Verification) -> Result<(), DatasetError> {
    let shards: BTreeSet<&str> = manifest.shards().iter().map(|shard| shard.shard_path.as_str()).collect();
    let below = shards.iter().filter_map(|path| path.rsplit_once('/')).map(|(below, _)| format!("{below}/"));
    let mut folders: BTreeSet<String> = below.collect();
    folders.insert(String::new());
    for below in folders {
        let path = folder.named.join(&below);
        let io = |source| DatasetError::Io { path: path.clone(), source };
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            // Then its shards are not there either, which was told.
            Err(_) if !below.is_empty() => continue,
            Err(error) => return Err(io(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry.map_err(io)?.file_name().to_string_lossy().into_owned());
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

/// An error with its causes.
fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
