//! `carton tensor ls`: lists tensors, without reading their elements.

use carton_tensor::ztensor::Attribute;
use carton_tensor_files::{TensorFilesError, TensorInfo, attribute_to_json};
use serde::Serialize;
use serde_json::{Map, Value};

use super::Context;
use crate::args::{DenseArgs, TensorLsArgs};
use crate::failure::{Exit, Failure};
use crate::output::{Align, Output, Role, Table};
use crate::text::{byte_size, count, large_count, one_line, shortened};

/// The output of `--json`.
#[derive(Serialize)]
struct Listing<'a> {
    tensors: Vec<Described<'a>>,
    /// The number of elements in all tensors.
    parameters: u64,
    /// The metadata of the file; left out if there is none.
    #[serde(skip_serializing_if = "Map::is_empty")]
    metadata: Map<String, Value>,
}

/// A tensor, and its attributes in a zTensor file.
#[derive(Serialize)]
struct Described<'a> {
    #[serde(flatten)]
    listed: &'a TensorInfo,
    #[serde(skip_serializing_if = "Map::is_empty")]
    attributes: Map<String, Value>,
}

pub(super) async fn run(arguments: TensorLsArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let nothing = DenseArgs { max_dense: None };
    let source = super::open_some(arguments.source, arguments.only, nothing, context).await?;
    let mut metadata = source.metadata()?;
    metadata.extend(source.long_arrays());
    let attributes = |listed: &TensorInfo| source.attributes(&listed.name);
    if output.is_json() {
        let describe = |listed| Ok(Described { listed, attributes: metadata_object(&attributes(listed)?) });
        let tensors = source.tensors().iter().map(describe).collect::<Result<_, TensorFilesError>>()?;
        let metadata = metadata_object(metadata.iter().map(|(key, value)| (key, value)));
        output.json(&Listing { tensors, parameters: source.n_elements(), metadata })?;
        return Ok(Exit::Ok);
    }
    let mut text = table(source.tensors(), output);
    text.push_str(&described("metadata", metadata.iter().map(|(key, value)| (key, value)), output));
    for listed in source.tensors() {
        text.push_str(&described(&format!("attributes of {}", listed.name), &attributes(listed)?, output));
    }
    output.text(&text)?;
    for listed in source.tensors() {
        if let Some(reason) = &listed.unusable {
            output.note(&one_line(&format!("`{}` cannot be read: {reason}", listed.name)));
        }
    }
    output.note(&format!(
        "{}, {}, {}",
        count(source.tensors().len(), "tensor"),
        large_count(source.n_elements(), "parameter"),
        byte_size(source.total())
    ));
    Ok(Exit::Ok)
}

fn table(tensors: &[TensorInfo], output: &Output) -> String {
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
            tensor.format.name().to_owned(),
            tensor.name.clone(),
        ]);
    }
    table.lines(&|row, _, cell| if row == 0 { output.paint(Role::Heading, &cell) } else { cell })
}

/// More characters or bytes of a value than a line shows.
const MOST: usize = 1 << 12;

/// Formats metadata or attributes, one line per key. Without keys the text is empty.
fn described<'a>(title: &str, pairs: impl IntoIterator<Item = (&'a String, &'a Attribute)>, output: &Output) -> String {
    let mut text = String::new();
    for (key, value) in pairs {
        // Shortened, because a value may be a whole document; programs can use --json.
        let value = match value {
            Attribute::Text(value) => value.chars().take(MOST).collect(),
            Attribute::Bytes(bytes) => {
                attribute_to_json(&Attribute::Bytes(bytes.iter().take(MOST).copied().collect())).to_string()
            }
            other => attribute_to_json(other).to_string(),
        };
        text.push_str(&shortened(&format!("  {}: {}", one_line(key), one_line(&value))));
        text.push('\n');
    }
    if text.is_empty() { text } else { format!("\n{}\n{text}", output.paint(Role::Heading, &one_line(title))) }
}

/// `[2, 3]`.
pub(super) fn shape(shape: Option<&[usize]>) -> String {
    shape.map_or_else(|| "-".to_owned(), |shape| format!("{shape:?}"))
}

/// Converts several attributes to one JSON object.
fn metadata_object<'a>(pairs: impl IntoIterator<Item = (&'a String, &'a Attribute)>) -> Map<String, Value> {
    pairs.into_iter().map(|(key, value)| (key.clone(), attribute_to_json(value))).collect()
}
