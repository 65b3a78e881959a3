//! Folders of Hugging Face: `config.json` with weights in safetensors, run by `transformers`, and folders of sentence-transformers, which have
//! `modules.json` beside it. Weights in pickles are not read, and code in a folder is not run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::candidate::Candidate;
use crate::template::python_text;
use crate::text::{is_identifier, is_plain_name, major, printable, release};
use crate::{Recognized, Template, TemplateError};

type Object = Map<String, Value>;

/// The folder of the model beside `main.py`.
const FOLDER: &str = "model";
/// Endings of files that are not packed: weights in formats that are not read, and pickles.
const LEFT_OUT: [&str; 13] = [
    ".bin",
    ".ckpt",
    ".gguf",
    ".h5",
    ".mlmodel",
    ".msgpack",
    ".onnx",
    ".onnx_data",
    ".ot",
    ".pkl",
    ".pt",
    ".pth",
    ".tflite",
];
/// The modules of sentence-transformers that make an embedding of a text.
const OF_EMBEDDINGS: [&str; 7] =
    ["Transformer", "Pooling", "Dense", "Normalize", "LayerNorm", "WeightedLayerPooling", "Dropout"];
const SAFETENSORS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// What a model does, and the Python model that does it.
struct Task {
    /// What it is for, such as `text classification`.
    name: &'static str,
    template: &'static str,
    source: &'static str,
    needs: Needs,
    packages: &'static [&'static str],
}

/// What prepares the inputs of a model.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Tokenizer,
    ImageProcessor,
    FeatureExtractor,
}

const TEXT: Task = Task {
    name: "text classification",
    template: "text_classification",
    source: include_str!("../templates/text_classification/main.py"),
    needs: Needs::Tokenizer,
    packages: &["torch"],
};
const TOKENS: Task = Task {
    name: "token classification",
    template: "token_classification",
    source: include_str!("../templates/token_classification/main.py"),
    needs: Needs::Tokenizer,
    packages: &["torch"],
};
const IMAGE: Task = Task {
    name: "image classification",
    template: "image_classification",
    source: include_str!("../templates/image_classification/main.py"),
    needs: Needs::ImageProcessor,
    // With torchvision, `transformers` prepares images as it does by default.
    packages: &["torch", "torchvision", "pillow"],
};
const CTC: Task = Task {
    name: "speech recognition (CTC)",
    template: "speech_ctc",
    source: include_str!("../templates/speech_ctc/main.py"),
    needs: Needs::FeatureExtractor,
    packages: &["torch"],
};
const WHISPER: Task = Task {
    name: "speech recognition (Whisper)",
    template: "speech_whisper",
    source: include_str!("../templates/speech_whisper/main.py"),
    needs: Needs::FeatureExtractor,
    packages: &["torch"],
};

/// Recognizes a folder by `config.json` and its `model_type`, or by the `modules.json` of sentence-transformers.
pub(crate) fn recognize(candidate: &Candidate) -> Result<Option<Recognized>, TemplateError> {
    if !candidate.is_folder() {
        return Ok(None);
    }
    if let Some(found) = of_other_parts(candidate)? {
        return Ok(Some(found));
    }
    let Some(config) = candidate.read_json("config.json")? else { return Ok(None) };
    let Some(model_type) = config.get("model_type").and_then(Value::as_str) else { return Ok(None) };
    if let Some(modules) = candidate.read("modules.json")? {
        return of_sentences(candidate, &config, &modules).map(Some);
    }
    let architecture = config.get("architectures").and_then(|names| names.get(0)?.as_str());
    let Some(architecture) = architecture.filter(|name| is_identifier(name)) else {
        return Ok(Some(Recognized::NotRun {
            kind: format!("a Hugging Face model ({})", printable(model_type)),
            hint: "its `config.json` does not say in `architectures` which class of transformers it is: save it again with \
                   `model.save_pretrained(FOLDER)`"
                .to_owned(),
        }));
    };
    let task = task_of(architecture, model_type);
    let purpose = task.as_ref().map_or_else(String::new, |task| format!(" for {}", task.name));
    let kind = format!("a Hugging Face model{purpose} ({architecture})");
    let not_run = |hint: String| Ok(Some(Recognized::NotRun { kind: kind.clone(), hint }));
    if let Some(hint) = not_loaded(candidate, &config)? {
        return not_run(hint);
    }
    let Some(task) = task else {
        return not_run(format!(
            "models of this class are not run yet. Classes that end with ForSequenceClassification, ForTokenClassification, \
             ForImageClassification and ForCTC are, Whisper, and folders of sentence-transformers. {}",
            with_code(architecture)
        ));
    };
    let mut requirements = vec![requirement("transformers", config.get("transformers_version"))];
    requirements.extend(task.packages.iter().map(|&package| package.to_owned()));
    if task.needs != Needs::ImageProcessor {
        match tokenizer_packages(candidate)? {
            Some(packages) => requirements.extend(packages),
            None => return not_run(missing("the files of its tokenizer are", "AutoTokenizer", "tokenizer.json")),
        }
    }
    let preparation = preparation_of(candidate)?;
    if task.needs != Needs::Tokenizer && preparation.is_none() {
        let class = if task.needs == Needs::ImageProcessor { "AutoImageProcessor" } else { "AutoProcessor" };
        return not_run(missing(
            "the file that says how its inputs are prepared is",
            class,
            "preprocessor_config.json",
        ));
    }
    let rate = preparation.as_ref().and_then(sampling_rate);
    let kind = rate.map_or_else(|| kind.clone(), |rate| format!("{kind}, samples at {rate} Hz"));
    let mut files = Vec::new();
    add_files(&mut files, candidate.path(), FOLDER)?;
    Ok(Some(Recognized::Template(Template {
        name: task.template,
        kind,
        source: task.source,
        constants: vec![("MODEL", python_text(FOLDER))],
        requirements,
        python: None,
        files,
        warnings: Vec::new(),
    })))
}

fn task_of(architecture: &str, model_type: &str) -> Option<Task> {
    if architecture.ends_with("ForSequenceClassification") {
        // Those of audio have names that end in the same way.
        let of_audio = [
            "wav2vec2",
            "hubert",
            "wavlm",
            "unispeech",
            "data2vec-audio",
            "sew",
            "whisper",
            "audio-spectrogram-transformer",
        ];
        (!of_audio.iter().any(|audio| model_type.starts_with(audio))).then_some(TEXT)
    } else if architecture.ends_with("ForTokenClassification") {
        // These also need the places of words on a page.
        (!model_type.starts_with("layoutlm") && model_type != "lilt" && model_type != "bros").then_some(TOKENS)
    } else if architecture.ends_with("ForImageClassification") {
        Some(IMAGE)
    } else if architecture.ends_with("ForCTC") {
        Some(CTC)
    } else if architecture == "WhisperForConditionalGeneration" {
        Some(WHISPER)
    } else {
        None
    }
}

/// Recognizes folders with other files than `config.json`: adapters and pipelines.
fn of_other_parts(candidate: &Candidate) -> Result<Option<Recognized>, TemplateError> {
    if let Some(index) = candidate.read_json("model_index.json")?
        && index.contains_key("_diffusers_version")
    {
        return Ok(Some(Recognized::NotRun {
            kind: "a pipeline of diffusers".to_owned(),
            hint: format!("pipelines of diffusers are not run yet. {}", with_code("DiffusionPipeline")),
        }));
    }
    if let Some(adapter) = candidate.read_json("adapter_config.json")?
        && adapter.contains_key("peft_type")
    {
        let base = adapter.get("base_model_name_or_path").and_then(Value::as_str).unwrap_or("another model");
        return Ok(Some(Recognized::NotRun {
            kind: format!("an adapter of PEFT for {}", printable(base)),
            hint: "an adapter is a part of a model: merge it with `model.merge_and_unload()`, save the result and its tokenizer with \
                   `save_pretrained(FOLDER)`, and pack FOLDER"
                .to_owned(),
        }));
    }
    Ok(None)
}

/// Returns why transformers would not load the folder without code, pickles or special packages, and what to do.
fn not_loaded(candidate: &Candidate, config: &Object) -> Result<Option<String>, TemplateError> {
    if let Some(hint) = own_code(candidate, config)? {
        return Ok(Some(hint));
    }
    if let Some(quantization) = config.get("quantization_config") {
        let method = quantization.get("quant_method").and_then(Value::as_str).unwrap_or("unknown");
        return Ok(Some(format!(
            "its weights are quantized (`{}`), which needs packages of that method and often a GPU: pack the model before it was quantized",
            printable(method)
        )));
    }
    weights(candidate)
}

/// Returns what to do if a configuration names code in the folder.
fn own_code(candidate: &Candidate, config: &Object) -> Result<Option<String>, TemplateError> {
    let mut holders = vec![("config.json", Some(config.clone()))];
    for name in ["tokenizer_config.json", "preprocessor_config.json", "processor_config.json"] {
        holders.push((name, candidate.read_json(name)?));
    }
    let holder =
        holders.iter().find(|(_, config)| config.as_ref().is_some_and(|config| config.contains_key("auto_map")));
    Ok(holder.map(|(name, _)| {
        format!(
            "its `{name}` names code in the folder (`auto_map`), which transformers runs only with `trust_remote_code`, and a template never \
             does: read that code, then write a module `main.py` with a function `get_model` that loads the model with it, and pack the \
             folder: `carton pack FOLDER --runner python`"
        )
    }))
}

/// Returns what is wrong with the weights in a folder, and what to do. `None` if they are there.
///
/// # Errors
/// The index names files that are not there.
fn weights(candidate: &Candidate) -> Result<Option<String>, TemplateError> {
    if candidate.has(SAFETENSORS) {
        return Ok(None);
    }
    if let Some(index) = candidate.read_json(INDEX)? {
        let shards = index.get("weight_map").and_then(Value::as_object);
        let names: BTreeSet<&str> = shards.into_iter().flat_map(|map| map.values()).filter_map(Value::as_str).collect();
        let is_there = |name: &&str| is_plain_name(name) && candidate.has(name);
        let problem = match names.iter().find(|name| !is_there(name)) {
            Some(name) => format!("its `{INDEX}` names `{}`, which is not in the folder", printable(name)),
            None if names.is_empty() => format!("its `{INDEX}` names no files (`weight_map`)"),
            None => return Ok(None),
        };
        return Err(TemplateError::Malformed {
            path: candidate.path().to_path_buf(),
            kind: "a Hugging Face model",
            problem,
            hint: Some("download the folder again, with all of its files".to_owned()),
        });
    }
    let others = ["pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack"];
    Ok(Some(match others.iter().find(|name| candidate.has(name)) {
        Some(name) if name.starts_with("pytorch") => format!(
            "its weights are in a pickle (`{name}`), which is a program: convert them on a machine where you trust it, with \
             `AutoModel.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER)` and the class of the model in place of AutoModel, and pack \
             NEW_FOLDER with the other files"
        ),
        Some(name) => format!(
            "its weights are of TensorFlow or Flax (`{name}`): convert them with a version of transformers before 5, which reads them \
             (`from_tf=True` or `from_flax=True`), and `save_pretrained(NEW_FOLDER)`"
        ),
        None => format!("its weights are missing: put `{SAFETENSORS}` into the folder"),
    }))
}

/// Returns the packages that a tokenizer needs beside transformers; `None` if its files are missing.
fn tokenizer_packages(candidate: &Candidate) -> Result<Option<Vec<String>>, TemplateError> {
    const OF_TOKENIZERS: [&str; 3] = ["tokenizer.json", "vocab.txt", "vocab.json"];
    const OF_SENTENCEPIECE: [&str; 4] = ["spiece.model", "sentencepiece.bpe.model", "tokenizer.model", "spm.model"];
    // Their vocabularies are the bytes or characters themselves.
    const WITHOUT_FILES: [&str; 3] = ["ByT5Tokenizer", "CanineTokenizer", "PerceiverTokenizer"];
    let has = |names: &[&str]| names.iter().any(|name| candidate.has(name));
    if has(&OF_TOKENIZERS) {
        return Ok(Some(Vec::new()));
    }
    if has(&OF_SENTENCEPIECE) {
        return Ok(Some(vec!["sentencepiece".to_owned(), "protobuf".to_owned()]));
    }
    let config = candidate.read_json("tokenizer_config.json")?;
    let class = config.as_ref().and_then(|config| config.get("tokenizer_class")?.as_str());
    Ok(class.is_some_and(|class| WITHOUT_FILES.contains(&class)).then(Vec::new))
}

/// Returns the configuration that says how inputs are prepared.
fn preparation_of(candidate: &Candidate) -> Result<Option<Object>, TemplateError> {
    for name in ["processor_config.json", "preprocessor_config.json"] {
        let found = candidate.read_json(name)?;
        let says_how = |config: &Object| {
            [
                "feature_extractor",
                "image_processor",
                "feature_extractor_type",
                "image_processor_type",
                "sampling_rate",
                "size",
            ]
            .iter()
            .any(|key| config.contains_key(*key))
        };
        if found.as_ref().is_some_and(says_how) {
            return Ok(found);
        }
    }
    Ok(None)
}

fn sampling_rate(config: &Object) -> Option<u64> {
    let inner = config.get("feature_extractor").and_then(Value::as_object).unwrap_or(config);
    inner.get("sampling_rate")?.as_u64()
}

/// Recognizes a folder of sentence-transformers.
fn of_sentences(candidate: &Candidate, config: &Object, modules: &[u8]) -> Result<Recognized, TemplateError> {
    let kind = "a model of sentence-transformers for embeddings of texts";
    let not_run = |hint: String| Ok(Recognized::NotRun { kind: kind.to_owned(), hint });
    let saved_by = candidate.read_json("config_sentence_transformers.json")?;
    let class = saved_by.as_ref().and_then(|config| config.get("model_type")?.as_str());
    if let Some(class) = class.filter(|class| *class != "SentenceTransformer") {
        return not_run(format!(
            "models of the class `{}` are not run yet. {}",
            printable(class),
            with_code(&printable(class))
        ));
    }
    let malformed = |problem: &str| TemplateError::Malformed {
        path: candidate.path().to_path_buf(),
        kind: "a model of sentence-transformers",
        problem: problem.to_owned(),
        hint: Some("save it again with `model.save_pretrained(FOLDER)`".to_owned()),
    };
    let no_list = || malformed("its `modules.json` is no list of modules");
    let modules: Vec<Value> = serde_json::from_slice(modules).map_err(|_| no_list())?;
    let mut files = Vec::new();
    add_files(&mut files, candidate.path(), FOLDER)?;
    let mut names = Vec::new();
    for module in &modules {
        let text = |key: &str| module.get(key).and_then(Value::as_str).ok_or_else(no_list);
        let (class, place) = (text("type")?, text("path")?);
        if !class.starts_with("sentence_transformers.") || !class.split('.').all(is_identifier) {
            return not_run(format!(
                "its module `{}` is code of its own, which is not run: write a module `main.py` with a function `get_model` that loads the \
                 model, and pack the folder: `carton pack FOLDER --runner python`",
                printable(class)
            ));
        }
        names.push(class.rsplit('.').next().unwrap_or_default());
        if place.is_empty() {
            continue;
        }
        if !is_plain_name(place) {
            return Err(malformed("a path in its `modules.json` leaves the folder"));
        }
        let folder = candidate.path().join(place);
        if !folder.is_dir() {
            // A module without settings has no files, and an empty folder is not kept by Git.
            if names.last() == Some(&"Normalize") {
                continue;
            }
            return Err(malformed(&format!("the folder of its module `{}` is missing", printable(place))));
        }
        if folder.join("pytorch_model.bin").exists() && !folder.join(SAFETENSORS).exists() {
            return not_run(format!(
                "the weights of its module `{}` are in a pickle (`pytorch_model.bin`), which is a program: convert them on a machine where \
                 you trust it, with `SentenceTransformer(FOLDER).save_pretrained(NEW_FOLDER)`, and pack NEW_FOLDER",
                printable(place)
            ));
        }
        add_files(&mut files, &folder, &format!("{FOLDER}/{place}"))?;
    }
    let other = names.iter().position(|name| !OF_EMBEDDINGS.contains(name));
    if names.first() != Some(&"Transformer") || other.is_some() {
        return not_run(format!(
            "its module `{}` is not run yet, only a Transformer, Pooling and what changes their vectors: write a module `main.py` with a function `get_model` that \
             loads the model, and pack the folder: `carton pack FOLDER --runner python`",
            other.map_or(names.first().unwrap_or(&"missing"), |other| &names[other])
        ));
    }
    if let Some(hint) = not_loaded(candidate, config)? {
        return not_run(hint);
    }
    let Some(packages) = tokenizer_packages(candidate)? else {
        return not_run(missing("the files of its tokenizer are", "AutoTokenizer", "tokenizer.json"));
    };
    let version = saved_by.as_ref().and_then(|config| config.get("__version__")?.get("sentence_transformers"));
    let mut requirements = vec![
        requirement("sentence-transformers", version),
        requirement("transformers", config.get("transformers_version")),
        "torch".to_owned(),
    ];
    requirements.extend(packages);
    Ok(Recognized::Template(Template {
        name: "sentence_embedding",
        kind: format!("{kind} ({})", names.join(", ")),
        source: include_str!("../templates/sentence_embedding/main.py"),
        constants: vec![("MODEL", python_text(FOLDER))],
        requirements,
        python: None,
        files,
        warnings: Vec::new(),
    }))
}

/// Returns the requirement of a package in the version that saved a model, or a later one.
fn requirement(package: &str, version: Option<&Value>) -> String {
    let found = version.and_then(Value::as_str).and_then(release);
    found.map_or_else(|| package.to_owned(), |found| format!("{package}>={found},<{}", major(&found).max(5) + 1))
}

fn missing(what: &str, class: &str, file: &str) -> String {
    format!(
        "{what} missing, such as `{file}`: save them into the folder with `{class}.from_pretrained(NAME).save_pretrained(FOLDER)`, where \
         NAME is the model that this one was made of"
    )
}

fn with_code(class: &str) -> String {
    format!(
        "Write a module `main.py` with a function `get_model` that loads the folder with `{class}`, and pack it with the module: \
         `carton pack FOLDER --runner python`"
    )
}

/// Adds the files directly in `folder`, to be in the folder `place` beside `main.py`.
fn add_files(files: &mut Vec<(String, PathBuf)>, folder: &Path, place: &str) -> Result<(), TemplateError> {
    for name in Candidate::new(folder)?.entries() {
        let path = folder.join(name);
        let is_left_out = name.starts_with('.')
            || LEFT_OUT.iter().any(|ending| name.ends_with(ending))
            || name == "pytorch_model.bin.index.json";
        if !is_left_out && path.is_file() {
            files.push((format!("{place}/{name}"), path));
        }
    }
    Ok(())
}
