//! Pipelines of spaCy: folders with `meta.json` and `config.cfg`.

use serde_json::{Map, Value};

use crate::candidate::Candidate;
use crate::template::python_text;
use crate::text::{plain_requirement, printable};
use crate::{Recognized, Template, TemplateError};

/// The folder of the pipeline beside `main.py`.
const FOLDER: &str = "pipeline";
/// Languages whose tokenizers are in packages that spaCy names as extras.
const WITH_EXTRA: [&str; 3] = ["ja", "ko", "th"];

/// Recognizes a folder by the version of spaCy in its `meta.json`.
pub(crate) fn recognize(candidate: &Candidate) -> Result<Option<Recognized>, TemplateError> {
    if !candidate.has("config.cfg") {
        return Ok(None);
    }
    let Some(meta) = candidate.read_json("meta.json")? else { return Ok(None) };
    let text = |key: &str| meta.get(key).and_then(Value::as_str);
    let (Some(version), Some(language)) = (text("spacy_version"), text("lang")) else { return Ok(None) };
    let malformed = |problem: String| TemplateError::Malformed {
        path: candidate.path().to_path_buf(),
        kind: "a pipeline of spaCy",
        problem,
        hint: Some("save it again with `nlp.to_disk(FOLDER)`".to_owned()),
    };
    let extra = if WITH_EXTRA.contains(&language) { format!("[{language}]") } else { String::new() };
    let spacy = plain_requirement(&format!("spacy{extra}{version}"));
    let Some(spacy) = spacy.filter(|_| version.is_empty() || version.starts_with(['<', '>', '=', '~', '!'])) else {
        return Err(malformed(format!(
            "its `meta.json` has a version of spaCy that is none: `{}`",
            printable(version)
        )));
    };
    let mut requirements = vec![spacy];
    if is_before_3_8(version) {
        // What these versions need, and do not say: they were compiled for NumPy 1, and use `click` itself.
        requirements.extend(["numpy<2".to_owned(), "click".to_owned()]);
    }
    for line in texts(&meta, "requirements") {
        let requirement = plain_requirement(line);
        requirements.push(requirement.ok_or_else(|| {
            malformed(format!(
                "its `meta.json` requires what is no name and version of a package: `{}`",
                printable(line)
            ))
        })?);
    }
    let components: Vec<&str> = texts(&meta, "pipeline").collect();
    let shown = if components.is_empty() { "no components".to_owned() } else { printable(&components.join(", ")) };
    let mut files = Vec::new();
    for name in candidate.entries().iter().filter(|name| !name.starts_with('.')) {
        files.push((format!("{FOLDER}/{name}"), candidate.path().join(name)));
    }
    Ok(Some(Recognized::Template(Template {
        name: "spacy",
        kind: format!("a pipeline of spaCy ({}: {shown})", printable(language)),
        source: include_str!("../templates/spacy/main.py"),
        constants: vec![("MODEL", python_text(FOLDER))],
        requirements,
        python: None,
        files,
        warnings: Vec::new(),
    })))
}

/// Whether all versions of spaCy that a requirement such as `>=3.7.2,<3.8.0` or `==3.7.5` allows are before 3.8.
fn is_before_3_8(version: &str) -> bool {
    version.split(',').any(|part| {
        let part = part.trim();
        let bound = part.trim_start_matches(['<', '=', '~']);
        let numbers: Vec<u32> = bound.split('.').map_while(|number| number.trim().parse().ok()).take(3).collect();
        match &part[..part.len() - bound.len()] {
            "<" => numbers <= vec![3, 8, 0],
            "<=" | "==" | "===" | "~=" => !numbers.is_empty() && numbers < vec![3, 8],
            _ => false,
        }
    })
}

fn texts<'a>(meta: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    meta.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}
