//! The lock of a file, its download, and small files.

use super::*;

fn look(lock: &FileLock<'_>) -> bool {
    lock.file(&CancelToken::default()).unwrap().is_some()
}

#[test]
fn a_download_outlives_its_holder_and_is_adopted() {
    let (_folder, cache) = new_cache();
    let bytes = vec![7; 100_000];
    let digest = Sha256Digest::of(&bytes);
    let lock = cache.files().lock(&digest, &CancelToken::default()).unwrap();
    assert!(!look(&lock));
    fs::write(lock.download_folder().unwrap().join("data"), &bytes[..50_000]).unwrap();
    drop(lock);
    let lock = cache.files().lock(&digest, &CancelToken::default()).unwrap();
    let folder = lock.download_folder().unwrap();
    assert_eq!(fs::metadata(folder.join("data")).unwrap().len(), 50_000);
    fs::write(folder.join("data"), &bytes).unwrap();
    fs::write(folder.join("journal"), "x").unwrap();
    assert!(!cache.files().has(&digest));
    let file = lock.adopt(&folder.join("data")).unwrap();
    assert_eq!(io::read_to_string(file).unwrap().len(), bytes.len());
    assert!(!folder.exists() && look(&lock) && cache.files().has(&digest));
    let metadata = fs::metadata(cache.files().path(&digest)).unwrap();
    assert_eq!(metadata.mode() & 0o777, 0o444);
    let verified = cache.verifications().of(&FileIdentity::of(&metadata));
    assert_eq!(verified, Some(Verified::File { sha256: digest }), "it need not be hashed again");
}

#[test]
fn whatever_took_a_place_in_the_cache_gives_way() {
    let (folder, cache) = new_cache();
    let bytes = vec![7; 100_000];
    let digest = cache.files().insert(&mut &bytes[..]).unwrap();
    let place = cache.files().path(&digest);
    let check = |what: &str, replace: &dyn Fn()| {
        fs::remove_file(&place).unwrap();
        replace();
        assert!(cache.files().get(&digest).unwrap().is_none() && !cache.files().has(&digest), "{what}");
        let lock = cache.files().lock(&digest, &CancelToken::default()).unwrap();
        assert!(!look(&lock), "{what}");
        let data = lock.download_folder().unwrap().join("data");
        fs::write(&data, &bytes).unwrap();
        lock.adopt(&data).unwrap();
        assert!(look(&lock), "{what}");
    };
    let elsewhere = folder.path().join("elsewhere");
    fs::write(&elsewhere, &bytes).unwrap();
    check("nothing", &|| ());
    check("a folder", &|| fs::create_dir_all(place.join("deep")).unwrap());
    check("a link", &|| std::os::unix::fs::symlink(&elsewhere, &place).unwrap());
    check("a download that is no folder", &|| fs::write(cache.layout.download(&digest), "x").unwrap());
}

#[test]
fn what_is_no_file_is_not_adopted() {
    let (folder, cache) = new_cache();
    let digest = Sha256Digest::of(b"x");
    let lock = cache.files().lock(&digest, &CancelToken::default()).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).unwrap();
    for name in ["link", ".", "missing"] {
        lock.adopt(&folder.path().join(name)).unwrap_err();
    }
    assert!(!cache.files().has(&digest));
}

#[test]
fn a_wait_lasts_as_long_as_the_download_goes_on() {
    let (_folder, cache) = new_cache();
    let digest = Sha256Digest::of(b"x");
    let lock = cache.files().lock(&digest, &CancelToken::default()).unwrap();
    let data = lock.download_folder().unwrap().join("data");
    let impatient = Cache::open(cache.path()).unwrap().with_longest_wait(Duration::from_millis(500));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| impatient.files().lock(&digest, &CancelToken::default()).map(|_| ()));
        for number in 0..100 {
            std::thread::sleep(Duration::from_millis(10));
            fs::write(&data, [number]).unwrap();
        }
        assert!(!waiting.is_finished());
        let error = waiting.join().unwrap().unwrap_err();
        assert!(matches!(error, CacheError::Locked { .. }), "{error}");
    });
}

#[test]
fn small_files_are_verified_at_each_use() {
    let (_folder, cache) = new_cache();
    let files: Vec<Vec<u8>> = vec![Vec::new(), b"a".to_vec(), vec![3; 5000]];
    let named: Vec<(Sha256Digest, &[u8])> = files.iter().map(|bytes| (Sha256Digest::of(bytes), &bytes[..])).collect();
    cache.files().insert_small(&named).unwrap();
    for (digest, bytes) in &named {
        assert_eq!(cache.files().read_small(digest, 5000).unwrap().as_deref(), Some(*bytes));
    }
    let (large, _) = named[2];
    assert_eq!(cache.files().read_small(&large, 4999).unwrap(), None);
    assert!(cache.files().has(&large), "too large is not damaged");
    assert_eq!(cache.files().read_small(&Sha256Digest::of(b"other"), 5000).unwrap(), None);
    damage(&cache.files().path(&large));
    assert_eq!(cache.files().read_small(&large, 5000).unwrap(), None);
    assert!(!cache.files().has(&large));
    damage_length(&cache.files().path(&named[1].0));
    cache.files().insert_small(&named).unwrap();
    for (digest, bytes) in &named {
        assert_eq!(cache.files().read_small(digest, 5000).unwrap().as_deref(), Some(*bytes));
    }
    assert_eq!(count_files(&cache.layout.bucket(PARTIAL)), 0);
}

fn damage_length(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(path, "").unwrap();
}

#[test]
fn downloads_that_nobody_goes_on_with_are_swept() {
    let (_folder, cache) = new_cache();
    let day = Duration::from_secs(24 * 60 * 60);
    let download = |name: &str, folder_age: u32, data_age: u32| {
        let digest = Sha256Digest::of(name.as_bytes());
        let folder = cache.layout.download(&digest);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("data"), "x").unwrap();
        let now = std::time::SystemTime::now();
        for (path, age) in [(folder.join("data"), data_age), (folder.clone(), folder_age)] {
            File::open(path).unwrap().set_modified(now - day * age).unwrap();
        }
        (digest, folder)
    };
    let (_, old) = download("old", 31, 31);
    let (_, young) = download("young", 29, 29);
    let (_, going_on) = download("going on", 31, 1);
    let (digest, held) = download("held", 31, 31);
    let lock = cache.files().lock(&digest, &CancelToken::default()).unwrap();
    Cache::open(cache.path()).unwrap();
    assert_eq!([&old, &young, &going_on, &held].map(|path| path.exists()), [false, true, true, true]);
    drop(lock);
    Cache::open(cache.path()).unwrap();
    assert!(!held.exists());
}
