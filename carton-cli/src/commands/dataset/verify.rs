//! `carton dataset verify`: compares the manifest with the files.

use carton_core::CancelToken;
use carton_dataset::{Checks, Finding, Verification, verify};
use serde::Serialize;

use super::{Context, failure};
use crate::args::DatasetVerifyArgs;
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::Role;
use crate::text::{count, one_line};

/// The output of `--json`.
#[derive(Serialize)]
struct Report<'a> {
    passed: bool,
    samples: u64,
    n_shards: u64,
    findings: Vec<JsonFinding<'a>>,
    /// The number of findings that are not listed.
    omitted: u64,
}

#[derive(Serialize)]
struct JsonFinding<'a> {
    kind: &'static str,
    file: &'a str,
    problem: &'a str,
}

impl<'a> From<&'a Finding> for JsonFinding<'a> {
    fn from(finding: &'a Finding) -> Self {
        Self { kind: finding.category.name(), file: &finding.file, problem: &finding.problem }
    }
}

pub(super) async fn run(arguments: DatasetVerifyArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let path = arguments.dataset.dataset;
    let checks = if arguments.sizes { Checks::Sizes } else { Checks::Headers };
    let (folder, progress) = (path.clone(), output.progress().clone());
    let verify = move |token: &CancelToken| verify(&folder, checks, &progress.context(token)).map_err(failure);
    let verification = interrupt::blocking(verify).await?;
    output.progress().finish();
    let exit = if verification.is_sound() { Exit::Ok } else { Exit::Integrity };
    let Verification { findings, n_omitted, n_shards, n_samples, .. } = &verification;
    if output.is_json() {
        let findings = findings.iter().map(JsonFinding::from).collect();
        let passed = verification.is_sound();
        output.json(&Report { passed, samples: *n_samples, n_shards: *n_shards, findings, omitted: *n_omitted })?;
        return Ok(exit);
    }
    let bad = |finding: &Finding| format!("{} {}\n", output.paint(Role::Bad, "BAD"), one_line(&finding.to_string()));
    let mut text: String = findings.iter().map(bad).collect();
    let path = one_line(&path.display().to_string());
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    if verification.is_sound() {
        let (samples, shards) = (count(number(*n_samples), "sample"), count(number(*n_shards), "shard"));
        text.push_str(&format!("{} {path}: {samples} in {shards}\n", output.paint(Role::Good, "OK")));
    } else {
        let problems = findings.len().saturating_add(number(*n_omitted));
        text.push_str(&format!("{path}: {}\n", count(problems, "problem")));
    }
    output.text(&text)?;
    Ok(exit)
}
