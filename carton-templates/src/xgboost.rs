//! Models of XGBoost: JSON, UBJSON, and the binary format of versions before 3.1.

use memchr::memmem;

use crate::candidate::Candidate;
use crate::template::python_text;
use crate::{Recognized, Template, TemplateError};

/// The oldest release of `xgboost-cpu`. It reads the files of all versions before it.
const OLDEST: [u64; 3] = [2, 1, 1];
/// How far from the end of a file its version is looked for, or, in the binary format, its attributes.
const END: u64 = 16 << 10;
/// The size of the parameters that the binary format begins with.
const PARAMETERS: usize = 136;

/// Recognizes a model by the keys `learner` and below it `attributes` or `feature_names`, with which XGBoost begins JSON and UBJSON, or by the
/// names of objective and booster behind the parameters of the binary format.
pub(crate) fn recognize(candidate: &Candidate) -> Result<Option<Recognized>, TemplateError> {
    let start = candidate.start();
    let (format, version, attributes) = if is_json(start) {
        ("JSON", version_of_json(&candidate.end(END)?), start.to_vec())
    } else if is_ubjson(start) {
        ("UBJSON", version_of_ubjson(&candidate.end(END)?), start.to_vec())
    } else if is_binary(start) {
        ("binary format", None, candidate.end(END)?)
    } else {
        return Ok(None);
    };
    let is_binary = format == "binary format";
    let kind = match version {
        Some([major, minor, patch]) => format!("an XGBoost model ({format}, version {major}.{minor}.{patch})"),
        None => format!("an XGBoost model ({format})"),
    };
    // A file that a newer version wrote is not for an older one.
    let [major, minor, patch] = version.unwrap_or(OLDEST).max(OLDEST);
    let limit = if is_binary { ",<3.1" } else { "" };
    let mut requirements = requirements_of(&format!(">={major}.{minor}.{patch}{limit}"));
    let estimator = estimator_of(&attributes);
    if !estimator.is_empty() {
        requirements.push("scikit-learn".to_owned());
    }
    let mut warnings = Vec::new();
    if estimator.is_empty() && memmem::find(&attributes, b"best_iteration").is_some() {
        warnings.push(
            "the training was stopped early, and all rounds are used, as `Booster.predict` does; set `ITERATIONS` in main.py to \
             the rounds up to the best one"
                .to_owned(),
        );
    }
    if is_binary {
        warnings.push(
            "XGBoost 3.1 and newer do not read this format; save the model as JSON or UBJSON by a version before"
                .to_owned(),
        );
    }
    let name = candidate.name_beside_module();
    Ok(Some(Recognized::Template(Template {
        name: "xgboost",
        kind,
        source: include_str!("../templates/xgboost/main.py"),
        constants: vec![("MODEL", python_text(&name)), ("ESTIMATOR", python_text(estimator))],
        requirements,
        python: None,
        files: vec![(name, candidate.path().to_path_buf())],
        warnings,
    })))
}

/// Returns the lines of `requirements.txt` for XGBoost of the versions `versions`: the build without CUDA, which needs 250 MB less. It has no
/// wheels for macOS, where the other build has no CUDA either.
pub(crate) fn requirements_of(versions: &str) -> Vec<String> {
    vec![
        format!("xgboost-cpu{versions} ; sys_platform != \"darwin\""),
        format!("xgboost{versions} ; sys_platform == \"darwin\""),
    ]
}

fn is_json(start: &[u8]) -> bool {
    let compact: Vec<u8> = start.iter().take(1024).copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let Some(rest) = compact.strip_prefix(b"{\"learner\":{") else {
        return false;
    };
    [b"\"attributes\":{".as_slice(), b"\"feature_names\":[", b"\"gradient_booster\":{", b"\"learner_model_param\":{"]
        .iter()
        .any(|key| rest.starts_with(key))
}

fn is_ubjson(start: &[u8]) -> bool {
    start.starts_with(b"{L\0\0\0\0\0\0\0\x07learner{L")
}

fn is_binary(start: &[u8]) -> bool {
    let start = start.strip_prefix(b"binf").unwrap_or(start);
    let text_at = |place: usize| {
        let (length, rest) = start.get(place..)?.split_first_chunk()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok().filter(|length| *length <= 64)?;
        Some((rest.get(..length)?, place + 8 + length))
    };
    let Some((objective, place)) = text_at(PARAMETERS) else {
        return false;
    };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b":_-.".contains(byte);
    objective.iter().all(is_name)
        && text_at(place).is_some_and(|(booster, _)| [b"gbtree".as_slice(), b"gblinear", b"dart"].contains(&booster))
}

/// Returns the name of the class of the scikit-learn interface that saved the file, or nothing. It is in an attribute, JSON in JSON.
fn estimator_of(attributes: &[u8]) -> &'static str {
    let Some(place) = memmem::find(attributes, b"scikit_learn") else {
        return "";
    };
    let near = &attributes[place..attributes.len().min(place + 4096)];
    let Some(place) = memmem::find(near, b"_estimator_type") else {
        return "";
    };
    let mut words = near[place..].split(|byte| !byte.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    match words.find(|word| ![b"estimator".as_slice(), b"type"].contains(word)) {
        Some(b"classifier") => "XGBClassifier",
        Some(b"regressor") => "XGBRegressor",
        Some(b"ranker") => "XGBRanker",
        _ => "",
    }
}

/// Returns the version at the end of a model in JSON: `"version":[3,1,1]}`.
fn version_of_json(end: &[u8]) -> Option<[u64; 3]> {
    let place = memmem::rfind(end, b"\"version\"")?;
    let rest = end[place..].splitn(2, |byte| *byte == b'[').nth(1)?;
    let list = rest.split(|byte| *byte == b']').next()?;
    let mut numbers = list.split(|byte| *byte == b',').map(|part| str::from_utf8(part).ok()?.trim().parse().ok());
    let mut next = || numbers.next().flatten().filter(|number| *number < 10_000);
    Some([next()?, next()?, next()?])
}

/// Returns the last version in the end of a model in UBJSON: the text `version`, and an array of three integers of one byte.
pub(crate) fn version_of_ubjson(end: &[u8]) -> Option<[u64; 3]> {
    const ARRAY: &[u8] = b"version[#L\0\0\0\0\0\0\0\x03";
    let place = memmem::rfind(end, ARRAY)? + ARRAY.len();
    match end.get(place..place + 6)? {
        [b'i', major, b'i', minor, b'i', patch] => Some([major, minor, patch].map(|number| u64::from(*number))),
        _ => None,
    }
}
