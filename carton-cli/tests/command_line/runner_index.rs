//! Runners from an index: packaging, listing, installing, using and removing them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};

use crate::runners::{install_script, words};
use crate::sandbox::{Sandbox, names, outcome};

/// Moves the folder of an installed runner out of `runner_dir`.
fn take(sandbox: &Sandbox, name: &str) -> PathBuf {
    let folder = sandbox.work().join(name);
    fs::rename(sandbox.runner_dir().join(name), &folder).unwrap();
    folder
}

/// Makes the folder `echo`: the runner `noop` under another name, which this program does not contain.
pub(crate) fn echo_folder(sandbox: &Sandbox) -> PathBuf {
    sandbox.carton("runner install noop").expect_code(0);
    let folder = sandbox.work().join("echo");
    fs::rename(sandbox.runner_dir().join("noop-0.1.0"), &folder).unwrap();
    let path = folder.join("runner.toml");
    let text = fs::read_to_string(&path).unwrap().replace("runner_name = \"noop\"", "runner_name = \"them/echo\"");
    fs::write(&path, text).unwrap();
    folder
}

/// As `echo_folder`, and offers it in the index `index.json`.
fn offer_echo(sandbox: &Sandbox) {
    echo_folder(sandbox);
    sandbox.carton("runner package echo --add-to index.json").expect_code(0);
    fs::remove_dir_all(sandbox.work().join("echo")).unwrap();
}

#[test]
fn packaged_installed_used_and_removed() {
    let sandbox = Sandbox::new();
    echo_folder(&sandbox);
    let packaged =
        sandbox.carton("runner package echo --url-prefix https://example.org/runners/ --json").expect_code(0);
    let entry = packaged.json()["entries"][0].to_string();
    assert_snapshot!(entry, @r#"{"args":["__carton-runner","noop"],"download_info":[{"relative_path":"","sha256":"[HASH]","url":"https://example.org/runners/them-echo-0.1.0-44be665f-[PLATFORM].tar.gz"}],"files":"ranges","framework_version":"0.1.0","id":"[HASH]","platform":"[PLATFORM]","runner_compat_version":1,"runner_interface_version":2,"runner_name":"them/echo","runner_path":"carton","runner_release_date":"[DATE]"}"#);
    let again = sandbox.carton("runner package echo -o again.tar.gz --url https://example.org/x --json").expect_code(0);
    assert_eq!(again.json()["sha256"], packaged.json()["sha256"]);
    assert_eq!(again.json()["entries"][0]["download_info"][0]["url"], "https://example.org/x");
    let printed = sandbox.carton("runner package echo --add-to index.json").expect_code(0);
    assert_eq!(
        printed.json(),
        serde_json::from_slice::<serde_json::Value>(&fs::read(sandbox.work().join("index.json")).unwrap()).unwrap()
    );
    fs::remove_dir_all(sandbox.work().join("echo")).unwrap();

    let listed = sandbox.carton("runner ls --available --index index.json").expect_code(0).stdout;
    let listed: Vec<String> = listed.lines().map(words).collect();
    assert_snapshot!(listed.join("\n"), @"
    NAME VERSION INTERFACE PLATFORM RELEASED INSTALLED SUPPORTED
    them/echo 0.1.0 2 [PLATFORM] [DATE] no yes
    ");
    assert_snapshot!(sandbox.carton("runner install them/echo@^0.1 --index index.json"), @"
    exit code: 0
    ----- stdout -----
    installed them/echo 0.1.0 from index.json in [SANDBOX]/runners/them-echo-0.1.0-44be665f
    ----- stderr -----
    ");
    let installed = names(&sandbox.runner_dir());
    assert_eq!(installed.len(), 1);
    let offer = sandbox.carton("runner ls --available --index index.json --json").expect_code(0).json();
    assert_eq!(offer["runners"][0]["installed"], true);
    sandbox.write("model.bin", "weights");
    assert_snapshot!(sandbox.carton("run model.bin --runner them/echo -i x=[1]"), @"
    exit code: 0
    ----- stdout -----
    x  int64 [1]
    [1]
    ----- stderr -----
    ");
    assert_snapshot!(sandbox.carton("runner rm them/echo"), @"
    exit code: 0
    ----- stdout -----
    removed them/echo 0.1.0 from [SANDBOX]/runners/them-echo-0.1.0-44be665f
    ----- stderr -----
    ");
    assert!(names(&sandbox.runner_dir()).is_empty());
}

#[test]
fn a_missing_runner_is_installed_when_allowed() {
    let sandbox = Sandbox::new();
    offer_echo(&sandbox);
    sandbox.write("model.bin", "weights");
    let with_index = |arguments: &str| {
        outcome(sandbox.command(arguments.split(' ')).env("CARTON_RUNNER_INDEX", sandbox.work().join("index.json")))
    };
    assert_snapshot!(with_index("pack model.bin --runner them/echo"), @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: no installed runner `them/echo` fits (installed: noop 0.1.0, onnx 1.32.0)

    hint: install it: `carton runner install them/echo`, or let `--install-runners` do so
    ");
    assert_snapshot!(with_index("run model.bin --runner them/echo -i x=[1] --framework-version ^9 --install-runners"), @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: `[SANDBOX]/work/index.json` offers no runner `them/echo` with framework version `^9` that fits (them/echo 0.1.0: its framework version 0.1.0 does not satisfy `^9`)

    hint: `carton runner ls --available --index [SANDBOX]/work/index.json` lists what it offers
    ");
    with_index("pack model.bin --runner them/echo --install-runners").expect_code(0);
    sandbox.carton("runner rm them/echo").expect_code(0);

    assert_snapshot!(sandbox.carton("run model.carton -i x=[1]"), @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: no installed runner `them/echo` with framework version `=0.1.0` fits (installed: noop 0.1.0, onnx 1.32.0)

    hint: no runner index is configured; install it from one that has it: `carton runner install them/echo@=0.1.0 --compat-version 1 --index URL`
    ");
    assert_snapshot!(with_index("run model.carton -i x=[1]"), @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: no installed runner `them/echo` with framework version `=0.1.0` fits (installed: noop 0.1.0, onnx 1.32.0)

    hint: install it: `carton runner install them/echo@=0.1.0 --compat-version 1`, or let `--install-runners` do so
    ");
    assert_snapshot!(with_index("run model.carton -i x=[1] --install-runners"), @"
    exit code: 0
    ----- stdout -----
    x  int64 [1]
    [1]
    ----- stderr -----
    ");
    sandbox.carton("runner rm them/echo").expect_code(0);
    sandbox.write("config.toml", "auto_install = true\nrunner_index = \"index.json\"\n");
    sandbox.carton("run model.carton -i x=[1] --config config.toml").expect_code(0);
}

#[test]
fn where_a_runner_comes_from() {
    let sandbox = Sandbox::new();
    offer_echo(&sandbox);
    // The index has no noop; this program does.
    let with_index = |arguments: &str| {
        outcome(sandbox.command(arguments.split(' ')).env("CARTON_RUNNER_INDEX", sandbox.work().join("index.json")))
    };
    assert_snapshot!(with_index("runner install noop").stdout, @"installed noop 0.1.0 from this program in [SANDBOX]/runners/noop-0.1.0");
    assert_snapshot!(sandbox.carton("runner install noop --index index.json"), @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: `index.json` offers no runner `noop` that fits (there are: them/echo 0.1.0)

    hint: `carton runner ls --available --index index.json` lists what it offers
    ");
    let offline = |arguments: &str| {
        outcome(
            sandbox
                .command(arguments.split(' '))
                .env("CARTON_RUNNER_INDEX", "https://me:secret@localhost/index.json?key=1"),
        )
    };
    assert_snapshot!(offline("runner install noop --offline").stdout, @"installed noop 0.1.0 from this program in [SANDBOX]/runners/noop-0.1.0");
    assert_snapshot!(offline("runner install them/echo --offline"), @"
    exit code: 7
    ----- stdout -----

    ----- stderr -----
    error: cannot fetch the runner index

    Caused by:
      `https://localhost/index.json?…` is not in the cache, and the network is not to be used

    hint: allow the network, or fetch it once while it is allowed
    ");
    assert_snapshot!(sandbox.carton("runner ls --available"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: no runner index is configured

    hint: name one: `--index URL|FILE`, or `runner_index` in the configuration
    ");
    assert_snapshot!(sandbox.carton("runner install https://localhost/x.tar.gz"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: `https://localhost/x.tar.gz` comes from a server, and no SHA-256 is given to verify it

    hint: give it: `--sha256 HASH`
    ");
    assert_snapshot!(sandbox.carton("runner install ./nothing.tar.gz"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot unpack `./nothing.tar.gz`

    Caused by:
      cannot open `./nothing.tar.gz`
      No such file or directory (os error 2)
    ");
    assert_snapshot!(sandbox.carton("runner install noop@first"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: `first` is not a version requirement

    Caused by:
      unexpected character 'f' while parsing major version number
    ");
    assert_snapshot!(sandbox.carton("runner install ftp://me:secret@host/x"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: cannot use `ftp://host/x`

    Caused by:
      the `ftp:` URL is not valid: only `http`, `https`, `oci`, `hf`, `s3`, `gs`, `az` and `file` are known
    ");
    let folder = take(&sandbox, "noop-0.1.0");
    for place in [folder.display().to_string(), format!("file:{}", folder.display())] {
        sandbox.run(["runner", "install", &place]).expect_code(0);
        assert_eq!(names(&sandbox.runner_dir()), ["noop-0.1.0"]);
    }
}

#[test]
fn archives_of_tar_and_python_install() {
    let sandbox = Sandbox::new();
    echo_folder(&sandbox);
    let run = |program: &str, arguments: &[&str]| {
        let status = Command::new(program).args(arguments).current_dir(sandbox.work()).status().unwrap();
        assert!(status.success(), "{program} {arguments:?}");
    };
    run("tar", &["-C", "echo", "-czf", "echo.tgz", "."]);
    run("python3", &["-c", "import shutil; shutil.make_archive('echo', 'zip', 'echo')"]);
    sandbox.write("model.bin", "weights");
    for archive in ["echo.tgz", "echo.zip"] {
        sandbox.carton(&format!("runner install {archive}")).expect_code(0);
        sandbox.carton("run model.bin --runner them/echo -i x=[1]").expect_code(0);
        sandbox.carton("runner rm them/echo@0.1.0").expect_code(0);
    }
    run("tar", &["-czf", "outer.tar.gz", "echo"]);
    assert_snapshot!(sandbox.carton("runner install outer.tar.gz"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: there is no runner.toml at the top of `outer.tar.gz`

    hint: the runner is in the folder `echo` of it: archive what is in that folder
    ");
    let zeros = "0".repeat(64);
    assert_snapshot!(sandbox.carton(&format!("runner install echo.zip --sha256 {zeros}")), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: digest mismatch for `echo.zip`: expected [HASH], found [HASH]
    ");
    run(
        "tar",
        &["-C", "echo", "--transform", "s,^carton,../carton,", "-P", "-cf", "evil.tar", "runner.toml", "carton"],
    );
    assert_snapshot!(sandbox.carton("runner install evil.tar"), @"
    exit code: 4
    ----- stdout -----

    ----- stderr -----
    error: cannot unpack `evil.tar`

    Caused by:
      name `../carton` is not allowed
      a component is `.` or `..`
    ");
    assert!(names(&sandbox.runner_dir()).is_empty());
}

#[test]
fn what_rm_refuses() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.carton("runner rm onnx"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: runner onnx 1.32.0 is part of this program and cannot be removed
    ");
    assert_snapshot!(sandbox.carton("runner rm other"), @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: no runner `other` is installed in `[SANDBOX]/runners`

    hint: `carton runner ls` shows what is installed
    ");
    install_script(&sandbox, "old", 1, "exit 1");
    install_script(&sandbox, "new", 1, "exit 1");
    let path = sandbox.runner_dir().join("new/runner.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"new\"", "\"old\"").replace("1.0.0", "1.1.0")).unwrap();
    assert_snapshot!(sandbox.carton("runner rm old"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: `old` is more than one runner: old 1.0.0 in `[SANDBOX]/runners/old`, old 1.1.0 in `[SANDBOX]/runners/new`

    hint: say which: `NAME@VERSION`, or delete its folder
    ");
    sandbox.carton("runner rm old@1.0.0").expect_code(0);
    assert_eq!(names(&sandbox.runner_dir()), ["new"]);
}

#[test]
fn a_killed_installation_leaves_nothing_that_is_seen() {
    let sandbox = Sandbox::new();
    let folder = echo_folder(&sandbox);
    // Bytes that do not compress, so that unpacking takes a while.
    let mut state = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(24 << 20)
    .collect();
    fs::write(folder.join("noise"), &noise).unwrap();
    sandbox.carton("runner package echo --add-to index.json").expect_code(0);
    let arguments = ["runner", "install", "them/echo", "--index", "index.json"];
    let mut killed = 0;
    for pause in 0..12 {
        let mut child = sandbox.command(arguments).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(15 * pause));
        if child.try_wait().unwrap().is_none() {
            kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
            killed += 1;
        }
        child.wait().unwrap();
        for name in names(&sandbox.runner_dir()).iter().filter(|name| !name.starts_with('.')) {
            let path = sandbox.runner_dir().join(name);
            assert_eq!(fs::metadata(path.join("noise")).unwrap().len(), noise.len() as u64);
            assert!(path.join("carton").exists() && path.join("runner.toml").exists());
        }
    }
    assert!(killed > 0);
    sandbox.run(arguments).expect_code(0);
    let left: Vec<String> =
        names(&sandbox.runner_dir()).into_iter().filter(|name| name.starts_with(".install-")).collect();
    // A folder of an installation that was killed before it took its lock is kept for some minutes.
    assert!(left.iter().all(|name| names(&sandbox.runner_dir().join(name)).is_empty()), "{left:?}");
    sandbox.write("model.bin", "weights");
    sandbox.carton("run model.bin --runner them/echo -i x=[1]").expect_code(0);
}
