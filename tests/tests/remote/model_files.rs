//! Model files of remote cartons: they are fetched once, in parts, verified, and never mixed from two versions.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use carton_core::{ErrorKind, ProgressEvent, Sha256Digest, Stage};
use carton_test_server::nginx::Nginx;
use carton_test_server::{Answer, Content, File, Request};
use carton_tests::weights;

use crate::setting::{Setting, chain, read_zip, run, write_zip};

const LENGTH: usize = 24 << 20;

/// Makes a setting with a carton of one large and one small file. `handler` changes the server's correct answers.
async fn serving(handler: impl Fn(&Request, Answer) -> Answer + Send + Sync + 'static) -> (Setting, String, Vec<u8>) {
    let setting = Setting::new();
    let weights = weights::bytes(LENGTH, 1);
    let packed = setting.pack("model", &[("weights.bin", &weights), ("vocabulary.txt", b"a b c")]).await;
    let file = File::new(Content::open(&packed.path));
    setting.server.route("/model.carton", move |request| handler(request, file.answer(request)));
    let url = setting.server.url("/model.carton");
    (setting, url, weights)
}

/// Returns a handler that serves the file until it has sent `n_bytes`, and then fails.
pub(crate) fn breaking_down(file: File, n_bytes: u64) -> impl Fn(&Request) -> Answer + Send + Sync {
    let left = AtomicU64::new(n_bytes);
    move |request| {
        let length = request.range(file.content.length()).map_or(0, |range| range.end - range.start);
        let taken = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| Some(left.saturating_sub(length)));
        match taken.unwrap_or_default() {
            0 => Answer::status(503),
            left => file.answer(request).cut_after(left.min(length)),
        }
    }
}

fn asks_for_data(request: &Request) -> bool {
    !request.is_suffix()
}

#[tokio::test]
async fn a_load_fetches_once_and_then_never_again() {
    let Some(nginx) = Nginx::start("") else { return };
    let setting = Setting::new();
    let files: [(&str, &[u8]); 3] =
        [("a.bin", &weights::bytes(LENGTH, 1)), ("b.bin", &weights::bytes(5 << 20, 2)), ("c.txt", b"c")];
    let packed = setting.pack("model", &files).await;
    let length = fs::metadata(&packed.path).unwrap().len();
    fs::copy(&packed.path, nginx.root().join("model.carton")).unwrap();
    let url = nginx.url("model.carton");

    setting.must_load(&url).await;
    let requests = nginx.requests();
    let bytes: u64 = requests.iter().map(|request| request.body_bytes).sum();
    assert!(bytes <= length + (64 << 10), "{bytes} bytes of {length} in {requests:#?}");
    assert!(requests.iter().all(|request| request.status == 206), "{requests:#?}");
    assert_eq!(setting.n_cached(&files), 3);

    nginx.forget_requests();
    setting.must_load(&url).await;
    let requests = nginx.requests();
    assert!(requests.len() <= 1, "{requests:#?}");
    assert!(requests.iter().all(|request| request.body_bytes <= 64 << 10), "{requests:#?}");
}

#[tokio::test]
async fn ranges_are_fetched_concurrently() {
    /// The number of answers that wait for another request, whether two ever met, and the number that waited in vain.
    #[derive(Default)]
    struct Meeting {
        waiting: usize,
        met: bool,
        n_alone: usize,
    }
    let meeting = Arc::new((Mutex::new(Meeting::default()), Condvar::new()));
    let shared = Arc::clone(&meeting);
    let (setting, url, _) = serving(move |request, answer| {
        // Headers and other small parts do not count.
        let is_large = request.range(u64::MAX).is_some_and(|range| range.end - range.start > 64 << 10);
        if asks_for_data(request) && is_large {
            let (meeting, changed) = &*shared;
            let mut state = meeting.lock().unwrap();
            state.waiting += 1;
            state.met |= state.waiting > 1;
            changed.notify_all();
            // The first answer shows what there is to fetch, so no other request comes before it.
            let alone = |state: &mut Meeting| !state.met && state.n_alone < 3;
            let (mut state, _) = changed.wait_timeout_while(state, Duration::from_millis(400), alone).unwrap();
            state.n_alone += 1;
            state.waiting -= 1;
        }
        answer
    })
    .await;
    setting.must_load(&url).await;
    assert!(meeting.0.lock().unwrap().met, "one range at a time");
}

#[tokio::test]
async fn progress_is_told_in_bytes() {
    let (setting, url, _) = serving(|_, answer| answer).await;
    let events = Arc::new(Mutex::new(Vec::new()));
    let progress = {
        let events = Arc::clone(&events);
        move |event: &ProgressEvent| events.lock().unwrap().push(event.clone())
    };
    setting.loading(&url).progress(progress).await.unwrap();
    let events = events.lock().unwrap();
    let fetched: Vec<&ProgressEvent> = events.iter().filter(|event| event.stage == Stage::Fetch).collect();
    let last = fetched.last().expect("no progress of the download");
    assert_eq!(last.unit, "bytes");
    let total = last.total.unwrap();
    assert!(total >= LENGTH as u64 && last.done <= total, "{last:?}");
    assert!(fetched.windows(2).all(|pair| pair[0].done <= pair[1].done), "{fetched:?}");
}

#[tokio::test]
async fn a_cut_download_goes_on_where_it_was() {
    // The first answer for each range breaks off in its middle.
    let ends = Mutex::new(BTreeSet::new());
    let (setting, url, weights) = serving(move |request, answer| match request.range(u64::MAX) {
        Some(range) if asks_for_data(request) && ends.lock().unwrap().insert(range.end) => {
            answer.cut_after((range.end - range.start) / 2)
        }
        _ => answer,
    })
    .await;
    setting.must_load(&url).await;
    assert_eq!(setting.n_cached(&[("", &weights)]), 1);
    let written = setting.server.written_for("/model.carton");
    assert!(written < (LENGTH as u64) * 11 / 10, "{written} bytes for {LENGTH}");
}

#[tokio::test]
async fn a_failed_download_goes_on_in_the_next_load() {
    let (setting, url, weights) = serving(|_, answer| answer).await;
    let file = File::new(Content::open(&setting.place.path().join("model.carton")));
    setting.server.route("/model.carton", breaking_down(file.clone(), LENGTH as u64 / 2));
    setting.must_fail(&url, ErrorKind::Network).await;
    assert_eq!(setting.n_cached(&[("", &weights)]), 0);
    let before = setting.server.written_for("/model.carton");
    assert!(before >= 2 << 20, "{before}");

    setting.server.forget();
    setting.server.serve("/model.carton", file);
    setting.must_load(&url).await;
    assert_eq!(setting.n_cached(&[("", &weights)]), 1);
    let after = setting.server.written_for("/model.carton");
    // 64 KiB of metadata each time, and the part of each of the four ranges that was not recorded yet.
    assert!(before + after <= LENGTH as u64 + (3 << 20), "{before} bytes, then {after}, for {LENGTH}");
    assert!(after < LENGTH as u64, "nothing was kept");
}

#[tokio::test]
async fn a_file_that_changes_underneath_is_an_error_and_not_a_mixture() {
    let setting = Setting::new();
    let (first, second) = (weights::bytes(LENGTH, 1), weights::bytes(LENGTH, 2));
    let old = setting.pack("model", &[("weights.bin", &first)]).await.path;
    // Other weights in the same place, so that only the hash differs.
    let mut bytes = fs::read(&old).unwrap();
    let start = bytes.windows(64).position(|window| window == &first[..64]).unwrap();
    bytes[start..start + LENGTH].copy_from_slice(&second);
    let new = setting.place.path().join("new.carton");
    fs::write(&new, &bytes).unwrap();
    let open = |path: &Path| File::new(Content::open(path));
    let check = async |name: &str, old: File, new: File, kinds: &[ErrorKind]| {
        let path = format!("/{name}.carton");
        // The metadata and the first range are of the old file.
        setting.server.route(&path, move |request| match request.number {
            0 | 1 => old.answer(request).paced(256 << 10, Duration::from_millis(20)),
            _ => new.answer(request),
        });
        let error = setting.load(&setting.server.url(&path)).await.expect_err(name);
        assert!(kinds.contains(&error.kind()), "{name}: {:?}: {}", error.kind(), chain(&error));
        assert_eq!(setting.n_cached(&[("", &first), ("", &second)]), 0, "{name}");
        chain(&error)
    };
    let network = &[ErrorKind::Network];
    let text = check("etag", open(&old), open(&new), network).await;
    assert!(text.contains("changed"), "{text}");
    let same_tag = |path: &Path| open(path).with_etag("\"same\"");
    let dated = |path: &Path| File { etag: None, ..open(path) };
    let newer = File { last_modified: Some("Sat, 03 Jan 2026 03:04:05 GMT".to_owned()), ..dated(&new) };
    check("date", dated(&old), newer, network).await;
    let weak = |path: &Path, tag| open(path).with_etag(tag);
    check("weak", weak(&old, "W/\"1\""), weak(&new, "W/\"2\""), network).await;
    // If a server sends the same tag for both, or no tag, the hash reveals the change.
    check("same-tag", same_tag(&old), same_tag(&new), &[ErrorKind::Integrity]).await;
    let silent = |path: &Path| open(path).without_validators();
    check("silent", silent(&old), silent(&new), &[ErrorKind::Integrity]).await;
    let longer = [bytes.as_slice(), &[0; 10]].concat();
    check("length", silent(&old), File::new(longer).without_validators(), network).await;
}

/// Returns the bytes that the cache takes on the disk; hard links are counted once.
fn takes(setting: &Setting) -> u64 {
    let mut seen = BTreeSet::new();
    let files = setting.cache_files();
    let once = files.iter().filter(|(path, _)| {
        let metadata = fs::symlink_metadata(path).unwrap();
        seen.insert((metadata.dev(), metadata.ino()))
    });
    once.map(|(_, length)| length).sum()
}

#[tokio::test]
async fn a_server_without_ranges_costs_one_download() {
    let setting = Setting::new();
    let files: [(&str, &[u8]); 2] = [("weights.bin", &weights::bytes(LENGTH, 1)), ("small", b"s")];
    let packed = setting.pack("model", &files).await;
    let length = fs::metadata(&packed.path).unwrap().len();
    type Change = fn(Answer) -> Answer;
    let changes: [(&str, Change); 3] =
        [("plain", |answer| answer), ("chunked", Answer::chunked), ("no-length", Answer::without_length)];
    for (name, change) in changes {
        let file = File::new(Content::open(&packed.path)).without_ranges();
        let path = format!("/{name}.carton");
        setting.server.route(&path, move |request| change(file.answer(request)));
        let url = setting.server.url(&path);
        setting.must_load(&url).await;
        let exchanges = setting.server.exchanges_for(&path);
        let whole = exchanges.iter().filter(|exchange| exchange.written >= length).count();
        assert!(whole <= 1 && exchanges.len() <= 3, "{name}: {exchanges:#?}");
        assert!(takes(&setting) < length * 5 / 4, "{name}: {:#?}", setting.cache_files());
        setting.server.forget();
        setting.must_load(&url).await;
        assert!(setting.server.written_for(&path) < length / 2, "{name}: the carton came twice");
        assert!(takes(&setting) < length * 5 / 4, "{name}: {:#?}", setting.cache_files());
        // Nothing is missing, neither for a load without a network nor for a load with the expected hash.
        let written = setting.server.written_for(&path);
        run(setting.loading_offline(&url)).await.unwrap_or_else(|error| panic!("{}", chain(&error)));
        setting.must_load(&format!("{url}#sha256={}", packed.manifest_sha256)).await;
        assert_eq!(setting.server.written_for(&path), written);
        let package = setting.open(&url).await.unwrap();
        assert!(package.verify().await.unwrap().is_good());
        drop(package);
        // If a file is missing, the whole carton is fetched again.
        fs::remove_file(setting.cached_path(&Sha256Digest::of(files[0].1))).unwrap();
        fs::remove_dir_all(setting.place.config().cache_dir.join("models-v1")).unwrap();
        setting.must_load(&url).await;
        assert!(takes(&setting) < length * 5 / 4, "{name}: {:#?}", setting.cache_files());
        fs::remove_dir_all(setting.place.config().cache_dir).unwrap();
    }
}

#[tokio::test]
async fn without_ranges_and_cut_is_an_error() {
    let setting = Setting::new();
    let packed = setting.pack("model", &[("weights.bin", &weights::bytes(LENGTH, 1))]).await;
    let file = File::new(Content::open(&packed.path)).without_ranges();
    setting.server.route("/model.carton", move |request| file.answer(request).cut_after(5 << 20));
    let url = setting.server.url("/model.carton");
    setting.must_fail(&url, ErrorKind::Network).await;
    let n_requests = setting.server.exchanges_for("/model.carton").len();
    assert!(n_requests <= 8, "{n_requests} requests");
}

#[tokio::test]
async fn wrong_bytes_are_never_kept() {
    // Bytes that do not match MANIFEST.
    let (setting, url, weights) = serving(answer_with_wrong_bytes).await;
    let text = setting.must_fail(&url, ErrorKind::Integrity).await;
    assert!(text.contains("weights.bin"), "{text}");
    assert_eq!(setting.n_cached(&[("", &weights)]), 0);
    // No wrong bytes are left for the next load either.
    let file = File::new(Content::open(&setting.place.path().join("model.carton")));
    setting.server.serve("/model.carton", file);
    setting.must_load(&url).await;
    assert_eq!(setting.n_cached(&[("", &weights)]), 1);
}

/// Replaces requested data by zeros, with correct headers.
fn answer_with_wrong_bytes(request: &Request, answer: Answer) -> Answer {
    if asks_for_data(request) { answer.with_zeros() } else { answer }
}

#[tokio::test]
async fn lies_about_ranges_are_found_out() {
    type Change = fn(Answer) -> Answer;
    let lies: [(&str, Change); 7] = [
        ("another range", |answer| answer.header("Content-Range", "bytes 5-1004/26000000")),
        ("no range", |answer| answer.without_header("Content-Range")),
        ("no numbers", |answer| answer.header("Content-Range", "bytes a-b/c")),
        ("many ranges", |answer| {
            answer.header("Content-Type", "multipart/byteranges; boundary=x").without_header("Content-Range")
        }),
        ("encoded", |answer| answer.header("Content-Encoding", "gzip")),
        ("all of it", |answer| answer.with_status(200).without_header("Content-Range")),
        ("nothing", |_| Answer::status(204)),
    ];
    for (name, lie) in lies {
        let (setting, url, weights) =
            serving(move |request, answer| if asks_for_data(request) { lie(answer) } else { answer }).await;
        let error = setting.load(&url).await.expect_err(name);
        assert!(matches!(error.kind(), ErrorKind::Network | ErrorKind::Integrity), "{name}: {}", chain(&error));
        assert_eq!(setting.n_cached(&[("", &weights)]), 0, "{name}");
        let n_requests = setting.server.exchanges().len();
        assert!(n_requests < 20, "{name}: {n_requests} requests");
    }
}

#[tokio::test]
async fn lengths_that_are_lies_are_found_out() {
    type Change = fn(Answer) -> Answer;
    let lies: [(&str, Change); 4] = [
        ("too long", |answer| answer.claiming(1 << 30)),
        ("too short", |answer| answer.claiming(1000)),
        ("endless", |answer| answer.endlessly()),
        ("endless chunks", |answer| answer.endlessly().chunked()),
    ];
    for (name, lie) in lies {
        let (setting, url, weights) =
            serving(move |request, answer| if asks_for_data(request) { lie(answer) } else { answer }).await;
        // The load either succeeds, because extra bytes may be cut off, or fails with an error.
        match setting.load(&url).await {
            Ok(_) => assert_eq!(setting.n_cached(&[("", &weights)]), 1, "{name}"),
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Network | ErrorKind::Integrity), "{name}: {}", chain(&error));
                assert_eq!(setting.n_cached(&[("", &weights)]), 0, "{name}");
            }
        }
        let written = setting.server.written_for("/model.carton");
        assert!(written < 20 * LENGTH as u64, "{name}: {written} bytes were sent");
    }
}

#[tokio::test]
async fn a_stall_ends() {
    let (setting, url, _) =
        serving(|request, answer| if asks_for_data(request) { answer.stall_after(1000) } else { answer }).await;
    let start = Instant::now();
    let text = setting.must_fail(&url, ErrorKind::Network).await;
    assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
    assert!(text.contains("sent only 1000 bytes"), "{text}");

    // A server that sends a byte now and then counts as stalled.
    let (setting, url, _) =
        serving(
            |request, answer| {
                if asks_for_data(request) { answer.paced(1, Duration::from_millis(300)) } else { answer }
            },
        )
        .await;
    let start = Instant::now();
    setting.must_fail(&url, ErrorKind::Network).await;
    assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
}

#[tokio::test]
async fn what_passes_is_waited_for() {
    let (setting, url, _) = serving(|request, answer| match request.number {
        0 => Answer::status(503),
        1 => Answer::status(429).header("Retry-After", "1"),
        3 => answer.cut_after(10),
        4 => answer.stall_after(10),
        5 => Answer::raw("garbage"),
        _ => answer,
    })
    .await;
    let start = Instant::now();
    setting.must_load(&url).await;
    assert!(start.elapsed() > Duration::from_secs(1), "Retry-After was not waited for");
}

#[tokio::test]
async fn redirects_are_followed_each_time() {
    let (setting, url, weights) = serving(|_, answer| answer).await;
    let target = url.clone();
    setting.server.route("/latest", move |_| Answer::redirect(302, target.as_str()));
    setting.must_load(&setting.server.url("/latest")).await;
    assert_eq!(setting.n_cached(&[("", &weights)]), 1);
}

#[tokio::test]
async fn a_load_that_is_dropped_stops_fetching() {
    let (setting, url, _) =
        serving(
            |request, answer| {
                if asks_for_data(request) { answer.paced(64 << 10, Duration::from_millis(50)) } else { answer }
            },
        )
        .await;
    let load = setting.loading(&url);
    assert!(tokio::time::timeout(Duration::from_millis(600), load).await.is_err(), "it loaded too quickly");
    let deadline = Instant::now() + Duration::from_secs(5);
    while setting.server.exchanges().iter().any(|exchange| !exchange.is_over) {
        assert!(Instant::now() < deadline, "it goes on fetching");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_remote_carton_that_was_edited_is_noticed_although_its_files_are_cached() {
    let setting = Setting::new();
    let weights = weights::bytes(LENGTH, 1);
    let packed = setting.pack("model", &[("weights.bin", &weights), ("code.py", b"print(1)")]).await;
    let url = setting.serve("/model.carton", &packed.path);
    setting.must_load(&url).await;
    for (entry, has_record) in
        [("model/code.py", true), ("model/weights.bin", true), ("model/code.py", false), ("model/weights.bin", false)]
    {
        let edited = edit(&packed.path, entry);
        let url = setting.serve(&format!("/{has_record}/{entry}"), &edited);
        if !has_record {
            // As in a cache of an earlier version.
            let record = setting.place.config().cache_dir.join("cartons-v1").join(packed.manifest_sha256.to_string());
            let _ = fs::remove_file(record.join("checksums"));
        }
        let message = setting.must_fail(&url, ErrorKind::Integrity).await;
        assert!(message.contains(entry), "{message}");
        // The same file without the model folder.
        let package = setting.open(&url).await.unwrap();
        let error = package.read_file(entry, u64::MAX).unwrap_err();
        assert!(error.to_string().starts_with(&format!("`{entry}` is not the file that MANIFEST lists")), "{error}");
    }
    setting.must_load(&url).await;
}

/// Writes the carton with one byte of an entry changed. Does not use our own writer.
fn edit(carton: &Path, entry: &str) -> std::path::PathBuf {
    let output = carton.with_extension("edited.carton");
    let mut entries = read_zip(carton);
    let (_, content) = entries.iter_mut().find(|(name, _)| name == entry).unwrap();
    content[0] ^= 1;
    write_zip(&output, &entries);
    output
}
