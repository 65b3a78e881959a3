//! The runner behind the protocol, in this process: models made by Python's torch, with the outputs that Python computed.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod support;

use std::path::Path;
use std::sync::Arc;

use carton_runner_interface::Tensors;
use carton_runner_interface::host::{CallOptions, Files, LoadRequest};
use carton_runner_interface::runner::{PackRequest, PackResponse};
use carton_runner_torchscript::LIBTORCH_VERSION;
use carton_runner_torchscript::libtorch::process;
use carton_tensor::{BoolByte, Complex, DataType, NumericTensor, Tensor, Tolerance, allclose, cast};
use serde_json::json;

use support::{Served, cases, floats, message, models, one_file, request, specs, tensors};

#[tokio::test(flavor = "multi_thread")]
async fn what_python_computed() {
    // Later releases read the models of earlier ones, and compute the same.
    let made_by: &[&str] = if LIBTORCH_VERSION.starts_with("1.13") { &["1.13"] } else { &["1.13", "2.13"] };
    for &series in made_by {
        let mut n_cases = 0;
        let mut served: Option<(String, Served)> = None;
        for case in cases(series) {
            let name = case["model"].as_str().unwrap().to_owned();
            // Models with a memory are called several times.
            if served.as_ref().is_none_or(|(loaded, _)| *loaded != name) {
                let fresh = Served::new().await;
                let path = models(series).join(format!("{name}.pt"));
                let files = if n_cases % 2 == 0 { one_file(&path) } else { Files::Directory(models(series)) };
                let options = json!({"num_threads": 1, "model": format!("{name}.pt")});
                fresh.load(request(files, options)).await.unwrap();
                served = Some((name.clone(), fresh));
            }
            let connection = &served.as_ref().unwrap().1.connection;
            let inputs = tensors(&case["inputs"]);
            let answer = connection.infer(inputs.clone(), CallOptions::default()).await;
            assert_eq!(inputs, tensors(&case["inputs"]), "{name} changed its inputs");
            match case.get("error") {
                Some(expected) => {
                    let error = message(&answer.unwrap_err());
                    // Later releases put the operator before the message of some errors.
                    let (kind, text) = expected.as_str().unwrap().split_once(':').unwrap();
                    let is_same = error.contains(&format!("{kind}: ")) && error.contains(text.trim());
                    assert!(is_same, "{name}: {error}\n\n{expected}");
                }
                None => {
                    let outputs = answer.unwrap_or_else(|error| panic!("{name}: {}", message(&error)));
                    let expected = tensors(&case["outputs"]);
                    assert_eq!(outputs.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{name}");
                    for (output, expected) in outputs.values().zip(expected.values()) {
                        let comparison = allclose(output, expected, Tolerance::default());
                        assert!(comparison.passed, "{name}: {comparison:?}");
                    }
                }
            }
            n_cases += 1;
        }
        assert!(n_cases > 20, "{series}");
    }
}

/// Returns what a model with this forward makes of `x`.
async fn computed(arguments: &str, body: &str, x: Tensor) -> Tensors {
    let served = Served::new().await;
    let loaded = served.load(request(support::written(arguments, body), json!({}))).await;
    loaded.unwrap_or_else(|error| panic!("{body}: {}", message(&error)));
    served.infer([("x", x)]).await.unwrap_or_else(|error| panic!("{body}: {}", message(&error)))
}

#[tokio::test(flavor = "multi_thread")]
async fn booleans_of_any_bytes() {
    // A file is the one source of booleans whose bytes an operator does not write.
    let path = std::env::current_exe().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes[..4].iter().all(|&byte| byte > 1), "a program begins with letters");
    for length in [4, 1 << 20] {
        let body = format!("    return torch.from_file({path:?}, False, {length}, dtype=11)");
        let outputs = computed("x: Tensor) -> Tensor", &body, Tensor::scalar(0_u8)).await;
        let flags = outputs["output"].view::<BoolByte>().unwrap();
        let expected: Vec<u8> = bytes[..length].iter().map(|&byte| u8::from(byte != 0)).collect();
        assert_eq!(flags.iter().map(|flag| flag.0).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn floats_of_eight_bits() {
    if LIBTORCH_VERSION.starts_with("1.13") {
        println!("skipped: libtorch 1.13 has no floats of 8 bits");
        return;
    }
    let floats = Tensor::from_vec(vec![0.0_f32, 0.5, -1.5, 2.0, 0.0625, -224.0, f32::NAN], vec![7]).unwrap();
    // Each with its number in PyTorch's enumeration of types.
    let types = [
        (DataType::Float8E5m2, 23),
        (DataType::Float8E4m3Fn, 24),
        (DataType::Float8E5m2Fnuz, 25),
        (DataType::Float8E4m3Fnuz, 26),
    ];
    for (dtype, number) in types {
        let cast_to_it = cast(&floats, dtype).unwrap();
        let run =
            async |body: &str, x: &Tensor| computed("x: Tensor) -> Tensor", body, x.clone()).await["output"].clone();
        let same = |found: Tensor, expected: &Tensor| {
            assert_eq!(found.dtype(), expected.dtype());
            let comparison = allclose(&found, expected, Tolerance::new(0.0, 0.0).equal_nan(true));
            assert!(comparison.passed, "{dtype}: {comparison:?}");
        };
        same(run("    return x", &cast_to_it).await, &cast_to_it);
        same(run("    return torch.to(x, 6)", &cast_to_it).await, &floats);
        same(run(&format!("    return torch.to(x, {number})"), &floats).await, &cast_to_it);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_lists_of_numbers() {
    let table = || Tensor::from_vec(vec![1_i64, 2, 3, 4], vec![2, 2]).unwrap();
    let row = |numbers: &[i64]| Tensor::from_vec(numbers.to_vec(), vec![numbers.len()]).unwrap();
    let ragged = || Tensor::nested(vec![row(&[1, 2]), row(&[])]).unwrap();
    for list in [table(), ragged()] {
        let outputs = computed("x: List[List[int]]) -> List[List[int]]", "    return x", list.clone()).await;
        assert_eq!(outputs["output"], list);
    }
    let texts = Tensor::from_strings(["a", "b", "c", "d"], vec![2, 2]).unwrap();
    let outputs = computed("x: List[List[str]]) -> List[List[str]]", "    return x", texts.clone()).await;
    assert_eq!(outputs["output"], texts);
    // The elements of a list of anything decide.
    let body = |list: &str| format!("    a = annotate(List[Any], {list})\n    return a");
    let any = async |list: &str| computed("x: Tensor) -> List[Any]", &body(list), row(&[])).await["output"].clone();
    assert_eq!(any("[[1, 2], [3, 4]]").await, table());
    let numbers = [Complex::new(1.0, 2.0), Complex::new(3.0, -4.0)].to_vec();
    assert_eq!(
        any("[torch.Complex(1., 2.), torch.Complex(3., -4.)]").await,
        Tensor::from_vec(numbers, vec![2]).unwrap()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_written_as_python_writes_them() {
    // As repr() of Python.
    let keys = [
        ("10.", "10.0"),
        ("0.1", "0.1"),
        ("123.456", "123.456"),
        ("1e15", "1000000000000000.0"),
        ("1e16", "1e+16"),
        ("1.5e-05", "1.5e-05"),
        ("0.00015", "0.00015"),
        ("5e-324", "5e-324"),
        ("-2.5", "-2.5"),
        ("1.7976931348623157e+308", "1.7976931348623157e+308"),
        ("9007199254740993.", "9007199254740992.0"),
    ];
    let entries: Vec<String> = keys.iter().map(|(key, _)| format!("{key}: x")).collect();
    let body = format!("    return {{{}}}", entries.join(", "));
    let outputs = computed("x: Tensor) -> Dict[float, Tensor]", &body, Tensor::scalar(1_i64)).await;
    let mut expected: Vec<&str> = keys.iter().map(|(_, written)| *written).collect();
    expected.sort_unstable();
    assert_eq!(outputs.keys().collect::<Vec<_>>(), expected);
    // Keys come in as texts.
    let served = Served::new().await;
    let body = "    return torch.add(d[5e-324], d[10.])";
    served.load(request(support::written("d: Dict[float, Tensor]) -> Tensor", body), json!({}))).await.unwrap();
    let outputs = served.infer([("d.5e-324", Tensor::scalar(1_i64)), ("d.10.0", Tensor::scalar(2_i64))]).await;
    assert_eq!(outputs.unwrap_or_else(|error| panic!("{}", message(&error)))["output"], Tensor::scalar(3_i64));
}

#[tokio::test(flavor = "multi_thread")]
async fn masks_are_booleans() {
    let mask = |flags: &[bool]| {
        let flags: Vec<BoolByte> = flags.iter().copied().map(BoolByte::from).collect();
        Tensor::from_vec(flags.clone(), vec![flags.len()]).unwrap()
    };
    let served = Served::with("masks").await;
    let x = floats(vec![1.0, 2.0, 3.0], vec![3]);
    let outputs = served.infer([("x", x.clone()), ("mask", mask(&[true, false, true]))]).await.unwrap();
    assert_eq!(outputs["picked"], floats(vec![2.0], vec![1]));
    assert_eq!(outputs["mask"], mask(&[false, true, false]));
    // Booleans above the size from which tensors are in memory that the runner maps.
    let large = mask(&vec![true; 1 << 20]);
    let outputs = served.infer([("x", floats(vec![0.0; 1 << 20], vec![1 << 20])), ("mask", large)]).await.unwrap();
    assert_eq!(outputs["n"], Tensor::scalar(0_i64));
    // Bytes are numbers, also if they are 0 and 1.
    let bytes = Tensor::from_vec(vec![1_u8, 0, 1], vec![3]).unwrap();
    let outputs = served.infer([("x", x), ("mask", bytes)]).await;
    assert!(outputs.is_err() || outputs.unwrap()["mask"] != mask(&[false, true, false]));
}

/// Names of parts are those of the specification, whether a carton declares them or not.
#[tokio::test(flavor = "multi_thread")]
async fn parts_of_values_are_declared_by_name_or_in_order() {
    let x = floats((0..8).map(|index| index as f32).collect(), vec![2, 1, 4]);
    let state = floats(vec![0.5, -0.5, 0.25], vec![1, 1, 3]);
    let undeclared = Served::with("state").await;
    let expected =
        undeclared.infer([("x", x.clone()), ("state.0", state.clone()), ("state.1", state.clone())]).await.unwrap();
    let error = undeclared.infer([("x", x.clone()), ("state.0", state.clone())]).await.unwrap_err();
    assert!(message(&error).contains("input `state.1` is missing"), "{}", message(&error));
    let error = undeclared.infer([("x", x.clone()), ("state.2", state.clone())]).await.unwrap_err();
    let takes = "the model has no input `state.2`; it takes `x`, `state.0`, `state.1`";
    assert!(message(&error).contains(takes), "{}", message(&error));
    for (inputs, outputs) in [
        (["x", "h", "c"], ["y", "new_h", "new_c"]),
        (["x", "h=state.0", "c=state.1"], ["y=output_0", "new_h=output_1.0", "new_c=output_1.1"]),
    ] {
        let served = Served::new().await;
        let files = one_file(&models("1.13").join("state.pt"));
        let declared = LoadRequest { inputs: specs(&inputs), outputs: specs(&outputs), ..request(files, json!({})) };
        served.load(declared).await.unwrap();
        let found = served.infer([("x", x.clone()), ("h", state.clone()), ("c", state.clone())]).await.unwrap();
        assert_eq!(found["y"], expected["output_0"]);
        assert_eq!(found["new_c"], expected["output_1.1"]);
    }

    // Images of which there are none have no boxes.
    let served = Served::new().await;
    let files = one_file(&models("1.13").join("detect.pt"));
    let outputs = specs(&["output_1[].boxes", "output_1[].labels"]);
    served.load(LoadRequest { outputs, ..request(files, json!({})) }).await.unwrap();
    let none = Tensor::nested(vec![]).unwrap();
    let outputs = served.infer([("images", none.clone())]).await.unwrap();
    assert_eq!((&outputs["output_1[].boxes"], &outputs["output_1[].labels"]), (&none, &none));
}

#[tokio::test(flavor = "multi_thread")]
async fn libraries_that_are_missing_are_named() {
    let load = async |libraries: serde_json::Value| {
        let served = Served::new().await;
        let files = one_file(&models("1.13").join("mlp.pt"));
        message(&served.load(request(files, json!({"libraries": libraries}))).await.unwrap_err())
    };
    let text = load(json!(["no_such_package"])).await;
    assert!(
        text.contains("the library `no_such_package` of option `libraries` is neither a file of the model"),
        "{text}"
    );
    let text = load(json!(["mlp.pt"])).await;
    assert!(text.contains("the library `mlp.pt` cannot be loaded"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_are_copied_only_where_the_model_may_write_to_them() {
    const NOTE: &str = "the model may write to its inputs";
    for (name, expected) in [
        ("mlp", false),
        ("conv", false),
        ("conv_scripted", false),
        ("words", false),
        ("raises", false),
        ("echo", false),
        ("state", false),
        ("detect", false),
        ("history", false),
        ("named", false),
        ("parts", false),
        ("lists", false),
        ("total", false),
        ("writes_input", true),
        ("keeps_input", true),
        ("forked", true),
    ] {
        assert_eq!(Served::with(name).await.logged(NOTE), expected, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn models_that_change_themselves_run_one_call_at_a_time() {
    for (name, expected) in [
        ("mlp", false),
        ("conv", false),
        // In training mode the model would count batches and update statistics, but it was saved for evaluation.
        ("conv_scripted", false),
        ("echo", false),
        ("keeps_input", true),
        ("history", true),
        ("forked", true),
    ] {
        let served = Served::with_options(name, json!({"max_concurrency": 4})).await;
        assert_eq!(served.logged("option `max_concurrency` is ignored"), expected, "{name}");
    }
}

/// Large enough to be in memory that the runner maps read-only: a write without a copy would end this process.
#[tokio::test(flavor = "multi_thread")]
async fn models_that_write_to_large_inputs() {
    let x = floats((0..100_000).map(|index| index as f32).collect(), vec![1000, 100]);
    let served = Served::with("writes_input").await;
    let outputs = served.infer([("x", x.clone())]).await.unwrap();
    let y = outputs["y"].as_numeric().unwrap();
    assert!(y.as_slice::<f32>().unwrap().iter().enumerate().all(|(index, &value)| value == index as f32 + 1.0));
    assert_eq!(x.as_numeric().unwrap().as_slice::<f32>().unwrap()[99_999], 99_999.0);

    // The second call adds to the input of the first one.
    let served = Served::with("keeps_input").await;
    let shape_of_first = floats(vec![1.0, 2.0, 3.0, 4.0], vec![2, 2]);
    served.infer([("x", shape_of_first)]).await.unwrap();
    let large = floats(vec![1.0; 40_000], vec![10_000, 1, 2, 2]);
    let error = served.infer([("x", large)]).await.unwrap_err();
    assert!(message(&error).contains("doesn't match the broadcast shape"), "{}", message(&error));
}

/// Inputs that a model keeps do not change, although the host reuses the memory of its pool again and again.
#[tokio::test(flavor = "multi_thread")]
async fn models_that_keep_large_inputs() {
    let served = Served::with("history").await;
    let first = floats(vec![7.0; 50_000], vec![50_000]);
    for value in 0..20 {
        let x = if value == 0 { first.clone() } else { floats(vec![value as f32; 50_000], vec![50_000]) };
        let outputs = served.infer([("x", x)]).await.unwrap();
        assert_eq!(outputs["output"], first, "call {value}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gibibyte_in_and_out() {
    let served = Served::with("echo").await;
    let n_bytes = 1 << 30;
    let mut x = NumericTensor::zeroed(carton_tensor::DataType::Uint8, vec![n_bytes]).unwrap();
    x.as_mut_slice::<u8>().unwrap().unwrap().iter_mut().enumerate().for_each(|(index, byte)| *byte = index as u8);
    let outputs = served.infer([("x", x.clone().into())]).await.unwrap();
    assert!(outputs["x"].as_numeric().unwrap() == &x);
}

#[tokio::test(flavor = "multi_thread")]
async fn declared_names_are_bound_to_those_of_the_model() {
    let served = Served::new().await;
    let files = one_file(&models("1.13").join("named.pt"));
    let declared = LoadRequest {
        inputs: specs(&["text=label", "left=a", "right=b"]),
        outputs: specs(&["words=names"]),
        ..request(files, json!({}))
    };
    served.load(declared).await.unwrap();
    let text = Tensor::from_strings(["hello"], vec![]).unwrap();
    let inputs = [("text", text), ("left", floats(vec![1.0], vec![1])), ("right", floats(vec![2.0], vec![1]))];
    let outputs = served.infer(inputs).await.unwrap();
    assert_eq!(outputs, Tensors::from([("words".to_owned(), Tensor::from_strings(["hello", "1"], vec![2]).unwrap())]));

    let served = Served::new().await;
    let files = one_file(&models("1.13").join("parts.pt"));
    let outputs = ["left", "whole", "count", "many", "half"];
    let declared =
        LoadRequest { inputs: specs(&["matrix", "rows"]), outputs: specs(&outputs), ..request(files, json!({})) };
    served.load(declared).await.unwrap();
    let matrix = floats(vec![1.0, 2.0, 3.0, 4.0], vec![2, 2]);
    let found = served.infer([("matrix", matrix.clone()), ("rows", Tensor::scalar(1_i32))]).await.unwrap();
    assert_eq!(found["left"], floats(vec![1.0, 2.0], vec![2, 1]));
    assert_eq!(found["whole"], matrix);
    assert_eq!((&found["count"], &found["many"]), (&Tensor::scalar(1_i64), &Tensor::scalar(BoolByte(0))));
    assert_eq!(found["half"], Tensor::scalar(0.5_f64));
    let error = served.infer([("matrix", matrix)]).await.unwrap_err();
    assert!(message(&error).contains("input `rows` is missing; it takes `matrix`, `rows`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_tensors_are_nested_tensors_or_outputs_in_order() {
    let parts = Tensor::nested(vec![floats(vec![1.0], vec![1]), floats(vec![2.0], vec![1])]).unwrap();
    let doubled = [floats(vec![2.0], vec![1]), floats(vec![4.0], vec![1])];
    let outputs = Served::with("lists").await.infer([("parts", parts.clone())]).await.unwrap();
    assert_eq!(outputs["output"], Tensor::nested(doubled.to_vec()).unwrap());

    let served = Served::new().await;
    let files = one_file(&models("1.13").join("lists.pt"));
    let declared = LoadRequest { outputs: specs(&["first", "second"]), ..request(files, json!({})) };
    served.load(declared).await.unwrap();
    let outputs = served.infer([("parts", parts)]).await.unwrap();
    assert_eq!((&outputs["first"], &outputs["second"]), (&doubled[0], &doubled[1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_passed_is_refused_by_name() {
    let check = async |model: &str, input: Tensor, expected: &str| {
        let served = Served::with(model).await;
        let error = served.infer([("x", input)]).await.unwrap_err();
        assert!(message(&error).starts_with(expected) || message(&error).contains(expected), "{}", message(&error));
    };
    let table = Tensor::from_strings(["a", "b"], vec![2, 1]).unwrap();
    check("echo", table, "input `x`: expected numbers, strings of rank 0 or 1, or a nested tensor (forward takes Dict[str, Any]), found string of shape [2, 1]").await;
    let words = Tensor::from_strings(["a"], vec![1]).unwrap();
    check(
        "mlp",
        words.clone(),
        "input `x`: expected numbers (forward takes Dict[str, Tensor]), found string of shape [1]",
    )
    .await;
    check("raises", words, "input `x`: expected numbers (forward takes Tensor), found string of shape [1]").await;
    let nested = Tensor::nested(vec![Tensor::scalar(1_u8)]).unwrap();
    check("raises", nested, "found a nested tensor of uint8").await;
    check(
        "sparse",
        floats(vec![1.0, 2.0], vec![2]),
        "output `y` is a sparse tensor (the model can return its `to_dense()`)",
    )
    .await;
    let quantized = Served::with("sparse").await;
    let answer = quantized.infer([("x", floats(vec![1.0], vec![1])), ("quantize", Tensor::scalar(BoolByte(1)))]).await;
    let text = message(&answer.unwrap_err());
    assert!(text.contains("output `y` is a quantized tensor (the model can return its `dequantize()`"), "{text}");
    let wide = Tensor::from_vec(vec![1_u32, u32::MAX], vec![2]).unwrap();
    if LIBTORCH_VERSION.starts_with("1.13") {
        check("echo", wide, "input `x`: libtorch 1.13.1 has no tensors of uint32").await;
    } else {
        assert_eq!(Served::with("echo").await.infer([("x", wide.clone())]).await.unwrap()["x"], wide);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_leave_the_runner_alive() {
    let served = Served::new().await;
    let files = || Files::Directory(models("1.13"));
    let refused = async |request: LoadRequest, expected: &str| {
        let error = served.load(request).await.unwrap_err();
        assert!(message(&error).contains(expected), "{}", message(&error));
    };
    refused(request(files(), json!({"num_threads": "many"})), "option `num_threads` should be").await;
    refused(request(files(), json!({})), "TorchScript files: `attention.pt`").await;
    refused(request(files(), json!({"model": "no.pt"})), "option `model` names `no.pt`, which is not there").await;
    refused(request(files(), json!({"model": "weights.pt"})), "a file of torch.save, not TorchScript").await;
    refused(request(files(), json!({"model": "cases.json"})), "cannot load `cases.json`: not a TorchScript file").await;
    let on_gpu =
        |device: &str| LoadRequest { device: Some(device.to_owned()), ..request(files(), json!({"model": "mlp.pt"})) };
    refused(on_gpu("tpu"), "there is no device `tpu`").await;
    if !process::finds_gpu().unwrap() {
        refused(on_gpu("GPU-1234"), "device `GPU-1234` cannot be used: libtorch").await;
    }
    let wrong = LoadRequest { inputs: specs(&["a", "b"]), ..request(files(), json!({"model": "raises.pt"})) };
    refused(wrong, "the carton declares 2 inputs, but forward takes (x: Tensor)").await;
    served
        .load(LoadRequest {
            device: Some("cpu".to_owned()),
            ..request(files(), json!({"model": "raises.pt", "colour": "red"}))
        })
        .await
        .unwrap();
    assert!(served.logged("the torchscript runner has no option `colour`"));
    for _ in 0..3 {
        let error = served.infer([("x", floats(vec![-1.0], vec![1]))]).await.unwrap_err();
        let text = message(&error);
        assert!(text.contains("builtins.ValueError: negative numbers are not welcome: -1"), "{text}");
        assert!(text.contains("Traceback of TorchScript"), "{text}");
        assert!(served.infer([("x", floats(vec![4.0], vec![1]))]).await.is_ok());
    }
    let error = served.infer([("y", floats(vec![4.0], vec![1]))]).await.unwrap_err();
    assert!(message(&error).contains("the model has no input `y`; it takes `x`"), "{error}");
}

/// libtorch accepts the number of these threads once in a process.
#[tokio::test(flavor = "multi_thread")]
async fn interop_threads_that_come_too_late_are_a_warning() {
    let mut warned = false;
    // One of them may be libtorch's default, and one may be the first number that is set.
    for threads in [3, 5, 7] {
        let served = Served::with_options("mlp", json!({"num_interop_threads": threads})).await;
        warned |= served.logged("option `num_interop_threads` comes too late");
    }
    assert!(warned);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_at_once() {
    for concurrency in [1, 4] {
        let options = json!({"num_threads": 1, "max_concurrency": concurrency});
        let served = Arc::new(Served::with_options("conv", options).await);
        let calls = (0..64).map(|index| {
            let served = Arc::clone(&served);
            tokio::spawn(async move {
                let image = floats(vec![index as f32 / 64.0; 90], vec![1, 3, 6, 5]);
                let first = served.infer([("image", image.clone())]).await.unwrap();
                assert_eq!(served.infer([("image", image)]).await.unwrap(), first);
                (index, first["output"].clone())
            })
        });
        let mut outputs = Vec::new();
        for call in calls.collect::<Vec<_>>() {
            outputs.push(call.await.unwrap());
        }
        assert!(outputs.windows(2).all(|pair| pair[0].1 != pair[1].1), "calls got each other's outputs");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sealed_inputs_and_streams() {
    let served = Served::with("mlp").await;
    let inputs = Tensors::from([("x".to_owned(), floats(vec![0.5; 8], vec![2, 4]))]);
    let expected = served.connection.infer(inputs.clone(), CallOptions::default()).await.unwrap();
    let sealed = served.connection.seal(inputs.clone(), CallOptions::default()).await.unwrap();
    assert_eq!(served.connection.infer_sealed(&sealed, CallOptions::default()).await.unwrap(), expected);
    let mut stream = served.connection.infer_stream(inputs, CallOptions::default()).await.unwrap();
    assert_eq!(stream.recv().await.unwrap().unwrap(), expected);
    assert!(stream.recv().await.is_none());
}

/// Returns the answer to packing the file or folder at `path`, with a scratch folder that is deleted afterwards.
async fn pack(served: &Served, path: &Path, request: PackRequest) -> (Result<PackResponse, String>, tempfile::TempDir) {
    let scratch = tempfile::tempdir().unwrap();
    let request = PackRequest { path: path.to_owned(), scratch: scratch.path().to_owned(), ..request };
    let packed = served.connection.pack(request, CallOptions::default()).await;
    (packed.map_err(|error| message(&error)), scratch)
}

#[tokio::test(flavor = "multi_thread")]
async fn packing() {
    let served = Served::new().await;
    let check = async |path: &Path, options: serde_json::Value, expected: Result<&Path, &str>| {
        let options = serde_json::from_value(options).unwrap();
        let (packed, scratch) = pack(&served, path, PackRequest { options, ..PackRequest::default() }).await;
        match (packed, expected) {
            (Ok(packed), Ok(expected)) => {
                let packed = packed.path;
                assert_eq!(packed.strip_prefix(scratch.path()).unwrap_or(&packed), expected);
            }
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, expected) => panic!("{expected:?}, {found:?}"),
        }
        scratch
    };
    let scratch = Path::new("");
    let models = models("1.13");
    let named = models.join("named.pt");
    let files = check(&named, json!({}), Ok(scratch)).await;
    assert!(served.logged("forward takes (a: Tensor, b: Optional[Tensor], scale: float, label: str)"));
    let names = |folder: &Path| {
        let mut names: Vec<_> =
            folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(files.path()), ["model.pt"]);
    assert_eq!(std::fs::read(files.path().join("model.pt")).unwrap(), std::fs::read(&named).unwrap());

    // The contents of the file decide, not its name.
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join("Mlp, the second");
    std::fs::copy(models.join("mlp.pt"), &odd).unwrap();
    assert_eq!(names(check(&odd, json!({}), Ok(scratch)).await.path()), ["model.pt"]);
    std::fs::rename(odd, folder.path().join("model.pt")).unwrap();
    check(&folder.path().join("model.pt"), json!({}), Ok(&folder.path().join("model.pt"))).await;
    check(folder.path(), json!({}), Ok(folder.path())).await;

    // With a folder all its files are packed.
    std::fs::rename(folder.path().join("model.pt"), folder.path().join("net.ts")).unwrap();
    std::fs::create_dir(folder.path().join("words")).unwrap();
    std::fs::write(folder.path().join("words/list"), "a b").unwrap();
    let files = check(folder.path(), json!({}), Ok(scratch)).await;
    assert_eq!(names(files.path()), ["model.pt", "words"]);
    assert_eq!(std::fs::read(files.path().join("words/list")).unwrap(), b"a b");
    // A file that the option names keeps its name, and so does a file in a folder below.
    check(folder.path(), json!({"model": "net.ts"}), Ok(folder.path())).await;
    check(&models, json!({"model": "mlp.pt"}), Ok(&models)).await;
    check(&named, json!({"model": "named.pt"}), Ok(&named)).await;
    check(&named, json!({"model": "model.pt"}), Ok(scratch)).await;
    check(&named, json!({"model": "other.pt"}), Err("option `model` names `other.pt`, which is not there")).await;
    std::fs::rename(folder.path().join("net.ts"), folder.path().join("words/net.ts")).unwrap();
    check(folder.path(), json!({}), Ok(folder.path())).await;

    check(&models, json!({}), Err("choose one with the option model")).await;
    check(&models.join("cases.json"), json!({}), Err("cases.json`: not a TorchScript file")).await;
    check(&models.join("no.pt"), json!({}), Err("No such file")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn declared_inputs_are_compared_with_forward() {
    let served = Served::new().await;
    let check = async |model: &str, declared: &[&str], expected: &[&str]| {
        let request = PackRequest { inputs: Some(specs(declared)), ..PackRequest::default() };
        let (packed, _) = pack(&served, &models("1.13").join(model), request).await;
        assert_eq!(packed.unwrap().mismatches, expected, "{declared:?}");
    };
    // A dictionary takes any names.
    check("mlp.pt", &["x", "whatever"], &[]).await;
    check("raises.pt", &["x"], &[]).await;
    check("raises.pt", &[], &["input `x` of the model is not declared"]).await;
    check(
        "raises.pt",
        &["image=y"],
        &[
            "input `image` (`y` in the model): the model has no such input; it has `x`",
            "input `x` of the model is not declared",
        ],
    )
    .await;
    // Inputs with other names than the arguments are bound in order.
    check("raises.pt", &["image"], &[]).await;
    check("raises.pt", &["a", "b"], &["the carton declares 2 inputs, but forward takes (x: Tensor)"]).await;
    // The argument `label` takes text, and `specs` declares numbers.
    check("named.pt", &["a", "label"], &["input `label`: declared float32, the model has string"]).await;
}
