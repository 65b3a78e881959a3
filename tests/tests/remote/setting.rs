//! The setting of each test: a temporary place, a server that misbehaves on request, and cartons of a few files.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use carton_core::config::Config;
use carton_core::package::Info;
use carton_core::packing::Compression;
use carton_core::{Carton, Error, ErrorKind, Inputs, Load, Location, Open, Packed, Sha256Digest};
use carton_test_server::{Content, File, Server};
use carton_tests::place::TestPlace;

const RUNNER: &str = env!("CARGO_BIN_EXE_carton-test-runner");

pub(crate) struct Setting {
    pub(crate) place: TestPlace,
    pub(crate) server: Server,
}

impl Setting {
    pub(crate) fn new() -> Self {
        Self { place: TestPlace::new(RUNNER), server: Server::start() }
    }

    /// A configuration with short waits and few retries, so that tests of failures are short.
    pub(crate) fn config(&self) -> Config {
        let mut config = self.place.config();
        config.idle_timeout = Some(Duration::from_millis(800));
        config.max_retries = Some(2);
        config
    }

    pub(crate) fn loading(&self, location: impl Into<Location>) -> Load {
        Carton::load(location).config(self.config())
    }

    /// Loads without a network.
    pub(crate) fn loading_offline(&self, location: impl Into<Location>) -> Load {
        let mut config = self.config();
        config.offline = true;
        Carton::load(location).config(config)
    }

    pub(crate) fn open(&self, location: impl Into<Location>) -> Open {
        Carton::open(location).config(self.config())
    }

    /// Returns the description of a carton.
    pub(crate) async fn info(&self, location: impl Into<Location>) -> Result<Info, Error> {
        Ok(self.open(location).await?.info())
    }

    /// Packs a model of these files for the runner that returns its inputs. Nothing is compressed.
    pub(crate) async fn pack(&self, name: &str, files: &[(&str, &[u8])]) -> Packed {
        let model = self.place.path().join(format!("{name}-model"));
        for (path, bytes) in files {
            let path = model.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        self.pack_folder(name, &model).await
    }

    /// Packs a folder.
    pub(crate) async fn pack_folder(&self, name: &str, model: &Path) -> Packed {
        let output = self.place.path().join(format!("{name}.carton"));
        let pack = self.place.pack(model, "noop", &output).compression(Compression::Stored).check(false);
        pack.await.unwrap_or_else(|error| panic!("{}", chain(&error)))
    }

    /// Serves a file correctly, and returns its URL.
    pub(crate) fn serve(&self, path: &str, file: impl AsRef<Path>) -> String {
        self.server.serve(path, File::new(Content::open(file.as_ref())));
        self.server.url(path)
    }

    /// Loads a carton and runs it once.
    pub(crate) async fn load(&self, url: &str) -> Result<Carton, Error> {
        run(self.loading(url)).await
    }

    /// Loads a carton that must load.
    pub(crate) async fn must_load(&self, url: &str) -> Carton {
        self.load(url).await.unwrap_or_else(|error| panic!("{}", chain(&error)))
    }

    /// Checks that a carton does not load, with an error of this kind. Returns the text of the error and its causes.
    pub(crate) async fn must_fail(&self, url: &str, kind: ErrorKind) -> String {
        let error = self.load(url).await.expect_err("it loaded");
        assert_eq!(error.kind(), kind, "{}", chain(&error));
        chain(&error)
    }

    /// The bytes of a file in the cache.
    pub(crate) fn cached(&self, digest: &Sha256Digest) -> Option<Vec<u8>> {
        fs::read(self.cached_path(digest)).ok()
    }

    /// Where a file is in the cache.
    pub(crate) fn cached_path(&self, digest: &Sha256Digest) -> PathBuf {
        let name = digest.to_string();
        self.place.config().cache_dir.join("files-v1").join(&name[..2]).join(name)
    }

    /// Returns how many of these files the cache has, each with the right bytes.
    pub(crate) fn n_cached(&self, files: &[(&str, &[u8])]) -> usize {
        let is_cached = |bytes: &[u8]| match self.cached(&Sha256Digest::of(bytes)) {
            Some(found) => {
                assert!(found == bytes, "a file in the cache has other bytes than its name says");
                true
            }
            None => false,
        };
        files.iter().filter(|(_, bytes)| is_cached(bytes)).count()
    }

    /// Every file below the cache, with its length on disk.
    pub(crate) fn cache_files(&self) -> BTreeMap<PathBuf, u64> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.place.config().cache_dir];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let metadata = entry.path().symlink_metadata().unwrap();
                if metadata.is_dir() {
                    folders.push(entry.path());
                } else {
                    found.insert(entry.path(), std::os::unix::fs::MetadataExt::blocks(&metadata) * 512);
                }
            }
        }
        found
    }
}

/// Returns the entries of a carton, read by another implementation of zip files than ours.
pub(crate) fn read_zip(carton: &Path) -> Vec<(String, Vec<u8>)> {
    let mut archive = zip::ZipArchive::new(fs::File::open(carton).unwrap()).unwrap();
    let n_entries = archive.len();
    let read = |index| {
        let mut file = archive.by_index(index).unwrap();
        let mut content = Vec::new();
        file.read_to_end(&mut content).unwrap();
        (file.name().unwrap().into_owned(), content)
    };
    (0..n_entries).map(read).collect()
}

/// Writes a carton of these entries by another implementation than ours. Nothing is compressed.
pub(crate) fn write_zip(carton: &Path, entries: &[(String, Vec<u8>)]) {
    let mut writer = zip::ZipWriter::new(fs::File::create(carton).unwrap());
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, content) in entries {
        writer.start_file(name, options).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap();
}

/// Loads a model and runs it once.
pub(crate) async fn run(load: Load) -> Result<Carton, Error> {
    let model = load.await?;
    model.infer(Inputs::none()).await?;
    Ok(model)
}

/// Returns the text of an error and its causes.
pub(crate) fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
