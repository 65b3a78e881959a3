//! `carton run --example`: reads the inputs of an example, and compares the outputs with its sample outputs.

use std::collections::BTreeMap;

use carton_core::{Carton, Package};
use carton_core::{SampleComparison, SampleResult};
use carton_tensor::{Tensor, Tolerance};
use serde::Serialize;

use super::self_test::difference;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{Align, Output, Role, Table};
use crate::text::one_line;

/// The comparison of the outputs with the samples of an example, as `--json` prints it.
#[derive(Serialize)]
pub(super) struct Report {
    name: String,
    sample_out: Vec<SampleResult>,
}

/// Checks that the package has this example, with tensors for its inputs.
pub(super) fn require(package: &Package, name: &str) -> Result<(), Failure> {
    Ok(package.example(name).and_then(|example| example.check_inputs())?)
}

/// Reads the inputs of the example.
pub(super) async fn inputs(model: &Carton, name: &str) -> Result<BTreeMap<String, Tensor>, Failure> {
    let (package, name) = (model.package().clone(), name.to_owned());
    interrupt::blocking(move |_| {
        let inputs = package.example(&name).and_then(|example| example.input_tensors());
        Ok(inputs?)
    })
    .await
}

/// Compares the outputs with the samples of the example, and returns the outputs with the report.
pub(super) async fn compare(
    model: &Carton,
    name: &str,
    outputs: BTreeMap<String, Tensor>,
    tolerance: Tolerance,
) -> Result<(BTreeMap<String, Tensor>, Option<Report>), Failure> {
    let (package, name) = (model.package().clone(), name.to_owned());
    interrupt::blocking(move |_| {
        let example = package.example(&name)?;
        let report = Report { name: example.label(), sample_out: example.compare(&outputs, tolerance)? };
        Ok((outputs, Some(report)))
    })
    .await
}

impl Report {
    /// Formats the comparison for people; empty if the example has no samples.
    pub(super) fn text(&self, output: &Output) -> String {
        if self.sample_out.is_empty() {
            return String::new();
        }
        let mut table = Table::new(&[Align::Left; 3]).indent("  ");
        for sample in &self.sample_out {
            let comparison = match sample.comparison {
                SampleComparison::Matches => "matches",
                SampleComparison::Differs => "differs",
                _ => "not compared",
            };
            let largest = || sample.max_abs_diff.map(|found| format!("largest difference {}", difference(found)));
            let detail = sample.detail.clone().or_else(largest).unwrap_or_default();
            table.row([sample.name.clone(), comparison.to_owned(), detail]);
        }
        let title = format!("Sample outputs of {}", one_line(&self.name));
        let lines = table.lines(&|_, column, cell| match (column, cell.trim_end()) {
            (1, "matches") => output.paint(Role::Good, &cell),
            (1, "differs") => output.paint(Role::Notice, &cell),
            _ => cell,
        });
        format!("{}\n{lines}", output.paint(Role::Heading, &title))
    }
}
