//! Metadata, files and outputs that `carton pack` refuses before a model is loaded.

use std::fs;
use std::process::Command;

use insta::assert_snapshot;

use crate::sandbox::{Sandbox, outcome};

#[test]
fn what_metadata_refers_to_is_named_with_its_place() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    let signature = "[[input]]\nname = 'x'\ndtype = 'float32'\nshape = '*'\n[[output]]\nname = 'x'\ndtype = 'float32'\nshape = '*'\n";
    let check = |test: &str, expected: &str| {
        sandbox.write("m.toml", format!("{signature}{test}"));
        let refused = sandbox.carton("pack model.bin --runner noop --metadata m.toml").expect_code(1);
        assert!(refused.stderr.contains(expected), "{refused}");
    };
    check(
        "[[self_test]]\nname = 'zeros'\ninputs = { x = 'gone.npy' }\n",
        "self-test `zeros`, input `x` refers to `gone.npy`",
    );
    check(
        "[[self_test]]\ninputs = {}\nexpected_out = { x = 'gone.npz#a' }\n",
        "self-test `self_test_0`, expected output `x` refers to `gone.npz#a`",
    );
    check("[[example]]\nname = 'cat'\ninputs = { x = 'cat.png' }\n", "example `cat`, input `x` refers to `cat.png`");
    check("[[self_test]]\ninputs = { x = 'model.bin#a' }\n", "cannot open `model.bin#a`");
}

#[test]
fn only_files_are_replaced() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    let fifo = sandbox.work().join("pipe.carton");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let refused = sandbox.carton("pack model.bin --runner noop -o pipe.carton").expect_code(1);
    assert!(refused.stderr.contains("pipe.carton") && refused.stderr.contains("not a file"), "{refused}");
    assert!(!std::fs::metadata(&fifo).unwrap().is_file());
}

/// A sandbox with a model in it.
fn with_model() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    sandbox
}

/// No carton was written, not even a part of one, and the model is as it was.
fn check_nothing_written(sandbox: &Sandbox) {
    assert!(!sandbox.files().iter().any(|file| file.contains("carton")), "{:?}", sandbox.files());
    assert_eq!(fs::read(sandbox.work().join("model.bin")).unwrap(), b"weights");
}

#[test]
fn a_model_that_no_runner_takes() {
    let sandbox = with_model();
    sandbox.write("no-runner.toml", "model_name = 'x'\n");
    assert_snapshot!(sandbox.carton("pack missing.bin --runner noop"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot open `missing.bin`

    Caused by:
      No such file or directory (os error 2)
    ");
    assert_snapshot!(sandbox.carton("pack model.bin"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: no runner is named, neither by --runner nor by the metadata, and `model.bin` does not tell which one runs it

    hint: name one: --runner NAME; `carton runner ls` lists them
    ");
    assert_snapshot!(sandbox.carton("pack model.bin --metadata no-runner.toml"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: no runner is named, neither by --runner nor by the metadata, and `model.bin` does not tell which one runs it

    hint: name one: --runner NAME; `carton runner ls` lists them
    ");
    assert_snapshot!(sandbox.carton("pack model.bin --runner onnx"), @"
    exit code: 6
    ----- stdout -----

    ----- stderr -----
    error: runner onnx 1.32.0 refused the model

    Caused by:
      [SANDBOX]/work/model.bin is neither a .onnx file nor a folder with one
    ");
    check_nothing_written(&sandbox);
}

#[test]
fn metadata_that_cannot_be_used() {
    let sandbox = with_model();
    sandbox.write("wrong.toml", "model_name = 3\n");
    sandbox.write("broken.toml", "model_name = \n");
    sandbox.write(
        "dangling.toml",
        "output = []\n[[example]]\ninputs = { x = '@misc/cat.png' }\n[[input]]\nname='x'\ndtype='int8'\nshape=[]\n",
    );
    assert_snapshot!(sandbox.carton("pack model.bin --runner noop --metadata wrong.toml"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot use `wrong.toml`

    Caused by:
      carton.toml: `model_name`: invalid type: integer `3`, expected a string
    ");
    assert_snapshot!(sandbox.carton("pack model.bin --runner noop --metadata broken.toml"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot use `broken.toml`

    Caused by:
      carton.toml is not valid TOML
      TOML parse error at line 1, column 14
        |
      1 | model_name = 
        |              ^
      string values must be quoted, expected literal string
    ");
    assert_snapshot!(sandbox.carton("pack model.bin --runner noop --metadata missing.toml"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot read `missing.toml`

    Caused by:
      No such file or directory (os error 2)
    ");
    assert_snapshot!(sandbox.carton("pack model.bin --runner noop --metadata dangling.toml"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: carton.toml: example `example_0`, input `x`: `@misc/cat.png` is not in the carton (`example[0].inputs.x`)
    ");
    check_nothing_written(&sandbox);
}

#[test]
fn files_and_outputs_that_cannot_be_used() {
    let sandbox = with_model();
    sandbox.write("wrong.toml", "model_name = 3\n");
    assert_snapshot!(sandbox.carton("pack model.bin --runner noop -o model.bin"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot write `model.bin`: it is one of the files to be packed
    ");
    assert_snapshot!(sandbox.carton("pack model.bin --runner noop --misc a=model.bin --misc a=wrong.toml"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: misc file `a` is given twice
    ");
    assert_snapshot!(sandbox.carton("pack model.bin --runner noop -o missing/folder/model.carton"), @r#"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot write `missing/folder/model.carton`

    Caused by:
      there is no folder `missing/folder`
    "#);
    check_nothing_written(&sandbox);
}

/// Simulates a full disk: the output can have at most 50 KiB.
#[test]
fn an_output_that_does_not_fit_on_the_disk_is_named() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", vec![7; 1 << 20]);
    // Ignores the signal that comes with the error and would end the process.
    let script = "trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\"";
    let pack = ["pack", "model.bin", "--runner", "noop", "--compression", "stored", "-o", "out.carton"];
    let command = sandbox.command(pack);
    let mut limited = Command::new("sh");
    limited.args(["-c", script]).arg(command.get_program()).args(command.get_args()).current_dir(sandbox.work());
    limited.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert_snapshot!(outcome(&mut limited), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot write `out.carton`

    Caused by:
      File too large (os error 27)
    ");
    assert_eq!(sandbox.files(), ["model.bin"]);
}

#[test]
fn warnings_are_in_the_json_too() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    sandbox.write("m.toml", "model_nam = 'x'\n[runner.opts]\nlist = [1]\n");
    let packed =
        sandbox.carton("pack model.bin --runner noop --metadata m.toml --no-check --json").expect_code(0).json();
    let warnings = packed["warnings"].as_array().unwrap();
    assert!(warnings.len() == 2 && warnings[0].as_str().unwrap().contains("`model_nam`"), "{warnings:?}");
    assert!(warnings[1].as_str().unwrap().starts_with("a list or table is stored as a runner option"), "{warnings:?}");
}

/// A pointer of Git LFS stands in place of a file: as the model it is refused, in a model it is told.
#[test]
fn git_lfs_pointers_are_named() {
    const POINTER: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345678\n";
    let sandbox = Sandbox::new();
    sandbox.write("model.onnx", POINTER);
    for command in ["pack model.onnx", "pack model.onnx --runner noop --no-check"] {
        let refused = sandbox.carton(command).expect_code(1);
        assert!(refused.stderr.contains("cannot pack `model.onnx`: it is a Git LFS pointer"), "{refused}");
        assert!(refused.stderr.contains("hint: ") && refused.stderr.contains("git lfs pull"), "{refused}");
    }
    sandbox.write("model/main.bin", "weights");
    sandbox.write("model/parts/large.bin", POINTER);
    let packed = sandbox.carton("pack model --runner noop --no-check --json").expect_code(0);
    assert!(packed.stderr.contains("warning: `parts/large.bin` is a Git LFS pointer"), "{packed}");
    assert!(packed.json()["warnings"].to_string().contains("`parts/large.bin` is a Git LFS pointer"), "{packed}");
    let packed = sandbox.carton("pack model/main.bin --runner noop --no-check --json").expect_code(0);
    assert_eq!(packed.json()["warnings"], serde_json::json!([]));
}
