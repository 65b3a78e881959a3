//! `carton cache`: lists the cache, and deletes unneeded or damaged entries.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use carton_core::cache::{Cache, CachedCarton, CachedDownload, DamagedFile, PruneOptions};
use carton_core::{ManifestHash, ShownUrl};
use serde::Serialize;

use super::{Context, open, set};
use crate::args::{CacheCommand, PruneArgs, RemoveArgs};
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::{Align, Role, Table};
use crate::text::{ago, byte_size, count, one_line};
use carton_core::Error;

#[derive(Serialize)]
struct Listing<'a> {
    path: &'a Path,
    cartons: Vec<Carton>,
    downloads: Vec<Download>,
    /// The number of files, which cartons can share.
    files: usize,
    file_bytes: u64,
    /// The bytes that more than one carton uses.
    shared_bytes: u64,
    /// All bytes; hard-linked files are counted once.
    bytes: u64,
}

#[derive(Serialize)]
struct Carton {
    manifest_sha256: ManifestHash,
    /// The name that the carton gives its model.
    model_name: Option<String>,
    /// The URL at which a remote carton was last found.
    address: Option<ShownUrl>,
    /// The file or folder that a local carton was last loaded from.
    path: Option<PathBuf>,
    bytes: u64,
    /// In seconds since 1970.
    last_used: u64,
    in_use: bool,
}

#[derive(Serialize)]
struct Download {
    path: PathBuf,
    bytes: u64,
    /// In seconds since 1970.
    last_change: u64,
    in_use: bool,
}

#[derive(Serialize)]
struct PruneReport {
    dry_run: bool,
    cartons: Vec<Carton>,
    downloads: Vec<Download>,
    files: usize,
    freed: u64,
    remaining: u64,
    /// The number of cartons that were kept only because they are loaded.
    in_use: usize,
}

#[derive(Serialize)]
struct RemoveReport {
    cartons: Vec<Carton>,
    files: usize,
    freed: u64,
    remaining: u64,
}

#[derive(Serialize)]
struct VerifyReport {
    passed: bool,
    files: usize,
    bytes: u64,
    damaged: Vec<Damaged>,
}

#[derive(Serialize)]
struct Damaged {
    path: PathBuf,
    problem: String,
}

/// `carton cache …`.
pub(super) async fn run(command: CacheCommand, context: &Context<'_>) -> Result<Exit, Failure> {
    match command {
        CacheCommand::Ls => list(context).await,
        CacheCommand::Rm(arguments) => remove(arguments, context).await,
        CacheCommand::Prune(arguments) => prune(arguments, context).await,
        CacheCommand::Verify => verify(context).await,
    }
}

/// `carton cache ls`.
async fn list(context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let cache = open_cache(context)?;
    let path = cache.path().to_path_buf();
    let listing = blocking(cache, Cache::list).await?;
    if output.is_json() {
        output.json(&Listing {
            path: &path,
            cartons: listing.cartons.into_iter().map(Carton::from).collect(),
            downloads: listing.downloads.into_iter().map(Download::from).collect(),
            files: listing.n_files,
            file_bytes: listing.file_bytes,
            shared_bytes: listing.shared_bytes,
            bytes: listing.bytes,
        })?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left, Align::Left, Align::Left]);
    table.row(["NAME", "SIZE", "LAST USED", "MANIFEST", "FROM"]);
    for carton in &listing.cartons {
        let used = if carton.in_use { "now".to_owned() } else { ago(since(carton.last_used)) };
        let name = carton.model_name.as_deref().map_or_else(|| "-".to_owned(), one_line);
        let path = carton.path.as_ref().map(|path| path.display().to_string());
        let from = carton.address.as_ref().map(ShownUrl::to_string).or(path).unwrap_or_else(|| "a file".to_owned());
        table.row([&name, &byte_size(carton.bytes), &used, &carton.manifest.to_string(), &one_line(&from)]);
    }
    for download in &listing.downloads {
        let used = if download.in_use { "now".to_owned() } else { ago(since(download.last_change)) };
        table.row(["-", &byte_size(download.bytes), &used, "-", "an interrupted download"]);
    }
    let mut text = String::new();
    if !listing.cartons.is_empty() || !listing.downloads.is_empty() {
        text = table.lines(&|row, _, cell| if row == 0 { output.paint(Role::Heading, &cell) } else { cell });
        text.push('\n');
    }
    let shared = match listing.shared_bytes {
        0 => String::new(),
        bytes => format!(", {} of it shared", byte_size(bytes)),
    };
    text.push_str(&format!(
        "{}, {} in {}{shared}\n",
        count(listing.cartons.len(), "carton"),
        byte_size(listing.bytes),
        one_line(&path.display().to_string()),
    ));
    output.text(&text)?;
    Ok(Exit::Ok)
}

/// `carton cache rm`.
async fn remove(arguments: RemoveArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let cache = open_cache(context)?;
    let removed = blocking(cache, move |cache| cache.remove(&arguments.cartons)).await?;
    if context.output.is_json() {
        context.output.json(&RemoveReport {
            cartons: removed.cartons.into_iter().map(Carton::from).collect(),
            files: removed.n_files,
            freed: removed.freed,
            remaining: removed.remaining,
        })?;
        return Ok(Exit::Ok);
    }
    context.output.text(&format!(
        "deleted {}: {}, {} left\n",
        count(removed.cartons.len(), "carton"),
        byte_size(removed.freed),
        byte_size(removed.remaining),
    ))?;
    Ok(Exit::Ok)
}

/// `carton cache prune`.
async fn prune(arguments: PruneArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let PruneArgs { older_than, max_size, dry_run } = arguments;
    let cache = open_cache(context)?;
    let mut options = PruneOptions::default();
    options.older_than = older_than;
    options.max_size = max_size;
    options.dry_run = dry_run;
    let pruned = blocking(cache, move |cache| cache.prune(&options)).await?;
    if output.is_json() {
        output.json(&PruneReport {
            dry_run,
            cartons: pruned.cartons.into_iter().map(Carton::from).collect(),
            downloads: pruned.downloads.into_iter().map(Download::from).collect(),
            files: pruned.n_files,
            freed: pruned.freed,
            remaining: pruned.remaining,
            in_use: pruned.n_in_use,
        })?;
        return Ok(Exit::Ok);
    }
    let verb = if dry_run { "would delete" } else { "deleted" };
    let mut text = format!(
        "{verb} {} and {}: {}, {} left\n",
        count(pruned.cartons.len(), "carton"),
        count(pruned.downloads.len(), "interrupted download"),
        byte_size(pruned.freed),
        byte_size(pruned.remaining),
    );
    if pruned.n_in_use > 0 {
        text.push_str(&format!("kept {} that is in use\n", count(pruned.n_in_use, "carton")));
    }
    output.text(&text)?;
    if let Some(max_size) = max_size.filter(|max_size| pruned.remaining > *max_size) {
        output.warning(&format!("the files in use take more than {}", byte_size(max_size)));
    }
    Ok(Exit::Ok)
}

/// `carton cache verify`.
async fn verify(context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let cache = open_cache(context)?;
    let cache = set(cache, open::progress(context), Cache::progress);
    let report = blocking(cache, Cache::verify).await?;
    output.progress().finish();
    let exit = if report.damaged.is_empty() { Exit::Ok } else { Exit::Integrity };
    if output.is_json() {
        output.json(&VerifyReport {
            passed: report.damaged.is_empty(),
            files: report.n_files,
            bytes: report.n_bytes,
            damaged: report
                .damaged
                .into_iter()
                .map(|DamagedFile { path, problem, .. }| Damaged { path, problem })
                .collect(),
        })?;
        return Ok(exit);
    }
    let mut text = String::new();
    for file in &report.damaged {
        let line = format!("{}: {}", file.path.display(), file.problem);
        text.push_str(&format!("{} {}\n", output.paint(Role::Bad, "BAD"), one_line(&line)));
    }
    let files = format!("{}, {}", count(report.n_files, "file"), byte_size(report.n_bytes));
    if report.damaged.is_empty() {
        text.push_str(&format!("{} {files}, all are intact\n", output.paint(Role::Good, "OK")));
    } else {
        text.push_str(&format!("{} damaged and deleted, of {files}\n", report.damaged.len()));
    }
    output.text(&text)?;
    Ok(exit)
}

/// Opens the cache, and says what in it belongs to a later release.
fn open_cache(context: &Context<'_>) -> Result<Cache, Failure> {
    let cache = Cache::open(&context.config.cache_dir)?;
    let later = cache.later_buckets()?;
    if !later.is_empty() {
        let (later, path) = (later.join(", "), cache.path().display());
        let text = format!("a later release of Carton keeps {later} in `{path}`, which this one leaves alone");
        context.output.warning(&one_line(&text));
    }
    Ok(cache)
}

/// Works on the cache on another thread. An interruption cancels the work.
async fn blocking<T: Send + 'static>(
    cache: Cache,
    work: impl FnOnce(&Cache) -> Result<T, Error> + Send + 'static,
) -> Result<T, Failure> {
    interrupt::blocking(move |cancel_token| Ok(work(&cache.cancel_token(cancel_token.clone()))?)).await
}

fn since(time: SystemTime) -> std::time::Duration {
    // If the clock was set back, the time is in the future, and is treated as now.
    time.elapsed().unwrap_or_default()
}

fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

impl From<CachedCarton> for Carton {
    fn from(carton: CachedCarton) -> Self {
        let CachedCarton { manifest, model_name, address, path, bytes, last_used, in_use, .. } = carton;
        let last_used = unix_seconds(last_used);
        Self { manifest_sha256: manifest, model_name, address, path, bytes, last_used, in_use }
    }
}

impl From<CachedDownload> for Download {
    fn from(download: CachedDownload) -> Self {
        let CachedDownload { path, bytes, last_change, in_use, .. } = download;
        Self { path, bytes, last_change: unix_seconds(last_change), in_use }
    }
}
