//! Models of LightGBM: the text of `Booster.save_model`.

use crate::candidate::Candidate;
use crate::template::python_text;
use crate::{Recognized, Template, TemplateError};

/// Recognizes a model by its first lines, `tree` and `version=v…`. What `Booster.dump_model` returns is known too, and LightGBM does not read it.
pub(crate) fn recognize(candidate: &Candidate) -> Result<Option<Recognized>, TemplateError> {
    let start = candidate.start();
    let compact: Vec<u8> = start.iter().take(256).copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    if compact.starts_with(b"{\"name\":\"tree\",\"version\":\"v") {
        return Ok(Some(Recognized::NotRun {
            kind: "a dump of a LightGBM model (JSON)".to_owned(),
            hint: "LightGBM does not load what `dump_model` returns; save the model by `booster.save_model(\"model.txt\")`".to_owned(),
        }));
    }
    let mut lines = start.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    if lines.next() != Some(b"tree") {
        return Ok(None);
    }
    let Some(version) = lines.next().and_then(|line| line.strip_prefix(b"version=v")) else {
        return Ok(None);
    };
    if version.is_empty() || version.len() > 4 || !version.iter().all(u8::is_ascii_digit) {
        return Ok(None);
    }
    // LightGBM reads beyond the end of a text that was cut off. Versions 3 and 4 have this line behind the trees.
    let has_end = !matches!(version, b"3" | b"4") || candidate.contains(b"\nend of trees")?;
    if !has_end {
        return Err(TemplateError::Malformed {
            path: candidate.path().to_path_buf(),
            kind: "a LightGBM model",
            problem: "it is cut off: its line `end of trees` is missing".to_owned(),
            hint: Some("copy or download the file again".to_owned()),
        });
    }
    let name = candidate.name_beside_module();
    Ok(Some(Recognized::Template(Template {
        name: "lightgbm",
        kind: format!("a LightGBM model (text, version v{})", String::from_utf8_lossy(version)),
        source: include_str!("../templates/lightgbm/main.py"),
        constants: vec![("MODEL", python_text(&name))],
        // Version 4 writes v4, and reads all before it.
        requirements: vec!["lightgbm>=4".to_owned()],
        python: None,
        files: vec![(name, candidate.path().to_path_buf())],
        warnings: Vec::new(),
    })))
}
