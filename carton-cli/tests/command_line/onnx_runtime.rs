//! `carton runner install onnx`: installs the library of ONNX Runtime, too.
//!
//! `uv` and `pip` are scripts here, so that nothing reaches outside the machine. They install the library that `CARTON_TEST_ONNXRUNTIME`
//! names.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use insta::assert_snapshot;

use crate::sandbox::{Sandbox, names, outcome};

/// The library that the tests install; without it they are skipped.
fn library() -> Option<PathBuf> {
    let library = std::env::var_os("CARTON_TEST_ONNXRUNTIME").map(PathBuf::from);
    if library.is_none() {
        eprintln!("skipped: CARTON_TEST_ONNXRUNTIME does not name a library of ONNX Runtime");
    }
    library
}

/// Makes a folder for `PATH` that contains a shell script as a program.
fn program(sandbox: &Sandbox, name: &str, script: &str) -> PathBuf {
    let folder = sandbox.work().join(format!("bin-{name}"));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// A script that installs the wheel like `uv pip install --target DIR` and `python3 -m pip install --target DIR`.
fn installs(library: &Path) -> String {
    format!(
        r#"echo "$*" >> "$HOME/arguments"
case "$*" in *--version) exit 0;; esac
while [ "$1" != --target ]; do shift; done
grep -q -- "onnxruntime==1.32.0" "$4" && grep -q -- "--hash=sha256:" "$4" || exit 9
mkdir -p "$2/onnxruntime/capi" "$2/bin"
/bin/cp {} "$2/onnxruntime/capi/libonnxruntime.so.1.32.0"
echo MIT > "$2/onnxruntime/LICENSE"
echo others > "$2/onnxruntime/ThirdPartyNotices.txt"
echo pass > "$2/onnxruntime/__init__.py""#,
        library.display()
    )
}

/// The command with only `folder` and the programs that a shell script needs on its `PATH`.
fn command(sandbox: &Sandbox, folder: Option<&Path>, arguments: &str) -> Command {
    let tools = sandbox.work().join("tools");
    fs::create_dir_all(&tools).unwrap();
    for tool in ["mkdir", "grep", "sleep", "touch"] {
        let _ = std::os::unix::fs::symlink(format!("/bin/{tool}"), tools.join(tool));
    }
    let path = folder.map_or_else(String::new, |folder| format!("{}:", folder.display())) + tools.to_str().unwrap();
    let home = sandbox.work().join("home");
    fs::create_dir_all(&home).unwrap();
    let mut command = sandbox.command(arguments.split(' '));
    command
        .env_remove("ORT_DYLIB_PATH")
        .env("PATH", path)
        .env("HOME", home)
        .env("CARTON_RUNNER_DATA_DIR", sandbox.work().join("data"));
    command
}

fn folder(sandbox: &Sandbox) -> PathBuf {
    sandbox.work().join("data/onnxruntime")
}

#[test]
fn without_uv_and_pip_nothing_is_installed() {
    let sandbox = Sandbox::new();
    assert_snapshot!(outcome(&mut command(&sandbox, None, "runner install onnx")), @r#"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: cannot install ONNX Runtime

    Caused by:
      neither uv nor pip is there to install it with

    hint: install uv or pip and run this again, or set ORT_DYLIB_PATH to a libonnxruntime.so of version 1.24 or later first
    "#);
    assert!(!sandbox.runner_dir().exists());
    let json = outcome(&mut command(&sandbox, None, "runner install onnx --json")).expect_code(5).json();
    assert_eq!(json["error"]["kind"], "no_runner");
    assert_snapshot!(outcome(&mut command(&sandbox, None, "runner install onnx --without-onnxruntime")), @r#"
    exit code: 0
    ----- stdout -----
    installed onnx 1.32.0 from this program in [SANDBOX]/runners/onnx-1.32.0
    ----- stderr -----

    "#);
    assert_snapshot!(outcome(&mut command(&sandbox, None, "runner install noop --without-onnxruntime")), @r#"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: --without-onnxruntime goes with the runner onnx alone
    "#);
    assert!(!folder(&sandbox).exists());
}

#[test]
fn uv_brings_the_library() {
    let Some(library) = library() else { return };
    let sandbox = Sandbox::new();
    let bin = program(&sandbox, "uv", &installs(&library));
    let mut install = command(&sandbox, Some(&bin), "runner install onnx --offline");
    assert_snapshot!(outcome(&mut install), @r#"
    exit code: 0
    ----- stdout -----
    installed onnx 1.32.0 from this program in [SANDBOX]/runners/onnx-1.32.0
    installed ONNX Runtime 1.32.0 from uv as [SANDBOX]/work/data/onnxruntime/1.32.0/libonnxruntime.so.1.32.0
    ----- stderr -----

    "#);
    assert_eq!(names(&folder(&sandbox)), ["1.32.0"]);
    assert_eq!(
        names(&folder(&sandbox).join("1.32.0")),
        ["LICENSE", "ThirdPartyNotices.txt", "libonnxruntime.so.1.32.0"]
    );
    let arguments = fs::read_to_string(sandbox.work().join("home/arguments")).unwrap();
    let asked = arguments.lines().nth(1).unwrap();
    assert!(asked.contains("pip install --no-deps --require-hashes --only-binary=:all:"), "{asked}");
    assert!(asked.contains(" --offline "), "{asked}");

    // The second time there is nothing to do.
    let json = outcome(install.arg("--json")).expect_code(0).json();
    assert_eq!(json["onnxruntime"]["version"], "1.32.0");
    assert!(json["onnxruntime"]["source"].is_null());
    assert_eq!(fs::read_to_string(sandbox.work().join("home/arguments")).unwrap(), arguments);

    // A library that cannot be used is replaced.
    let installed = folder(&sandbox).join("1.32.0/libonnxruntime.so.1.32.0");
    fs::write(&installed, "cut off").unwrap();
    let json = outcome(&mut install).expect_code(0).json();
    assert_eq!(json["onnxruntime"]["source"], "uv");
    assert!(fs::metadata(&installed).unwrap().len() > 1 << 20);
    assert_eq!(names(&folder(&sandbox)), ["1.32.0"]);
}

#[test]
fn pip_brings_the_library_where_uv_does_not() {
    let Some(library) = library() else { return };
    let sandbox = Sandbox::new();
    let bin = program(&sandbox, "python3", &installs(&library));
    fs::write(bin.join("uv"), "#!/bin/sh\ncase $1 in --version) exit 0;; esac\necho no such wheel >&2; exit 2\n")
        .unwrap();
    fs::set_permissions(bin.join("uv"), fs::Permissions::from_mode(0o755)).unwrap();
    let json = outcome(&mut command(&sandbox, Some(&bin), "runner install onnx --json")).expect_code(0).json();
    assert_eq!(json["onnxruntime"]["source"], "pip");
    let arguments = fs::read_to_string(sandbox.work().join("home/arguments")).unwrap();
    assert!(arguments.contains("-m pip install --no-deps --require-hashes --only-binary=:all:"), "{arguments}");

    // If both fail, the error is that of the preferred one.
    fs::remove_dir_all(folder(&sandbox)).unwrap();
    let bin = program(&sandbox, "python3", "case \"$*\" in *--version) exit 0;; esac; exit 3");
    assert_snapshot!(outcome(&mut command(&sandbox, Some(&bin), "runner install onnx")), @r#"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot install ONNX Runtime

    Caused by:
      uv did not install it: no such wheel

    hint: set ORT_DYLIB_PATH to a libonnxruntime.so of version 1.24 or later first
    "#);
    let json =
        outcome(&mut command(&sandbox, Some(&bin), "runner install onnx --offline --json")).expect_code(7).json();
    assert_eq!(json["error"]["kind"], "network");
    assert_eq!(names(&folder(&sandbox)), [""; 0]);
}

#[test]
fn a_library_that_does_not_load_is_not_installed() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.work().join("broken.so"), "not a library").unwrap();
    let bin = program(&sandbox, "uv", &installs(&sandbox.work().join("broken.so")));
    let failed = outcome(&mut command(&sandbox, Some(&bin), "runner install onnx")).expect_code(1);
    assert!(failed.stderr.contains("libonnxruntime.so.1.32.0: failed to load from"), "{failed}");
    assert_eq!(names(&folder(&sandbox)), [""; 0]);
    for (chosen, code, expected) in
        [("broken.so", 1, "broken.so: failed to load from"), ("missing.so", 1, "cannot read missing.so")]
    {
        let mut install = command(&sandbox, Some(&bin), "runner install onnx");
        let failed = outcome(install.env("ORT_DYLIB_PATH", chosen)).expect_code(code);
        assert!(failed.stderr.contains(expected), "{failed}");
        let hint = "hint: set it to a libonnxruntime.so of version 1.24 or later; or unset it";
        assert!(failed.stderr.contains(hint), "{failed}");
    }
}

#[test]
fn a_chosen_library_is_copied() {
    let Some(library) = library() else { return };
    let sandbox = Sandbox::new();
    let chosen = sandbox.work().join("mine");
    fs::create_dir(&chosen).unwrap();
    fs::copy(library, chosen.join("libonnxruntime.so")).unwrap();
    fs::write(chosen.join("libonnxruntime_providers_cuda.so"), "for a GPU").unwrap();
    let mut install = command(&sandbox, None, "runner install onnx");
    assert_snapshot!(outcome(install.env("ORT_DYLIB_PATH", "mine/libonnxruntime.so")), @r#"
    exit code: 0
    ----- stdout -----
    installed onnx 1.32.0 from this program in [SANDBOX]/runners/onnx-1.32.0
    installed ONNX Runtime 1.32.0 from [SANDBOX]/work/mine/libonnxruntime.so as [SANDBOX]/work/data/onnxruntime/1.32.0/libonnxruntime.so.1.32.0
    ----- stderr -----

    "#);
    assert_eq!(
        names(&folder(&sandbox).join("1.32.0")),
        ["libonnxruntime.so.1.32.0", "libonnxruntime_providers_cuda.so"]
    );
    // `ORT_DYLIB_PATH` may name the installed copy itself.
    install.env("ORT_DYLIB_PATH", folder(&sandbox).join("1.32.0/libonnxruntime.so.1.32.0"));
    assert_snapshot!(outcome(&mut install), @r#"
    exit code: 0
    ----- stdout -----
    installed onnx 1.32.0 from this program in [SANDBOX]/runners/onnx-1.32.0
    ONNX Runtime 1.32.0 is there already: [SANDBOX]/work/data/onnxruntime/1.32.0/libonnxruntime.so.1.32.0
    ----- stderr -----

    "#);
}

#[test]
fn several_at_once_and_a_kill() {
    let Some(library) = library() else { return };
    let sandbox = Sandbox::new();
    let slow = installs(&library) + "\ntouch \"$HOME/copied\"\nsleep 30";
    let bin = program(&sandbox, "uv", &slow);
    let mut killed = command(&sandbox, Some(&bin), "runner install onnx").spawn().unwrap();
    let started = Instant::now();
    while !sandbox.work().join("home/copied").exists() {
        assert!(started.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(!folder(&sandbox).join("1.32.0").exists());

    let bin = program(&sandbox, "uv", &installs(&library));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| outcome(&mut command(&sandbox, Some(&bin), "runner install onnx")).expect_code(0));
        }
    });
    // The files of the killed process are gone, too.
    assert_eq!(names(&folder(&sandbox)), ["1.32.0"]);
}
