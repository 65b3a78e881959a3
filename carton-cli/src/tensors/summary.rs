//! Formats tensors for people, laid out and abbreviated as NumPy prints arrays. Pure.

use carton_tensor::{
    BoolByte, Complex, Float8E4m3Fn, Float8E4m3Fnuz, Float8E5m2, Float8E5m2Fnuz, NumericTensor, Tensor, bf16, f16,
};

use super::elements::with_elements;

/// Tensors with more elements are abbreviated.
const THRESHOLD: usize = 1000;
/// The number of elements shown at each end of an abbreviated dimension.
const EDGE: usize = 3;
/// The largest number of decimals.
const PRECISION: usize = 8;
/// The width of a line in columns.
const LINE_WIDTH: usize = 100;
/// The number of bytes shown of an element of bytes.
const MAX_BYTES: usize = 8;
/// The number of characters shown of a string.
const MAX_STRING: usize = 60;

/// Returns dtype and shape, and the values.
pub(crate) fn summary(tensor: &Tensor) -> (String, String) {
    match tensor {
        Tensor::Numeric(numeric) => (kind(tensor), numeric_values(numeric)),
        Tensor::String(strings) => {
            let values =
                layout(strings.shape(), &|shown| shown.iter().map(|&at| quoted(&strings.elements()[at])).collect());
            (kind(tensor), values)
        }
        Tensor::Bytes(bytes) => {
            let values =
                layout(bytes.shape(), &|shown| shown.iter().map(|&at| first_bytes(&bytes.elements()[at])).collect());
            (kind(tensor), values)
        }
        Tensor::Nested(nested) => {
            let mut lines = Vec::new();
            for (index, element) in nested.elements().iter().enumerate() {
                if nested.elements().len() > 2 * EDGE && index == EDGE {
                    lines.push("...".to_owned());
                }
                if nested.elements().len() > 2 * EDGE && (EDGE..nested.elements().len() - EDGE).contains(&index) {
                    continue;
                }
                let (kind, values) = summary(element);
                lines.push(format!("{index}: {kind}\n{values}"));
            }
            (kind(tensor), lines.join("\n"))
        }
        _ => ("a kind of tensor that this version does not know".to_owned(), String::new()),
    }
}

/// `float32 [2, 3]`, `bool [3]`, `nested int64, 3 tensors`.
fn kind(tensor: &Tensor) -> String {
    let dtype = tensor.dtype().map_or("nothing", carton_tensor::DataType::name).to_owned();
    match (tensor, tensor.shape()) {
        (Tensor::Nested(nested), _) => {
            format!("nested {dtype}, {}", crate::text::count(nested.elements().len(), "tensor"))
        }
        (_, Some(shape)) => format!("{dtype} {shape:?}"),
        (_, None) => dtype,
    }
}

fn numeric_values(tensor: &NumericTensor) -> String {
    with_elements!(
        tensor,
        elements => layout(tensor.shape(), &|shown| {
            let shown: Vec<_> = shown.iter().filter_map(|&at| elements.get(at).copied()).collect();
            Cells::cells(&shown)
        }),
        else String::new()
    )
}

/// Element types that can be formatted as a set, so that columns line up.
trait Cells: Sized {
    fn cells(elements: &[Self]) -> Vec<String>;
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Cells for $integer {
            fn cells(elements: &[Self]) -> Vec<String> {
                right_aligned(elements.iter().map(ToString::to_string).collect())
            }
        }
    )*};
}

macro_rules! floats {
    ($($float:ty),*) => {$(
        impl Cells for $float {
            fn cells(elements: &[Self]) -> Vec<String> {
                let wide: Vec<f64> = elements.iter().map(|&element| f64::from(element)).collect();
                let scientific = needs_exponent(&wide);
                // Formatted in its own type, because the shortest text of a float32 is not that of the same float64.
                let texts: Vec<String> = elements
                    .iter()
                    .map(|element| match (element.is_finite(), scientific) {
                        (true, true) => mantissa_and_exponent(&format!("{element:e}"), &format!("{element:.PRECISION$e}")),
                        (true, false) => fixed(&format!("{element}"), &format!("{element:.PRECISION$}")),
                        (false, _) => format!("{element}").to_ascii_lowercase(),
                    })
                    .collect();
                if scientific { right_aligned(with_equal_decimals(texts)) } else { aligned_at_the_point(texts) }
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64, BoolByte);
floats!(f32, f64);

macro_rules! short_floats {
    ($($float:ty),*) => {$(
        impl Cells for $float {
            fn cells(elements: &[Self]) -> Vec<String> {
                f32::cells(&elements.iter().map(|element| element.to_f32()).collect::<Vec<_>>())
            }
        }
    )*};
}

short_floats!(f16, bf16, Float8E4m3Fn, Float8E5m2, Float8E4m3Fnuz, Float8E5m2Fnuz);

macro_rules! complex {
    ($($part:ty),*) => {$(
        impl Cells for Complex<$part> {
            fn cells(elements: &[Self]) -> Vec<String> {
                let real = <$part>::cells(&elements.iter().map(|element| element.re).collect::<Vec<_>>());
                let imaginary = <$part>::cells(&elements.iter().map(|element| element.im.abs()).collect::<Vec<_>>());
                let signs = elements.iter().map(|element| if element.im.is_sign_negative() { '-' } else { '+' });
                let with_unit = |((real, imaginary), sign): ((String, String), char)| {
                    let number = imaginary.trim();
                    let before = imaginary.len() - imaginary.trim_start().len();
                    let behind = imaginary.len() - before - number.len();
                    format!("{real}{:before$}{sign}{number}j{:behind$}", "", "")
                };
                real.into_iter().zip(imaginary).zip(signs).map(with_unit).collect()
            }
        }
    )*};
}

complex!(f32, f64);

/// Whether NumPy would use exponents: for very large or very small numbers, or if the magnitudes are far apart.
fn needs_exponent(elements: &[f64]) -> bool {
    let magnitudes =
        elements.iter().map(|element| element.abs()).filter(|element| element.is_finite() && *element > 0.0);
    let (smallest, largest) =
        magnitudes.fold((f64::INFINITY, 0.0_f64), |(low, high), element| (low.min(element), high.max(element)));
    largest > 0.0 && (largest >= 1e8 || smallest < 1e-4 || largest / smallest > 1e3)
}

/// Returns the shortest text that means this number, or the text rounded to the precision if it has fewer decimals; `2.` for a whole
/// number.
fn fixed(shortest: &str, cut: &str) -> String {
    let decimals = |text: &str| text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let text = if decimals(shortest) > PRECISION { cut.trim_end_matches('0') } else { shortest };
    if text.contains('.') { text.to_owned() } else { format!("{text}.") }
}

/// Formats `1.5e-07` as NumPy does: with a sign and at least two digits in the exponent.
fn mantissa_and_exponent(shortest: &str, cut: &str) -> String {
    let split = |text: &str| {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        (mantissa.to_owned(), exponent.parse::<i32>().unwrap_or(0))
    };
    let (mut mantissa, mut exponent) = split(shortest);
    if mantissa.split_once('.').is_some_and(|(_, decimals)| decimals.len() > PRECISION) {
        (mantissa, exponent) = split(cut);
        mantissa = mantissa.trim_end_matches('0').to_owned();
    }
    let point = if mantissa.contains('.') { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}{point}e{sign}{:02}", exponent.unsigned_abs())
}

/// Pads mantissas to equal length: `1.5e-07` and `1.225e+01` become `1.500e-07` and `1.225e+01`.
fn with_equal_decimals(texts: Vec<String>) -> Vec<String> {
    let parts = |text: &str| Some((text.find('.')?, text.find('e')?));
    let decimals = |text: &String| parts(text).map(|(point, exponent)| exponent - point);
    let most = texts.iter().filter_map(decimals).max().unwrap_or(0);
    texts
        .into_iter()
        .map(|text| match parts(&text) {
            Some((point, exponent)) => {
                let zeros = "0".repeat(most - (exponent - point));
                format!("{}{zeros}{}", &text[..exponent], &text[exponent..])
            }
            None => text,
        })
        .collect()
}

fn right_aligned(texts: Vec<String>) -> Vec<String> {
    let width = texts.iter().map(String::len).max().unwrap_or(0);
    texts.into_iter().map(|text| format!("{text:>width$}")).collect()
}

fn aligned_at_the_point(texts: Vec<String>) -> Vec<String> {
    let parts = |text: &String| text.find('.').map(|point| (point, text.len() - point));
    let before = texts.iter().filter_map(parts).map(|(before, _)| before).max().unwrap_or(0);
    let after = texts.iter().filter_map(parts).map(|(_, after)| after).max().unwrap_or(0);
    let padded = texts.into_iter().map(|text| match parts(&text) {
        Some((own, _)) => {
            let left = " ".repeat(before - own);
            format!("{left}{text:<width$}", width = before + after - left.len())
        }
        None => format!("{text:>width$}", width = before + after),
    });
    right_aligned(padded.collect())
}

fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_STRING) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// The size of an element of bytes, and the first of them.
fn first_bytes(bytes: &[u8]) -> String {
    let shown: String = bytes.iter().take(MAX_BYTES).map(|byte| format!(" {byte:02x}")).collect();
    let more = if bytes.len() > MAX_BYTES { " ..." } else { "" };
    let colon = if bytes.is_empty() { "" } else { ":" };
    format!("<{}{colon}{shown}{more}>", crate::text::count(bytes.len(), "byte"))
}

/// Returns the indices of a dimension that are shown; `None` stands for the gap.
fn shown_indices(length: usize, abbreviate: bool) -> Vec<Option<usize>> {
    if abbreviate && length > 2 * EDGE {
        (0..EDGE).map(Some).chain([None]).chain((length - EDGE..length).map(Some)).collect()
    } else {
        (0..length).map(Some).collect()
    }
}

/// Lays out elements in brackets. `cells` gets the positions of all shown elements in order, in one call, because the format of one
/// element depends on the others.
fn layout(shape: &[usize], cells: &dyn Fn(&[usize]) -> Vec<String>) -> String {
    let count = carton_tensor::element_count(shape).unwrap_or(usize::MAX);
    if count == 0 {
        return "[]".to_owned();
    }
    let abbreviate = count > THRESHOLD;
    let mut shown = Vec::new();
    positions(shape, 0, abbreviate, &mut shown);
    let mut cells = cells(&shown).into_iter();
    let mut text = String::new();
    brackets(shape, abbreviate, 0, &mut cells, &mut text);
    text
}

fn positions(shape: &[usize], base: usize, abbreviate: bool, shown: &mut Vec<usize>) {
    match shape.split_first() {
        None => shown.push(base),
        Some((&length, inner)) => {
            for index in shown_indices(length, abbreviate).into_iter().flatten() {
                positions(inner, base * length + index, abbreviate, shown);
            }
        }
    }
}

fn brackets(
    shape: &[usize],
    abbreviate: bool,
    depth: usize,
    cells: &mut dyn Iterator<Item = String>,
    text: &mut String,
) {
    let Some((&length, inner)) = shape.split_first() else {
        text.push_str(&cells.next().unwrap_or_default());
        return;
    };
    text.push('[');
    let indent = " ".repeat(depth + 1);
    let mut column = depth + 1;
    for (position, index) in shown_indices(length, abbreviate).into_iter().enumerate() {
        if inner.is_empty() {
            let cell = match index {
                Some(_) => cells.next().unwrap_or_default(),
                None => "...".to_owned(),
            };
            let width = cell.chars().count();
            if position > 0 && column + 1 + width > LINE_WIDTH {
                text.push('\n');
                text.push_str(&indent);
                column = depth + 1;
            } else if position > 0 {
                text.push(' ');
                column += 1;
            }
            column += width;
            text.push_str(&cell);
        } else {
            if position > 0 {
                text.push_str(&"\n".repeat(inner.len()));
                text.push_str(&indent);
            }
            match index {
                Some(_) => brackets(inner, abbreviate, depth + 1, cells, text),
                None => text.push_str("..."),
            }
        }
    }
    text.push(']');
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn check(tensor: Tensor, kind: &str, values: &str) {
        assert_eq!(summary(&tensor), (kind.to_owned(), values.to_owned()));
    }

    // The expected texts are what NumPy prints for these arrays.
    #[test]
    fn numbers() {
        check(Tensor::scalar(3_i64), "int64 []", "3");
        check(Tensor::scalar(0.1_f32), "float32 []", "0.1");
        check(Tensor::from_vec(vec![1.0, 2.5, -10.25], vec![3]).unwrap(), "float64 [3]", "[  1.     2.5  -10.25]");
        check(Tensor::from_vec(vec![1.0_f32 / 3.0, 2.0], vec![2]).unwrap(), "float32 [2]", "[0.33333334 2.        ]");
        check(Tensor::from_vec(vec![1.0 / 3.0, 2.0], vec![2]).unwrap(), "float64 [2]", "[0.33333333 2.        ]");
        check(Tensor::from_vec(vec![f64::NAN, f64::INFINITY, 1.0], vec![3]).unwrap(), "float64 [3]", "[nan inf  1.]");
        check(Tensor::from_vec(vec![1e-7, 1.0], vec![2]).unwrap(), "float64 [2]", "[1.e-07 1.e+00]");
        check(Tensor::from_vec(vec![1.5e-7, 12.25], vec![2]).unwrap(), "float64 [2]", "[1.500e-07 1.225e+01]");
        check(Tensor::from_vec(vec![f64::NAN, -1.5, 100.0], vec![3]).unwrap(), "float64 [3]", "[  nan  -1.5 100. ]");
        check(Tensor::from_vec(vec![1_u8, 20, 3, 4], vec![2, 2]).unwrap(), "uint8 [2, 2]", "[[ 1 20]\n [ 3  4]]");
        check(Tensor::from_vec(vec![1_i8, 2, 3, 4], vec![2, 1, 2]).unwrap(), "int8 [2, 1, 2]", "[[[1 2]]\n\n [[3 4]]]");
        check(Tensor::from_vec(Vec::<f32>::new(), vec![2, 0]).unwrap(), "float32 [2, 0]", "[]");
    }

    #[test]
    fn complex_numbers_and_short_floats() {
        let complex = |elements: &[(f64, f64)]| {
            let elements: Vec<_> = elements.iter().map(|(re, im)| Complex::new(*re, *im)).collect();
            Tensor::from_vec(elements.clone(), vec![elements.len()]).unwrap()
        };
        check(complex(&[(1.0, 10.0), (1.0, -2.0)]), "complex128 [2]", "[1.+10.j 1. -2.j]");
        check(complex(&[(1.0, 0.5), (1.5, 2.0)]), "complex128 [2]", "[1. +0.5j 1.5+2.j ]");
        check(Tensor::from_vec(vec![f16::from_f32(1.5)], vec![1]).unwrap(), "float16 [1]", "[1.5]");
        check(Tensor::from_vec(vec![BoolByte(1), BoolByte(0)], vec![2]).unwrap(), "bool [2]", "[ true false]");
    }

    #[test]
    fn bytes() {
        let tensor = Tensor::from_bytes([vec![0xff; 9], vec![], vec![10]], vec![3]).unwrap();
        check(tensor, "bytes [3]", "[<9 bytes: ff ff ff ff ff ff ff ff ...> <0 bytes> <1 byte: 0a>]");
    }

    #[test]
    fn large_ones_are_abbreviated() {
        let numbers: Vec<i64> = (0..1200).collect();
        check(
            Tensor::from_vec(numbers.clone(), vec![1200]).unwrap(),
            "int64 [1200]",
            "[   0    1    2 ... 1197 1198 1199]",
        );
        check(
            Tensor::from_vec(numbers, vec![300, 4]).unwrap(),
            "int64 [300, 4]",
            "[[   0    1    2    3]\n [   4    5    6    7]\n [   8    9   10   11]\n ...\n [1188 1189 1190 1191]\n [1192 1193 1194 1195]\n [1196 1197 1198 1199]]",
        );
        let long = layout(&[60], &|shown| shown.iter().map(|at| format!("{at:>3}")).collect());
        assert_eq!(long.lines().count(), 3);
        assert!(long.lines().all(|line| line.len() <= LINE_WIDTH + 1), "{long}");
    }

    #[test]
    fn strings_and_nested() {
        check(Tensor::from_strings(["a", "b\n"], vec![2]).unwrap(), "string [2]", "[\"a\" \"b\\n\"]");
        let long = "x".repeat(100);
        check(Tensor::from_strings([long], vec![]).unwrap(), "string []", &format!("\"{}\"...", "x".repeat(60)));
        check(
            Tensor::nested(vec![Tensor::scalar(1_i32), Tensor::from_vec(vec![2, 3], vec![2]).unwrap()]).unwrap(),
            "nested int32, 2 tensors",
            "0: int32 []\n1\n1: int32 [2]\n[2 3]",
        );
    }
}
