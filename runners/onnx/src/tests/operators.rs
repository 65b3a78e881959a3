//! ONNX's own operator tests, run by hand: `tests/models/operator_cases.py FOLDER` writes them,
//! `CARTON_ONNX_OPERATOR_CASES=FOLDER cargo test -p carton-runner-onnx operator_tests -- --ignored --nocapture` runs
//! them and prints the results of each engine. An engine may refuse a model; it may not panic, and a wrong result is listed.

use std::collections::BTreeMap;
use std::path::Path;

use carton_tensor::{Tolerance, allclose};
use serde_json::Value;

use super::{TestFiles, onnx_runtime, open, run, tensors};
use crate::options::EngineChoice;

#[test]
#[ignore = "needs the cases that tests/models/operator_cases.py writes"]
fn operator_tests() {
    let folder = std::env::var("CARTON_ONNX_OPERATOR_CASES").expect("CARTON_ONNX_OPERATOR_CASES names a folder");
    let folder = Path::new(&folder);
    let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(folder.join("cases.json")).unwrap()).unwrap();
    let mut engines = vec![EngineChoice::Rten];
    if onnx_runtime().is_some() {
        engines.push(EngineChoice::OnnxRuntime);
    }
    for engine in engines {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for case in &cases {
            let name = case["model"].as_str().unwrap();
            let (outcome, detail) = outcome(folder, name, case, engine);
            *counts.entry(outcome).or_default() += 1;
            if outcome != "passed" && outcome != "refused at load" {
                println!("{engine:?} {outcome}: {name}: {detail}");
            }
        }
        println!("{engine:?}: {counts:?}");
        assert!(!counts.contains_key("panicked"));
    }
}

fn outcome(folder: &Path, name: &str, case: &Value, engine: EngineChoice) -> (&'static str, String) {
    let files = TestFiles::of_bytes(std::fs::read(folder.join(name)).unwrap());
    let failed = |outcome, message: String| {
        if message.contains("panicked") { ("panicked", message) } else { (outcome, message) }
    };
    let model = match open(&files, engine) {
        Ok((model, _)) => model,
        Err(error) => return failed("refused at load", error.message),
    };
    let found = match run(&model, &tensors(&case["inputs"])) {
        Ok(found) => found,
        Err(error) => return failed("failed", format!("{} {:?}", error.message, error.causes)),
    };
    let (rtol, atol) = (case["rtol"].as_f64().unwrap_or(1e-3), case["atol"].as_f64().unwrap_or(1e-7));
    let tolerance = Tolerance::new(rtol, atol).equal_nan(true);
    for (output, expected) in tensors(&case["outputs"]) {
        let Some(tensor) = found.get(&output) else { return ("wrong", format!("no {output}")) };
        let comparison = allclose(tensor, &expected, tolerance);
        if !comparison.passed {
            return ("wrong", format!("{output}: {}", comparison.detail.unwrap_or_default()));
        }
    }
    ("passed", String::new())
}
