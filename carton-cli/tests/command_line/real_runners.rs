//! Packs models of real frameworks and runs their self-tests, as a user would. The runners are in the folder that `CARTON_TEST_RUNNERS`
//! names (`scripts/test` fills it). The expected values were computed by the framework itself, in Python.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use carton_tensor::{Tensor, npy};

use crate::sandbox::{Outcome, Sandbox, outcome};

/// The folder of installed runners, if it contains a runner whose folder begins with `name`.
fn runners_with(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("CARTON_TEST_RUNNERS").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let Some(folder) = folder else {
        eprintln!("skipped: CARTON_TEST_RUNNERS names no folder where {name} is installed");
        return None;
    };
    let is_there = fs::read_dir(&folder).is_ok_and(|entries| {
        entries.flatten().any(|entry| entry.file_name().to_str().is_some_and(|found| found.starts_with(name)))
    });
    if !is_there {
        eprintln!("skipped: no {name} is installed in {}", folder.display());
    }
    is_there.then_some(folder)
}

/// Runs the command with the installed runners, and with this user's programs and `uv` settings for fetching packages.
fn carton(sandbox: &Sandbox, runners: &Path, arguments: &str) -> Outcome {
    let mut command: Command = sandbox.command(arguments.split(' '));
    let is_passed = |name: &str| {
        ["PATH", "HOME", "SSL_CERT_FILE", "SSL_CERT_DIR"].contains(&name)
            || name.starts_with("UV_")
            || name.to_ascii_uppercase().ends_with("_PROXY")
    };
    command.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_passed)));
    command
        .env("CARTON_RUNNER_DIR", runners)
        .env("CARTON_RUNNER_DATA_DIR", runners.with_extension("data"))
        .env("CARTON_CONFIG_PATH", "/dev/null");
    outcome(&mut command)
}

fn save(sandbox: &Sandbox, name: &str, tensor: &Tensor) {
    npy::write(fs::File::create(sandbox.work().join(name)).unwrap(), tensor).unwrap();
}

/// The self-test passes, and fails if one expected element is changed: then nothing is packed, unless on request.
fn check_self_test(sandbox: &Sandbox, runners: &Path, expected: &str, tensor: &Tensor) {
    let report = carton(sandbox, runners, "run model.carton --self-test --json").expect_code(0).json();
    assert_eq!(report["passed"], true, "{report}");
    assert_eq!(report["self_tests"].as_array().unwrap().len(), 1, "{report}");
    let mut wrong = tensor.as_numeric().unwrap().to_vec::<f32>().unwrap();
    wrong[1] += 0.25;
    save(sandbox, expected, &Tensor::from_vec(wrong, tensor.shape().unwrap().to_vec()).unwrap());
    fs::remove_file(sandbox.work().join("model.carton")).unwrap();
    let runner = fs::read_to_string(sandbox.work().join("runner.txt")).unwrap();
    let pack = format!("pack ./model {runner} --metadata carton.toml");
    let refused = carton(sandbox, runners, &pack).expect_code(3);
    let output = expected.trim_end_matches(".npy");
    assert!(refused.stderr.contains(&format!("self-test `self_test_0`: output `{output}`: element [")), "{refused}");
    assert!(!sandbox.work().join("model.carton").exists());
    carton(sandbox, runners, &format!("{pack} --no-check")).expect_code(0);
    carton(sandbox, runners, "run model.carton --self-test").expect_code(3);
}

#[test]
fn torchscript() {
    let Some(runners) = runners_with("torchscript-1.13") else { return };
    let sandbox = Sandbox::new();
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runners/torchscript/tests/models/1.13");
    sandbox.write("model/mlp.pt", fs::read(models.join("mlp.pt")).unwrap());
    let cases: serde_json::Value = serde_json::from_slice(&fs::read(models.join("cases.json")).unwrap()).unwrap();
    let is_mlp = |case: &&serde_json::Value| case["model"] == "mlp" && case["outputs"].is_object();
    let case = cases.as_array().unwrap().iter().find(is_mlp).unwrap();
    let tensor = |value: &serde_json::Value| {
        let data = value["data"].as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect();
        let shape =
            value["shape"].as_array().unwrap().iter().map(|size| usize::try_from(size.as_u64().unwrap()).unwrap());
        Tensor::from_vec::<f32>(data, shape.collect()).unwrap()
    };
    let expected = tensor(&case["outputs"]["probabilities"]);
    save(&sandbox, "x.npy", &tensor(&case["inputs"]["x"]));
    save(&sandbox, "probabilities.npy", &expected);
    let metadata = r#"
[[input]]
name = "x"
dtype = "float32"
shape = ["batch", 4]

[[output]]
name = "probabilities"
dtype = "float32"
shape = ["batch", 3]

[[output]]
name = "label"
dtype = "int64"
shape = ["batch"]

[[self_test]]
inputs = { x = "x.npy" }
expected_out = { probabilities = "probabilities.npy" }
"#;
    sandbox.write("carton.toml", metadata);
    sandbox.write("runner.txt", "--runner torchscript --framework-version ~1.13");
    let pack = "pack ./model --runner torchscript --framework-version ~1.13 --metadata carton.toml";
    carton(&sandbox, &runners, pack).expect_code(0);
    check_self_test(&sandbox, &runners, "probabilities.npy", &expected);
}

#[test]
fn python() {
    let Some(runners) = runners_with("python-3") else { return };
    let sandbox = Sandbox::new();
    let model =
        "import numpy\n\n\ndef smooth(x):\n    return {'y': numpy.convolve(x, [0.25, 0.5, 0.25]).astype('float32')}\n";
    sandbox.write("model/main.py", model);
    sandbox.write("model/requirements.txt", "numpy\n");
    let expected = Tensor::from_vec(vec![0.25_f32, 1.0, 2.0, 2.0, 0.75], vec![5]).unwrap();
    save(&sandbox, "x.npy", &Tensor::from_vec(vec![1.0_f32, 2.0, 3.0], vec![3]).unwrap());
    save(&sandbox, "y.npy", &expected);
    let metadata = r#"
[runner.opts]
infer_fn = "smooth"

[[input]]
name = "x"
dtype = "float32"
shape = ["n"]

[[output]]
name = "y"
dtype = "float32"
shape = ["m"]

[[self_test]]
inputs = { x = "x.npy" }
expected_out = { y = "y.npy" }
"#;
    sandbox.write("carton.toml", metadata);
    sandbox.write("runner.txt", "--runner python");
    carton(&sandbox, &runners, "pack ./model --runner python --metadata carton.toml").expect_code(0);
    check_self_test(&sandbox, &runners, "y.npy", &expected);
}

#[test]
fn python_models_that_do_not_load_are_not_packed() {
    let Some(runners) = runners_with("python-3") else { return };
    let check = |source: &str, expected: &[&str], no_check_code: i32| {
        let sandbox = Sandbox::new();
        sandbox.write("model/main.py", source);
        let refused = carton(&sandbox, &runners, "pack model -o model.carton").expect_code(6);
        for part in expected {
            assert!(refused.stderr.contains(part), "{part}: {refused}");
        }
        assert_eq!(refused.stderr.contains("`--no-check` packs it"), no_check_code == 0, "{refused}");
        assert_eq!(sandbox.files(), ["model"]);
        carton(&sandbox, &runners, "pack model -o model.carton --no-check").expect_code(no_check_code);
    };
    // The runner finds these errors before anything is loaded, so packing without a check refuses them, too.
    let refuses = "refused the model";
    check("def get_model(:\n    pass\n", &[refuses, "main.py, line 1: SyntaxError: invalid syntax"], 6);
    check("def model():\n    pass\n", &[refuses, "the module `main` (main.py) has no function `get_model`"], 6);
    check(
        "import no_such_package\n\n\ndef get_model():\n    pass\n",
        &["error: the packed model does not load", "main.py, line 1:", "No module named 'no_such_package'"],
        0,
    );
}
