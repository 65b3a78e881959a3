//! `carton tensor ls`: lists tensors, without reading their elements.

use std::collections::BTreeMap;

use carton_tensor::ztensor::Attribute;
use carton_tensor_files::{LogicalTensor, TensorInfo, TensorSource, attribute_to_json};
use serde::Serialize;
use serde_json::{Map, Value};

use super::Context;
use crate::args::{DenseArgs, TensorLsArgs};
use crate::failure::{Exit, Failure};
use crate::interrupt;
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

/// A tensor, its attributes in a zTensor file, and the dense tensor that it stands for.
#[derive(Serialize)]
struct Described<'a> {
    #[serde(flatten)]
    listed: &'a TensorInfo,
    #[serde(skip_serializing_if = "Map::is_empty")]
    attributes: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logical: Option<LogicalTensor>,
}

pub(super) async fn run(arguments: TensorLsArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let nothing = DenseArgs { max_dense: None };
    let source = super::open_some(arguments.source, arguments.only, nothing, context).await?;
    // The first look at packed tensors may read files.
    let source = interrupt::blocking(move |_| {
        source.tensors().iter().take(1).for_each(|listed| drop(source.logical(&listed.name)));
        Ok(source)
    })
    .await?;
    let mut metadata = source.metadata()?;
    metadata.extend(source.long_arrays());
    let attributes = |listed: &TensorInfo| source.attributes(&listed.name);
    if output.is_json() {
        let mut tensors = Vec::with_capacity(source.tensors().len());
        for listed in source.tensors() {
            let attributes = metadata_object(&attributes(listed)?);
            tensors.push(Described { listed, attributes, logical: source.logical(&listed.name) });
        }
        let metadata = metadata_object(metadata.iter().map(|(key, value)| (key, value)));
        output.json(&Listing { tensors, parameters: source.n_elements(), metadata })?;
        return Ok(Exit::Ok);
    }
    let mut text = table(&source, output);
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
    for note in not_dequantized(&source) {
        output.note(&one_line(&note));
    }
    output.note(&format!(
        "{}, {}, {}",
        count(source.tensors().len(), "tensor"),
        large_count(source.n_elements(), "parameter"),
        byte_size(source.total())
    ));
    Ok(Exit::Ok)
}

/// Says for each reason which packed tensors are not dequantized.
fn not_dequantized(source: &TensorSource) -> Vec<String> {
    let mut reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for listed in source.tensors() {
        if let Some(reason) = source.logical(&listed.name).and_then(|logical| logical.reason) {
            reasons.entry(reason).or_default().push(&listed.name);
        }
    }
    let note = |(reason, names): (String, Vec<&str>)| {
        let more = match names.len() {
            0 | 1 => String::new(),
            2 => " and another one are".to_owned(),
            several => format!(" and {} others are", several - 1),
        };
        let first = names.first().copied().unwrap_or_default();
        let are = if more.is_empty() { " is" } else { "" };
        format!("`{first}`{more}{are} not dequantized: {reason}")
    };
    reasons.into_iter().map(note).collect()
}

/// `GPTQ 4 bit, float16 [4096, 4096]`, or the scheme alone.
fn stands_for(logical: &LogicalTensor) -> String {
    match (&logical.dtype, &logical.shape) {
        (Some(dtype), Some(dimensions)) => format!("{}, {dtype} {}", logical.scheme, shape(Some(dimensions))),
        _ => logical.scheme.clone(),
    }
}

fn table(source: &TensorSource, output: &Output) -> String {
    let tensors = source.tensors();
    // Only where a tensor stands for a dense one.
    let logical: Vec<Option<LogicalTensor>> = tensors.iter().map(|tensor| source.logical(&tensor.name)).collect();
    let is_packed = logical.iter().any(Option::is_some);
    let text = |text: Option<&str>| text.unwrap_or("-").to_owned();
    let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let left = [Align::Left; 4];
    let mut table = Table::new(
        &[&[Align::Left, Align::Left, Align::Right, Align::Right], &left[usize::from(!is_packed)..]].concat(),
    );
    let headings = ["DTYPE", "SHAPE", "BYTES", "STORED", "ENCODING", "FORMAT", "STANDS FOR", "NAME"];
    table.row(headings.into_iter().filter(|heading| is_packed || *heading != "STANDS FOR"));
    for (tensor, logical) in tensors.iter().zip(&logical) {
        let encoding = match &tensor.digest {
            Some(digest) => format!("{}, {digest}", tensor.encoding.unwrap_or("-")),
            None => text(tensor.encoding),
        };
        let stands_for = match logical {
            Some(logical) => stands_for(logical),
            None if source.is_packed_part(&tensor.name) => "(a part)".to_owned(),
            None => "-".to_owned(),
        };
        let cells = [
            text(tensor.dtype.as_deref()),
            shape(tensor.shape.as_deref()),
            number(tensor.bytes),
            number(tensor.stored),
            encoding,
            tensor.format.name().to_owned(),
        ];
        table.row(cells.into_iter().chain(is_packed.then_some(stands_for)).chain([tensor.name.clone()]));
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
