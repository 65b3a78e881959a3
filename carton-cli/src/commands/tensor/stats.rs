//! `carton tensor stats`: prints statistics of the numbers of tensors.

use carton_tensor::context::ProgressEvent;
use carton_tensor::files::ElementType;
use carton_tensor::weights::{self, Statistics};
use carton_tensor_files::{TensorInfo, TensorLayout, TensorSource};
use serde::Serialize;

use super::{Context, ls, plot};
use crate::args::TensorStatsArgs;
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::{Align, Role, Table};
use crate::progress::WorkContext;
use crate::text::{count, one_line, six_digits};

/// The output of `--json`. Numbers that JSON lacks, and statistics of empty tensors, are `null`.
#[derive(Serialize)]
struct Report {
    tensors: Vec<TensorStats>,
}

#[derive(Serialize)]
struct TensorStats {
    name: String,
    dtype: Option<String>,
    shape: Option<Vec<usize>>,
    min: Option<f64>,
    max: Option<f64>,
    mean: Option<f64>,
    std: Option<f64>,
    nan: u64,
    inf: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    histogram: Option<plot::Histogram>,
}

impl TensorStats {
    fn new(listed: &TensorInfo, statistics: &Statistics, histogram: Option<plot::Histogram>) -> Self {
        Self {
            name: listed.name.clone(),
            dtype: listed.dtype.clone(),
            shape: listed.shape.clone(),
            min: statistics.min,
            max: statistics.max,
            mean: statistics.mean,
            std: statistics.standard_deviation,
            nan: statistics.n_nan,
            inf: statistics.n_infinite,
            histogram,
        }
    }
}

pub(super) async fn run(arguments: TensorStatsArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let source = super::open_some(arguments.source, arguments.only, arguments.dense, context).await?;
    let source = super::with_digests(source, arguments.digests, context);
    let is_measured = |listed: &&TensorInfo| listed.format == TensorLayout::Ggml && listed.unusable.is_none();
    let n_blocks = source.tensors().iter().filter(is_measured).count();
    let (plot, progress) = (arguments.plot, output.progress().clone());
    let (tensors, passed_over) =
        interrupt::blocking(move |token| measure(&source, plot, &progress.context(token))).await?;
    output.progress().finish();
    if !passed_over.is_empty() {
        output
            .warning(&format!("skipped tensors without numbers to measure: `{}`", one_line(&passed_over.join("`, `"))));
    }
    if output.is_json() {
        output.json(&Report { tensors })?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&[
        Align::Left,
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Left,
    ]);
    let header = ["DTYPE", "SHAPE", "MIN", "MAX", "MEAN", "STD", "NAN", "INF", "NAME"];
    table.row(header);
    for tensor in &tensors {
        table.row([
            tensor.dtype.clone().unwrap_or_else(|| "-".to_owned()),
            ls::shape(tensor.shape.as_deref()),
            six_digits(tensor.min),
            six_digits(tensor.max),
            six_digits(tensor.mean),
            six_digits(tensor.std),
            tensor.nan.to_string(),
            tensor.inf.to_string(),
            tensor.name.clone(),
        ]);
    }
    let mut text = table.lines(&|row, column, cell| match (row, column) {
        (0, _) => output.paint(Role::Heading, &cell),
        (_, 6 | 7) if cell.trim() != "0" => output.paint(Role::Notice, &cell),
        _ => cell,
    });
    for tensor in &tensors {
        if let Some(histogram) = &tensor.histogram {
            text.push_str(&format!("\n{}\n", output.paint(Role::Heading, &one_line(&tensor.name))));
            text.push_str(&histogram.drawn());
        }
    }
    output.text(&text)?;
    if n_blocks > 0 {
        output.note(&format!("{} measured as the float32 numbers of blocks", count(n_blocks, "quantized tensor")));
    }
    Ok(Exit::Ok)
}

type Measured = (Vec<TensorStats>, Vec<String>);

fn measure(source: &TensorSource, plot: bool, context: &WorkContext) -> Result<Measured, Failure> {
    let total = source.total();
    let (mut tensors, mut passed_over, mut done) = (Vec::new(), Vec::new(), 0_u64);
    for listed in source.tensors() {
        context.advance(&ProgressEvent::new("measuring", done, Some(total), "bytes"))?;
        done = done.saturating_add(listed.bytes.unwrap_or(0));
        let is_complex = listed.element_type.is_some_and(|dtype| dtype.name().starts_with("complex"));
        let is_quantized = matches!(listed.format, TensorLayout::QuantizedGroup | TensorLayout::Ggml);
        let is_numeric = listed.element_type.is_some() || is_quantized && listed.unusable.is_none();
        if !is_numeric || is_complex {
            passed_over.push(listed.name.clone());
            continue;
        }
        let Some((statistics, histogram)) = measure_one(source, listed, plot, context)? else {
            passed_over.push(listed.name.clone());
            continue;
        };
        tensors.push(TensorStats::new(listed, &statistics, histogram));
    }
    Ok((tensors, passed_over))
}

type MeasuredOne = (Statistics, Option<plot::Histogram>);

/// Measures one tensor. `None` if it has no numbers after all.
fn measure_one(
    source: &TensorSource,
    listed: &TensorInfo,
    plot: bool,
    context: &WorkContext,
) -> Result<Option<MeasuredOne>, Failure> {
    let histogram = |dtype, statistics: &Statistics| {
        if plot { plot::Histogram::new(dtype, statistics) } else { None }
    };
    if let Some(statistics) = source.measure(&listed.name, context)? {
        // A quantized tensor is measured by the numbers that it represents.
        let dtype = listed.element_type.unwrap_or(ElementType::Float32);
        let mut histogram = histogram(dtype, &statistics);
        if let Some(histogram) = &mut histogram {
            source.visit(&listed.name, context, |piece| histogram.add(piece))?;
        }
        return Ok(Some((statistics, histogram)));
    }
    let Some(tensor) = source.read(&listed.name)?.into_numbers() else { return Ok(None) };
    let statistics = weights::stats(&tensor).map_err(Failure::new)?;
    let mut histogram = histogram(tensor.dtype(), &statistics);
    if let Some(histogram) = &mut histogram {
        histogram.add(tensor.bytes());
    }
    Ok(Some((statistics, histogram)))
}
