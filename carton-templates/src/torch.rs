//! Files of PyTorch: programs of `torch.export`, which are run, and checkpoints of `torch.save`, which are named.

use std::collections::BTreeSet;

use carton_tensor::content::Content;
use serde_json::Value;

use crate::candidate::Candidate;
use crate::template::python_text;
use crate::text::{printable, release, with_suffix};
use crate::{Recognized, Template, TemplateError, aotinductor};

/// The most classes of a pickle that a message names.
const MAX_NAMED: usize = 3;

/// Recognizes an archive by its entries, and a checkpoint from before PyTorch 1.6 by its first bytes.
pub(crate) fn recognize(candidate: &Candidate) -> Result<Option<Recognized>, TemplateError> {
    if Content::of_start(candidate.start()) == Some(Content::TorchPickle) {
        return Ok(Some(of_checkpoint(candidate.start(), "before PyTorch 1.6")));
    }
    let Some(archive) = candidate.archive() else { return Ok(None) };
    let names = || archive.entries().iter().map(|entry| entry.name());
    // PyTorch puts all entries into one folder, whose name is any.
    let Some((top, _)) = names().find_map(|name| name.split_once('/')) else { return Ok(of_flat_archive(candidate)) };
    let of_top = |name: &str| format!("{top}/{name}");
    if candidate.read_entry(&of_top("archive_format")).is_some_and(|format| format == b"pt2") {
        return of_program(candidate, top).map(Some);
    }
    if let Some(found) = of_flat_archive(candidate) {
        return Ok(Some(found));
    }
    if Content::of_zip(names()) == Content::TorchArchive {
        let pickle = names().find(|name| name.split_once('/').is_some_and(|(_, rest)| rest == "data.pkl"));
        let pickle = pickle.and_then(|name| candidate.read_entry(name)).unwrap_or_default();
        return Ok(Some(of_checkpoint(&pickle, "zip")));
    }
    Ok(None)
}

/// Recognizes an exported program, or a package of AOTInductor, of PyTorch before 2.8, whose entries are in no folder of their own.
fn of_flat_archive(candidate: &Candidate) -> Option<Recognized> {
    let archive = candidate.archive()?;
    if aotinductor::is_in(archive.entries().iter().map(|entry| entry.name()))
        && candidate.read_entry("archive_format").is_some_and(|format| format == b"pt2")
    {
        return Some(Recognized::NotRun {
            kind: "a package of AOTInductor of PyTorch before 2.8".to_owned(),
            hint: "compile the model again with PyTorch 2.8 or later (`torch._inductor.aoti_compile_and_package`)"
                .to_owned(),
        });
    }
    let has = |name: &str| archive.get(name).is_some();
    (has("serialized_exported_program.json") && has("version")).then(|| Recognized::NotRun {
        kind: "an exported program of PyTorch before 2.8".to_owned(),
        hint: "the format was not yet stable: export the model again with PyTorch 2.8 or later (`torch.export.save`), or load it with the \
               version that made it, and save it there with `torch.jit.trace`"
            .to_owned(),
    })
}

fn of_program(candidate: &Candidate, top: &str) -> Result<Recognized, TemplateError> {
    let entries = candidate.archive().map(|archive| archive.entries()).unwrap_or_default();
    let in_top = || entries.iter().filter_map(|entry| entry.name().strip_prefix(top)?.strip_prefix('/'));
    let models: Vec<&str> = in_top().filter_map(|name| name.strip_prefix("models/")?.strip_suffix(".json")).collect();
    if !models.contains(&"model") {
        if aotinductor::is_in(in_top()) {
            return aotinductor::of_archive(candidate, top);
        }
        return Ok(Recognized::NotRun {
            kind: "an archive of exported programs of PyTorch (.pt2)".to_owned(),
            hint: format!(
                "a carton has one model, which `torch.export.save` names `model`; this archive has {}",
                if models.is_empty() { "none".to_owned() } else { printable(&models.join(", ")) }
            ),
        });
    }
    let Some(program) = candidate.read_entry_json(&format!("{top}/models/model.json")) else {
        return Err(TemplateError::Malformed {
            path: candidate.path().to_path_buf(),
            kind: "an exported program of PyTorch",
            problem: format!(
                "its `models/model.json` is no JSON object, or larger than {} bytes",
                crate::candidate::MAX_TEXT
            ),
            hint: Some("export it again with `torch.export.save`".to_owned()),
        });
    };
    let found = program.get("torch_version").and_then(Value::as_str).and_then(release);
    let version = found.as_ref().map_or_else(String::new, |found| format!(" {found}"));
    let requirement = found.map_or_else(|| "torch>=2.8".to_owned(), |found| format!("torch>={found}"));
    let name = with_suffix(candidate.name_beside_module(), ".pt2");
    let mut warnings = Vec::new();
    if aotinductor::is_in(in_top()) {
        warnings.push("the archive also has native code (AOTInductor), which is not used".to_owned());
    }
    if is_for_cuda(&program) {
        warnings.push("the program was exported on a GPU, and runs only where there is one".to_owned());
    }
    Ok(Recognized::Template(Template {
        name: "torch_export",
        kind: format!("an exported program of PyTorch{version} (.pt2)"),
        source: include_str!("../templates/torch_export/main.py"),
        constants: vec![("MODEL", python_text(&name))],
        requirements: vec![requirement],
        python: None,
        files: vec![(name, candidate.path().to_path_buf())],
        warnings,
    }))
}

/// Whether a tensor of a program is on a GPU.
fn is_for_cuda(program: &serde_json::Map<String, Value>) -> bool {
    let mut rest: Vec<&Value> = program.values().collect();
    while let Some(value) = rest.pop() {
        match value {
            Value::Object(object) => {
                let device = object.get("device").and_then(|device| device.get("type")?.as_str());
                if device == Some("cuda") {
                    return true;
                }
                rest.extend(object.values());
            }
            Value::Array(array) => rest.extend(array),
            _ => {}
        }
    }
    false
}

/// Says what a checkpoint of `torch.save` holds, by the classes that its pickle names. The pickle is not run.
fn of_checkpoint(pickle: &[u8], format: &str) -> Recognized {
    let of_libraries = ["torch", "collections", "__builtin__", "builtins", "numpy", "_codecs", "copyreg"];
    let classes = classes(pickle);
    let is_of_libraries = |module: &str| of_libraries.contains(&module.split('.').next().unwrap_or_default());
    let own: Vec<String> = classes
        .iter()
        .filter(|(module, _)| !is_of_libraries(module))
        .take(MAX_NAMED)
        .map(|(module, name)| format!("`{module}.{name}`"))
        .collect();
    let modules =
        classes.iter().any(|(module, _)| module.starts_with("torch.nn.modules") || module.starts_with("torch.fx"));
    let export = "on a machine where you trust it, load it with its code, and save it with `torch.jit.script(model).save(\"NAME.pt\")` or \
                  `torch.export.save(torch.export.export(model, EXAMPLE), \"NAME.pt2\")`, which hold their code, and pack that. Or put it \
                  beside a module `main.py` with a function `get_model` that makes the model and loads the weights, and pack the folder: \
                  `carton pack FOLDER --runner python`";
    if own.is_empty() && !modules {
        return Recognized::NotRun {
            kind: format!("weights of PyTorch without a model (`torch.save`, {format})"),
            hint: format!("the class of the model and its code are missing: {export}"),
        };
    }
    let what = if own.is_empty() { "its code is".to_owned() } else { format!("the code of {} is", own.join(", ")) };
    Recognized::NotRun {
        kind: format!("a pickled object of PyTorch (`torch.save`, {format})"),
        hint: format!("a pickle is a program, and {what} not in it: {export}"),
    }
}

/// Returns the classes that a pickle names, without running it: its instructions are passed over one by one. What follows an instruction that
/// does not exist, or is cut off, is not looked at. A checkpoint from before PyTorch 1.6 has several pickles, one after the other.
fn classes(pickle: &[u8]) -> BTreeSet<(String, String)> {
    const MAX_CLASSES: usize = 1000;
    const STOP: u8 = b'.';
    const PROTOCOL: u8 = 0x80;
    let mut found = BTreeSet::new();
    let mut rest = pickle;
    // The last two texts, which the instruction for a class of protocol 4 takes.
    let mut texts: [Option<&[u8]>; 2] = [None, None];
    while let Some((&instruction, after)) = rest.split_first() {
        let Some((argument, next)) = argument(instruction, after) else { break };
        let class = match instruction {
            b'c' | b'i' => {
                let mut lines = argument.split(|byte| *byte == b'\n');
                lines.next().zip(lines.next())
            }
            0x93 => texts[0].zip(texts[1]),
            _ => None,
        };
        if let Some((module, name)) = class.and_then(|(module, name)| dotted(module).zip(dotted(name))) {
            found.insert((module, name));
        }
        if matches!(instruction, b'X' | 0x8c | 0x8d | b'U') {
            texts = [texts[1], Some(argument)];
        }
        if found.len() == MAX_CLASSES || instruction == STOP && next.first() != Some(&PROTOCOL) {
            break;
        }
        rest = next;
    }
    found
}

/// Returns the argument of an instruction of a pickle, and what follows it.
fn argument(instruction: u8, rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let lines = |n_lines: usize| {
        let end = memchr::memchr_iter(b'\n', rest).nth(n_lines - 1)?;
        rest.split_at_checked(end + 1)
    };
    // The length of the argument, in so many bytes.
    let counted = |n_bytes: usize| {
        let (length, rest) = rest.split_at_checked(n_bytes)?;
        let length = length.iter().rev().fold(0_u64, |length, byte| length << 8 | u64::from(*byte));
        rest.split_at_checked(usize::try_from(length).ok()?)
    };
    match instruction {
        b'c' | b'i' => lines(2),
        b'I' | b'L' | b'F' | b'S' | b'V' | b'g' | b'p' | b'P' => lines(1),
        b'K' | b'h' | b'q' | 0x80 | 0x82 => rest.split_at_checked(1),
        b'M' | 0x83 => rest.split_at_checked(2),
        b'J' | b'j' | b'r' | 0x84 => rest.split_at_checked(4),
        b'G' | 0x95 => rest.split_at_checked(8),
        b'U' | b'C' | 0x8a | 0x8c => counted(1),
        b'T' | b'X' | b'B' | 0x8b => counted(4),
        0x8d | 0x8e | 0x96 => counted(8),
        b'('
        | b')'
        | b'.'
        | b'0'
        | b'1'
        | b'2'
        | b'N'
        | b'Q'
        | b'R'
        | b'a'
        | b'b'
        | b'd'
        | b'e'
        | b'l'
        | b'o'
        | b's'
        | b't'
        | b'u'
        | b']'
        | b'}'
        | 0x81
        | 0x85..=0x89
        | 0x8f..=0x94
        | 0x97
        | 0x98 => Some((&[], rest)),
        _ => None,
    }
}

fn dotted(line: &[u8]) -> Option<String> {
    let starts = line.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let is_name = line.len() <= 200 && line.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(byte));
    (starts && is_name).then(|| String::from_utf8_lossy(line).into_owned())
}
