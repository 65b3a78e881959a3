//! `carton tensor ls`: which tensors there are, without reading them.

use serde::Serialize;

use super::Context;
use crate::args::TensorLsArgs;
use crate::failure::{Exit, Failure};
use crate::output::{Align, Role, Table, byte_size, count};
use crate::tensor_files::Listed;

#[derive(Serialize)]
struct Listing<'a> {
    tensors: &'a [Listed],
}

pub(super) async fn run(arguments: TensorLsArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let source = super::open_some(arguments.source, arguments.only, context).await?;
    let tensors = source.listed();
    if output.is_json() {
        output.json(&Listing { tensors })?;
        return Ok(Exit::Ok);
    }
    let text = |text: Option<&str>| text.unwrap_or("-").to_owned();
    let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let mut table =
        Table::new(&[Align::Left, Align::Left, Align::Right, Align::Right, Align::Left, Align::Left, Align::Left]);
    table.row(["DTYPE", "SHAPE", "BYTES", "STORED", "ENCODING", "FORMAT", "NAME"]);
    for tensor in tensors {
        let encoding = match &tensor.digest {
            Some(digest) => format!("{}, {digest}", tensor.encoding.unwrap_or("-")),
            None => text(tensor.encoding),
        };
        table.row([
            text(tensor.dtype.as_deref()),
            shape(tensor.shape.as_deref()),
            number(tensor.bytes),
            number(tensor.stored),
            encoding,
            tensor.format.clone(),
            tensor.name.clone(),
        ]);
    }
    output.text(&table.lines(&|row, _, cell| if row == 0 { output.paint(Role::Heading, &cell) } else { cell }))?;
    output.note(&format!("{}, {}", count(tensors.len(), "tensor"), byte_size(source.total())));
    Ok(Exit::Ok)
}

/// `[2, 3]`.
pub(super) fn shape(shape: Option<&[usize]>) -> String {
    shape.map_or_else(|| "-".to_owned(), |shape| format!("{shape:?}"))
}
