//! What differs between tensors, as text for people.

use carton_tensor::difference::{
    DifferingElement, ElementsDifference, TensorChange, TensorDifference, TensorForm, TensorsDifference,
};

use crate::output::{Align, Output, Role, Table};
use crate::text::{count, six_digits};

/// Formats the tensors that differ as a table.
pub(crate) fn differences(tensors: &[TensorDifference], indent: &'static str, output: &Output) -> String {
    let mut table = Table::new(&[Align::Left; 8]).indent(indent);
    table.row(["CHANGE", "DTYPE", "SHAPE", "DIFFERING", "LARGEST DIFFERENCE", "RELATIVE", "COSINE", "NAME"]);
    for tensor in tensors {
        let name = match &tensor.name_b {
            Some(name_b) => format!("{} -> {name_b}", tensor.name),
            None => tensor.name.clone(),
        };
        let (differing, largest, relative, cosine) = match (&tensor.elements, &tensor.reason) {
            (Some(found), _) => (
                format!("{} of {}", found.differing, found.elements),
                found.largest.as_ref().map_or_else(|| "-".to_owned(), element),
                six_digits(found.largest_relative.as_ref().and_then(|element| element.difference)),
                cosine(found),
            ),
            (None, Some(reason)) => ("-".to_owned(), reason.clone(), "-".to_owned(), "-".to_owned()),
            (None, None) => ("-".to_owned(), "-".to_owned(), "-".to_owned(), "-".to_owned()),
        };
        table.row([
            change(tensor.change).to_owned(),
            both(tensor, |form| form.dtype.clone().unwrap_or_else(|| "-".to_owned())),
            both(tensor, |form| form.shape.as_ref().map_or_else(|| "-".to_owned(), |shape| format!("{shape:?}"))),
            differing,
            largest,
            relative,
            cosine,
            name,
        ]);
    }
    table.lines(&|row, column, cell| match (row, column) {
        (0, _) => output.paint(Role::Heading, &cell),
        (_, 0) if cell.starts_with("not") => output.paint(Role::Notice, &cell),
        _ => cell,
    })
}

/// The line below the table: what differs, and what does not.
pub(crate) fn summary_of_differences(found: &TensorsDifference) -> String {
    let of = |changes: &[TensorChange]| found.tensors.iter().filter(|tensor| changes.contains(&tensor.change)).count();
    let by_digest = match found.same_by_digest {
        0 => String::new(),
        digests => format!(" ({digests} by the SHA-256 that both files state)"),
    };
    let mut parts = Vec::new();
    let differing = of(&[TensorChange::Elements, TensorChange::Dtype, TensorChange::Shape]);
    for (number, what) in [
        (differing, "differ"),
        (of(&[TensorChange::Removed]), "only in A"),
        (of(&[TensorChange::Added]), "only in B"),
        (of(&[TensorChange::NotCompared]), "not compared"),
    ] {
        match (number, what) {
            (0, _) => {}
            (1, "differ") => parts.push("1 tensor differs".to_owned()),
            (number, what) => parts.push(format!("{} {what}", count(number, "tensor"))),
        }
    }
    parts.push(format!("{} the same{by_digest}", count(found.same, "tensor")));
    parts.join(", ")
}

/// `0.5 at [1, 0]: 2.0 -> 2.5`.
fn element(element: &DifferingElement) -> String {
    let difference =
        element.difference.map(|difference| format!("{} ", six_digits(Some(difference)))).unwrap_or_default();
    let list = element.tensor.map(|tensor| format!("tensor {tensor} ")).unwrap_or_default();
    format!("{difference}at {list}{:?}: {} -> {}", element.index, element.a, element.b)
}

/// `0.999872`, or `0.999872 (3 not finite)` where elements are left out.
fn cosine(found: &ElementsDifference) -> String {
    let left_out = match found.not_finite {
        0 => String::new(),
        number => format!(" ({number} not finite)"),
    };
    format!("{}{left_out}", six_digits(found.cosine))
}

fn change(change: TensorChange) -> &'static str {
    match change {
        TensorChange::Removed => "removed",
        TensorChange::Added => "added",
        TensorChange::Shape => "shape",
        TensorChange::Dtype => "dtype",
        TensorChange::Elements => "elements",
        TensorChange::NotCompared => "not compared",
        _ => "other",
    }
}

/// A property of a tensor, or of both tensors if it differs.
fn both(tensor: &TensorDifference, property: impl Fn(&TensorForm) -> String) -> String {
    match (tensor.a.as_ref().map(&property), tensor.b.as_ref().map(&property)) {
        (Some(a), Some(b)) if a != b => format!("{a} -> {b}"),
        (a, b) => a.or(b).unwrap_or_default(),
    }
}
