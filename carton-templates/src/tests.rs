//! Recognizes files of the frameworks themselves (`tests/fixtures`, made by `tests/make_fixtures.py`), and broken and hostile ones.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::{TempDir, tempdir};
use zip::write::SimpleFileOptions;

use crate::{Recognized, Template, TemplateError, recognize};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Copies a folder of the fixtures, so that a test can change it.
fn copy(name: &str) -> TempDir {
    let folder = tempdir().unwrap();
    for entry in fs::read_dir(fixture(name)).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(folder.path().join(entry.file_name())).unwrap();
            for inner in fs::read_dir(entry.path()).unwrap() {
                let inner = inner.unwrap();
                fs::copy(inner.path(), folder.path().join(entry.file_name()).join(inner.file_name())).unwrap();
            }
        } else {
            fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
    }
    folder
}

fn template(path: &Path) -> Template {
    match recognize(path).unwrap() {
        Some(Recognized::Template(template)) => template,
        other => panic!("{}: {other:?}", path.display()),
    }
}

/// Checks what the model at `path` is, and that it runs with these packages.
fn check_template(path: &Path, name: &str, kind: &str, requirements: &[&str]) {
    let found = template(path);
    assert_eq!((found.name(), found.kind()), (name, kind));
    assert_eq!(found.requirements(), requirements, "{name}");
    // What is written has each constant once, and links that lead to the files.
    let folder = tempdir().unwrap();
    found.link_into(folder.path()).unwrap();
    let module = fs::read_to_string(folder.path().join("main.py")).unwrap();
    for (constant, value) in &found.constants {
        let line = format!("{constant} = {value}");
        assert_eq!(module.lines().filter(|found| **found == line).count(), 1, "{line}");
    }
    for (place, _) in &found.files {
        assert!(folder.path().join(place).exists(), "{place}");
    }
}

/// Checks that the model at `path` is known and not run, and what the hint says.
fn check_not_run(path: &Path, kind: &str, in_hint: &str) {
    match recognize(path).unwrap() {
        Some(Recognized::NotRun { kind: found, hint }) => {
            assert_eq!(found, kind);
            assert!(hint.contains(in_hint), "{hint}");
            assert!(!hint.contains("  ") && !hint.contains('\x1b'), "{hint}");
        }
        other => panic!("{}: {other:?}", path.display()),
    }
}

fn check_malformed(path: &Path, in_problem: &str) {
    match recognize(path) {
        Err(TemplateError::Malformed { problem, hint, .. }) => {
            assert!(problem.contains(in_problem) && hint.is_some(), "{problem}");
        }
        other => panic!("{}: {other:?}", path.display()),
    }
}

fn check_unknown(path: &Path) {
    assert_eq!(recognize(path).unwrap(), None, "{}", path.display());
}

/// Writes a file into a new folder.
fn file(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn archive(entries: &[(&str, &[u8])]) -> (TempDir, PathBuf) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("archive");
    let mut writer = zip::ZipWriter::new(fs::File::create(&path).unwrap());
    for (name, bytes) in entries {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap();
    (folder, path)
}

#[test]
fn models_of_keras() {
    let kind = "a Keras model (3.15.1, 2 layers)";
    check_template(&fixture("keras/dense.keras"), "keras", kind, &["keras>=3.15.1,<4", "jax"]);
    check_template(&fixture("keras/text.keras"), "keras", kind, &["keras>=3.15.1,<4", "tensorflow-cpu"]);
    assert!(template(&fixture("keras/text.keras")).module().contains("\nBACKEND = \"tensorflow\"\n"));
    check_not_run(&fixture("keras/lambda.keras"), kind, "layer `Lambda`");
    check_not_run(&fixture("keras/own.keras"), kind, "`Own` of the module `__main__`");
    check_not_run(&fixture("keras/registered.keras"), kind, "`Own` of the module `acme`");
    check_not_run(
        &fixture("keras/dense.h5"),
        "a Keras model in the format before Keras 3 (HDF5)",
        ".save(\"NAME.keras\")",
    );
    check_not_run(&fixture("keras/dense.weights.h5"), "weights of Keras (HDF5)", "load_weights");
}

#[test]
fn the_name_of_a_file_does_not_matter() {
    let folder = tempdir().unwrap();
    let name = "mödel \"1\"";
    fs::copy(fixture("keras/dense.keras"), folder.path().join(name)).unwrap();
    let found = template(&folder.path().join(name));
    assert_eq!(found.files[0].0, "mödel \"1\".keras");
    assert!(found.module().contains("\nMODEL = \"mödel \\\"1\\\".keras\"\n"));
    fs::copy(fixture("torch/program.pt2"), folder.path().join("weights.bin")).unwrap();
    assert_eq!(template(&folder.path().join("weights.bin")).files[0].0, "weights.bin.pt2");
}

#[test]
fn a_file_that_is_called_as_one_of_the_runner_gets_another_place() {
    let folder = tempdir().unwrap();
    fs::copy(fixture("tabular/lightgbm.txt"), folder.path().join("requirements.txt")).unwrap();
    let found = template(&folder.path().join("requirements.txt"));
    assert_eq!(found.files[0].0, "model/requirements.txt");
    let copied = tempdir().unwrap();
    found.copy_into(&copied.path().join("new")).unwrap();
    let read = |name: &str| fs::read_to_string(copied.path().join("new").join(name)).unwrap();
    assert_eq!(read("requirements.txt"), "lightgbm>=4\n");
    assert!(read("model/requirements.txt").starts_with("tree\n"));
}

#[test]
fn the_files_of_a_folder_are_copied() {
    for name in ["hugging_face/sentences", "tensorflow/default", "spacy"] {
        let folder = tempdir().unwrap();
        let found = template(&fixture(name));
        found.copy_into(folder.path()).unwrap();
        for (place, source) in found.files.iter().filter(|(_, source)| source.is_file()) {
            assert_eq!(fs::read(folder.path().join(place)).unwrap(), fs::read(source).unwrap(), "{place}");
        }
    }
}

#[test]
fn folders_with_circles_and_pipes_are_not_copied() {
    let folder = copy("spacy");
    let target = tempdir().unwrap();
    let refused = |problem: &str| {
        let error = template(folder.path()).copy_into(target.path()).unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
        assert!(fs::read_dir(target.path()).unwrap().next().is_none());
    };
    fs::create_dir(folder.path().join("inner")).unwrap();
    symlink("..", folder.path().join("inner/above")).unwrap();
    refused("leads to a folder that it is in");
    fs::remove_file(folder.path().join("inner/above")).unwrap();
    symlink("/dev/zero", folder.path().join("inner/zero")).unwrap();
    refused("neither a file nor a folder");
}

#[test]
fn a_model_of_lightgbm_that_was_cut_off() {
    let folder = tempdir().unwrap();
    let text = fs::read(fixture("tabular/lightgbm.txt")).unwrap();
    let path = folder.path().join("cut.txt");
    let end = memchr::memmem::find(&text, b"end of trees").unwrap();
    fs::write(&path, &text[..end]).unwrap();
    check_malformed(&path, "`end of trees` is missing");
    // The line may be across two blocks that are read.
    for n_bytes in [(64 << 10) - 8, 200 << 10] {
        fs::write(&path, [text.as_slice(), &vec![b' '; n_bytes]].concat()).unwrap();
        assert_eq!(template(&path).name(), "lightgbm");
    }
}

#[test]
fn broken_archives_of_keras() {
    let metadata: (&str, &[u8]) = ("metadata.json", br#"{"keras_version": "3.1.0"}"#);
    let weights: (&str, &[u8]) = ("model.weights.h5", b"");
    let (_folder, path) = archive(&[metadata, ("config.json", b"{}")]);
    check_malformed(&path, "`model.weights.h5` is missing");
    let (_folder, path) = archive(&[metadata, weights, ("config.json", b"[]")]);
    check_malformed(&path, "`config.json` is missing, no JSON object");
    let (_folder, path) =
        archive(&[("metadata.json", br#"{"keras_version": "\u001b[31mnew"}"#), weights, ("config.json", b"{}")]);
    check_malformed(&path, "no version: `\\u{1b}[31mnew`");
    // The nesting is bounded, and so is the size when decompressed.
    let deep = [b"{\"a\":".repeat(100_000), b"1".to_vec(), b"}".repeat(100_000)].concat();
    let (_folder, path) = archive(&[metadata, weights, ("config.json", &deep)]);
    check_malformed(&path, "no JSON object");
    let bomb = vec![b' '; 17 << 20];
    let (_folder, path) = archive(&[metadata, weights, ("config.json", &bomb)]);
    check_malformed(&path, "larger than 16777216 bytes");
    // Other archives have such names too.
    let (_folder, path) = archive(&[("metadata.json", b"{}"), ("config.json", b"{}")]);
    check_unknown(&path);
    let (_folder, path) =
        archive(&[("metadata.json", br#"{"keras_version": "2.15.0"}"#), weights, ("config.json", b"{}")]);
    check_not_run(&path, "a Keras model (2.15.0)", "model.export(FOLDER)");
    let layer = br#"{"config": {"layers": [{"module": "keras_hub.src.layers", "class_name": "Rms\u0007", "registered_name": "keras_hub>Rms"}]}}"#;
    let (_folder, path) = archive(&[metadata, weights, ("config.json", layer)]);
    check_not_run(&path, "a Keras model (3.1.0, 1 layers)", "`Rms\\u{7}` of the module `keras_hub.src.layers`");
    // A truncated file is no archive.
    let bytes = fs::read(fixture("keras/dense.keras")).unwrap();
    let (_folder, path) = file(&bytes[..bytes.len() / 2]);
    check_unknown(&path);
}

#[test]
fn files_of_pytorch() {
    let kind = "an exported program of PyTorch 2.15.0 (.pt2)";
    check_template(&fixture("torch/program.pt2"), "torch_export", kind, &["torch>=2.15.0"]);
    let weights = "weights of PyTorch without a model (`torch.save`, zip)";
    check_not_run(&fixture("torch/weights.pt"), weights, "the class of the model and its code are missing");
    let old = "weights of PyTorch without a model (`torch.save`, before PyTorch 1.6)";
    check_not_run(&fixture("torch/weights_before_1.6.pt"), old, "torch.jit.script");
    let object = "a pickled object of PyTorch (`torch.save`, zip)";
    check_not_run(&fixture("torch/own_module.pt"), object, "the code of `acme.nets.Own` is not in it");
    check_not_run(&fixture("torch/library_module.pt"), object, "its code is not in it");
}

#[test]
fn broken_archives_of_pytorch() {
    let format: (&str, &[u8]) = ("m/archive_format", b"pt2");
    let (_folder, path) = archive(&[format, ("m/models/model.json", b"[]")]);
    check_malformed(&path, "`models/model.json` is no JSON object");
    let (_folder, path) = archive(&[format, ("m/models/a.json", b"{}"), ("m/models/b.json", b"{}")]);
    check_not_run(&path, "an archive of exported programs of PyTorch (.pt2)", "this archive has a, b");
    let (_folder, path) = archive(&[format]);
    check_not_run(&path, "an archive of exported programs of PyTorch (.pt2)", "this archive has none");
    let cuda = br#"{"torch_version": "2.8.0a0+git", "x": [{"device": {"type": "cuda", "index": 0}}]}"#;
    let (_folder, path) = archive(&[format, ("m/models/model.json", cuda)]);
    check_template(&path, "torch_export", "an exported program of PyTorch 2.8.0 (.pt2)", &["torch>=2.8.0"]);
    assert!(template(&path).warnings()[0].contains("GPU"));
    let (_folder, path) = archive(&[("version", b"1"), ("serialized_exported_program.json", b"{}")]);
    check_not_run(&path, "an exported program of PyTorch before 2.8", "export the model again");
    // A pickle is only searched, and in bounded time.
    let (_folder, path) = archive(&[("m/data.pkl", &vec![b'c'; 4 << 20])]);
    check_not_run(&path, "weights of PyTorch without a model (`torch.save`, zip)", "carton pack FOLDER");
}

#[test]
fn packages_of_aotinductor() {
    const KIND: &str = "a package of AOTInductor (.pt2)";
    let format: (&str, &[u8]) = ("m/archive_format", b"pt2");
    let code: (&str, &[u8]) = ("m/data/aotinductor/model/a.wrapper.so", b"\x7fELF");
    let metadata = |json: &'static [u8]| ("m/data/aotinductor/model/a.wrapper_metadata.json", json);
    let cpu = metadata(
        br#"{"AOTI_DEVICE_KEY": "cpu", "AOTI_PLATFORM": "linux", "AOTI_MACHINE": "x86_64", "AOTI_CPU_ISA": "AVX2\u001b", "AOTI_COMPUTE_CAPABILITY": ""}"#,
    );
    let (_folder, path) = archive(&[format, code, cpu]);
    check_template(&path, "aotinductor", KIND, &["torch>=2.8"]);
    let found = template(&path);
    assert_eq!(found.files[0].0, "archive.pt2");
    assert_eq!(
        found.warnings(),
        [
            "the package is native code for the kind of CPU that it was compiled on (linux, x86_64, AVX2\\u{1b}): elsewhere it may fail, or end its \
          process"
        ]
    );
    let (_folder, path) = archive(&[format, code, metadata(br#"{"AOTI_DEVICE_KEY": "cuda"}"#)]);
    check_not_run(&path, KIND, "compiled for the device `cuda`");
    // One of several for another device.
    let kernel: (&str, &[u8]) =
        ("m/data/aotinductor/model/b.kernel_metadata.json", br#"{"AOTI_DEVICE_KEY": "x\u001bpu"}"#);
    let (_folder, path) = archive(&[format, code, cpu, kernel]);
    check_not_run(&path, KIND, "compiled for the device `x\\u{1b}pu`");
    for json in [&b"{}"[..], b"[]", br#"{"AOTI_DEVICE_KEY": 1}"#, br#"{"AOTI_DEVICE_KEY": ""}"#] {
        let (_folder, path) = archive(&[format, code, metadata(json)]);
        check_malformed(&path, "for which device it is");
    }
    let (_folder, path) = archive(&[format, code]);
    check_malformed(&path, "for which device it is");
    let (_folder, path) = archive(&[format, cpu, ("m/data/aotinductor/model/a.wrapper.cpp", b"")]);
    check_not_run(&path, KIND, "`aot_inductor.package_cpp_only`");
    let (_folder, path) = archive(&[format, code, cpu, ("m/data/aotinductor/model/weights_config.json", b"{}")]);
    check_not_run(&path, KIND, "`aot_inductor.package_constants_on_disk_format`");
    let of_others: [(&str, &[u8]); 3] =
        [("m/data/aotinductor/b/b.so", b""), ("m/data/aotinductor/a/a.so", b""), ("m/data/aotinductor/b/b.json", b"")];
    let (_folder, path) = archive(&[&[format], &of_others[..]].concat());
    check_not_run(&path, KIND, "this archive has a, b");
    let (_folder, path) = archive(&[format, ("m/data/aotinductor/a.so", b"")]);
    check_not_run(&path, KIND, "this archive has none");
    let flat: [(&str, &[u8]); 2] = [("archive_format", b"pt2"), ("data/aotinductor/model/a.so", b"")];
    let (_folder, path) = archive(&flat);
    check_not_run(&path, "a package of AOTInductor of PyTorch before 2.8", "compile the model again");
    // A program beside it needs no native code.
    let (_folder, path) = archive(&[format, code, cpu, ("m/models/model.json", br#"{"torch_version": "2.8.0"}"#)]);
    check_template(&path, "torch_export", "an exported program of PyTorch 2.8.0 (.pt2)", &["torch>=2.8.0"]);
    assert_eq!(template(&path).warnings(), ["the archive also has native code (AOTInductor), which is not used"]);
}

#[test]
fn folders_of_hugging_face() {
    let packages = ["transformers>=5.24.0,<6", "torch"];
    let kind = "a Hugging Face model for text classification (DistilBertForSequenceClassification)";
    check_template(&fixture("hugging_face/text_classification"), "text_classification", kind, &packages);
    let kind = "a model of sentence-transformers for embeddings of texts (Transformer, Pooling, Normalize)";
    let with_sentences = ["sentence-transformers>=6.2.0,<7", packages[0], packages[1]];
    check_template(&fixture("hugging_face/sentences"), "sentence_embedding", kind, &with_sentences);
    let found = template(&fixture("hugging_face/sentences"));
    assert!(found.files.iter().any(|(place, _)| place == "model/1_Pooling/config.json"), "{:?}", found.files);
}

/// Writes `config.json` with an architecture into a folder, and other files.
fn hugging_face(architecture: &str, more: &str, files: &[(&str, &str)]) -> TempDir {
    let folder = tempdir().unwrap();
    let config = format!(
        r#"{{"architectures": ["{architecture}"], "model_type": "x", "transformers_version": "4.30.2"{more}}}"#
    );
    fs::write(folder.path().join("config.json"), config).unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn folders_of_hugging_face_by_architecture() {
    const WEIGHTS: (&str, &str) = ("model.safetensors", "");
    const TOKENIZER: (&str, &str) = ("tokenizer.json", "{}");
    let sizes = ("preprocessor_config.json", r#"{"image_processor_type": "ViTImageProcessor"}"#);
    let folder = hugging_face("ViTForImageClassification", "", &[WEIGHTS, sizes]);
    let kind = "a Hugging Face model for image classification (ViTForImageClassification)";
    check_template(
        folder.path(),
        "image_classification",
        kind,
        &["transformers>=4.30.2,<6", "torch", "torchvision", "pillow"],
    );
    let rate = ("processor_config.json", r#"{"feature_extractor": {"sampling_rate": 8000}}"#);
    let folder = hugging_face("HubertForCTC", "", &[WEIGHTS, rate, ("vocab.json", "{}")]);
    let kind = "a Hugging Face model for speech recognition (CTC) (HubertForCTC), samples at 8000 Hz";
    check_template(folder.path(), "speech_ctc", kind, &["transformers>=4.30.2,<6", "torch"]);
    let folder = hugging_face("BertForTokenClassification", "", &[WEIGHTS, ("spiece.model", "")]);
    let kind = "a Hugging Face model for token classification (BertForTokenClassification)";
    let packages = ["transformers>=4.30.2,<6", "torch", "sentencepiece", "protobuf"];
    check_template(folder.path(), "token_classification", kind, &packages);

    let check = |architecture: &str, more: &str, files: &[(&str, &str)], in_hint: &str| {
        let folder = hugging_face(architecture, more, files);
        match recognize(folder.path()).unwrap() {
            Some(Recognized::NotRun { kind, hint }) => {
                assert!(kind.contains(architecture) && hint.contains(in_hint), "{kind}: {hint}");
            }
            other => panic!("{architecture}: {other:?}"),
        }
    };
    const TEXT: &str = "BertForSequenceClassification";
    check("LlamaForCausalLM", "", &[WEIGHTS, TOKENIZER], "models of this class are not run yet");
    check("ViTForImageClassification", "", &[WEIGHTS], "`preprocessor_config.json`");
    check("HubertForCTC", "", &[WEIGHTS, rate], "`tokenizer.json`");
    check(TEXT, "", &[WEIGHTS], "the files of its tokenizer are missing");
    check(TEXT, "", &[TOKENIZER], "its weights are missing");
    check(TEXT, "", &[TOKENIZER, ("pytorch_model.bin", "")], "a pickle (`pytorch_model.bin`)");
    check(TEXT, "", &[TOKENIZER, ("tf_model.h5", "")], "of TensorFlow or Flax (`tf_model.h5`)");
    check(
        TEXT,
        r#", "auto_map": {"AutoModel": "modeling.Net"}"#,
        &[WEIGHTS, TOKENIZER],
        "its `config.json` names code",
    );
    let own = ("tokenizer_config.json", r#"{"auto_map": {"AutoTokenizer": ["a.B", null]}}"#);
    check(TEXT, "", &[WEIGHTS, TOKENIZER, own], "its `tokenizer_config.json` names code");
    check(TEXT, r#", "quantization_config": {"quant_method": "gptq"}"#, &[WEIGHTS, TOKENIZER], "`gptq`");

    // Shards.
    const INDEX: &str = "model.safetensors.index.json";
    let shards = |map: &str, files: &[(&str, &str)]| {
        let index = format!(r#"{{"weight_map": {map}}}"#);
        hugging_face(TEXT, "", &[&[TOKENIZER, (INDEX, index.as_str())], files].concat())
    };
    let map = r#"{"a": "model-1.safetensors", "b": "model-2.safetensors"}"#;
    let folder =
        shards(map, &[("model-1.safetensors", ""), ("model-2.safetensors", ""), ("training_args.bin", ""), (".x", "")]);
    let found = template(folder.path());
    let places: Vec<&str> = found.files.iter().map(|(place, _)| place.as_str()).collect();
    let expected = [
        "model/config.json",
        "model/model-1.safetensors",
        "model/model-2.safetensors",
        "model/model.safetensors.index.json",
    ];
    assert_eq!(places, [&expected[..], &["model/tokenizer.json"]].concat());
    let unused: Vec<String> = found.unused(folder.path()).unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(unused, [".x", "training_args.bin"]);
    check_malformed(
        shards(map, &[("model-1.safetensors", "")]).path(),
        "names `model-2.safetensors`, which is not in the folder",
    );
    check_malformed(shards(r#"{"a": "../config.json"}"#, &[]).path(), "names `../config.json`");
    check_malformed(shards("{}", &[]).path(), "names no files");

    // Names that are none, and folders that are none of these.
    let folder = hugging_face("Bert\\u001b[31m", "", &[WEIGHTS, TOKENIZER]);
    check_not_run(folder.path(), "a Hugging Face model (x)", "which class of transformers");
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("config.json"), "{}").unwrap();
    check_unknown(folder.path());
    fs::write(folder.path().join("config.json"), "[".repeat(1 << 20)).unwrap();
    check_unknown(folder.path());
    fs::write(folder.path().join("adapter_config.json"), r#"{"peft_type": "LORA", "base_model_name_or_path": "a/b"}"#)
        .unwrap();
    fs::remove_file(folder.path().join("config.json")).unwrap();
    check_not_run(folder.path(), "an adapter of PEFT for a/b", "merge_and_unload");
    fs::write(folder.path().join("model_index.json"), r#"{"_diffusers_version": "0.30"}"#).unwrap();
    check_not_run(folder.path(), "a pipeline of diffusers", "carton pack FOLDER");
}

#[test]
fn folders_of_sentence_transformers_that_are_broken() {
    const KIND: &str = "a model of sentence-transformers for embeddings of texts";
    let folder = copy("hugging_face/sentences");
    let modules = folder.path().join("modules.json");
    let write = |text: &str| fs::write(&modules, text).unwrap();
    let module = |class: &str, path: &str| format!(r#"{{"idx": 0, "name": "0", "path": "{path}", "type": "{class}"}}"#);
    let transformer = module("sentence_transformers.models.Transformer", "");
    write(&format!("[{transformer}, {}]", module("acme.Pooling", "1_Pooling")));
    check_not_run(folder.path(), KIND, "its module `acme.Pooling` is code of its own");
    write(&format!("[{transformer}, {}]", module("sentence_transformers.models.Pooling", "../x")));
    check_malformed(folder.path(), "leaves the folder");
    write(&format!("[{transformer}, {}]", module("sentence_transformers.models.Dense", "2_Dense")));
    check_malformed(folder.path(), "the folder of its module `2_Dense` is missing");
    fs::create_dir(folder.path().join("2_Dense")).unwrap();
    fs::write(folder.path().join("2_Dense/pytorch_model.bin"), "").unwrap();
    check_not_run(folder.path(), KIND, "the weights of its module `2_Dense` are in a pickle");
    write(&format!("[{}]", module("sentence_transformers.models.CLIPModel", "")));
    check_not_run(folder.path(), KIND, "its module `CLIPModel`");
    write("[]");
    check_not_run(folder.path(), KIND, "its module `missing`");
    write("{}");
    check_malformed(folder.path(), "no list of modules");
    write("[1]");
    check_malformed(folder.path(), "no list of modules");
}

#[test]
fn folders_of_tensorflow() {
    let kind = "a TensorFlow SavedModel (TensorFlow 2.21.0)";
    let packages = ["tensorflow-cpu>=2.21.0"];
    check_template(&fixture("tensorflow/default"), "tensorflow", kind, &packages);
    check_template(&fixture("tensorflow/one"), "tensorflow", kind, &packages);
    assert!(template(&fixture("tensorflow/one")).module().contains("\nSIGNATURE = \"scale\"\n"));
    check_not_run(&fixture("tensorflow/two"), kind, "(a, b)");
    let folder = copy("tensorflow/default");
    fs::remove_dir_all(folder.path().join("variables")).unwrap();
    check_malformed(folder.path(), "its folder `variables` is missing");
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("saved_model.pbtxt"), "").unwrap();
    check_not_run(folder.path(), "a TensorFlow SavedModel as text", "tf.saved_model.save");
}

#[test]
fn broken_files_of_tensorflow() {
    let folder = copy("tensorflow/default");
    let path = folder.path().join("saved_model.pb");
    let bytes = fs::read(&path).unwrap();
    let check = |bytes: &[u8], in_problem: &str| {
        fs::write(&path, bytes).unwrap();
        check_malformed(folder.path(), in_problem);
    };
    check(&bytes[..bytes.len() - 1], "a message is longer than what holds it");
    check(&[0x12, 0xff], "a number is cut off");
    check(&[0xff; 11], "a number has too many bytes");
    check(
        &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        "a message is longer than what holds it",
    );
    check(&[0x0b], "a type that protocol buffers do not have");
    check(&[0x0d, 1], "a number is cut off");
    check(&[0x12, 4, 0x0a, 2, 0x2a, 0x7f], "a message is longer");
    check(&[0x12, 5, 0x0a, 3, 0x2a, 1, 0xff], "a name is no UTF-8");
    check(&[&[0x12, 0x88, 0x10, 0x2a, 0x85, 0x10, 0x0a, 0x82, 0x10][..], &[b'a'; 2050]].concat(), "a name is too long");
    // Whatever is cut off or changed, it is an answer and no panic.
    for at in (0..bytes.len()).step_by(31) {
        fs::write(&path, &bytes[..at]).unwrap();
        let _ = recognize(folder.path());
        let mut changed = bytes.clone();
        changed[at] ^= 0xff;
        fs::write(&path, changed).unwrap();
        let _ = recognize(folder.path());
    }
}

#[test]
fn folders_of_spacy() {
    let kind = "a pipeline of spaCy (xx: sentencizer)";
    check_template(&fixture("spacy"), "spacy", kind, &["spacy>=3.8.18,<3.9.0"]);
    let folder = copy("spacy");
    let write = |text: &str| fs::write(folder.path().join("meta.json"), text).unwrap();
    write(r#"{"lang": "ja", "spacy_version": ">=3.7.2,<3.8.0", "requirements": ["sudachipy>=0.6"], "pipeline": []}"#);
    let packages = ["spacy[ja]>=3.7.2,<3.8.0", "numpy<2", "click", "sudachipy>=0.6"];
    check_template(folder.path(), "spacy", "a pipeline of spaCy (ja: no components)", &packages);
    write(r#"{"lang": "en", "spacy_version": ">=3.7\n--index-url=https://example.com"}"#);
    check_malformed(folder.path(), "a version of spaCy that is none");
    write(r#"{"lang": "en", "spacy_version": "-lookups-data"}"#);
    check_malformed(folder.path(), "a version of spaCy that is none");
    write(r#"{"lang": "en", "spacy_version": ">=3.8", "requirements": ["x @ https://example.com/x.whl"]}"#);
    check_malformed(folder.path(), "`x @ https://example.com/x.whl`");
    write("{}");
    check_unknown(folder.path());
}

#[test]
fn folders_of_mlflow() {
    let folder = tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let flavors = "flavors:\n  python_function:\n    env:\n      conda: conda.yaml\n    loader_module: mlflow.sklearn\n  sklearn:\n    code: null\n";
    write("MLmodel", &format!("artifact_path: model\n{flavors}mlflow_version: 3.1.0\n"));
    let kind = "a model of MLflow (sklearn)";
    check_not_run(folder.path(), kind, "`requirements.txt` is missing");
    write("requirements.txt", "# made by MLflow\nmlflow==3.1.0\nscikit-learn==1.6.1\n\n");
    check_template(folder.path(), "mlflow", kind, &["-r mlmodel/requirements.txt"]);
    assert_eq!(template(folder.path()).python(), None);
    write("requirements.txt", "mlflow-skinny==3.1.0\nx @ git+https://example.com/x\n");
    write("python_env.yaml", "python: 3.10.13\nbuild_dependencies:\n- pip==24\n");
    check_template(folder.path(), "mlflow", kind, &["-r mlmodel/requirements.txt", "mlflow==3.1.0"]);
    assert_eq!(template(folder.path()).python(), Some("3.10"));
    assert_eq!(template(folder.path()).name_of(folder.path()), Some("mlmodel"));
    write("MLmodel", "flavors:\n  python_function:\n    x: 1\n  carton:\n    data: data\n");
    check_not_run(folder.path(), "a model of MLflow (carton)", "it holds a carton already");
    write("MLmodel", "flavors:\n  spark:\n    x: 1\n");
    check_not_run(folder.path(), "a model of MLflow (spark)", "python_function");
    write("MLmodel", "notes\n");
    check_unknown(folder.path());
}

#[test]
fn archives_of_torchserve() {
    let check = |entries: &[(&str, &[u8])], handler: &str, expected: &[&str]| {
        let (_folder, path) = archive(entries);
        let template = template(&path);
        assert_eq!(template.name(), "torchserve");
        assert_eq!(template.kind(), format!("an archive of TorchServe (.mar) with the handler {handler}"));
        assert_eq!(template.requirements(), expected);
    };
    let own = br#"{"model": {"modelFile": "net.py", "handler": "own.py:answer", "requirementsFile": "list.txt"}}"#;
    let list = b"# of the handler\ntransformers==4.49.0\n\nsentencepiece\n";
    let base = ["torchserve>=0.12", "torch", "pyyaml"];
    check(
        &[("own.py", b"import transformers"), ("list.txt", list), ("MAR-INF/MANIFEST.json", own)],
        "own.py:answer",
        &[&base[..], &["transformers==4.49.0", "sentencepiece"]].concat(),
    );
    let lost = br#"{"model": {"handler": "own.py", "requirementsFile": "/etc/passwd"}}"#;
    let (_folder, path) = archive(&[("own.py", b""), ("MAR-INF/MANIFEST.json", lost)]);
    check_malformed(&path, "names `/etc/passwd` as the list of packages");
    let vision = [&base[..], &["torchvision", "captum"]].concat();
    let named = br#"{"model": {"serializedFile": "m.pt", "handler": "image_classifier"}}"#;
    check(&[("m.pt", b""), ("MAR-INF/MANIFEST.json", named)], "image_classifier", &vision);
    let derived = br#"{"model": {"serializedFile": "m.pt", "handler": "own"}}"#;
    let code = b"from ts.torch_handler.image_classifier import ImageClassifier";
    check(&[("own.py", code), ("MAR-INF/MANIFEST.json", derived)], "own", &vision);
}

#[test]
fn models_that_are_not_run() {
    check_not_run(&fixture("torch/weights.safetensors"), "weights without a model (safetensors)", "`config.json`");
    let inside = fixture("hugging_face/text_classification/model.safetensors");
    check_not_run(
        &inside,
        "weights without a model (safetensors)",
        "pack the folder, which is a model of Hugging Face",
    );
    check_not_run(&fixture("others/model.gguf"), "a language model (GGUF)", "not run yet");
    check_not_run(&fixture("tensorflow/double.tflite"), "a model of LiteRT (TFLite)", "SavedModel");
    check_not_run(&fixture("others/half.mlmodel"), "a model of Core ML (.mlmodel)", "Apple");
    check_not_run(&fixture("others/plain.rds"), "an object of R (.rds)", "models of R");
    check_not_run(&fixture("others/gzip.rds"), "an object of R (.rds)", "models of R");
    check_not_run(&fixture("others/gzip.RData"), "a workspace of R (.RData)", "models of R");
    let (_folder, path) = file(b"HDF5-based Julia Data Format, version 0.1.1\0(Julia 1.10.0)");
    check_not_run(&path, "a file of Julia (JLD2)", "models of Julia");
    // {"model": {"tag": "struct"}} as BSON.
    let (_folder, path) = file(b"!\0\0\0\x03model\0\x15\0\0\0\x02tag\0\x07\0\0\0struct\0\0\0");
    check_not_run(&path, "a file of Julia (BSON)", "models of Julia");
    let (_folder, path) =
        file(b"<?xml version=\"1.0\"?>\n<PMML xmlns=\"http://www.dmg.org/PMML-4_4\" version=\"4.4\">");
    check_not_run(&path, "a model in PMML", "ONNX");
    let manifest = br#"{"model": {"modelName": "m", "serializedFile": "m.pt"}}"#;
    let (_folder, path) = archive(&[("m.pt", b""), ("MAR-INF/MANIFEST.json", manifest)]);
    check_not_run(&path, "an archive of TorchServe (.mar)", "no handler");
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("Manifest.json"), r#"{"itemInfoEntries": {}, "rootModelIdentifier": "x"}"#).unwrap();
    check_not_run(folder.path(), "a model of Core ML (.mlpackage)", "Apple");
}

#[test]
fn files_that_are_no_models() {
    for bytes in [
        &b""[..],
        b"PK\x03\x04",
        b"\x1f\x8b",
        b"\x1f\x8b\x08\0\0\0\0\0\0\x03broken",
        b"TFL3",
        b"\x08\x01\x12",
        b"\x08\x01\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x08\x08\x12\x07pytorch\x1a\x05",
        b"\x08\x01\x12\x05\x0a\x03\x0a\x01\x07",
        b"\0\0\0\0\0\0\0\0{}",
        b"\xff\xff\xff\xff\xff\xff\xff\xff{\"a\"",
        b"<?xml version='1.0'?><Error/>",
        b"\x89HDF\r\n\x1a\n",
        b"\x05\0\0\0\0",
        b"X\n",
        b"hello",
    ] {
        let (_folder, path) = file(bytes);
        check_unknown(&path);
    }
    assert!(recognize(Path::new("/nonexistent/model")).is_err());
    check_unknown(tempdir().unwrap().path());
}
