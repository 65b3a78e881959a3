//! The files of a model in several files (spec/ztensor2.md §6).

use std::io;

use super::ZTensor2Error;
use super::digest::{self, Hasher};
use super::error::malformed;
use super::footer;
use super::manifest::Manifest;
use super::pieces::PIECE;
use crate::context::CancelToken;
use crate::files::{Beside, FileBytes, visit_range};
use crate::parallel::par_map;
use crate::ztensor::Name;
use std::ops::ControlFlow;

/// The most shards of a model: each is an open file.
const MAX_SHARDS: usize = 1000;
/// How many files are opened at a time: elsewhere than in a folder, each waits for an answer of its server.
const AT_ONCE: usize = 8;

/// The files of the shards, in the order of the manifest.
#[derive(Debug, Default)]
pub(super) struct Shards(Vec<(String, FileBytes)>);

impl Shards {
    /// Opens the shards that the manifest of the file at `place` lists, and checks their sizes, their starts and their ends.
    pub(super) fn open(manifest: &Manifest, place: &str, beside: Option<Beside<'_>>) -> Result<Self, ZTensor2Error> {
        let n_shards = manifest.shards.len();
        let unsupported = |problem: String| ZTensor2Error::Unsupported { section: "6.3", problem };
        if n_shards == 0 {
            return Ok(Self::default());
        }
        if n_shards > MAX_SHARDS {
            return Err(unsupported(format!("the model has {n_shards} shards, and at most {MAX_SHARDS} are opened")));
        }
        let Some(beside) = beside else {
            return Err(unsupported(format!("the model has {n_shards} shards, and is opened without them")));
        };
        let stem = stem(place);
        let files: Vec<String> = manifest.shard_names().map(|name| format!("{stem}-{name}.zt")).collect();
        let opened = par_map(
            n_shards,
            AT_ONCE,
            || (),
            |(), position| {
                let file = files.get(position).map_or("", String::as_str);
                let expected = manifest.shards.get(position).map_or(0, |shard| shard.size);
                let opened = open(file, expected, beside);
                opened.map_err(|source| ZTensor2Error::Shard { file: Name::new(file), source: Box::new(source) })
            },
        )?;
        Ok(Self(files.into_iter().zip(opened).collect()))
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(file, _)| file.as_str())
    }

    pub(super) fn bytes(&self, position: usize) -> Option<&FileBytes> {
        self.0.get(position).map(|(_, bytes)| bytes)
    }

    /// Compares the digests of the files with those that the manifest states. Returns how many match, and the errors of the others.
    pub(super) fn verify(&self, manifest: &Manifest, cancel_token: &CancelToken) -> (usize, Vec<ZTensor2Error>) {
        let (mut n_verified, mut failures) = (0, Vec::new());
        for ((file, bytes), shard) in self.0.iter().zip(&manifest.shards) {
            let text = manifest.text(shard.digest);
            let at = manifest.base + u64::from(shard.digest.start);
            match digest::parse(text, at).and_then(|expected| {
                let Some(expected) = expected else { return Ok(false) };
                let mut hasher = Hasher::like(&expected);
                visit_range(bytes, 0..bytes.len(), PIECE, &mut |piece| {
                    hasher.update(piece);
                    if cancel_token.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
                let found = hasher.finish();
                if found == expected {
                    return Ok(true);
                }
                let (expected, found) = (expected.to_string(), found.to_string());
                Err(ZTensor2Error::DigestMismatch {
                    section: "6.1",
                    at: format!("the shard {}", Name::new(file)),
                    expected,
                    found,
                })
            }) {
                Ok(is_verified) => n_verified += usize::from(is_verified),
                Err(error) => failures.push(error),
            }
        }
        (n_verified, failures)
    }
}

/// The name of a file without its folder, the carton that has it, its ending, and the query of a URL.
fn stem(place: &str) -> &str {
    let name = place.split('?').next().unwrap_or_default();
    let name = name.rsplit(['/', '#']).next().unwrap_or_default();
    match name.rfind('.') {
        Some(dot) if dot > 0 => name.get(..dot).unwrap_or_default(),
        _ => name,
    }
}

fn open(file: &str, expected: u64, beside: Beside<'_>) -> Result<FileBytes, ZTensor2Error> {
    let bytes = beside(file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ZTensor2Error::Unsupported { section: "6.3", problem: "it is missing".to_owned() },
        _ => error.into(),
    })?;
    if bytes.len() != expected {
        let problem = format!("the file ends, expected {expected} bytes as the manifest states");
        return Err(malformed("6.1", bytes.len(), problem));
    }
    // What its own manifest says, if it has one, does not matter.
    footer::read(&bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_shards_begin_like_the_file() {
        for (place, expected) in [
            ("model.zt", "model"),
            ("/a.b/model.zt", "model"),
            ("https://host/a/m.v1.zt?x=/y.zt", "m.v1"),
            ("/a/x.carton#model.zt", "model"),
            (".zt", ".zt"),
            ("model", "model"),
        ] {
            assert_eq!(stem(place), expected);
        }
    }
}
