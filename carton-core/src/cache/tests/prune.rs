//! What `prune` deletes and keeps, and what `list` says about it.

use std::time::SystemTime;

use carton_format::manifest::Manifest;
use carton_format::url::ShownUrl;

use super::*;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A carton whose model has these files: names and sizes, where files of equal name have equal bytes.
pub(super) struct Carton {
    pub(super) model: Model,
    manifest: Manifest,
}

impl Carton {
    pub(super) fn new(files: &[(&str, usize)]) -> Carton {
        let mut model = Model::new("", files);
        let named = model.files.iter().map(|(path, bytes)| (format!("model/{path}"), Sha256Digest::of(bytes)));
        let manifest = Manifest::from_entries(named).unwrap();
        model.manifest = manifest.hash();
        Carton { model, manifest }
    }

    pub(super) fn lease(&self, cache: &Cache) -> Lease {
        cache.lease_carton(&self.manifest, &[], &CancelToken::default()).unwrap()
    }

    pub(super) fn load(&self, cache: &Cache) -> (Lease, ModelFolder) {
        (self.lease(cache), self.model.folder(cache))
    }

    pub(super) fn hash(&self) -> ManifestHash {
        self.model.manifest
    }

    pub(super) fn digest(&self, path: &str) -> Sha256Digest {
        self.manifest.get(&format!("model/{path}")).unwrap()
    }

    /// Sets its last use to so many days ago.
    fn age(&self, cache: &Cache, n_days: u32) {
        for path in [cache.layout.carton(&self.hash()), cache.layout.model(&self.hash())] {
            if let Ok(folder) = File::open(path) {
                folder.set_modified(SystemTime::now() - DAY * n_days).unwrap();
            }
        }
    }
}

fn prune(cache: &Cache) -> Pruned {
    cache.prune(&PruneOptions::default()).unwrap()
}

fn hashes(cartons: &[CachedCarton]) -> BTreeSet<ManifestHash> {
    cartons.iter().map(|carton| carton.manifest).collect()
}

/// The bytes of all files below a folder, each inode once.
fn disk_bytes(folder: &Path, seen: &mut BTreeSet<u64>) -> u64 {
    let mut total = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let metadata = entry.as_ref().unwrap().metadata().unwrap();
        if metadata.is_dir() {
            total += disk_bytes(&entry.unwrap().path(), seen);
        } else if seen.insert(metadata.ino()) {
            total += metadata.len();
        }
    }
    total
}

/// The bytes in the buckets that count.
fn counted(cache: &Cache) -> u64 {
    let mut seen = BTreeSet::new();
    [FILES, MODELS, CARTONS, DOWNLOADS].iter().map(|bucket| disk_bytes(&cache.layout.bucket(bucket), &mut seen)).sum()
}

#[test]
fn what_no_loaded_model_uses_goes() {
    let (_folder, cache) = new_cache();
    let one = Carton::new(&[("shared", 1_000_000), ("own of one", 200_000), ("small", 10)]);
    let two = Carton::new(&[("shared", 1_000_000), ("own of two", 300_000)]);
    let loaded = one.load(&cache);
    drop(two.load(&cache));
    let list = cache.list().unwrap();
    assert_eq!(list.bytes, counted(&cache), "links are not counted twice");
    assert_eq!((list.n_files, list.file_bytes, list.shared_bytes), (3, 1_500_000, 1_000_000));
    let in_use: Vec<_> = list.cartons.iter().map(|carton| (carton.manifest, carton.in_use)).collect();
    assert_eq!(in_use.iter().filter(|(_, in_use)| *in_use).collect::<Vec<_>>(), [&(one.hash(), true)]);
    assert_eq!(hashes(&list.cartons), BTreeSet::from([one.hash(), two.hash()]));

    let dry = cache.prune(&PruneOptions { dry_run: true, ..PruneOptions::default() }).unwrap();
    assert_eq!(cache.list().unwrap().bytes, list.bytes, "nothing went");
    let pruned = prune(&cache);
    assert_eq!(pruned, dry);
    assert_eq!(hashes(&pruned.cartons), BTreeSet::from([two.hash()]));
    assert_eq!((pruned.n_files, pruned.n_in_use), (1, 1));
    assert_eq!((pruned.freed, pruned.remaining), (list.bytes - counted(&cache), counted(&cache)));
    assert!(cache.files().has(&one.digest("shared")) && !cache.files().has(&two.digest("own of two")));
    one.model.check(loaded.1.path());
    assert_eq!(cache.models().unwrap(), [one.hash()]);

    drop(loaded);
    assert_eq!(hashes(&prune(&cache).cartons), BTreeSet::from([one.hash()]));
    for bucket in BUCKETS {
        assert_eq!(count_files(&cache.layout.bucket(bucket)), 0, "{bucket}");
    }
    assert_eq!(cache.list().unwrap().bytes, 0);
    one.load(&cache);
}

#[test]
fn limits_decide_what_goes() {
    // Used 1, 2, 3, 4 days ago, with 100 kB each; the last two share a further 1 MB.
    let check = |older_than: Option<u32>, max_size: Option<u64>, loaded: Option<usize>, expected: &[usize]| {
        let (_folder, cache) = new_cache();
        let cartons = [
            Carton::new(&[("one", 100_000)]),
            Carton::new(&[("two", 100_000)]),
            Carton::new(&[("three", 100_000), ("shared", 1_000_000)]),
            Carton::new(&[("four", 100_000), ("shared", 1_000_000)]),
        ];
        let mut leases = Vec::new();
        for (index, carton) in cartons.iter().enumerate() {
            let lease = carton.load(&cache);
            leases.extend((loaded == Some(index)).then_some(lease));
            carton.age(&cache, u32::try_from(index).unwrap() + 1);
        }
        let older_than = older_than.map(|hours| Duration::from_secs(60 * 60) * hours);
        let pruned = cache.prune(&PruneOptions { older_than, max_size, dry_run: false }).unwrap();
        let gone: Vec<usize> = (0..4)
            .filter(|index| pruned.cartons.iter().any(|carton| carton.manifest == cartons[*index].hash()))
            .collect();
        assert_eq!(gone, expected, "{older_than:?} {max_size:?} {loaded:?}");
        assert_eq!(pruned.remaining, counted(&cache));
        for (index, carton) in cartons.iter().enumerate().filter(|(index, _)| !gone.contains(index)) {
            for (path, bytes) in &carton.model.files {
                assert!(cache.files().get(&Sha256Digest::of(bytes)).unwrap().is_some(), "{index} {path}");
            }
        }
    };
    check(Some(60), None, None, &[2, 3]);
    check(Some(80), None, None, &[3]);
    check(Some(200), None, None, &[]);
    check(Some(u32::MAX), None, None, &[]);
    check(Some(0), None, None, &[0, 1, 2, 3]);
    check(Some(60), None, Some(3), &[2]);
    check(None, Some(2_000_000), None, &[]);
    check(None, Some(1_350_000), None, &[3]);
    check(None, Some(1_000_000), None, &[2, 3]);
    check(None, Some(150_000), None, &[1, 2, 3]);
    check(None, Some(0), None, &[0, 1, 2, 3]);
    check(None, Some(1_000_000), Some(3), &[0, 1, 2]);
    check(Some(80), Some(150_000), None, &[1, 2, 3]);
    check(Some(20), Some(2_000_000), None, &[0, 1, 2, 3]);
}

#[test]
fn files_of_no_carton_go_too() {
    let (_folder, cache) = new_cache();
    let digest = cache.files().insert(&mut &vec![1; 100_000][..]).unwrap();
    let old = PruneOptions { older_than: Some(DAY), ..PruneOptions::default() };
    assert_eq!(cache.prune(&old).unwrap().n_files, 0);
    assert!(cache.files().has(&digest));
    assert_eq!(prune(&cache).n_files, 1);
    assert_eq!(counted(&cache), 0);
}

#[test]
fn models_of_earlier_versions_go_too() {
    let (_folder, cache) = new_cache();
    let model = example();
    drop(model.folder(&cache));
    assert_eq!(hashes(&cache.list().unwrap().cartons), BTreeSet::from([model.manifest]));
    assert_eq!(hashes(&prune(&cache).cartons), BTreeSet::from([model.manifest]));
    assert_eq!(counted(&cache), 0);
}

#[test]
fn nothing_goes_while_a_loaded_carton_does_not_say_what_it_uses() {
    let (_folder, cache) = new_cache();
    let one = Carton::new(&[("one", 100_000)]);
    let two = Carton::new(&[("two", 100_000)]);
    let loaded = one.load(&cache);
    drop(two.load(&cache));
    fs::write(cache.layout.carton(&one.hash()).join("MANIFEST"), "damaged").unwrap();
    assert_eq!(hashes(&prune(&cache).cartons), BTreeSet::from([two.hash()]));
    assert!(cache.files().has(&one.digest("one")) && cache.files().has(&two.digest("two")));
    drop(loaded);
    prune(&cache);
    assert_eq!(counted(&cache), 0);
}

#[test]
fn a_carton_that_is_used_from_its_own_file_is_not_listed() {
    let (_folder, cache) = new_cache();
    let carton = Carton::new(&[("one", 100_000)]);
    let lease = carton.lease(&cache);
    assert_eq!(cache.list().unwrap().cartons.len(), 1);
    drop(lease);
    assert_eq!(cache.list().unwrap().cartons, []);
    prune(&cache);
    assert_eq!(counted(&cache), 0);
}

#[test]
fn downloads_stay_while_somebody_wants_them() {
    let (_folder, cache) = new_cache();
    let carton = Carton::new(&[("wanted", 100_000)]);
    let download = |digest: &Sha256Digest| {
        let lock = cache.files().lock(digest, &CancelToken::default()).unwrap();
        let path = lock.download_folder().unwrap();
        // A hole of 1 GiB takes no room.
        let file = File::create(path.join("data")).unwrap();
        file.set_len(1 << 30).unwrap();
        (lock, path)
    };
    let (held, held_path) = download(&Sha256Digest::of(b"held"));
    let (lock, left_path) = download(&Sha256Digest::of(b"left"));
    drop(lock);
    let lease = carton.lease(&cache);
    let (lock, wanted_path) = download(&carton.digest("wanted"));
    drop(lock);
    let stray_path = cache.layout.bucket(DOWNLOADS).join("stray");
    fs::write(&stray_path, "x").unwrap();
    let list = cache.list().unwrap();
    assert_eq!(list.downloads.iter().filter(|download| download.in_use).count(), 2);
    assert!(list.bytes < 100_000, "{}", list.bytes);
    let old = PruneOptions { older_than: Some(DAY), ..PruneOptions::default() };
    assert_eq!(cache.prune(&old).unwrap().downloads, []);
    let check = |pruned: Pruned, expected: [bool; 4]| {
        let there = [&held_path, &left_path, &wanted_path, &stray_path].map(|path| path.exists());
        assert_eq!(there, expected, "{pruned:?}");
    };
    check(prune(&cache), [true, false, true, false]);
    drop(lease);
    check(prune(&cache), [true, false, false, false]);
    drop(held);
    check(prune(&cache), [false; 4]);
}

#[test]
fn what_is_known_of_urls_goes_with_the_carton() {
    let (_folder, cache) = new_cache();
    let carton = Carton::new(&[("one", 100_000)]);
    let whole = cache.files().insert(&mut &b"the carton itself"[..]).unwrap();
    let url_key = UrlKey::of(b"url");
    let remote = RemoteCarton {
        url_key,
        address: ShownUrl::of_text("https://host/one.carton"),
        form: RemoteForm::Carton,
        version: carton_network::http::Version { etag: None, last_modified: None, length: None },
        manifest: carton.hash(),
        blocks: Vec::new(),
        whole: Some(whole),
    };
    cache.remotes().remember(&remote).unwrap();
    let listed = cache.list().unwrap().cartons;
    assert_eq!(listed[0].address, Some(ShownUrl::of_text("https://host/one.carton")));
    let lease = carton.lease(&cache);
    prune(&cache);
    assert!(cache.files().has(&whole), "the record alone says that it is used");
    assert_eq!(cache.remotes().by_url(&url_key), Some(remote));
    drop(lease);
    prune(&cache);
    assert_eq!((cache.remotes().by_url(&url_key), count_files(&cache.layout.bucket(URLS))), (None, 0));
    assert!(!cache.files().has(&whole));
}

#[test]
fn what_was_verified_elsewhere_is_forgotten_only_with_all_else_or_when_it_is_old() {
    let (folder, cache) = new_cache();
    let elsewhere = folder.path().join("carton");
    fs::write(&elsewhere, "x").unwrap();
    let identity = FileIdentity::of(&fs::metadata(&elsewhere).unwrap());
    let verified = Verified::Carton { manifest_sha256: ManifestHash::of(b"manifest"), scope: Scope::StoredModelFiles };
    cache.verifications().remember(&identity, verified).unwrap();
    let carton = Carton::new(&[("one", 100_000)]);
    let loaded = carton.load(&cache);
    let n_records = || count_files(&cache.layout.bucket(VERIFIED));
    assert_eq!(n_records(), 2);
    cache.prune(&PruneOptions { max_size: Some(0), ..PruneOptions::default() }).unwrap();
    cache.prune(&PruneOptions { older_than: Some(DAY), ..PruneOptions::default() }).unwrap();
    assert_eq!((n_records(), cache.verifications().of(&identity)), (2, Some(verified)));
    prune(&cache);
    assert_eq!(
        (n_records(), cache.verifications().of(&identity)),
        (1, None),
        "the loaded carton's file is still known"
    );
    drop(loaded);
}

/// Gives a carton a name, as loading it does.
fn call(cache: &Cache, carton: &Carton, name: &str) {
    let about = About::new(Some(name), Some("/models/a.carton".into()));
    cache.carton(&carton.hash()).describe(&about).unwrap();
}

#[test]
fn single_cartons_are_removed_by_what_they_are_called() {
    let (_folder, cache) = new_cache();
    let one = Carton::new(&[("shared", 1_000_000), ("own of one", 200_000), ("small", 10)]);
    let two = Carton::new(&[("shared", 1_000_000), ("own of two", 300_000)]);
    let three = Carton::new(&[("own of three", 100_000)]);
    for (carton, name) in [(&one, "one"), (&two, "twin"), (&three, "twin")] {
        drop(carton.load(&cache));
        call(&cache, carton, name);
    }
    let listed = cache.list().unwrap();
    let found = listed.cartons.iter().find(|carton| carton.manifest == one.hash()).unwrap();
    assert_eq!(found.model_name.as_deref(), Some("one"));
    assert_eq!(found.path.as_deref(), Some(Path::new("/models/a.carton")));
    let dry = cache.prune(&PruneOptions { dry_run: true, ..PruneOptions::default() }).unwrap();
    assert_eq!(hashes(&dry.cartons), hashes(&listed.cartons));
    assert_eq!((dry.freed, dry.remaining), (listed.bytes, 0));

    let remove = |wanted: &str| cache.remove(&[wanted.to_owned()]);
    let refuse = |wanted: &str, expected: &str| {
        let error = remove(wanted).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
        assert_eq!(cache.list().unwrap(), listed, "nothing went");
    };
    refuse("nobody", "the cache has no carton `nobody`");
    refuse("https://me:secret@h/a?token=secret", "the cache has no carton `https://h/a?…`");
    refuse(&one.hash().to_string()[..7], "the cache has no carton");
    refuse("twin", "`twin` can be any of 2 cartons in the cache:\n  ");
    let text = remove("twin").unwrap_err().to_string();
    for carton in [&two, &three] {
        assert!(text.contains(&format!("\n  {} twin from /models/a.carton", carton.hash())), "{text}");
    }
    let lease = one.lease(&cache);
    assert!(matches!(remove("one").unwrap_err().find(), Some(CacheError::InUse { .. })));
    drop(lease);
    let error = cache.remove(&["one".to_owned(), "no-such-model".to_owned()]).unwrap_err();
    assert!(matches!(error.find(), Some(CacheError::NoCarton { .. })), "{error:?}");
    assert_eq!(cache.list().unwrap().cartons.len(), 3);

    let removed = remove("one").unwrap();
    assert_eq!(hashes(&removed.cartons), BTreeSet::from([one.hash()]));
    assert_eq!((removed.n_files, removed.remaining), (1, counted(&cache)));
    assert!(cache.files().has(&two.digest("shared")) && !cache.files().has(&one.digest("own of one")));
    assert_eq!(hashes(&cache.list().unwrap().cartons), BTreeSet::from([two.hash(), three.hash()]));
    two.load(&cache);
    let digits = format!("sha256:{}", &two.hash().to_string().to_uppercase()[..8]);
    remove(&digits).unwrap();
    remove(&three.hash().to_string()).unwrap();
    assert_eq!(cache.list().unwrap().cartons, []);
    assert_eq!(counted(&cache), 0);
}

#[test]
fn a_remote_carton_is_removed_by_its_url() {
    let (_folder, cache) = new_cache();
    let remember = |url: &str, manifest: &str| {
        let url: carton_format::url::Url = url.parse().unwrap();
        let carton = RemoteCarton {
            url_key: UrlKey::from(&url),
            address: url.shown(),
            form: RemoteForm::Carton,
            version: carton_network::http::Version { etag: None, last_modified: None, length: Some(1) },
            manifest: ManifestHash::of(manifest.as_bytes()),
            blocks: vec![(0, vec![1])],
            whole: None,
        };
        cache.remotes().remember(&carton).unwrap();
    };
    remember("https://h/a.carton?token=1", "a1");
    remember("https://h/a.carton?token=2", "a2");
    remember("https://h/b.carton", "b");
    let remove = |wanted: &str| cache.remove(&[wanted.to_owned()]).map(|removed| hashes(&removed.cartons));
    let only = |manifest: &str| BTreeSet::from([ManifestHash::of(manifest.as_bytes())]);
    let error = remove("https://h/a.carton?…").unwrap_err().to_string();
    assert!(error.contains("can be any of 2 cartons") && !error.contains("token"), "{error}");
    assert_eq!(remove("https://h/a.carton?token=1#sha256=00").unwrap(), only("a1"));
    assert_eq!(remove("https://h/a.carton?…").unwrap(), only("a2"));
    assert_eq!(remove("https://h/b.carton").unwrap(), only("b"));
    assert_eq!(cache.list().unwrap().cartons, []);
}
