//! A carton as a whole: joins its metadata, its tensors and its files, and checks them against each other
//! (spec/carton-format.md). Opens and writes cartons; starts no process.

mod error;
mod example;
mod info;
mod inventory;
mod python_lock;
mod references;
mod rewrite;
mod selection;
mod tensors;
mod walk;
mod wheel_license;
mod write;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use carton_tensor::Tensor;
use semver::VersionReq;

pub use crate::contents::FileInfo;
pub(crate) use error::PackageError;
pub use info::Info;
pub use inventory::{Inventory, PythonPackage};
pub(crate) use rewrite::{check_output, rewrite};
pub use selection::NotPacked;
pub(crate) use selection::{Selection, measure};
pub(crate) use walk::walk;
#[cfg(test)]
pub(crate) use write::write;
pub(crate) use write::{PackageInput, Unpublished, write_unpublished};

use carton_format::archive::Archive;
use carton_format::context::Context;
use carton_format::digest::Sha256Digest;
use carton_format::error_kind::ErrorKind;
use carton_format::manifest::ManifestHash;
use carton_format::metadata::{Draft, Example, Metadata, MetadataError, Oddity, Reference, SelfTest};
use carton_format::source::FileSource;
use carton_format::tensor_data::{self, Directories, TensorDataError, TensorIndex};
use error::MAX_METADATA_LENGTH;

use crate::cache::Cache;
use crate::contents::{Access, ArchiveBytes, Blobs, Contents, ContentsError, OutsideLinks};
use crate::context_setters::blocking_setters;
use crate::error::{Error, Failure as _};
use crate::trust::SigningStatus;

/// The largest file of `misc/` that is read into memory, in bytes. [`Package::misc_reader`] reads larger ones.
pub(crate) const MAX_MISC_LENGTH: u64 = 1 << 30;

/// The path of the metadata in a carton.
pub(crate) const METADATA: &str = "carton.toml";

/// An open carton. Clones are cheap and share it.
///
/// Calls that read a file or a tensor block, and fetch a file that is elsewhere.
/// [`cancel_token`](Self::cancel_token) and [`progress`](Self::progress) are for these calls.
#[derive(Clone, Debug)]
pub struct Package {
    opened: Arc<Opened>,
    /// The context of the calls that read files.
    context: Context,
    signing_status: Option<Arc<SigningStatus>>,
}

#[derive(Debug)]
struct Opened {
    contents: Contents,
    metadata: Metadata,
    tensors: TensorIndex,
    directories: Directories,
}

/// Options for opening a carton.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenOptions {
    /// The cache for verified files and for records of verifications. Without one, neither is kept.
    pub cache: Option<Arc<Cache>>,
    /// The hash that the carton's MANIFEST must have.
    pub expect: Option<ManifestHash>,
    /// How files that are elsewhere may be fetched. Without it, they are taken from the cache only.
    pub access: Option<Access>,
    /// The digest of the cached file that is opened, if the carton is a file of the cache. That file is not deleted while the
    /// model is loaded.
    pub whole: Option<Sha256Digest>,
    /// The files of the carton that its registry has as blobs of their own.
    pub blobs: Blobs,
}

impl Package {
    blocking_setters!();

    /// Opens a carton file, or an unpacked carton in a folder.
    ///
    /// Reads and verifies MANIFEST, carton.toml and the index of the tensors. No other file is read, and so none is verified yet.
    ///
    /// # Errors
    /// The carton is malformed, of another version, or not the expected one; a reference leads nowhere; the file of a tensor is
    /// missing or has another size than its shape requires.
    pub(crate) fn open(path: &Path, options: OpenOptions) -> Result<Self, PackageError> {
        let metadata = std::fs::metadata(path).map_err(PackageError::io("open", path))?;
        if !metadata.is_dir() {
            let source = FileSource::open(path).map_err(PackageError::io("open", path))?;
            return Self::open_archive(source, options);
        }
        match Contents::open_folder(path, options.expect) {
            Ok(contents) => Self::from_contents(contents.with_cache(options.cache).with_access(options.access)),
            Err(error) => {
                let bytes = || std::fs::read(path.join(METADATA)).ok();
                Err(unsupported_version(&error, bytes).unwrap_or(error.into()))
            }
        }
    }

    /// Opens a carton file from any source of bytes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn open_archive(bytes: impl Into<ArchiveBytes>, options: OpenOptions) -> Result<Self, PackageError> {
        let bytes = bytes.into();
        let source = bytes.source();
        match Contents::open_archive(bytes, options.cache, options.expect, options.blobs) {
            Ok(contents) => Self::from_contents(contents.with_access(options.access).with_whole(options.whole)),
            Err(error) => {
                let bytes = || {
                    let archive = Archive::open(source).ok()?;
                    archive.read(archive.get(METADATA)?, MAX_METADATA_LENGTH).ok()
                };
                Err(unsupported_version(&error, bytes).unwrap_or(error.into()))
            }
        }
    }

    /// Makes a package of these contents.
    ///
    /// # Errors
    /// Those of [`open`](Self::open) that concern the files of the carton.
    pub(crate) fn from_contents(contents: Contents) -> Result<Self, PackageError> {
        if !contents.contains(METADATA) {
            return Err(PackageError::NoMetadata { location: contents.location() });
        }
        let metadata = Metadata::from_bytes(&contents.read(METADATA, MAX_METADATA_LENGTH, &Context::default())?)?;
        let tensors = read_index(&contents)?;
        references::check(&metadata, |name| tensors.get(name).is_some(), |path| contents.contains(path))?;
        let contents = contents.with_model_name(metadata.model_name().map(str::to_owned));
        Ok(Self::of(Opened { contents, metadata, tensors, directories: Directories::default() }))
    }

    /// Makes a package of a model that is not in a carton: a folder or a single file, and the name of its runner. There is
    /// nothing to verify it against.
    ///
    /// # Errors
    /// Nothing is at `path`, or nothing that can be a model; the runner's name is malformed; a link that `links` does not allow.
    pub(crate) fn bare(
        path: &Path,
        links: &OutsideLinks,
        runner_name: &str,
        required_framework_version: VersionReq,
        cache: Option<Arc<Cache>>,
    ) -> Result<Self, PackageError> {
        let mut draft = Draft::default();
        draft.runner_name = Some(runner_name.to_owned());
        draft.required_framework_version = Some(required_framework_version);
        let metadata = draft.validate()?;
        // Reported like the path of a carton where nothing is.
        std::fs::metadata(path).map_err(PackageError::io("open", path))?;
        let contents = Contents::bare(path, links)?.with_cache(cache);
        let (tensors, directories) = (TensorIndex::default(), Directories::default());
        Ok(Self::of(Opened { contents, metadata, tensors, directories }))
    }

    fn of(opened: Opened) -> Self {
        Self { opened: Arc::new(opened), context: Context::default(), signing_status: None }
    }

    /// The same package, with what was found out about who signed it.
    pub(crate) fn with_signing_status(self, status: Option<SigningStatus>) -> Self {
        Self { signing_status: status.map(Arc::new), ..self }
    }

    /// What was found out about who signed the carton when it was opened; `None` if it was not looked for. It is looked for where a
    /// bundle is required, and with [`Open::look_for_bundle`](crate::Open::look_for_bundle).
    #[must_use]
    pub fn signing_status(&self) -> Option<&SigningStatus> {
        self.signing_status.as_deref()
    }

    /// Returns the metadata of carton.toml.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.opened.metadata
    }

    /// Reads the text of carton.toml, verified.
    ///
    /// # Errors
    /// It cannot be read any more, or is another than before.
    pub(crate) fn metadata_text(&self, context: &Context) -> Result<String, PackageError> {
        let bytes = self.contents().read(METADATA, MAX_METADATA_LENGTH, context)?;
        // It was valid metadata before, which is UTF-8.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the files.
    #[must_use]
    pub(crate) fn contents(&self) -> &Contents {
        &self.opened.contents
    }

    /// Returns the context of the calls that read files.
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the index of the tensors. [`tensor`](Self::tensor) reads one of them.
    #[must_use]
    pub fn tensors(&self) -> &TensorIndex {
        &self.opened.tensors
    }

    /// Fetches the tensors of all self-tests that are elsewhere. That is faster than fetching them one by one.
    ///
    /// # Errors
    /// As [`Contents::fetch`].
    pub(crate) fn fetch_self_tests(&self, context: &Context) -> Result<(), PackageError> {
        let Opened { contents, metadata, tensors, .. } = &*self.opened;
        let names = metadata
            .self_tests()
            .iter()
            .flat_map(|test| test.inputs.values().chain(test.expected_out.iter().flat_map(BTreeMap::values)));
        let files = tensors.files_of(names.map(String::as_str));
        let is_wanted = |path: &str| path.strip_prefix(tensor_data::FOLDER).is_some_and(|file| files.contains(file));
        Ok(contents.fetch(is_wanted, context)?)
    }

    /// Returns the paths of the files below `misc/`, relative to that folder.
    pub fn misc_paths(&self) -> impl Iterator<Item = &str> {
        self.opened.contents.paths().filter_map(|path| path.strip_prefix("misc/"))
    }

    /// Reads and verifies a file of `misc/`, such as `cat.png`.
    ///
    /// # Errors
    /// There is no such file, it does not match MANIFEST, or it is larger than `MAX_MISC_LENGTH`.
    pub fn misc(&self, path: &str) -> Result<Vec<u8>, Error> {
        Ok(self.opened.contents.read(&format!("misc/{path}"), MAX_MISC_LENGTH, &self.context)?)
    }

    /// Returns a reader of a file of `misc/`. The file counts as verified only when the reader has reached its end; a mismatch is
    /// an error there.
    ///
    /// # Errors
    /// There is no such file, or it cannot be opened.
    pub fn misc_reader(&self, path: &str) -> Result<Box<dyn Read + Send + '_>, Error> {
        Ok(self.opened.contents.reader(&format!("misc/{path}"), &self.context)?)
    }

    /// Returns the self-tests. Their tensors are read on demand.
    pub fn self_tests(&self) -> impl ExactSizeIterator<Item = SelfTestData<'_>> {
        let tests = self.metadata().self_tests().iter().enumerate();
        tests.map(|(index, test)| SelfTestData { package: self, index, test, is_mapped: false })
    }

    /// Returns the examples. Their tensors and files are read on demand.
    pub fn examples(&self) -> impl ExactSizeIterator<Item = ExampleData<'_>> {
        let examples = self.metadata().examples().iter().enumerate();
        examples.map(|(index, example)| ExampleData { package: self, index, example })
    }

    /// Reads the tensor or file that a reference of an example points to.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor) and [`misc`](Self::misc).
    pub fn value(&self, reference: &Reference) -> Result<ExampleValue, Error> {
        match reference {
            Reference::TensorData(name) => self.tensor(name).map(ExampleValue::Tensor),
            Reference::Misc(path) => self.misc(path).map(ExampleValue::Misc),
        }
    }

    /// Returns what is odd about the carton: what other writers write and this library would not. Such a carton can still be
    /// used.
    #[must_use]
    pub fn oddities(&self) -> Vec<Oddity> {
        let mut oddities = self.metadata().oddities();
        let mut odd_names = self.opened.contents.paths().filter(|path| path.contains('\\'));
        if let Some(path) = odd_names.next() {
            oddities.push(Oddity::BackSlash { path: path.to_owned(), count: odd_names.count() + 1 });
        }
        oddities
    }

    /// Returns everything that is known without reading a file of the model. [`read_info`](Self::read_info) also reads the card of
    /// `misc/README.md`.
    #[must_use]
    pub fn info(&self) -> Info {
        Info::of(self)
    }
}

/// A self-test of an open carton.
#[derive(Clone, Copy, Debug)]
pub struct SelfTestData<'package> {
    package: &'package Package,
    index: usize,
    test: &'package SelfTest,
    is_mapped: bool,
}

impl SelfTestData<'_> {
    /// Returns the test's name; `self_test_N`, counted from 0, if it has none.
    #[must_use]
    pub fn label(&self) -> String {
        self.test.name.clone().unwrap_or_else(|| self.index_label())
    }

    fn index_label(&self) -> String {
        format!("self_test_{}", self.index)
    }

    /// Returns what carton.toml declares.
    #[must_use]
    pub fn declared(&self) -> &SelfTest {
        self.test
    }

    /// Returns the same test, but with tensors that are views of the carton where possible, as [`Package::mapped_tensor`] returns
    /// them.
    #[must_use]
    pub fn mapped(self) -> Self {
        Self { is_mapped: true, ..self }
    }

    /// Reads the inputs.
    ///
    /// # Errors
    /// As [`Package::tensor`].
    pub fn inputs(&self) -> Result<BTreeMap<String, Tensor>, Error> {
        self.read(&self.test.inputs)
    }

    /// Reads the expected outputs; `None` if the test has none.
    ///
    /// # Errors
    /// As [`Package::tensor`].
    pub fn expected_out(&self) -> Result<Option<BTreeMap<String, Tensor>>, Error> {
        self.test.expected_out.as_ref().map(|tensors| self.read(tensors)).transpose()
    }

    fn read(&self, tensors: &BTreeMap<String, String>) -> Result<BTreeMap<String, Tensor>, Error> {
        let read = |name| if self.is_mapped { self.package.mapped_tensor(name) } else { self.package.tensor(name) };
        tensors.iter().map(|(name, tensor)| Ok((name.clone(), read(tensor)?))).collect()
    }
}

/// An example of an open carton.
#[derive(Clone, Copy, Debug)]
pub struct ExampleData<'package> {
    package: &'package Package,
    index: usize,
    example: &'package Example,
}

/// The value of an example's input or output.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ExampleValue {
    /// A tensor of `tensor_data/`.
    Tensor(Tensor),
    /// The bytes of a file of `misc/`.
    Misc(Vec<u8>),
}

impl ExampleData<'_> {
    /// Returns what carton.toml declares.
    #[must_use]
    pub fn declared(&self) -> &Example {
        self.example
    }

    /// Reads the inputs.
    ///
    /// # Errors
    /// As [`Package::value`].
    pub fn inputs(&self) -> Result<BTreeMap<String, ExampleValue>, Error> {
        self.read(&self.example.inputs)
    }

    /// Reads the sample outputs.
    ///
    /// # Errors
    /// As [`Package::value`].
    pub fn sample_out(&self) -> Result<BTreeMap<String, ExampleValue>, Error> {
        self.read(&self.example.sample_out)
    }

    fn read(&self, references: &BTreeMap<String, Reference>) -> Result<BTreeMap<String, ExampleValue>, Error> {
        references.iter().map(|(name, reference)| Ok((name.clone(), self.package.value(reference)?))).collect()
    }
}

/// Reads the index of the tensors and compares it with the existing files.
fn read_index(contents: &Contents) -> Result<TensorIndex, PackageError> {
    let path = format!("{}{}", tensor_data::FOLDER, tensor_data::INDEX);
    if !contents.contains(&path) {
        return match contents.paths().find_map(|path| path.strip_prefix(tensor_data::FOLDER)) {
            Some(file) => Err(TensorDataError::NoIndex { file: file.to_owned() }.into()),
            None => Ok(TensorIndex::default()),
        };
    }
    let index = TensorIndex::parse(&contents.read(&path, tensor_data::MAX_INDEX_LENGTH, &Context::default())?)?;
    index.check_files(|path| contents.size_of(path).ok())?;
    Ok(index)
}

/// Returns the error of an unsupported format version if that may be why the carton cannot be opened: a later version may have
/// another MANIFEST. The version is then reported from a carton.toml that nothing vouches for.
fn unsupported_version(error: &ContentsError, bytes: impl FnOnce() -> Option<Vec<u8>>) -> Option<PackageError> {
    use ContentsError::{Archive, Kind, Links, Manifest, NoManifest};
    let is_malformed = matches!(error, NoManifest { .. } | Manifest(_) | Links(_) | Kind { .. } | Archive { .. });
    if !is_malformed || !matches!(error.kind(), ErrorKind::Integrity | ErrorKind::Unsupported) {
        return None;
    }
    match Metadata::from_bytes(&bytes()?) {
        Err(error @ MetadataError::UnsupportedVersion { .. }) => Some(error.into()),
        _ => None,
    }
}
