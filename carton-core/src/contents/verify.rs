//! Checks all files of a carton again, without using records.

use carton_format::context::Context;
use carton_format::digest::Hasher;
use carton_format::error_kind::ErrorKind;
use carton_format::manifest::ManifestHash;
use carton_format::progress::Stage;
use carton_tensor::parallel::par_for_each;
use parking_lot::Mutex;

use super::tree::Item;
use super::{Contents, ContentsError};
use crate::cache::Scope;
use crate::error::Error;
use crate::error::Failure as _;

/// What `Contents::verify` found.
#[derive(Debug)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The SHA-256 of MANIFEST; none for a model that is not in a carton, of which nothing can be verified.
    pub manifest_sha256: Option<ManifestHash>,
    /// How many files were checked.
    pub n_files: usize,
    /// How many bytes they have.
    pub n_bytes: u64,
    /// Every file that is not what MANIFEST lists, sorted by path.
    pub bad: Vec<BadFile>,
    /// Linked files that are not fetched and could not be checked, sorted.
    pub not_fetched: Vec<String>,
    /// Warnings about allowed but surprising things, one sentence each.
    pub warnings: Vec<String>,
}

/// What was found so far.
#[derive(Default)]
struct Findings {
    bad: Vec<BadFile>,
    not_fetched: Vec<String>,
    n_bytes: u64,
}

/// A file that is not what MANIFEST lists.
#[derive(Debug)]
#[non_exhaustive]
pub struct BadFile {
    /// Its path in the carton.
    pub path: String,
    /// The cause.
    pub error: Error,
}

impl VerifyReport {
    /// Whether every file that could be checked is as MANIFEST lists it.
    pub fn is_good(&self) -> bool {
        self.bad.is_empty()
    }
}

impl Contents {
    /// Hashes every file on all cores, without using records, and reports all bad files. Records that a carton is good. Fetches
    /// files that are elsewhere first.
    ///
    /// # Errors
    /// The check could not be completed: it was interrupted, the carton changed meanwhile, or it cannot be read. A bad file is not an
    /// error.
    pub(crate) fn verify(&self, context: &Context) -> Result<VerifyReport, ContentsError> {
        let items: Vec<&Item> = self.tree().items().iter().filter(|item| !item.is_symlink()).collect();
        let meter = context.meter(Stage::Verify, self.locator.total(&items));
        self.locator.origin().unchanged_identity()?;
        let (here, fetched) = self.fetch_to_verify(items, context)?;
        let findings = Mutex::new(fetched);
        let may_not_fetch = self.fetcher.may_not_fetch();
        let order = self.locator.largest_first(here);
        par_for_each(order.len(), |at| {
            let item = order[at];
            let path = item.path.clone();
            let mut hasher = Hasher::new();
            let mut n_bytes = 0;
            let result = self
                .feed(item, context, &mut |chunk| {
                    hasher.update(chunk);
                    n_bytes += chunk.len() as u64;
                    Ok(meter.advance(chunk.len() as u64)?)
                })
                .and_then(|()| item.compare(hasher));
            let mut findings = findings.lock();
            match result {
                Ok(()) => {
                    findings.n_bytes += n_bytes;
                    if !self.locator.is_elsewhere(item) {
                        self.checksums.note_proven(&self.locator, [item]);
                    }
                }
                Err(error)
                    if may_not_fetch
                        && self.locator.is_elsewhere(item)
                        && matches!(error.kind(), ErrorKind::Network | ErrorKind::InvalidInput) =>
                {
                    findings.not_fetched.push(path);
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::Machine | ErrorKind::Network) =>
                {
                    return Err(error);
                }
                Err(error) => findings.bad.push(BadFile { path, error: error.into() }),
            }
            Ok(())
        })?;
        let Findings { mut bad, mut not_fetched, n_bytes } = findings.into_inner();
        bad.sort_by(|one, other| one.path.cmp(&other.path));
        not_fetched.sort();
        if bad.is_empty() {
            self.check_recorded(context)?;
        }
        self.checksums.remember(&self.locator);
        if bad.is_empty() {
            self.locator.remember_archive(Scope::Everything)?;
        }
        let warnings = self
            .tree()
            .case_collisions()
            .into_iter()
            .map(|paths| {
                format!(
                    "`{}` differ only in upper and lower case: not every file system can hold both",
                    paths.join("`, `")
                )
            })
            .collect();
        let n_files = self.tree().items().len() - not_fetched.len();
        Ok(VerifyReport { manifest_sha256: self.tree().manifest_hash(), n_files, n_bytes, bad, not_fetched, warnings })
    }

    /// Fetches remote files. Returns the local items, and the findings about those that could not be fetched.
    fn fetch_to_verify<'a>(
        &'a self,
        mut items: Vec<&'a Item>,
        context: &Context,
    ) -> Result<(Vec<&'a Item>, Findings), ContentsError> {
        let mut findings = Findings::default();
        if self.fetcher.may_not_fetch() {
            // Reading reports the files that are not in the cache.
            return Ok((items, findings));
        }
        for (failed, error) in self.fetch_each(&items, context, true)? {
            if error.kind() != ErrorKind::Integrity {
                return Err(error);
            }
            items.retain(|item| item.digest() != failed.digest());
            findings.bad.push(BadFile { path: failed.path.clone(), error: error.into() });
        }
        Ok((items, findings))
    }
}
