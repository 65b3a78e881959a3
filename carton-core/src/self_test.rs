//! Runs the self-tests of a loaded carton and compares the outputs with the expected ones.

use std::fmt;
use std::future::IntoFuture;
use std::time::Instant;

use carton_tensor::{Tensor, Tolerance, allclose};
use serde::Serialize;

use crate::blocking::{Awaited, run_blocking};
use crate::causes::in_one_line;
use crate::package::Package;
use crate::progress::{ProgressEvent, Stage};
use crate::{Carton, Error, ErrorKind, Inputs};

/// A run of the self-tests of a loaded model. Made by [`Carton::self_test`]; setters configure it, and `.await` runs it.
#[derive(Debug)]
#[must_use = "nothing is run until this is awaited"]
pub struct SelfTests<'a> {
    model: &'a Carton,
    settings: SelfTestSettings,
}

/// How self-tests are run and compared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SelfTestSettings {
    tolerance: Tolerance,
    mapped: bool,
}

impl SelfTests<'_> {
    /// Sets how far outputs may be from the expected ones.
    pub fn tolerance(mut self, tolerance: Tolerance) -> Self {
        self.settings.tolerance = tolerance;
        self
    }

    /// Whether tensors are views of the memory-mapped carton where possible, instead of copies. Off by default. Use it only for
    /// cartons that no program writes to meanwhile: if the carton is truncated, the process ends with SIGBUS.
    pub fn mapped(mut self, mapped: bool) -> Self {
        self.settings.mapped = mapped;
        self
    }
}

impl<'a> IntoFuture for SelfTests<'a> {
    type Output = Result<SelfTestReport, Error>;
    type IntoFuture = Awaited<'a, SelfTestReport>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.model.self_test_of(self.model.package(), self.settings))
    }
}

/// The results of the self-tests of a carton. `Display` counts them: `2 self-tests passed, 1 ran`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SelfTestReport {
    /// Whether no test failed; `true` if there are none. [`counts`](Self::counts) tells how many tests compared anything.
    pub passed: bool,
    /// The number of tests with each outcome.
    pub counts: SelfTestCounts,
    /// The result of each test, in the order of the carton.
    pub self_tests: Vec<SelfTestResult>,
}

/// The number of self-tests with each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SelfTestCounts {
    /// Tests with [`SelfTestOutcome::Passed`].
    pub passed: usize,
    /// Tests with [`SelfTestOutcome::Ran`].
    pub ran: usize,
    /// Tests with [`SelfTestOutcome::Failed`].
    pub failed: usize,
}

/// The outcome of one self-test. In JSON: `passed`, `ran` and `failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SelfTestOutcome {
    /// The model ran, and every expected output was close to the actual one.
    Passed,
    /// The model ran, and the test expects no outputs: nothing was compared.
    Ran,
    /// The call failed, or an output differs from the expected one.
    Failed,
}

impl SelfTestReport {
    fn of(self_tests: Vec<SelfTestResult>) -> Self {
        let mut counts = SelfTestCounts::default();
        for test in &self_tests {
            match test.outcome {
                SelfTestOutcome::Passed => counts.passed += 1,
                SelfTestOutcome::Ran => counts.ran += 1,
                SelfTestOutcome::Failed => counts.failed += 1,
            }
        }
        Self { passed: counts.failed == 0, counts, self_tests }
    }

    /// Returns the counts, followed by one line for each problem of a self-test.
    pub(crate) fn failures(&self) -> String {
        let mut text = self.to_string();
        for test in &self.self_tests {
            for problem in test.problems() {
                text.push_str(&format!("\nself-test `{}`: {problem}", test.name));
            }
        }
        text
    }
}

impl fmt::Display for SelfTestReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SelfTestCounts { passed, ran, failed } = self.counts;
        let counts = [(failed, "failed"), (passed, "passed"), (ran, "ran")];
        let mut counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let Some((first, outcome)) = counts.next() else { return f.write_str("no self-tests") };
        write!(f, "{first} {} {outcome}", if first == 1 { "self-test" } else { "self-tests" })?;
        counts.try_for_each(|(count, outcome)| write!(f, ", {count} {outcome}"))
    }
}

/// The result of one self-test.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SelfTestResult {
    /// The test's name, as [`label`](crate::package::SelfTestData::label) returns it.
    pub name: String,
    /// The outcome.
    pub outcome: SelfTestOutcome,
    /// The duration of the inference in seconds.
    pub seconds: f64,
    /// One result for each expected output; empty if the call failed, or if no output is expected.
    pub outputs: Vec<OutputResult>,
    /// Why the call failed: its inputs or outputs contradict the signature, or the model reported an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The kind of the error. Not in JSON.
    #[serde(skip)]
    pub kind: Option<ErrorKind>,
    /// The hint of the model's error, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The comparison of one output of a self-test with the expected one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OutputResult {
    /// The output's name.
    pub name: String,
    /// Whether the output is within the tolerance.
    pub passed: bool,
    /// The largest absolute difference, where numbers were compared.
    pub max_abs_diff: Option<f64>,
    /// The largest difference relative to the expected value, where numbers were compared.
    pub max_rel_diff: Option<f64>,
    /// What differs most, and where.
    pub detail: Option<String>,
}

impl SelfTestResult {
    /// Returns one text for each problem: why the call failed, or how an output differs. Empty if the test did not fail.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let failed = self.outputs.iter().filter(|output| !output.passed);
        let outputs = failed.map(|output| match &output.detail {
            Some(detail) => format!("output `{}`: {detail}", output.name),
            None => format!("output `{}`: not close to what is expected", output.name),
        });
        self.error.iter().cloned().chain(outputs).collect()
    }
}

impl Carton {
    /// Runs every self-test of the carton. A test without expected outputs cannot pass: its outcome is [`SelfTestOutcome::Ran`].
    /// A test fails if its inputs or outputs contradict the signature.
    ///
    /// ```no_run
    /// # async fn example(model: carton_core::Carton) -> Result<(), carton_core::Error> {
    /// let report = model.self_test().await?;
    /// assert!(report.passed, "{report}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A test cannot be completed: its tensors cannot be read, the model is too busy with other calls, or the runner died.
    pub fn self_test(&self) -> SelfTests<'_> {
        SelfTests { model: self, settings: SelfTestSettings::default() }
    }

    /// Runs the self-tests of `package` on the loaded model. The model of `package` must be the loaded one, but may have been
    /// loaded from another carton.
    pub(crate) async fn self_test_of(
        &self,
        package: &Package,
        settings: SelfTestSettings,
    ) -> Result<SelfTestReport, Error> {
        let (progress, fetched) = (self.progress(), package.clone());
        run_blocking(progress.as_ref(), move |context| {
            Ok(fetched.fetch_self_tests(&context.on_contents(Stage::Fetch))?)
        })
        .await?;
        let total = package.metadata().self_tests().len();
        let mut self_tests = Vec::new();
        for index in 0..total {
            if let Some(progress) = &progress {
                progress(&ProgressEvent::self_tests(index, total));
            }
            self_tests.push(self.run_self_test(package, index, settings).await?);
        }
        Ok(SelfTestReport::of(self_tests))
    }

    async fn run_self_test(
        &self,
        package: &Package,
        index: usize,
        settings: SelfTestSettings,
    ) -> Result<SelfTestResult, Error> {
        let package = package.clone();
        let (name, inputs, expected) = run_blocking(None, move |_| {
            let Some(test) = package.self_tests().nth(index) else {
                return Err(Error::Internal(format!("no self-test {index}")));
            };
            let test = if settings.mapped { test.mapped() } else { test };
            Ok((test.label(), test.inputs()?, test.expected_out()?.unwrap_or_default()))
        })
        .await?;

        let start = Instant::now();
        let answer = self.infer(Inputs::Named(inputs)).await;
        let seconds = start.elapsed().as_secs_f64();
        let outputs = match answer {
            Ok(outputs) => outputs,
            Err(error) if is_verdict(&error) => {
                // Hints of other errors address a caller who can change the inputs.
                let hint = if matches!(error, Error::Model { .. }) { error.hint() } else { None };
                let (outcome, kind) = (SelfTestOutcome::Failed, Some(error.kind()));
                let error = Some(in_one_line(&error));
                return Ok(SelfTestResult { name, outcome, seconds, outputs: Vec::new(), error, kind, hint });
            }
            Err(error) => return Err(error),
        };
        let outputs: Vec<OutputResult> = expected
            .iter()
            .map(|(name, expected)| compare(name, outputs.get(name), expected, settings.tolerance))
            .collect();
        let outcome = match outputs.iter().all(|output| output.passed) {
            // An empty `expected_out` compares nothing, as a missing one.
            true if outputs.is_empty() => SelfTestOutcome::Ran,
            true => SelfTestOutcome::Passed,
            false => SelfTestOutcome::Failed,
        };
        Ok(SelfTestResult { name, outcome, seconds, outputs, error: None, kind: None, hint: None })
    }
}

/// Whether the error of a call fails the test. Other errors say nothing about the model: the call had no turn, or the machine or the
/// runner failed.
fn is_verdict(error: &Error) -> bool {
    use ErrorKind::{InvalidInput, Model, Other, Timeout, Unsupported};
    let had_no_turn = matches!(error, Error::Timeout { waiting: true, .. });
    !had_no_turn && matches!(error.kind(), InvalidInput | Timeout | Model | Unsupported | Other)
}

pub(crate) fn compare(name: &str, actual: Option<&Tensor>, expected: &Tensor, tolerance: Tolerance) -> OutputResult {
    let name = name.to_owned();
    let Some(actual) = actual else {
        let detail = Some("the model did not return this output".to_owned());
        return OutputResult { name, passed: false, max_abs_diff: None, max_rel_diff: None, detail };
    };
    let comparison = allclose(actual, expected, tolerance);
    OutputResult {
        name,
        passed: comparison.passed,
        max_abs_diff: comparison.max_abs_diff,
        max_rel_diff: comparison.max_rel_diff,
        detail: comparison.detail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(outcomes: &[SelfTestOutcome]) -> SelfTestReport {
        let test = |&outcome| SelfTestResult {
            name: String::new(),
            outcome,
            seconds: 0.0,
            outputs: Vec::new(),
            error: None,
            kind: None,
            hint: None,
        };
        SelfTestReport::of(outcomes.iter().map(test).collect())
    }

    #[test]
    fn outcomes_are_counted_apart() {
        use SelfTestOutcome::{Failed, Passed, Ran};
        let check = |outcomes: &[SelfTestOutcome], passed, text: &str| {
            let report = report(outcomes);
            assert_eq!((report.passed, report.to_string().as_str()), (passed, text));
        };
        check(&[], true, "no self-tests");
        check(&[Passed], true, "1 self-test passed");
        check(&[Passed, Passed], true, "2 self-tests passed");
        check(&[Ran, Passed, Passed], true, "2 self-tests passed, 1 ran");
        check(&[Ran], true, "1 self-test ran");
        check(&[Ran, Failed, Passed, Failed], false, "2 self-tests failed, 1 passed, 1 ran");
    }
}
