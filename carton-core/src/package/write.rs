//! Writes a carton: first finds and checks everything that goes into it, then writes a file without its final name, then gives it
//! the name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};

use carton_format::archive::{self, ArchiveError, Compression, Content, Tail};
use carton_format::context::Context;
use carton_format::digest::{Sha256Digest, hash_all};
use carton_format::links::Links;
use carton_format::manifest::Manifest;
use carton_format::metadata::Metadata;
use carton_format::name;
use carton_format::source::FileSource;
use carton_format::tensor_data::{self, TensorFormat};
use carton_tensor::Tensor;
use carton_tensor::files::PendingFile;

use super::error::MAX_METADATA_LENGTH;
use super::selection::Selection;
use super::walk::{self, Found};
use super::{PackageError, references};

/// Everything that goes into a carton.
#[derive(Clone, Debug)]
pub(crate) struct PackageInput {
    /// The carton.toml.
    pub metadata: Metadata,
    /// The model: a folder or a single file. Its files keep their names.
    pub model_path: PathBuf,
    /// Which of these files are packed.
    pub selection: Selection,
    /// Files for `misc/`, by their path below it.
    pub misc: BTreeMap<String, PathBuf>,
    /// Tensors by the names that the metadata refers to.
    pub tensors: BTreeMap<String, Tensor>,
    /// How numeric tensors are stored. With any format but [`TensorFormat::Bin`], only readers that know the format can read
    /// them.
    pub tensor_format: TensorFormat,
    /// Links of files that are left out of the carton, because they can be fetched.
    pub links: Links,
}

impl PackageInput {
    /// Makes the input for a model with nothing but its metadata.
    #[must_use]
    pub(crate) fn new(metadata: Metadata, model_path: impl Into<PathBuf>) -> Self {
        Self {
            metadata,
            model_path: model_path.into(),
            selection: Selection::default(),
            misc: BTreeMap::new(),
            tensors: BTreeMap::new(),
            tensor_format: TensorFormat::default(),
            links: Links::default(),
        }
    }
}

/// Writes a carton to `output`. An existing file of that name is replaced only when the carton is complete.
///
/// # Errors
/// A reference of the metadata leads nowhere, a file cannot be in a carton or cannot be read, or the output cannot be written.
/// The file that was at `output` before is still there then.
#[cfg(test)]
pub(crate) fn write(
    input: &PackageInput,
    output: &Path,
    compression: Compression,
    context: &Context,
) -> Result<Manifest, PackageError> {
    write_unpublished(input, output, compression, context)?.publish()
}

/// A complete carton that does not have its name yet. Dropping it deletes it.
pub(crate) struct Unpublished {
    pending: PendingFile,
    manifest: Manifest,
}

impl Unpublished {
    /// Returns the MANIFEST that was written.
    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns a source of the carton's bytes, to open it before it has its name.
    ///
    /// # Errors
    /// The file cannot be opened again.
    pub(crate) fn source(&self) -> Result<FileSource, PackageError> {
        let output = self.pending.output();
        let opened = self.pending.open().and_then(|file| FileSource::from_file(file, output));
        opened.map_err(PackageError::io("read", output))
    }

    /// Whether the file never had a name, so that no other program can have opened it by name.
    pub(crate) fn is_private(&self) -> bool {
        self.pending.temporary_name().is_none()
    }

    /// Returns the path that the carton will have.
    pub(crate) fn output(&self) -> &Path {
        self.pending.output()
    }

    /// Gives the carton its name, replacing an existing file, and returns its MANIFEST.
    ///
    /// # Errors
    /// The operating system refuses. The existing file is still there then.
    pub(crate) fn publish(self) -> Result<Manifest, PackageError> {
        let output = self.pending.output().to_path_buf();
        self.pending.publish().map_err(PackageError::io("write", &output))?;
        Ok(self.manifest)
    }
}

/// Does the same as [`write`], but the carton gets its name only when it is [published](Unpublished::publish).
pub(crate) fn write_unpublished(
    input: &PackageInput,
    output: &Path,
    compression: Compression,
    context: &Context,
) -> Result<Unpublished, PackageError> {
    let misc: BTreeSet<String> = input.misc.keys().map(|path| format!("misc/{path}")).collect();
    references::check(&input.metadata, |name| input.tensors.contains_key(name), |path| misc.contains(path))?;

    let mut files = walk::walk(&input.model_path, &input.selection)?.files;
    files.extend(misc_files(&input.misc)?);
    check_output(output, &files)?;

    let mut hashes = Hashes { known: HashMap::new(), context };
    let carton_toml = input.metadata.to_toml().into_bytes();
    if carton_toml.len() as u64 > MAX_METADATA_LENGTH {
        return Err(PackageError::MetadataTooLarge { found: carton_toml.len() });
    }
    let mut tail = Tail { carton_toml, ..Tail::default() };
    let mut entries = tensor_data::entries(&input.tensors, input.tensor_format)?;
    let mut symlinks = Vec::new();
    for file in files {
        match file.leads_to {
            Some(target) => {
                let digest = hashes.of(&file.path)?;
                let written = walk::relative_target(&file.name, &target);
                entries.push((file.name.clone(), Content::Symlink(written, digest)));
                symlinks.push((file.path, target, digest));
            }
            None if input.links.is_empty() => entries.push((file.name, Content::File(file.path))),
            None => {
                let digest = hashes.of(&file.path)?;
                if input.links.urls(&digest).is_empty() {
                    entries.push((file.name, Content::File(file.path)));
                } else {
                    tail.linked.insert(file.name, digest);
                }
            }
        }
    }
    if !tail.linked.is_empty() {
        tail.links = Some(input.links.to_bytes());
    }
    let mut pending = PendingFile::new(output).map_err(PackageError::io("write", output))?;
    let manifest = archive::write(pending.file_mut(), entries, tail, compression, context);
    let manifest = manifest.map_err(|error| unwritten(error, output))?;
    // The digest of a link was computed before the file that it leads to was read again for the carton.
    if let Some((path, ..)) = symlinks.iter().find(|(_, target, digest)| manifest.get(target) != Some(*digest)) {
        return Err(PackageError::SourceChanged { path: path.clone() });
    }
    Ok(Unpublished { pending, manifest })
}

/// Adds the output's path to an error of writing a carton, which the writer of the archive does not know.
pub(super) fn unwritten(error: ArchiveError, output: &Path) -> PackageError {
    match error {
        ArchiveError::Io { action: "write", source, .. } => PackageError::io("write", output)(source),
        error => error.into(),
    }
}

/// Finds the files for `misc/`. They are stored as files, even if they are symbolic links.
fn misc_files(misc: &BTreeMap<String, PathBuf>) -> Result<Vec<Found>, PackageError> {
    let mut files = Vec::new();
    for (path_in_misc, path) in misc {
        let name = format!("misc/{path_in_misc}");
        name::check(name.as_bytes())
            .map_err(|source| PackageError::Name { path: PathBuf::from(path_in_misc), source })?;
        let resolved = std::fs::canonicalize(path).map_err(PackageError::io("open", path))?;
        let metadata = std::fs::metadata(&resolved).map_err(PackageError::io("open", path))?;
        if !metadata.is_file() {
            let found = if metadata.is_dir() { "a folder" } else { "a special file" };
            return Err(PackageError::SpecialFile { path: path.clone(), found });
        }
        files.push(Found { name, path: resolved, leads_to: None });
    }
    Ok(files)
}

/// Refuses an output that is one of the files to be read.
fn check_output(output: &Path, files: &[Found]) -> Result<(), PackageError> {
    // A file that does not exist yet is not among the inputs.
    let Ok(existing) = std::fs::canonicalize(output) else { return Ok(()) };
    match files.iter().any(|file| file.path == existing) {
        true => Err(PackageError::OutputIsInput { output: output.to_path_buf() }),
        false => Ok(()),
    }
}

/// Digests of files, each computed once.
struct Hashes<'a> {
    known: HashMap<PathBuf, Sha256Digest>,
    context: &'a Context,
}

impl Hashes<'_> {
    fn of(&mut self, path: &Path) -> Result<Sha256Digest, PackageError> {
        if let Some(digest) = self.known.get(path) {
            return Ok(*digest);
        }
        let mut file = File::open(path).map_err(PackageError::io("open", path))?;
        let read_error = |error| PackageError::io("read", path)(error);
        // The total is not known yet, so nothing is reported.
        let digest = hash_all(&mut file, read_error, |_| Ok(self.context.check()?))?;
        self.known.insert(path.to_path_buf(), digest);
        Ok(digest)
    }
}
