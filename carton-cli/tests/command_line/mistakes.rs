//! Mistakes in TOML files written by people.

use insta::assert_snapshot;

use crate::sandbox::{Sandbox, outcome};

#[test]
fn unknown_keys_of_metadata() {
    let sandbox = Sandbox::new();
    sandbox.write("model/m", "m");
    let metadata = r#"model_name = "m"
licence = "MIT"
future = 1
input = []
output = []
[[self_test]]
inputs = {}
expected = { y = "y.npy" }
[runner.opts]
anything = 1
"#;
    sandbox.write("m.toml", metadata);
    let warned = sandbox.carton("pack model --runner noop --metadata m.toml --no-check").expect_code(0);
    assert_snapshot!(warned.stderr, @"
    warning: metadata, line 2: unknown key `licence`: did you mean `license`?
    warning: metadata, line 3: unknown key `future`
    warning: metadata, line 8: unknown key `expected` in self_test[0]: did you mean `expected_out`?
    ");
    let strict = sandbox.carton("pack model --runner noop --metadata m.toml --strict -o strict.carton");
    assert_snapshot!(strict, @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: the metadata has mistakes:
      metadata, line 2: unknown key `licence`: did you mean `license`?
      metadata, line 3: unknown key `future`
      metadata, line 8: unknown key `expected` in self_test[0]: did you mean `expected_out`?
    ");
    assert!(!sandbox.files().contains(&"strict.carton".to_owned()));
    // This is found without running, or even looking for, a runner.
    sandbox.carton("pack model --runner nothing --metadata m.toml --strict").expect_code(1);
    sandbox.write("m.toml", "model_name = \"m\"\n[runner.opts]\nanything = 1\n");
    let right = sandbox.carton("pack model --runner noop --metadata m.toml --strict").expect_code(0);
    assert!(!right.stderr.contains("unknown key"), "{right}");
}

#[test]
fn texts_without_quotes() {
    let sandbox = Sandbox::new();
    sandbox.write("model/m", "m");
    sandbox.write("m.toml", "output = []\n[[input]]\nname = \"x\"\ndtype = int64\n");
    assert_snapshot!(sandbox.carton("pack model --runner noop --metadata m.toml --no-check"), @r#"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot use `m.toml`

    Caused by:
      carton.toml is not valid TOML: quotes are missing in line 4, expected `"int64"`, found `int64`
    "#);
}

#[test]
fn references_to_nothing_are_named_by_their_self_test() {
    let sandbox = Sandbox::new();
    sandbox.write("model/m", "m");
    let tests = "input = []\noutput = []\n[[self_test]]\nname = \"two digits\"\ninputs = { x = \"@tensor_data/t\" }\n";
    sandbox.write("m.toml", tests);
    let failed = sandbox.carton("pack model --runner noop --metadata m.toml --no-check");
    assert!(
        failed.stderr.contains("self-test `two digits`, input `x`: `@tensor_data/t` is not in the carton"),
        "{failed}"
    );
}

#[test]
fn unknown_keys_of_the_configuration() {
    let sandbox = Sandbox::new();
    sandbox.write("config.toml", "cachedir = \"x\"\n[network]\nretries = 3\n");
    let outcome = sandbox.carton("--config config.toml runner ls").expect_code(0);
    assert_snapshot!(outcome.stderr, @"
    warning: configuration `config.toml`, line 1: unknown key `cachedir`: did you mean `cache_dir`?
    warning: configuration `config.toml`, line 3: unknown key `retries` in network: did you mean `max_retries`?
    ");
    assert_eq!(sandbox.carton("--config config.toml runner ls -q").stderr, "");
    let json = sandbox.carton("--config config.toml runner ls --json").expect_code(0);
    json.json();
    assert_eq!(json.stderr, outcome.stderr);
}

#[test]
fn a_tilde_is_the_home_directory() {
    let sandbox = Sandbox::new();
    let home = sandbox.work().join("home");
    std::fs::create_dir(&home).unwrap();
    sandbox.write("model/m", "m");
    sandbox.carton("pack model --runner noop").expect_code(0);
    let run = |cache: &str| {
        outcome(sandbox.command(["run", "model.carton"]).env("HOME", &home).env("CARTON_CACHE_DIR", cache))
    };
    run("~/my cache").expect_code(0);
    assert!(home.join("my cache").is_dir());
    assert_eq!(sandbox.files(), ["home", "model", "model.carton"]);
    assert_snapshot!(run("~you/cache"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot use the path `~you` as CARTON_CACHE_DIR: the home of another user is not looked up, only `~` and `~/…` are (`./~…` is a folder of that name)
    ");
}
