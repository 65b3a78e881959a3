//! The report of `carton tensor quantize`: what was written and, on request, what was lost (spec/weights.md §2.4).

use carton_tensor::weights::{QuantizationError, QuantizedMatrix, QuantizedTensor};
use serde::Serialize;

use super::convert::Written;
use crate::failure::Failure;
use crate::output::{Align, Output, Role, Table};
use crate::text::{byte_size, count, one_line, six_digits};

/// The output of `--json`.
#[derive(Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    written: Written,
    quantized: Vec<Quantized>,
    #[serde(skip)]
    unchanged: usize,
    /// The error of all quantized tensors together.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<Loss>,
}

/// A tensor that was quantized.
#[derive(Serialize)]
pub(super) struct Quantized {
    name: String,
    /// The factor of all its numbers; `null` if there are several scales.
    scale: Option<f64>,
    /// The number of scales.
    scales: usize,
    /// The number of values that were not finite, and became 0.
    non_finite: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Loss>,
}

/// The loss of quantization.
#[derive(Clone, Copy, Serialize)]
struct Loss {
    /// The norm of the differences divided by the norm of the numbers.
    relative: f64,
    #[serde(flatten)]
    error: QuantizationError,
}

impl From<QuantizationError> for Loss {
    fn from(error: QuantizationError) -> Self {
        Self { relative: error.relative(), error }
    }
}

impl Quantized {
    pub(super) fn new(name: &str, tensor: &QuantizedTensor) -> Self {
        Self {
            name: name.to_owned(),
            scale: tensor.scales.of_tensor(),
            scales: tensor.scales.as_slice().len(),
            non_finite: tensor.n_non_finite,
            error: tensor.error.map(Loss::from),
        }
    }

    pub(super) fn of_group(name: &str, matrix: &QuantizedMatrix) -> Self {
        Self {
            name: name.to_owned(),
            scale: None,
            scales: matrix.scales.n_elements(),
            non_finite: matrix.n_non_finite,
            error: matrix.error.map(Loss::from),
        }
    }
}

/// Returns a warning about values that were not finite.
fn not_finite(quantized: &[Quantized]) -> Option<String> {
    let lost: u64 = quantized.iter().map(|one| one.non_finite).sum();
    let names = quantized.iter().filter(|one| one.non_finite > 0).map(|one| one.name.as_str());
    let names: Vec<&str> = names.take(5).collect();
    let were = if lost == 1 { "1 number was".to_owned() } else { format!("{lost} numbers were") };
    (lost > 0).then(|| format!("{were} not finite and became 0, in `{}`", names.join("`, `")))
}

impl Report {
    pub(super) fn new(mut written: Written, mut quantized: Vec<Quantized>, unchanged: usize) -> Self {
        quantized.sort_by(|one, other| one.name.cmp(&other.name));
        written.warnings.extend(not_finite(&quantized));
        let errors = quantized.iter().filter_map(|one| one.error).map(|loss| loss.error);
        let total = errors.reduce(QuantizationError::merge).map(Loss::from);
        Self { written, quantized, unchanged, total }
    }

    pub(super) fn print(&self, output: &Output) -> Result<(), Failure> {
        for warning in &self.written.warnings {
            output.warning(&one_line(warning));
        }
        if output.is_json() {
            return output.json(self);
        }
        let Written { path, size, .. } = &self.written;
        let (quantized, path) = (count(self.quantized.len(), "tensor"), path.display().to_string());
        let (size, others) = (byte_size(*size), self.unchanged);
        let mut text = self.table(output);
        text.push_str(&format!("wrote {} ({size}): {quantized} quantized, {others} as they were\n", one_line(&path)));
        output.text(&text)
    }

    /// Formats a line for each tensor, and one for all; empty if errors were not measured.
    fn table(&self, output: &Output) -> String {
        let Some(total) = self.total else { return String::new() };
        let mut table = Table::new(&[Align::Right, Align::Right, Align::Right, Align::Left]);
        table.row(["RELATIVE ERROR", "MAX ERROR", "SCALES", "NAME"]);
        for one in &self.quantized {
            if let Some(loss) = one.error {
                table.row([
                    percent(loss),
                    six_digits(Some(loss.error.max_absolute)),
                    one.scales.to_string(),
                    one.name.clone(),
                ]);
            }
        }
        let n_scales: usize = self.quantized.iter().map(|one| one.scales).sum();
        let all = format!("all of {}", count(self.quantized.len(), "tensor"));
        table.row([percent(total), six_digits(Some(total.error.max_absolute)), n_scales.to_string(), all]);
        let last = self.quantized.len() + 1;
        table.lines(&|row, _, cell| if row == 0 || row == last { output.paint(Role::Heading, &cell) } else { cell })
    }
}

fn percent(loss: Loss) -> String {
    format!("{:.3} %", 100.0 * loss.relative)
}
