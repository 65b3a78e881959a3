//! Cartons that must be refused, each with an error that says what is wrong.

use super::*;
use crate::error::Failure as _;

/// Opens the carton from an archive and from a folder; the errors must contain `expected`.
fn check(builder: Builder, expected: &str) {
    let error = builder.in_memory().unwrap_err();
    assert!(error.to_string().contains(expected), "archive: {error}, expected {expected}");
    let folder = tempfile::tempdir().unwrap();
    builder.write_folder(folder.path());
    let error = Contents::open_folder(folder.path(), None).unwrap_err();
    assert!(error.to_string().contains(expected), "folder: {error}, expected {expected}");
}

#[test]
fn files_and_manifest_must_agree() {
    let some = Sha256Digest::of(b"some");
    check(Builder::example().manifest(b"no line"), "MANIFEST line 1");
    check(Builder::example().manifest(&[0xff; 70]), "MANIFEST");
    check(
        Builder::example().line("model/gone.bin", Some(some)),
        "`model/gone.bin` is listed in MANIFEST, but expected in the carton or in LINKS and found in neither",
    );
    check(
        Builder::example().line("model/a/config.json", None),
        "`model/a/config.json` is in the carton, but not listed in MANIFEST",
    );
    check(Builder::example().line("model/a/link", None), "`model/a/link` is in the carton, but not listed in MANIFEST");
    check(Builder::example().line("misc/picture.png", None), "`misc/picture.png` is in the carton");
    check(Builder::example().manifest(b""), "`carton.toml` is in the carton, but not listed in MANIFEST");
    check(Builder::example().line("../x", Some(some)), "MANIFEST");
    check(Builder::example().line("/etc/x", Some(some)), "MANIFEST");
    check(Builder::example().line("LINKS", Some(some)), "LINKS");
    check(Builder::example().line("model/weights.bin/x", Some(some)), "model/weights.bin");
}

#[test]
fn a_carton_has_a_manifest() {
    for builder in [Builder::default(), Builder::example()] {
        let mut bytes = builder.bytes();
        // The name in the local header and in the central directory.
        for at in 0..bytes.len() - 8 {
            if &bytes[at..at + 8] == b"MANIFEST" {
                bytes[at..at + 8].copy_from_slice(b"MANIFOLD");
            }
        }
        let error =
            Contents::open_archive(MemorySource::new(bytes, "x.carton"), None, None, Blobs::default()).unwrap_err();
        assert_eq!(error.to_string(), "`x.carton` is not a carton: it has no file MANIFEST");
        assert_eq!(error.kind(), ErrorKind::Integrity);
    }
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Contents::open_folder(folder.path(), None), Err(ContentsError::NoManifest { .. })));
    // A folder of that name is not one, nor is a pipe: opening must not wait for a writer.
    fs::create_dir(folder.path().join("MANIFEST")).unwrap();
    assert!(matches!(Contents::open_folder(folder.path(), None), Err(ContentsError::NoManifest { .. })));
    fs::remove_dir(folder.path().join("MANIFEST")).unwrap();
    std::process::Command::new("mkfifo").arg(folder.path().join("MANIFEST")).status().unwrap();
    assert!(matches!(Contents::open_folder(folder.path(), None), Err(ContentsError::NoManifest { .. })));
}

#[test]
fn another_carton_than_expected_is_refused_first() {
    // Its MANIFEST could not even be parsed.
    let builder = Builder::example().manifest(b"nonsense");
    let expected = ManifestHash::of(b"expected");
    let source = MemorySource::new(builder.bytes(), "memory");
    let error = Contents::open_archive(source, None, Some(expected), Blobs::default()).unwrap_err();
    let found = builder.hash();
    assert_eq!(
        error.to_string(),
        format!("the carton is another one: expected manifest hash {expected}, found {found}")
    );
    assert_eq!(error.kind(), ErrorKind::Integrity);
    let folder = tempfile::tempdir().unwrap();
    builder.write_folder(folder.path());
    assert!(matches!(Contents::open_folder(folder.path(), Some(expected)), Err(ContentsError::ManifestHash { .. })));
}

#[test]
fn links_must_lead_to_a_file_of_their_part() {
    let link = |path: &str, target: &str| Builder::example().symlink(path, target);
    check(link("model/x", "none"), "the link `model/x` to `none` is not allowed: it leads to no file");
    check(link("model/x", "a"), "it leads to no file");
    check(link("model/x", "x"), "it leads in a circle");
    check(link("model/x", "y").symlink("model/y", "a/../z").symlink("model/z", "x"), "it leads in a circle");
    check(link("model/x", "../misc/picture.png"), "it leaves the model");
    check(link("model/x", "../carton.toml"), "it leaves the model");
    check(link("model/x", "../../etc/passwd"), "it leaves the carton");
    check(link("model/x", "/etc/passwd"), "it is absolute");
    check(link("misc/x", "../.."), "it leaves the carton");
    let wrong = link("model/x", "a/config.json").line("model/x", Some(Sha256Digest::of(b"wrong")));
    check(wrong, "MANIFEST lists another digest for it than for the file it leads to");
}

#[test]
fn folders_need_no_line_and_links_may_follow_links() {
    let builder = Builder::example()
        .folder("model/empty")
        .symlink("model/x", "a/link")
        .line("model/x", Some(Sha256Digest::of(&pattern(300_000))));
    let contents = builder.in_memory().unwrap();
    assert!(contents.read("model/x", u64::MAX, &Context::default()).unwrap() == pattern(300_000));
    let folder = tempfile::tempdir().unwrap();
    builder.write_folder(folder.path());
    Contents::open_folder(folder.path(), None).unwrap();
}

/// Cartons whose files are not what MANIFEST lists open, but no wrong byte is handed out.
#[test]
fn wrong_bytes_are_an_error_wherever_they_are_asked_for() {
    let wrong = Sha256Digest::of(b"wrong");
    for path in ["model/weights.bin", "model/large.json", "model/a/config.json", "model/a/empty"] {
        let mut builder = Builder::example().line(path, Some(wrong));
        if path == "model/weights.bin" {
            builder = builder.line("model/a/link", Some(wrong));
        }
        let folder = tempfile::tempdir().unwrap();
        builder.write_folder(folder.path());
        let desk = Desk::new();
        desk.write(&builder);
        let all = [
            builder.in_memory().unwrap(),
            desk.open().unwrap(),
            Contents::open_folder(folder.path(), None).unwrap(),
            Contents::open_folder(folder.path(), None).unwrap().with_cache(Some(Arc::clone(&desk.cache))),
        ];
        for contents in &all {
            let bytes = builder.expected(path);
            let expected = format!("digest mismatch for `{path}`: expected {wrong}, found {}", Sha256Digest::of(bytes));
            let check = |what: &str, error: ContentsError| {
                assert_eq!(error.to_string(), expected, "{what}");
                assert_eq!(error.kind(), ErrorKind::Integrity);
            };
            check("read", contents.read(path, u64::MAX, &Context::default()).unwrap_err());
            check("read_into", contents.read_into(path, &mut vec![0; bytes.len()], &Context::default()).unwrap_err());
            let mut reader = contents.reader(path, &Context::default()).unwrap();
            let error = std::io::Read::read_to_end(&mut reader, &mut Vec::new()).unwrap_err();
            check("reader", ContentsError::from_read(error, path));
            for _ in 0..2 {
                check("directory", contents.model_directory(&Context::default()).unwrap_err());
                check("ranges", contents.model_ranges(&Context::default()).unwrap_err());
            }
            let report = contents.verify(&Context::default()).unwrap();
            assert_eq!(report.bad.len(), 1);
            assert_eq!((report.bad[0].path.as_str(), report.bad[0].error.to_string()), (path, expected.clone()));
            let destination = desk.folder.path().join("unpacked");
            check("unpack", contents.unpack(&destination, &Context::default()).unwrap_err());
            assert!(!destination.exists());
        }
        assert_eq!(desk.cache.models().unwrap(), []);
        let names: Vec<_> = fs::read_dir(desk.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
    }
}

#[test]
fn verify_reports_every_bad_file_and_warns() {
    let wrong = Some(Sha256Digest::of(b"wrong"));
    let builder = Builder::example()
        .line("model/large.json", wrong)
        .line("misc/picture.png", wrong)
        .file("misc/Read.me", b"1")
        .file("misc/README.md", b"2")
        .file("misc/read.me", b"3");
    let report = builder.in_memory().unwrap().verify(&Context::default()).unwrap();
    let bad: Vec<&str> = report.bad.iter().map(|bad| bad.path.as_str()).collect();
    assert_eq!(bad, ["misc/picture.png", "model/large.json"]);
    assert!(!report.is_good());
    let expected =
        "`misc/Read.me`, `misc/read.me` differ only in upper and lower case: not every file system can hold both";
    assert_eq!(report.warnings, [expected]);
    // A byte changed inside the compressed data: found by the archive, and reported like the others.
    let builder = Builder::example();
    let mut bytes = builder.bytes();
    let at = bytes.windows(16).position(|window| window == b"model/large.json").unwrap() + 60;
    bytes[at] ^= 0x55;
    let contents = Contents::open_archive(MemorySource::new(bytes, "memory"), None, None, Blobs::default()).unwrap();
    let report = contents.verify(&Context::default()).unwrap();
    assert_eq!(report.bad.len(), 1);
    assert_eq!(report.bad[0].error.kind(), ErrorKind::Integrity, "{:?}", report.bad[0]);
}

#[test]
fn linked_files_come_from_the_cache_or_not_at_all() {
    let builder = Builder::example().linked("model/large.json");
    let desk = Desk::new();
    desk.write(&builder);
    let contents = desk.open().unwrap();
    let file = contents.files().into_iter().find(|file| file.path == "model/large.json").unwrap();
    assert_eq!((file.linked, file.size, file.stored), (true, None, None));
    let error = contents.read("model/large.json", u64::MAX, &Context::default()).unwrap_err();
    assert!(error.to_string().starts_with("`model/large.json` is a linked file that is not fetched yet"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Network);
    assert_eq!(contents.model_directory(&Context::default()).unwrap_err().kind(), ErrorKind::Network);
    assert_eq!(contents.model_ranges(&Context::default()).unwrap_err().kind(), ErrorKind::Network);
    let report = contents.verify(&Context::default()).unwrap();
    assert_eq!((report.is_good(), report.not_fetched), (true, vec!["model/large.json".to_owned()]));
    // Somebody fetches it.
    desk.cache.files().insert(&mut &pattern(200_000)[..]).unwrap();
    assert!(contents.read("model/large.json", u64::MAX, &Context::default()).unwrap() == pattern(200_000));
    let directory = contents.model_directory(&Context::default()).unwrap();
    assert!(fs::read(directory.path().join("large.json")).unwrap() == pattern(200_000));
    assert_eq!(contents.model_ranges(&Context::default()).unwrap().files()[3].length, 200_000);
    let report = contents.verify(&Context::default()).unwrap();
    assert!(report.is_good() && report.not_fetched.is_empty());
    // The folder of an unpacked carton may lack it too; the model is then put together in the cache.
    let folder = tempfile::tempdir().unwrap();
    builder.write_folder(folder.path());
    let contents = Contents::open_folder(folder.path(), None).unwrap();
    assert_eq!(contents.model_directory(&Context::default()).unwrap_err().kind(), ErrorKind::Network);
    let contents = contents.with_cache(Some(Arc::clone(&desk.cache)));
    assert!(contents.model_directory(&Context::default()).unwrap().path().starts_with(desk.cache.path()));
}

#[test]
fn a_file_truncated_while_it_is_open_is_an_error() {
    let builder = Builder::example();
    let length = builder.bytes().len() as u64;
    for kept in [0, 100, 1000, length / 2, length - 1] {
        let desk = Desk::new();
        desk.write(&builder);
        let contents = desk.open().unwrap();
        fs::File::options().write(true).open(desk.path()).unwrap().set_len(kept).unwrap();
        for result in [
            contents.read("model/weights.bin", u64::MAX, &Context::default()).map(|_| ()),
            contents.model_ranges(&Context::default()).map(|_| ()),
        ] {
            if kept < 1000 {
                let error = result.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
            }
        }
        let report = contents.verify(&Context::default());
        assert!(report.is_err() || !report.unwrap().is_good());
    }
}
