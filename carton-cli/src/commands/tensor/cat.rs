//! `carton tensor cat`: the elements of a tensor.

use super::Context;
use crate::args::TensorCatArgs;
use crate::commands::elements::{cut, print};
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::tensor_files::TensorFileError;

pub(super) async fn run(arguments: TensorCatArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let TensorCatArgs { source, dense, name, elements } = arguments;
    let mut source = super::open_source(source, context).await?.with_max_dense(dense.max_dense);
    if let Some(name) = &name {
        source.keep(name)?;
    }
    let name = match source.listed() {
        [only] => only.name.clone(),
        listed => return Err(TensorFileError::NotOne { place: source.place.clone(), found: listed.len() }.into()),
    };
    let (name, value, elements) = interrupt::blocking(move |_| {
        let value = cut(source.read(&name)?, &elements)?;
        Ok((name, value, elements))
    })
    .await?;
    output.progress().finish();
    print(&name, value, &elements, output)
}
