//! A model, its carton and a cache, for the tests of shrinking.
#![allow(clippy::unwrap_used, clippy::panic)]

mod refused;
mod round_trips;

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use carton_format::archive::Archive;
use carton_format::metadata::Metadata;
use carton_format::progress::ProgressEvent;
use carton_format::source::FileSource;
use carton_format::url::Url;
use tempfile::TempDir;

use super::*;
use crate::ErrorKind;
use crate::cache::Cache;
use crate::config::Config;
use crate::package::PackageInput;

const PREFIX: &str = "https://example.com/files";

/// A folder with a model, its carton and a cache.
struct Desk {
    folder: TempDir,
    config: Config,
}

/// Bytes that do not compress.
fn noise(length: u32, seed: u32) -> Vec<u8> {
    (0..length / 32 + 1)
        .flat_map(|n| *Sha256Digest::of(&[seed.to_le_bytes(), n.to_le_bytes()].concat()).as_bytes())
        .collect()
}

impl Desk {
    /// Makes a desk with `model.carton`: two large files, one of them stored twice and once as a link, and small files.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model");
        std::fs::create_dir_all(model.join("deep")).unwrap();
        std::fs::write(model.join("weights.bin"), noise(300_000, 1)).unwrap();
        std::fs::write(model.join("deep/copy.bin"), noise(300_000, 1)).unwrap();
        std::fs::write(model.join("vocabulary.txt"), "one two three\n".repeat(10_000)).unwrap();
        std::fs::write(model.join("config.json"), "{}").unwrap();
        symlink("weights.bin", model.join("link.bin")).unwrap();
        std::fs::write(folder.path().join("picture.png"), noise(100_000, 2)).unwrap();
        let text = "cache_dir = 'cache'\nrunner_dir = 'runners'\nrunner_data_dir = 'runner_data'\n";
        std::fs::write(folder.path().join("config.toml"), text).unwrap();
        let config = Config::load(Some(&folder.path().join("config.toml"))).unwrap();
        let desk = Self { folder, config };
        let metadata = "spec_version = 1\n[runner]\nrunner_name = 'noop'\nrequired_framework_version = '1'";
        let mut input = PackageInput::new(Metadata::parse(metadata).unwrap(), model);
        input.misc.insert("picture.png".to_owned(), desk.path("picture.png"));
        package::write(&input, &desk.path("model.carton"), Compression::Auto, &Context::default()).unwrap();
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn shrink(&self, from: &str, to: &str, leave_out: LeaveOut) -> Shrink {
        Carton::shrink(self.path(from), self.path(to), leave_out).config(self.config.clone())
    }

    fn resolve(&self, from: &str, to: &str) -> Resolve {
        Carton::resolve(self.path(from), self.path(to)).config(self.config.clone())
    }

    async fn open(&self, name: &str) -> package::Package {
        Carton::open(self.path(name)).config(self.config.clone()).await.unwrap()
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    fn archive(&self, name: &str) -> Archive {
        Archive::open(Arc::new(FileSource::open(&self.path(name)).unwrap())).unwrap()
    }

    fn entry(&self, carton: &str, name: &str) -> Vec<u8> {
        let archive = self.archive(carton);
        archive.read(archive.get(name).unwrap(), 1 << 20).unwrap()
    }

    /// The names in the folder, sorted.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Puts files into the cache, as fetching linked files does.
    fn insert(&self, files: &[&[u8]]) {
        let cache = Cache::open(&self.config.cache_dir).unwrap();
        for mut bytes in files.iter().copied() {
            cache.files().insert(&mut bytes).unwrap();
        }
    }
}

fn linked(files: &[(&[u8], &str)]) -> LeaveOut {
    let urls: BTreeMap<_, _> =
        files.iter().map(|(bytes, url)| (Sha256Digest::of(bytes), vec![(*url).to_owned()])).collect();
    LeaveOut::Linked(Links::from_urls(urls).unwrap())
}

fn left_out(shrunk: &Shrunk) -> Vec<&str> {
    shrunk.left_out.iter().map(|file| file.path.as_str()).collect()
}
