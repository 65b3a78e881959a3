//! `carton verify`: checks every file against the manifest.

use carton_core::trust::SigningStatus;
use carton_core::{ManifestHash, Verify, VerifyReport};
use serde::Serialize;

use super::info::signing_line;
use super::{Context, open, set, warn_each};
use crate::args::ModelArgs;
use crate::failure::{Exit, Failure, causes_in_one_line};
use crate::output::Role;
use crate::text::{byte_size, count, one_line};

#[derive(Serialize)]
struct Report {
    passed: bool,
    manifest_sha256: Option<ManifestHash>,
    /// The number of files that were checked.
    checked: usize,
    /// Their size in bytes.
    bytes: u64,
    bad_files: Vec<BadFile>,
    /// Files that are not on this machine and could not be checked.
    not_fetched: Vec<String>,
    warnings: Vec<String>,
    /// What was found out about who signed it; `None` if it was not looked for.
    signing: Option<SigningStatus>,
}

#[derive(Serialize)]
struct BadFile {
    path: String,
    error: String,
}

pub(super) async fn run(model: ModelArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let package = open::open_with_signing(&model, true, context).await?;
    let oddities = package.oddities();
    let report = set(package.verify(), open::progress(context), Verify::progress).await?;
    output.progress().finish();

    let mut report = Report::from(report);
    report.signing = package.signing_status().cloned();
    let is_broken = matches!(report.signing, Some(SigningStatus::Untrusted { is_broken: true, .. }));
    report.passed &= !is_broken;
    report.warnings.splice(..0, oddities.iter().map(ToString::to_string));
    let exit = match (report.bad_files.is_empty(), report.not_fetched.is_empty()) {
        _ if is_broken => Exit::Integrity,
        (true, true) => Exit::Ok,
        // No file is known to be wrong, but not all were checked.
        (true, false) => Exit::Network,
        (false, _) => Exit::Integrity,
    };
    if output.is_json() {
        output.json(&report)?;
        return Ok(exit);
    }
    warn_each(report.warnings.iter().cloned(), output);
    for path in &report.not_fetched {
        output.warning(&format!("`{}` is not here, so it was not checked", one_line(path)));
    }
    let mut text = String::new();
    for file in &report.bad_files {
        // Most errors name the file themselves.
        let named = if file.error.contains(&file.path) { String::new() } else { format!("{}: ", file.path) };
        text.push_str(&format!("{} {}\n", output.paint(Role::Bad, "BAD"), one_line(&format!("{named}{}", file.error))));
    }
    let files = count(report.checked, "file");
    if report.bad_files.is_empty() && report.not_fetched.is_empty() {
        let good = output.paint(Role::Good, "OK");
        text.push_str(&format!("{good} {files}, {}, all match the manifest\n", byte_size(report.bytes)));
    } else if exit == Exit::Network {
        let unchecked = count(report.not_fetched.len(), "file");
        text.push_str(&format!("{files} match the manifest, {unchecked} could not be checked without the network\n"));
    } else {
        text.push_str(&format!("{} of {files} do not match the manifest\n", report.bad_files.len()));
    }
    match &report.signing {
        None | Some(SigningStatus::Unsigned { .. }) => {}
        Some(status) => {
            let role = if status.is_trusted() { Role::Good } else { Role::Bad };
            text.push_str(&format!("{} {}\n", output.paint(role, "SIGNED"), signing_line(status)));
        }
    }
    output.text(&text)?;
    Ok(exit)
}

impl From<VerifyReport> for Report {
    fn from(report: VerifyReport) -> Self {
        Self {
            passed: report.is_good() && report.not_fetched.is_empty(),
            manifest_sha256: report.manifest_sha256,
            checked: report.n_files,
            bytes: report.n_bytes,
            bad_files: report
                .bad
                .into_iter()
                .map(|file| BadFile { path: file.path, error: causes_in_one_line(&file.error) })
                .collect(),
            not_fetched: report.not_fetched,
            warnings: report.warnings,
            signing: None,
        }
    }
}
