//! `carton tensor cat`: prints the elements of a tensor.

use carton_tensor_files::{TensorFilesError, TensorLayout, Value};

use super::Context;
use crate::args::TensorCatArgs;
use crate::commands::elements::{part_of, part_of_others, print};
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
        let is_numbers = listed.element_type.is_some() || listed.format == TensorLayout::Ggml;
        let part = match listed.shape.as_deref().filter(|_| is_numbers) {
            Some(shape) => part_of(&elements, shape, |slice| source.read_slice(&listed.name, slice))?,
            None => None,
        };
        let value = match part {
            Some(part) => Value::Numbers(part),
            None if is_numbers => source.read(&listed.name)?,
            None => part_of_others(source.read(&listed.name)?, &elements)?,
        };
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
