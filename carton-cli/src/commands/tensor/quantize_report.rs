//! The report of `carton tensor quantize` (spec/weights.md §2.4).

use carton_tensor_files::{Loss, QuantizeReport, Written};

use crate::failure::Failure;
use crate::output::{Align, Output, Role, Table};
use crate::text::{byte_size, count, one_line, six_digits};

/// Prints what was written and, on request, what was lost.
pub(super) fn print(report: &QuantizeReport, output: &Output) -> Result<(), Failure> {
    for warning in &report.written.warnings {
        output.warning(&one_line(warning));
    }
    if output.is_json() {
        return output.json(report);
    }
    let Written { path, size, .. } = &report.written;
    let (quantized, path) = (count(report.quantized.len(), "tensor"), path.display().to_string());
    let (size, others) = (byte_size(*size), report.unchanged);
    let mut text = table(report, output);
    text.push_str(&format!("wrote {} ({size}): {quantized} quantized, {others} as they were\n", one_line(&path)));
    output.text(&text)
}

/// Formats a line for each tensor, and one for all; empty if errors were not measured.
fn table(report: &QuantizeReport, output: &Output) -> String {
    let Some(total) = report.total else { return String::new() };
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Right, Align::Left]);
    table.row(["RELATIVE ERROR", "MAX ERROR", "SCALES", "NAME"]);
    for one in &report.quantized {
        if let Some(loss) = one.error {
            table.row([
                percent(loss),
                six_digits(Some(loss.error.max_absolute)),
                one.scales.to_string(),
                one.name.clone(),
            ]);
        }
    }
    let n_scales: usize = report.quantized.iter().map(|one| one.scales).sum();
    let all = format!("all of {}", count(report.quantized.len(), "tensor"));
    table.row([percent(total), six_digits(Some(total.error.max_absolute)), n_scales.to_string(), all]);
    let last = report.quantized.len() + 1;
    table.lines(&|row, _, cell| if row == 0 || row == last { output.paint(Role::Heading, &cell) } else { cell })
}

fn percent(loss: Loss) -> String {
    format!("{:.3} %", 100.0 * loss.relative)
}
