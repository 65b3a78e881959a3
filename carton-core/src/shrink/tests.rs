//! Cartons are shrunk and made complete again; what must be refused.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

use super::*;
use crate::ErrorKind;
use crate::archive::Archive;
use crate::cache::Cache;
use crate::config::Config;
use crate::metadata::Metadata;
use crate::network::Url;
use crate::package::PackageInput;
use crate::progress::ProgressEvent;
use crate::source::FileSource;

const PREFIX: &str = "https://example.com/files";

/// A folder with a model, its carton and a cache.
struct Desk {
    folder: TempDir,
    config: Config,
}

/// Bytes that do not compress.
fn noise(length: u32, seed: u32) -> Vec<u8> {
    (0..length / 32 + 1)
        .flat_map(|n| *Sha256Digest::of(&[seed.to_le_bytes(), n.to_le_bytes()].concat()).as_bytes())
        .collect()
}

impl Desk {
    /// Makes a desk with `model.carton`: two large files, one of them stored twice and once as a link, and small files.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model");
        std::fs::create_dir_all(model.join("deep")).unwrap();
        std::fs::write(model.join("weights.bin"), noise(300_000, 1)).unwrap();
        std::fs::write(model.join("deep/copy.bin"), noise(300_000, 1)).unwrap();
        std::fs::write(model.join("vocabulary.txt"), "one two three\n".repeat(10_000)).unwrap();
        std::fs::write(model.join("config.json"), "{}").unwrap();
        symlink("weights.bin", model.join("link.bin")).unwrap();
        std::fs::write(folder.path().join("picture.png"), noise(100_000, 2)).unwrap();
        let text = "cache_dir = 'cache'\nrunner_dir = 'runners'\nrunner_data_dir = 'runner_data'\n";
        std::fs::write(folder.path().join("config.toml"), text).unwrap();
        let config = Config::load(Some(&folder.path().join("config.toml"))).unwrap();
        let desk = Self { folder, config };
        let metadata = "spec_version = 1\n[runner]\nrunner_name = 'noop'\nrequired_framework_version = '1'";
        let mut input = PackageInput::new(Metadata::parse(metadata).unwrap(), model);
        input.misc.insert("picture.png".to_owned(), desk.path("picture.png"));
        package::write(&input, &desk.path("model.carton"), Compression::Auto, &Context::default()).unwrap();
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn shrink(&self, from: &str, to: &str, leave_out: LeaveOut) -> Shrink {
        Carton::shrink(self.path(from), self.path(to), leave_out).config(self.config.clone())
    }

    fn resolve(&self, from: &str, to: &str) -> Resolve {
        Carton::resolve(self.path(from), self.path(to)).config(self.config.clone())
    }

    async fn open(&self, name: &str) -> package::Package {
        Carton::open(self.path(name)).config(self.config.clone()).await.unwrap()
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    fn archive(&self, name: &str) -> Archive {
        Archive::open(Arc::new(FileSource::open(&self.path(name)).unwrap())).unwrap()
    }

    fn entry(&self, carton: &str, name: &str) -> Vec<u8> {
        let archive = self.archive(carton);
        archive.read(archive.get(name).unwrap(), 1 << 20).unwrap()
    }

    /// The names in the folder, sorted.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Puts files into the cache, as fetching linked files does.
    fn insert(&self, files: &[&[u8]]) {
        let cache = Cache::open(&self.config.cache_dir).unwrap();
        for mut bytes in files.iter().copied() {
            cache.insert_file(&mut bytes).unwrap();
        }
    }
}

fn linked(files: &[(&[u8], &str)]) -> LeaveOut {
    let urls: BTreeMap<_, _> =
        files.iter().map(|(bytes, url)| (Sha256Digest::of(bytes), vec![(*url).to_owned()])).collect();
    LeaveOut::Linked(Links::from_urls(urls).unwrap())
}

fn left_out(shrunk: &Shrunk) -> Vec<&str> {
    shrunk.left_out.iter().map(|file| file.path.as_str()).collect()
}

#[tokio::test]
async fn what_is_large_is_left_out_and_comes_back() {
    let desk = Desk::new();
    let shrunk = desk.shrink("model.carton", "small.carton", LeaveOut::large(PREFIX)).await.unwrap();
    assert_eq!(left_out(&shrunk), ["model/deep/copy.bin", "model/vocabulary.txt", "model/weights.bin"]);
    assert_eq!(desk.entry("small.carton", "MANIFEST"), desk.entry("model.carton", "MANIFEST"));
    assert_eq!(desk.entry("small.carton", "carton.toml"), desk.entry("model.carton", "carton.toml"));
    let (weights, words) = (noise(300_000, 1), "one two three\n".repeat(10_000).into_bytes());
    let (a, b) = (Sha256Digest::of(&weights), Sha256Digest::of(&words));
    let (first, second) =
        if a < b { ((a, weights.len()), (b, words.len())) } else { ((b, words.len()), (a, weights.len())) };
    let expected = format!(
        "version = 1\n\n[urls]\n{0} = [\"{PREFIX}/{0}\"]\n{1} = [\"{PREFIX}/{1}\"]\n\n[sizes]\n{0} = {2}\n{1} = {3}\n",
        first.0, second.0, first.1, second.1
    );
    assert_eq!(String::from_utf8(desk.entry("small.carton", "LINKS")).unwrap(), expected);
    let small = desk.open("small.carton").await;
    assert_eq!(small.manifest_sha256(), Some(shrunk.manifest_sha256));
    assert_eq!(small.manifest_sha256(), desk.open("model.carton").await.manifest_sha256());
    let files = small.contents().files();
    let link = files.iter().find(|file| file.path == "model/link.bin").unwrap();
    assert_eq!(link.symlink.as_deref(), Some("weights.bin"), "links stay");
    let misc = files.iter().find(|file| file.path == "misc/picture.png").unwrap();
    assert!(!misc.linked, "only the model is shrunk");
    let archive = desk.archive("small.carton");
    let range = archive.stored_range(archive.get("misc/picture.png").unwrap()).unwrap().unwrap();
    assert_eq!(range.start % 4096, 0, "what is aligned stays aligned");

    // The result is byte-identical every time and on every machine.
    const GOLDEN: &str = "86ba2ed1255b77b6c4330d4e531ec4f86f8aac5548f321ef4869cfc494b19299";
    assert_eq!(Sha256Digest::of(&desk.bytes("small.carton")).to_string(), GOLDEN);
    desk.shrink("model.carton", "again.carton", LeaveOut::large(format!("{PREFIX}//"))).await.unwrap();
    assert!(desk.bytes("again.carton") == desk.bytes("small.carton"));

    let error = desk.resolve("small.carton", "whole.carton").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Network, "{error}");
    assert!(!desk.path("whole.carton").exists());
    desk.insert(&[&weights, &words]);
    let resolved = desk.resolve("small.carton", "whole.carton").await.unwrap();
    assert_eq!(resolved.manifest_sha256, shrunk.manifest_sha256);
    assert!(desk.bytes("whole.carton") == desk.bytes("model.carton"), "nothing is lost on the way");
    // A complete carton is only copied.
    desk.resolve("whole.carton", "whole2.carton").await.unwrap();
    assert!(desk.bytes("whole2.carton") == desk.bytes("model.carton"));
}

#[tokio::test]
async fn what_was_saved_is_found_again() {
    let desk = Desk::new();
    let upload = desk.path("upload");
    let leave_out = LeaveOut::large(format!("file://{}", upload.display()));
    desk.shrink("model.carton", "small.carton", leave_out).save_files(&upload).await.unwrap();
    let resolve = |allow: bool| desk.resolve("small.carton", "whole.carton").allow_file_links(allow);
    let refused = resolve(false).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(refused.hint().is_some_and(|hint| hint.contains("allow_file_links = true")), "{refused}");
    resolve(true).await.unwrap();
    assert!(desk.bytes("whole.carton") == desk.bytes("model.carton"));

    // Shrinking a carton again does not need the files that it already lacks.
    std::fs::remove_dir_all(&desk.config.cache_dir).unwrap();
    std::fs::remove_dir_all(&upload).unwrap();
    let picture = linked(&[(&noise(100_000, 2), "https://a/picture.png")]);
    desk.shrink("small.carton", "smaller.carton", picture).save_files(desk.path("upload2")).await.unwrap();
    let error = resolve(true).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[tokio::test]
async fn unpacked_cartons_are_shrunk_and_packed_too() {
    let desk = Desk::new();
    desk.open("model.carton").await.unpack(desk.path("unpacked")).await.unwrap();
    desk.shrink("model.carton", "small.carton", LeaveOut::large(PREFIX)).await.unwrap();
    desk.shrink("unpacked", "small2.carton", LeaveOut::large(PREFIX)).await.unwrap();
    assert!(desk.bytes("small2.carton") == desk.bytes("small.carton"));
    desk.resolve("unpacked", "whole.carton").await.unwrap();
    assert!(desk.bytes("whole.carton") == desk.bytes("model.carton"));
    // A shrunk carton whose files are in the cache is unpacked without LINKS.
    desk.insert(&[&noise(300_000, 1), "one two three\n".repeat(10_000).as_bytes()]);
    desk.open("small.carton").await.unpack(desk.path("unpacked2")).await.unwrap();
    assert!(!desk.path("unpacked2/LINKS").exists());
    let hash = desk.open("model.carton").await.manifest_sha256();
    assert_eq!(desk.open("unpacked2").await.manifest_sha256(), hash);

    std::fs::write(desk.path("unpacked/model/config.json"), "[]").unwrap();
    let error = desk.resolve("unpacked", "bad.carton").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Integrity, "{error}");
    assert!(error.to_string().contains("digest mismatch for `model/config.json`"), "{error}");
    assert!(!desk.path("bad.carton").exists());
    for output in ["unpacked/new.carton", "unpacked/model/new.carton"] {
        let error = desk.resolve("unpacked", output).await.unwrap_err();
        assert!(matches!(error, Error::Package(PackageError::OutputIsSource { .. })), "{error}");
    }
}

#[tokio::test]
async fn other_zip_readers_open_it() {
    let desk = Desk::new();
    desk.shrink("model.carton", "small.carton", LeaveOut::large(PREFIX)).await.unwrap();
    let mut zip = zip::ZipArchive::new(std::fs::File::open(desk.path("small.carton")).unwrap()).unwrap();
    let mut names = Vec::new();
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index).unwrap();
        names.push(entry.name().unwrap().into_owned());
        entry.read_to_end(&mut Vec::new()).unwrap();
    }
    let expected = [
        "model/config.json",
        "model/link.bin",
        "misc/picture.png",
        "tensor_data/index.toml",
        "LINKS",
        "carton.toml",
        "MANIFEST",
    ];
    assert_eq!(names, expected);
}

#[tokio::test]
async fn links_choose_files_anywhere_and_are_merged() {
    let desk = Desk::new();
    let picture = noise(100_000, 2);
    let leave_out = linked(&[(&picture, "https://a/p.png"), (b"{}", "https://a/c"), (b"other", "https://a/other")]);
    let shrunk = desk.shrink("model.carton", "small.carton", leave_out).await.unwrap();
    assert_eq!(left_out(&shrunk), ["misc/picture.png", "model/config.json"]);
    assert_eq!(shrunk.unmatched, [Sha256Digest::of(b"other")]);
    let links = desk.open("small.carton").await.contents().links().clone();
    assert_eq!(links.iter().len(), 2, "links of other cartons are left out");
    assert_eq!(
        (links.size(&Sha256Digest::of(b"{}")), links.size(&Sha256Digest::of(&picture))),
        (Some(2), Some(picture.len() as u64))
    );
    // Shrunk further, the carton keeps its URLs, and gets more URLs for files that are already linked.
    let vocabulary = "one two three\n".repeat(10_000).into_bytes();
    let more = linked(&[(&picture, "https://b/p.png"), (&vocabulary, "https://b/v")]);
    let smaller = desk.shrink("small.carton", "smaller.carton", more).await.unwrap();
    assert_eq!(left_out(&smaller), ["model/vocabulary.txt"]);
    assert_eq!(smaller.manifest_sha256, shrunk.manifest_sha256);
    let links = desk.open("smaller.carton").await.contents().links().clone();
    assert_eq!(links.urls(&Sha256Digest::of(&picture)), ["https://b/p.png", "https://a/p.png"]);
    assert_eq!(links.urls(&Sha256Digest::of(b"{}")), ["https://a/c"]);
    assert_eq!(links.iter().filter(|(digest, _)| links.size(digest).is_some()).count(), 3);
    // LINKS as the original Carton writes it, without sizes.
    let text = format!("version = 1\n\n[urls]\n{} = [\n    \"https://c/v\",\n]\n", Sha256Digest::of(&vocabulary));
    let original = LeaveOut::Linked(Links::parse(text.as_bytes()).unwrap());
    let shrunk = desk.shrink("model.carton", "original.carton", original).await.unwrap();
    assert_eq!(left_out(&shrunk), ["model/vocabulary.txt"]);
}

#[tokio::test]
async fn what_is_needed_to_open_a_carton_stays() {
    let desk = Desk::new();
    let toml = desk.entry("model.carton", "carton.toml");
    let index = desk.entry("model.carton", "tensor_data/index.toml");
    let leave_out = linked(&[(&toml, "https://a/t"), (&index, "https://a/i")]);
    let error = desk.shrink("model.carton", "x.carton", leave_out).await.unwrap_err();
    assert!(matches!(error, Error::Shrink(ShrinkError::NoneLinked { n_links: 2, .. })), "{error}");
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
        assert!(matches!(error, Error::Package(PackageError::OutputIsSource { .. })), "{output}: {error}");
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
async fn files_are_saved_for_uploading() {
    let desk = Desk::new();
    let save = |leave_out: LeaveOut, folder: &str| {
        desk.shrink("model.carton", "small.carton", leave_out).save_files(desk.path(folder))
    };
    let saved = |folder: &str| {
        let entries = std::fs::read_dir(desk.path(folder)).unwrap().map(|entry| entry.unwrap());
        let mut files: Vec<_> = entries
            .map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap()))
            .collect();
        files.sort();
        files
    };
    let (weights, words) = (noise(300_000, 1), "one two three\n".repeat(10_000).into_bytes());
    let mut expected = vec![
        (Sha256Digest::of(&weights).to_string(), weights.clone()),
        (Sha256Digest::of(&words).to_string(), words.clone()),
    ];
    expected.sort();
    // Saving twice works, and the folder may hold files of other models.
    for _ in 0..2 {
        let shrunk = save(LeaveOut::large(PREFIX), "upload/here").await.unwrap();
        assert!(saved("upload/here") == expected);
        for file in &shrunk.left_out {
            assert_eq!(file.saved.as_deref(), Some(&*desk.path("upload/here").join(file.sha256.to_string())));
        }
    }
    let urls = [(&*weights, "https://a/b/w%20x.bin"), (&*words, "https://a/b/words.txt?x#y"), (b"{}", "https://a")];
    save(linked(&urls), "upload/there").await.unwrap();
    let mut expected = vec![
        (Sha256Digest::of(&weights).to_string(), weights.clone()),
        ("words.txt".to_owned(), words.clone()),
        (Sha256Digest::of(b"{}").to_string(), b"{}".to_vec()),
    ];
    expected.sort();
    assert!(saved("upload/there") == expected);

    let error = save(linked(&[(&*weights, "https://a/x"), (&*words, "https://b/x")]), "upload/none").await.unwrap_err();
    assert!(error.to_string().contains("end with the same name `x`"), "{error}");
    // Another file of that name is there, of a different and of the same size.
    for content in [b"mine".to_vec(), vec![0; words.len()]] {
        std::fs::write(desk.path("words.txt"), &content).unwrap();
        let error = save(linked(&urls[1..2]), ".").await.unwrap_err();
        assert!(matches!(error, Error::Shrink(ShrinkError::Exists { .. })), "{error}");
        assert!(desk.bytes("words.txt") == content);
    }
    let error = save(linked(&[(&*words, "https://a/model.carton")]), ".").await.unwrap_err();
    assert!(matches!(error, Error::Package(PackageError::OutputIsSource { .. })), "{error}");
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
        let text = crate::causes::in_one_line(&error);
        assert!(text.contains("No space left"), "{text}");
    }
}

#[tokio::test]
async fn a_whole_carton_tells_its_nested_options() {
    let desk = Desk::new();
    let metadata = "spec_version = 1\n[runner]\nrunner_name = 'noop'\nrequired_framework_version = '1'\n\
                    [runner.opts]\ntable = { a = 1 }\nlist = [1]\nflat = 1";
    let input = PackageInput::new(Metadata::parse(metadata).unwrap(), desk.path("model"));
    package::write(&input, &desk.path("nested.carton"), Compression::Auto, &Context::default()).unwrap();
    assert_eq!(desk.resolve("nested.carton", "out.carton").await.unwrap().nested_options, ["list", "table"]);
    assert!(desk.resolve("model.carton", "out.carton").await.unwrap().nested_options.is_empty());
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
