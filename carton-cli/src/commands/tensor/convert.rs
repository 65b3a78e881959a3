//! `carton tensor convert`: writes tensors to a file of another format.

use carton_tensor_files::{ConvertOptions, GroupHandling, Written, convert};

use super::Context;
use crate::args::TensorConvertArgs;
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::text::{byte_size, count, one_line};

pub(super) async fn run(arguments: TensorConvertArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let source = super::open_some(arguments.source, arguments.only, arguments.dense, context).await?.verifying(true);
    let mut options = ConvertOptions::default();
    options.groups = match (arguments.dequantize, arguments.quantized_groups) {
        (true, _) => GroupHandling::Numbers,
        (_, true) => GroupHandling::Made,
        _ => GroupHandling::Kept,
    };
    options.write = super::write_options(&arguments.sink);
    let (path, progress) = (arguments.sink.output, output.progress().clone());
    let written = interrupt::blocking(move |token| {
        options.write = options.write.context(progress.context(token));
        Ok(convert(&source, &path, &options)?)
    })
    .await?;
    report(&written, output)
}

/// Prints what was written.
fn report(written: &Written, output: &Output) -> Result<Exit, Failure> {
    output.progress().finish();
    for warning in &written.warnings {
        output.warning(&one_line(warning));
    }
    if output.is_json() {
        output.json(written)?;
    } else {
        let path = written.path.display().to_string();
        let (tensors, size) = (count(written.tensors, "tensor"), byte_size(written.size));
        output.text(&format!("wrote {} ({tensors}, {size})\n", one_line(&path)))?;
    }
    Ok(Exit::Ok)
}
