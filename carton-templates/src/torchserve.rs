//! Archives of TorchServe (`.mar`): a manifest in `MAR-INF`, the files of a model, and the handler that answers requests.

use serde_json::Value;

use crate::candidate::Candidate;
use crate::template::python_text;
use crate::text::printable;
use crate::{Recognized, Template, TemplateError};

/// The packages that TorchServe imports and does not ask for.
const NEEDED: [&str; 3] = ["torchserve>=0.12", "torch", "pyyaml"];
/// The longest list of packages, in bytes, as the python runner has it.
const MAX_LIST: usize = 1 << 20;
/// What the handlers that TorchServe has for images and texts import besides.
const OF_HANDLERS: [&str; 2] = ["torchvision", "captum"];
/// The names of these handlers, which are those of their modules.
const HANDLERS: [&str; 5] =
    ["image_classifier", "image_segmenter", "object_detector", "vision_handler", "text_classifier"];

/// Recognizes an archive by its manifest.
pub(crate) fn recognize(candidate: &Candidate) -> Result<Option<Recognized>, TemplateError> {
    let Some(manifest) = candidate.read_entry_json("MAR-INF/MANIFEST.json") else { return Ok(None) };
    let Some(model) = manifest.get("model").and_then(Value::as_object) else { return Ok(None) };
    let text = |key: &str| model.get(key).and_then(Value::as_str);
    let kind = "an archive of TorchServe (.mar)".to_owned();
    let Some(handler) = text("handler") else {
        let hint = "its manifest names no handler, which answers the requests: make it again by torch-model-archiver"
            .to_owned();
        return Ok(Some(Recognized::NotRun { kind, hint }));
    };
    // `FILE.py`, `FILE.py:FUNCTION`, or the name of one of TorchServe's own.
    let file = handler.split(':').next().unwrap_or(handler);
    let file = if file.ends_with(".py") { file.to_owned() } else { format!("{file}.py") };
    let code = candidate.read_entry(file.rsplit('/').next().unwrap_or(&file));
    let code = code.map_or_else(|| handler.to_owned(), |code| String::from_utf8_lossy(&code).into_owned());
    let is_of_torchserve = HANDLERS.iter().any(|name| code.contains(name));
    let needed = NEEDED.iter().chain(OF_HANDLERS.iter().filter(|_| is_of_torchserve));
    let mut requirements: Vec<String> = needed.map(|&name| name.to_owned()).collect();
    let list = model.get("requirementsFile");
    if let Some(list) = list {
        let listed =
            list.as_str().and_then(|name| candidate.read_entry(name)).filter(|listed| listed.len() <= MAX_LIST);
        let Some(listed) = listed else {
            return Err(TemplateError::Malformed {
                path: candidate.path().to_path_buf(),
                kind: "an archive of TorchServe",
                problem: format!(
                    "its manifest names `{}` as the list of packages, which is no file of at most {MAX_LIST} bytes in it",
                    list.as_str().map_or_else(|| printable(&list.to_string()), printable)
                ),
                hint: Some("make it again by `torch-model-archiver --requirements-file`".to_owned()),
            });
        };
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let is_package = |line: &&str| !line.is_empty() && !line.starts_with('#');
        requirements.extend(listed.lines().map(str::trim).filter(is_package).map(str::to_owned));
    }
    let unknown = if list.is_some() { "" } else { ", nor the packages of its handler" };
    let name = candidate.name_beside_module();
    Ok(Some(Recognized::Template(Template {
        name: "torchserve",
        kind: format!("{kind} with the handler {}", printable(handler)),
        source: include_str!("../templates/torchserve/main.py"),
        constants: vec![("MODEL", python_text(&name))],
        requirements,
        python: None,
        files: vec![(name, candidate.path().to_path_buf())],
        warnings: vec![format!(
            "the archive does not say which PyTorch it was made with{unknown}: the newest is taken"
        )],
    })))
}
