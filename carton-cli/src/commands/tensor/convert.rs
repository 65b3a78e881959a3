//! `carton tensor convert`: writes tensors to a file of another format.

use carton_tensor_files::{ConvertOptions, GroupHandling, Rounding, Written, convert};

use super::Context;
use crate::args::{SourceArgs, TensorConvertArgs};
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::text::{byte_size, count, one_line};

pub(super) async fn run(arguments: TensorConvertArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let mut sources = Vec::with_capacity(arguments.sources.len());
    let links = arguments.links;
    for source in arguments.sources {
        let source = super::open_source(SourceArgs { source, links }, context).await?;
        sources.push(source.with_max_dense(arguments.dense.max_dense).verifying(true));
    }
    let mut options = ConvertOptions::default();
    options.groups = match (arguments.dequantize, arguments.quantized_groups) {
        (true, _) => GroupHandling::Numbers,
        (_, true) => GroupHandling::Made,
        _ => GroupHandling::Kept,
    };
    options.selection.only = arguments.only.only;
    options.selection.exclude = arguments.exclude;
    options.selection.rename = arguments.rename;
    options.rounding = arguments.dtype.map(|dtype| Rounding { to: dtype.into(), saturate: arguments.saturate });
    options.shard_size = arguments.shard_size;
    options.metadata.set = arguments.metadata;
    options.metadata.leave_out = arguments.no_metadata;
    options.write = super::write_options(&arguments.sink);
    let (path, progress) = (arguments.sink.output, output.progress().clone());
    let written = interrupt::blocking(move |token| {
        options.write = options.write.context(progress.context(token));
        Ok(convert(&sources.iter().collect::<Vec<_>>(), &path, &options)?)
    })
    .await?;
    report(&written, output)
}

/// Prints what was written.
pub(super) fn report(written: &Written, output: &Output) -> Result<Exit, Failure> {
    output.progress().finish();
    for warning in &written.warnings {
        output.warning(&one_line(warning));
    }
    if output.is_json() {
        output.json(written)?;
    } else {
        let path = written.path.display().to_string();
        let (tensors, size) = (count(written.tensors, "tensor"), byte_size(written.size));
        let files = match written.shards.len() {
            0 => String::new(),
            files => format!(" and {}", count(files, "file")),
        };
        output.text(&format!("wrote {}{files} ({tensors}, {size})\n", one_line(&path)))?;
    }
    Ok(Exit::Ok)
}
