//! The output of failures, for people and for programs.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use insta::assert_snapshot;

use crate::sandbox::{Sandbox, outcome};

#[test]
fn invalid_arguments() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.carton("ls"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: the following required arguments were not provided:
      <MODEL>

    Usage: carton ls <MODEL>

    For more information, try '--help'.
    ");
    assert_snapshot!(sandbox.carton("frobnicate"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: unrecognized subcommand 'frobnicate'

    Usage: carton [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
    assert_snapshot!(sandbox.carton("run m.carton --rtol 1"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: the following required arguments were not provided:
      <--self-test|--example <NAME>>

    Usage: carton run --rtol <R> <--self-test|--example <NAME>> <MODEL>

    For more information, try '--help'.
    ");
    assert_snapshot!(sandbox.carton("run m.carton --self-test -i x=1"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: the argument '--self-test' cannot be used with '--input <[NAME=]VALUE>'

    Usage: carton run --self-test <MODEL>

    For more information, try '--help'.
    ");
    assert_snapshot!(sandbox.carton("run m.carton --timeout soon"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: invalid value 'soon' for '--timeout <TIME>': unknown unit `soon`, expected ms, s, m or h

    For more information, try '--help'.
    ");
    assert_snapshot!(sandbox.carton("run m.carton -o y.txt"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: invalid value 'y.txt' for '--output <[NAME=]FILE>': expected NAME=FILE.npy, FILE.npz or FILE.safetensors; or with --rows FILE.parquet, FILE.arrow, FILE.arrows or -

    For more information, try '--help'.
    ");
    assert_snapshot!(sandbox.carton("info m.carton --expect 00ff"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: invalid value '00ff' for '--expect <HASH>': a SHA-256 is 64 hexadecimal digits, found 4 bytes

    For more information, try '--help'.
    ");
    assert_snapshot!(sandbox.carton("pack model.onnx --opt =1"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: invalid value '=1' for '--opt <KEY=VALUE>': expected KEY=VALUE, found no key

    For more information, try '--help'.
    ");
    assert_snapshot!(sandbox.carton("-q -v ls m.carton"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: the argument '--quiet' cannot be used with '--verbose...'

    Usage: carton --quiet <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn usage_errors_as_json() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.carton("ls --json"), @r#"
    exit code: 2
    ----- stdout -----
    {
      "error": {
        "kind": "usage",
        "message": "the following required arguments were not provided: <MODEL>",
        "causes": [],
        "hint": "run `carton --help` to see what is accepted"
      }
    }
    ----- stderr -----
    "#);
}

#[test]
fn a_file_that_is_not_there() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.carton("info missing.carton"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot open `missing.carton`

    Caused by:
      No such file or directory (os error 2)
    ");
    assert_snapshot!(sandbox.carton("info missing.carton --json"), @r#"
    exit code: 1
    ----- stdout -----
    {
      "error": {
        "kind": "failure",
        "message": "cannot open `missing.carton`",
        "causes": ["No such file or directory (os error 2)"],
        "hint": null
      }
    }
    ----- stderr -----
    "#);
}

#[test]
fn colors_only_when_asked_for() {
    let sandbox = Sandbox::new();
    assert!(!sandbox.carton("info missing.carton").expect_code(1).stderr.contains('\x1b'));
    assert!(sandbox.carton("--color always info missing.carton").expect_code(1).stderr.contains("\x1b[31m"));
    assert!(sandbox.carton("--color always ls").expect_code(2).stderr.contains('\x1b'));
    assert!(!sandbox.carton("--color never ls").expect_code(2).stderr.contains('\x1b'));
}

#[test]
fn a_file_that_is_no_carton() {
    let sandbox = Sandbox::new();
    sandbox.write("notes.txt", "no zip file");
    sandbox.write("truncated.carton", "PK\x03\x04");
    sandbox.write("folder/model.bin", "weights");
    assert_snapshot!(sandbox.carton("run folder -i x=1"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: `[SANDBOX]/work/folder` is not a carton: it has no file MANIFEST

    hint: it does not look like a carton; `carton pack` makes one of a model, and `carton run` runs a bare model when it is told which --runner to use
    ");
    assert_snapshot!(sandbox.carton("verify truncated.carton"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: cannot read `truncated.carton`

    Caused by:
      the file is truncated: it begins as a zip file, but after 4 bytes it does not end as one
    ");
    sandbox.write("empty.carton", "");
    assert_snapshot!(sandbox.carton("run empty.carton --self-test"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: cannot read `empty.carton`

    Caused by:
      the file is empty
    ");
    assert_snapshot!(sandbox.carton("info notes.txt"), @r#"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: cannot read `notes.txt`

    Caused by:
      the file is not a zip file: expected one to begin with `PK\x03\x04`, found `no z`

    hint: it does not look like a carton; `carton pack` makes one of a model, and `carton run` runs a bare model when it is told which --runner to use
    "#);
}

#[test]
fn a_remote_carton_offline() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.carton("info https://localhost/m.carton --offline"), @"
    exit code: 7
    ----- stdout -----

    ----- stderr -----
    error: `https://localhost/m.carton` is not in the cache, and the network is not to be used

    hint: allow the network, or fetch it once while it is allowed
    ");
    assert_snapshot!(sandbox.carton("run https://localhost/m.carton --offline --json"), @r#"
    exit code: 7
    ----- stdout -----
    {
      "error": {
        "kind": "network",
        "message": "`https://localhost/m.carton` is not in the cache, and the network is not to be used",
        "causes": [],
        "hint": "allow the network, or fetch it once while it is allowed"
      }
    }
    ----- stderr -----
    "#);
}

#[test]
fn a_configuration_that_cannot_be_used() {
    let sandbox = Sandbox::new();
    sandbox.write("config.toml", "cache_dir = 1\n");
    assert_snapshot!(sandbox.carton("--config config.toml runner ls"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: the configuration `config.toml` is not valid

    Caused by:
      line 1: expected path string, found integer
    ");
    assert_snapshot!(sandbox.carton("--config missing.toml runner ls"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot read the configuration `missing.toml`

    Caused by:
      No such file or directory (os error 2)
    ");
}

#[test]
fn a_reader_that_is_gone_is_no_failure() {
    let sandbox = Sandbox::new();
    let mut child = sandbox.command(["completions", "bash"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let status = child.wait().unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

#[test]
fn names_that_are_not_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    let name = OsStr::from_bytes(b"m\xff.carton");
    sandbox
        .run([OsStr::new("pack"), OsStr::new("model.bin"), "--runner=noop".as_ref(), "-o".as_ref(), name])
        .expect_code(0);
    assert_snapshot!(sandbox.run([OsStr::new("verify"), name]), @"
    exit code: 0
    ----- stdout -----
    OK 3 files, 131 B, all match the manifest
    ----- stderr -----
    ");
}

/// A file in place of the cache's folder simulates a read-only home, also for the superuser.
#[test]
fn looking_at_a_carton_needs_no_cache() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    sandbox.carton("pack model.bin --runner noop -o m.carton").expect_code(0);
    let in_the_way = sandbox.write("in-the-way", "");
    let without_cache = |arguments: &str| {
        outcome(sandbox.command(arguments.split(' ')).env("CARTON_CACHE_DIR", in_the_way.join("cache")))
    };
    for arguments in ["info m.carton", "ls m.carton", "hash m.carton", "verify m.carton", "unpack m.carton -o m"] {
        without_cache(arguments).expect_code(0);
    }
    without_cache("run m.carton -i x=[1]").expect_code(1);
}

#[test]
fn passwords_in_urls_where_only_paths_are_taken_are_not_shown() {
    let sandbox = Sandbox::new();
    sandbox.write("a.safetensors", "");
    for arguments in [
        "dataset ls https://me:hunter2@host/x",
        "dataset verify https://me:hunter2@host/x",
        "dataset write https://me:hunter2@host/x.parquet -o out",
        "dataset merge https://me:hunter2@host/x",
        "pack https://me:hunter2@host/x --runner noop -o m.carton",
        "runner package https://me:hunter2@host/x",
        "run m.carton --input x=https://me:hunter2@host/x.npy",
        "tensor validate a.safetensors https://me:hunter2@host/x",
        "verify model.carton --config https://me:hunter2@host/x",
    ] {
        for json in ["", " --json"] {
            let failed = sandbox.carton(&format!("{arguments}{json}"));
            assert_ne!(failed.code, 0, "{arguments}");
            let text = format!("{}{}", failed.stdout, failed.stderr);
            assert!(!text.contains("hunter2") && !text.contains("me:"), "{arguments}: {text}");
        }
    }
    // Log records and notes name paths too.
    let folder = "https:/me:hunter2@host";
    let config = sandbox.write(&format!("{folder}/config.toml"), "cash_dir = \"x\"\n");
    sandbox.write(&format!("{folder}/runners/broken/runner.toml"), "x");
    let mut command = sandbox.command(["--config".as_ref(), config.as_os_str(), "runner".as_ref(), "ls".as_ref()]);
    let listed = command.env("CARTON_RUNNER_DIR", sandbox.work().join(folder).join("runners")).output().unwrap();
    let stderr = String::from_utf8_lossy(&listed.stderr);
    for name in ["config.toml", "runners/broken/runner.toml"] {
        assert!(stderr.contains(&format!("https:/host/{name}")), "{stderr}");
    }
    assert!(!stderr.contains("hunter2"), "{stderr}");
}

/// A runner gets a scratch folder, in the folder for temporary files.
#[test]
fn a_folder_for_temporary_files_that_cannot_be_used_is_named() {
    let sandbox = Sandbox::new();
    let model = sandbox.write("model/weights.bin", "1");
    let run = |variable: &str, value: &OsStr| {
        let arguments = ["run", model.parent().unwrap().to_str().unwrap(), "--runner", "noop"];
        let outcome = outcome(sandbox.command(arguments).env(variable, value));
        assert_ne!(outcome.code, 0);
        outcome.stderr
    };
    let missing = sandbox.work().join("missing");
    let stderr = run("TMPDIR", missing.as_os_str());
    let expected = format!("cannot make a scratch folder for runner noop 0.1.0 in `{}`", missing.display());
    assert!(stderr.contains(&expected), "{stderr}");
    assert!(stderr.contains("hint: `TMPDIR` names this folder: make it, or set another one"), "{stderr}");
    let strange = sandbox.work().join(OsStr::from_bytes(b"\xff"));
    fs::create_dir(&strange).unwrap();
    let stderr = run("TMPDIR", strange.as_os_str());
    assert!(stderr.contains("is not UTF-8\n\nhint: `TMPDIR` leads there: set it to a folder"), "{stderr}");
}

/// What a person has instead of the file that was meant is named by every command.
#[test]
fn other_files_are_named_wherever_they_are_given() {
    let sandbox = Sandbox::new();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345678\n";
    for name in ["lfs.carton", "lfs.npy", "lfs.parquet"] {
        sandbox.write(name, pointer);
    }
    sandbox.write("m.gguf", b"GGUF\x03\0\0\0\0\0\0\0".as_slice());
    sandbox.write("model.bin", "weights");
    sandbox.carton("pack model.bin --runner noop -o model.carton").expect_code(0);
    for arguments in [
        "info lfs.carton",
        "verify lfs.carton",
        "run model.carton -i x=lfs.npy",
        "run model.carton --rows lfs.parquet -o o.parquet",
        "dataset write lfs.parquet d --batch-size 3",
    ] {
        let outcome = sandbox.carton(arguments);
        assert!(outcome.code != 0 && outcome.stderr.contains("a Git LFS pointer"), "{arguments}: {outcome}");
    }
    let info = sandbox.carton("info lfs.carton");
    assert!(info.stderr.contains("git lfs pull"), "{info}");
    let packed = sandbox.carton("pack m.gguf");
    assert!(packed.code != 0 && packed.stderr.contains("GGUF"), "{packed}");
}
