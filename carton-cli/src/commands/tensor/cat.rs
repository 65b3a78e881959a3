//! `carton tensor cat`: prints the elements of a tensor.

use carton_tensor_files::{TensorFilesError, TensorLayout};

use super::Context;
use crate::args::TensorCatArgs;
use crate::commands::elements::{cut, print};
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::text::one_line;

pub(super) async fn run(arguments: TensorCatArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let TensorCatArgs { source, dense, digests, name, elements } = arguments;
    let mut source = super::open_source(source, context).await?.with_max_dense(dense.max_dense);
    if let Some(name) = &name {
        source.keep(name)?;
    }
    let listed = match source.tensors() {
        [only] => only.clone(),
        listed => return Err(TensorFilesError::NotOne { place: source.place().to_owned(), found: listed.len() }.into()),
    };
    let source = super::with_digests(source, digests, context);
    let (listed, value, elements) = interrupt::blocking(move |_| {
        let value = cut(source.read(&listed.name)?, &elements)?;
        Ok((listed, value, elements))
    })
    .await?;
    output.progress().finish();
    if listed.format == TensorLayout::Ggml {
        let of = one_line(listed.dtype.as_deref().unwrap_or_default());
        output.note(&format!("the float32 numbers of blocks of {of}"));
    }
    print(&listed.name, listed.dtype.as_deref(), value, &elements, output)
}
