//! Shows a tensor as what it is: one number, bars, a table, a picture, a heat map, texts, or a summary of what is too large for those.

use carton_core::tensor::{BytesTensor, Complex, Number, NumberValue, with_number};
use carton_core::{DataType, NestedTensor, NumericTensor, StringTensor, Tensor};
use maud::{Markup, html};

use crate::bars::bars;
use crate::budget::Budget;
use crate::media::Media;
use crate::{picture, text};

/// The most numbers that are shown as bars.
const MAX_BARS: usize = 100;
/// The most integers that are shown as a table.
const MAX_TABLE: usize = 100;
/// The longest side of a heat map or a picture.
const MAX_SIDE: usize = 1024;
/// The shortest side of what is shown as a picture.
const MIN_PICTURE: usize = 8;
/// How many numbers, texts or inner tensors are shown of more.
const MAX_SHOWN: usize = 16;
/// The most characters of one text.
const MAX_TEXT: usize = 2_000;

/// Shows a tensor. `name` is the input or output, for the text alternative of a picture.
pub(crate) fn view(name: &str, tensor: &Tensor, budget: &mut Budget) -> Markup {
    match tensor {
        Tensor::Numeric(tensor) if tensor.dtype().is_complex() => complex(tensor),
        Tensor::Numeric(tensor) => numbers(name, tensor, budget),
        Tensor::Bytes(tensor) => bytes(name, tensor, budget),
        Tensor::String(tensor) => strings(tensor),
        Tensor::Nested(tensor) => nested(name, tensor, budget),
        _ => html! { p.missing { "a tensor of a kind that is not shown" } },
    }
}

/// The elements as numbers. Large integers lose digits.
fn values(tensor: &NumericTensor) -> Vec<f64> {
    let wide = |value: NumberValue| match value {
        NumberValue::Integer(value) => value as f64,
        NumberValue::Float(value) => value,
    };
    with_number!(tensor.dtype(), T => {
        tensor.to_vec::<T>().unwrap_or_default().into_iter().map(|element| wide(element.value())).collect()
    }, else Vec::new())
}

/// A number of a tensor as text.
fn element(dtype: DataType, value: f64) -> String {
    match dtype {
        DataType::Bool => (value != 0.0).to_string(),
        _ => text::number(value),
    }
}

fn numbers(name: &str, tensor: &NumericTensor, budget: &mut Budget) -> Markup {
    let values = values(tensor);
    // A batch of one is shown as the one.
    let n_ones = tensor.shape().iter().take_while(|&&size| size == 1).count();
    let inner = &tensor.shape()[n_ones..];
    let dtype = tensor.dtype();
    let drawn = match *inner {
        _ if values.is_empty() => None,
        [] => Some(html! { p.value { (element(dtype, values[0])) } }),
        [size] if dtype == DataType::Bool && size <= MAX_TABLE => Some(table(dtype, &values, 1)),
        [size] if size <= MAX_BARS => Some(bars(&values)),
        [rows, columns] if !dtype.is_float() && rows * columns <= MAX_TABLE => Some(table(dtype, &values, columns)),
        [rows, columns] if rows > 1 && columns > 1 => heat_map(name, &values, rows, columns, budget),
        [..] => color_picture(name, tensor, inner, &values, budget),
    };
    html! {
        @match drawn {
            Some(drawn) => { (drawn) p.kind { (tensor.dtype().name()) " " (text::shape(tensor.shape())) } },
            None => (summary(tensor, &values)),
        }
    }
}

fn table(dtype: DataType, values: &[f64], columns: usize) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Table of values" {
            table.numbers {
                thead { tr { td {} @for column in 0..columns { th scope="col" { (column) } } } }
                tbody {
                    @for (index, row) in values.chunks(columns.max(1)).enumerate() {
                        tr { th scope="row" { (index) } @for value in row { td.number { (element(dtype, *value)) } } }
                    }
                }
            }
        }
    }
}

/// The smallest and the largest number, and the mean. `None` if there is no number.
fn statistics(values: &[f64]) -> Option<(f64, f64, f64)> {
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let low = finite.iter().copied().reduce(f64::min)?;
    let high = finite.iter().copied().reduce(f64::max)?;
    Some((low, high, finite.iter().map(|value| value / finite.len() as f64).sum()))
}

fn heat_map(name: &str, values: &[f64], rows: usize, columns: usize, budget: &mut Budget) -> Option<Markup> {
    if rows > MAX_SIDE || columns > MAX_SIDE {
        return None;
    }
    let (low, high, mean) = statistics(values)?;
    let range = if high > low { high - low } else { 1.0 };
    let png = picture::png(columns, rows, values.iter().map(|value| picture::heat((value - low) / range)))?;
    let (low, high, mean) = (text::number(low), text::number(high), text::number(mean));
    let alt = format!("Heat map of {name}: {rows} rows of {columns} values from {low} to {high}, on average {mean}");
    let url = embedded(&png, budget)?;
    Some(html! {
        img.heat alt=(alt) src=(url) width=(columns) height=(rows);
        p.scale { span { (low) } span.ramp aria-hidden="true" {} span { (high) } }
    })
}

/// A tensor of three color channels as a picture: the channels come first or last, in bytes or from 0 to 1.
fn color_picture(
    name: &str,
    tensor: &NumericTensor,
    inner: &[usize],
    values: &[f64],
    budget: &mut Budget,
) -> Option<Markup> {
    let (rows, columns, is_first) = match *inner {
        [3, rows, columns] => (rows, columns, true),
        [rows, columns, 3] => (rows, columns, false),
        _ => return None,
    };
    let (low, high, _) = statistics(values)?;
    let scale = match tensor.dtype() {
        DataType::Uint8 => 1.0,
        dtype if dtype.is_float() && low >= 0.0 && high <= 1.0 => 255.0,
        _ => return None,
    };
    if !(MIN_PICTURE..=MAX_SIDE).contains(&rows) || !(MIN_PICTURE..=MAX_SIDE).contains(&columns) {
        return None;
    }
    let area = rows * columns;
    let at = |pixel: usize, channel: usize| if is_first { channel * area + pixel } else { pixel * 3 + channel };
    let pixels = (0..area).map(|pixel| [0, 1, 2].map(|channel| (values[at(pixel, channel)] * scale).round() as u8));
    let url = embedded(&picture::png(columns, rows, pixels)?, budget)?;
    Some(html! { img.pixels alt=(format!("{name} as a picture")) src=(url) width=(columns) height=(rows); })
}

fn embedded(png: &[u8], budget: &mut Budget) -> Option<String> {
    budget.take(png.len() as u64).then(|| Media::Picture("image/png").data_url(png))
}

fn summary(tensor: &NumericTensor, values: &[f64]) -> Markup {
    html! {
        dl.facts {
            dt { "Type" } dd { (tensor.dtype().name()) }
            dt { "Shape" } dd { (text::shape(tensor.shape())) }
            @if let Some((low, high, mean)) = statistics(values) {
                dt { "Smallest" } dd { (text::number(low)) }
                dt { "Largest" } dd { (text::number(high)) }
                dt { "Mean" } dd { (text::number(mean)) }
            }
            @if !values.is_empty() {
                dt { "First values" }
                dd {
                    @for value in values.iter().take(MAX_SHOWN) { (element(tensor.dtype(), *value)) " " }
                    @if values.len() > MAX_SHOWN { "…" }
                }
            }
        }
    }
}

fn strings(tensor: &StringTensor) -> Markup {
    let elements = tensor.elements();
    html! {
        @if let [only] = elements {
            pre.text { (text::cut(only, MAX_TEXT)) }
        } @else {
            ol.texts { @for element in elements.iter().take(MAX_SHOWN) { li { (text::cut(element, MAX_TEXT)) } } }
            (more(elements.len()))
        }
        p.kind { "string " (text::shape(tensor.shape())) }
    }
}

fn complex(tensor: &NumericTensor) -> Markup {
    let shown = |element: (f64, f64)| {
        let sign = if element.1.is_sign_negative() { '-' } else { '+' };
        format!("{} {sign} {}i", text::number(element.0), text::number(element.1.abs()))
    };
    let singles = tensor.to_vec().unwrap_or_default().into_iter();
    let singles = singles.map(|element: Complex<f32>| (f64::from(element.re), f64::from(element.im)));
    let doubles = tensor.to_vec().unwrap_or_default().into_iter().map(|element: Complex<f64>| (element.re, element.im));
    let elements: Vec<(f64, f64)> = singles.chain(doubles).collect();
    html! {
        ol.texts { @for element in elements.iter().take(MAX_SHOWN) { li { (shown(*element)) } } }
        (more(elements.len()))
        p.kind { (tensor.dtype().name()) " " (text::shape(tensor.shape())) }
    }
}

fn bytes(name: &str, tensor: &BytesTensor, budget: &mut Budget) -> Markup {
    let elements = tensor.elements();
    html! {
        ol.texts { @for element in elements.iter().take(MAX_SHOWN) { li { (of_bytes(name, element, budget)) } } }
        (more(elements.len()))
        p.kind { "bytes " (text::shape(tensor.shape())) }
    }
}

/// Shows bytes as the picture that they are, or by their size and the first of them.
fn of_bytes(name: &str, bytes: &[u8], budget: &mut Budget) -> Markup {
    let size = text::byte_size(bytes.len() as u64);
    match Media::of(bytes) {
        Some(media @ Media::Picture(_)) if budget.take(bytes.len() as u64) => html! {
            img.picture alt=(format!("{name} as a picture")) src=(media.data_url(bytes));
        },
        _ => html! {
            (size) @if !bytes.is_empty() { ": " code { @for byte in bytes.iter().take(MAX_SHOWN) { (format!("{byte:02x} ")) } } }
            @if bytes.len() > MAX_SHOWN { "…" }
        },
    }
}

fn nested(name: &str, tensor: &NestedTensor, budget: &mut Budget) -> Markup {
    let elements = tensor.elements();
    html! {
        p.kind { (elements.len()) " tensors, whose shapes may differ" }
        ol.texts { @for element in elements.iter().take(MAX_SHOWN) { li { (view(name, element, budget)) } } }
        (more(elements.len()))
    }
}

fn more(n_elements: usize) -> Markup {
    html! { @if n_elements > MAX_SHOWN { p.missing { "and " (n_elements - MAX_SHOWN) " more" } } }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use carton_core::tensor::{BoolByte, f16};

    use super::*;

    fn shown(tensor: &Tensor) -> String {
        view("\"x\"<", tensor, &mut Budget::new(1 << 20)).0
    }

    fn floats(shape: &[usize]) -> Tensor {
        let n_elements: usize = shape.iter().product();
        let elements = (0..n_elements).map(|index| index as f32 / n_elements as f32).collect();
        Tensor::from_vec::<f32>(elements, shape.to_vec()).unwrap()
    }

    #[test]
    fn the_shape_decides() {
        let check = |tensor: &Tensor, expected: &str| {
            let shown = shown(tensor);
            assert!(shown.contains(expected), "{expected} in {shown}");
        };
        check(&Tensor::scalar(2.5_f32), "<p class=\"value\">2.5</p>");
        check(&floats(&[1, 1]), "<p class=\"value\">0</p>");
        check(&floats(&[1, 10]), "<table class=\"bars\">");
        check(&floats(&[101]), "<dt>First values</dt>");
        check(&floats(&[1, 1, 8, 8]), "alt=\"Heat map of &quot;x&quot;&lt;: 8 rows of 8 values from 0 to 0.9844");
        check(&floats(&[3, 16, 16]), "<img class=\"pixels\"");
        check(&floats(&[16, 16, 3]), "<img class=\"pixels\"");
        check(&floats(&[2, 16, 16]), "<dd>[2, 16, 16]</dd>");
        check(&floats(&[2000, 2]), "<dd>[2000, 2]</dd>");
        check(&floats(&[0, 3]), "<dd>[0, 3]</dd>");
        check(&Tensor::from_vec(vec![1_i64, 2, 3, 4], vec![2, 2]).unwrap(), "<table class=\"numbers\">");
        check(&Tensor::from_vec(vec![f32::NAN; 16], vec![4, 4]).unwrap(), "<dd>[4, 4]</dd>");
        check(&Tensor::from_vec(vec![f32::NAN; 4], vec![4]).unwrap(), "NaN");
        check(&Tensor::from_vec(vec![f64::MAX, f64::MIN], vec![2]).unwrap(), "<table class=\"bars\">");
        check(&Tensor::from_strings(["<b>"], vec![1]).unwrap(), "<pre class=\"text\">&lt;b&gt;</pre>");
        check(&Tensor::from_strings(["a"; 20], vec![20]).unwrap(), "and 4 more");
        check(&Tensor::nested(vec![floats(&[2]), floats(&[3])]).unwrap(), "2 tensors");
        check(&Tensor::scalar(BoolByte(1)), "<p class=\"value\">true</p>");
        check(&Tensor::from_vec(vec![BoolByte(1), BoolByte(0)], vec![2]).unwrap(), "<td class=\"number\">false</td>");
        check(&Tensor::scalar(f16::from_f32(0.5)), "<p class=\"value\">0.5</p>");
        check(&Tensor::from_vec(vec![Complex::new(1.0_f32, -0.5)], vec![1]).unwrap(), "<li>1 - 0.5i</li>");
        check(&Tensor::from_bytes([vec![0xff, 0]], vec![1]).unwrap(), "<code>ff 00 </code>");
    }

    #[test]
    fn pictures_take_the_budget() {
        let shown = view("x", &floats(&[8, 8]), &mut Budget::new(10)).0;
        assert!(!shown.contains("<img") && shown.contains("<dt>Mean</dt>"), "{shown}");
    }
}
