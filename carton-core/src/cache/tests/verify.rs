//! Hashing the whole cache again.

use super::*;

fn verify(cache: &Cache) -> Vec<String> {
    let report = cache.verify().unwrap();
    report.damaged.iter().map(|file| file.path.strip_prefix(cache.path()).unwrap().display().to_string()).collect()
}

/// Changes a byte as a bad disk does: every record of the file still matches.
fn rot(cache: &Cache, path: &Path, digest: Sha256Digest) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    damage(path);
    let file = File::open(path).unwrap();
    file.set_modified(modified).unwrap();
    let identity = FileIdentity::of(&file.metadata().unwrap());
    cache.verifications().remember(&identity, Verified::File { sha256: digest }).unwrap();
}

#[test]
fn a_sound_cache_stays_as_it_is() {
    let (_folder, cache) = new_cache();
    let model = example();
    model.folder(&cache);
    let done = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&done);
    let cache = cache.progress(move |progress| {
        assert_eq!((&progress.stage, progress.total), (&Stage::Verify, Some(3_000_300)));
        counted.fetch_max(progress.done, Ordering::Relaxed);
    });
    let report = cache.verify().unwrap();
    assert_eq!(done.load(Ordering::Relaxed), 3_000_300);
    assert_eq!((report.n_files, report.n_bytes, report.damaged), (3, 3_000_300, Vec::new()), "links are hashed once");
    model.folder(&cache);
    assert_eq!(model.n_fed(), 3);
}

#[test]
fn a_rotten_file_is_found_and_made_again() {
    let (_folder, cache) = new_cache();
    let model = example();
    model.folder(&cache);
    let digest = Sha256Digest::of(&model.files[0].1);
    assert_eq!(model.files[0].0, "a/b/large.bin");
    rot(&cache, &cache.files().path(&digest), digest);
    assert!(cache.files().get(&digest).unwrap().is_some(), "its record vouches for it");
    let store = format!("files-v1/{}/{digest}", &digest.to_string()[..2]);
    let in_model = format!("models-v1/{}/model/a/b/large.bin", model.manifest);
    assert_eq!(verify(&cache), [store, in_model]);
    assert!(!cache.files().has(&digest));
    assert_eq!(verify(&cache), [""; 0]);
    model.n_fed();
    model.folder(&cache);
    assert_eq!(model.n_fed(), 1);
}

#[test]
fn whatever_is_wrong_goes() {
    let check = |what: &str, expected: &str, change: &dyn Fn(&Cache, &Model)| {
        let (_folder, cache) = new_cache();
        let model = example();
        model.folder(&cache);
        change(&cache, &model);
        let found = verify(&cache);
        assert!(found.len() == 1 && found[0].contains(expected), "{what}: {found:?}");
        assert_eq!(verify(&cache), [""; 0], "{what}");
        model.folder(&cache);
    };
    let file = |cache: &Cache, model: &Model| cache.files().path(&Sha256Digest::of(&model.files[0].1));
    let root = |cache: &Cache, model: &Model| cache.layout.model(&model.manifest);
    check("cut", "files-v1", &|cache, model| {
        fs::remove_file(file(cache, model)).unwrap();
        fs::write(file(cache, model), &model.files[0].1[..1_000_000]).unwrap();
    });
    check("a folder in its place", "files-v1", &|cache, model| {
        fs::remove_file(file(cache, model)).unwrap();
        fs::create_dir_all(file(cache, model).join("deep")).unwrap();
    });
    check("a link in its place", "files-v1", &|cache, model| {
        fs::remove_file(file(cache, model)).unwrap();
        std::os::unix::fs::symlink(root(cache, model).join("model/a/b/large.bin"), file(cache, model)).unwrap();
    });
    check("a small file", "model/config.json", &|cache, model| damage(&root(cache, model).join("model/config.json")));
    check("a link of the model", "model/link", &|cache, model| {
        fs::remove_file(root(cache, model).join("model/link")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root(cache, model).join("model/link")).unwrap();
    });
    check("an index", "/index", &|cache, model| fs::write(root(cache, model).join("index"), "x").unwrap());
    check("a MANIFEST", "/MANIFEST", &|cache, _| {
        let manifest =
            carton_format::manifest::Manifest::from_entries([("model/a".to_owned(), Sha256Digest::of(b"a"))]).unwrap();
        drop(cache.lease_carton(&manifest, &[], &CancelToken::default()).unwrap());
        fs::write(cache.layout.carton(&manifest.hash()).join("MANIFEST"), "x").unwrap();
    });
    check("a record", "/remote-", &|cache, _| {
        let root = cache.layout.carton(&ManifestHash::of(b"x"));
        fs::create_dir(&root).unwrap();
        fs::write(root.join("remote-1"), "x").unwrap();
    });
}

#[test]
fn files_that_the_model_does_not_have_go() {
    for stray in ["stray.py", "a/b/stray.py", "stray/deep"] {
        let (_folder, cache) = new_cache();
        let mut model = example();
        let digest =
            |path: &str| model.files.iter().find(|(name, _)| name == path).map(|(_, b)| Sha256Digest::of(b)).unwrap();
        let files = model.files.iter().map(|(path, _)| (format!("model/{path}"), digest(path)));
        let links = model.links.iter().map(|(path, target)| (format!("model/{path}"), digest(target)));
        let manifest = carton_format::manifest::Manifest::from_entries(files.chain(links)).unwrap();
        model.manifest = manifest.hash();
        drop(cache.lease_carton(&manifest, &[], &CancelToken::default()).unwrap());
        model.folder(&cache);
        assert_eq!(verify(&cache), [""; 0]);
        let path = cache.layout.model(&model.manifest).join("model").join(stray);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "x").unwrap();
        let found = verify(&cache);
        assert!(found.len() == 1 && found[0].contains("stray"), "{stray}: {found:?}");
        assert!(!path.exists());
        assert_eq!(verify(&cache), [""; 0]);
    }
}

#[test]
fn what_is_cancelled_changes_nothing() {
    let (_folder, cache) = new_cache();
    let model = example();
    model.folder(&cache);
    let listed = cache.list().unwrap();
    let cancel_token = CancelToken::default();
    let cache = cache.cancel_token(cancel_token.clone());
    let check = |what: &str, result: Result<(), crate::Error>| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Interrupted, "{what}");
    };
    cancel_token.cancel();
    check("list", cache.list().map(drop));
    check("prune", cache.prune(&PruneOptions::default()).map(drop));
    check("remove", cache.remove(&[model.manifest.to_string()]).map(drop));
    check("verify", cache.verify().map(drop));
    let cache = cache.cancel_token(CancelToken::default());
    assert_eq!(cache.list().unwrap(), listed);
    assert_eq!(cache.verify().unwrap().damaged, []);
}

#[test]
fn waiting_for_the_lock_can_be_cancelled() {
    let (_folder, cache) = new_cache();
    let _held = lock::try_acquire(&cache.layout.prune_lock(), lock::Mode::Exclusive).unwrap().unwrap();
    let cancel_token = CancelToken::default();
    let canceller = cancel_token.clone();
    let cancelling = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        canceller.cancel();
    });
    // Without the token the wait takes 15 minutes.
    let error = cache.cancel_token(cancel_token).prune(&PruneOptions::default()).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Interrupted, "{error:?}");
    cancelling.join().unwrap();
}
