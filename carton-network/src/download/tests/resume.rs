//! Downloads that continue an earlier attempt.

use super::*;

#[test]
fn only_what_is_missing_is_fetched() {
    // The number of requests that are answered completely, and the number of bytes in each later answer.
    for (n_served, n_bytes) in [(0, 1), (0, CHUNK - 1), (1, 0), (3, CHUNK / 3), (9, 1)] {
        let (all, folder) = (content(12 * CHUNK + 77), tempfile::tempdir().unwrap());
        let server = FileServer::start(all.clone());
        let target = target(&server.url, folder.path());
        server.stall_from(n_served, n_bytes);
        let least = (n_served * CHUNK + n_bytes) as u64;
        leave_after(&target, least);
        server.serve();
        let brought = fetch(&target).unwrap();
        assert!(brought.bytes == all && brought.download.is_resumed());
        let (received, kept) = (brought.activity.received(), brought.activity.kept());
        assert_eq!(received + kept, all.len() as u64);
        // The bytes received last may not have been written yet.
        assert!(kept + CHUNK as u64 > least, "{n_served} {n_bytes}: kept {kept}");
        assert!(server.requests().iter().all(|request| request.header("if-range") == Some("\"1\"")));
    }
}

#[test]
fn a_complete_download_needs_no_server() {
    let (all, folder) = (content(3 * CHUNK), tempfile::tempdir().unwrap());
    let server = FileServer::start(all.clone());
    let target = target(&server.url, folder.path());
    fetch(&target).unwrap();
    let offline = Network::new(NetworkOptions { offline: true, ..NetworkOptions::default() });
    let activity = Arc::new(Activity::default());
    let download = Download::start(&offline, &target, &activity).unwrap();
    assert!(read(&download).unwrap() == all);
    assert_eq!((activity.received(), activity.kept()), (0, all.len() as u64));
}

#[test]
fn downloads_of_something_else_start_over() {
    let all = content(6 * CHUNK);
    let server = FileServer::start(all.clone());
    let other = FileServer::start(content(6 * CHUNK));
    let (one, two) = (strong("1"), strong("2"));
    // What differs at the second attempt, and whether it can be continued nevertheless.
    let check = |change: &dyn Fn(&mut Target<'_>), goes_on: bool| {
        // Of its own: requests of a download that was left may arrive when the next one counts its requests.
        let (server, folder) = (FileServer::start(all.clone()), tempfile::tempdir().unwrap());
        let range = Some(as_u64(CHUNK..5 * CHUNK));
        let mut target = Target { range, version: Some(&one), ..target(&server.url, folder.path()) };
        server.stall_from(2, 100);
        leave_after(&target, 2 * CHUNK as u64);
        server.serve();
        // Only what changes may live shorter than the target.
        change(&mut target);
        let expected = target.range.clone().map_or(0..all.len(), |range| range.start as usize..range.end as usize);
        let brought = fetch(&target).unwrap();
        assert!(brought.bytes == all[expected]);
        assert_eq!(brought.download.is_resumed(), goes_on);
    };
    check(&|_| {}, true);
    check(&|target| target.version = None, true);
    check(&|target| target.limit = 4 * CHUNK as u64, true);
    check(&|target| target.range = None, false);
    check(&|target| target.range = Some(as_u64(CHUNK..4 * CHUNK)), false);
    check(&|target| target.range = Some(as_u64(CHUNK + 1..5 * CHUNK + 1)), false);
    check(&|target| target.accept_encoded = true, false);

    // Another URL, and another version, which the server does not have.
    let folder = tempfile::tempdir().unwrap();
    server.stall_from(0, 100);
    leave_after(&target(&server.url, folder.path()), 100);
    assert!(!fetch(&target(&other.url, folder.path())).unwrap().download.is_resumed());
    let pinned = Target { version: Some(&two), ..target(&server.url, folder.path()) };
    server.serve();
    let error = failure(&pinned);
    assert!(matches!(error, DownloadError::Network(NetworkError::Changed { .. })), "{error}");
}

#[test]
fn without_proof_of_the_version_nothing_is_continued() {
    let date = "Sat, 21 Nov 2026 19:30:00 GMT";
    let check = |etag: Option<&str>, date: Option<&str>, pin: Option<&Version>, goes_on: bool| {
        let (all, folder) = (content(6 * CHUNK), tempfile::tempdir().unwrap());
        let server = FileServer::start(all.clone());
        (server.file().etag, server.file().last_modified) = (etag.map(str::to_owned), date.map(str::to_owned));
        let target = Target { version: pin, ..target(&server.url, folder.path()) };
        server.stall_from(2, 100);
        leave_after(&target, 2 * CHUNK as u64);
        server.serve();
        let brought = fetch(&target).unwrap();
        assert!(brought.bytes == all);
        assert_eq!(brought.download.is_resumed(), goes_on, "{etag:?} {date:?}");
    };
    let weak = Version { etag: Some("W/\"1\"".to_owned()), ..strong("") };
    check(Some("\"1\""), None, None, true);
    check(Some("W/\"1\""), None, None, false);
    check(Some("W/\"1\""), None, Some(&weak), true);
    check(None, Some(date), None, true);
    check(None, None, None, false);
    check(None, None, Some(&Version { etag: None, last_modified: None, length: None }), true);
}

#[test]
fn what_was_pinned_once_is_not_continued_without_the_pin() {
    let (all, folder) = (content(6 * CHUNK), tempfile::tempdir().unwrap());
    let server = FileServer::start(all.clone());
    server.file().etag = Some("W/\"1\"".to_owned());
    let weak = Version { etag: Some("W/\"1\"".to_owned()), ..strong("") };
    let target = target(&server.url, folder.path());
    server.stall_from(2, 100);
    leave_after(&Target { version: Some(&weak), ..target.clone() }, 2 * CHUNK as u64);
    server.serve();
    let brought = fetch(&target).unwrap();
    assert!(brought.bytes == all && !brought.download.is_resumed());
}

#[test]
fn a_changed_file_is_fetched_anew_unless_the_version_is_pinned() {
    let (old, new) = (content(6 * CHUNK), content(5 * CHUNK + 1));
    let (one, folder) = (strong("1"), tempfile::tempdir().unwrap());
    for pin in [None, Some(&one)] {
        let server = FileServer::start(old.clone());
        let target = Target { version: pin, ..target(&server.url, folder.path()) };
        server.stall_from(2, 100);
        leave_after(&target, 2 * CHUNK as u64);
        server.serve();
        (server.file().content, server.file().etag) = (new.clone().into(), Some("\"2\"".to_owned()));
        match (pin, fetch(&target)) {
            (None, brought) => {
                let brought = brought.unwrap();
                assert!(brought.bytes == new && !brought.download.is_resumed());
            }
            (Some(_), Err(DownloadError::Network(NetworkError::Changed { .. }))) => {}
            (Some(_), other) => panic!("{:?}", other.err()),
        }
    }
}

#[test]
fn a_server_that_lost_its_ranges_is_read_from_the_start() {
    let (all, folder) = (content(4 * CHUNK), tempfile::tempdir().unwrap());
    let server = FileServer::start(all.clone());
    let target = target(&server.url, folder.path());
    server.stall_from(0, 100);
    leave_after(&target, 100);
    server.file().ranges = false;
    server.serve();
    let brought = fetch(&target).unwrap();
    assert!(brought.bytes == all && !brought.download.is_resumed());
    assert!(!Download::has_begun(folder.path()));
}

#[test]
fn what_is_forgotten_is_gone() {
    let (server, folder) = (FileServer::start(content(CHUNK)), tempfile::tempdir().unwrap());
    let target = target(&server.url, folder.path());
    Download::forget(folder.path()).unwrap();
    assert!(!Download::has_begun(folder.path()));
    drop(fetch(&target).unwrap());
    assert!(Download::has_begun(folder.path()));
    Download::forget(folder.path()).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
