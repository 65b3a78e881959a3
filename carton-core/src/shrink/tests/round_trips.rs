//! Cartons are shrunk and made complete again.

use super::*;

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
        assert!(matches!(error.find(), Some(PackageError::OutputIsSource { .. })), "{error}");
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
        assert!(matches!(error.find(), Some(ShrinkError::Exists { .. })), "{error}");
        assert!(desk.bytes("words.txt") == content);
    }
    let error = save(linked(&[(&*words, "https://a/model.carton")]), ".").await.unwrap_err();
    assert!(matches!(error.find(), Some(PackageError::OutputIsSource { .. })), "{error}");
}

#[tokio::test]
async fn a_whole_carton_tells_its_nested_options() {
    let desk = Desk::new();
    let metadata = "spec_version = 1\n[runner]\nrunner_name = 'noop'\nrequired_framework_version = '1'\n\
                    [runner.opts]\ntable = { a = 1 }\nlist = [1]\nflat = 1";
    let input = PackageInput::new(Metadata::parse(metadata).unwrap(), desk.path("model"));
    package::write(&input, &desk.path("nested.carton"), Compression::Auto, &Context::default()).unwrap();
    let names = ["list", "table"].map(str::to_owned).to_vec();
    let warnings = desk.resolve("nested.carton", "out.carton").await.unwrap().warnings;
    assert_eq!(warnings, [PackWarning::NestedOptions { names }]);
    assert_eq!(desk.resolve("model.carton", "out.carton").await.unwrap().warnings, []);
}
