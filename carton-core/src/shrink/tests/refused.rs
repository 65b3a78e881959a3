//! What is refused, cancelled or fails, and leaves nothing.

use super::*;

#[tokio::test]
async fn what_is_needed_to_open_a_carton_stays() {
    let desk = Desk::new();
    let toml = desk.entry("model.carton", "carton.toml");
    let index = desk.entry("model.carton", "tensor_data/index.toml");
    let leave_out = linked(&[(&toml, "https://a/t"), (&index, "https://a/i")]);
    let error = desk.shrink("model.carton", "x.carton", leave_out).await.unwrap_err();
    assert!(matches!(error.find(), Some(ShrinkError::NoneLinked { n_links: 2, .. })), "{error}");
}

#[tokio::test]
async fn what_is_refused_leaves_nothing() {
    let desk = Desk::new();
    let before = desk.names();
    let check = async |leave_out: LeaveOut, expected: &str| {
        let error = desk.shrink("model.carton", "x.carton", leave_out).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        assert_eq!(
            desk.names().iter().filter(|name| *name != "cache").collect::<Vec<_>>(),
            before.iter().collect::<Vec<_>>()
        );
    };
    check(linked(&[(b"x", "https://a/x")]), "is among the 1 that are linked").await;
    check(linked(&[(b"x", "https://me:secret@a/x")]), "`https://a/x` cannot be put into a carton").await;
    check(linked(&[(b"x", "https://me:secret@a:99999/x")]), "`https:…` cannot be put into a carton").await;
    check(linked(&[]), "is among the 0 that are linked").await;
    let url_prefix = PREFIX.to_owned();
    check(LeaveOut::Large { url_prefix, min_size: 1 << 20 }, "has no file of at least 1048576 bytes").await;
    for (prefix, expected) in [
        ("", "`` cannot begin the URLs of files: it is not an http, https or file URL"),
        ("example.com/files", "it is not an http"),
        ("ftp://example.com", "it is not an http"),
        ("https://exa mple.com", "it is not an http"),
        ("https://user:secret@exa mple.com", "`…` cannot begin"),
        ("https://user:secret@example.com/a", "`https://example.com/a` cannot begin the URLs of files: readers"),
        ("https://user@example.com/a", "could read the URL's user"),
        ("https://example.com/a?key=secret", "it has a query or a fragment"),
        ("https://example.com/a#b", "it has a query or a fragment"),
    ] {
        assert!(!format!("{:?}", LeaveOut::large(prefix)).contains("secret"), "{prefix}");
        check(LeaveOut::large(prefix), expected).await;
    }
    for output in ["model.carton", "hard.carton", "soft.carton"] {
        let _ = std::fs::hard_link(desk.path("model.carton"), desk.path("hard.carton"));
        let _ = symlink("model.carton", desk.path("soft.carton"));
        let error = desk.shrink("model.carton", output, LeaveOut::large(PREFIX)).await.unwrap_err();
        assert!(matches!(error.find(), Some(PackageError::OutputIsSource { .. })), "{output}: {error}");
        assert!(error.hint().is_some());
    }
    let another = desk.shrink("model.carton", "x.carton", LeaveOut::large(PREFIX)).expect_hash(ManifestHash::of(b""));
    let error = another.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity);
    assert!(desk.shrink("model.carton", "no/such/folder.carton", LeaveOut::large(PREFIX)).await.is_err());
}

#[tokio::test]
async fn a_result_shows_no_secrets() {
    let desk = Desk::new();
    let url = "https://me.example/c?signature=secret";
    let shrunk = desk.shrink("model.carton", "small.carton", linked(&[(b"{}", url)])).await.unwrap();
    assert_eq!(shrunk.left_out[0].urls, [Url::parse(url).unwrap()]);
    assert!(!format!("{shrunk:?}").contains("secret"), "{shrunk:?}");
}

#[tokio::test]
async fn damage_is_not_passed_on() {
    let desk = Desk::new();
    let archive = desk.archive("model.carton");
    for (name, is_left_out) in
        [("misc/picture.png", false), ("model/deep/copy.bin", true), ("model/vocabulary.txt", true)]
    {
        let mut bytes = desk.bytes("model.carton");
        // Damages a byte in the middle of the data, which follows the local header.
        let entry = archive.get(name).unwrap();
        let start = bytes.windows(name.len()).position(|window| window == name.as_bytes()).unwrap();
        bytes[start + name.len() + entry.compressed_size() as usize / 2] ^= 4;
        std::fs::write(desk.path("damaged.carton"), &bytes).unwrap();
        std::fs::write(desk.path("x.carton"), "before").unwrap();
        let shrink = desk.shrink("damaged.carton", "x.carton", LeaveOut::large(PREFIX));
        let plain = shrink.clone().await;
        // A file that is left out is not read; damage to it is found only where it is used.
        assert_eq!(plain.is_ok(), is_left_out, "{name}");
        std::fs::write(desk.path("x.carton"), "before").unwrap();
        // Saves to an empty folder: a file that is already there would not be read from the carton.
        let upload = tempfile::tempdir().unwrap();
        let error = shrink.save_files(upload.path()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Integrity, "{name}: {error}");
        assert_eq!(desk.bytes("x.carton"), b"before");
        let error = desk.resolve("damaged.carton", "x.carton").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Integrity, "{name}: {error}");
        assert_eq!(desk.bytes("x.carton"), b"before");
        assert!(!desk.names().iter().any(|name| name.contains("partial")));
        let saved = std::fs::read_dir(upload.path()).unwrap().map(|file| file.unwrap().file_name());
        assert!(saved.into_iter().all(|name| !name.to_str().unwrap().contains("partial")));
    }
}

#[tokio::test]
async fn work_that_nobody_waits_for_ends() {
    let desk = Desk::new();
    let (started, mut is_started) = tokio::sync::mpsc::unbounded_channel();
    let go_on = Arc::new(AtomicBool::new(false));
    let wait = go_on.clone();
    // The callback holds `held`, and the work holds the callback.
    let held = Arc::new(());
    let holds = Arc::clone(&held);
    let progress = move |_: &ProgressEvent| {
        let _held = &holds;
        let _ = started.send(());
        while !wait.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    };
    let shrink = desk.shrink("model.carton", "x.carton", LeaveOut::large(PREFIX)).progress(progress);
    let mut work = shrink.into_future();
    tokio::select! {
        _ = &mut work => panic!("it was not waited for"),
        _ = is_started.recv() => {}
    }
    drop(work);
    go_on.store(true, Ordering::Relaxed);
    while Arc::strong_count(&held) > 1 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    assert!(!desk.names().iter().any(|name| name.contains("x.carton") || name.contains("partial")));
}

#[tokio::test]
async fn a_full_disk_is_an_error() {
    let desk = Desk::new();
    std::fs::create_dir(desk.path("disk")).unwrap();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs"])
        .arg(desk.path("disk"))
        .stderr(std::process::Stdio::null())
        .status();
    if !mount.is_ok_and(|status| status.success()) {
        println!("skipped: mounting a small file system needs root");
        return;
    }
    let save = desk.shrink("model.carton", "x.carton", LeaveOut::large(PREFIX)).save_files(desk.path("disk"));
    let not_saved = save.await;
    let not_written = desk.shrink("model.carton", "disk/x.carton", LeaveOut::large(PREFIX)).await;
    let not_resolved = desk.resolve("model.carton", "disk/x.carton").await;
    let n_left = std::fs::read_dir(desk.path("disk")).unwrap().count();
    Command::new("umount").arg(desk.path("disk")).status().unwrap();
    assert_eq!(n_left, 0);
    assert!(!desk.path("x.carton").exists());
    for error in [not_saved.unwrap_err(), not_written.unwrap_err(), not_resolved.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Machine);
        let text = carton_format::causes::in_one_line(&error);
        assert!(text.contains("No space left"), "{text}");
    }
}

#[tokio::test]
async fn a_carton_whose_links_have_an_invalid_url_is_not_shrunk() {
    let desk = Desk::new();
    let picture = noise(100_000, 2);
    desk.shrink("model.carton", "small.carton", linked(&[(&picture, "https://a/p.png")])).await.unwrap();
    let source = desk.open("small.carton").await;
    let check = |url: &str, message: Option<&str>| {
        let urls = BTreeMap::from([(Sha256Digest::of(&picture), vec![url.to_owned()])]);
        let (links, missing) = (Links::from_urls(urls).unwrap(), ["misc/picture.png".to_owned()].into());
        let odd = desk.path("odd.carton");
        package::rewrite(source.contents(), &missing, &links, &odd, Compression::Auto, &Context::default()).unwrap();
        let package = package::Package::open(&odd, package::OpenOptions::default()).unwrap();
        let given = linked(&[(b"{}", "https://a/c")]);
        let found = ShrinkPlan::make(package.contents(), &given)
            .map(|choice| choice.links.urls(&Sha256Digest::of(&picture)).to_vec());
        match (found, message) {
            (Ok(urls), None) => assert_eq!(urls, [url]),
            (Err(error), Some(message)) => assert_eq!(error.to_string(), message),
            (found, expected) => panic!("{url}: expected {expected:?}, found {found:?}"),
        }
    };
    check("https://a/other.png", None);
    // The author of a carton may have written a password on purpose.
    check("https://me:hunter2@a/p.png", None);
    check("https://me:hunter2@a:port/p.png", Some("`https:…` cannot be put into a carton: it is not a valid URL"));
}
