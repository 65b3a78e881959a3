//! The results of self-tests.

use std::fmt;

use carton_format::error_kind::ErrorKind;
use serde::Serialize;

/// The results of the self-tests of a carton. `Display` counts them: `2 self-tests passed, 1 ran`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SelfTestReport {
    /// Whether no test failed, which is `true` for a carton without tests. [`counts`](Self::counts) holds the number of tests that
    /// compared outputs.
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
    pub(super) fn of(self_tests: Vec<SelfTestResult>) -> Self {
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
