//! `carton run --self-test`: runs the self-tests and prints the report.

use std::time::Duration;

use carton_core::Carton;
use carton_core::Package;
use carton_core::self_test::{OutputResult, SelfTestOutcome, SelfTestReport, SelfTestResult};
use carton_tensor::Tolerance;

use super::Context;
use crate::failure::{Exit, Failure};
use crate::output::{Output, Role};
use crate::text::{one_line, printable, seconds};

#[derive(Debug, thiserror::Error)]
#[error("there are no self-tests")]
struct NoSelfTests;

/// Checks that the carton has self-tests.
pub(super) fn require(package: &Package) -> Result<(), Failure> {
    if package.metadata().self_tests().is_empty() {
        return Err(Failure::new(NoSelfTests)
            .hint("`carton pack` takes them from --metadata, and records them with --record-self-test"));
    }
    Ok(())
}

/// Runs the self-tests of a loaded model and prints their results.
pub(super) async fn run(model: &Carton, tolerance: Tolerance, context: &Context<'_>) -> Result<Exit, Failure> {
    require(model.package())?;
    let report = model.self_test().tolerance(tolerance).await?;
    context.output.progress().finish();
    if context.output.is_json() {
        context.output.json(&report)?;
    } else {
        context.output.text(&text(&report, context.output))?;
    }
    Ok(if report.passed { Exit::Ok } else { Exit::SelfTest })
}

fn text(report: &SelfTestReport, output: &Output) -> String {
    let mut text = String::new();
    for test in &report.self_tests {
        let verdict = match test.outcome {
            SelfTestOutcome::Passed => output.paint(Role::Good, "passed"),
            // Padded to the width of the others.
            SelfTestOutcome::Ran => output.paint(Role::Notice, "ran   "),
            _ => output.paint(Role::Bad, "FAILED"),
        };
        let time = seconds(Duration::try_from_secs_f64(test.seconds).unwrap_or_default());
        text.push_str(&format!("{verdict}  {}  {time}  {}\n", one_line(&test.name), worst(test)));
        for line in test.problems() {
            text.push_str(&format!("        {}\n", printable(&line).replace('\n', "\n        ")));
        }
        if let Some(hint) = &test.hint {
            text.push_str(&format!("        hint: {}\n", one_line(hint)));
        }
    }
    text.push_str(&format!("{report}\n"));
    text
}

/// Describes the largest difference over all outputs, whether or not it is within the tolerance.
fn worst(test: &SelfTestResult) -> String {
    if test.error.is_some() {
        return "the call failed".to_owned();
    }
    if test.outcome == SelfTestOutcome::Ran {
        return "no outputs are expected: nothing was compared".to_owned();
    }
    let severity = |output: &OutputResult| {
        output.max_abs_diff.map_or(-1.0, |diff| if diff.is_nan() { f64::INFINITY } else { diff })
    };
    let worst = test.outputs.iter().max_by(|left, right| severity(left).total_cmp(&severity(right)));
    match worst.and_then(|output| Some((output, output.max_abs_diff?))) {
        Some((output, absolute)) => {
            let relative = output.max_rel_diff.map(|relative| format!(", relative {}", difference(relative)));
            let relative = relative.unwrap_or_default();
            format!("largest difference {}{relative} in {}", difference(absolute), one_line(&output.name))
        }
        None if test.outcome == SelfTestOutcome::Passed => "outputs are equal".to_owned(),
        None => "outputs differ".to_owned(),
    }
}

pub(super) fn difference(difference: f64) -> String {
    match difference {
        0.0 => "0".to_owned(),
        d if d.is_nan() => "NaN".to_owned(),
        d => format!("{d:.2e}"),
    }
}
