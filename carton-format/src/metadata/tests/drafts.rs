//! Drafts of metadata.

use std::path::Path;

use carton_tensor::Dimension;

use super::*;
use crate::metadata::Options;

#[test]
fn drafts_may_be_unfinished() {
    let draft = Draft::parse("[runner.opts]\nthreads = 1").unwrap();
    assert_eq!((draft.runner_name.clone(), draft.opts["threads"].clone()), (None, 1.into()));
    assert!(chain(&draft.validate().unwrap_err()).contains("`runner.runner_name`"));
    assert_eq!(Draft::parse("").unwrap(), Draft::default());
    assert!(matches!(Draft::parse("spec_version = 2"), Err(MetadataError::UnsupportedVersion { .. })));
    assert!(Draft::parse("model_name = 1").is_err());
    // Every finished file is a draft too, and is unchanged after passing through one.
    let metadata = Metadata::parse(COMPLETE).unwrap();
    assert_eq!(Draft::parse(COMPLETE).unwrap().validate().unwrap(), metadata);
    assert_eq!(Draft::from(metadata.clone()).validate().unwrap(), metadata);
}

#[test]
fn drafts_refer_to_files() {
    let text = format!(
        "{SIGNATURE}
        self_test = [
            {{ inputs = {{ a = 'x.npy', b = 'dir/cases.npz#x', c = '@tensor_data/t' }}, expected_out = {{ d = 'a#b.npy' }} }},
            {{ inputs = {{ a = '/abs/CASES.NPZ#a#b' }} }},
        ]
        example = [{{ inputs = {{ a = 'cat.png' }}, sample_out = {{ a = '@misc/dog.png', b = './@odd' }} }}]
        [runner]
        runner_name = 'r'
        required_framework_version = '*'"
    );
    let mut draft = Draft::parse(&text).unwrap();
    let files: Vec<_> = draft.files().map(|(path, member)| (path.to_str().unwrap(), member)).collect();
    let expected = [
        ("x.npy", None),
        ("dir/cases.npz", Some("x")),
        ("a#b.npy", None),
        // Only names that end in `.npz` have members, so this is a plain file.
        ("/abs/CASES.NPZ#a#b", None),
        ("cat.png", None),
        ("./@odd", None),
    ];
    assert_eq!(files, expected);
    assert!(
        chain(&draft.clone().validate().unwrap_err())
            .contains("`self_test[0].inputs.a`: expected `@tensor_data/NAME`, found `x.npy`")
    );

    let failed = draft.clone().resolve_files(|path, _, place| {
        if path == Path::new("cat.png") { Err(place()) } else { Ok(Reference::TensorData("t".to_owned())) }
    });
    assert_eq!(failed, Err("example `example_0`, input `a`".to_owned()));
    draft
        .resolve_files(|path, member, _| {
            let text = format!("{}|{}", path.display(), member.unwrap_or_default());
            Ok::<_, ()>(if text.starts_with("cat") {
                Reference::Misc("cat.png".to_owned())
            } else {
                Reference::TensorData(text)
            })
        })
        .unwrap();
    assert_eq!(draft.files().count(), 0);
    let metadata = draft.validate().unwrap();
    let test = &metadata.self_tests()[0];
    assert_eq!(test.inputs["a"], "x.npy|");
    assert_eq!(test.inputs["b"], "dir/cases.npz|x");
    assert_eq!(test.inputs["c"], "t");
    assert_eq!(test.expected_out.as_ref().unwrap()["d"], "a#b.npy|");
    assert_eq!(metadata.examples()[0].inputs["a"], Reference::Misc("cat.png".to_owned()));
    assert!(Draft::parse(&text.replace("cat.png", "")).is_err());
    assert!(Draft::parse(&text.replace("cat.png", "@cat.png")).is_err());
}

/// Drafts built in code obey the same rules as text.
#[test]
fn drafts_made_by_hand() {
    let valid = || Draft {
        runner_name: Some("r".to_owned()),
        required_framework_version: Some(VersionReq::STAR),
        inputs: Some(vec![]),
        outputs: Some(vec![]),
        ..Draft::default()
    };
    let check = |change: &dyn Fn(&mut Draft), expected: &str| {
        let mut draft = valid();
        change(&mut draft);
        let found = chain(&draft.validate().expect_err(expected));
        assert!(found.contains(expected), "expected {expected}\nfound {found}");
    };
    assert!(valid().validate().is_ok());
    let spec = |shape| TensorSpec {
        name: "x".to_owned(),
        dtype: DataType::Int8,
        shape,
        description: None,
        internal_name: None,
        optional: None,
        default: None,
    };
    check(
        &|draft| draft.short_description = Some("\u{e9}".repeat(101)),
        "`short_description`: expected at most 100 characters, found 101",
    );
    check(&|draft| draft.inputs = None, "`input`: expected inputs and outputs to be declared together");
    let star = || "*".to_owned();
    check(
        &|draft| draft.inputs = Some(vec![spec(SymbolicShape::Symbol(star()))]),
        "`input[0].shape`: expected a symbol, found `*`",
    );
    let dimensions = |dimension| spec(SymbolicShape::Dimensions(vec![dimension]));
    check(
        &|draft| draft.inputs = Some(vec![dimensions(Dimension::Symbol(star()))]),
        "`input[0].shape[0]`: expected a symbol",
    );
    check(
        &|draft| draft.outputs = Some(vec![dimensions(Dimension::Fixed(u64::MAX))]),
        "`output[0].shape[0]`: expected a size that TOML",
    );
    check(
        &|draft| draft.runner_compat_version = Some(u64::MAX),
        "`runner.runner_compat_version`: expected an integer that TOML can hold",
    );
    let opts = |value: serde_json::Value| Options::from_iter([("k".to_owned(), value)]);
    check(
        &|draft| draft.opts = opts(serde_json::json!([{ "a": null }])),
        "`runner.opts.k[0].a`: expected a value that TOML can hold, found null",
    );
    check(&|draft| draft.opts = opts(serde_json::json!(u64::MAX)), "`runner.opts.k`: expected a signed 64-bit integer");
    let example = |path: &str| Example {
        name: None,
        description: None,
        inputs: [("x".to_owned(), Reference::Misc(path.to_owned()).into())].into(),
        sample_out: BTreeMap::new(),
    };
    check(&|draft| draft.examples = vec![example("../x")], "`example[0].inputs.x`: expected a relative path");
    let mut draft = valid();
    draft.short_description = Some("\u{e9}".repeat(100));
    assert!(draft.validate().is_ok());
    // In a carton that is read, a longer text is accepted.
    accepted(&file(&format!("short_description = '{}'", "x".repeat(101)), ""));
}
