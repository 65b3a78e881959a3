//! `carton tensor merge`.

use carton_tensor::files::{ElementType, RawTensor};

use super::{floats, read, tensor, write_safetensors};
use crate::sandbox::Sandbox;

fn numbers(sandbox: &Sandbox, place: &str) -> String {
    sandbox.carton(&format!("tensor cat {place} --json")).expect_code(0).json()["tensor"]["data"].to_string()
}

fn models(sandbox: &Sandbox) {
    let ids = || tensor(ElementType::Int64, &[1], 7_i64.to_le_bytes());
    let model = |numbers: [f32; 2]| -> Vec<(&str, RawTensor)> { vec![("w", floats(&numbers, &[2])), ("ids", ids())] };
    write_safetensors(sandbox, "base.safetensors", &model([1.0, 1.0]));
    write_safetensors(sandbox, "a.safetensors", &model([2.0, 4.0]));
    write_safetensors(sandbox, "b.safetensors", &model([4.0, 0.0]));
}

#[test]
fn models_become_one() {
    let sandbox = Sandbox::new();
    models(&sandbox);
    let check = |arguments: &str, expected: &str| {
        let outcome = sandbox.carton(&format!("tensor merge {arguments}")).expect_code(0);
        assert!(outcome.stdout.starts_with("wrote "), "{outcome}");
        assert_eq!(numbers(&sandbox, "out.safetensors#w"), expected, "{arguments}");
        assert_eq!(numbers(&sandbox, "out.safetensors#ids"), "[7]");
    };
    check("a.safetensors b.safetensors out.safetensors", "[3.0,2.0]");
    check("a.safetensors b.safetensors out.safetensors --weights 3,1", "[2.5,3.0]");
    check("a.safetensors b.safetensors out.safetensors --weights 3,-1 --normalize false", "[2.0,12.0]");
    check("a.safetensors b.safetensors out.safetensors --method slerp --t 0", "[2.0,4.0]");
    check("a.safetensors b.safetensors out.safetensors --method task-arithmetic --base base.safetensors", "[5.0,3.0]");
    check("a.safetensors a.safetensors out.safetensors --dtype bf16", "[2.0,4.0]");
    let bytes = read(&sandbox, "out.safetensors");
    assert!(String::from_utf8_lossy(&bytes).contains("BF16"));
}

#[test]
fn wrong_usage_and_models_that_do_not_fit_are_told_apart() {
    let sandbox = Sandbox::new();
    models(&sandbox);
    write_safetensors(&sandbox, "other.safetensors", &[("w", floats(&[1.0, 2.0], &[2]))]);
    let check = |arguments: &str, code: i32, expected: &str| {
        let outcome = sandbox.carton(&format!("tensor merge {arguments}")).expect_code(code);
        assert!(outcome.stderr.contains(expected), "{outcome}");
        assert!(!sandbox.work().join("out.zt").exists());
    };
    check("a.safetensors b.safetensors out.zt --method slerp", 2, "--method slerp needs --t");
    check("a.safetensors b.safetensors out.zt --t 0.5", 2, "--t is no option of --method linear");
    check("a.safetensors b.safetensors out.zt --weights 1", 2, "2 weights are needed");
    check("a.safetensors b.safetensors out.zt --lora adapter", 2, "merged into one model, and 2 were given");
    check("a.safetensors b.safetensors out.zt --lora adapter --method linear", 2, "cannot be used with");
    check("a.safetensors other.safetensors out.zt", 1, "does not have `ids`");
    check("a.safetensors out.zt --lora adapter", 1, "adapter_config.json");
    check("out.zt", 2, "");
    // A forgotten output does not overwrite a model.
    check("a.safetensors b.safetensors", 2, "linear takes two or more models, and 1 were given");
}

#[test]
fn an_adapter_is_merged_into_its_model() {
    let sandbox = Sandbox::new();
    models(&sandbox);
    write_safetensors(
        &sandbox,
        "model.safetensors",
        &[("lin.weight", floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]))],
    );
    let adapter = |a: RawTensor, b: RawTensor, name: &str| {
        write_safetensors(
            &sandbox,
            "adapter/adapter_model.safetensors",
            &[
                (format!("base_model.model.{name}.lora_A.weight").as_str(), a),
                (format!("base_model.model.{name}.lora_B.weight").as_str(), b),
            ],
        );
    };
    sandbox.write("adapter/adapter_config.json", r#"{"peft_type": "LORA", "r": 1, "lora_alpha": 2}"#);
    let (a, b) = (floats(&[1.0, 0.0, -1.0], &[1, 3]), floats(&[1.0, 10.0], &[2, 1]));
    adapter(a.clone(), b.clone(), "lin");
    let merged =
        |more: &str| sandbox.carton(&format!("tensor merge model.safetensors out.safetensors --lora adapter{more}"));
    merged("").expect_code(0);
    assert_eq!(numbers(&sandbox, "out.safetensors#lin.weight"), "[[3.0,2.0,1.0],[24.0,5.0,-14.0]]");
    merged(" --lora-scale 0.5").expect_code(0);
    assert_eq!(numbers(&sandbox, "out.safetensors#lin.weight"), "[[2.0,2.0,2.0],[14.0,5.0,-4.0]]");
    let refused = |expected: &str| {
        let outcome = merged("").expect_code(1);
        assert!(outcome.stderr.contains(expected), "{outcome}");
    };
    adapter(a.clone(), b.clone(), "other");
    refused("changes `other.weight`, which `model.safetensors` does not have");
    adapter(a.clone(), floats(&[1.0; 3], &[3, 1]), "lin");
    refused("does not fit `lin.weight`, [2, 3]");
    adapter(floats(&[1.0; 6], &[2, 3]), floats(&[1.0; 4], &[2, 2]), "lin");
    refused("its rank is 2, and adapter_config.json says 1");
    sandbox.write("adapter/adapter_config.json", r#"{"peft_type": "LORA", "r": 1, "lora_alpha": 2, "use_dora": true}"#);
    refused("`use_dora` is set");
}
