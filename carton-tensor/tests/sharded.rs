//! Sharded checkpoints: written and read again, and every way in which files and index may disagree.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::Path;

use carton_tensor::any_file::{TensorFile, TensorFileFormat};
use carton_tensor::checkpoint::{FollowLinks, Sharded, ShardedError};
use carton_tensor::content::Content;
use carton_tensor::files::{ElementType, FileBytes, RawTensor};
use carton_tensor::safetensors::{self, Metadata, SafetensorsError, ShardIndex, ShardIndexError, write_sharded};
use serde_json::Value;

fn tensor(n_bytes: usize, seed: u8) -> RawTensor {
    let bytes: Vec<u8> = (0..n_bytes).map(|n| (n as u8).wrapping_add(seed)).collect();
    RawTensor::new(ElementType::Uint8, vec![n_bytes], bytes.into()).unwrap()
}

fn save(path: &Path, tensors: &[(&str, &RawTensor)]) {
    safetensors::write(tensors.iter().copied(), &Metadata::default(), fs::File::create(path).unwrap()).unwrap();
}

fn write(folder: &Path, tensors: &[(&str, RawTensor)], max_bytes: u64) -> Result<std::path::PathBuf, SafetensorsError> {
    let described: Vec<_> = tensors.iter().map(|(name, tensor)| (*name, tensor.dtype(), tensor.shape())).collect();
    let metadata = Metadata::new([("format", "pt")]).unwrap();
    write_sharded(folder, "model", &described, &metadata, max_bytes, |position| Ok(tensors[position].1.bytes().clone()))
}

fn files_of(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_is_written_is_read() {
    let tensors = [
        ("c", tensor(6, 1)),
        ("a", tensor(4, 2)),
        ("large", tensor(50, 3)),
        ("none", tensor(0, 4)),
        ("b", tensor(10, 5)),
    ];
    let place = tempfile::tempdir().unwrap();
    let index = write(place.path(), &tensors, 10).unwrap();
    let expected = [
        "model-00001-of-00003.safetensors",
        "model-00002-of-00003.safetensors",
        "model-00003-of-00003.safetensors",
        "model.safetensors.index.json",
    ];
    assert_eq!(files_of(place.path()), expected);
    for sharded in [Sharded::open(&index).unwrap(), Sharded::map(&index).unwrap()] {
        assert_eq!(sharded.names().collect::<Vec<_>>(), ["a", "c", "large", "b", "none"]);
        for (name, tensor) in &tensors {
            assert_eq!(&sharded.read(name).unwrap(), tensor);
            assert_eq!(sharded.shard_of(name).unwrap().shape(name).unwrap(), tensor.shape());
        }
        assert_eq!(sharded.len(), 5);
        let mut readers = sharded.shards().map(|(_, shard)| shard.as_safetensors().unwrap());
        assert!(readers.all(|reader| reader.metadata().get("format") == Some("pt")));
        assert!(matches!(sharded.read("d"), Err(ShardedError::NoSuchTensor { .. })));
    }

    // A single file needs no index.
    let place = tempfile::tempdir().unwrap();
    assert_eq!(write(place.path(), &tensors, 70).unwrap(), place.path().join("model.safetensors"));
    assert_eq!(files_of(place.path()), ["model.safetensors"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let plain = place.path().join("plain");
        fs::write(&plain, "").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&place.path().join("model.safetensors")), mode(&plain), "as any other file");
    }
}

#[test]
fn failed_writes_leave_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    // The same name in two files.
    let twice = [("a", tensor(4, 1)), ("a", tensor(4, 2))];
    assert!(matches!(write(place.path(), &twice, 4), Err(SafetensorsError::Unwritable(_))));
    let described = [("a", ElementType::Uint8, [4]), ("b", ElementType::Uint8, [4])];
    let failing = |_| Err(std::io::Error::other("no bytes"));
    let error = write_sharded(place.path(), "m", &described, &Metadata::default(), 4, failing).unwrap_err();
    assert!(matches!(error, SafetensorsError::Io { .. }));
    let short = |_| Ok(vec![1_u8].into());
    let error = write_sharded(place.path(), "m", &described, &Metadata::default(), 8, short).unwrap_err();
    assert!(matches!(error, SafetensorsError::Unexpected { .. }));
    for prefix in ["../m", "", "..", "a/b", "a\\b", "/m"] {
        let error = write_sharded(place.path(), prefix, &described, &Metadata::default(), 8, short).unwrap_err();
        assert!(matches!(error, SafetensorsError::Unexpected { .. }), "{prefix}");
    }
    assert_eq!(files_of(place.path()), Vec::<String>::new());
}

#[test]
fn indices_are_parsed_or_refused_by_their_rule() {
    let index = ShardIndex::parse(
        br#" {"other": [1e5, {}], "metadata": {"total_size": 1.5, "x": [[]]},
            "weight_map": {"b": "y", "\u0061": "x", "c": "y"}}"#,
    )
    .unwrap();
    assert_eq!(index.iter().collect::<Vec<_>>(), [("b", "y"), ("a", "x"), ("c", "y")]);
    assert_eq!(index.files().collect::<Vec<_>>(), ["x", "y"]);
    assert_eq!((index.file_of("a"), index.file_of("d")), (Some("x"), None));
    let index = ShardIndex::parse(br#"{"weight_map": {}}"#).unwrap();
    assert!(index.is_empty() && !index.is_metadata_null());
    assert!(ShardIndex::parse(br#"{"metadata": null, "weight_map": {}}"#).unwrap().is_metadata_null());

    fn check(text: &[u8], rule: &str, message: &str) {
        let error = ShardIndex::parse(text).unwrap_err();
        let found = format!("{error:?}");
        assert!(found.starts_with(rule) && error.to_string().contains(message), "{found}: {error}");
    }
    check(b"", "Json", "EOF");
    check("\u{feff}{\"weight_map\": {}}".as_bytes(), "ByteOrderMark", "a byte order mark");
    check(br#"{"weight_map": {}, "metadata": null, "metadata": {}}"#, "DuplicateKey", "`metadata`");
    check(b"[]", "Json", "expected an object with `weight_map`");
    check(b"{}", "Json", "no `weight_map`");
    check(br#"{"weight_map": {}} x"#, "Json", "trailing");
    check(br#"{"weight_map": []}"#, "Json", "expected an object of tensors");
    check(br#"{"weight_map": null}"#, "Json", "expected an object of tensors");
    check(br#"{"weight_map": {"a": 1}}"#, "Json", "expected a string");
    check(br#"{"weight_map": {}, "metadata": 1}"#, "Json", "expected an object");
    check(b"{\"weight_map\": {\"\xff\": \"x\"}}", "Json", "invalid utf-8 sequence");
    check(b"{\"weight_map\": {}, \"other\": \"\xff\"}", "Json", "invalid utf-8 sequence");
    check(br#"{"weight_map": {}, "weight_map": {}}"#, "DuplicateKey", "`weight_map` occurs twice");
    check(br#"{"metadata": {}, "weight_map": {}, "metadata": {}}"#, "DuplicateKey", "`metadata`");
    check(br#"{"weight_map": {"a": "x", "b": "x", "\u0061": "x"}}"#, "DuplicateKey", "`a` occurs twice");
    let deep = [br#"{"weight_map": {}, "deep": "#, "[".repeat(100_000).as_bytes()].concat();
    check(&deep, "Json", "EOF");
    for name in [
        "",
        ".",
        "..",
        "/etc/passwd",
        "../x",
        "a/b",
        "a\\\\b",
        "C:\\\\x",
        "C:x",
        "x:stream",
        "a\\u0000",
        "a\\nb",
        "sub/",
    ] {
        check(format!(r#"{{"weight_map": {{"a": "{name}"}}}}"#).as_bytes(), "FileName", "not the name of a file");
    }
}

/// A folder with two files of two tensors each and a valid index. Tests damage it.
struct Checkpoint(tempfile::TempDir);

impl Checkpoint {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        save(&place.path("m-00001-of-00002.safetensors"), &[("a", &tensor(1, 0)), ("b", &tensor(2, 0))]);
        save(&place.path("m-00002-of-00002.safetensors"), &[("c", &tensor(3, 0))]);
        place.index(&[("a", 1), ("b", 1), ("c", 2)]);
        place
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn index(&self, tensors: &[(&str, u32)]) {
        self.index_of(tensors.iter().map(|(name, number)| (*name, format!("m-{number:05}-of-00002.safetensors"))));
    }

    fn index_of<'n>(&self, tensors: impl IntoIterator<Item = (&'n str, String)>) {
        let entries: Vec<String> = tensors.into_iter().map(|(name, file)| format!("\"{name}\": \"{file}\"")).collect();
        fs::write(self.path("m.safetensors.index.json"), format!("{{\"weight_map\": {{{}}}}}", entries.join(",")))
            .unwrap();
    }

    fn open(&self) -> Result<Sharded, ShardedError> {
        Sharded::open(self.path("m.safetensors.index.json"))
    }

    fn error(&self) -> ShardedError {
        self.open().unwrap_err()
    }
}

fn check_missing(error: &ShardedError, expected: &str) {
    let ShardedError::MissingShards { files, count: 1, section, .. } = error else { panic!("{error}") };
    assert_eq!((files.as_slice(), *section), (["m-00002-of-00002.safetensors".to_owned()].as_slice(), expected));
}

#[test]
fn files_and_index_must_agree() {
    let place = Checkpoint::new();
    assert_eq!(place.open().unwrap().len(), 3);
    // Files that are not shards of the checkpoint do not matter.
    fs::write(place.path("consolidated.safetensors"), "").unwrap();
    fs::write(place.path("n-00001-of-00002.safetensors"), "").unwrap();
    fs::write(place.path("m-00001-of-00003.safetensors"), "").unwrap();
    assert!(place.open().is_ok());

    fs::remove_file(place.path("m-00002-of-00002.safetensors")).unwrap();
    let error = place.error();
    check_missing(&error, "7.3");
    assert!(error.to_string().contains("1 of its files is missing: `m-00002-of-00002.safetensors`"), "{error}");

    let place = Checkpoint::new();
    place
        .index_of([("a", "m-00001-of-00002.safetensors".to_owned()), ("b", "m-00001-of-00002.safetensors".to_owned())]);
    let error = place.error();
    check_missing(&error, "7.4");

    // The index implies too many missing files to list them, or even to iterate over them.
    let place = Checkpoint::new();
    place.index_of([("a", "m-1-of-999999999.safetensors".to_owned())]);
    fs::copy(place.path("m-00001-of-00002.safetensors"), place.path("m-1-of-999999999.safetensors")).unwrap();
    let error = place.error();
    assert!(
        matches!(&error, ShardedError::MissingShards { files, count: 999_999_998, .. } if files.len() == 10),
        "{error}"
    );
    assert!(error.to_string().contains("`m-2-of-999999999.safetensors`"), "{error}");
    assert!(error.to_string().contains("and 999999988 more"), "{error}");

    // As many series as files. The search for missing files stops after a thousand.
    let place = Checkpoint::new();
    let many: Vec<_> = (0..50_000).map(|n| (format!("t{n}"), format!("s{n}-1-of-1.safetensors"))).collect();
    place.index_of(many.iter().map(|(name, file)| (name.as_str(), file.clone())));
    assert!(matches!(place.error(), ShardedError::MissingShards { count: 1001, .. }));

    // Numbers that start at 0.
    let place = Checkpoint::new();
    fs::rename(place.path("m-00002-of-00002.safetensors"), place.path("m-00000-of-00002.safetensors")).unwrap();
    place.index(&[("a", 1), ("b", 1), ("c", 0)]);
    assert!(place.open().is_ok());

    let place = Checkpoint::new();
    save(&place.path("m-00003-of-00002.safetensors"), &[("d", &tensor(1, 0))]);
    assert!(matches!(place.error(), ShardedError::ExtraShard { file, .. } if file == "m-00003-of-00002.safetensors"));

    let place = Checkpoint::new();
    place.index(&[("a", 1), ("b", 2), ("c", 2)]);
    let error = place.error();
    assert!(matches!(&error, ShardedError::ExtraTensor { tensor, said: Some(_), .. } if tensor == "b"));
    assert!(error.to_string().contains("which has it, but in `m-00002-of-00002.safetensors`"), "{error}");

    let place = Checkpoint::new();
    place.index(&[("a", 1), ("c", 2)]);
    assert!(matches!(place.error(), ShardedError::ExtraTensor { tensor, said: None, .. } if tensor == "b"));

    let place = Checkpoint::new();
    place.index(&[("a", 1), ("b", 1), ("c", 2), ("d", 2)]);
    assert!(matches!(place.error(), ShardedError::MissingTensor { tensor, .. } if tensor == "d"));

    // The same tensor in two files.
    let place = Checkpoint::new();
    save(&place.path("m-00002-of-00002.safetensors"), &[("a", &tensor(1, 0)), ("c", &tensor(3, 0))]);
    assert!(matches!(place.error(), ShardedError::ExtraTensor { tensor, said: Some(_), .. } if tensor == "a"));

    let place = Checkpoint::new();
    fs::write(place.path("m-00002-of-00002.safetensors"), [9; 8]).unwrap();
    let error = place.error();
    assert!(matches!(&error, ShardedError::Safetensors(SafetensorsError::Header { .. })));
    assert!(error.to_string().contains("m-00002-of-00002.safetensors"), "{error}");
    fs::write(place.path("m-00002-of-00002.safetensors"), "no such file").unwrap();
    let error = place.error();
    assert!(matches!(&error, ShardedError::Safetensors(SafetensorsError::OtherContent { content: Content::Text, .. })));
    assert!(
        error.to_string().ends_with("m-00002-of-00002.safetensors` is text, expected a safetensors file"),
        "{error}"
    );

    let place = Checkpoint::new();
    fs::remove_file(place.path("m-00002-of-00002.safetensors")).unwrap();
    fs::create_dir(place.path("m-00002-of-00002.safetensors")).unwrap();
    let error = place.error();
    assert!(matches!(&error, ShardedError::NotAFile { found: "a folder", .. }), "{error}");

    // An index that exceeds the length limit.
    let file = fs::File::create(place.path("m.safetensors.index.json")).unwrap();
    file.set_len(ShardIndex::MAX_LENGTH + 1).unwrap();
    assert!(matches!(place.error(), ShardedError::Index { source: ShardIndexError::TooLong { .. }, .. }));
    assert!(matches!(Sharded::open(place.path("none.json")), Err(ShardedError::Io { .. })));
}

#[cfg(unix)]
fn open_following(place: &Checkpoint, links: FollowLinks) -> Result<Sharded, ShardedError> {
    Sharded::open_following(&place.path("m.safetensors.index.json"), links, |path| FileBytes::open(path))
}

/// Links that lead nowhere, or to what is no file, are no files of a checkpoint, whoever made them.
#[cfg(unix)]
#[test]
fn links_inside_of_the_folder_are_followed_by_all() {
    use std::os::unix::fs::symlink;
    let file = "m-00002-of-00002.safetensors";
    let place = Checkpoint::new();
    // A link to a device, reading which would never end.
    fs::remove_file(place.path(file)).unwrap();
    symlink("/dev/zero", place.path(file)).unwrap();
    assert!(matches!(place.error(), ShardedError::NotAFile { found: "a device, a pipe or a socket", .. }));
    // A link to nothing, and a link to itself.
    fs::remove_file(place.path(file)).unwrap();
    symlink("nothing", place.path(file)).unwrap();
    assert!(matches!(place.error(), ShardedError::MissingShards { .. }));
    fs::remove_file(place.path(file)).unwrap();
    symlink(file, place.path(file)).unwrap();
    assert!(matches!(place.error(), ShardedError::Io { .. }));

    // A link to a file below the folder is allowed.
    let place = Checkpoint::new();
    fs::create_dir(place.path("below")).unwrap();
    fs::rename(place.path(file), place.path("below/data")).unwrap();
    symlink("below/data", place.path(file)).unwrap();
    assert!(open_following(&place, FollowLinks::Inside).is_ok());

    // Like the cache of the hub: every file is a link into one folder of files named by their digests.
    let place = Checkpoint::new();
    let cache = tempfile::tempdir().unwrap();
    fs::create_dir_all(cache.path().join("snapshots/main")).unwrap();
    fs::create_dir(cache.path().join("blobs")).unwrap();
    for (number, entry) in fs::read_dir(place.0.path()).unwrap().enumerate() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), cache.path().join(format!("blobs/{number}"))).unwrap();
        let link = cache.path().join("snapshots/main").join(entry.file_name());
        symlink(format!("../../blobs/{number}"), link).unwrap();
    }
    let index = cache.path().join("snapshots/main/m.safetensors.index.json");
    let open = |links| Sharded::open_following(&index, links, |path| FileBytes::open(path));
    assert_eq!(open(FollowLinks::Own).unwrap().read("c").unwrap(), tensor(3, 0));
    // The index is a link out of its folder there.
    assert!(matches!(open(FollowLinks::Inside), Err(ShardedError::Outside { owner: None, .. })));
    // A link to another place in the cache leads elsewhere.
    fs::remove_file(cache.path().join("snapshots/main").join(file)).unwrap();
    fs::copy(place.path(file), cache.path().join("snapshots/other")).unwrap();
    symlink("../other", cache.path().join("snapshots/main").join(file)).unwrap();
    assert!(open(FollowLinks::Own).is_ok());
}

/// A link to a file elsewhere is followed if the user of this process made it, and so are all links on the way.
#[cfg(unix)]
#[test]
fn links_of_other_users_do_not_lead_out_of_the_folder() {
    use std::os::unix::fs::{MetadataExt, lchown, symlink};
    const OTHER: u32 = 12_345;
    let file = "m-00002-of-00002.safetensors";
    let outside = tempfile::tempdir().unwrap();
    let place = Checkpoint::new();
    fs::rename(place.path(file), outside.path().join("secret")).unwrap();
    let link = |to: &Path| {
        let _ = fs::remove_file(place.path(file));
        symlink(to, place.path(file)).unwrap();
    };
    let check = |links: FollowLinks, expected: Result<(), Option<u32>>| {
        let found = open_following(&place, links).map(drop).map_err(|error| match error {
            ShardedError::Outside { file: found, target, owner, .. } => {
                assert_eq!((found.as_str(), target), (file, fs::canonicalize(outside.path().join("secret")).unwrap()));
                owner
            }
            error => panic!("{error}"),
        });
        assert_eq!(found, expected, "{links:?}");
    };
    link(&outside.path().join("secret"));
    check(FollowLinks::Inside, Err(None));
    check(FollowLinks::Own, Ok(()));
    check(FollowLinks::All, Ok(()));
    // Through a folder inside that is a link, and a relative link that names it.
    symlink(outside.path(), place.path("folder")).unwrap();
    link(Path::new("./folder/../folder/secret"));
    if fs::symlink_metadata(place.path("folder")).unwrap().uid() != 0 {
        return; // Only the superuser gives links away.
    }
    let error = open_following(&place, FollowLinks::Own).err();
    // `folder/..` is the parent of the link's target, which has no `folder`.
    assert!(matches!(error, Some(ShardedError::MissingShards { .. })), "{error:?}");
    link(Path::new("./folder/secret"));
    check(FollowLinks::Own, Ok(()));
    lchown(place.path("folder"), Some(OTHER), None).unwrap();
    check(FollowLinks::Own, Err(Some(OTHER)));
    check(FollowLinks::Inside, Err(Some(OTHER)));
    check(FollowLinks::All, Ok(()));
    // The owner of the file says nothing: whoever makes a link need not own what it leads to.
    link(&outside.path().join("secret"));
    lchown(outside.path().join("secret"), Some(OTHER), None).unwrap();
    check(FollowLinks::Own, Ok(()));
    lchown(place.path(file), Some(OTHER), None).unwrap();
    check(FollowLinks::Own, Err(Some(OTHER)));
    let error = open_following(&place, FollowLinks::Own).unwrap_err().to_string();
    assert!(error.contains("outside of its folder, by way of a link that another user made (uid 12345)"), "{error}");
    // A stranger's link to an index elsewhere does not make its folder one of the checkpoint's.
    lchown(place.path(file), Some(0), None).unwrap();
    let elsewhere = Checkpoint::new();
    let planted = tempfile::tempdir().unwrap();
    for name in ["m.safetensors.index.json", "m-00001-of-00002.safetensors", file] {
        symlink(elsewhere.path(name), planted.path().join(name)).unwrap();
        lchown(planted.path().join(name), Some(OTHER), None).unwrap();
    }
    let index = planted.path().join("m.safetensors.index.json");
    let open = |links| Sharded::open_following(&index, links, |path| FileBytes::open(path));
    assert!(matches!(open(FollowLinks::Own), Err(ShardedError::Outside { owner: Some(OTHER), .. })));
    assert!(open(FollowLinks::All).is_ok());
    // A folder above the checkpoint is what the caller named.
    let above = tempfile::tempdir().unwrap();
    symlink(place.0.path(), above.path().join("model")).unwrap();
    lchown(above.path().join("model"), Some(OTHER), None).unwrap();
    lchown(place.path(file), Some(0), None).unwrap();
    assert!(Sharded::open(above.path().join("model/m.safetensors.index.json")).is_ok());
}

/// The shards that the libraries of Hugging Face write for PyTorch are read as PyTorch reads them.
#[test]
fn shards_of_pytorch_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/torch/sharded");
    let index = folder.join("pytorch_model.bin.index.json");
    let expected: Value = serde_json::from_slice(&fs::read(folder.join("expected.json")).unwrap()).unwrap();
    let expected = expected.as_object().unwrap();
    for file in [TensorFile::open(&index).unwrap(), TensorFile::map(&index).unwrap()] {
        assert_eq!(file.format(), TensorFileFormat::ShardedTorch);
        assert_eq!(file.as_sharded().unwrap().shards().len(), 2);
        assert_eq!(file.entries().count(), expected.len());
        for (name, expected) in expected {
            let tensor = file.read(name).unwrap();
            let hex: String = tensor.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(serde_json::json!([tensor.dtype().name(), tensor.shape(), hex]), *expected, "{name}");
            file.entry(name).unwrap().check().unwrap();
        }
    }
    let bytes = FileBytes::open(&index).unwrap();
    let file = TensorFile::with_files_beside(bytes, "https://host/pytorch_model.bin.index.json", |name| {
        FileBytes::open(folder.join(name))
    });
    assert_eq!(file.unwrap().entries().count(), expected.len());

    // An error in a shard is that of its format, and names the shard.
    let place = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), place.path().join(entry.file_name())).unwrap();
    }
    let (index, shard) = (place.path().join("pytorch_model.bin.index.json"), "pytorch_model-00002-of-00002.bin");
    let error = || TensorFile::open(&index).unwrap_err();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n";
    fs::write(place.path().join(shard), pointer).unwrap();
    assert!(error().to_string().contains("is a Git LFS pointer, expected a PyTorch checkpoint"), "{}", error());
    assert_eq!((error().content(), error().is_malformed()), (Some(Content::GitLfsPointer), true));
    save(&place.path().join(shard), &[("b", &tensor(2, 0))]);
    let mixed = "`pytorch_model-00001-of-00002.bin` of ";
    assert!(error().to_string().starts_with(mixed), "{}", error());
    assert!(
        error().to_string().contains(
            "is a PyTorch checkpoint (`torch.save`), and `pytorch_model-00002-of-00002.bin` is a safetensors file: "
        ),
        "{}",
        error()
    );
    fs::remove_file(place.path().join(shard)).unwrap();
    assert!(
        error().to_string().contains("1 of its files is missing: `pytorch_model-00002-of-00002.bin`"),
        "{}",
        error()
    );
    fs::copy(folder.join(shard), place.path().join(shard)).unwrap();
    fs::copy(folder.join(shard), place.path().join("pytorch_model-00003-of-00002.bin")).unwrap();
    assert!(error().to_string().contains("does not name `pytorch_model-00003-of-00002.bin`"), "{}", error());
}
