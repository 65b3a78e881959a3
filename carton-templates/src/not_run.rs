//! Models that are known by their content and not run: weights alone, and formats of other languages and programs.

use std::io::Read;

use carton_tensor::content::Content;
use flate2::read::GzDecoder;
use memchr::memmem;

use crate::candidate::Candidate;
use crate::{Recognized, TemplateError};

/// How many of a compressed file's first bytes are read.
const DECOMPRESSED: u64 = 16;
/// How a Python model with code of its own is packed.
const WITH_CODE: &str = "write a module `main.py` with a function `get_model` into a folder with the file, and pack the folder: \
                         `carton pack FOLDER --runner python`";

/// Names the model, and what can be done with it.
pub(crate) fn recognize(candidate: &Candidate) -> Result<Option<Recognized>, TemplateError> {
    let known = |kind: &str, hint: String| Ok(Some(Recognized::NotRun { kind: kind.to_owned(), hint }));
    if candidate.is_folder() {
        let manifest = candidate.read_json("Manifest.json")?;
        if manifest.is_some_and(|manifest| {
            manifest.contains_key("itemInfoEntries") && manifest.contains_key("rootModelIdentifier")
        }) {
            return known("a model of Core ML (.mlpackage)", of_core_ml());
        }
        return Ok(None);
    }
    let start = candidate.start();
    if is_safetensors(start) {
        let hint = match candidate.path().parent().map(|folder| folder.join("config.json")) {
            Some(config) if config.is_file() => {
                "`config.json` is beside the file: pack the folder, which is a model of Hugging Face".to_owned()
            }
            _ => format!(
                "the file says neither which model its tensors are of (`config.json`) nor has its code: for a model of Hugging Face, put the \
                 file, as `model.safetensors`, `config.json` and the files of the tokenizer into a folder, and pack the folder; otherwise \
                 {WITH_CODE}"
            ),
        };
        return known("weights without a model (safetensors)", hint);
    }
    if Content::of_start(start) == Some(Content::Gguf) {
        let hint = format!(
            "models of this format are not run yet; to run it by a package such as llama-cpp-python, {WITH_CODE}"
        );
        return known("a language model (GGUF)", hint);
    }
    if start.get(4..8) == Some(b"TFL3") {
        let hint = "convert the model that it was made of: pack the SavedModel of TensorFlow, or ONNX (`tf2onnx --tflite FILE`)";
        return known("a model of LiteRT (TFLite)", hint.to_owned());
    }
    if is_core_ml(start) {
        return known("a model of Core ML (.mlmodel)", of_core_ml());
    }
    if is_pmml(start) {
        let hint = format!(
            "export the model as ONNX from where it was made; or, to run it by a package such as pypmml, {WITH_CODE}"
        );
        return known("a model in PMML", hint);
    }
    if let Some(what) = of_r(start) {
        let hint = "models of R are not run: export it there in a format that is, such as XGBoost's or LightGBM's own, ONNX or TorchScript";
        return known(what, hint.to_owned());
    }
    if let Some(what) = of_julia(candidate)? {
        let hint =
            "models of Julia are not run: export it there as ONNX, or save its arrays and write the model in Python";
        return known(what, hint.to_owned());
    }
    Ok(None)
}

fn of_core_ml() -> String {
    "Core ML runs on Apple's systems alone: pack the model that it was converted from, such as TorchScript or a SavedModel".to_owned()
}

/// Whether a file begins with the length of a header, and the header.
fn is_safetensors(start: &[u8]) -> bool {
    const MAX_HEADER: u64 = 100_000_000;
    let Some((length, header)) = start.split_first_chunk() else { return false };
    let header = header.trim_ascii_start();
    (2..=MAX_HEADER).contains(&u64::from_le_bytes(*length)) && (header.starts_with(b"{\"") || header.starts_with(b"{}"))
}

/// Whether these are the first bytes of `Model` of Core ML: the version, and a description that begins with a feature that has a name. An ONNX
/// model has a name of printable characters there.
fn is_core_ml(start: &[u8]) -> bool {
    let [0x08, 1..=32, 0x12, rest @ ..] = start else { return false };
    let mut rest = rest;
    // Three messages in each other: the description, a feature, its name.
    for _ in 0..2 {
        let Some(inner) = after_number(rest).and_then(|inner| inner.strip_prefix(&[0x0a])) else { return false };
        rest = inner;
    }
    let Some((length, name)) = rest.split_first() else { return false };
    let name = name.get(..usize::from(*length)).unwrap_or_default();
    !name.is_empty() && std::str::from_utf8(name).is_ok_and(|name| !name.contains(char::is_control))
}

/// Returns what follows a number of protocol buffers.
fn after_number(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().take(10).position(|byte| byte & 0x80 == 0)?;
    bytes.get(end + 1..)
}

fn is_pmml(start: &[u8]) -> bool {
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
    (start.starts_with(b"<?xml") || start.starts_with(b"<PMML") || start.starts_with(b"<!--"))
        && (memmem::find(start, b"<PMML ").is_some() || memmem::find(start, b"<PMML>").is_some())
}

/// Says which file of R it is: of `saveRDS` or `save`, compressed by gzip, as is the default, or not.
fn of_r(start: &[u8]) -> Option<&'static str> {
    let mut decompressed = Vec::new();
    let bytes = if start.starts_with(b"\x1f\x8b") {
        // What is broken is no file of R.
        GzDecoder::new(start).take(DECOMPRESSED).read_to_end(&mut decompressed).ok()?;
        &decompressed[..]
    } else {
        start
    };
    if [b"RDX2\n", b"RDX3\n", b"RDA2\n", b"RDA3\n"].iter().any(|magic| bytes.starts_with(*magic)) {
        Some("a workspace of R (.RData)")
    } else if bytes.starts_with(b"X\n\0\0\0\x02")
        || bytes.starts_with(b"X\n\0\0\0\x03")
        || bytes.starts_with(b"A\n2\n")
        || bytes.starts_with(b"A\n3\n")
    {
        Some("an object of R (.rds)")
    } else {
        None
    }
}

/// Says which file of Julia it is: JLD2 and JLD, which have a text of their own before HDF5, or BSON with the tags of BSON.jl.
fn of_julia(candidate: &Candidate) -> Result<Option<&'static str>, TemplateError> {
    let start = candidate.start();
    if start.starts_with(b"HDF5-based Julia Data Format") || start.starts_with(b"Julia data file (HDF5)") {
        return Ok(Some("a file of Julia (JLD2)"));
    }
    let Some((length, rest)) = start.split_first_chunk::<4>() else { return Ok(None) };
    let metadata = std::fs::metadata(candidate.path()).map_err(TemplateError::io("open", candidate.path()))?;
    let is_document = u64::from(u32::from_le_bytes(*length)) == metadata.len()
        && rest.first().is_some_and(|kind| (1..=0x13).contains(kind));
    Ok((is_document && memmem::find(rest, b"\x02tag\0").is_some()).then_some("a file of Julia (BSON)"))
}
