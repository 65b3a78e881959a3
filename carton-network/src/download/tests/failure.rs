//! Misbehaving servers, callers that leave, and full disks.

use super::*;

#[test]
fn cut_connections_are_continued() {
    let (all, folder) = (content(7 * CHUNK + 3), tempfile::tempdir().unwrap());
    let server = FileServer::start(all.clone());
    // Each range needs three requests.
    server.rule(|_, right| right.cut_after(CHUNK as u64 * 2 / 5));
    let brought = fetch(&target(&server.url, folder.path())).unwrap();
    assert!(brought.bytes == all);
    assert_eq!(brought.activity.received(), all.len() as u64);
}

#[test]
fn a_server_that_fails_again_and_again_ends_the_download() {
    let (all, folder) = (content(7 * CHUNK), tempfile::tempdir().unwrap());
    let server = FileServer::start(all.clone());
    let target = target(&server.url, folder.path());
    // All ranges but the first fail, each as often as it may.
    server.rule(|request, right| {
        let is_first = request.header("range").is_some_and(|range| range.starts_with("bytes=0-"));
        if is_first { right } else { right.cut_after(0) }
    });
    let download = Download::start(&network(), &target, &Arc::new(Activity::default())).unwrap();
    let mut reader = download.reader();
    let mut first = vec![0; CHUNK];
    reader.read_exact(&mut first).unwrap();
    assert!(first == all[..CHUNK]);
    let error = DownloadError::from_read(reader.read(&mut [0]).unwrap_err()).unwrap();
    assert!(matches!(&error, DownloadError::Network(error) if error.is_transient()), "{error}");
    // Further readers get the error too.
    assert!(read(&download).is_err());
    assert!(download.source().read_at(5 * CHUNK as u64, &mut [0]).is_err());
    drop(download);
    server.serve();
    let brought = fetch(&target).unwrap();
    assert!(brought.bytes == all && brought.download.is_resumed());
}

#[test]
fn a_server_that_refuses_is_named() {
    let (server, folder) = (FileServer::start(content(10)), tempfile::tempdir().unwrap());
    server.rule(|_, _| Answer::status(404));
    let error = failure(&target(&server.url, folder.path()));
    assert!(error.to_string().contains("answered 404"), "{error}");
    server.rule(|_, _| Answer::status(503));
    let error = failure(&target(&server.url, folder.path()));
    assert!(error.to_string().contains("answered 503") && server.requests().len() == 4, "{error}");
}

#[test]
fn wrong_ranges_are_not_used() {
    let all = content(7 * CHUNK);
    for from in [0, 1, 5] {
        let (server, folder) = (FileServer::start(all.clone()), tempfile::tempdir().unwrap());
        let file = server.file().clone();
        server.rule(move |request, right| {
            let range = request.range(u64::MAX).unwrap();
            let shifted = format!("bytes={}-{}", range.start + 1, range.end);
            let shifted = request.clone().with_header("range", shifted);
            if request.number < from { right } else { file.answer(&shifted) }
        });
        let error = failure(&target(&server.url, folder.path()));
        assert!(matches!(error, DownloadError::Network(NetworkError::Answer { .. })), "{error}");
    }
}

#[test]
fn a_file_that_changes_underneath_is_never_mixed() {
    let (old, new) = (content(8 * CHUNK), content(8 * CHUNK + 1)[1..].to_vec());
    for (etag, change_at) in [("\"2\"", 1), ("\"2\"", 4), ("W/\"2\"", 2)] {
        let (server, folder) = (FileServer::start(old.clone()), tempfile::tempdir().unwrap());
        let new = File { last_modified: None, ..File::new(new.clone()).with_etag(etag) };
        server.change_at(change_at, new);
        let error = failure(&target(&server.url, folder.path()));
        assert!(matches!(error, DownloadError::Network(NetworkError::Changed { .. })), "{error}");
    }
}

#[test]
fn ranges_that_end_in_the_middle_are_an_error() {
    let (server, folder) = (FileServer::start(content(8 * CHUNK)), tempfile::tempdir().unwrap());
    server.rule(|request, right| match request.number {
        0 => right,
        _ => Answer::raw(format!("HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: {}\r\n\r\n", 8 * CHUNK)),
    });
    let error = failure(&target(&server.url, folder.path()));
    assert!(error.to_string().contains("does not answer with ranges any more"), "{error}");
}

#[test]
fn a_body_ends_at_the_limit() {
    let (server, folder) = (FileServer::start(content(1001)), tempfile::tempdir().unwrap());
    let target = Target { limit: 1000, ..target(&server.url, folder.path()) };
    let check = |head: &str| {
        let flood = Answer::endless(0, [7]).with_raw_head(head);
        server.rule(move |_, _| flood.clone());
        let error = failure(&target);
        assert!(matches!(error, DownloadError::Network(NetworkError::TooLarge { limit: 1000, .. })), "{error}");
        let length = std::fs::metadata(folder.path().join("data")).map_or(0, |metadata| metadata.len());
        assert!(length <= 1000, "{length}");
    };
    check("HTTP/1.1 200 OK\r\n\r\n");
    check("HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n");
    check("HTTP/1.1 206 Part\r\nContent-Range: bytes 0-1000/1001\r\n\r\n");
    server.serve();
    assert!(failure(&target).to_string().contains("at most 1000 bytes"));
    let range = Some(1..1001);
    assert_eq!(fetch(&Target { range, ..target }).unwrap().bytes.len(), 1000);
}

#[test]
fn a_stream_that_breaks_off_goes_on_only_with_the_same_bytes() {
    let all = content(3 * CHUNK);
    for (etag, goes_on) in [(Some("\"1\""), true), (None, false)] {
        let (server, folder) = (FileServer::start(all.clone()), tempfile::tempdir().unwrap());
        (server.file().ranges, server.file().etag) = (false, etag.map(str::to_owned));
        server.rule(|request, right| if request.number == 0 { right.cut_after(CHUNK as u64 + 5) } else { right });
        match fetch(&target(&server.url, folder.path())) {
            Ok(brought) => assert!(goes_on && brought.bytes == all),
            Err(error) => assert!(!goes_on && matches!(error, DownloadError::Network(NetworkError::Cut { .. }))),
        }
    }
}

#[test]
fn stopping_ends_it_soon() {
    let (server, folder) = (FileServer::start(content(8 * CHUNK)), tempfile::tempdir().unwrap());
    let target = target(&server.url, folder.path());
    // Before the first answer's head, and in its body.
    for head in ["", "HTTP/1.1 206 Part\r\nETag: \"1\"\r\nContent-Range: bytes 0-131071/1048576\r\n\r\n"] {
        server.rule(move |request, _| {
            let head = if request.number == 0 { head } else { "" };
            Answer::raw(head).stall_after(0)
        });
        let cancel_token = CancelToken::default();
        let activity = Activity::new(&cancel_token);
        let (started, stopped) = std::thread::scope(|scope| {
            let shared = activity.clone();
            let (server, target) = (&server, &target);
            let reading = scope.spawn(move || {
                let download = Download::start(&network(), target, &shared)?;
                read(&download).map(drop)
            });
            wait_until(|| !server.requests().is_empty());
            let started = Instant::now();
            cancel_token.cancel();
            (started, reading.join().unwrap())
        });
        assert!(started.elapsed() < Duration::from_millis(500), "{:?}", started.elapsed());
        assert!(matches!(stopped, Err(DownloadError::Network(NetworkError::Interrupted))), "{stopped:?}");
    }
}

#[test]
fn what_was_stopped_before_does_not_begin() {
    let (server, folder) = (FileServer::start(content(8)), tempfile::tempdir().unwrap());
    let cancel_token = CancelToken::default();
    cancel_token.cancel();
    let activity = Activity::new(&cancel_token);
    let error = Download::start(&network(), &target(&server.url, folder.path()), &activity).unwrap_err();
    assert!(matches!(error, DownloadError::Network(NetworkError::Interrupted)));
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn a_dropped_download_leaves_nothing_behind() {
    let (server, folder) = (FileServer::start(content(8 * CHUNK)), tempfile::tempdir().unwrap());
    server.stall_from(0, 100);
    let activity = Arc::new(Activity::default());
    let target = target(&server.url, folder.path());
    let download = Download::start(&network(), &target, &activity).unwrap();
    let mut reader = download.reader();
    assert_eq!(reader.read(&mut [0; 1000]).unwrap(), 100);
    wait_until(|| server.requests().len() > 3);
    let fetch = Arc::downgrade(&download.fetch);
    let start = Instant::now();
    drop(download);
    assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
    wait_until(|| fetch.upgrade().is_none());
    // A reader that is left behind learns that no more bytes will come.
    let error = DownloadError::from_read(reader.read(&mut [0]).unwrap_err()).unwrap();
    assert!(matches!(error, DownloadError::Network(NetworkError::Interrupted)), "{error}");
}

#[test]
fn too_little_space_is_noticed_before() {
    let (server, folder) = (FileServer::start(Vec::new()), tempfile::tempdir().unwrap());
    let total = 1_u64 << 46;
    server.rule(move |_, _| {
        let part = format!("Content-Range: bytes 0-{}/{total}", CHUNK - 1);
        let head = format!("HTTP/1.1 206 Part\r\nETag: \"1\"\r\n{part}\r\nContent-Length: {CHUNK}\r\n\r\n");
        Answer::endless(0, [7]).with_raw_head(head)
    });
    let target = Target { limit: u64::MAX, ..target(&server.url, folder.path()) };
    let error = Download::start(&network(), &target, &Arc::new(Activity::default())).unwrap_err();
    let DownloadError::Io { path, source, .. } = &error else { panic!("{error}") };
    assert_eq!((path.parent(), source.kind()), (Some(folder.path()), std::io::ErrorKind::StorageFull));
    assert!(source.to_string().starts_with(&format!("{total} bytes are needed, ")), "{source}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let (server, folder) = (FileServer::start(content(8)), tempfile::tempdir().unwrap());
    let missing = folder.path().join("missing");
    let error = failure(&target(&server.url, &missing));
    assert!(error.to_string().contains("missing/data"), "{error}");
}
