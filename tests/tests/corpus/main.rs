//! The conformance corpus of the specification (spec/conformance): our readers report the corpus's result for each case.

#![allow(clippy::unwrap_used, clippy::panic)]

mod cartons;
mod datasets;
mod tensor_files;
mod weights;

use std::error::Error;
use std::path::PathBuf;

use serde_json::Value;

/// The result of a reader: the object `reads` of a case, or one of the reasons of spec/conformance/README.md with the error's text.
pub(crate) type Said = Result<Value, Refusal>;

/// The reason why a reader refuses a file.
pub(crate) struct Refusal {
    pub(crate) reason: &'static str,
    pub(crate) text: String,
}

/// A case of the corpus.
pub(crate) struct Case {
    /// The name of its file or folder.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Its JSON.
    pub(crate) description: Value,
}

fn cases(group: &str) -> Vec<Case> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../spec/conformance")).join(group);
    let mut cases: Vec<Case> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|description| {
            let path = description.with_extension("");
            Case {
                name: path.file_name().unwrap().to_str().unwrap().to_owned(),
                description: serde_json::from_slice(&std::fs::read(description).unwrap()).unwrap(),
                path,
            }
        })
        .collect();
    cases.sort_by(|one, other| one.name.cmp(&other.name));
    cases
}

/// Whether an error's text cites one of the sections of a page that a case is about.
pub(crate) fn cites(case: &Case, text: &str) -> bool {
    let sections = case.description["shows"].as_array().into_iter().flatten();
    sections.filter_map(|rule| rule["section"].as_str()).any(|section| {
        text.match_indices('§').any(|(at, sign)| {
            let cited = &text[at + sign.len()..];
            let rest = cited.strip_prefix(section).map(|rest| rest.strip_prefix('.').unwrap_or(rest));
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
        })
    })
}

/// Formats an error and its causes on one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Checks a reader on the cases of a group. `differing` lists cases for which the reader gives another reason than the corpus, with
/// that reason.
pub(crate) fn check(group: &str, differing: &[(&str, &str)], mut reader: impl FnMut(&Case) -> Said) {
    let cases = cases(group);
    let mut wrong = Vec::new();
    for case in &cases {
        let (reads, refused) = (case.description.get("reads"), case.description.get("refused"));
        let other = differing.iter().find(|(name, _)| *name == case.name).map(|(_, reason)| *reason);
        let expected = other.or_else(|| refused.and_then(Value::as_str));
        match reader(case) {
            Ok(said) if reads == Some(&said) => {}
            Err(refusal) if expected == Some(refusal.reason) => {}
            Ok(said) => wrong.push(format!("{}: found {said}, expected {:?}", case.name, reads.or(refused))),
            Err(Refusal { reason, text }) => {
                let expected = refused.or(reads);
                wrong.push(format!("{}: refused ({reason}: {text}), expected {expected:?}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    for (name, _) in differing {
        assert!(cases.iter().any(|case| case.name == *name), "there is no case {name}");
    }
    assert!(!cases.is_empty(), "there are no cases of {group}");
}
