//! `carton tensor verify`: checks the rules of a file's format, and the digests in it.

use std::path::PathBuf;

use carton_tensor_files::{DeepFindings, VerifyOptions, verify};

use super::Context;
use crate::args::TensorVerifyArgs;
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::Role;
use crate::text::{byte_size, count, one_line};

pub(super) async fn run(arguments: TensorVerifyArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let path: PathBuf = arguments.source.source.clone();
    // Opening a malformed file fails here, with the same exit code.
    let source = super::open_source(arguments.source, context).await?;
    if source.file().is_none() {
        output
            .note("only the tensors of self-tests and examples are read: `carton verify` checks all files of a carton");
    }
    let progress = output.progress().clone();
    let mut options = VerifyOptions::default();
    options.deep = arguments.deep;
    let report = interrupt::blocking(move |token| Ok(verify(&source, &options, &progress.context(token))?)).await?;
    output.progress().finish();
    let exit = match (report.problems.is_empty(), report.unchecked.is_empty()) {
        (false, _) => Exit::Integrity,
        (true, false) => Exit::Failure,
        (true, true) => Exit::Ok,
    };
    if output.is_json() {
        output.json(&report)?;
        return Ok(exit);
    }
    let bad = |problem: &String| format!("{} {}\n", output.paint(Role::Bad, "BAD"), one_line(problem));
    let mut text: String = report.problems.iter().map(bad).collect();
    for unchecked in &report.unchecked {
        text.push_str(&format!("{} {}\n", output.paint(Role::Notice, "UNCHECKED"), one_line(unchecked)));
    }
    let deep = report.deep.as_ref().map(DeepFindings::lines).unwrap_or_default();
    let notes: Vec<&String> = report.findings.iter().chain(&deep).collect();
    for finding in &notes {
        text.push_str(&format!("{} {}\n", output.paint(Role::Notice, "NOTE"), one_line(finding)));
    }
    let path = one_line(&path.display().to_string());
    if report.passed {
        let digests = match report.digests {
            0 => "no digests".to_owned(),
            digests => format!("{} right", count(digests, "digest")),
        };
        let notes = match notes.len() {
            0 => String::new(),
            notes => format!("; {}, no damage", count(notes, "note")),
        };
        let (tensors, bytes) = (count(report.tensors, "tensor"), byte_size(report.bytes));
        text.push_str(&format!("{} {path}: {tensors}, {bytes}, {digests}{notes}\n", output.paint(Role::Good, "OK")));
    } else {
        let unchecked = match report.unchecked.len() {
            0 => String::new(),
            unchecked => format!(", {unchecked} not checked"),
        };
        text.push_str(&format!("{path}: {}{unchecked}\n", count(report.problems.len(), "problem")));
    }
    output.text(&text)?;
    Ok(exit)
}
