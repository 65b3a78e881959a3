//! Models of XGBoost: JSON, UBJSON, and the binary format of versions before 3.1.

use crate::candidate::Candidate;
use crate::template::python_text;
use crate::{Recognized, Template, TemplateError};

/// Recognizes a model by the key `learner`, with which XGBoost begins both of its formats.
pub(crate) fn recognize(candidate: &Candidate) -> Result<Option<Recognized>, TemplateError> {
    let start = candidate.start();
    let (format, requirement) = if is_json(start) {
        ("JSON", "xgboost>=1.3")
    } else if start.starts_with(b"{L\0\0\0\0\0\0\0\x07learner") {
        ("UBJSON", "xgboost>=1.6")
    } else if start.starts_with(b"binf") {
        ("binary format", "xgboost<3.1")
    } else {
        return Ok(None);
    };
    let name = candidate.file_name();
    Ok(Some(Recognized::Template(Template {
        name: "xgboost",
        kind: format!("an XGBoost model ({format})"),
        source: include_str!("../templates/xgboost/main.py"),
        constants: vec![("MODEL", python_text(&name))],
        requirements: vec![requirement.to_owned()],
        files: vec![(name, candidate.path().to_path_buf())],
        warnings: Vec::new(),
    })))
}

fn is_json(start: &[u8]) -> bool {
    let mut rest = start.iter().filter(|byte| !byte.is_ascii_whitespace());
    b"{\"learner\":{".iter().all(|expected| rest.next() == Some(expected))
}
