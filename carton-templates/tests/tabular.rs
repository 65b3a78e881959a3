//! Recognizes model files that the frameworks wrote (made by make_tabular_fixtures.py), and files that attack.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use carton_templates::{Recognized, Template, TemplateError, recognize};
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tabular").join(name)
}

fn template(path: &Path) -> Template {
    match recognize(path) {
        Ok(Some(Recognized::Template(template))) => template,
        other => panic!("{}: {other:?}", path.display()),
    }
}

/// Returns the kind and the hint of a file that is not run.
fn not_run(path: &Path) -> (String, String) {
    match recognize(path) {
        Ok(Some(Recognized::NotRun { kind, hint, .. })) => (kind, hint),
        other => panic!("{}: {other:?}", path.display()),
    }
}

/// Returns the line of a constant in the module that a template writes.
fn constant(template: &Template, name: &str) -> String {
    let folder = TempDir::new().unwrap();
    template.link_into(folder.path()).unwrap();
    let module = fs::read_to_string(folder.path().join("main.py")).unwrap();
    let lines: Vec<&str> = module.lines().filter(|line| line.starts_with(&format!("{name} = "))).collect();
    assert_eq!(lines.len(), 1, "{name}");
    lines[0].to_owned()
}

fn file(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn check(name: &str, kind: &str, requirements: &[&str]) {
    let template = template(&fixture(name));
    assert_eq!(template.kind(), kind, "{name}");
    assert_eq!(template.requirements(), requirements, "{name}");
    assert_eq!(constant(&template, "MODEL"), format!("MODEL = \"{name}\""));
}

const XGBOOST: [&str; 2] =
    ["xgboost-cpu>=3.4.1 ; sys_platform != \"darwin\"", "xgboost>=3.4.1 ; sys_platform == \"darwin\""];

#[test]
fn boosters_are_recognized() {
    for name in ["xgboost.json", "xgboost-indented.json", "xgboost-early.json"] {
        check(name, "an XGBoost model (JSON, version 3.4.1)", &XGBOOST);
        assert_eq!(constant(&template(&fixture(name)), "ESTIMATOR"), "ESTIMATOR = \"\"");
    }
    check("xgboost.ubj", "an XGBoost model (UBJSON, version 3.4.1)", &XGBOOST);
    assert!(template(&fixture("xgboost.ubj")).warnings().is_empty());
    assert!(template(&fixture("xgboost-early.json")).warnings()[0].contains("stopped early"));
    let old =
        ["xgboost-cpu>=2.1.1,<3.1 ; sys_platform != \"darwin\"", "xgboost>=2.1.1,<3.1 ; sys_platform == \"darwin\""];
    check("xgboost.deprecated", "an XGBoost model (binary format)", &old);
    // Of C, without the mark of the Python module in front.
    let bytes = fs::read(fixture("xgboost.deprecated")).unwrap();
    let (_folder, path) = file(bytes.strip_prefix(b"binf").unwrap());
    assert_eq!(template(&path).kind(), "an XGBoost model (binary format)");
    for (name, estimator) in [("classifier", "XGBClassifier"), ("regressor", "XGBRegressor")] {
        let name = format!("xgboost-{name}.ubj");
        check(&name, "an XGBoost model (UBJSON, version 3.4.1)", &[&XGBOOST[..], &["scikit-learn"]].concat());
        assert_eq!(constant(&template(&fixture(&name)), "ESTIMATOR"), format!("ESTIMATOR = \"{estimator}\""));
        assert!(template(&fixture(&name)).warnings().is_empty());
    }
    check("lightgbm.txt", "a LightGBM model (text, version v4)", &["lightgbm>=4"]);
    assert_eq!(not_run(&fixture("lightgbm-dump.json")).0, "a dump of a LightGBM model (JSON)");
    check("catboost.cbm", "a CatBoost model (cbm, version 1.2.10)", &["catboost>=1.2.10"]);
    check("catboost.json", "a CatBoost model (JSON, version 1.2.10)", &["catboost>=1.2.10"]);
    assert_eq!(constant(&template(&fixture("catboost.json")), "FORMAT"), "FORMAT = \"json\"");
}

#[test]
fn estimators_are_recognized() {
    for protocol in 0..6 {
        let name = format!("logistic-{protocol}.pickle");
        check(&name, "an estimator saved by pickle (scikit-learn 1.9.1)", &["scikit-learn==1.9.1", "numpy>=2"]);
        let template = template(&fixture(&name));
        assert_eq!(constant(&template, "FORMAT"), "FORMAT = \"pickle\"");
        // All was read, so there is no other warning.
        let named = "`sklearn.linear_model._logistic.LogisticRegression`";
        assert_eq!(
            template.warnings(),
            [format!("to load a pickle is to run what it names, which is done confined: {named}")]
        );
    }
    for name in ["tree.joblib", "tree-zlib.joblib", "tree-gzip.joblib"] {
        check(name, "an estimator saved by joblib (scikit-learn 1.9.1)", &["scikit-learn==1.9.1", "numpy>=2"]);
        let template = template(&fixture(name));
        assert_eq!(constant(&template, "FORMAT"), "FORMAT = \"joblib\"");
        assert_eq!(template.warnings().len(), 1, "{name}");
        assert!(
            template.warnings()[0]
                .ends_with(": `sklearn.tree._classes.DecisionTreeClassifier`, `sklearn.tree._tree.Tree`")
        );
    }
    check("tree-old.joblib", "an estimator saved by joblib (scikit-learn 1.5.2)", &["scikit-learn==1.5.2"]);
    // An array of objects is a pickle of its own between the opcodes.
    let requirements = ["scikit-learn==1.9.1", "pandas", "numpy>=2"];
    check("columns.joblib", "an estimator saved by joblib (scikit-learn 1.9.1)", &requirements);
    let warnings = template(&fixture("columns.joblib")).warnings().to_vec();
    assert!(warnings.len() == 1 && warnings[0].contains("`sklearn.tree._tree.Tree`"), "{warnings:?}");
    let (kind, hint) = not_run(&fixture("tree-xz.joblib"));
    assert!(kind == "a file compressed by xz" && hint.contains("compress=3"));
}

#[test]
fn other_libraries_in_pickles_are_pinned() {
    let new = ["xgboost-cpu==3.4.1 ; sys_platform != \"darwin\"", "xgboost==3.4.1 ; sys_platform == \"darwin\""];
    let requirements = [&["scikit-learn==1.9.1"], &new[..], &["numpy>=2"]].concat();
    check("xgboost.pickle", "an estimator saved by pickle (scikit-learn 1.9.1)", &requirements);
    let old = ["xgboost-cpu==2.1.4 ; sys_platform != \"darwin\"", "xgboost==2.1.4 ; sys_platform == \"darwin\""];
    check("xgboost-old.pickle", "an object saved by pickle", &[&["scikit-learn"], &old[..]].concat());
    let (_, hint) = not_run(&fixture("of-script.pickle"));
    assert!(hint.starts_with("it names `__main__.OfScript`, and no estimator"), "{hint}");
    let (_, hint) = not_run(&fixture("array.pickle"));
    assert!(hint.starts_with("it names nothing, and no estimator"), "{hint}");
}

#[test]
fn types_of_skops_are_listed() {
    let requirements = ["scikit-learn==1.9.1", "skops>=0.16.0"];
    check("logistic.skops", "an estimator saved by skops (version 0.16.0)", &requirements);
    check("tree.skops", "an estimator saved by skops (version 0.16.0)", &requirements);
    check("function.skops", "an estimator saved by skops (version 0.16.0)", &requirements);
    let tree = template(&fixture("tree.skops"));
    assert!(constant(&tree, "TRUSTED").contains("\"sklearn.tree._tree.Tree\""));
    assert!(constant(&tree, "FORMAT") == "FORMAT = \"skops\"" && tree.warnings().is_empty());
    let function = template(&fixture("function.skops"));
    assert!(constant(&function, "TRUSTED").contains("\"json.dumps\""), "{}", constant(&function, "TRUSTED"));
    assert_eq!(
        function.warnings(),
        ["the file has types that skops does not know, and main.py trusts, confined: `json.dumps`"]
    );
}

#[test]
fn pickles_that_attack_are_not_run() {
    let end = b"csklearn.svm\nSVC\n0N.";
    for (attack, named) in [
        (b"cos\nsystem\n0".as_slice(), "os.system"),
        (b"cposix\nsystem\n0", "posix.system"),
        (b"cbuiltins\neval\n0", "builtins.eval"),
        (b"c__builtin__\nexec\n0", "__builtin__.exec"),
        (b"(isubprocess\nPopen\n0", "subprocess.Popen"),
        // Names in the memo, in another order than they are used.
        (b"\x8c\x06system\x94\x8c\x05posix\x940 0h\x01h\x00\x930".as_slice(), "posix.system"),
        // Through a module that a harmless one has.
        (b"\x8c\x13joblib.numpy_pickle\x8c\x09os.system\x930", "joblib.numpy_pickle.os.system"),
        (b"cnumpy.testing._private.utils\nrunstring\n0", "numpy.testing._private.utils.runstring"),
        (b"cjoblib\nload\n0", "joblib.load"),
        (b"cjoblib._utils\neval_expr\n0", "joblib._utils.eval_expr"),
        // A number that is used again, and one that is given to what has none.
        (b"\x8c\x06system\x8c\x05posixq\x00\x8c\x01aq\x05\x8c\x05posix\x94h\x02\x8c\x06system\x930", "posix.system"),
        (b"cnumpy.f2py.crackfortran\nanalyzeline\n0", "numpy.f2py.crackfortran.analyzeline"),
    ] {
        // No opcode is a space.
        let attack: Vec<u8> = attack.iter().copied().filter(|byte| *byte != b' ').collect();
        let (_folder, path) = file(&[b"\x80\x04".as_slice(), &attack, end].concat());
        let (kind, hint) = not_run(&path);
        assert!(kind.ends_with(&format!(", which calls `{named}`")), "{kind}");
        assert!(hint.contains("likely an attack"), "{hint}");
    }
    let (_folder, path) = file(b"\x80\x04cmy_package\nModel\n0csklearn.svm\nSVC\n.");
    assert!(not_run(&path).0.ends_with(", of the modules `my_package`"));
    // A name of a terminal's commands.
    let (_folder, path) = file(b"\x80\x04cos\n\x1b[2Jsystem\n.");
    assert!(not_run(&path).0.ends_with("`os.?[2Jsystem`"));
}

#[test]
fn what_is_not_understood_is_said() {
    for (bytes, is_known) in [
        // A name by a number, and one that is made.
        (b"\x80\x04csklearn.svm\nSVC\n\x82\x01.".as_slice(), true),
        (b"\x80\x04csklearn.svm\nSVC\n]]\x93.", true),
        (b"\x80\x04csklearn.svm\nSVC\nVbuiltins\nVev\\u0061l\n\x93.", true),
        // A number of a name that a list takes over: CPython does not see `posix.system` here.
        (b"\x80\x04csklearn.svm\nSVC\n\x8c\x06systemq\x000]q\x000\x8c\x05posixh\x00\x93.", true),
        // The end is missing.
        (b"\x80\x04csklearn.svm\nSVC\n", true),
        (b"\x80\x04csklearn.svm\nSVC\n\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.", true),
        // No opcode; nothing to take from the stack; a mark without an end.
        (b"\x80\x04csklearn.svm\nSVC\n\xff", true),
        (b"\x80\x04csklearn.svm\nSVC\n00.", true),
        (b"\x80\x04csklearn.svm\nSVC\nu.", true),
        (b"\x80\x04", false),
        (b"\x80\x04\xff", false),
        (b"\x80\x06csklearn.svm\nSVC\n.", false),
        (b"\x80", false),
        (b"", false),
        (b"\x1f\x8b", false),
        (b"\x78\x9c\x00\x00", false),
    ] {
        let (_folder, path) = file(bytes);
        if is_known {
            let warnings = template(&path).warnings().to_vec();
            assert_eq!(warnings[1], "the pickle was not understood to its end, so it may name more", "{bytes:?}");
        } else {
            assert_eq!(recognize(&path).unwrap(), None, "{bytes:?}");
        }
    }
}

#[test]
fn each_beginning_of_a_file_is_taken() {
    let (_folder, path) = file(b"");
    for name in [
        "xgboost.ubj",
        "xgboost.deprecated",
        "lightgbm.txt",
        "logistic.skops",
        "logistic-0.pickle",
        "columns.joblib",
        "tree-zlib.joblib",
    ] {
        let bytes = fs::read(fixture(name)).unwrap();
        for length in (0..bytes.len()).step_by(bytes.len() / 100) {
            fs::write(&path, &bytes[..length]).unwrap();
            let found = recognize(&path);
            assert!(matches!(found, Ok(_) | Err(TemplateError::Malformed { .. })), "{name}: {found:?}");
        }
    }
}

#[test]
fn changed_bytes_are_taken() {
    let (_folder, path) = file(b"");
    for name in ["logistic-5.pickle", "logistic-0.pickle", "columns.joblib", "tree-zlib.joblib", "logistic.skops"] {
        let mut bytes = fs::read(fixture(name)).unwrap();
        for place in (0..bytes.len()).step_by(21) {
            let before = bytes[place];
            bytes[place] = [0, 0x28, 0x52, 0x62, 0x7f, 0x8e, 0xff][place / 21 % 7];
            fs::write(&path, &bytes).unwrap();
            // An archive may be broken in a way that is certain.
            let _ = recognize(&path);
            bytes[place] = before;
        }
    }
}

#[test]
fn bombs_are_bounded() {
    let repeated =
        |start: &[u8], part: &[u8], n: usize| [b"\x80\x04csklearn.svm\nSVC\n", start, &part.repeat(n), b"."].concat();
    // Values on the stack; tuples in tuples; dictionaries in dictionaries; kept values; a dictionary in itself.
    for bytes in [
        repeated(b"", b"(", 3 << 20),
        repeated(b"N", b"\x85", 3 << 20),
        repeated(b"", b"}\x94X\x01\0\0\0a", 1 << 20),
        repeated(b"", b"\x8c\x03abc\x940", 1 << 20),
        repeated(b"}\x94", b"X\x05\0\0\0dtypeh\0s", 1 << 18),
    ] {
        let (_folder, path) = file(&bytes);
        assert!(matches!(recognize(&path), Ok(Some(Recognized::Template(_)))));
    }
    let mut names = b"\x80\x04csklearn.svm\nSVC\n".to_vec();
    for number in 0..5000 {
        names.extend(format!("csklearn\nA{number}\n0").as_bytes());
    }
    let (_folder, path) = file(&[&names[..], b"N."].concat());
    let warnings = template(&path).warnings().to_vec();
    assert!(warnings[0].ends_with("and 988 more") && warnings.len() == 2, "{warnings:?}");
    // A name that is longer than names are.
    let (_folder, path) = file(&[&b"\x80\x04csklearn.svm\nSVC\nc"[..], &b"a".repeat(100_000), b"\nb\n."].concat());
    assert_eq!(template(&path).warnings().len(), 2);
}

#[test]
fn zeros_are_decompressed_to_a_limit() {
    // 4 GiB of a value that is skipped, of which 520 MiB are there, in 3 MB.
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, b"\x80\x04csklearn.svm\nSVC\n\x8e\0\0\0\0\x01\0\0\0").unwrap();
    let zeros = vec![0; 1 << 20];
    for _ in 0..520 {
        std::io::Write::write_all(&mut encoder, &zeros).unwrap();
    }
    let (_folder, path) = file(&encoder.finish().unwrap());
    assert_eq!(template(&path).warnings().len(), 2);
}

#[test]
fn text_of_other_formats_is_left_alone() {
    let deep = "[".repeat(200_000);
    let nested = format!("{{\"learner\":{{\"attributes\":{{\"a\":{deep}");
    for text in [
        "tree",
        "tree\n",
        "tree\nversion=v\n",
        "tree\nversion=vx\n",
        "{\"learner\":{}}",
        "{\"learner\":[]}",
        "CBM",
        "{}",
        &deep,
        "PK\x03\x04",
    ] {
        let (_folder, path) = file(text.as_bytes());
        assert_eq!(recognize(&path).unwrap(), None, "{}", &text[..text.len().min(40)]);
    }
    // It is recognized by its start, and read by XGBoost.
    let (_folder, path) = file(nested.as_bytes());
    assert_eq!(template(&path).kind(), "an XGBoost model (JSON)");
    for version in ["[]", "[1]", "[1,2,x]", "[99999,1,1]", "[1.5,1,1]", "[-1,0,0]", "[3,4,1"] {
        let (_folder, path) = file(format!("{{\"learner\":{{\"attributes\":{{}}}},\"version\":{version}").as_bytes());
        let expected =
            if version == "[3,4,1" { "an XGBoost model (JSON, version 3.4.1)" } else { "an XGBoost model (JSON)" };
        assert_eq!(template(&path).kind(), expected, "{version}");
    }
}

#[test]
fn names_of_files_are_texts_of_python() {
    let folder = TempDir::new().unwrap();
    for (name, literal) in [
        ("a\"b'c\\d.json", r#""a\"b'c\\d.json""#),
        ("tab\tline\nend\u{1}\u{7f}.json", "\"tab\\tline\\nend\\u0001\u{7f}.json\""),
        ("Győr 🜚 \u{2028}.json", "\"Győr 🜚 \u{2028}.json\""),
        ("${x} {0} %s.json", "\"${x} {0} %s.json\""),
    ] {
        let path = folder.path().join(name);
        fs::copy(fixture("xgboost.json"), &path).unwrap();
        let written = TempDir::new().unwrap();
        template(&path).link_into(written.path()).unwrap();
        let module = fs::read_to_string(written.path().join("main.py")).unwrap();
        assert!(module.contains(&format!("\nMODEL = {literal}\n")), "{name}");
        assert!(written.path().join(name).is_file());
    }
}
