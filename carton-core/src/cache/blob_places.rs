//! Which repositories of a registry have which blobs, as far as this machine has pushed or pulled them. A registry takes a blob over from
//! another repository only if it is told which one.
//!
//! One file for each registry: a line for each blob, `<SHA-256> <repository>`, the newest first. A line that is wrong costs a request.

use std::io::Read;
use std::path::PathBuf;

use carton_format::digest::Sha256Digest;

use super::files::open_regular;
use super::layout::REGISTRIES;
use super::{Cache, CacheError};

/// The most blobs that are remembered of one registry. A line has about 100 bytes.
const MAX_LINES: usize = 10_000;
const MAX_LENGTH: u64 = 4 << 20;

/// Which repositories of one registry have which blobs.
pub(crate) struct BlobPlaces<'a> {
    pub(super) cache: &'a Cache,
    pub(super) registry: &'a str,
}

impl BlobPlaces<'_> {
    /// The blobs that repositories are known to have, the newest first.
    pub(crate) fn known(&self) -> Vec<(Sha256Digest, String)> {
        let Ok(Some((file, _))) = open_regular(&self.path()) else { return Vec::new() };
        let mut text = String::new();
        if file.take(MAX_LENGTH).read_to_string(&mut text).is_err() {
            return Vec::new();
        }
        let parse = |line: &str| {
            let (digest, repository) = line.split_once(' ')?;
            Some((digest.parse().ok()?, repository.to_owned()))
        };
        text.lines().filter_map(parse).take(MAX_LINES).collect()
    }

    /// Remembers that `repository` has these blobs. Of two processes that do so at once, the later one may win: the other's blobs are then
    /// sent again one day.
    pub(crate) fn remember(
        &self,
        repository: &str,
        blobs: impl IntoIterator<Item = Sha256Digest>,
    ) -> Result<(), CacheError> {
        let known = self.known();
        let mut lines: Vec<(Sha256Digest, String)> = Vec::new();
        let new = blobs.into_iter().map(|digest| (digest, repository.to_owned()));
        for line in new.chain(known.iter().cloned()) {
            if lines.len() < MAX_LINES {
                lines.push(line);
            }
        }
        let mut seen = std::collections::HashSet::new();
        lines.retain(|line| seen.insert(line.clone()));
        if lines == known {
            return Ok(());
        }
        let text: String = lines.iter().map(|(digest, repository)| format!("{digest} {repository}\n")).collect();
        self.cache.partial()?.publish(text.as_bytes(), &self.path())
    }

    fn path(&self) -> PathBuf {
        self.cache.layout.bucket(REGISTRIES).join(Sha256Digest::of(self.registry.as_bytes()).to_string())
    }
}
