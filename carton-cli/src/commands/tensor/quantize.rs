//! `carton tensor quantize`: float tensors as int8, each with its scale.

use std::collections::BTreeSet;
use std::sync::Arc;

use carton_tensor::element_count;
use carton_tensor::files::{ElementType, RawTensor, SharedBytes};
use carton_tensor::weights::{self, Filter, QuantizedTensor, SCALE_SUFFIX};
use serde::Serialize;

use super::convert::{self, Written};
use super::{Context, checkpoint, numbers};
use crate::args::{SinkArgs, TensorQuantizeArgs};
use crate::failure::{Exit, Failure};
use crate::interrupt::{self, Wanted};
use crate::output::{byte_size, count, one_line};
use crate::progress::ProgressDisplay;
use crate::tensor_files::{Kind, Listed, OutputFormat, Piece, Planned, Sink, Source, TensorFileError, Value};

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
    let source = super::open_source(arguments.source, context).await?;
    let source = source.with_max_dense(arguments.dense.max_dense).verifying();
    let filter = match arguments.only.is_empty() {
        true => Filter::ALL,
        false => Filter::any_glob(&arguments.only).map_err(TensorFileError::from)?,
    };
    let (sink, progress) = (arguments.sink, output.progress().clone());
    let report = interrupt::blocking(move |wanted| quantize(&source, &sink, &filter, &progress, wanted)).await?;
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
    let (size, others) = (byte_size(*size), tensors.saturating_sub(2 * report.quantized.len()));
    output.text(&format!("wrote {} ({size}): {quantized} quantized, {others} as they were\n", one_line(&path)))?;
    Ok(Exit::Ok)
}

/// Whether a tensor is one of floats, stored dense or sparse.
fn is_float(listed: &Listed) -> bool {
    matches!(listed.format.as_str(), "dense" | "sparse_csr" | "sparse_coo")
        // An unknown logical type may mean anything, whatever it is stored as.
        && listed.element_type.is_some_and(|dtype| dtype.is_float() && listed.dtype.as_deref() == Some(dtype.name()))
}

/// The names of what is quantized already: of int8 tensors that have a scale beside them, of these scales, and of groups
/// (spec/weights.md §2.3).
fn quantized_already(listed: &[Listed]) -> BTreeSet<&str> {
    let integers: BTreeSet<&str> = listed
        .iter()
        .filter(|listed| listed.element_type == Some(ElementType::Int8))
        .map(|listed| listed.name.as_str())
        .collect();
    let mut names = BTreeSet::new();
    for listed in listed {
        let is_one = listed.shape.as_deref().and_then(element_count) == Some(1);
        let of = listed.name.strip_suffix(SCALE_SUFFIX).and_then(|name| integers.get(name));
        match of {
            Some(of) if is_one && is_float(listed) => names.extend([*of, listed.name.as_str()]),
            _ if listed.format == "quantized_group" => drop(names.insert(listed.name.as_str())),
            _ => {}
        }
    }
    names
}

fn quantize(
    source: &Source,
    arguments: &SinkArgs,
    filter: &Filter,
    progress: &Arc<ProgressDisplay>,
    wanted: &Wanted,
) -> Result<Report, Failure> {
    convert::check_output(source, &arguments.output)?;
    let format = OutputFormat::of(&arguments.output)?;
    let mut warnings = Vec::new();
    let mut planned = Vec::new();
    let mut roles: Vec<(&Listed, Role)> = Vec::new();
    let already = quantized_already(source.listed());
    for listed in convert::expanded(source, &mut warnings) {
        let name = listed.name.clone();
        if is_float(listed) && !already.contains(name.as_str()) && filter.accepts(&name) {
            let shape = listed.shape.clone().unwrap_or_default();
            let scale = format!("{name}{SCALE_SUFFIX}");
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
        let (place, already) = (source.place.clone(), already.len());
        return Err(TensorFileError::NothingToQuantize { place, already }.into());
    }
    if !already.is_empty() {
        let names: Vec<&str> = already.iter().copied().take(5).collect();
        let more = if already.len() > names.len() { " and others" } else { "" };
        warnings
            .push(format!("written as they are, because they are quantized already: `{}`{more}", names.join("`, `")));
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
                if let Some(reader) = source.as_ztensor() {
                    let object = reader.object(&listed.name).map_err(TensorFileError::from)?;
                    convert::warn_of_lost(&object, &mut warnings)?;
                }
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

fn scale_of(quantized: &QuantizedTensor) -> Result<Piece<'static>, Failure> {
    let bytes = SharedBytes::from(quantized.scale.to_le_bytes().to_vec());
    let tensor = RawTensor::new(ElementType::Float64, Vec::new(), bytes).map_err(Failure::new)?;
    Ok(Piece::Value(Value::Numbers(tensor)))
}
