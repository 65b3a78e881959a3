//! Models of CatBoost: `cbm`, and its JSON.

use memchr::memmem;

use crate::candidate::Candidate;
use crate::template::python_text;
use crate::version::Version;
use crate::{Recognized, Template, TemplateError};

/// The oldest version of the package with wheels for today's interpreters.
const OLDEST: [u64; 2] = [1, 2];
/// How far from the end of a file its version is looked for.
const END: u64 = 256 << 10;
/// The keys of the JSON, in their order. The first of those that the model has is at the start.
const KEYS: [&[u8]; 2] = [b"{\"features_info\":{", b"{\"ctr_data\":{"];

/// Recognizes a model by `CBM1`, with which the format begins, or by the first key of the JSON.
pub(crate) fn recognize(candidate: &Candidate) -> Result<Option<Recognized>, TemplateError> {
    let start = candidate.start();
    let (format, title) = if start.starts_with(b"CBM1") {
        ("cbm", "cbm")
    } else {
        let compact: Vec<u8> = start.iter().take(1024).copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
        if !KEYS.iter().any(|key| compact.starts_with(key)) {
            return Ok(None);
        }
        ("json", "JSON")
    };
    let version = match version_of(start) {
        Some(version) => Some(version),
        None => version_of(&candidate.end(END)?),
    };
    let kind = match &version {
        Some(version) => format!("a CatBoost model ({title}, version {version})"),
        None => format!("a CatBoost model ({title})"),
    };
    let least = version
        .filter(|version| version.release() > OLDEST.as_slice())
        .map_or_else(|| "1.2".to_owned(), |it| it.to_string());
    let name = candidate.name_beside_module();
    Ok(Some(Recognized::Template(Template {
        name: "catboost",
        kind,
        source: include_str!("../templates/catboost/main.py"),
        constants: vec![("MODEL", python_text(&name)), ("FORMAT", python_text(format))],
        requirements: vec![format!("catboost>={least}")],
        python: None,
        files: vec![(name, candidate.path().to_path_buf())],
        warnings: Vec::new(),
    })))
}

/// Returns the version of the tag that CatBoost was built from, if the file names it: only some builds do.
fn version_of(bytes: &[u8]) -> Option<Version> {
    const TAG: &[u8] = b"Branch: tags/v";
    let rest = &bytes[memmem::find(bytes, TAG)? + TAG.len()..];
    let length = rest.iter().position(|byte| !(byte.is_ascii_digit() || *byte == b'.'))?;
    Version::parse(str::from_utf8(&rest[..length]).ok()?)
}
