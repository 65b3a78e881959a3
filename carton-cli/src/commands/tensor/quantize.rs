//! `carton tensor quantize`: writes float tensors as int8, each with its scale or the scales of its channels, or as quantized groups.

use carton_tensor::weights::Granularity;
use carton_tensor_files::{QuantizeOptions, quantize};

use super::{Context, quantize_report};
use crate::args::TensorQuantizeArgs;
use crate::failure::{Exit, Failure};
use crate::interrupt;

pub(super) async fn run(arguments: TensorQuantizeArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let source = super::open_source(arguments.source, context).await?;
    let source = source.with_max_dense(arguments.dense.max_dense).verifying(true);
    let mut options = QuantizeOptions::default();
    options.write = super::write_options(&arguments.sink);
    options.granularity = if arguments.per_channel { Granularity::Channel } else { Granularity::Tensor };
    options.group_size = arguments.group_size.map(|rows| usize::try_from(rows).unwrap_or(usize::MAX));
    options.measure = arguments.report;
    options.only = arguments.only;
    let (path, progress) = (arguments.sink.output, output.progress().clone());
    let report = interrupt::blocking(move |token| {
        options.write = options.write.context(progress.context(token));
        Ok(quantize(&source, &path, &options)?)
    })
    .await?;
    output.progress().finish();
    quantize_report::print(&report, output)?;
    Ok(Exit::Ok)
}
