//! Hashing the whole cache again.

use super::*;

fn verify(cache: &Cache) -> Vec<String> {
    let report = cache.verify::<CacheError>(&|_, _| Ok(())).unwrap();
    report.damaged.iter().map(|file| file.path.strip_prefix(cache.path()).unwrap().display().to_string()).collect()
}

/// Changes a byte as a bad disk does: every record of the file still matches.
fn rot(cache: &Cache, path: &Path, digest: Sha256Digest) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    damage(path);
    let file = File::open(path).unwrap();
    file.set_modified(modified).unwrap();
    let identity = FileIdentity::of(&file.metadata().unwrap());
    cache.remember(&identity, Verified::File { sha256: digest }).unwrap();
}

#[test]
fn a_sound_cache_stays_as_it_is() {
    let (_folder, cache) = new_cache();
    let model = example();
    model.folder(&cache);
    let report = cache.verify::<CacheError>(&|done, total| {
        assert!(done > 0 && done <= total && total == 3_000_300, "{done} {total}");
        Ok(())
    });
    let report = report.unwrap();
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
    rot(&cache, &cache.file_path(&digest), digest);
    assert!(cache.file(&digest).unwrap().is_some(), "its record vouches for it");
    let store = format!("files-v1/{}/{digest}", &digest.to_string()[..2]);
    let in_model = format!("models-v1/{}/model/a/b/large.bin", model.manifest);
    assert_eq!(verify(&cache), [store, in_model]);
    assert!(!cache.has_file(&digest));
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
    let file = |cache: &Cache, model: &Model| cache.file_path(&Sha256Digest::of(&model.files[0].1));
    let root = |cache: &Cache, model: &Model| cache.model_root(&model.manifest);
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
            crate::manifest::Manifest::from_entries([("model/a".to_owned(), Sha256Digest::of(b"a"))]).unwrap();
        drop(cache.lease_carton::<CacheError>(&manifest, &[], &|| Ok(())).unwrap());
        fs::write(cache.carton_root(&manifest.hash()).join("MANIFEST"), "x").unwrap();
    });
    check("a record", "/remote-", &|cache, _| {
        let root = cache.carton_root(&ManifestHash::of(b"x"));
        fs::create_dir(&root).unwrap();
        fs::write(root.join("remote-1"), "x").unwrap();
    });
}

#[test]
fn it_ends_when_it_is_not_wanted() {
    let (_folder, cache) = new_cache();
    example().folder(&cache);
    let stop = CacheError::Path { name: "stop".to_owned() };
    let stop = std::sync::Mutex::new(Some(stop));
    let error =
        cache.verify(&|_, _| Err(stop.lock().unwrap().take().unwrap_or(CacheError::Path { name: String::new() })));
    assert!(matches!(error, Err(CacheError::Path { .. })));
}
