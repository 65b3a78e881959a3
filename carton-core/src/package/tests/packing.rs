//! What goes into a carton, and what must not.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU64, Ordering};

use carton_format::digest::Sha256Digest;
use carton_format::links::Links;

use super::*;

/// Packs the model at `model` in the folder and compares its files in the carton.
fn check_model(folder: &Folder, model: &str, expected: BTreeMap<String, String>) {
    let output = Folder::new();
    let carton = pack(&output, "out.carton", &PackageInput::new(metadata(""), folder.path(model))).unwrap();
    let package = open(&carton).unwrap();
    assert_eq!(listing(&package), expected);
    let report = package.contents().verify(&Context::default()).unwrap();
    assert!(report.is_good(), "{report:?}");
}

/// Packing the model at `model` in the folder must fail, and leave nothing behind.
fn check_refused(folder: &Folder, model: &str, expected: &str) {
    let output = Folder::new();
    let input = PackageInput::new(metadata(""), folder.path(model));
    let error = pack(&output, "out.carton", &input).expect_err(expected);
    let found = chain(&error);
    assert!(found.contains(expected), "expected {expected}\nfound {found}");
    assert_eq!(output.names(), [""; 0]);
}

#[test]
fn files_and_folders() {
    let folder = Folder::new();
    folder.file("m/b", "1");
    folder.file("m/a/c d=e", "2");
    folder.file("m/.hidden", "");
    folder.file("m/a/deep/er/x.bin", "3");
    std::fs::create_dir(folder.path("m/empty")).unwrap();
    let expected =
        map([("model/b", "1"), ("model/a/c d=e", "2"), ("model/.hidden", ""), ("model/a/deep/er/x.bin", "3")]);
    check_model(&folder, "m", expected.clone());
    folder.link("alias", "m");
    check_model(&folder, "alias", expected);
    check_model(&folder, "m/b", map([("model/b", "1")]));
    folder.link("name.bin", "m/b");
    check_model(&folder, "name.bin", map([("model/name.bin", "1")]));
}

#[test]
fn links() {
    let folder = Folder::new();
    folder.file("m/real/weights", "w");
    folder.file("elsewhere/blob", "b");
    folder.file("elsewhere/more/other", "o");
    folder.link("m/near", "real/weights");
    folder.link("m/real/up", "../real/./weights");
    folder.link("m/chain", "near");
    folder.link("m/absolute", folder.path("m/real/weights"));
    folder.link("m/leaves", "../elsewhere/blob");
    folder.link("m/round_about", "../m/real/weights");
    folder.link("m/folder", "real");
    folder.link("m/away", "../elsewhere");
    folder.link("elsewhere/more/back", "../../m/real/weights");
    folder.link("elsewhere/more/beside", "other");
    let expected = map([
        ("model/real/weights", "w"),
        ("model/near", "-> real/weights"),
        ("model/real/up", "-> weights"),
        // Straight to the end of the chain.
        ("model/chain", "-> real/weights"),
        ("model/absolute", "-> real/weights"),
        ("model/leaves", "b"),
        ("model/round_about", "-> real/weights"),
        // A link to a folder stands for the files in it.
        ("model/folder/weights", "-> ../real/weights"),
        ("model/folder/up", "-> ../real/weights"),
        ("model/away/blob", "b"),
        ("model/away/more/other", "o"),
        ("model/away/more/back", "-> ../../real/weights"),
        ("model/away/more/beside", "o"),
    ]);
    check_model(&folder, "m", expected);
}

#[test]
fn links_that_lead_nowhere() {
    let refused = |target: &str, expected: &str| {
        let folder = Folder::new();
        folder.file("m/a", "1");
        folder.link("m/dir/link", target);
        check_refused(&folder, "m", expected);
    };
    refused("nothing", "nothing is where it leads to");
    refused("../a/b", "nothing is where it leads to");
    refused("link", "it leads in a circle");
    refused(".", "it leads to a folder that it is in");
    refused("..", "it leads to a folder that it is in");
    refused("/dev/null", "m/dir/link`: expected a file, a folder or a symbolic link, found a device");
    let folder = Folder::new();
    folder.file("m/x/a", "1");
    folder.link("m/x/y", "../z");
    folder.file("m/z/b", "1");
    folder.link("m/z/x", "../x");
    check_refused(&folder, "m", "it leads to a folder that it is in");
}

#[test]
fn what_is_no_file() {
    let folder = Folder::new();
    folder.file("m/a", "1");
    let special = folder.path("m/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &special, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    check_refused(&folder, "m", "m/pipe`: expected a file, a folder or a symbolic link, found a named pipe");
    check_refused(&folder, "m/pipe", "found a named pipe");
    std::fs::remove_file(&special).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(&special).unwrap();
    check_refused(&folder, "m", "found a socket");
    check_refused(&folder, "nothing", "cannot open");
    std::fs::create_dir(folder.path("empty")).unwrap();
    check_refused(&folder, "empty", "empty`: it has no files");
}

#[test]
fn names() {
    let refused = |name: &[u8], expected: &str| {
        let folder = Folder::new();
        folder.file("m/a", "1");
        let path = folder.path("m").join(std::ffi::OsStr::from_bytes(name));
        std::fs::write(path, "2").unwrap();
        check_refused(&folder, "m", expected);
    };
    refused(b"new\nline", "its name is not allowed: it has a NUL or a line break");
    refused(b"back\\slash", "its name is not allowed: it has a back slash");
    refused(b"latin\xe9", "its name is not allowed: it is not UTF-8");
    let folder = Folder::new();
    let deep = (0..30).map(|_| "n".repeat(120)).collect::<Vec<_>>().join("/");
    folder.file(&format!("m/{deep}"), "1");
    check_refused(&folder, "m", "its name is not allowed: it is longer than 3072 bytes");
}

#[test]
fn folders_as_deep_as_names_allow() {
    let folder = Folder::new();
    let name = ["d"; 1400].join("/");
    folder.file(&format!("m/{name}"), "1");
    check_model(&folder, "m", map([(&format!("model/{name}"), "1")]));
}

#[test]
fn misc_files() {
    let folder = Folder::new();
    let model = folder.file("m.bin", "1");
    let picture = folder.file("picture.png", "png");
    folder.link("link.png", "picture.png");
    let example = "[[example]]\ninputs = { x = '@misc/a/cat.png' }\nsample_out = { y = '@tensor_data/t' }";
    let mut input = PackageInput::new(metadata(example), &model);
    input.misc = [("a/cat.png".to_owned(), folder.path("link.png")), ("b".to_owned(), picture)].into();
    input.tensors.insert("t".to_owned(), numbers(&[1.0]));
    let package = open(&pack(&folder, "out.carton", &input).unwrap()).unwrap();
    assert_eq!(package.misc("a/cat.png").unwrap(), b"png");
    assert_eq!(package.misc_paths().collect::<Vec<_>>(), ["a/cat.png", "b"]);
    let mut bytes = Vec::new();
    package.misc_reader("b").unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, b"png");
    assert!(chain(&package.misc("c").unwrap_err()).contains("the carton has no file `misc/c`"));
    let example = package.examples().next().unwrap();
    assert!(matches!(&example.inputs().unwrap()["x"], ExampleValue::Misc(bytes) if bytes == b"png"));
    assert!(
        matches!(&example.sample_out().unwrap()["y"], ExampleValue::Tensor(tensor) if elements(tensor) == "[1] [1.0]")
    );

    let refused = |path_in_misc: &str, path: PathBuf, expected: &str| {
        let mut input = PackageInput::new(metadata(""), &model);
        input.misc.insert(path_in_misc.to_owned(), path);
        let found = chain(&pack(&folder, "refused.carton", &input).expect_err(expected));
        assert!(found.contains(expected), "expected {expected}\nfound {found}");
    };
    refused("../x", folder.path("picture.png"), "cannot pack `../x`: its name is not allowed");
    refused("x", folder.path("."), "expected a file, a folder or a symbolic link, found a folder");
    refused("x", folder.path("nothing"), "cannot open");
}

#[test]
fn self_tests() {
    let folder = Folder::new();
    let tests = "
        [[self_test]]
        name = 'first'
        inputs = { x = '@tensor_data/x', s = '@tensor_data/s' }
        expected_out = { r = '@tensor_data/r' }
        [[self_test]]
        inputs = {}";
    let mut input = PackageInput::new(metadata(tests), folder.file("m", "1"));
    let ragged = NestedTensor::new(vec![numbers(&[1.0]), numbers(&[2.0, 3.0])]).unwrap();
    input.tensors = [
        ("x", numbers(&[0.5, 1.5])),
        ("s", strings(&["a", "\u{e9}\n"])),
        ("r", ragged.into()),
        ("unused", numbers(&[])),
    ]
    .map(|(name, tensor)| (name.to_owned(), tensor))
    .into();
    let package = open(&pack(&folder, "out.carton", &input).unwrap()).unwrap();
    let tests: Vec<_> = package.self_tests().collect();
    assert_eq!(tests.iter().map(SelfTestData::label).collect::<Vec<_>>(), ["first", "self_test_1"]);
    let inputs = tests[0].inputs().unwrap();
    assert_eq!(elements(&inputs["x"]), "[2] [0.5, 1.5]");
    assert_eq!(elements(&inputs["s"]), "[2] [\"a\", \"\u{e9}\\n\"]");
    let expected_out = tests[0].expected_out().unwrap().unwrap();
    assert_eq!(elements(&expected_out["r"]), "[\"[1] [1.0]\", \"[2] [2.0, 3.0]\"]");
    assert!(tests[1].inputs().unwrap().is_empty());
    assert!(tests[1].expected_out().unwrap().is_none());
    assert_eq!(elements(&package.tensor("unused").unwrap()), "[0] []");
    assert!(package.tensor("nothing").is_err());
}

#[test]
fn dangling_references() {
    let folder = Folder::new();
    let model = folder.file("m", "1");
    let check = |tables: &str, expected: &str| {
        let found =
            chain(&pack(&folder, "out.carton", &PackageInput::new(metadata(tables), &model)).expect_err(expected));
        assert_eq!(found, expected);
    };
    let expected = "carton.toml: self-test `self_test_0`, input `x`: `@tensor_data/t` is not in the carton (`self_test[0].inputs.x`)";
    check("[[self_test]]\ninputs = { x = '@tensor_data/t' }", expected);
    let expected = "carton.toml: self-test `self_test_0`, output `y`: `@tensor_data/u` is not in the carton (`self_test[0].expected_out.y`)";
    check("[[self_test]]\ninputs = {}\nexpected_out = { y = '@tensor_data/u' }", expected);
    let expected =
        "carton.toml: example `example_0`, input `x`: `@misc/cat.png` is not in the carton (`example[0].inputs.x`)";
    check("[[example]]\ninputs = { x = '@misc/cat.png' }", expected);
    let expected = "carton.toml: example `example_0`, output `y`: `@tensor_data/t` is not in the carton (`example[0].sample_out.y`)";
    check("[[example]]\nsample_out = { y = '@tensor_data/t' }", expected);
    assert_eq!(folder.names(), ["m"]);
}

#[test]
fn the_output_appears_when_it_is_complete() {
    let folder = Folder::new();
    let model = folder.file("m", "1");
    let carton = folder.file("out.carton", "what was there before");
    let input = PackageInput::new(metadata(""), &model);

    let stop = Context::default();
    stop.cancel_token().cancel();
    let error = write(&input, &carton, Compression::Auto, &stop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error:?}");
    assert_eq!(std::fs::read(&carton).unwrap(), b"what was there before");
    assert_eq!(folder.names(), ["m", "out.carton"]);

    let (calls, folder) = (Arc::new(AtomicU64::new(0)), Arc::new(folder));
    let (counted, watched) = (Arc::clone(&calls), Arc::clone(&folder));
    let count = Context::watched(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        // If the process were killed here, it would leave no carton. Most file systems do not even need a temporary name.
        assert!(watched.names().iter().all(|name| name == "out.carton" || !name.ends_with(".carton")));
    });
    let manifest = write(&input, &carton, Compression::Auto, &count).unwrap();
    assert!(calls.load(Ordering::Relaxed) > 0);
    assert_eq!(open(&carton).unwrap().contents().manifest_hash(), Some(manifest.hash()));
    assert_eq!(folder.names(), ["m", "out.carton"]);
    // A new name is created in a different way than an existing one is replaced.
    pack(&folder, "new.carton", &input).unwrap();
    assert_eq!(std::fs::read(folder.path("new.carton")).unwrap(), std::fs::read(&carton).unwrap());
    std::fs::remove_file(folder.path("new.carton")).unwrap();
    // The mode is that of ordinary new files, not that of temporary files.
    let expected = folder.file("plain", "");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&carton), mode(&expected));

    assert_eq!(pack(&folder, "missing/out.carton", &input).unwrap_err().kind(), ErrorKind::Machine);
    std::fs::create_dir(folder.path("taken")).unwrap();
    assert_eq!(pack(&folder, "taken", &input).unwrap_err().kind(), ErrorKind::Machine);
    assert_eq!(folder.names(), ["m", "out.carton", "plain"]);
}

#[test]
fn the_output_is_not_one_of_the_inputs() {
    let folder = Folder::new();
    let model = folder.file("m/weights", "1");
    let input = PackageInput::new(metadata(""), folder.path("m"));
    let carton = pack(&folder, "m/out.carton", &input).unwrap();
    let error = pack(&folder, "m/out.carton", &input).unwrap_err();
    assert!(matches!(error, PackageError::OutputIsInput { .. }), "{error:?}");
    folder.link("alias", "m");
    assert!(pack(&folder, "alias/out.carton", &input).is_err());
    assert!(open(&carton).is_ok());
    assert!(pack(&folder, "m/weights", &PackageInput::new(metadata(""), &model)).is_err());
    assert_eq!(std::fs::read(model).unwrap(), b"1");
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let bytes = |names: [&str; 3]| {
        let folder = Folder::new();
        for name in names {
            folder.file(&format!("m/{name}"), name.repeat(1000));
        }
        folder.link("m/link", "b");
        let mut input =
            PackageInput::new(metadata("[[self_test]]\ninputs = { x = '@tensor_data/x' }"), folder.path("m"));
        input.tensors.insert("x".to_owned(), numbers(&[1.0]));
        std::fs::read(pack(&folder, "out.carton", &input).unwrap()).unwrap()
    };
    assert_eq!(bytes(["a", "b", "c/d"]), bytes(["c/d", "b", "a"]));
}

#[test]
fn linked_files_stay_out() {
    let folder = Folder::new();
    folder.file("m/big", "big file");
    folder.file("m/small", "small file");
    folder.link("m/link", "big");
    let digest = Sha256Digest::of(b"big file");
    let unused = Sha256Digest::of(b"another");
    let url = |name: &str| vec![format!("https://example.com/{name}")];
    let mut input = PackageInput::new(metadata(""), folder.path("m"));
    input.links = Links::from_urls([(digest, url("big")), (unused, url("unused"))].into()).unwrap();
    let package = open(&pack(&folder, "out.carton", &input).unwrap()).unwrap();
    let info = package.info();
    let file = |path: &str| info.files.iter().find(|file| file.path == path).unwrap();
    assert_eq!((file("model/big").linked, file("model/big").sha256), (true, Some(digest)));
    assert_eq!((file("model/big").size, file("model/big").stored), (None, None));
    assert!(!file("model/small").linked);
    assert_eq!(package.contents().links().urls(&digest), url("big"));

    input.links = Links::from_urls([(unused, url("unused"))].into()).unwrap();
    let package = open(&pack(&folder, "out.carton", &input).unwrap()).unwrap();
    assert!(package.contents().links().is_empty());
}
