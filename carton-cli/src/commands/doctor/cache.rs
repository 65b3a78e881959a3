//! The cache: whether it can be written to, its free space, damaged entries, and data of later releases.

use carton_core::Config;
use carton_core::cache::Cache;
use carton_core::machine::{free_bytes, is_writable};
use carton_core::{Error, ErrorKind};

use super::finding::Finding;
use crate::failure::{Failure, causes_in_one_line};
use crate::interrupt;
use crate::text::byte_size;

const CHECK: &str = "cache";
/// Below this, a single model may fill the disk.
const LITTLE_SPACE: u64 = 1 << 30;

/// Examines the cache on another thread, so that an interruption is noticed while files are hashed.
pub(super) async fn findings(config: &Config, full: bool) -> Result<Vec<Finding>, Failure> {
    let folder = config.cache_dir.clone();
    interrupt::blocking(move |cancel_token| {
        let mut findings = Vec::new();
        let shown = folder.display();
        match (is_writable(&folder), free_bytes(&folder)) {
            (Ok(true), Ok(free)) if free < LITTLE_SPACE => findings.push(
                Finding::warning(CHECK, format!("{shown}: only {} are free", byte_size(free)))
                    .command("carton cache prune --older-than 30d"),
            ),
            (Ok(true), Ok(free)) => {
                let state = if folder.exists() { "writable" } else { "not made yet" };
                findings.push(Finding::ok(CHECK, format!("{shown}: {state}, {} free", byte_size(free))));
            }
            (Ok(true), Err(error)) => findings.push(Finding::warning(CHECK, format!("{shown}: {error}"))),
            (Ok(false), _) => findings.push(
                Finding::bad(CHECK, format!("{shown}: you cannot write there"))
                    .advice("set CARTON_CACHE_DIR or `cache_dir` to a folder that you can write to"),
            ),
            (Err(error), _) => findings.push(Finding::bad(CHECK, format!("{shown}: {error}"))),
        }
        if folder.is_dir() {
            let cache = Cache::open(&folder).map(|cache| cache.cancel_token(cancel_token.clone()));
            match cache.and_then(|cache| entries(&cache, full)) {
                Ok(more) => findings.extend(more),
                Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error.into()),
                Err(error) => findings.push(Finding::bad(CHECK, causes_in_one_line(&error))),
            }
        }
        Ok(findings)
    })
    .await
}

fn entries(cache: &Cache, full: bool) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    let later = cache.later_buckets()?;
    if !later.is_empty() {
        let text = format!("a later release of Carton keeps {} there, which this one leaves alone", later.join(", "));
        findings.push(Finding::warning(CHECK, text).advice("use that release, or another `cache_dir`"));
    }
    let report = cache.examine(full)?;
    let hashed = if full { "hashed" } else { "not hashed; `carton doctor --full` does so" };
    findings.push(match report.damaged.as_slice() {
        [] => Finding::ok(CHECK, format!("no damage in {} files, {hashed}", report.n_files)),
        [first, ..] => {
            let text =
                format!("{} damaged, such as `{}`: {}", report.damaged.len(), first.path.display(), first.problem);
            Finding::warning(CHECK, text).command("carton cache verify")
        }
    });
    Ok(findings)
}
