//! `carton tensor quantize`: float tensors as int8, each with its scale.

use std::sync::Arc;

use carton_tensor::files::{ElementType, RawTensor, SharedBytes};
use carton_tensor::weights::{self, QuantizedTensor};
use serde::Serialize;

use super::convert::{self, Written};
use super::{Context, checkpoint, numbers};
use crate::args::{SinkArgs, TensorQuantizeArgs};
use crate::failure::{Exit, Failure};
use crate::interrupt::{self, Wanted};
use crate::output::{byte_size, count, one_line};
use crate::progress::ProgressDisplay;
use crate::tensor_files::{
    Kind, Listed, OutputFormat, Piece, Planned, Sink, Source, TensorFileError, Value, matches_any,
};

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    written: Written,
    quantized: Vec<Quantized>,
}

/// A tensor that was quantized.
#[derive(Clone, Serialize)]
struct Quantized {
    name: String,
    /// What its numbers were multiplied by.
    scale: f64,
    /// How many numbers were not finite, and became 0.
    non_finite: u64,
}

/// What is written for a tensor.
#[derive(Clone, Copy)]
enum Role {
    AsItIs,
    Integers,
    Scale,
}

pub(super) async fn run(arguments: TensorQuantizeArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let source = super::open_source(arguments.source, context).await?.verifying();
    let (sink, only, progress) = (arguments.sink, arguments.only, output.progress().clone());
    let report = interrupt::blocking(move |wanted| quantize(&source, &sink, &only, &progress, wanted)).await?;
    output.progress().finish();
    let lost: u64 = report.quantized.iter().map(|quantized| quantized.non_finite).sum();
    if lost > 0 {
        let names: Vec<&str> =
            report.quantized.iter().filter(|one| one.non_finite > 0).map(|one| one.name.as_str()).take(5).collect();
        output.warning(&format!("{lost} numbers were not finite and became 0, in `{}`", one_line(&names.join("`, `"))));
    }
    for warning in &report.written.warnings {
        output.warning(&one_line(warning));
    }
    if output.is_json() {
        output.json(&report)?;
        return Ok(Exit::Ok);
    }
    let Written { path, tensors, size, .. } = &report.written;
    let (quantized, path) = (count(report.quantized.len(), "tensor"), path.display().to_string());
    let (size, others) = (byte_size(*size), tensors - 2 * report.quantized.len());
    output.text(&format!("wrote {} ({size}): {quantized} quantized, {others} as they were\n", one_line(&path)))?;
    Ok(Exit::Ok)
}

fn is_quantized(listed: &Listed, only: &[String]) -> bool {
    listed.format == "dense"
        // An unknown logical type may mean anything, whatever it is stored as.
        && listed.element_type.is_some_and(|dtype| dtype.is_float() && listed.dtype.as_deref() == Some(dtype.name()))
        && (only.is_empty() || matches_any(only, &listed.name))
}

fn quantize(
    source: &Source,
    arguments: &SinkArgs,
    only: &[String],
    progress: &Arc<ProgressDisplay>,
    wanted: &Wanted,
) -> Result<Report, Failure> {
    convert::check_output(source, &arguments.output)?;
    let format = OutputFormat::of(&arguments.output)?;
    let mut warnings = Vec::new();
    let mut planned = Vec::new();
    let mut roles: Vec<(&Listed, Role)> = Vec::new();
    for listed in convert::expanded(source, &mut warnings) {
        let name = listed.name.clone();
        if is_quantized(listed, only) {
            let shape = listed.shape.clone().unwrap_or_default();
            let scale = format!("{name}.scale");
            planned.push(Planned { name, kind: Kind::Numbers(ElementType::Int8, shape) });
            roles.push((listed, Role::Integers));
            planned.push(Planned { name: scale, kind: Kind::Numbers(ElementType::Float64, Vec::new()) });
            roles.push((listed, Role::Scale));
        } else {
            planned.push(Planned { name, kind: convert::kind(listed, format, false) });
            roles.push((listed, Role::AsItIs));
        }
    }
    if !roles.iter().any(|(_, role)| matches!(role, Role::Integers)) {
        let place = source.place.clone();
        return Err(TensorFileError::NothingToQuantize { place }.into());
    }
    let metadata = convert::metadata(source, format, &mut warnings)?;
    let mut sink = Sink::create(arguments, &planned, &metadata, wanted)?;
    let total = source.total();
    let (mut done, mut quantized) = (0_u64, Vec::new());
    for position in sink.order() {
        checkpoint(wanted)?;
        progress.update("quantizing", done, Some(total), true);
        let (Some(planned), Some((listed, role))) = (planned.get(position), roles.get(position)) else { continue };
        let piece = match role {
            Role::AsItIs => convert::piece(source, listed, format, false, &mut warnings)?,
            // Where scales come before integers a tensor is read twice, so that no more than one is held.
            Role::Scale => scale_of(&one(source, listed)?)?,
            Role::Integers => {
                let QuantizedTensor { tensor, scale, n_non_finite } = one(source, listed)?;
                quantized.push(Quantized { name: listed.name.clone(), scale, non_finite: n_non_finite });
                Piece::Value(Value::Numbers(tensor))
            }
        };
        sink.write(&planned.name, piece)?;
        if !matches!(role, Role::Scale) {
            done = done.saturating_add(listed.bytes.unwrap_or(0));
        }
    }
    checkpoint(wanted)?;
    quantized.sort_by(|one, other| one.name.cmp(&other.name));
    let written = Written { path: arguments.output.clone(), tensors: planned.len(), size: sink.finish()?, warnings };
    Ok(Report { written, quantized })
}

fn one(source: &Source, listed: &Listed) -> Result<QuantizedTensor, Failure> {
    let tensor = numbers(source.read(&listed.name)?)
        .ok_or_else(|| TensorFileError::UnknownKind { name: listed.name.clone() })?;
    weights::quantize(&tensor).map_err(Failure::new)
}

fn scale_of(quantized: &QuantizedTensor) -> Result<Piece, Failure> {
    let bytes = SharedBytes::from(quantized.scale.to_le_bytes().to_vec());
    let tensor = RawTensor::new(ElementType::Float64, Vec::new(), bytes).map_err(Failure::new)?;
    Ok(Piece::Value(Value::Numbers(tensor)))
}
