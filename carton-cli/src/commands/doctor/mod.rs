//! `carton doctor`: looks at what this machine lacks, and names the command that mends it.
//!
//! Each module examines one part and returns findings; the facts come from `carton_core`. Nothing is installed and nothing
//! repaired: a cache that is not there is not made.

mod cache;
mod finding;
mod machine;
mod runners;
mod sandbox;

use std::path::Path;

use carton_core::Config;
use serde::Serialize;

use super::warn_each;
use crate::args::{DoctorArgs, GlobalArgs};
use crate::failure::{Exit, Failure};
use crate::output::{Align, Output, Table};
use finding::{Finding, Status};

#[derive(Serialize)]
struct Report<'a> {
    /// Whether no finding is `bad`.
    healthy: bool,
    findings: &'a [Finding],
}

/// `carton doctor`. Reads the configuration itself, because an invalid one is a finding.
pub(super) async fn run(arguments: DoctorArgs, global: &GlobalArgs, output: &Output) -> Result<Exit, Failure> {
    let (config, mut findings) = configuration(global, output);
    findings.push(machine::processes());
    findings.push(machine::shared_memory());
    findings.extend(sandbox::findings(config.as_ref()));
    if let Some(config) = &config {
        findings.extend(cache::findings(config, arguments.full).await?);
        findings.extend(runners::findings(config).await);
    }
    findings.push(machine::uv());
    findings.push(machine::gpus());
    output.progress().finish();
    let healthy = findings.iter().all(|finding| finding.status != Status::Bad);
    if output.is_json() {
        output.json(&Report { healthy, findings: &findings })?;
    } else {
        output.text(&lines(&findings, output))?;
    }
    Ok(if healthy { Exit::Ok } else { Exit::Failure })
}

/// Reads the configuration. Without a valid one, only what does not depend on it is examined.
fn configuration(global: &GlobalArgs, output: &Output) -> (Option<Config>, Vec<Finding>) {
    const CHECK: &str = "configuration";
    let mut unknown = Vec::new();
    let mut report = |path: &Path, key: &_| unknown.push(format!("configuration `{}`, {key}", path.display()));
    let config = Config::load_reporting(global.config.as_deref(), &mut report);
    let n_unknown = unknown.len();
    warn_each(unknown.into_iter(), output);
    let finding = match &config {
        Ok(_) if n_unknown > 0 => Finding::warning(CHECK, "it has keys that mean nothing"),
        Ok(_) => Finding::ok(CHECK, "valid"),
        Err(error) => {
            Finding::bad(CHECK, crate::failure::causes_in_one_line(error)).advice("correct the file or the variable")
        }
    };
    let mut config = config.ok();
    if let Some(config) = &mut config {
        config.offline |= global.offline;
    }
    (config, vec![finding])
}

fn lines(findings: &[Finding], output: &Output) -> String {
    let mut table = Table::new(&[Align::Left; 3]);
    for finding in findings {
        table.row([finding.status.name().to_owned(), finding.check.clone(), finding.line()]);
    }
    table.lines(&|row, column, cell| match findings.get(row) {
        Some(finding) if column == 0 => output.paint(finding.status.role(), &cell),
        _ => cell,
    })
}
