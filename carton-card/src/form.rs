//! The form to try a model with: a field for each declared input. The script fills the fields, sends the call and shows the answer; it gets
//! what it needs to know as JSON in an attribute, where no text can end the data early.

use std::collections::{BTreeMap, BTreeSet};

use carton_core::metadata::TensorSpec;
use carton_core::package::Info;
use carton_core::tensor::{carried, with_number};
use carton_core::{DataType, Dimension, NumericTensor, SymbolicShape, Tensor};
use maud::{Markup, html};
use serde::Serialize;

use crate::datatype::datatype_name;
use crate::served::ServedModel;
use crate::text;

/// The inputs of an example or a self-test.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Stored {
    pub(crate) label: String,
    pub(crate) inputs: BTreeMap<String, StoredValue>,
}

/// A stored input.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StoredValue {
    /// A tensor as nested lists of JSON. It stays a text, because JavaScript rounds integers of 64 bits.
    Text(String),
    /// The `id` of a picture on the page.
    Picture(String),
}

impl StoredValue {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Text(text) | Self::Picture(text) => text.len(),
        }
    }
}

/// What the script knows about the model.
#[derive(Serialize)]
struct Model<'a> {
    infer_path: &'a str,
    takes_token: bool,
    inputs: Vec<Field<'a>>,
    stored: &'a [Stored],
}

#[derive(Serialize)]
struct Field<'a> {
    name: &'a str,
    datatype: &'static str,
    /// The declared sizes, `null` for one that is not fixed; `null` if any number of dimensions is allowed.
    shape: Option<Vec<Option<u64>>>,
    /// Whether the elements are bytes, which are sent as base64.
    is_bytes: bool,
    optional: bool,
    picture: Option<Picture>,
}

/// How a picture becomes a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Picture {
    channels: u64,
    channels_first: bool,
    height: Option<u64>,
    width: Option<u64>,
}

/// Returns the sizes that are declared.
fn sizes(shape: &SymbolicShape) -> Option<Vec<Option<u64>>> {
    let SymbolicShape::Dimensions(dimensions) = shape else { return None };
    let size = |dimension: &Dimension| match dimension {
        Dimension::Fixed(size) => Some(*size),
        _ => None,
    };
    Some(dimensions.iter().map(size).collect())
}

/// Whether an input looks like a picture: three dimensions, or four of which the first is the batch, with channels first or last, and sizes
/// that a picture may have.
fn picture(spec: &TensorSpec) -> Option<Picture> {
    const MAX_SIDE: u64 = 4096;
    let is_float = spec.dtype.is_float() && spec.dtype.size().is_some_and(|size| size > 1);
    if spec.dtype != DataType::Uint8 && !is_float {
        return None;
    }
    let sizes = sizes(&spec.shape)?;
    let [first, second, third] = match *sizes {
        [None | Some(1), first, second, third] | [first, second, third] => [first, second, third],
        _ => return None,
    };
    let is_side = |size: Option<u64>| size.is_none_or(|size| (4..=MAX_SIDE).contains(&size));
    let is_channels = |size: &u64| matches!(size, 1 | 3 | 4);
    if let Some(channels) = first.filter(is_channels).filter(|_| is_side(second) && is_side(third)) {
        return Some(Picture { channels, channels_first: true, height: second, width: third });
    }
    let channels = third.filter(is_channels).filter(|_| is_side(first) && is_side(second))?;
    Some(Picture { channels, channels_first: false, height: first, width: second })
}

/// Whether an input is one number.
fn is_number(spec: &TensorSpec) -> bool {
    let is_one = |sizes: Vec<Option<u64>>| sizes.iter().all(|size| *size == Some(1));
    spec.dtype.size().is_some() && !spec.dtype.is_complex() && sizes(&spec.shape).is_some_and(is_one)
}

/// The declared sizes of an input as the protocol has them: complex numbers are pairs.
fn protocol_sizes(spec: &TensorSpec) -> Option<Vec<Option<u64>>> {
    let mut sizes = sizes(&spec.shape)?;
    if spec.dtype.is_complex() {
        sizes.push(Some(2));
    }
    Some(sizes)
}

/// Writes a tensor as nested lists of JSON, as the form has them: complex numbers are pairs, bytes are base64, and numbers that JSON lacks are
/// texts. `None` for nested tensors.
pub(crate) fn json_text(tensor: &Tensor) -> Option<String> {
    match tensor {
        Tensor::Numeric(numbers) if numbers.dtype().is_complex() => json_text(&carried(tensor).ok()?),
        Tensor::Bytes(_) => json_text(&carried(tensor).ok()?),
        Tensor::Numeric(tensor) => nested_lists(tensor.shape(), &elements(tensor)?),
        Tensor::String(tensor) => {
            let elements: Vec<String> =
                tensor.elements().iter().map(|text| serde_json::json!(text).to_string()).collect();
            nested_lists(tensor.shape(), &elements)
        }
        _ => None,
    }
}

fn elements(tensor: &NumericTensor) -> Option<Vec<String>> {
    // `Debug` writes the shortest digits that give the same number, with an exponent where that is shorter.
    let text = |text: String| match text.as_str() {
        "NaN" => "\"NaN\"".to_owned(),
        "inf" => "\"Infinity\"".to_owned(),
        "-inf" => "\"-Infinity\"".to_owned(),
        _ => text.strip_suffix(".0").map(str::to_owned).unwrap_or(text),
    };
    with_number!(tensor.dtype(), T => {
        let elements = tensor.to_vec::<T>().ok()?;
        Some(elements.iter().map(|element| text(format!("{element:?}"))).collect())
    }, else None)
}

fn nested_lists(shape: &[usize], elements: &[String]) -> Option<String> {
    // The number of lists depends on the sizes before a 0, which no element backs.
    if elements.is_empty() && shape.len() > 1 {
        return None;
    }
    let mut lists = elements.to_vec();
    for &size in shape.iter().rev() {
        lists = match size {
            0 => vec!["[]".to_owned()],
            _ => lists.chunks(size).map(|items| format!("[{}]", items.join(","))).collect(),
        };
    }
    lists.pop()
}

/// The form of a model.
pub(crate) fn form(model: &ServedModel<'_>, info: &Info, stored: &[Stored]) -> Markup {
    // Of several inputs with one name, which other writers declare, only the first can be given.
    let mut names = BTreeSet::new();
    let specs: Vec<&TensorSpec> = info.inputs.iter().filter(|spec| names.insert(spec.name.as_str())).collect();
    let fields = specs.iter().filter_map(|spec| {
        let datatype = datatype_name(spec.dtype)?;
        let (shape, picture) = (protocol_sizes(spec), picture(spec));
        let is_bytes = spec.dtype == DataType::Bytes;
        Some(Field { name: &spec.name, datatype, shape, is_bytes, optional: spec.is_optional(), picture })
    });
    let known =
        Model { infer_path: &model.infer_path, takes_token: model.takes_token, inputs: fields.collect(), stored };
    let is_complete = known.inputs.len() == specs.len() && !specs.is_empty();
    let stored: &[Stored] = if is_complete { stored } else { &[] };
    let json = serde_json::to_string(&known).unwrap_or_default();
    html! {
        section aria-labelledby="try" {
            h2 id="try" { "Try it" }
            noscript { p { "The form needs JavaScript. Without it, call the model at " code { "POST " (model.infer_path) } "." } }
            form id="form" hidden data-model=(json) {
                @if !stored.is_empty() {
                    div.field {
                        label for="stored" { "Fill in the inputs of" }
                        select id="stored" {
                            option value="" { "Choose an example or a self-test" }
                            @for (index, stored) in stored.iter().enumerate() { option value=(index) { (stored.label) } }
                        }
                    }
                }
                @if is_complete {
                    @for (index, spec) in specs.iter().enumerate() { (field(index, spec)) }
                } @else {
                    div.field {
                        label for="request" { "Request" }
                        p.hint id="request-hint" {
                            "The carton does not declare its inputs. Write the request as the Open Inference Protocol has it."
                        }
                        textarea id="request" rows="8" spellcheck="false" aria-describedby="request-hint" {
                            r#"{"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [0]}]}"#
                        }
                    }
                }
                @if model.takes_token {
                    div.field {
                        label for="token" { "Token" }
                        p.hint id="token-hint" { "The server asks for a bearer token. This page forgets it when it is closed." }
                        input id="token" type="password" autocomplete="off" aria-describedby="token-hint";
                    }
                }
                div.actions {
                    button id="run" type="submit" { "Run the model" }
                    p.status id="status" role="status" {}
                }
                p.problem id="error" role="alert" hidden {}
                div.answer id="answer" role="region" aria-label="Answer" aria-live="polite" hidden {}
                details.code {
                    summary { "The same call in a shell and in Python" }
                    (snippet("curl", "curl"))
                    (snippet("python", "Python"))
                    p hidden id="request-file" {
                        "The request is long. "
                        button.plain type="button" id="save" { "Save request.json" }
                    }
                }
            }
        }
    }
}

fn snippet(id: &str, title: &str) -> Markup {
    html! {
        div.snippet {
            div.snippet-head {
                h3 id=(format!("{id}-title")) { (title) }
                button.plain type="button" hidden data-copy=(id) { "Copy" span.hidden { " the " (title) " call" } }
            }
            pre tabindex="0" role="region" aria-labelledby=(format!("{id}-title")) { code id=(id) {} }
        }
    }
}

fn field(index: usize, spec: &TensorSpec) -> Markup {
    let id = format!("input-{index}");
    let hint = format!("{id}-hint");
    let picture = picture(spec);
    let how = match spec.dtype {
        DataType::String => "Text, or a JSON list of texts.",
        DataType::Bytes => "The base64 of the bytes, or a JSON list of such texts.",
        DataType::Bool if is_number(spec) => "true or false.",
        DataType::Bool => "true and false as nested JSON lists; one flat list where the shape is clear.",
        dtype if dtype.is_complex() => "Pairs of numbers, the real and the imaginary part, as nested JSON lists.",
        _ if is_number(spec) => "A number.",
        _ => "Numbers as nested JSON lists; one flat list where the shape is clear.",
    };
    html! {
        fieldset.field data-input=(index) {
            legend {
                code { (text::cut(&spec.name, 200)) } " "
                span.kind { (spec.dtype.name()) " " (text::declared_shape(&spec.shape)) @if spec.is_optional() { ", optional" } }
            }
            @if let Some(text) = &spec.description { p.hint { (text::cut(text, 1000)) } }
            @if picture.is_some() { (picture_field(&id, spec.dtype)) }
            @if spec.dtype == DataType::Bytes { (file_field(&id)) }
            label for=(id) {
                @if is_number(spec) { "Value" } @else if spec.dtype == DataType::String { "Text" }
                @else if spec.dtype == DataType::Bytes { "Base64" } @else { "Values" }
            }
            p.hint id=(hint) { (how) }
            @if is_number(spec) {
                @let keys = if spec.dtype == DataType::Bool { "text" } else { "decimal" };
                input id=(id) type="text" inputmode=(keys) autocomplete="off" aria-describedby=(hint);
            } @else {
                textarea id=(id) rows="4" spellcheck="false" aria-describedby=(hint) {}
            }
        }
    }
}

fn file_field(id: &str) -> Markup {
    html! {
        label for=(format!("{id}-bytes")) { "Files" }
        p.hint id=(format!("{id}-bytes-hint")) { "The bytes of each file are one element." }
        input id=(format!("{id}-bytes")) type="file" multiple aria-describedby=(format!("{id}-bytes-hint"));
    }
}

fn picture_field(id: &str, dtype: DataType) -> Markup {
    let is_bytes = dtype == DataType::Uint8;
    html! {
        div.picture-field {
            div {
                label for=(format!("{id}-file")) { "Picture" }
                p.hint id=(format!("{id}-file-hint")) { "It is scaled to the declared shape, and fills in the values." }
                input id=(format!("{id}-file")) type="file" accept="image/png,image/jpeg,image/gif,image/webp"
                    aria-describedby=(format!("{id}-file-hint"));
                div.options {
                    label for=(format!("{id}-range")) { "Values from 0 to" }
                    select id=(format!("{id}-range")) {
                        option value="1" selected[!is_bytes] { "1" }
                        option value="255" selected[is_bytes] { "255" }
                    }
                    label.check {
                        input id=(format!("{id}-invert")) type="checkbox";
                        "Invert: dark is high"
                    }
                }
            }
            canvas id=(format!("{id}-canvas")) width="1" height="1" hidden role="img" aria-label="The picture as the model gets it" {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use carton_core::tensor::{BoolByte, Complex, f16};

    use super::*;

    fn spec(dtype: DataType, shape: &str) -> TensorSpec {
        TensorSpec::new("x", dtype, serde_json::from_str(shape).unwrap())
    }

    #[test]
    fn pictures_are_recognized_by_their_shape() {
        let check = |shape: &str, expected: Option<(u64, bool, Option<u64>, Option<u64>)>| {
            let found = picture(&spec(DataType::Float32, shape));
            let found = found.map(|picture| (picture.channels, picture.channels_first, picture.height, picture.width));
            assert_eq!(found, expected, "{shape}");
        };
        check(r#"["batch", 1, 8, 8]"#, Some((1, true, Some(8), Some(8))));
        check("[1, 3, 224, 160]", Some((3, true, Some(224), Some(160))));
        check(r#"["n", "h", "w", 3]"#, Some((3, false, None, None)));
        check("[32, 48, 4]", Some((4, false, Some(32), Some(48))));
        check(r#"[3, "h", "w"]"#, Some((3, true, None, None)));
        check("[16, 3, 224, 224]", None);
        check("[2, 8, 8]", None);
        check("[8, 8]", None);
        check("[1, 3, 5000, 8]", None);
        check("[1, 3]", None);
        check("\"*\"", None);
        assert_eq!(picture(&spec(DataType::Int64, "[3, 8, 8]")), None);
    }

    #[test]
    fn tensors_are_written_as_nested_lists() {
        let check = |tensor: Tensor, expected: Option<&str>| assert_eq!(json_text(&tensor).as_deref(), expected);
        check(Tensor::scalar(1.5_f32), Some("1.5"));
        check(Tensor::from_vec(vec![1_u8, 2, 3, 4], vec![2, 2]).unwrap(), Some("[[1,2],[3,4]]"));
        check(Tensor::from_vec(vec![u64::MAX, 0], vec![2]).unwrap(), Some("[18446744073709551615,0]"));
        check(Tensor::from_vec(vec![0.1_f32, 1e-30, 1e30, -2.0], vec![4]).unwrap(), Some("[0.1,1e-30,1e30,-2]"));
        check(Tensor::from_strings(["</script>\"", "b"], vec![2, 1]).unwrap(), Some(r#"[["</script>\""],["b"]]"#));
        check(Tensor::from_vec(vec![f32::NAN], vec![1]).unwrap(), Some(r#"["NaN"]"#));
        check(Tensor::from_vec(vec![f64::NEG_INFINITY], vec![1]).unwrap(), Some(r#"["-Infinity"]"#));
        check(Tensor::from_vec(vec![BoolByte(1), BoolByte(0)], vec![2]).unwrap(), Some("[true,false]"));
        check(Tensor::scalar(f16::from_f32(1.5)), Some("1.5"));
        check(Tensor::from_vec(vec![Complex::new(1.0_f32, -2.0)], vec![1]).unwrap(), Some("[[1,-2]]"));
        check(Tensor::from_bytes([vec![0xff]], vec![1]).unwrap(), Some(r#"["/w=="]"#));
        check(Tensor::from_vec::<f32>(vec![], vec![0]).unwrap(), Some("[]"));
        check(Tensor::from_vec::<f32>(vec![], vec![2, 0]).unwrap(), None);
        check(Tensor::nested(vec![Tensor::scalar(1_i32)]).unwrap(), None);
    }

    #[test]
    fn one_number_has_a_field_of_its_own() {
        let check = |dtype, shape: &str, expected| assert_eq!(is_number(&spec(dtype, shape)), expected, "{shape}");
        check(DataType::Float32, "[]", true);
        check(DataType::Int64, "[1, 1]", true);
        check(DataType::Float32, r#"["batch"]"#, false);
        check(DataType::String, "[1]", false);
        check(DataType::Bytes, "[1]", false);
        check(DataType::Complex64, "[1]", false);
        check(DataType::Bool, "[1]", true);
    }
}
