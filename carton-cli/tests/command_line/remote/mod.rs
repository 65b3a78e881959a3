//! Cartons at URLs, from a real server.

mod commands;
mod disk;
mod gigabyte;
mod links;
mod processes;
mod resume;
mod secrets;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use carton_test_server::nginx::{Logged, Nginx};

use crate::sandbox::Sandbox;

/// Packs a model, which is a file or folder in the sandbox, into a carton that nginx serves. Nothing in it is compressed.
fn publish(sandbox: &Sandbox, nginx: &Nginx, model: &Path, name: &str) -> String {
    let output = nginx.root().join(name);
    let arguments = ["pack", model.to_str().unwrap(), "--runner", "noop", "--compression", "stored", "-o"];
    sandbox.run(arguments.into_iter().chain([output.to_str().unwrap()])).expect_code(0);
    nginx.url(name)
}

/// The hash of a carton that nginx serves.
fn hash_of(sandbox: &Sandbox, nginx: &Nginx, name: &str) -> String {
    let path = nginx.root().join(name);
    let outcome = sandbox.run(["hash", path.to_str().unwrap(), "--json"]).expect_code(0);
    outcome.json()["manifest_sha256"].as_str().unwrap().to_owned()
}

/// The number of bytes of the bodies that were sent.
fn sent(requests: &[Logged]) -> u64 {
    requests.iter().map(|request| request.body_bytes).sum()
}

/// The folder of the cache.
fn cache(sandbox: &Sandbox) -> PathBuf {
    sandbox.work().parent().unwrap().join("cache")
}

/// Every file in a folder and below, with its size on disk in bytes. A file with several names is counted once.
fn files_below(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut inodes = BTreeSet::new();
    find_files(folder, &mut inodes)
}

fn find_files(folder: &Path, inodes: &mut BTreeSet<u64>) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        // Files of other processes may disappear meanwhile.
        let Ok(metadata) = entry.path().symlink_metadata() else { continue };
        if metadata.is_dir() {
            found.extend(find_files(&entry.path(), inodes));
        } else {
            let blocks = if inodes.insert(metadata.ino()) { metadata.blocks() } else { 0 };
            found.push((entry.path(), blocks * 512));
        }
    }
    found
}

/// The size of a folder on disk in bytes.
fn room(folder: &Path) -> u64 {
    files_below(folder).iter().map(|(_, bytes)| bytes).sum()
}

/// A pseudo-random generator for times and sizes.
struct Random(u64);

impl Random {
    /// A number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0 >> 11) * u128::from(limit)) >> 53) as u64
    }
}
