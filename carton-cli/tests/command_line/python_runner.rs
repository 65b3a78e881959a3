//! `carton runner install python`: the choice of the interpreter, and the installed runner.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use insta::assert_snapshot;

use crate::sandbox::{Outcome, Sandbox, names, outcome};

/// A program that claims to be this interpreter, and otherwise prints its arguments.
fn interpreter(sandbox: &Sandbox, path: &str, implementation: &str, version: [u32; 3]) -> PathBuf {
    let file = sandbox.work().join(path);
    let answer = serde_json::json!({
        "implementation": implementation, "version": version, "level": "final", "serial": 0,
        "executable": file, "base": file,
    });
    let answer = answer.to_string().replace('\'', r"'\''");
    script(sandbox, path, &format!("if [ \"$2\" = -c ]; then echo '{answer}'; else echo \"$@\"; fi"))
}

/// A shell script.
fn script(sandbox: &Sandbox, path: &str, text: &str) -> PathBuf {
    let path = sandbox.write(path, format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Runs the command with nothing in `PATH` but `bin`, in which there is a `uv`.
fn carton<const N: usize>(sandbox: &Sandbox, arguments: [&str; N]) -> Outcome {
    script(sandbox, "bin/uv", "echo uv 0.1.0");
    outcome(sandbox.command(arguments).env("PATH", sandbox.work().join("bin")))
}

/// The first line of the script that starts the runner in `folder`.
fn first_line(folder: &Path) -> String {
    let run = fs::read_to_string(folder.join("run")).unwrap();
    run.lines().next().unwrap().to_owned()
}

#[test]
fn several_interpreters_beside_each_other() {
    let sandbox = Sandbox::new();
    interpreter(&sandbox, "bin/python3", "CPython", [3, 11, 7]);
    interpreter(&sandbox, "bin/python3.10", "CPython", [3, 10, 13]);
    interpreter(&sandbox, "elsewhere/python", "CPython", [3, 13, 0]);
    assert_snapshot!(carton(&sandbox, ["runner", "install", "python"]), @"
    exit code: 0
    ----- stdout -----
    installed python 3.11.7 from [SANDBOX]/work/bin/python3 in [SANDBOX]/runners/python-3.11.7
    ----- stderr -----
    ");
    carton(&sandbox, ["runner", "install", "python", "--python", "3.10"]).expect_code(0);
    let answer = carton(&sandbox, ["runner", "install", "python", "--python", "./elsewhere/python", "--json"]);
    assert_snapshot!(answer.expect_code(0).json().to_string(), @r#"{"framework_version":"3.13.0","path":"[SANDBOX]/runners/python-3.13.0","runner_name":"python","source":"[SANDBOX]/work/elsewhere/python"}"#);
    // Installing again replaces the existing one.
    carton(&sandbox, ["runner", "install", "python@=3.10"]).expect_code(0);
    carton(&sandbox, ["runner", "install", "python@>=3.10, <3.12", "--python", "python3"]).expect_code(0);
    assert_eq!(names(&sandbox.runner_dir()), ["python-3.10.13", "python-3.11.7", "python-3.13.0"]);
    let folder = sandbox.runner_dir().join("python-3.10.13");
    assert_eq!(names(&folder), ["carton_runner", "run", "runner.toml"]);
    let descriptor = fs::read_to_string(folder.join("runner.toml")).unwrap();
    assert_snapshot!(descriptor.split("environment").next().unwrap(), @r#"
    version = 1

    [[runner]]
    runner_name = "python"
    framework_version = "3.10.13"
    runner_compat_version = 1
    runner_interface_version = 2
    runner_release_date = "[DATE]"
    runner_path = "run"
    platform = "[PLATFORM]"
    files = "directory"

    [runner.sandbox]
    namespaces = true

    [runner.prepare]
    "#);
    assert!(descriptor.contains("\"UV_INDEX*\"") && !descriptor.contains("UV_CACHE_DIR"), "{descriptor}");
    let listed = sandbox.carton("runner ls --json").expect_code(0).json();
    let mut versions: Vec<_> =
        listed["runners"].as_array().unwrap().iter().map(|r| r["framework_version"].clone()).collect();
    // Each understands two structures of models, and is listed once for each.
    assert_eq!(versions.len(), 2 + 2 * 3);
    versions.dedup();
    assert_eq!(versions[2..], ["3.10.13", "3.11.7", "3.13.0"]);
    sandbox.carton("runner rm python@3.13.0").expect_code(0);
    // An index without this runner does not hide the built-in one.
    sandbox.write("index.json", "[]");
    let mut with_index = sandbox.command(["runner", "install", "python@=3.13.0"]);
    with_index.env("PATH", sandbox.work().join("bin")).env("CARTON_RUNNER_INDEX", sandbox.work().join("index.json"));
    let refused = outcome(&mut with_index).expect_code(5);
    assert!(
        refused
            .stderr
            .contains("no Python interpreter that meets `=3.13.0` is on this machine; there are 3.10.13, 3.11.7"),
        "{refused}"
    );
}

#[test]
fn the_runner_starts_its_interpreter() {
    let sandbox = Sandbox::new();
    let plain = interpreter(&sandbox, "bin/python3", "CPython", [3, 11, 7]);
    interpreter(&sandbox, "it's my python/python3", "CPython", [3, 12, 0]);
    carton(&sandbox, ["runner", "install", "python"]).expect_code(0);
    carton(&sandbox, ["runner", "install", "python", "--python", "it's my python/python3"]).expect_code(0);
    let [short, long] = ["python-3.11.7", "python-3.12.0"].map(|name| sandbox.runner_dir().join(name));
    let line = first_line(&short);
    assert!(line == format!("#!{} -IB", plain.display()) || line == "#!/bin/sh", "{line}");
    assert_eq!(first_line(&long), "#!/bin/sh");
    let output = Command::new(long.join("run")).arg("x y").output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("-IB {} x y\n", long.join("run.py").display()));
}

#[test]
fn interpreters_that_cannot_be_used() {
    let sandbox = Sandbox::new();
    interpreter(&sandbox, "bin/python3", "CPython", [3, 8, 18]);
    interpreter(&sandbox, "bin/pypy3", "PyPy", [3, 10, 13]);
    script(&sandbox, "bin/python3.12", "echo 'pyenv: python3.12: command not found' >&2; exit 127");
    interpreter(&sandbox, "bin/python3.11", "CPython", [3, 11, 7]);
    script(&sandbox, "bin/hello", "echo hello");
    sandbox.write("bin/data", "no program");
    assert_snapshot!(carton(&sandbox, ["runner", "install", "python"]), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot use the interpreter `[SANDBOX]/work/bin/python3`

    Caused by:
      it is Python 3.8.18, the runner needs 3.9 or later

    hint: name another interpreter: `--python PATH`, or a version: `--python 3.11`
    ");
    let check = |python: &str, code: i32, expected: &str| {
        let outcome = carton(&sandbox, ["runner", "install", "python", "--python", python]).expect_code(code);
        assert!(outcome.stderr.contains(expected), "{outcome}");
        assert!(names(&sandbox.runner_dir()).is_empty());
    };
    fs::create_dir_all(sandbox.runner_dir()).unwrap();
    check("pypy3", 1, "it is PyPy, the runner needs CPython");
    check("python3.12", 1, "it ended with exit status: 127: pyenv: python3.12: command not found");
    check("bin/hello", 1, "it does not behave like a Python interpreter");
    check("bin/data", 1, "it cannot be started");
    check("bin/nothing", 1, "it cannot be started");
    check("python3.7", 5, "no Python interpreter called `python3.7` is on this machine");
    check("3.14", 5, "no Python interpreter that meets `=3.14` is on this machine; there are 3.11.7");
    check("3.8", 1, "it is Python 3.8.18, the runner needs 3.9 or later");
    check("3.x.y", 2, "neither an interpreter nor a version");
    let both = carton(&sandbox, ["runner", "install", "python@=3.13", "--python", "pypy3"]).expect_code(1);
    assert!(both.stderr.contains("PyPy"), "{both}");
}

#[test]
fn nothing_but_the_python_runner_takes_an_interpreter() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.carton("runner install onnx --python 3.11"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: --python applies only to the runner `python`
    ");
    sandbox.carton("runner install python --python 3.11 --index x.json").expect_code(2);
    // A compat version that no interpreter can provide.
    assert_snapshot!(sandbox.carton("runner install python --compat-version 7").expect_code(5).stderr.lines().next().unwrap(), @"error: this program carries no runner `python` with compat version 7 that fits (there are: noop 0.1.0, onnx 1.32.0)");
}

#[test]
fn the_command_is_named_where_it_helps() {
    let sandbox = Sandbox::new();
    sandbox.write("model.py", "");
    let packed = sandbox.carton("pack model.py --runner python").expect_code(5);
    assert!(packed.stderr.contains("install it: `carton runner install python`"), "{packed}");
    let packed = sandbox.carton("pack model.py --runner python --framework-version =3.10").expect_code(5);
    assert!(packed.stderr.contains("install it: `carton runner install python@=3.10`"), "{packed}");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runners/python");
    let installed = sandbox.run(["runner", "install", source.to_str().unwrap()]).expect_code(4);
    assert!(
        installed.stderr.contains("hint: this program carries that runner: `carton runner install python`"),
        "{installed}"
    );
}

#[test]
fn the_interpreter_of_this_machine() {
    let Ok(output) = Command::new("python3").args(["-c", "import sys; print(sys.version_info >= (3, 9))"]).output()
    else {
        eprintln!("skipped: there is no python3");
        return;
    };
    if output.stdout != b"True\n" {
        eprintln!("skipped: python3 is too old");
        return;
    }
    let sandbox = Sandbox::new();
    let install = |arguments: &[&str]| {
        let mut command =
            sandbox.command(["runner", "install", "python", "--without-uv", "--json"].iter().chain(arguments));
        outcome(command.env("PATH", std::env::var_os("PATH").unwrap())).expect_code(0).json()
    };
    let answer = install(&[]);
    let (folder, interpreter) = (answer["path"].as_str().unwrap(), answer["source"].as_str().unwrap());
    assert_eq!(fs::canonicalize(interpreter).unwrap(), Path::new(interpreter), "a link, or a script");
    let bytecode = Path::new(folder).join("carton_runner/environments/__pycache__");
    assert!(!names(&bytecode).is_empty());
    let venv = sandbox.work().join("venv");
    let made = Command::new(interpreter).args(["-m", "venv", "--without-pip"]).arg(&venv).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: {interpreter} makes no virtual environments");
        return;
    }
    // The named interpreter, although it is a link.
    let named = venv.join("bin/python3");
    assert_eq!(install(&["--python", named.to_str().unwrap()])["source"], named.to_str().unwrap());
    // The interpreter behind the virtual environment that happens to be active.
    let mut command = sandbox.command(["runner", "install", "python", "--without-uv", "--json"]);
    let behind = outcome(command.env("PATH", venv.join("bin"))).expect_code(0).json();
    assert_eq!(behind["source"], interpreter);
}
