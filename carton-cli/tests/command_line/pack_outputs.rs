//! What `carton pack` makes of models that state wrong things about themselves, and of what it only guesses.
//!
//! `runners/onnx/tests/models/signatures/make.py` makes the models, and records what ONNX Runtime returns for them.

use std::fs;
use std::path::Path;

use carton_tensor::{Tensor, npy};
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::sandbox::{Outcome, Sandbox, outcome};

/// The folder with the models.
const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../runners/onnx/tests/models/signatures");

/// The path of a model.
fn model(name: &str) -> String {
    format!("{MODELS}/{name}")
}

/// A sandbox whose commands run ONNX models with ONNX Runtime.
struct Desk {
    sandbox: Sandbox,
    library: std::ffi::OsString,
}

impl Desk {
    /// `None`, and the reason on standard error, without a library.
    fn new() -> Option<Self> {
        let Some(library) = std::env::var_os("CARTON_TEST_ONNXRUNTIME") else {
            eprintln!("skipped: CARTON_TEST_ONNXRUNTIME does not name a library of ONNX Runtime");
            return None;
        };
        Some(Self { sandbox: Sandbox::new(), library })
    }

    fn run<S: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Outcome {
        outcome(self.sandbox.command(arguments).env("ORT_DYLIB_PATH", &self.library))
    }

    /// Packs a model as `m.carton`.
    fn pack(&self, name: &str, options: &[&str]) -> Outcome {
        self.run([&["pack", &model(name), "-o", "m.carton"], options].concat())
    }

    /// The declared shapes, by side.
    fn shapes(&self) -> Value {
        let info = self.run(["info", "m.carton", "--json"]).expect_code(0).json();
        let side = |side: &str| {
            let specs = info[side].as_array().unwrap().iter();
            Value::from_iter(specs.map(|spec| (spec["name"].as_str().unwrap().to_owned(), spec["shape"].clone())))
        };
        json!({ "inputs": side("inputs"), "outputs": side("outputs") })
    }

    /// Runs the carton without options, and checks that it returns what ONNX Runtime returned.
    fn check_returns(&self, name: &str) {
        let returned: Value =
            serde_json::from_slice(&fs::read(Path::new(MODELS).join("returned.json")).unwrap()).unwrap();
        let inputs = returned[name]["inputs"].as_object().unwrap();
        let inputs = inputs.iter().flat_map(|(name, value)| ["-i".to_owned(), format!("{name}={value}")]);
        let arguments = ["run", "m.carton", "--json"].map(str::to_owned).into_iter().chain(inputs);
        let found = self.run(arguments).expect_code(0).json();
        for (output, expected) in returned[name]["outputs"].as_object().unwrap() {
            let found = &found["outputs"][output];
            assert_eq!(found["shape"], expected["shape"], "{output}");
            assert_eq!(flat(&found["data"]), flat(&expected["data"]), "{output}");
        }
    }
}

/// The numbers in nested lists.
fn flat(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().flat_map(flat).collect(),
        number => vec![number.as_f64().unwrap()],
    }
}

/// The warnings of a command.
fn warnings(outcome: &Outcome) -> String {
    let warnings = outcome.stderr.lines().filter_map(|line| line.strip_prefix("warning: "));
    warnings.collect::<Vec<_>>().join("\n")
}

/// The last line of a command.
fn last_line(outcome: &Outcome) -> &str {
    outcome.stdout.trim_end().lines().last().unwrap_or_default()
}

/// Writes the input of `stale.onnx`, of shape [3, 2], as NumPy would.
fn write_input(sandbox: &Sandbox, name: &str) {
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }";
    let mut bytes = [b"\x93NUMPY\x01\x00\x76\x00", format!("{header:117}\n").as_bytes()].concat();
    (0..6).for_each(|n: u8| bytes.extend(f32::from(n).to_le_bytes()));
    sandbox.write(name, bytes);
}

#[test]
fn shapes_that_a_model_states_wrongly_are_corrected() {
    let Some(desk) = Desk::new() else { return };
    let packed = desk.pack("stale.onnx", &[]).expect_code(0);
    assert_snapshot!(warnings(&packed), @r#"
    output `twice`: the model declares shape ["batch", 2] and returns a tensor of float32, shape [10, 2] for batch = 5; the carton declares ["*", 2]
    output `wide`: the model declares shape ["batch", 3] and returns a tensor of float32, shape [5, 4] for batch = 5; the carton declares ["batch", "*"]
    output `deep`: the model declares shape [1, "length"] and returns a tensor of float32, shape [1, 5, 2]; the carton declares "*"
    "#);
    let corrected = json!({
        "inputs": { "x": ["batch", 2] },
        "outputs": { "twice": ["*", 2], "wide": ["batch", "*"], "deep": "*", "right": ["batch", 2] },
    });
    assert_eq!(desk.shapes(), corrected);
    assert!(last_line(&packed).ends_with(" and runs on zeros; no self-tests"), "{packed}");
    desk.check_returns("stale.onnx");
    // The same is found by a self-test that is recorded, and by one that the metadata has.
    let recorded = desk.pack("stale.onnx", &["--record-self-test", "x=[[1, 2], [3, 4]]"]).expect_code(0);
    assert_eq!(desk.shapes(), corrected);
    assert!(last_line(&recorded).starts_with("checked: loads in onnx "), "{recorded}");
    assert!(last_line(&recorded).ends_with("; 1 self-test passed"), "{recorded}");
    write_input(&desk.sandbox, "x.npy");
    desk.sandbox.write("m.toml", "[[self_test]]\ninputs = { x = 'x.npy' }\n");
    let tested = desk.pack("stale.onnx", &["--metadata", "m.toml"]).expect_code(0);
    assert_eq!(desk.shapes(), corrected);
    assert!(last_line(&tested).starts_with("loads in onnx "), "{tested}");
    assert!(last_line(&tested).ends_with("; 1 self-test ran without expected outputs"), "{tested}");
    assert!(warnings(&tested).contains("shape [6, 2] for batch = 3"), "{tested}");
    desk.run(["run", "m.carton", "--self-test"]).expect_code(0);
    // Nothing is run.
    let unchecked = desk.pack("stale.onnx", &["--no-check"]).expect_code(0);
    assert_eq!((warnings(&unchecked).as_str(), &desk.shapes()["outputs"]["wide"]), ("", &json!(["batch", 3])));
}

#[test]
fn zeros_of_several_sizes_are_tried() {
    let Some(desk) = Desk::new() else { return };
    let packed = desk.pack("one_long_row.onnx", &["--json"]).expect_code(0).json();
    assert_eq!(packed["check"]["zeros"], json!({ "ran": true }));
    assert_eq!(desk.shapes()["outputs"], json!({ "y": ["*"] }));
    desk.check_returns("one_long_row.onnx");
    let packed = desk.pack("no_zeros.onnx", &[]).expect_code(0);
    assert!(last_line(&packed).starts_with("loads in onnx "), "{packed}");
    assert!(last_line(&packed).contains("; does not run on zeros (the model failed in runner onnx"), "{packed}");
    let packed = desk.pack("no_zeros.onnx", &["--json"]).expect_code(0).json();
    assert_eq!((&packed["check"]["zeros"]["ran"], &packed["warnings"]), (&json!(false), &json!([])));
    desk.check_returns("no_zeros.onnx");
}

#[test]
fn names_of_unknown_sizes_are_no_symbols() {
    let Some(desk) = Desk::new() else { return };
    let packed = desk.pack("placeholders.onnx", &[]).expect_code(0);
    assert_eq!(warnings(&packed), "");
    let (four, three) = (json!(["*", 3, "*", "*"]), json!(["*", "*", "*"]));
    let expected = json!({ "inputs": { "a": four, "c": three }, "outputs": { "b": four, "d": three } });
    assert_eq!(desk.shapes(), expected);
    desk.check_returns("placeholders.onnx");
}

/// Metadata that declares the shapes of the outputs of `stale.onnx`.
fn declared(twice: &str, wide: &str, deep: &str) -> String {
    let spec = |side: &str, name: &str, shape: &str| {
        format!("[[{side}]]\nname = '{name}'\ndtype = 'float32'\nshape = {shape}\n")
    };
    let outputs = [("twice", twice), ("wide", wide), ("deep", deep)].map(|(name, shape)| spec("output", name, shape));
    spec("input", "x", "['batch', 2]") + &outputs.concat()
}

#[test]
fn what_the_metadata_declares_is_not_rewritten() {
    let Some(desk) = Desk::new() else { return };
    let pack = |twice: &str, wide: &str, deep: &str| {
        desk.sandbox.write("m.toml", declared(twice, wide, deep));
        desk.pack("stale.onnx", &["--metadata", "m.toml"])
    };
    // The metadata is right, and the model wrong: it states two dimensions of `deep`, and a size of 3.
    let right = pack("['*', 2]", "['batch', 4]", "[1, 'batch', 2]").expect_code(0);
    assert_eq!(warnings(&right), "");
    let outputs = json!({ "twice": ["*", 2], "wide": ["batch", 4], "deep": [1, "batch", 2] });
    assert_eq!(desk.shapes()["outputs"], outputs);
    // Both are wrong in the same way. The metadata could be right for other sizes.
    let wrong = pack("['*', 2]", "['batch', 3]", "'*'").expect_code(0);
    assert_snapshot!(warnings(&wrong), @"for an input of zeros, the model returns something else than the carton declares: output `wide`, dimension 1: expected 3, found 4");
    assert_eq!(desk.shapes()["outputs"]["wide"], json!(["batch", 3]));
    let refused = desk.run(["run", "m.carton", "-i", "x=[[1, 2]]"]).expect_code(1);
    assert!(refused.stderr.contains("`--signature-mode warn` runs the model anyway"), "{refused}");
    desk.run(["run", "m.carton", "-i", "x=[[1, 2]]", "--signature-mode", "warn"]).expect_code(0);
    // The model states something else, and the run shows that the metadata is wrong; or nothing shows that it is right.
    fs::remove_file(desk.sandbox.work().join("m.carton")).unwrap();
    let refused = pack("['*', 2]", "['batch', 5]", "'*'").expect_code(3);
    assert!(refused.stderr.contains("output `wide`, dimension 1: declared 5, the model has 3"), "{refused}");
    let inputs = "[[input]]\nname = 'x'\ndtype = 'float32'\nshape = [2]\n";
    desk.sandbox.write("m.toml", format!("{inputs}[[output]]\nname = 'y'\ndtype = 'float32'\nshape = ['a']\n"));
    let refused = desk.pack("no_zeros.onnx", &["--metadata", "m.toml"]).expect_code(3);
    assert!(refused.stderr.contains("output `y`: declared [\"a\"], the model has [\"a\", \"b\"]"), "{refused}");
    // A self-test that contradicts the metadata fails.
    write_input(&desk.sandbox, "x.npy");
    let tested = declared("['*', 2]", "['batch', 3]", "'*'") + "[[self_test]]\ninputs = { x = 'x.npy' }\n";
    desk.sandbox.write("m.toml", tested);
    let failed = desk.pack("stale.onnx", &["--metadata", "m.toml"]).expect_code(3);
    assert!(failed.stderr.contains("output `wide`, dimension 1: expected 3, found 4"), "{failed}");
    assert!(!desk.sandbox.work().join("m.carton").exists());
}

#[test]
fn models_of_sequences_are_packed() {
    let sandbox = Sandbox::new();
    sandbox.run(["pack", &model("only_sequence.onnx"), "-o", "m.carton"]).expect_code(0);
    let info = sandbox.carton("info m.carton --json").expect_code(0).json();
    let declared: Vec<_> = info["outputs"].as_array().unwrap().iter().map(|spec| spec["name"].clone()).collect();
    assert!(declared.contains(&json!("parts")), "{info}");
    // ONNX has complex numbers, and ONNX Runtime has none.
    let refused = sandbox.run(["pack", &model("of_sequence.onnx"), "-o", "n.carton"]).expect_code(6);
    assert!(refused.stderr.contains("input `z` is complex64, which ONNX Runtime does not have"), "{refused}");
    assert!(!sandbox.work().join("n.carton").exists());
}

/// Two inputs and an output of a model that returns its inputs.
const SIGNATURE: &str = "[[input]]\nname = 'image'\ndtype = 'float32'\nshape = '*'\n\
                         [[input]]\nname = 'threshold'\ndtype = 'float32'\nshape = []\n\
                         [[output]]\nname = 'image'\ndtype = 'float32'\nshape = '*'\n\
                         [[output]]\nname = 'threshold'\ndtype = 'float32'\nshape = []\n";

#[test]
fn inputs_that_became_optional_are_named() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    sandbox.write("pic.png", "a picture");
    write_input(&sandbox, "x.npy");
    let pack = |metadata: &str| {
        sandbox.write("m.toml", format!("{SIGNATURE}{metadata}"));
        sandbox.carton("pack model.bin --runner noop --metadata m.toml --no-check").expect_code(0)
    };
    let optional = || {
        let info = sandbox.carton("info model.carton --json").expect_code(0).json();
        let inputs = info["inputs"].as_array().unwrap().iter();
        inputs.map(|input| input["optional"] == json!(true)).collect::<Vec<_>>()
    };
    // An example that shows a picture makes no input optional.
    let packed = pack("[[example]]\ninputs = { image = 'pic.png' }\nsample_out = { image = 'x.npy' }\n");
    assert_eq!((warnings(&packed).as_str(), optional()), ("", vec![false, false]));
    let refused = sandbox.carton("run model.carton -i image=[1]").expect_code(1);
    assert!(refused.stderr.contains("input `threshold`: expected a tensor of float32"), "{refused}");
    let packed = pack("[[example]]\nname = 'call'\ninputs = { image = 'x.npy' }\nsample_out = { image = 'x.npy' }\n");
    assert_snapshot!(warnings(&packed), @"input `threshold` is optional, because example `call` leaves it out: state it by `optional = true` or `optional = false` in its [[input]]");
    assert_eq!(optional(), [false, true]);
    // What is stated is not warned of.
    let stated = SIGNATURE.replacen("name = 'threshold'\n", "name = 'threshold'\noptional = true\n", 1);
    sandbox.write("m.toml", format!("{stated}[[self_test]]\ninputs = {{ image = 'x.npy' }}\n"));
    let packed = sandbox.carton("pack model.bin --runner noop --metadata m.toml --no-check").expect_code(0);
    assert_eq!((warnings(&packed).as_str(), optional()), ("", vec![false, true]));
}

#[test]
fn mistakes_are_warnings_and_errors_if_packing_is_strict() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    sandbox.write("pic.png", "a picture");
    sandbox.write(
        "m.toml",
        "required_platforms = ['x86_64-linux-gnu', 'pdp-11']\nmodel_description = '![a](@misc/pic.png) ![b](@misc/gone.png)'\n",
    );
    let pack = "pack model.bin --runner noop --metadata m.toml --misc pic.png --no-check";
    let packed = sandbox.carton(pack).expect_code(0);
    assert_snapshot!(warnings(&packed), @"
    `required_platforms`: `x86_64-linux-gnu` is no known target triple; did you mean `[PLATFORM]`?
    `required_platforms`: `pdp-11` is no known target triple; one is `[PLATFORM]`, this machine's
    `model_description` refers to `@misc/gone.png`, which is not in the carton
    ");
    // No machine is one of these, and none can check the model.
    let json = sandbox.carton(&format!("{} --json", pack.replace(" --no-check", ""))).expect_code(0).json();
    assert_eq!(json["warnings"].as_array().unwrap().len(), 3, "{json}");
    fs::remove_file(sandbox.work().join("model.carton")).unwrap();
    assert_snapshot!(sandbox.carton(&format!("{pack} --strict")), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: the metadata has mistakes:
      `required_platforms`: `x86_64-linux-gnu` is no known target triple; did you mean `[PLATFORM]`?
      `required_platforms`: `pdp-11` is no known target triple; one is `[PLATFORM]`, this machine's
    ");
    sandbox.write("m.toml", "model_description = '![b](@misc/gone.png)'\n");
    let refused = sandbox.carton(&format!("{pack} --strict")).expect_code(1);
    assert!(refused.stderr.contains("`@misc/gone.png`"), "{refused}");
    assert!(!sandbox.work().join("model.carton").exists());
    sandbox.write("m.toml", "model_description = '![a](@misc/pic.png)'\n");
    sandbox.carton(&format!("{pack} --strict")).expect_code(0);
}

#[test]
fn a_default_is_what_the_model_gets_and_must_fit() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    let pack = |threshold: &Tensor| {
        let mut file = Vec::new();
        npy::write(&mut file, threshold).unwrap();
        sandbox.write("t.npy", file);
        let metadata = SIGNATURE.replacen("shape = []\n", "shape = []\ndefault = 't.npy'\n", 1);
        sandbox.write("m.toml", metadata);
        sandbox.carton("pack model.bin --runner noop --metadata m.toml --no-check")
    };
    pack(&Tensor::scalar(0.25_f32)).expect_code(0);
    let run = sandbox.carton("run model.carton -i image=[1] --json").expect_code(0).json();
    assert_eq!(run["outputs"]["threshold"]["data"], json!(0.25));
    let run = sandbox.carton("run model.carton -i image=[1] -i threshold=3 --json").expect_code(0).json();
    assert_eq!(run["outputs"]["threshold"]["data"], json!(3.0));
    for other in [Tensor::scalar(0.25_f64), Tensor::from_vec(vec![1.0_f32], vec![1]).unwrap()] {
        let refused = pack(&other).expect_code(1);
        assert!(refused.stderr.contains("input `threshold`"), "{refused}");
    }
}
