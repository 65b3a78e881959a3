//! Sharded checkpoints: written and read again, and every way in which files and index may disagree.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::Path;

use carton_tensor::content::Content;
use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::safetensors::{
    self, Metadata, SafetensorsError, ShardIndex, ShardIndexError, Sharded, ShardedError, write_sharded,
};

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
            assert_eq!(sharded.get(name).unwrap().shape, tensor.shape());
        }
        assert_eq!(sharded.len(), 5);
        assert!(sharded.shards().all(|(_, shard)| shard.metadata().get("format") == Some("pt")));
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
    assert!(ShardIndex::parse(br#"{"weight_map": {}}"#).unwrap().is_empty());

    fn check(text: &[u8], rule: &str, message: &str) {
        let error = ShardIndex::parse(text).unwrap_err();
        let found = format!("{error:?}");
        assert!(found.starts_with(rule) && error.to_string().contains(message), "{found}: {error}");
    }
    check(b"", "Json", "EOF");
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
    assert!(matches!(&error, ShardedError::Shard(SafetensorsError::Header { .. })));
    assert!(error.to_string().contains("m-00002-of-00002.safetensors"), "{error}");
    fs::write(place.path("m-00002-of-00002.safetensors"), "no such file").unwrap();
    let error = place.error();
    assert!(matches!(&error, ShardedError::Shard(SafetensorsError::OtherContent { content: Content::Text, .. })));
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
#[test]
fn links_lead_out_of_the_folder_only_where_the_index_does() {
    use std::os::unix::fs::symlink;
    let file = "m-00002-of-00002.safetensors";

    let outside = tempfile::tempdir().unwrap();
    let place = Checkpoint::new();
    fs::rename(place.path(file), outside.path().join("secret")).unwrap();
    symlink(outside.path().join("secret"), place.path(file)).unwrap();
    assert!(matches!(place.error(), ShardedError::Outside { file: found, .. } if found == file));
    // A link that leads out through a folder inside.
    fs::remove_file(place.path(file)).unwrap();
    symlink(outside.path(), place.path("folder")).unwrap();
    symlink("folder/secret", place.path(file)).unwrap();
    assert!(matches!(place.error(), ShardedError::Outside { .. }));
    // A link to a device, reading which would never end.
    fs::remove_file(place.path(file)).unwrap();
    symlink("/dev/zero", place.path(file)).unwrap();
    assert!(matches!(place.error(), ShardedError::Outside { .. }));
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
    assert!(place.open().is_ok());

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
    let sharded = Sharded::open(cache.path().join("snapshots/main/m.safetensors.index.json")).unwrap();
    assert_eq!(sharded.read("c").unwrap(), tensor(3, 0));
    // Links to other places in the cache are refused.
    fs::rename(cache.path().join("snapshots/main").join(file), cache.path().join("moved")).unwrap();
    fs::copy(place.path(file), cache.path().join("snapshots/other")).unwrap();
    symlink("../other", cache.path().join("snapshots/main").join(file)).unwrap();
    let error = Sharded::open(cache.path().join("snapshots/main/m.safetensors.index.json")).unwrap_err();
    assert!(matches!(error, ShardedError::Outside { .. }));
}
