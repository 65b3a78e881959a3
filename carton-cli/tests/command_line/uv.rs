//! `carton runner install python` where `uv` is missing. The package index is a server of this test; it serves the real wheel, which
//! `CARTON_TEST_UV_WHEEL` names (`scripts/test` fetches it).

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use carton_test_server::{File, Server};
use insta::assert_snapshot;

use crate::sandbox::{Sandbox, names, outcome};

/// The interpreter of the tests, and the wheel; without them the test is skipped.
fn parts() -> Option<(PathBuf, PathBuf)> {
    let [python, wheel] =
        ["CARTON_TEST_PYTHON", "CARTON_TEST_UV_WHEEL"].map(|name| std::env::var_os(name).map(PathBuf::from));
    let parts = python.zip(wheel);
    if parts.is_none() {
        eprintln!(
            "skipped: CARTON_TEST_PYTHON and CARTON_TEST_UV_WHEEL do not name an interpreter and the wheel of uv"
        );
    }
    parts
}

/// An index with a wheel of this name and these bytes.
fn index(name: &str, bytes: Vec<u8>) -> Server {
    let server = Server::start();
    let page = File::new(format!("<a href=\"../../files/{name}#sha256=0\">{name}</a>").into_bytes());
    let file = File::new(bytes);
    server.route("/simple/uv/", move |request| page.answer(request));
    server.route(&format!("/files/{name}"), move |request| file.answer(request));
    server
}

/// The command, with an interpreter that has no `uv`, and nothing in `PATH`.
fn install(sandbox: &Sandbox, python: &PathBuf, arguments: &[&str]) -> Command {
    let venv = sandbox.work().join("venv");
    if !venv.exists() {
        let made = Command::new(python).args(["-m", "venv", "--without-pip"]).arg(&venv).status().unwrap();
        assert!(made.success());
    }
    let mut command = sandbox.command(["runner", "install", "python", "--python"]);
    command.arg(venv.join("bin/python")).args(arguments);
    command.env("PATH", "").env("CARTON_RUNNER_DATA_DIR", sandbox.work().join("data"));
    command
}

#[test]
fn uv_comes_along_and_makes_environments() {
    let Some((python, wheel)) = parts() else { return };
    let sandbox = Sandbox::new();
    let name = wheel.file_name().unwrap().to_str().unwrap().to_owned();
    let server = index(&name, fs::read(&wheel).unwrap());
    let simple = server.url("/simple");

    // The command cannot ask without a terminal, and does not fetch uv. It installs the runner before that.
    let failed = outcome(install(&sandbox, &python, &[]).env("UV_INDEX_URL", &simple)).expect_code(5);
    assert!(failed.stdout.starts_with("installed python "), "{failed}");
    assert!(failed.stderr.contains("needs your consent, and there is no terminal to ask on"), "{failed}");
    assert!(failed.stderr.contains("hint: `--yes` agrees"), "{failed}");
    outcome(&mut install(&sandbox, &python, &["--without-uv"])).expect_code(0);
    assert!(!sandbox.work().join("data").join("uv").exists());

    let installed = outcome(install(&sandbox, &python, &["--yes"]).env("PIP_INDEX_URL", &simple)).expect_code(0);
    assert!(installed.stdout.contains("installed uv 0.13.9 from http://127.0.0.1"), "{installed}");
    let uv = sandbox.work().join("data/uv/0.13.9");
    assert_eq!(names(&uv), ["dist-info", "uv"]);
    assert_eq!(names(&sandbox.work().join("data/uv")), ["0.13.9"]);
    // The second time there is nothing to do.
    let again = outcome(&mut install(&sandbox, &python, &["--json"])).expect_code(0).json();
    assert!(again["uv"].is_null(), "{again}");

    // The process that makes environments finds and may execute it.
    sandbox.write("model/model.py", "import json\n\ndef predict(x):\n    return {'y': x}\n");
    sandbox.write("model/requirements.txt", "");
    let mut run = sandbox.command([
        "run",
        "model",
        "--runner",
        "python",
        "--opt",
        "infer_fn=predict",
        "-i",
        "x=[1.5]",
        "--offline",
        "-v",
    ]);
    run.env("PATH", "").env("CARTON_RUNNER_DATA_DIR", sandbox.work().join("data"));
    let ran = outcome(&mut run);
    assert!(!ran.stderr.contains("is not on this machine"), "{ran}");
}

#[test]
fn another_wheel_is_refused() {
    let Some((python, wheel)) = parts() else { return };
    let sandbox = Sandbox::new();
    let name = wheel.file_name().unwrap().to_str().unwrap().to_owned();
    let mut bytes = fs::read(&wheel).unwrap();
    bytes[1000] ^= 1;
    let server = index(&name, bytes);
    let failed =
        outcome(install(&sandbox, &python, &["--yes"]).env("UV_INDEX_URL", server.url("/simple"))).expect_code(4);
    assert!(failed.stderr.contains("digest mismatch for"), "{failed}");
    assert_eq!(names(&sandbox.work().join("data/uv")), [""; 0]);
    let server = index("uv-0.0.1-py3-none-any.whl", Vec::new());
    let mut install = install(&sandbox, &python, &["--yes"]);
    assert_snapshot!(outcome(install.env("UV_INDEX_URL", server.url("/simple"))).expect_code(5).stderr.lines().next().unwrap().replace(&server.url("/"), "SERVER/"), @"
    error: the package index `SERVER/simple` does not list `uv-0.13.9-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl`
    ");
}
