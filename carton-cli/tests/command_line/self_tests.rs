//! `carton run --self-test`, and self-tests that `carton pack` records.

use carton_tensor::{Tensor, npy};
use insta::assert_snapshot;

use crate::running::{ECHO, pack_digits, pack_noop};
use crate::sandbox::{Sandbox, digits};

#[test]
fn self_tests_that_pass() {
    let sandbox = Sandbox::new();
    pack_digits(&sandbox);
    assert_snapshot!(sandbox.carton("run digits.carton --self-test"), @"
    exit code: 0
    ----- stdout -----
    passed  one digit  [TIME]  largest difference [DIFFERENCE] in probabilities
    passed  sixteen digits  [TIME]  largest difference [DIFFERENCE] in probabilities
    2 self-tests passed
    ----- stderr -----
    ");
    let report = sandbox.carton("run digits.carton --self-test --json").expect_code(0).json();
    assert_eq!(report["passed"], true);
    assert_eq!(report["self_tests"][1]["name"], "sixteen digits");
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(keys(&report), "counts passed self_tests");
    assert_eq!(report["counts"].to_string(), r#"{"failed":0,"passed":2,"ran":0}"#);
    assert_eq!(keys(&report["self_tests"][0]), "name outcome outputs seconds");
    let output = &report["self_tests"][0]["outputs"][0];
    assert_eq!(keys(output), "detail max_abs_diff max_rel_diff name passed");
}

#[test]
fn self_tests_that_fail() {
    let sandbox = Sandbox::new();
    let file = |name: &str, tensor: &Tensor| {
        npy::write(std::fs::File::create(sandbox.work().join(name)).unwrap(), tensor).unwrap();
    };
    file("x.npy", &Tensor::from_vec(vec![1.0_f32, 2.0], vec![1, 2]).unwrap());
    file("y.npy", &Tensor::from_vec(vec![1.0_f32, 2.5], vec![1, 2]).unwrap());
    file("count.npy", &Tensor::scalar(3_u8));
    file("wide.npy", &Tensor::scalar(3_i64));
    let tests = r#"
[[self_test]]
name = "differs"
inputs = { x = "x.npy", count = "count.npy" }
expected_out = { x = "y.npy", count = "count.npy" }
[[self_test]]
name = "contradicts the signature"
inputs = { x = "x.npy", count = "wide.npy" }
expected_out = { x = "x.npy" }
[[self_test]]
inputs = { x = "x.npy", count = "count.npy" }
"#;
    pack_noop(&sandbox, &format!("{ECHO}{tests}"));
    assert_snapshot!(sandbox.carton("run echo.carton --self-test"), @"
    exit code: 3
    ----- stdout -----
    FAILED  differs  [TIME]  largest difference [DIFFERENCE] in x
            output `x`: element [0, 1]: expected 2.5, found 2.0 (differs by 5e-1, allowed 2.501e-5); 1 of 2 elements differ
    FAILED  contradicts the signature  [TIME]  the call failed
            tensors do not match the model's signature
              input `count`: expected uint8, found int64
    ran     self_test_2  [TIME]  no outputs are expected: nothing was compared
    2 self-tests failed, 1 ran
    ----- stderr -----
    ");
    let report = sandbox.carton("run echo.carton --self-test --json").expect_code(3).json();
    assert_snapshot!(report["self_tests"][0]["outputs"][1], @r#"{"detail":"element [0, 1]: expected 2.5, found 2.0 (differs by 5e-1, allowed 2.501e-5); 1 of 2 elements differ","max_abs_diff":0.5,"max_rel_diff":0.2,"name":"x","passed":false}"#);
    assert_snapshot!(report["self_tests"][1]["error"], @r#""tensors do not match the model's signature\n  input `count`: expected uint8, found int64""#);
    // A difference of 0.5 is within this tolerance.
    let lenient = sandbox.carton("run echo.carton --self-test --rtol 0 --atol 0.5 --signature-mode off --json").json();
    assert_eq!(lenient["self_tests"][0]["outcome"], "passed");
}

#[test]
fn a_self_test_that_expects_nothing_cannot_pass() {
    let sandbox = Sandbox::new();
    let count = std::fs::File::create(sandbox.work().join("count.npy")).unwrap();
    npy::write(count, &Tensor::scalar(3_u8)).unwrap();
    let signature = "[[input]]\nname = \"count\"\ndtype = \"uint8\"\nshape = []\n\
                     [[output]]\nname = \"count\"\ndtype = \"uint8\"\nshape = []\n";
    let silent = format!("{signature}[[self_test]]\ninputs = {{ count = \"count.npy\" }}\n");
    let empty = "[[self_test]]\nname = \"empty\"\ninputs = { count = \"count.npy\" }\nexpected_out = {}\n";
    pack_noop(&sandbox, &format!("{silent}{empty}"));
    assert_snapshot!(sandbox.carton("run echo.carton --self-test"), @"
    exit code: 0
    ----- stdout -----
    ran     self_test_0  [TIME]  no outputs are expected: nothing was compared
    ran     empty  [TIME]  no outputs are expected: nothing was compared
    2 self-tests ran
    ----- stderr -----
    ");
    let report = sandbox.carton("run echo.carton --self-test --json").expect_code(0).json();
    assert_eq!(report["counts"].to_string(), r#"{"failed":0,"passed":0,"ran":2}"#);
    assert_eq!(
        (&report["self_tests"][0]["outcome"], &report["self_tests"][1]["outcome"]),
        (&"ran".into(), &"ran".into())
    );
    let expecting = "[[self_test]]\ninputs = { count = \"count.npy\" }\nexpected_out = { count = \"count.npy\" }\n";
    pack_noop(&sandbox, &format!("{silent}{expecting}"));
    let outcome = sandbox.carton("run echo.carton --self-test").expect_code(0);
    assert!(outcome.stdout.ends_with("1 self-test passed, 1 ran\n"), "{outcome}");
}

#[test]
fn a_self_test_is_recorded() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    sandbox.write("metadata.toml", ECHO);
    let pack = "pack model.bin --runner noop --metadata metadata.toml --record-self-test x=[[1,2]] \
                --record-self-test count=3";
    sandbox.carton(&pack.split_whitespace().collect::<Vec<_>>().join(" ")).expect_code(0);
    assert_snapshot!(sandbox.carton("run model.carton --self-test"), @"
    exit code: 0
    ----- stdout -----
    passed  self_test_0  [TIME]  largest difference [DIFFERENCE] in x
    1 self-test passed
    ----- stderr -----
    ");
    let image = format!("image={}", digits("image.npy"));
    let model = digits("model.onnx");
    let arguments = ["pack", &model, "--runner", "onnx", "--record-self-test", &image, "-o", "digits.carton"];
    sandbox.run(arguments).expect_code(0);
    assert_eq!(sandbox.carton("run digits.carton --self-test --json --rtol 0").expect_code(0).json()["passed"], true);
}

#[test]
fn a_carton_without_self_tests() {
    let sandbox = Sandbox::new();
    pack_noop(&sandbox, "");
    assert_snapshot!(sandbox.carton("run echo.carton --self-test"), @"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: there are no self-tests

    hint: `carton pack` takes them from --metadata, and records them with --record-self-test
    ");
    sandbox.carton("run model.bin --runner noop --self-test").expect_code(1);
    assert_snapshot!(sandbox.carton("run echo.carton --self-test --json"), @r#"
    exit code: 1
    ----- stdout -----
    {
      "error": {
        "kind": "failure",
        "message": "there are no self-tests",
        "causes": [],
        "hint": "`carton pack` takes them from --metadata, and records them with --record-self-test"
      }
    }
    ----- stderr -----
    "#);
}
