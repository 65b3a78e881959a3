//! Which cartons use the cache.

use carton_format::manifest::Manifest;

use super::super::registrations::read_uses;
use super::*;

fn manifest(names: &[&str]) -> Manifest {
    Manifest::from_entries(names.iter().map(|name| ((*name).to_owned(), Sha256Digest::of(name.as_bytes())))).unwrap()
}

fn lease(cache: &Cache, manifest: &Manifest, extra: &[Sha256Digest]) -> Lease {
    cache.lease_carton(manifest, extra, &CancelToken::default()).unwrap()
}

#[test]
fn a_leased_carton_says_what_it_uses() {
    let (_folder, cache) = new_cache();
    let manifest = manifest(&["model/a", "model/b"]);
    let root = cache.layout.carton(&manifest.hash());
    let [one, two] = [b"1", b"2"].map(|bytes| Sha256Digest::of(bytes));
    let _lease = lease(&cache, &manifest, &[one]);
    drop(lease(&cache, &manifest, &[one, two]));
    drop(lease(&cache, &manifest, &[]));
    let uses = read_uses(&root, &manifest.hash());
    assert_eq!(uses.manifest.as_ref(), Some(&manifest));
    assert_eq!(uses.extra, BTreeSet::from([one, two]));
    assert_eq!(cache.remove_model(&manifest.hash()).unwrap(), Removed::InUse);
    let bytes = manifest.to_bytes();
    for length in 0..bytes.len() {
        fs::write(root.join("MANIFEST"), &bytes[..length]).unwrap();
        assert!(read_uses(&root, &manifest.hash()).manifest.is_none(), "{length}");
    }
    drop(lease(&cache, &manifest, &[]));
    assert_eq!(read_uses(&root, &manifest.hash()).manifest, Some(manifest), "written again");
}

#[test]
fn a_lease_is_the_last_use() {
    let (_folder, cache) = new_cache();
    let manifest = manifest(&["model/a"]);
    drop(lease(&cache, &manifest, &[]));
    let root = cache.layout.carton(&manifest.hash());
    let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::open(&root).unwrap().set_modified(long_ago).unwrap();
    drop(lease(&cache, &manifest, &[]));
    assert!(fs::metadata(&root).unwrap().modified().unwrap().elapsed().unwrap() < Duration::from_secs(60));
}

#[test]
fn a_lease_is_had_where_nothing_can_be_recorded() {
    let (_folder, cache) = new_cache();
    let manifest = manifest(&["model/a"]);
    fs::write(cache.layout.carton(&manifest.hash()), "not a folder").unwrap();
    let lease = lease(&cache, &manifest, &[]);
    assert_eq!(cache.remove_model(&manifest.hash()).unwrap(), Removed::InUse);
    drop(lease);
}

#[test]
fn nothing_is_leased_while_it_is_decided_what_to_delete() {
    let (_folder, cache) = new_cache();
    let manifest = manifest(&["model/a"]);
    let pruning = lock::try_acquire(&cache.layout.prune_lock(), Mode::Exclusive).unwrap().unwrap();
    let cache = cache.with_longest_wait(Duration::from_millis(30));
    let error = cache.lease_carton(&manifest, &[], &CancelToken::default()).unwrap_err();
    assert!(matches!(error, CacheError::Locked { .. }), "{error}");
    drop(pruning);
    let _lease = lease(&cache, &manifest, &[]);
    assert!(lock::try_acquire(&cache.layout.prune_lock(), Mode::Exclusive).unwrap().is_some(), "not held while leased");
}
