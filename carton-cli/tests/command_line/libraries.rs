//! Runners that need a library of the machine. The library here is an empty file, and the runner is `noop` under another name, so that the
//! choice, the link and the proof are those of a real one. The runners of the real libtorch are tested in `prebuilt.rs`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use insta::assert_snapshot;

use crate::runner_index::echo_folder;
use crate::sandbox::{Outcome, Sandbox, names, outcome};

/// Offers runners `them/echo` for series of libtorch in `index.json`, of which those without wheels have none. The proof of each is that it
/// returns its input.
fn offer(sandbox: &Sandbox, series: &[(&str, bool)]) {
    let echo = echo_folder(sandbox);
    sandbox.carton("runner install ./echo").expect_code(0);
    sandbox.write("model.bin", "weights");
    let tensor = |name: &str| format!("[[{name}]]\nname = \"x\"\ndtype = \"int64\"\nshape = [1]\n");
    sandbox.write("proof.toml", tensor("input") + &tensor("output"));
    let pack = ["pack", "model.bin", "--runner", "them/echo", "--framework-version", ">=0", "--metadata", "proof.toml"];
    sandbox.run(pack.into_iter().chain(["--record-self-test", "x=[7]", "-o", "proof.carton"])).expect_code(0);
    sandbox.carton("runner rm them/echo").expect_code(0);
    let toml = fs::read_to_string(echo.join("runner.toml")).unwrap();
    fs::copy(sandbox.work().join("proof.carton"), echo.join("proof.carton")).unwrap();
    for (series, has_wheels) in series {
        let mut library = format!(
            "[runner.library]\nname = \"libtorch\"\nversion = \"~{series}\"\nfiles = [\"libtorch_cpu.so\"]\nself_tests = [\"proof.carton\"]\n"
        );
        if *has_wheels {
            let hash = "0".repeat(64);
            library.push_str(&format!(
                "wheel_files = [\"libtorch_cpu.so\"]\n[[runner.library.wheels]]\nname = \"torch\"\nversion = \"{series}.0\"\n\
                 sha256 = \"{hash}\"\nsize = 539136850\n"
            ));
        }
        let toml = toml.replace("framework_version = \"0.1.0\"", &format!("framework_version = \"{series}.0\""));
        fs::write(echo.join("runner.toml"), format!("{toml}\n{library}")).unwrap();
        sandbox.carton("runner package echo --add-to index.json").expect_code(0);
    }
}

/// Makes the package `torch` with this version, and returns the folder that it is in.
fn torch(sandbox: &Sandbox, folder: &str, version: &str) -> PathBuf {
    sandbox.write(&format!("{folder}/torch/lib/libtorch_cpu.so"), "");
    sandbox.write(&format!("{folder}/torch/version.py"), format!("__version__ = '{version}'\n"));
    sandbox.work().join(folder)
}

/// Makes a virtual environment whose interpreter says that it has the package `torch` in `packages`.
fn environment(sandbox: &Sandbox, packages: &str) -> PathBuf {
    let python = sandbox.write(
        "venv/bin/python3",
        format!("#!/bin/sh\necho '\"{}/torch\"'\n", sandbox.work().join(packages).display()),
    );
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    sandbox.work().join("venv")
}

/// The command `runner install` with data in the sandbox, and without what this machine has in its environment.
fn install(sandbox: &Sandbox, arguments: &str) -> Command {
    let mut command = sandbox.command(["runner", "install"]);
    command.args(arguments.split(' ')).args(["--index", "index.json"]);
    command.env("CARTON_RUNNER_DATA_DIR", sandbox.work().join("data"));
    command
}

fn installed(sandbox: &Sandbox, arguments: &str) -> Outcome {
    outcome(&mut install(sandbox, arguments))
}

#[test]
fn the_runner_for_the_library_that_is_named() {
    let sandbox = Sandbox::new();
    offer(&sandbox, &[("2.13", true), ("2.15", true)]);
    torch(&sandbox, "site-packages", "2.13.2+cu130");
    assert_snapshot!(installed(&sandbox, "them/echo --torch site-packages"), @"
    exit code: 0
    ----- stdout -----
    installed them/echo 2.13.2 from index.json in [SANDBOX]/runners/them-echo-2.13.2-caff6ebf
    it uses libtorch 2.13.2 of site-packages: [SANDBOX]/work/site-packages/torch/lib
    ----- stderr -----
    ");
    let [folder] = &names(&sandbox.runner_dir())[..] else { panic!("{:?}", names(&sandbox.runner_dir())) };
    let folder = sandbox.runner_dir().join(folder);
    let linked = fs::canonicalize(sandbox.work().join("site-packages/torch/lib")).unwrap();
    assert_eq!(fs::read_link(folder.join("lib")).unwrap(), linked);
    assert_snapshot!(fs::read_to_string(folder.join("runner.toml")).unwrap(), @r#"
    version = 1

    [[runner]]
    runner_name = "them/echo"
    framework_version = "2.13.2"
    runner_compat_version = 1
    runner_interface_version = 2
    runner_release_date = "[DATE]"
    runner_path = "carton"
    args = ["__carton-runner", "noop"]
    platform = "[PLATFORM]"
    files = "ranges"

    [runner.sandbox]
    read = ["[SANDBOX]/work/site-packages/torch/lib"]

    [runner.library]
    name = "libtorch"
    version = "~2.13"
    files = ["libtorch_cpu.so"]
    self_tests = ["proof.carton"]
    "#);
    sandbox.write("model.bin", "weights");
    sandbox.carton("run model.bin --runner them/echo -i x=[1]").expect_code(0);

    // Another one of the same series is another runner; the same version replaces it.
    torch(&sandbox, "site-packages", "2.13.0");
    let json = installed(&sandbox, "them/echo --torch site-packages/torch --json").expect_code(0).json();
    assert_snapshot!(json.to_string(), @r#"
    {"framework_version":"2.13.0","library":{"name":"libtorch","path":"[SANDBOX]/work/site-packages/torch/lib","source":"site-packages/torch","version":"2.13.0"},"path":"[SANDBOX]/runners/them-echo-2.13.0-23fcaac3","runner_name":"them/echo","source":"index.json"}
    "#);
    assert_eq!(names(&sandbox.runner_dir()).len(), 2);
    installed(&sandbox, "them/echo --torch site-packages/torch/lib/..").expect_code(0);
    assert_eq!(names(&sandbox.runner_dir()).len(), 2);
}

#[test]
fn what_does_not_fit_is_not_installed() {
    let sandbox = Sandbox::new();
    offer(&sandbox, &[("2.13", true), ("2.15", true)]);
    torch(&sandbox, "site-packages", "2.12.1");
    assert_snapshot!(installed(&sandbox, "them/echo --torch site-packages"), @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: the libtorch in `[SANDBOX]/work/site-packages/torch/lib` is 2.12.1; there are runners for ~2.13, ~2.15

    hint: without `--torch` a libtorch that fits is downloaded; `--torch PATH` names a Python environment with torch, its interpreter, or the folder of a libtorch
    ");
    torch(&sandbox, "site-packages", "2.15.0");
    assert_snapshot!(installed(&sandbox, "them/echo@~2.13 --torch site-packages"), @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: the libtorch in `[SANDBOX]/work/site-packages/torch/lib` is 2.15.0, required is `~2.13`
    ");
    fs::remove_file(sandbox.work().join("site-packages/torch/lib/libtorch_cpu.so")).unwrap();
    assert_snapshot!(installed(&sandbox, "them/echo --torch site-packages"), @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: `[SANDBOX]/work/site-packages/torch/lib` lacks `libtorch_cpu.so`, which the runner for libtorch 2.15.0 needs
    ");
    assert_snapshot!(installed(&sandbox, "them/echo --torch index.json"), @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: cannot ask the interpreter `[SANDBOX]/work/index.json` for its package `torch`: Permission denied (os error 13)
    ");
    assert_snapshot!(installed(&sandbox, "them/echo@^3"), @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: `index.json` offers no runner `them/echo` with framework version `^3` that fits (them/echo 2.13.0: its framework version 2.13.0 does not satisfy `^3`; them/echo 2.15.0: its framework version 2.15.0 does not satisfy `^3`)

    hint: `carton runner ls --available --index index.json` lists what it offers
    ");
    // Loading a model asks no questions.
    sandbox.write("model.bin", "weights");
    let mut run = sandbox.command(["run", "model.bin", "--runner", "them/echo", "-i", "x=[1]", "--install-runners"]);
    assert_snapshot!(outcome(run.env("CARTON_RUNNER_INDEX", "index.json")), @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: runner them/echo 2.15.0 needs libtorch ~2.15 of this machine, which it does not bring

    hint: `carton runner install them/echo@=2.15.0` finds it, and asks before it downloads anything
    ");
    assert_snapshot!(sandbox.carton("runner install onnx --without-onnxruntime --torch site-packages"), @"
    exit code: 2
    ----- stdout -----

    ----- stderr -----
    error: --torch goes with runners that need libtorch; onnx does not
    ");
    assert_eq!(names(&sandbox.runner_dir()), [""; 0]);
}

#[test]
fn a_runner_that_computes_something_else_is_not_installed() {
    let sandbox = Sandbox::new();
    offer(&sandbox, &[("2.15", true)]);
    torch(&sandbox, "site-packages", "2.15.0");
    // The proof expects another output than the runner's.
    let toml = fs::read_to_string(sandbox.work().join("proof.toml")).unwrap();
    let numpy = |number: u8| {
        [
            &b"\x93NUMPY\x01\x00v\x00{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }"[..],
            &[b' '; 60],
            b"\n",
            &[number, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat()
    };
    sandbox.write("seven.npy", numpy(7));
    sandbox.write("eight.npy", numpy(8));
    sandbox.write(
        "proof.toml",
        toml + "[[self_test]]\ninputs = { x = \"seven.npy\" }\nexpected_out = { x = \"eight.npy\" }\n",
    );
    let toml = fs::read_to_string(sandbox.work().join("echo/runner.toml")).unwrap();
    let plain = sandbox.runner_dir().join("plain");
    fs::create_dir_all(&plain).unwrap();
    fs::copy(sandbox.work().join("echo/carton"), plain.join("carton")).unwrap();
    fs::write(plain.join("runner.toml"), toml.split("[runner.library]").next().unwrap()).unwrap();
    let pack = ["pack", "model.bin", "--runner", "them/echo", "--framework-version", ">=0", "--metadata", "proof.toml"];
    sandbox.run(pack.into_iter().chain(["--no-check", "-o", "echo/proof.carton"])).expect_code(0);
    fs::remove_dir_all(plain).unwrap();
    assert_snapshot!(outcome(sandbox.command(["runner", "install", "./echo", "--torch", "site-packages"]).env("CARTON_RUNNER_DATA_DIR", sandbox.work().join("data"))), @"
    exit code: 3
    ----- stdout -----

    ----- stderr -----
    error: runner them/echo 2.15.0 does not run models with the libtorch in `[SANDBOX]/work/site-packages/torch/lib`

    Caused by:
      output `x`: element [0]: expected 8, found 7 (differs by 1); 1 of 1 element differs
    ");
    assert_eq!(names(&sandbox.runner_dir()), [""; 0]);
}

#[test]
fn the_active_environment_is_used() {
    let sandbox = Sandbox::new();
    offer(&sandbox, &[("2.13", true), ("2.15", true)]);
    torch(&sandbox, "site-packages", "2.15.1");
    let venv = environment(&sandbox, "site-packages");
    let json = outcome(install(&sandbox, "them/echo --json").env("VIRTUAL_ENV", &venv)).expect_code(0).json();
    assert_eq!(json["framework_version"], "2.15.1");
    assert!(json["library"]["source"].as_str().unwrap().ends_with("(VIRTUAL_ENV)"), "{json}");
    // It may have another torch, or none.
    torch(&sandbox, "site-packages", "2.12.0");
    assert_snapshot!(outcome(install(&sandbox, "them/echo").env("CONDA_PREFIX", &venv)), @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    warning: CONDA_PREFIX is not used: the libtorch in `[SANDBOX]/work/site-packages/torch/lib` is 2.12.0; there are runners for ~2.13, ~2.15
    error: installing libtorch 2.15.0 (514.2 MiB) needs your consent, and there is no terminal to ask on

    hint: `--yes` agrees; `--torch PATH` takes the libtorch of a Python environment or of a folder instead, and an active environment that has it is taken without asking
    ");
    fs::write(venv.join("bin/python3"), "#!/bin/sh\necho null\n").unwrap();
    let failed = outcome(install(&sandbox, "them/echo").env("VIRTUAL_ENV", &venv)).expect_code(5);
    assert!(!failed.stderr.contains("warning"), "{failed}");
}

#[test]
fn wheels_are_fetched_with_consent_and_only_once() {
    let sandbox = Sandbox::new();
    offer(&sandbox, &[("2.13", true), ("2.15", true)]);
    assert_snapshot!(installed(&sandbox, "them/echo"), @"
    exit code: 5
    ----- stdout -----

    ----- stderr -----
    error: installing libtorch 2.15.0 (514.2 MiB) needs your consent, and there is no terminal to ask on

    hint: `--yes` agrees; `--torch PATH` takes the libtorch of a Python environment or of a folder instead, and an active environment that has it is taken without asking
    ");
    // A `uv` that unpacks what the wheels would have.
    let uv = sandbox.write(
        "bin/uv",
        "#!/bin/sh\necho \"$*\" >> \"$HOME/arguments\"\ncase \"$*\" in *--version) echo uv 1; exit 0;; esac\n\
         while [ \"$1\" != --target ]; do shift; done\n\
         grep -q -x 'torch==2.15.0 --hash=sha256:0\\{64\\}' \"$4\" || exit 9\n\
         mkdir -p \"$2/torch/lib\" \"$2/torch-2.15.0.dist-info\"\n: > \"$2/torch/lib/libtorch_cpu.so\"\n: > \"$2/torch/lib/libtorch_cuda.so\"\n",
    );
    fs::set_permissions(&uv, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(sandbox.work().with_file_name("home")).unwrap();
    let mut with_uv = install(&sandbox, "them/echo --yes");
    with_uv.env("PATH", format!("{}:/usr/bin:/bin", sandbox.work().join("bin").display()));
    assert_snapshot!(outcome(&mut with_uv), @"
    exit code: 0
    ----- stdout -----
    installed them/echo 2.15.0 from index.json in [SANDBOX]/runners/them-echo-2.15.0-012e9729
    it uses libtorch 2.15.0 of the wheel of torch 2.15.0, by uv: [SANDBOX]/work/data/libtorch/2.15.0/lib
    ----- stderr -----
    ");
    assert_eq!(names(&sandbox.work().join("data/libtorch/2.15.0")), ["dist-info", "lib"]);
    assert_eq!(names(&sandbox.work().join("data/libtorch/2.15.0/lib")), ["libtorch_cpu.so"]);
    assert_eq!(names(&sandbox.work().join("data/libtorch")), ["2.15.0"]);
    // The library is installed now, so the command asks no question.
    fs::remove_file(uv).unwrap();
    let json = installed(&sandbox, "them/echo --json").expect_code(0).json();
    assert_eq!(json["library"]["version"], "2.15.0");
}
