//! Compares the outputs of a model with the sample outputs of an example. A sample is an illustration, so a difference is not a
//! failure.

use std::collections::BTreeMap;

use carton_format::metadata::Reference;
use carton_tensor::{Tensor, Tolerance};
use serde::Serialize;

use crate::Error;
use crate::package::ExampleData;
use crate::self_test::compare;

/// The comparison of one output with the sample of an example.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SampleResult {
    /// The output's name.
    pub name: String,
    /// The result of the comparison.
    pub comparison: SampleComparison,
    /// The largest absolute difference, where numbers were compared.
    pub max_abs_diff: Option<f64>,
    /// The largest difference relative to the sample, where numbers were compared.
    pub max_rel_diff: Option<f64>,
    /// What differs most, and where; or why nothing was compared.
    pub detail: Option<String>,
}

/// Whether an output is close to the sample of an example. In JSON: `matches`, `differs` and `not_compared`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SampleComparison {
    /// The output is close to the sample.
    Matches,
    /// The output is not close to the sample, or the model did not return it.
    Differs,
    /// The sample is a file, such as an image, and was not compared.
    NotCompared,
}

impl ExampleData<'_> {
    /// Compares the outputs of the model with the sample outputs. The results are sorted by output name.
    ///
    /// # Errors
    /// A sample cannot be read.
    pub fn compare(
        &self,
        outputs: &BTreeMap<String, Tensor>,
        tolerance: Tolerance,
    ) -> Result<Vec<SampleResult>, Error> {
        let samples = self.declared().sample_out.iter();
        samples
            .map(|(name, reference)| match reference {
                Reference::Misc(path) => Ok(SampleResult {
                    name: name.clone(),
                    comparison: SampleComparison::NotCompared,
                    max_abs_diff: None,
                    max_rel_diff: None,
                    detail: Some(format!("the sample is the file `misc/{path}`")),
                }),
                Reference::TensorData(tensor) => {
                    let sample = self.package().tensor(tensor)?;
                    let found = compare(name, outputs.get(name), &sample, tolerance);
                    let comparison = if found.passed { SampleComparison::Matches } else { SampleComparison::Differs };
                    Ok(SampleResult {
                        name: found.name,
                        comparison,
                        max_abs_diff: found.max_abs_diff,
                        max_rel_diff: found.max_rel_diff,
                        detail: found.detail,
                    })
                }
            })
            .collect()
    }
}
