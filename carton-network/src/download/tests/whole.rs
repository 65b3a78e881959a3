//! Downloads without interruption.

use carton_format::source::behaviour;

use super::*;

const LENGTHS: [usize; 10] =
    [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK - 1, 2 * CHUNK, 2 * CHUNK + 1, 9 * CHUNK, 13 * CHUNK + 12345];

#[test]
fn a_file_of_any_length_comes_whole() {
    for length in LENGTHS {
        let (server, folder) = (FileServer::start(content(length)), tempfile::tempdir().unwrap());
        let brought = fetch(&target(&server.url, folder.path())).unwrap();
        assert!(brought.bytes == content(length), "{length}");
        assert_eq!(brought.download.length(), Some(length as u64));
        assert_eq!(brought.download.version().etag.as_deref(), Some("\"1\""));
        assert!(!brought.download.is_resumed() && brought.download.encodings().is_empty());
        assert_eq!((brought.activity.received(), brought.activity.kept()), (length as u64, 0));
    }
}

#[test]
fn a_range_is_kept_from_its_start() {
    let all = content(12 * CHUNK);
    let server = FileServer::start(all.clone());
    for length in LENGTHS.into_iter().filter(|length| *length < 10 * CHUNK) {
        for start in [0, 1, CHUNK - 1, all.len() - length] {
            let folder = tempfile::tempdir().unwrap();
            let range = start..start + length;
            let target = Target { range: Some(as_u64(range.clone())), ..target(&server.url, folder.path()) };
            let brought = fetch(&target).unwrap();
            assert!(brought.bytes == all[range.clone()], "{range:?}");
            assert_eq!(brought.download.length(), Some(length as u64));
        }
    }
}

#[test]
fn a_range_that_the_file_does_not_have_is_an_error() {
    let server = FileServer::start(content(CHUNK));
    for range in [CHUNK - 1..CHUNK + 1, CHUNK..CHUNK + 1, 0..5 * CHUNK, 9 * CHUNK..10 * CHUNK] {
        let folder = tempfile::tempdir().unwrap();
        let target = Target { range: Some(as_u64(range)), ..target(&server.url, folder.path()) };
        let error = failure(&target);
        assert!(matches!(error, DownloadError::Network(NetworkError::Answer { .. })), "{error}");
    }
}

#[test]
fn any_number_of_ranges_at_once_will_do() {
    let (all, folder) = (content(20 * CHUNK + 7), tempfile::tempdir().unwrap());
    let server = FileServer::start(all.clone());
    for n_ranges in [0, 1, 2, 7, 50] {
        Download::forget(folder.path()).unwrap();
        let network = Network::new(NetworkOptions { n_ranges, ..NetworkOptions::default() });
        let target = target(&server.url, folder.path());
        let download = Download::start(&network, &target, &Arc::new(Activity::default())).unwrap();
        assert!(read(&download).unwrap() == all, "{n_ranges}");
    }
}

#[test]
fn requests_ask_for_no_byte_twice() {
    let (server, folder) = (FileServer::start(content(40 * CHUNK + 1)), tempfile::tempdir().unwrap());
    fetch(&target(&server.url, folder.path())).unwrap();
    let mut asked: Vec<_> = server.requests().iter().filter_map(|request| request.range(u64::MAX)).collect();
    asked.sort_unstable_by_key(|range| range.start);
    assert!(asked.windows(2).all(|pair| pair[0].end == pair[1].start), "{asked:?}");
}

#[test]
fn several_readers_see_the_same() {
    let (all, folder) = (content(5 * CHUNK), tempfile::tempdir().unwrap());
    let server = FileServer::start(all.clone());
    let target = target(&server.url, folder.path());
    let download = Download::start(&network(), &target, &Arc::new(Activity::default())).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(read(&download).unwrap() == all));
        }
    });
}

#[test]
fn a_download_behaves_as_a_source() {
    let (all, folder) = (content(3 * CHUNK), tempfile::tempdir().unwrap());
    let server = FileServer::start(all.clone());
    let target = target(&server.url, folder.path());
    let download = Download::start(&network(), &target, &Arc::new(Activity::default())).unwrap();
    behaviour::check(&*download.source(), &all);
}

#[test]
fn a_source_of_a_range_has_the_positions_of_the_file() {
    let (all, folder) = (content(6 * CHUNK), tempfile::tempdir().unwrap());
    let server = FileServer::start(all.clone());
    let target = Target { range: Some(as_u64(CHUNK + 5..4 * CHUNK)), ..target(&server.url, folder.path()) };
    let download = Download::start(&network(), &target, &Arc::new(Activity::default())).unwrap();
    let source = download.source();
    assert_eq!(source.len(), 4 * CHUNK as u64);
    let check = |range: Range<usize>, is_inside: bool| {
        let mut buffer = vec![0; range.len()];
        let read = source.read_at(range.start as u64, &mut buffer);
        assert_eq!(read.is_ok() && buffer == all[range.clone()], is_inside, "{range:?}");
        if let Err(error) = read {
            assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
        }
    };
    // The end first: a read beyond the frontier waits too.
    check(4 * CHUNK - 9..4 * CHUNK, true);
    check(2 * CHUNK - 1..3 * CHUNK + 1, true);
    check(CHUNK + 5..4 * CHUNK, true);
    check(CHUNK + 4..CHUNK + 6, false);
    check(0..1, false);
    check(4 * CHUNK - 1..4 * CHUNK + 1, false);
}

#[test]
fn a_server_without_ranges_is_read_in_one_stream() {
    for length in LENGTHS {
        let (server, folder) = (FileServer::start(content(length)), tempfile::tempdir().unwrap());
        server.file().ranges = false;
        let brought = fetch(&target(&server.url, folder.path())).unwrap();
        assert!(brought.bytes == content(length), "{length}");
        assert_eq!((server.requests().len(), brought.download.length()), (1, Some(length as u64)));
        assert_eq!(brought.download.source().len(), length as u64);
        let ranged = Target { range: Some(0..1), ..target(&server.url, folder.path()) };
        let error = failure(&ranged);
        let expected = Some(length as u64);
        assert!(matches!(error, DownloadError::Network(NetworkError::NoRanges { length, .. }) if length == expected));
    }
}

#[test]
fn a_stream_of_unknown_length_ends_where_it_ends() {
    let (server, folder) = (FileServer::start(Vec::new()), tempfile::tempdir().unwrap());
    server.rule(|_, _| Answer::bytes(200, *b"the bytes").without_length());
    let brought = fetch(&target(&server.url, folder.path())).unwrap();
    assert_eq!((brought.bytes.as_slice(), brought.download.length()), (&b"the bytes"[..], Some(9)));
    behaviour::check(&*brought.download.source(), b"the bytes");
}

#[test]
fn encoded_bytes_come_as_ranges_only_if_their_tag_is_strong() {
    for (tag, is_ranged) in [("\"z\"", true), ("W/\"z\"", false)] {
        let (all, folder) = (content(3 * CHUNK), tempfile::tempdir().unwrap());
        let server = FileServer::start(all.clone());
        (server.file().encoding, server.file().etag) = (Some("gzip".to_owned()), Some(tag.to_owned()));
        let error = failure(&target(&server.url, folder.path()));
        assert!(matches!(error, DownloadError::Network(NetworkError::Answer { .. })), "{error}");
        let target = Target { accept_encoded: true, ..target(&server.url, folder.path()) };
        let brought = fetch(&target).unwrap();
        assert!(brought.bytes == all && brought.download.encodings() == ["gzip"]);
        assert_eq!(Download::has_begun(folder.path()), is_ranged);
    }
}

#[test]
fn dates_that_a_server_does_not_take_are_compared_here() {
    let (all, folder) = (content(9 * CHUNK), tempfile::tempdir().unwrap());
    let server = FileServer::start(all.clone());
    let dated = |etag: &str, date: &str| File {
        last_modified: Some(date.to_owned()),
        if_range_dates: false,
        ..File::new(all.clone()).with_etag(etag)
    };
    *server.file() = dated("W/\"1\"", "Sat, 21 Nov 2026 19:30:00 GMT");
    let target = target(&server.url, folder.path());
    assert!(fetch(&target).unwrap().bytes == all);
    Download::forget(folder.path()).unwrap();
    server.change_at(4, dated("W/\"2\"", "Sat, 21 Nov 2026 19:30:01 GMT"));
    assert!(matches!(failure(&target), DownloadError::Network(NetworkError::Changed { .. })));
}
