//! `carton runner`, and runners that misbehave.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;

use crate::sandbox::{Sandbox, names};

/// Installs a runner that is a shell script.
pub(crate) fn install_script(sandbox: &Sandbox, name: &str, interface: u32, script: &str) {
    let folder = sandbox.runner_dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("run.sh"), format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(folder.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.join("runner.toml"), descriptor(sandbox, name, interface, "run.sh")).unwrap();
}

/// A `runner.toml` with one runner.
fn descriptor(sandbox: &Sandbox, name: &str, interface: u32, path: &str) -> String {
    let platform = platform(sandbox);
    format!(
        "version = 1\n[[runner]]\nrunner_name = \"{name}\"\nframework_version = \"1.0.0\"\nrunner_compat_version = 1\n\
         runner_interface_version = {interface}\nrunner_release_date = \"2026-01-01T00:00:00Z\"\n\
         runner_path = \"{path}\"\nplatform = \"{platform}\"\n"
    )
}

/// A line of a table, whatever the widths of its columns.
pub(crate) fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The platform that the command was built for.
fn platform(sandbox: &Sandbox) -> String {
    let list = sandbox.carton("runner ls --json").expect_code(0).json();
    list["runners"][0]["platform"].as_str().unwrap().to_owned()
}

#[test]
fn runners_of_this_program_and_others() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.carton("runner ls"), @"
    exit code: 0
    ----- stdout -----
    NAME  VERSION  COMPAT  INTERFACE  PLATFORM  PATH             SUPPORTED
    onnx  1.32.0   1       2          [PLATFORM]  in this program  yes
    noop  0.1.0    1       2          [PLATFORM]  in this program  yes
    ----- stderr -----
    ");
    install_script(&sandbox, "old", 1, "exit 1");
    fs::create_dir_all(sandbox.runner_dir().join("broken")).unwrap();
    fs::write(sandbox.runner_dir().join("broken/runner.toml"), "version = 7\n").unwrap();
    let list = sandbox.carton("runner ls --json").expect_code(0).json();
    assert_eq!(list["runners"].as_array().unwrap().len(), 3);
    assert_snapshot!(list["runners"][2].to_string(), @r#"{"embedded":false,"files":"directory","framework_version":"1.0.0","platform":"[PLATFORM]","reason":"it speaks runner interface 1, supported is 2","runner_compat_version":1,"runner_interface_version":1,"runner_name":"old","runner_path":"[SANDBOX]/runners/old/run.sh","runner_release_date":"[DATE]","supported":false}"#);
    assert_snapshot!(list["broken"][0].to_string(), @r#"{"error":"cannot use `[SANDBOX]/runners/broken/runner.toml`: unsupported runner.toml: expected version 1, found 7","path":"[SANDBOX]/runners/broken/runner.toml"}"#);
    let text = sandbox.carton("runner ls").expect_code(0);
    assert_snapshot!(words(text.stdout.lines().last().unwrap()), @"- - - - - [SANDBOX]/runners/broken/runner.toml no: cannot use `[SANDBOX]/runners/broken/runner.toml`: unsupported runner.toml: expected version 1, found 7");
    assert_snapshot!(text.stderr, @"warning: ignoring a runner: cannot use `[SANDBOX]/runners/broken/runner.toml` path=[SANDBOX]/runners/broken/runner.toml");
}

#[test]
fn an_embedded_runner_is_installed_for_others() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.carton("runner install noop"), @"
    exit code: 0
    ----- stdout -----
    installed noop 0.1.0 from this program in [SANDBOX]/runners/noop-0.1.0
    ----- stderr -----
    ");
    let folder = sandbox.runner_dir().join("noop-0.1.0");
    assert_eq!(names(&folder), ["carton", "runner.toml"]);
    assert_eq!(names(&sandbox.runner_dir()), [".launcher", "noop-0.1.0"]);
    assert_snapshot!(fs::read_to_string(folder.join("runner.toml")).unwrap(), @r#"
    version = 1

    [[runner]]
    runner_name = "noop"
    framework_version = "0.1.0"
    runner_compat_version = 1
    runner_interface_version = 2
    runner_release_date = "[DATE]"
    runner_path = "carton"
    args = ["__carton-runner", "noop"]
    platform = "[PLATFORM]"
    files = "ranges"
    "#);

    // Installing again replaces the first installation.
    fs::write(folder.join("leftover"), "").unwrap();
    sandbox.carton("runner install noop@^0.1 --json").expect_code(0);
    assert_eq!(names(&folder), ["carton", "runner.toml"]);
    assert_eq!(names(&sandbox.runner_dir()), [".launcher", "noop-0.1.0"]);
}

#[test]
fn what_neither_an_index_nor_this_program_has() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.carton("runner install torchscript"), @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: this program carries no runner `torchscript` that fits (there are: noop 0.1.0, onnx 1.32.0)

    hint: install it from an index: `carton runner install torchscript --index URL`; or build and install it: `runners/torchscript/install` in Carton's source
    ");
    assert_snapshot!(sandbox.carton("runner install onnx@^99 --json"), @r#"
    exit code: 5
    ----- stdout -----
    {
      "error": {
        "kind": "no_runner",
        "message": "this program carries no runner `onnx` with framework version `^99` that fits (onnx 1.32.0: its framework version 1.32.0 does not satisfy `^99`)",
        "causes": [],
        "hint": "no runner index is configured; install it from one that has it: `carton runner install 'onnx@^99' --index URL`"
      }
    }
    ----- stderr -----
    "#);
}

#[test]
fn no_runner_fits() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    install_script(&sandbox, "old", 1, "exit 1");
    assert_snapshot!(sandbox.carton("pack model.bin --runner torchscript"), @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: no installed runner `torchscript` fits (installed: noop 0.1.0, old 1.0.0, onnx 1.32.0)

    hint: install it from an index: `carton runner install torchscript --index URL`; or build and install it: `runners/torchscript/install` in Carton's source
    ");
    assert_snapshot!(sandbox.carton("pack model.bin --runner old"), @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: no installed runner `old` fits (old 1.0.0: it speaks runner interface 1, supported is 2)

    hint: the one that is installed is for another version of Carton; no runner index is configured; install the one for this version from one that has it: `carton runner install old --index URL`
    ");
    assert_snapshot!(sandbox.carton("run model.bin --runner noop --framework-version ^99 --json"), @r#"
    exit code: 5
    ----- stdout -----
    {
      "error": {
        "kind": "no_runner",
        "message": "no installed runner `noop` with framework version `^99` fits (noop 0.1.0: its framework version 0.1.0 does not satisfy `^99`)",
        "causes": [],
        "hint": "no runner index is configured; install it from one that has it: `carton runner install 'noop@^99' --index URL`; or accept another version with `--framework-version`"
      }
    }
    ----- stderr -----
    "#);
    assert_eq!(sandbox.files(), ["model.bin"]);
}

#[test]
fn what_a_runner_does_in_a_call() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    let run = |options: &str| sandbox.carton(&format!("run model.bin --runner noop -i x=[1] {options}"));
    assert_snapshot!(run("--opt crash=true"), @"
    exit code: 6
    ----- stdout -----

    ----- stderr -----
    error: runner noop 0.1.0 died: killed by signal 6
    ");
    assert_snapshot!(run("--opt exit=3"), @"
    exit code: 6
    ----- stdout -----

    ----- stderr -----
    error: runner noop 0.1.0 died: exit status 3
    ");
    assert_snapshot!(run("--opt fail=nonsense"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: the model failed in runner noop 0.1.0

    Caused by:
      nonsense
    ");
    assert_snapshot!(run("--opt fail_load=nonsense"), @"
    exit code: 6
    ----- stdout -----

    ----- stderr -----
    error: runner noop 0.1.0 refused the model

    Caused by:
      nonsense
    ");
    assert_snapshot!(run("--opt delay_ms=60000 --timeout 100ms"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: the call ran out of time; runner noop 0.1.0 was killed

    hint: allow more time, or check that the model does not hang
    ");
    assert_snapshot!(run("--opt log=hello -v"), @r#"
    exit code: 0
    ----- stdout -----
    x  int64 [1]
    [1]
    ----- stderr -----
    info: hello runner="noop 0.1.0"
    "#);
    assert_snapshot!(run("--opt log=hello"), @"
    exit code: 0
    ----- stdout -----
    x  int64 [1]
    [1]
    ----- stderr -----
    ");
}

#[test]
fn a_runner_that_dies_at_once() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    install_script(&sandbox, "dying", 2, "echo 'no GPU here' >&2\nexit 3");
    assert_snapshot!(sandbox.carton("run model.bin --runner dying -i x=1"), @"
    exit code: 6
    ----- stdout -----

    ----- stderr -----
    error: runner dying 1.0.0 died: exit status 3; its last words:
          no GPU here
    ");
    assert_snapshot!(sandbox.carton("run model.bin --runner dying -i x=1 --json").expect_code(6).json()["error"]["kind"], @r#""runner""#);
}

/// The original Carton's installer writes absolute paths.
#[test]
fn a_runner_whose_program_is_elsewhere() {
    let sandbox = Sandbox::new();
    sandbox.carton("runner install noop").expect_code(0);
    let installed = sandbox.runner_dir().join("noop-0.1.0");
    let program = sandbox.work().join("program");
    fs::rename(installed.join("carton"), &program).unwrap();
    let text = fs::read_to_string(installed.join("runner.toml")).unwrap();
    let text = text.replace("runner_name = \"noop\"", "runner_name = \"elsewhere\"");
    fs::write(installed.join("runner.toml"), text.replace("\"carton\"", &format!("{program:?}"))).unwrap();

    let list = sandbox.carton("runner ls --json").expect_code(0).json();
    let found = &list["runners"][2];
    assert_eq!(
        (&found["runner_name"], &found["runner_path"], &found["embedded"], &found["supported"]),
        (&"elsewhere".into(), &program.to_str().unwrap().into(), &false.into(), &true.into())
    );
    sandbox.write("model.bin", "weights");
    let ran = sandbox.carton("run model.bin --runner elsewhere -i x=[1.0] --json").expect_code(0).json();
    assert_eq!(ran["outputs"]["x"]["data"], serde_json::json!([1.0]));
    sandbox.carton("runner rm elsewhere").expect_code(0);
    assert!(program.is_file() && !installed.exists());

    // A runner from elsewhere must stay within its folder.
    sandbox.write("theirs/runner.toml", descriptor(&sandbox, "theirs", 2, "/bin/sh"));
    assert_snapshot!(sandbox.carton("runner install ./theirs"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: cannot use the runner.toml of `./theirs`

    Caused by:
      runner 0: runner_path must be a relative path below the runner's folder, found `/bin/sh`
    ");
    let packaged = sandbox.carton("runner package ./theirs -o theirs.tar.gz").expect_code(1).stderr;
    assert!(packaged.contains("runner_path must be a relative path below the runner's folder"), "{packaged}");
    assert_eq!(names(&sandbox.runner_dir()), Vec::<String>::new());
}

/// The original Carton keeps its runners in the same folder.
#[test]
fn ours_are_offered_beside_those_of_the_original() {
    let sandbox = Sandbox::new();
    install_script(&sandbox, "python", 1, "exit 1");
    install_script(&sandbox, "torchscript", 1, "exit 1");
    sandbox.write("model.bin", "weights");
    let advice = |runner: &str| {
        let failed = sandbox.carton(&format!("run model.bin --runner {runner} --json")).expect_code(5).json();
        failed["error"]["hint"].as_str().unwrap().to_owned()
    };
    assert_snapshot!(advice("python"), @"the one that is installed is for another version of Carton; install the one for this version: `carton runner install python`");
    assert_snapshot!(advice("torchscript"), @"the one that is installed is for another version of Carton; install the one for this version from an index: `carton runner install torchscript --index URL`; or build and install it: `runners/torchscript/install` in Carton's source");
}
