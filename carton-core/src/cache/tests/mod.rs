//! The cache against damage, other processes, and being killed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub(super) mod contention;
mod downloads;
pub(crate) mod model_folders;
mod processes;
mod prune;
mod registrations;
mod remote;
mod verify;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use carton_format::context::{CancelToken, Context};
use carton_format::digest::Sha256Digest;
use carton_format::manifest::ManifestHash;
use carton_format::progress::Stage;
use carton_format::source::FileIdentity;

use super::layout::*;
use super::lock::{self, Mode};
use super::*;

/// A model made of names and sizes; the bytes of each file follow from its name.
struct Model {
    files: Vec<(String, Vec<u8>)>,
    links: Vec<(String, String)>,
    manifest: ManifestHash,
    n_fed: AtomicUsize,
    prepared: std::sync::Mutex<Vec<usize>>,
    /// How long to take for each piece of a file.
    pause: Duration,
}

impl Model {
    fn new(name: &str, files: &[(&str, usize)]) -> Model {
        let bytes = |path: &str, size: usize| {
            let mut bytes = format!("{path};").into_bytes().repeat(size / path.len() + 1);
            bytes.truncate(size);
            bytes
        };
        let mut files: Vec<_> = files.iter().map(|(path, size)| ((*path).to_owned(), bytes(path, *size))).collect();
        files.sort();
        let manifest = ManifestHash::of(name.as_bytes());
        Model {
            files,
            links: Vec::new(),
            manifest,
            n_fed: AtomicUsize::new(0),
            prepared: Default::default(),
            pause: Duration::ZERO,
        }
    }

    fn n_fed(&self) -> usize {
        self.n_fed.swap(0, Ordering::Relaxed)
    }

    fn folder(&self, cache: &Cache) -> ModelFolder {
        let folder = model_folder(cache, &self.manifest, self).unwrap();
        self.check(folder.path());
        folder
    }

    /// That a folder has exactly this model's files.
    fn check(&self, folder: &Path) {
        for (path, bytes) in &self.files {
            assert!(fs::read(folder.join(path)).unwrap() == *bytes, "{path}");
        }
        for (path, target) in &self.links {
            assert_eq!(fs::read_link(folder.join(path)).unwrap().to_str().unwrap(), target);
        }
        assert_eq!(count_files(folder), self.files.len() + self.links.len());
    }
}

impl ModelFiles for Model {
    type Error = CacheError;

    fn files(&self) -> Vec<ModelFile<'_>> {
        let file = |(path, bytes): &'_ (String, Vec<u8>)| (path.clone(), Sha256Digest::of(bytes), bytes.len() as u64);
        let mut all: Vec<ModelFile<'_>> = Vec::new();
        for entry in &self.files {
            let (_, digest, size) = file(entry);
            all.push(ModelFile { path: &entry.0, digest, size: Some(size), symlink: None });
        }
        for (path, target) in &self.links {
            all.push(ModelFile { path, digest: Sha256Digest::of(b"link"), size: Some(0), symlink: Some(target) });
        }
        all
    }

    fn prepare(&self, indices: &[usize]) -> Result<(), CacheError> {
        self.prepared.lock().unwrap().extend(indices);
        Ok(())
    }

    fn feed(&self, index: usize, sink: &mut Sink<'_, CacheError>) -> Result<(), CacheError> {
        self.n_fed.fetch_add(1, Ordering::Relaxed);
        for piece in self.files[index].1.chunks(16 * 1024) {
            std::thread::sleep(self.pause);
            sink(piece)?;
        }
        Ok(())
    }
}

fn model_folder(
    cache: &Cache,
    manifest: &ManifestHash,
    source: &impl ModelFiles<Error = CacheError>,
) -> Result<ModelFolder, CacheError> {
    cache.model_folder(manifest, source, &Context::default().meter(Stage::Extract, 0))
}

fn count_files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(|entry| if entry.file_type().unwrap().is_dir() { count_files(&entry.path()) } else { 1 }).sum()
}

fn new_cache() -> (tempfile::TempDir, Cache) {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(&folder.path().join("cache")).unwrap();
    (folder, cache)
}

/// Waits until what was just written can be told from what is written later, on any kernel.
fn age() {
    std::thread::sleep(Duration::from_millis(15));
}

/// Changes a file's bytes but not its length, as a bad disk or a careless program would.
fn damage(path: &Path) {
    age();
    let mut bytes = fs::read(path).unwrap();
    bytes[0] ^= 1;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(path, bytes).unwrap();
}

fn example() -> Model {
    let mut model = Model::new("example", &[("config.json", 300), ("a/b/large.bin", 3_000_000), ("a/empty", 0)]);
    model.links.push(("link".to_owned(), "a/b/large.bin".to_owned()));
    model
}

#[test]
fn the_folders_are_ours_alone() {
    let (folder, cache) = new_cache();
    for path in BUCKETS.map(|bucket| cache.layout.bucket(bucket)).iter().chain([&folder.path().join("cache")]) {
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o700, "{path:?}");
    }
    let tag = fs::read_to_string(folder.path().join("cache/CACHEDIR.TAG")).unwrap();
    assert!(tag.starts_with("Signature: 8a477f597d28d172789f06886806bc55"));
}

#[test]
fn a_folder_that_others_can_write_to_is_refused() {
    let check = |bucket: &str, mode, expected| {
        let folder = tempfile::tempdir().unwrap();
        Cache::open(folder.path()).unwrap();
        fs::set_permissions(folder.path().join(bucket), fs::Permissions::from_mode(mode)).unwrap();
        let result = Cache::in_folder(folder.path());
        assert_eq!(result.is_ok(), expected, "{bucket} {mode:o}");
        if let Err(CacheError::Unsafe(error)) = result {
            assert!(error.to_string().contains(&format!("mode {mode:o}")), "{error}");
        }
    };
    check("", 0o700, true);
    check("", 0o755, true);
    check("", 0o777, false);
    check("", 0o1777, true);
    check(MODELS, 0o755, true);
    check(MODELS, 0o777, false);
    check(MODELS, 0o1777, false);
    check(VERIFIED, 0o702, false);
}

/// A group that others are in may not write. Root alone can give a folder to such a group.
#[test]
fn a_folder_that_a_group_of_others_can_write_to_is_refused() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give a folder to another group");
        return;
    }
    for folder in ["", MODELS] {
        let root = tempfile::tempdir().unwrap();
        Cache::open(root.path()).unwrap();
        let shared = root.path().join(folder);
        std::os::unix::fs::chown(&shared, None, Some(12_345)).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o750)).unwrap();
        Cache::open(root.path()).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o770)).unwrap();
        assert!(matches!(Cache::in_folder(root.path()), Err(CacheError::Unsafe(_))), "{folder}");
    }
}

#[test]
fn a_model_is_made_once() {
    let (_folder, cache) = new_cache();
    let model = example();
    let first = model.folder(&cache);
    assert_eq!(model.n_fed(), 3);
    let second = model.folder(&cache);
    assert_eq!((model.n_fed(), second.path()), (0, first.path()));
    let mode = fs::metadata(first.path().join("a/b/large.bin")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o444);
    assert_eq!(cache.models().unwrap(), [model.manifest]);
    assert_eq!(count_files(&cache.layout.bucket(PARTIAL)), 0);
    // The lock that all leases share stays.
    assert_eq!(count_files(&cache.layout.bucket(LOCKS)), 1);
}

#[test]
fn models_share_large_files() {
    let (_folder, cache) = new_cache();
    let one = Model::new("one", &[("shared.bin", 1_000_000), ("own1", 100_000), ("small", 10)]);
    let other = Model::new("other", &[("shared.bin", 1_000_000), ("own2", 100_000), ("small", 10)]);
    let folder = one.folder(&cache);
    assert_eq!(one.n_fed(), 3);
    let other_folder = other.folder(&cache);
    assert_eq!(other.n_fed(), 2);
    let inode = |folder: &ModelFolder| fs::metadata(folder.path().join("shared.bin")).unwrap().ino();
    assert_eq!(inode(&folder), inode(&other_folder));
    // The link changed the time of the first model's file; it is recognised all the same.
    one.folder(&cache);
    assert_eq!(one.n_fed(), 0);
    drop(other_folder);
    assert_eq!(cache.remove_model(&other.manifest).unwrap(), Removed::Yes);
    one.folder(&cache);
    assert_eq!(one.n_fed(), 0);
}

#[test]
fn whatever_is_changed_in_a_model_is_noticed_and_repaired() {
    type Change = fn(&Path);
    let check = |what: &str, n_fed: usize, change: Change| {
        let (_folder, cache) = new_cache();
        let model = example();
        let path = model.folder(&cache).path().to_path_buf();
        model.n_fed();
        age();
        change(&path);
        model.folder(&cache);
        assert_eq!(model.n_fed(), n_fed, "{what}");
        model.folder(&cache);
        assert_eq!(model.n_fed(), 0, "{what}, again");
    };
    check("nothing", 0, |_| ());
    check("a large file's bytes", 1, |path| damage(&path.join("a/b/large.bin")));
    check("a small file's bytes", 1, |path| damage(&path.join("config.json")));
    check("bytes, and the time set back", 1, |path| {
        let file = path.join("config.json");
        let before = fs::metadata(&file).unwrap().modified().unwrap();
        damage(&file);
        File::options().write(true).open(&file).unwrap().set_modified(before).unwrap();
    });
    check("a file deleted", 1, |path| fs::remove_file(path.join("config.json")).unwrap());
    check("a shared file deleted", 0, |path| fs::remove_file(path.join("a/b/large.bin")).unwrap());
    check("a file cut", 1, |path| {
        fs::set_permissions(path.join("config.json"), fs::Permissions::from_mode(0o644)).unwrap();
        File::options().write(true).open(path.join("config.json")).unwrap().set_len(5).unwrap();
    });
    check("only a time", 0, |path| {
        fs::set_permissions(path.join("config.json"), fs::Permissions::from_mode(0o644)).unwrap();
        File::options()
            .write(true)
            .open(path.join("config.json"))
            .unwrap()
            .set_modified(std::time::UNIX_EPOCH)
            .unwrap();
    });
    check("a file replaced by a folder", 1, |path| {
        fs::remove_file(path.join("config.json")).unwrap();
        fs::create_dir_all(path.join("config.json/x")).unwrap();
    });
    check("a file replaced by a link", 1, |path| {
        fs::remove_file(path.join("config.json")).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", path.join("config.json")).unwrap();
    });
    check("a folder replaced by a file", 1, |path| {
        fs::remove_dir_all(path.join("a")).unwrap();
        fs::write(path.join("a"), "x").unwrap();
    });
    check("a link changed", 0, |path| {
        fs::remove_file(path.join("link")).unwrap();
        std::os::unix::fs::symlink("config.json", path.join("link")).unwrap();
    });
    check("a file added", 0, |path| fs::write(path.join("a/stray"), "x").unwrap());
    check("a folder added", 0, |path| fs::create_dir_all(path.join("__pycache__/x")).unwrap());
    check("the folder deleted", 2, |path| fs::remove_dir_all(path).unwrap());
    check("index deleted", 0, |path| fs::remove_file(path.with_file_name("index")).unwrap());
    check("index cut", 0, |path| {
        let index = fs::read(path.with_file_name("index")).unwrap();
        fs::write(path.with_file_name("index"), &index[..index.len() / 2]).unwrap();
    });
    check("index deleted and bytes damaged", 1, |path| {
        fs::remove_file(path.with_file_name("index")).unwrap();
        damage(&path.join("a/b/large.bin"));
    });
}

#[test]
fn what_needs_bytes_is_prepared_together() {
    let (_folder, cache) = new_cache();
    let model = example();
    let prepared = || {
        model.folder(&cache);
        let mut indices = std::mem::take(&mut *model.prepared.lock().unwrap());
        indices.sort_unstable();
        indices
    };
    assert_eq!(prepared(), [0, 1, 2], "all but the link");
    assert_eq!(prepared(), [0; 0]);
    damage(&cache.layout.model(&model.manifest).join("model/config.json"));
    assert_eq!(prepared(), [2]);
    fs::remove_file(cache.layout.model(&model.manifest).join("index")).unwrap();
    assert_eq!(prepared(), [0; 0]);
}

#[test]
fn wrong_bytes_are_refused_and_nothing_is_left() {
    let (_folder, cache) = new_cache();
    struct Wrong(Model);
    impl ModelFiles for Wrong {
        type Error = CacheError;
        fn files(&self) -> Vec<ModelFile<'_>> {
            let mut files = self.0.files();
            files[1].digest = Sha256Digest::of(b"other");
            files
        }
        fn feed(&self, i: usize, sink: &mut Sink<'_, CacheError>) -> Result<(), CacheError> {
            self.0.feed(i, sink)
        }
    }
    let error = model_folder(&cache, &ManifestHash::of(b"wrong"), &Wrong(example())).unwrap_err();
    let expected = format!("digest mismatch for `model/a/empty`: expected {}", Sha256Digest::of(b"other"));
    assert!(error.to_string().starts_with(&expected), "{error}");
    assert_eq!(cache.models().unwrap(), []);
    assert_eq!(count_files(&cache.layout.bucket(PARTIAL)), 0);
}

#[test]
fn paths_that_leave_the_folder_are_refused() {
    let check = |path: &str| {
        let (_folder, cache) = new_cache();
        let mut model = example();
        path.clone_into(&mut model.files[0].0);
        let result = model_folder(&cache, &model.manifest, &model);
        assert!(matches!(result, Err(CacheError::Path { .. })), "{path}: {result:?}");
    };
    check("../x");
    check("/x");
    check("a/../../x");
    check("");
}

#[test]
fn files_are_found_by_digest_and_damage_is_noticed() {
    let (_folder, cache) = new_cache();
    let bytes = vec![5; 100_000];
    let digest = cache.files().insert(&mut &bytes[..]).unwrap();
    assert_eq!(digest, Sha256Digest::of(&bytes));
    assert!(cache.files().get(&digest).unwrap().is_some());
    assert!(cache.files().get(&Sha256Digest::of(b"other")).unwrap().is_none());
    assert_eq!(cache.files().insert(&mut &bytes[..]).unwrap(), digest);
    damage(&cache.files().path(&digest));
    assert!(cache.files().get(&digest).unwrap().is_none());
    assert!(!cache.files().path(&digest).exists());
    assert_eq!(cache.files().insert(&mut &bytes[..]).unwrap(), digest);
    assert!(cache.files().get(&digest).unwrap().is_some());
}

#[test]
fn records_hold_for_one_identity_only() {
    let (folder, cache) = new_cache();
    let path = folder.path().join("carton");
    fs::write(&path, "bytes").unwrap();
    let identify = || FileIdentity::of(&fs::metadata(&path).unwrap());
    let manifest = ManifestHash::of(b"manifest");
    let check = |identity: &FileIdentity, manifest: &ManifestHash, scope, expected| {
        assert_eq!(cache.verifications().is_carton_verified(identity, manifest, scope), expected, "{identity:?}");
    };
    let first = identify();
    check(&first, &manifest, Scope::StoredModelFiles, false);
    let verified = Verified::Carton { manifest_sha256: manifest, scope: Scope::StoredModelFiles };
    cache.verifications().remember(&first, verified).unwrap();
    check(&first, &manifest, Scope::StoredModelFiles, true);
    check(&first, &manifest, Scope::Everything, false);
    check(&first, &ManifestHash::of(b"other"), Scope::StoredModelFiles, false);
    // Other bytes of the same length, and the time set back.
    age();
    fs::write(&path, "BYTES").unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    let modified = std::time::UNIX_EPOCH + Duration::new(first.modified.0.try_into().unwrap(), first.modified.1);
    file.set_modified(modified).unwrap();
    let tampered = identify();
    assert_eq!((tampered.size, tampered.modified), (first.size, first.modified));
    check(&tampered, &manifest, Scope::StoredModelFiles, false);
    // A truncated record counts as missing.
    let record = fs::read_dir(cache.layout.bucket(VERIFIED)).unwrap().next().unwrap().unwrap().path();
    let bytes = fs::read(&record).unwrap();
    for length in 0..bytes.len() {
        fs::write(&record, &bytes[..length]).unwrap();
        check(&first, &manifest, Scope::StoredModelFiles, false);
    }
    fs::write(&record, &bytes).unwrap();
    check(&first, &manifest, Scope::StoredModelFiles, true);
}

#[test]
fn a_lease_keeps_a_model() {
    let (folder, cache) = new_cache();
    let other = Cache::open(cache.path()).unwrap();
    let model = example();
    assert_eq!(other.remove_model(&model.manifest).unwrap(), Removed::NotThere);
    let one = model.folder(&cache);
    let two = model.folder(&cache);
    drop(one);
    assert_eq!(other.remove_model(&model.manifest).unwrap(), Removed::InUse);
    model.check(two.path());
    drop(two);
    assert_eq!(other.remove_model(&model.manifest).unwrap(), Removed::Yes);
    assert_eq!(other.models().unwrap(), []);
    drop(folder);
}

#[test]
fn waiting_for_a_lock_ends() {
    let (_folder, cache) = new_cache();
    let manifest = ManifestHash::of(b"");
    let held = cache.lock(Made::Model(&manifest), &CancelToken::default()).unwrap();
    let cache = cache.with_longest_wait(Duration::from_millis(30));
    let error = cache.lock(Made::Model(&manifest), &CancelToken::default()).unwrap_err();
    assert!(matches!(error, CacheError::Locked { .. }), "{error}");
    assert!(error.to_string().contains(&format!("locks-v1/model-{manifest}.lock")), "{error}");
    drop(held);
    cache.lock(Made::Model(&manifest), &CancelToken::default()).unwrap();
}

#[test]
fn a_lock_excludes_whoever_deletes_and_makes_it_anew() {
    let (_folder, cache) = new_cache();
    let digest = Sha256Digest::of(b"");
    let n_inside = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let _lock = cache.lock(Made::File(&digest), &CancelToken::default()).unwrap();
                    assert_eq!(n_inside.fetch_add(1, Ordering::SeqCst), 0);
                    n_inside.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
}

#[test]
fn leftovers_are_swept_and_work_in_progress_is_not() {
    let (_folder, cache) = new_cache();
    let working = cache.partial().unwrap();
    fs::write(working.path().join("half"), "x").unwrap();
    let area = cache.layout.bucket(PARTIAL);
    for name in ["99-1", "99-2"] {
        fs::create_dir_all(area.join(name).join("model/deep")).unwrap();
        fs::write(area.join(name).join("model/deep/half"), "x").unwrap();
    }
    fs::write(area.join("99-2.lock"), "").unwrap();
    fs::write(area.join("99-3.lock"), "").unwrap();
    Cache::open(cache.path()).unwrap();
    let left: BTreeSet<_> = fs::read_dir(&area).unwrap().map(|entry| entry.unwrap().path()).collect();
    let lock = working.path().with_extension("lock");
    assert_eq!(left, BTreeSet::from([working.path().to_path_buf(), lock]));
    drop(working);
    assert_eq!(fs::read_dir(&area).unwrap().count(), 0);
}

#[test]
fn an_index_reads_back_and_any_damage_is_noticed() {
    let identity =
        FileIdentity { device: 1, inode: u64::MAX, size: 0, modified: (-5, 999_999_999), changed: (i64::MAX, 0) };
    let digest = Sha256Digest::of(b"x");
    let line = |path: &str, digest| Line { path: path.to_owned(), digest, identity };
    let index = FolderIndex {
        manifest: ManifestHash::of(b"x"),
        lines: vec![line("", None), line("a b/c", None), line("a b/c/d  e ", Some(digest))],
    };
    let bytes = index.to_bytes();
    assert_eq!(FolderIndex::parse(&bytes).as_ref(), Some(&index));
    for length in 0..bytes.len() {
        assert_ne!(FolderIndex::parse(&bytes[..length]).as_ref(), Some(&index), "{length}");
    }
    for wrong in ["", "\n", "carton-folder-index 2 x\n", "x\n"] {
        assert_eq!(FolderIndex::parse(wrong.as_bytes()), None, "{wrong}");
    }
    let mut empty = Vec::new();
    empty.write_all(format!("carton-folder-index 1 {digest}\n").as_bytes()).unwrap();
    assert_eq!(FolderIndex::parse(&empty), Some(FolderIndex { manifest: ManifestHash::of(b"x"), lines: Vec::new() }));
}
