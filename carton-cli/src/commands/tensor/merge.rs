//! `carton tensor merge`: writes a blend of models, or a model with the adapters that were merged into it.

use std::path::PathBuf;

use carton_tensor_files::{AdapterOptions, MergeOptions, TensorSource, merge, merge_adapters, with_scales};

use super::{Context, convert};
use crate::args::{DenseArgs, LinksArgs, SourceArgs, TensorMergeArgs};
use crate::failure::{Exit, Failure};
use crate::interrupt;

pub(super) async fn run(arguments: TensorMergeArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let mut models = Vec::with_capacity(arguments.models.len());
    for model in arguments.models {
        models.push(open(model, arguments.links, arguments.dense, context).await?);
    }
    let base = match arguments.base {
        Some(base) => Some(open(base, arguments.links, arguments.dense, context).await?),
        None => None,
    };
    let write = super::write_options(&arguments.sink);
    let (path, progress) = (arguments.sink.output, output.progress().clone());
    let written = if arguments.lora.is_empty() {
        let mut options = MergeOptions::default();
        options.method = arguments.method.into();
        options.weights = arguments.weights;
        options.normalize = arguments.normalize;
        options.t = arguments.t;
        options.lambda = arguments.lambda;
        options.dtype = arguments.dtype.map(Into::into);
        interrupt::blocking(move |token| {
            options.write = write.context(progress.context(token));
            Ok(merge(&models, base.as_ref(), &path, &options)?)
        })
        .await?
    } else {
        let adapters = with_scales(arguments.lora, &arguments.lora_scale)?;
        let mut options = AdapterOptions::default();
        options.links = arguments.links.into();
        options.dtype = arguments.dtype.map(Into::into);
        interrupt::blocking(move |token| {
            options.write = write.context(progress.context(token));
            Ok(merge_adapters(&models, &adapters, &path, &options)?)
        })
        .await?
    };
    convert::report(&written, output)
}

/// Opens a model, whose digests are compared.
async fn open(
    source: PathBuf,
    links: LinksArgs,
    dense: DenseArgs,
    context: &Context<'_>,
) -> Result<TensorSource, Failure> {
    let source = super::open_source(SourceArgs { source, links }, context).await?;
    Ok(source.with_max_dense(dense.max_dense).verifying(true))
}
