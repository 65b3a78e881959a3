//! Downloads in the cache: sharing, waiting, verification, and repetition.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use carton_core::{CancelToken, ErrorKind, Sha256Digest, Stage};
use carton_test_server::{Content, File};
use carton_tests::weights;

use crate::links::link;
use crate::model_files::breaking_down;
use crate::setting::{Setting, chain, run};

const LENGTH: usize = 8 << 20;

#[tokio::test]
async fn a_file_that_two_cartons_share_is_fetched_and_stored_once() {
    let setting = Setting::new();
    let shared = weights::bytes(LENGTH, 1);
    setting.server.serve("/shared", File::new(shared.clone()));
    let url = setting.server.url("/shared");
    let one = setting.pack("one", &[("weights.bin", &shared), ("head.bin", b"one")]).await;
    let two = setting.pack("two", &[("other/name.bin", &shared), ("head.bin", b"two")]).await;
    let one = link(&one.path, "model/weights.bin", &shared, std::slice::from_ref(&url));
    let two = link(&two.path, "model/other/name.bin", &shared, std::slice::from_ref(&url));
    let (one, two) = (setting.serve("/one.carton", one), setting.serve("/two.carton", two));
    let first = setting.must_load(&one).await;
    setting.must_load(&two).await;
    drop(first);
    assert_eq!(setting.server.written_for("/shared"), LENGTH as u64);
    let large = setting.cache_files();
    let inodes: std::collections::BTreeSet<u64> = large
        .keys()
        .filter(|path| fs::metadata(path).is_ok_and(|metadata| metadata.len() == LENGTH as u64))
        .map(|path| fs::metadata(path).unwrap().ino())
        .collect();
    assert_eq!(inodes.len(), 1, "{large:#?}");
}

#[tokio::test]
async fn a_carton_that_holds_a_cached_file_does_not_fetch_it() {
    let setting = Setting::new();
    let shared = weights::bytes(LENGTH, 1);
    let one = setting.pack("one", &[("weights.bin", &shared), ("head.bin", b"one")]).await;
    let two = setting.pack("two", &[("weights.bin", &shared), ("head.bin", b"two")]).await;
    let (one, two) = (setting.serve("/one.carton", one.path), setting.serve("/two.carton", two.path));
    setting.must_load(&one).await;
    setting.must_load(&two).await;
    let written = setting.server.written_for("/two.carton");
    assert!(written < 256 << 10, "{written} bytes of the second carton were fetched");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_loads_at_once_fetch_once() {
    let setting = Arc::new(Setting::new());
    let files: [(&str, &[u8]); 2] = [("a.bin", &weights::bytes(LENGTH, 1)), ("b.bin", &weights::bytes(LENGTH, 2))];
    let packed = setting.pack("model", &files).await;
    let length = fs::metadata(&packed.path).unwrap().len();
    let url = setting.serve("/model.carton", &packed.path);
    let loads: Vec<_> = (0..8)
        .map(|_| {
            let (setting, url) = (Arc::clone(&setting), url.clone());
            tokio::spawn(async move { drop(setting.must_load(&url).await) })
        })
        .collect();
    for load in loads {
        load.await.unwrap();
    }
    let written = setting.server.written_for("/model.carton");
    assert!(written <= length + 8 * (64 << 10), "{written} bytes of {length} were sent");
}

#[tokio::test]
async fn a_corrupted_file_is_noticed_and_fetched_again() {
    let setting = Setting::new();
    let weights = weights::bytes(LENGTH, 1);
    let packed = setting.pack("model", &[("weights.bin", &weights), ("small.txt", b"small")]).await;
    let url = format!("{}#sha256={}", setting.serve("/model.carton", &packed.path), packed.manifest_sha256);
    let path = setting.cached_path(&Sha256Digest::of(&weights));
    type Damage = fn(&fs::File);
    let damages: [(&str, Damage); 3] = [
        ("a byte", |file| file.write_all_at(b"!", LENGTH as u64 / 2).unwrap()),
        ("its length", |file| file.set_len(LENGTH as u64 - 1).unwrap()),
        ("a byte and the time", |file| {
            let modified = file.metadata().unwrap().modified().unwrap();
            file.write_all_at(b"!", 5).unwrap();
            file.set_modified(modified).unwrap();
        }),
    ];
    for (what, damage) in damages {
        setting.must_load(&url).await;
        assert_eq!(setting.n_cached(&[("", &weights)]), 1);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        damage(&fs::File::options().write(true).open(&path).unwrap());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        setting.server.forget();
        setting.must_load(&url).await;
        assert_eq!(setting.n_cached(&[("", &weights)]), 1, "{what}");
        let written = setting.server.written_for("/model.carton");
        assert!(written >= LENGTH as u64, "{what}: {written} bytes were fetched");
    }
    // If nothing can be fetched, the load fails with an error, and wrong bytes are not used.
    let file = fs::File::options().write(true).open(&path);
    let file = file.or_else(|_| {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        fs::File::options().write(true).open(&path)
    });
    file.unwrap().write_all_at(b"!", 5).unwrap();
    let error = run(setting.loading_offline(&url)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Network, "{}", chain(&error));
}

#[tokio::test]
async fn a_corrupted_leftover_of_a_download_does_no_harm() {
    let setting = Setting::new();
    let weights = weights::bytes(LENGTH, 1);
    let packed = setting.pack("model", &[("weights.bin", &weights)]).await;
    let file = File::new(carton_test_server::Content::open(&packed.path));
    let url = setting.server.url("/model.carton");
    for damage in 0..3 {
        setting.server.route("/model.carton", breaking_down(file.clone(), LENGTH as u64 / 2));
        setting.load(&url).await.unwrap_err();
        let folder = setting.place.config().cache_dir.join("downloads-v1");
        let leftovers: Vec<_> = setting.cache_files().into_keys().filter(|path| path.starts_with(&folder)).collect();
        assert!(!leftovers.is_empty(), "nothing is kept of a download that failed");
        for path in leftovers {
            match damage {
                0 => fs::File::options().write(true).open(&path).unwrap().write_all_at(b"damaged!", 0).unwrap(),
                1 => fs::File::options().write(true).open(&path).unwrap().set_len(10).unwrap(),
                _ => fs::write(&path, "").unwrap(),
            }
        }
        setting.server.forget();
        setting.server.serve("/model.carton", file.clone());
        setting.must_load(&url).await;
        assert_eq!(setting.n_cached(&[("", &weights)]), 1);
        fs::remove_dir_all(setting.place.config().cache_dir).unwrap();
        setting.server.forget();
    }
}

#[tokio::test]
async fn what_single_files_are_found_to_be_is_recorded_once() {
    let setting = Setting::new();
    let files: [(&str, &[u8]); 2] = [("a.bin", &weights::bytes(LENGTH, 1)), ("b.bin", &weights::bytes(LENGTH, 2))];
    let packed = setting.pack("model", &files).await;
    let url = setting.serve("/model.carton", &packed.path);
    let folder = setting.place.config().cache_dir.join("cartons-v1").join(packed.manifest_sha256.to_string());
    let record = || fs::read_to_string(folder.join("checksums")).unwrap_or_default();
    let read = async || {
        let package = setting.open(url.as_str()).await.unwrap();
        let read = move || {
            package.read_file("model/a.bin", u64::MAX).unwrap();
            package.read_file_range("model/b.bin", 5, &mut [0; 5]).unwrap();
        };
        tokio::task::spawn_blocking(read).await.unwrap();
    };
    read().await;
    for (name, bytes) in files {
        assert!(record().contains(&Sha256Digest::of(bytes).to_string()), "{name} is not on record: {}", record());
    }
    let inode = || fs::metadata(folder.join("checksums")).unwrap().ino();
    let before = inode();
    read().await;
    assert_eq!(inode(), before, "nothing new is not recorded again");
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_one_file_of_a_remote_carton_reports_progress_and_can_be_cancelled() {
    let setting = Setting::new();
    let weights = weights::bytes(LENGTH, 1);
    let packed = setting.pack("model", &[("weights.bin", &weights)]).await;
    let file = File::new(Content::open(&packed.path));
    setting.server.serve("/model.carton", file.clone());
    let package = setting.open(setting.server.url("/model.carton")).await.unwrap();
    let slow = file.clone();
    setting.server.route("/model.carton", move |request| slow.answer(request).paced(4096, Duration::from_millis(50)));
    setting.server.forget();
    let token = CancelToken::default();
    let done = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&done);
    let reading = package.clone().cancel_token(token.clone()).progress(move |event| {
        assert_eq!(event.stage, Stage::Fetch);
        counted.fetch_max(event.done, Ordering::Relaxed);
    });
    let (error, took) = std::thread::scope(|scope| {
        let reading = scope.spawn(|| reading.read_file("model/weights.bin", u64::MAX).unwrap_err());
        setting.server.wait_for_requests("/model.carton", 1);
        while done.load(Ordering::Relaxed) == 0 && !reading.is_finished() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let cancelled = Instant::now();
        token.cancel();
        (reading.join().unwrap(), cancelled.elapsed())
    });
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    // The token ends only the calls of the package that it was given to.
    setting.server.serve("/model.carton", file);
    assert!(package.read_file("model/weights.bin", u64::MAX).unwrap() == weights);
}
