//! Runs the self-tests of a loaded carton and compares the outputs with the expected ones.

use std::fmt;
use std::future::IntoFuture;
use std::time::Instant;

use carton_format::causes::in_one_line;
use carton_format::metadata::TensorSpec;
use carton_format::progress::{ProgressCallback, ProgressEvent, Stage};
use carton_format::side::Side;
use carton_format::signature::{Giver, as_declared};
use carton_tensor::{DataType, SymbolicShape, Tensor, Tensors, Tolerance, allclose, carried};

use crate::blocking::{Awaited, run_blocking};
use crate::package::Package;
pub use crate::self_test_report::{OutputResult, SelfTestCounts, SelfTestOutcome, SelfTestReport, SelfTestResult};
use crate::settings::progress_setter;
use crate::{Carton, Error, ErrorKind, Inputs};

/// A run of the self-tests of a loaded model. Made by [`Carton::self_test`]; setters configure it, and `.await` runs it.
#[must_use = "nothing is run until this is awaited"]
pub struct SelfTests<'a> {
    model: &'a Carton,
    settings: SelfTestSettings,
    progress: Option<ProgressCallback>,
}

/// How self-tests are run and compared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SelfTestSettings {
    tolerance: Tolerance,
    mapped: bool,
}

impl SelfTests<'_> {
    progress_setter!(progress);

    /// Sets how far outputs may be from the expected ones. NaN is close to NaN, whatever the tolerance says.
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
        let progress = self.progress.or_else(|| self.model.progress());
        Box::pin(self.model.self_test_of(self.model.package(), self.settings, progress))
    }
}

impl fmt::Debug for SelfTests<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelfTests")
            .field("model", &self.model)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Carton {
    /// Runs every self-test of the carton. A test without expected outputs cannot pass: its outcome is [`SelfTestOutcome::Ran`].
    /// A test fails if its inputs or outputs contradict the signature. Progress is reported to the callback of the load, unless
    /// [`SelfTests::progress`] sets another.
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
        SelfTests { model: self, settings: SelfTestSettings::default(), progress: None }
    }

    /// Runs the self-tests of `package` on the loaded model. The model of `package` must be the loaded one, but may have been
    /// loaded from another carton.
    pub(crate) async fn self_test_of(
        &self,
        package: &Package,
        settings: SelfTestSettings,
        progress: Option<ProgressCallback>,
    ) -> Result<SelfTestReport, Error> {
        let fetched = package.clone();
        run_blocking(progress.as_ref(), move |context| Ok(fetched.fetch_self_tests(&context)?)).await?;
        let total = package.metadata().self_tests().len();
        let mut self_tests = Vec::new();
        for index in 0..total {
            if let Some(progress) = &progress {
                progress(&ProgressEvent::new(Stage::SelfTests, index as u64, Some(total as u64), "self-tests"));
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
                return Err(Error::internal(format!("no self-test {index}")));
            };
            let test = if settings.mapped { test.mapped() } else { test };
            Ok((test.label(), test.inputs()?, test.expected_out()?.unwrap_or_default()))
        })
        .await?;

        let start = Instant::now();
        let answer = self.infer(Inputs::Named(inputs)).await;
        let seconds = start.elapsed().as_secs_f64();
        let outputs = match answer {
            Ok(outputs) => outputs.into_tensors(),
            Err(error) if is_verdict(&error) => {
                // Hints of other errors address a caller who can change the inputs.
                let hint = if error.is_of_model() { error.hint() } else { None };
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
    !error.had_no_turn() && matches!(error.kind(), InvalidInput | Timeout | Model | Unsupported | Other)
}

/// Both tensors in one dtype, where the expected one has what stands for the dtype of the other: the carrier, or the text of bytes. Files such as
/// `.npy` lack some dtypes. `None` where both have one dtype already, or nothing in common.
fn alike(actual: &Tensor, expected: &Tensor) -> Option<(Tensor, Tensor)> {
    match (actual.dtype()?, expected.dtype()?) {
        (one, other) if one == other => None,
        (DataType::Bytes, DataType::String) => {
            let mut text = Tensors::from([(String::new(), expected.clone())]);
            let bytes = [TensorSpec::new("", DataType::Bytes, SymbolicShape::Any)];
            as_declared(Side::Output, Giver::User, Some(&bytes), &mut text).ok()?;
            Some((actual.clone(), text.remove("")?))
        }
        (one, other) if one.carrier() == other => Some((carried(actual).ok()?, expected.clone())),
        _ => None,
    }
}

pub(crate) fn compare(name: &str, actual: Option<&Tensor>, expected: &Tensor, tolerance: Tolerance) -> OutputResult {
    let name = name.to_owned();
    let Some(actual) = actual else {
        let detail = Some("the model did not return this output".to_owned());
        return OutputResult { name, passed: false, max_abs_diff: None, max_rel_diff: None, detail };
    };
    // A model may return NaN on purpose, and the self-test recorded that.
    let tolerance = tolerance.equal_nan(true);
    let comparison = match alike(actual, expected) {
        Some((actual, expected)) => allclose(&actual, &expected, tolerance),
        None => allclose(actual, expected, tolerance),
    };
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
    #![allow(clippy::unwrap_used)]

    use carton_tensor::bf16;

    use super::*;

    /// A file of expected outputs need not have the dtype that the model returns.
    #[test]
    fn expected_outputs_in_what_carries_the_others() {
        let passed =
            |actual: &Tensor, expected: &Tensor| compare("y", Some(actual), expected, Tolerance::default()).passed;
        let half = Tensor::scalar(bf16::from_f32(1.5));
        assert!(passed(&half, &half) && passed(&half, &Tensor::scalar(1.5_f32)));
        assert!(!passed(&half, &Tensor::scalar(1.6_f32)) && !passed(&half, &Tensor::scalar(1.5_f64)));
        let bytes = |element: &[u8]| Tensor::from_bytes([element], vec![1]).unwrap();
        let nan = Tensor::from_vec(vec![f32::NAN, 1.0], vec![2]).unwrap();
        assert!(passed(&nan, &nan) && !passed(&Tensor::from_vec(vec![0.0_f32, 1.0], vec![2]).unwrap(), &nan));
        let text = Tensor::from_strings(["AP8="], vec![1]).unwrap();
        assert!(passed(&bytes(b"AP8="), &text) && !passed(&bytes(b"\0\xff"), &text));
        assert!(!passed(&text, &bytes(b"AP8=")));
    }
}
