//! Models that are merged, compared with what mergekit and PEFT make of them. `data/make.py` made the files.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use carton_tensor::any_file::{TensorFile, TensorFileFormat};
use carton_tensor::checkpoint::FollowLinks;
use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::safetensors::{self, Metadata};
use carton_tensor::weights::FloatType;
use carton_tensor_files::{
    AdapterOptions, ConvertOptions, MergeOptions, MethodKind, TensorFilesError, TensorSource, ZtensorVersion, convert,
    merge, merge_adapters, open_path, with_scales,
};

/// Tensors by their names.
type Tensors = Vec<(String, RawTensor)>;

fn data(file: &str) -> TensorFile {
    TensorFile::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file)).unwrap()
}

/// The tensors whose names begin with `prefix`, without it.
fn part(file: &TensorFile, prefix: &str) -> Tensors {
    let named = |name: &str| name.strip_prefix(prefix).map(str::to_owned);
    let found = file.entries().filter_map(|entry| Some((named(entry.name())?, entry.read().unwrap())));
    let found: Tensors = found.collect();
    assert!(!found.is_empty(), "{prefix}");
    found
}

fn write(path: &Path, tensors: &Tensors) {
    let mut bytes = Vec::new();
    safetensors::write(tensors.iter().map(|(name, tensor)| (name, tensor)), &Metadata::default(), &mut bytes).unwrap();
    fs::write(path, bytes).unwrap();
}

fn read(path: &Path) -> Tensors {
    TensorFile::open(path).unwrap().entries().map(|entry| (entry.name().to_owned(), entry.read().unwrap())).collect()
}

fn floats(numbers: &[f32], shape: &[usize]) -> RawTensor {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    RawTensor::new(ElementType::Float32, shape.to_vec(), bytes.into()).unwrap()
}

fn named(tensors: &[(&str, RawTensor)]) -> Tensors {
    tensors.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn source(&self, name: &str, tensors: &Tensors) -> TensorSource {
        write(&self.path(name), tensors);
        open_path(&self.path(name), None, false, FollowLinks::default()).unwrap()
    }
}

fn options(method: MethodKind, change: impl FnOnce(&mut MergeOptions)) -> MergeOptions {
    let mut options = MergeOptions::default();
    options.method = method;
    change(&mut options);
    options
}

/// Compares the names, types and shapes of all tensors.
fn expect_alike(found: &Tensors, expected: &Tensors) {
    let described = |tensors: &Tensors| -> BTreeMap<String, (ElementType, Vec<usize>)> {
        tensors.iter().map(|(name, tensor)| (name.clone(), (tensor.dtype(), tensor.shape().to_vec()))).collect()
    };
    assert_eq!(described(found), described(expected));
    assert_eq!(found.len(), expected.len());
}

/// Compares all tensors: to the last bit, or with an allowed distance as a share of the largest number of the models at the same place.
fn compare(found: &Tensors, expected: &Tensors, allowed: f64, models: &[&Tensors]) {
    expect_alike(found, expected);
    for (name, expected) in expected {
        let (_, found) = found.iter().find(|(other, _)| other == name).unwrap();
        if allowed == 0.0 || !expected.dtype().is_float() {
            assert_eq!(found.bytes()[..], expected.bytes()[..], "{name}");
            continue;
        }
        let numbers = |tensor: &RawTensor| tensor.to_f64().unwrap();
        let of_models: Vec<Vec<f64>> =
            models.iter().map(|model| numbers(&model.iter().find(|(other, _)| other == name).unwrap().1)).collect();
        for (index, (found, expected)) in numbers(found).into_iter().zip(numbers(expected)).enumerate() {
            let largest = of_models.iter().map(|model| model[index].abs()).fold(0.0, f64::max);
            assert!((found - expected).abs() <= allowed * largest, "{name}[{index}]: {found}, {expected}");
        }
    }
}

#[test]
fn models_are_merged_as_mergekit_does() {
    let file = data("merge.safetensors");
    for dtype in ["float32", "float64", "bfloat16", "float16"] {
        let folder = Folder::new();
        let model = |name: &str| part(&file, &format!("{dtype}/{name}/"));
        let check = |case: &str, models: &[&str], base: Option<&str>, allowed: f64, options: &MergeOptions| {
            let opened: Vec<TensorSource> =
                models.iter().map(|name| folder.source(&format!("{name}.safetensors"), &model(name))).collect();
            let base = base.map(|name| folder.source("base.safetensors", &model(name)));
            let expected = part(&file, &format!("{dtype}/{case}/"));
            let all: Vec<Tensors> = models.iter().map(|name| model(name)).collect();
            for output in ["out.safetensors", "out.zt"] {
                let output = folder.path(output);
                merge(&opened, base.as_ref(), &output, options).unwrap();
                compare(&read(&output), &expected, allowed, &all.iter().collect::<Vec<_>>());
            }
        };
        let weights = [0.3, 0.5, 0.7];
        check("linear", &["a", "b", "c"], None, 0.0, &options(MethodKind::Linear, |of| of.weights = weights.to_vec()));
        check("linear_sum", &["a", "b"], None, 0.0, &{
            options(MethodKind::Linear, |of| {
                of.weights = weights[..2].to_vec();
                of.normalize = Some(false);
            })
        });
        check("task", &["a", "b", "c"], Some("base"), 0.0, &{
            options(MethodKind::TaskArithmetic, |of| of.weights = weights.to_vec())
        });
        check("task_all", &["a", "b"], Some("base"), 0.0, &{
            options(MethodKind::TaskArithmetic, |of| {
                of.weights = weights[..2].to_vec();
                of.normalize = Some(true);
                of.lambda = Some(0.8);
            })
        });
        // The angle is one of sums over the whole tensor, which mergekit makes in the type of the numbers, and in another order. The two
        // coefficients then differ by some units in the last place; numbers of 16 bits differ by one where that crosses a middle.
        let allowed = match dtype {
            "float64" => 16.0 * f64::EPSILON,
            "float32" => 8.0 * f64::from(f32::EPSILON),
            "bfloat16" => 2.0_f64.powi(-7),
            _ => 2.0_f64.powi(-10),
        };
        check("slerp", &["a", "b"], None, allowed, &options(MethodKind::Slerp, |of| of.t = Some(0.3)));
        check("slerp_near", &["a", "c"], None, allowed, &options(MethodKind::Slerp, |of| of.t = Some(0.6)));
    }
}

/// The type that is written is that of mergekit's `out_dtype`.
#[test]
fn floats_are_rounded_once() {
    let folder = Folder::new();
    let exact = floats(&[1.0, 1.0 + f32::EPSILON, 65_520.0], &[3]);
    let models = ["a.safetensors", "b.safetensors"].map(|name| folder.source(name, &named(&[("x", exact.clone())])));
    let mut options = MergeOptions::default();
    options.dtype = Some(FloatType::BFloat16);
    merge(&models, None, &folder.path("out.safetensors"), &options).unwrap();
    let (_, found) = read(&folder.path("out.safetensors")).remove(0);
    assert_eq!((found.dtype(), found.to_f64()), (ElementType::BFloat16, Some(vec![1.0, 1.0, 65_536.0])));
    // A number that the type cannot hold is an error, and no file appears.
    options.dtype = Some(FloatType::Float16);
    let error = merge(&models, None, &folder.path("half.safetensors"), &options).unwrap_err();
    assert!(error.to_string().contains("`x`") && !folder.path("half.safetensors").exists(), "{error}");
    // One model is no blend: a forgotten output would make a model the output. The mean of equal numbers is that number.
    let error = merge(&models[..1], None, &folder.path("one.npz"), &MergeOptions::default()).unwrap_err();
    assert!(error.to_string().contains("linear takes two or more models, and 1 were given"), "{error}");
    merge(&models, None, &folder.path("same.npz"), &MergeOptions::default()).unwrap();
    assert_eq!(read(&folder.path("same.npz"))[0].1.bytes()[..], exact.bytes()[..]);
}

#[test]
fn models_that_do_not_fit_are_refused_by_name() {
    let folder = Folder::new();
    let x = floats(&[1.0, 2.0], &[2]);
    let ids = |id: u8| RawTensor::new(ElementType::Uint8, vec![1], vec![id].into()).unwrap();
    let a = [folder.source("a.safetensors", &named(&[("x", x.clone()), ("ids", ids(1))]))];
    let refused = |other: &[(&str, RawTensor)], options: &MergeOptions| {
        let other = folder.source("b.safetensors", &named(other));
        let models: Vec<TensorSource> = a
            .iter()
            .map(|_| open_path(&folder.path("a.safetensors"), None, false, FollowLinks::default()).unwrap())
            .chain([other])
            .collect();
        let error = merge(&models, None, &folder.path("out.safetensors"), options).unwrap_err();
        assert!(!folder.path("out.safetensors").exists());
        match error {
            TensorFilesError::Merge(error) => {
                format!("{error}: {:?}", std::error::Error::source(&error).map(ToString::to_string))
            }
            error => panic!("{error:?}"),
        }
    };
    let linear = MergeOptions::default();
    let check = |found: String, expected: &str| assert!(found.contains(expected), "{found}");
    check(refused(&[("x", x.clone())], &linear), "b.safetensors` does not have `ids`");
    check(refused(&[("x", x.clone()), ("ids", ids(1)), ("y", x.clone())], &linear), "a.safetensors` does not have `y`");
    check(refused(&[("x", floats(&[1.0, 2.0], &[2, 1])), ("ids", ids(1))], &linear), "tensor `x` is float32 [2] in");
    check(refused(&[("x", ids(1)), ("ids", ids(1))], &linear), "and uint8 [1] in");
    check(refused(&[("x", x.clone()), ("ids", ids(2))], &linear), "tensor `ids` differs between the models");
    let like_a = [("x", x.clone()), ("ids", ids(1))];
    check(refused(&like_a, &options(MethodKind::Slerp, |_| {})), "needs `t`");
    check(
        refused(&like_a, &options(MethodKind::Linear, |of| of.t = Some(0.5))),
        "`t` is no option of the method linear",
    );
    check(refused(&like_a, &options(MethodKind::TaskArithmetic, |_| {})), "needs `base`");
    check(refused(&like_a, &options(MethodKind::Linear, |of| of.weights = vec![1.0])), "2 weights are needed");
    check(refused(&like_a, &options(MethodKind::Linear, |of| of.weights = vec![1.0, -1.0])), "the weights sum to 0");
    check(
        refused(&like_a, &options(MethodKind::Linear, |of| of.weights = vec![1e300, 1.0])),
        "not a finite number in float32",
    );
    let slerp = options(MethodKind::Slerp, |of| of.t = Some(0.5));
    check(refused(&[("x", floats(&[f32::NAN, 1.0], &[2])), ("ids", ids(1))], &slerp), "tensor `x` cannot be blended");
}

#[test]
fn models_are_at_most_64() {
    let folder = Folder::new();
    write(&folder.path("a.safetensors"), &named(&[("x", floats(&[1.0, 2.0], &[2]))]));
    let open = |_| open_path(&folder.path("a.safetensors"), None, false, FollowLinks::default()).unwrap();
    let merged = |n_models: usize| {
        let models: Vec<TensorSource> = (0..n_models).map(open).collect();
        merge(&models, None, &folder.path("out.safetensors"), &MergeOptions::default()).map(drop)
    };
    merged(64).unwrap();
    assert_eq!(read(&folder.path("out.safetensors"))[0].1.to_f64(), Some(vec![1.0, 2.0]));
    let error = merged(65).unwrap_err();
    let problem = std::error::Error::source(&error).unwrap_or(&error).to_string();
    assert!(format!("{error}: {problem}").contains("linear takes at most 64 models, and 65 were given"), "{error:?}");
}

/// Tensors of several pieces, and of types of files that are read as a whole.
#[test]
fn large_tensors_are_merged_in_pieces() {
    let folder = Folder::new();
    let n_elements = (1 << 19) + 3;
    let numbers = |step: f32| (0..n_elements).map(|n| (n % 1009) as f32 * step).collect::<Vec<f32>>();
    let (a, b) = (numbers(0.5), numbers(0.25));
    let models = [
        folder.source("a.safetensors", &named(&[("x", floats(&a, &[n_elements]))])),
        folder.source("b.safetensors", &named(&[("x", floats(&b, &[n_elements]))])),
    ];
    let output = folder.path("out.safetensors");
    merge(&models, None, &output, &options(MethodKind::Linear, |of| of.normalize = Some(false))).unwrap();
    let check = |expected: Vec<f32>| {
        assert_eq!(expected.len(), n_elements);
        compare(&read(&output), &named(&[("x", floats(&expected, &[n_elements]))]), 0.0, &[]);
    };
    check(a.iter().zip(&b).map(|(a, b)| a + b).collect());
    // Parallel tensors are interpolated linearly.
    merge(&models, None, &output, &options(MethodKind::Slerp, |of| of.t = Some(0.5))).unwrap();
    check(a.iter().zip(&b).map(|(a, b)| 0.5 * a + 0.5 * b).collect());
}

#[test]
fn adapters_are_merged_as_peft_does() {
    let file = data("lora.safetensors");
    let cases = file.metadata().unwrap();
    assert_eq!(cases.len(), 10);
    let mut n_convolutions = 0;
    for (case, config) in cases {
        let folder = Folder::new();
        fs::create_dir(folder.path("adapter")).unwrap();
        fs::write(folder.path("adapter/adapter_config.json"), config).unwrap();
        write(&folder.path("adapter/adapter_model.safetensors"), &part(&file, &format!("{case}/adapter/")));
        let model = [folder.source("model.safetensors", &part(&file, &format!("{case}/base/")))];
        let output = folder.path("out.safetensors");
        for adapter in ["adapter", "adapter/adapter_model.safetensors"] {
            let adapters = with_scales(vec![folder.path(adapter)], &[]).unwrap();
            merge_adapters(&model, &adapters, &output, &AdapterOptions::default()).unwrap();
            let (found, expected) = (read(&output), part(&file, &format!("{case}/merged/")));
            // PEFT makes the product for a convolution by one, whose sums round each product. Its numbers here are below 1, and its rank is 3.
            let is_convolution = |(name, _): &&(String, RawTensor)| name == "conv2d.weight";
            let convolution = |tensors: &Tensors| {
                tensors.iter().find(is_convolution).map(|(_, tensor)| tensor.to_f64().unwrap()).unwrap_or_default()
            };
            expect_alike(&found, &expected);
            n_convolutions += expected.iter().filter(is_convolution).count();
            for (found, expected) in convolution(&found).into_iter().zip(convolution(&expected)) {
                assert!(found.abs() < 2.0 && (found - expected).abs() <= 2.0_f64.powi(-22), "{found}, {expected}");
            }
            let others = |tensors: &Tensors| tensors.iter().filter(|one| !is_convolution(one)).cloned().collect();
            compare(&others(&found), &others(&expected), 0.0, &[]);
        }
    }
    assert_eq!(n_convolutions, 2);
}

/// What the other commands do with quantized tensors, and with version 2 of zTensor, merging does too.
#[test]
fn quantized_tensors_and_versions() {
    let folder = Folder::new();
    let bytes = |dtype, shape: &[usize], bytes: Vec<u8>| RawTensor::new(dtype, shape.to_vec(), bytes.into()).unwrap();
    let quantized = named(&[
        ("k.weight", bytes(ElementType::Float8E4m3Fn, &[2], vec![0x38, 0x40])),
        ("k.weight_scale", floats(&[0.1], &[])),
        ("q.weight", floats(&[1.0, 2.0, 3.0, 4.0], &[2, 2])),
    ]);
    let models = [folder.source("a.safetensors", &quantized), folder.source("b.safetensors", &quantized)];
    let output = folder.path("out.safetensors");
    let error = merge(&models, None, &output, &MergeOptions::default()).unwrap_err().to_string();
    assert!(error.contains("`k.weight` of") && error.contains("is quantized (8 bits or fewer)"), "{error}");

    fs::create_dir(folder.path("adapter")).unwrap();
    let config = r#"{"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["q"]}"#;
    fs::write(folder.path("adapter/adapter_config.json"), config).unwrap();
    let adapter = named(&[
        ("base_model.model.q.lora_A.weight", floats(&[1.0, 0.0], &[1, 2])),
        ("base_model.model.q.lora_B.weight", floats(&[0.0, 1.0], &[2, 1])),
    ]);
    write(&folder.path("adapter/adapter_model.safetensors"), &adapter);
    let adapters = with_scales(vec![folder.path("adapter")], &[]).unwrap();
    let mut options = AdapterOptions::default();
    options.dtype = Some(FloatType::BFloat16);
    let written = merge_adapters(&models[..1], &adapters, &output, &options).unwrap();
    assert!(written.warnings.iter().any(|warning| warning.contains("quantized already")), "{:?}", written.warnings);
    let found = read(&output);
    let of = |name: &str| found.iter().find(|(other, _)| other == name).unwrap().1.clone();
    assert_eq!([of("k.weight"), of("k.weight_scale")], [quantized[0].1.clone(), quantized[1].1.clone()]);
    assert_eq!(of("q.weight").to_f32().unwrap(), [1.0, 2.0, 4.0, 4.0]);

    options.dtype = None;
    options.write.version = Some(ZtensorVersion::V2);
    let ours = folder.path("model.zt");
    convert(&[&models[0]], &ours, &ConvertOptions::default()).unwrap();
    let model = [open_path(&ours, None, false, FollowLinks::default()).unwrap()];
    let output = folder.path("out.zt");
    merge_adapters(&model, &adapters, &output, &options).unwrap();
    assert_eq!(TensorFile::open(&output).unwrap().format(), TensorFileFormat::ZTensor2);
    assert_eq!(read(&output).len(), 3);
}
