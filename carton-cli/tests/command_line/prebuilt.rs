//! `carton runner install torchscript` without a compiler: from an index on a server, with a real libtorch. `CARTON_TEST_PREBUILT` names the
//! folder that `runners/torchscript/prebuilt` has filled, and `CARTON_TEST_LIBTORCH` a libtorch for one of its runners; without that, the
//! system's is used.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use carton_tensor::{Tensor, npy};
use carton_test_server::{File, Server};

use crate::sandbox::{Sandbox, names, outcome};

/// Serves the index and its archives; `None` without them.
fn serve() -> Option<Server> {
    let Some(folder) = std::env::var_os("CARTON_TEST_PREBUILT").map(PathBuf::from) else {
        eprintln!(
            "skipped: CARTON_TEST_PREBUILT names no folder with runners that were built by runners/torchscript/prebuilt"
        );
        return None;
    };
    let server = Server::start();
    for name in names(&folder).iter().filter(|name| !name.starts_with('.')) {
        let file = File::new(fs::read(folder.join(name)).unwrap());
        server.route(&format!("/runners/{name}"), move |request| file.answer(request));
    }
    Some(server)
}

fn command(sandbox: &Sandbox, arguments: &str) -> Command {
    let mut command = sandbox.command(arguments.split(' '));
    // An own libtorch has libraries that lie elsewhere than in a Python environment.
    command.env("CARTON_RUNNER_DATA_DIR", sandbox.work().join("data"));
    command
}

#[test]
fn a_prebuilt_runner_finds_libtorch_and_runs_models() {
    let Some(server) = serve() else { return };
    let sandbox = Sandbox::new();
    let index = server.url("/runners/index.json");
    let libtorch = std::env::var("CARTON_TEST_LIBTORCH").ok().filter(|path| !path.is_empty());
    let what = match &libtorch {
        Some(path) => format!("torchscript --torch {path}"),
        None => "torchscript@~1.13".to_owned(),
    };
    let installed = outcome(&mut command(&sandbox, &format!("runner install {what} --index {index} --json")));
    let installed = installed.expect_code(0).json();
    let version = installed["framework_version"].as_str().unwrap();
    assert_eq!(installed["library"]["version"], version);
    if libtorch.is_none() {
        assert_eq!(installed["library"]["source"], "the system");
    }
    let folder = Path::new(installed["path"].as_str().unwrap());
    assert!(fs::symlink_metadata(folder.join("lib")).unwrap().is_symlink());

    // A model of the tests, through the whole command.
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runners/torchscript/tests/models/1.13/mlp.pt");
    fs::copy(model, sandbox.work().join("mlp.pt")).unwrap();
    let input = Tensor::from_vec(vec![-1.0_f32, 0.5, 0.25, 1.0], vec![1, 4]).unwrap();
    npy::write(fs::File::create(sandbox.work().join("x.npy")).unwrap(), &input).unwrap();
    let run = "run mlp.pt --runner torchscript -i x=x.npy --json";
    let outputs = outcome(&mut command(&sandbox, run)).expect_code(0).json();
    assert_eq!(outputs["outputs"]["probabilities"]["shape"], serde_json::json!([1, 3]), "{outputs}");
    assert_eq!(outputs["runner"], format!("torchscript {version}"));

    // Where another libtorch of the same major is required, the error says what is there, and how to try it.
    let major = version.split('.').next().unwrap();
    let refused = outcome(&mut command(&sandbox, &format!("{run} --framework-version ={major}.99.0"))).expect_code(5);
    let error = &refused.json()["error"];
    let there = format!("torchscript {version}: its framework version {version} does not satisfy `={major}.99.0`");
    assert!(error["message"].as_str().unwrap().contains(&there), "{refused}");
    let option = format!("--framework-version ={version}");
    let tried = format!("try the one that is there, torchscript {version}: `{option}`");
    assert!(error["hint"].as_str().unwrap().contains(&tried), "{refused}");
    outcome(&mut command(&sandbox, &format!("{run} {option}"))).expect_code(0);
}
