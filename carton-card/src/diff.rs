//! What differs between two cartons, as a web page.

use std::fmt::Display;

use carton_core::OptionValue;
use carton_core::diff::{
    CartonDiff, CaseChange, Change, DiffedCarton, FieldChange, FileChange, FileVersion, Packages, SpecChange,
    TensorChange, TensorDifference, TensorForm, TensorsDifference,
};
use carton_core::trust::SigningStatus;
use maud::{Markup, html};

use crate::document::{Kind, document};
use crate::text;

/// The most rows of a table.
const MAX_ROWS: usize = 1000;
/// The most characters of a value.
const MAX_TEXT: usize = 1_000;
/// The most characters of a name.
const MAX_NAME: usize = 200;

/// Makes one HTML file of what differs between two cartons. It has no script and refers to no other file. Long lists are cut, and the page says so.
#[must_use]
pub fn diff_page(diff: &CartonDiff) -> String {
    let body = html! {
        header.top {
            h1 { "What differs" }
            p.lead { @if diff.is_same { "Both are the same carton." } @else { "The cartons are not the same." } }
        }
        main {
            (cartons(diff))
            (fields("metadata", "Metadata", &diff.metadata))
            (specs("inputs", "Inputs", &diff.inputs))
            (specs("outputs", "Outputs", &diff.outputs))
            (files(&diff.files))
            (tensors(diff))
            @if let Some(found) = &diff.packages { (packages(found)) }
            (cases("self-tests", "Self-tests", "Expected outputs", &diff.self_tests))
            (cases("examples", "Examples", "Outputs", &diff.examples))
            (links(diff))
        }
    };
    document("What differs between two cartons", Kind::Standalone, &body)
}

fn cartons(diff: &CartonDiff) -> Markup {
    let carton = |side: &str, carton: &DiffedCarton| {
        let signer = carton.signing.as_ref().filter(|status| status.is_trusted()).and_then(SigningStatus::signer);
        html! {
            dt { (side) }
            dd {
                code { (text::cut_plain(&carton.location, MAX_TEXT)) }
                @if let Some(name) = &carton.model_name { " (" (text::cut_plain(name, MAX_NAME)) ")" }
                @if let Some(hash) = &carton.manifest_sha256 { br; "sha256:" code { (hash) } }
                // Anyone can write whom another signature names as its signer.
                @if let Some(signer) = signer { br; "Signed by " (text::cut_plain(&signer, MAX_NAME)) }
            }
        }
    };
    html! {
        section aria-labelledby="cartons" {
            h2 id="cartons" { "Cartons" }
            dl.facts { (carton("A", &diff.a)) (carton("B", &diff.b)) }
            @if diff.is_incomplete { p.missing { "Some tensors or packages could not be compared." } }
        }
    }
}

/// A table in which each row begins with what it is about.
fn table(label: &str, head: &[&str], n_rows: usize, rows: Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(text::cut_plain(label, MAX_NAME)) {
            table {
                thead { tr { @for title in head { th scope="col" { (title) } } } }
                tbody { (rows) }
            }
        }
        @if n_rows > MAX_ROWS { p.missing { "and " (n_rows - MAX_ROWS) " more" } }
    }
}

fn titled(id: &str, title: &str, is_shown: bool, body: Markup) -> Markup {
    html! { @if is_shown { section aria-labelledby=(id) { h2 id=(id) { (title) } (body) } } }
}

fn value(value: &Option<OptionValue>) -> Markup {
    html! {
        @match value {
            Some(OptionValue::String(value)) => (text::cut_plain(value, MAX_TEXT)),
            Some(value) => code { (text::cut_plain(&value.to_string(), MAX_TEXT)) },
            None => "–",
        }
    }
}

fn field_rows(changes: &[FieldChange]) -> Markup {
    html! {
        @for field in changes.iter().take(MAX_ROWS) {
            tr {
                th scope="row" { code { (text::cut_plain(&field.field, MAX_NAME)) } }
                td { (value(&field.a)) }
                td { (value(&field.b)) }
            }
        }
    }
}

fn fields(id: &str, title: &str, changes: &[FieldChange]) -> Markup {
    let rows = table(title, &["Field", "A", "B"], changes.len(), field_rows(changes));
    titled(id, title, !changes.is_empty(), rows)
}

fn change(change: Change) -> &'static str {
    match change {
        Change::Removed => "Removed",
        Change::Added => "Added",
        Change::Changed => "Changed",
        Change::Renamed => "Renamed",
        _ => "Other",
    }
}

fn specs(id: &str, title: &str, changes: &[SpecChange]) -> Markup {
    let body = html! {
        @for spec in changes.iter().take(MAX_ROWS) {
            h3 { (change(spec.change)) ": " code { (text::cut_plain(&spec.name, MAX_NAME)) } }
            @if !spec.fields.is_empty() {
                (table(&spec.name, &["Property", "A", "B"], spec.fields.len(), field_rows(&spec.fields)))
            }
            @if let Some(default) = &spec.default { (differences("Default", default)) }
        }
        @if changes.len() > MAX_ROWS { p.missing { "and " (changes.len() - MAX_ROWS) " more" } }
    };
    titled(id, title, !changes.is_empty(), body)
}

fn files(changes: &[FileChange]) -> Markup {
    let size = |file: &Option<FileVersion>| match file {
        Some(file) => file.size.map_or_else(|| "unknown".to_owned(), text::byte_size),
        None => "–".to_owned(),
    };
    let rows = html! {
        @for file in changes.iter().take(MAX_ROWS) {
            tr {
                th scope="row" {
                    @if let Some(path) = &file.path_a { code { (text::cut_plain(path, MAX_TEXT)) } " → " }
                    code { (text::cut_plain(&file.path, MAX_TEXT)) }
                }
                td.short { (change(file.change)) }
                td.number { (size(&file.a)) }
                td.number { (size(&file.b)) }
            }
        }
    };
    titled(
        "files",
        "Files",
        !changes.is_empty(),
        table("Files", &["File", "Change", "Size in A", "Size in B"], changes.len(), rows),
    )
}

fn tensors(diff: &CartonDiff) -> Markup {
    let body = html! {
        @for file in diff.tensors.iter().take(MAX_ROWS) {
            h3 {
                code { (text::cut_plain(&file.path_a, MAX_TEXT)) }
                @if file.path_a != file.path_b { " → " code { (text::cut_plain(&file.path_b, MAX_TEXT)) } }
            }
            @match &file.problem {
                Some(problem) => p.missing { "Not compared: " (text::cut_plain(problem, MAX_TEXT)) },
                None => (differences(&file.path_b, &file.found)),
            }
        }
    };
    titled("tensors", "Tensors", !diff.tensors.is_empty(), body)
}

fn differences(label: &str, found: &TensorsDifference) -> Markup {
    let both = |tensor: &TensorDifference, property: &dyn Fn(&TensorForm) -> String| match (
        tensor.a.as_ref().map(property),
        tensor.b.as_ref().map(property),
    ) {
        (Some(a), Some(b)) if a != b => format!("{a} → {b}"),
        (a, b) => a.or(b).unwrap_or_default(),
    };
    let dtype = |form: &TensorForm| form.dtype.clone().unwrap_or_else(|| "–".to_owned());
    let shape = |form: &TensorForm| form.shape.as_deref().map_or_else(|| "–".to_owned(), text::shape);
    let number = |difference: Option<f64>| difference.map_or_else(|| "–".to_owned(), text::number);
    let rows = html! {
        @for tensor in found.tensors.iter().take(MAX_ROWS) {
            tr {
                th.wide scope="row" {
                    code { (text::cut_plain(&tensor.name, MAX_NAME)) }
                    @if let Some(name) = &tensor.name_b { " → " code { (text::cut_plain(name, MAX_NAME)) } }
                }
                td.short { (tensor_change(tensor.change)) }
                td.short { code { (text::cut_plain(&both(tensor, &dtype), MAX_NAME)) } }
                td.wide { code { (text::cut_plain(&both(tensor, &shape), MAX_NAME)) } }
                td.number { @if let Some(found) = &tensor.elements { (found.differing) " of " (found.elements) } }
                td {
                    @if let Some(largest) = tensor.elements.as_ref().and_then(|found| found.largest.as_ref()) {
                        (number(largest.difference)) " at "
                        @if let Some(position) = largest.tensor { "tensor " (position) " " }
                        code { (format!("{:?}", largest.index)) }
                        ": " code { (text::cut_plain(&largest.a, MAX_NAME)) } " → " code { (text::cut_plain(&largest.b, MAX_NAME)) }
                    }
                    @if let Some(reason) = &tensor.reason { (text::cut_plain(reason, MAX_TEXT)) }
                }
                td.number {
                    @if let Some(largest) = tensor.elements.as_ref().and_then(|found| found.largest_relative.as_ref()) {
                        (number(largest.difference))
                    }
                }
            }
        }
    };
    let head = ["Tensor", "Change", "Type", "Shape", "Elements", "Largest difference", "Largest relative difference"];
    html! {
        @if !found.tensors.is_empty() { (table(label, &head, found.tensors.len(), rows)) }
        p { (counted(found.same, "tensor is the same", "tensors are the same")) }
    }
}

fn counted(number: impl Display + PartialEq<usize>, one: &str, more: &str) -> String {
    let what = if number == 1 { one } else { more };
    format!("{number} {what}")
}

fn tensor_change(change: TensorChange) -> &'static str {
    match change {
        TensorChange::Removed => "Removed",
        TensorChange::Added => "Added",
        TensorChange::Shape => "Other shape",
        TensorChange::Dtype => "Other type",
        TensorChange::Elements => "Other elements",
        TensorChange::NotCompared => "Not compared",
        _ => "Other",
    }
}

fn packages(found: &Packages) -> Markup {
    let versions = |versions: &[String]| match versions {
        [] => "–".to_owned(),
        versions => versions.join(", "),
    };
    let rows = html! {
        @for package in found.changes.iter().take(MAX_ROWS) {
            tr {
                th scope="row" { code { (text::cut_plain(&package.name, MAX_NAME)) } }
                td { (text::cut_plain(&versions(&package.a), MAX_NAME)) }
                td {
                    (text::cut_plain(&versions(&package.b), MAX_NAME))
                    @if package.a == package.b { ", with other files" }
                }
                td { @if let Some(marker) = &package.marker { code { (text::cut_plain(marker, MAX_NAME)) } } }
            }
        }
    };
    let body = html! {
        @match &found.problem {
            Some(problem) => p.missing { "Not compared: " (text::cut_plain(problem, MAX_TEXT)) },
            None if found.changes.is_empty() => p { "The same packages." },
            None => (table("Packages", &["Package", "A", "B", "Only for"], found.changes.len(), rows)),
        }
    };
    titled("packages", "Packages", true, body)
}

fn cases(id: &str, title: &str, outputs: &str, changes: &[CaseChange]) -> Markup {
    let body = html! {
        @for case in changes.iter().take(MAX_ROWS) {
            h3 { (change(case.change)) ": " (text::cut_plain(&case.name, MAX_NAME)) }
            @if case.change == Change::Changed {
                @if let Some(description) = &case.description {
                    (table(&case.name, &["Field", "A", "B"], 1, field_rows(std::slice::from_ref(description))))
                }
                @for (title, found) in [("Inputs", &case.inputs), (outputs, &case.outputs)] {
                    @if !found.is_same() { h4 { (title) } (differences(title, found)) }
                }
            }
        }
        @if changes.len() > MAX_ROWS { p.missing { "and " (changes.len() - MAX_ROWS) " more" } }
    };
    titled(id, title, !changes.is_empty(), body)
}

fn links(diff: &CartonDiff) -> Markup {
    let urls = |urls: &[carton_core::ShownUrl]| match urls {
        [] => "–".to_owned(),
        urls => urls.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    let rows = html! {
        @for link in diff.links.iter().take(MAX_ROWS) {
            tr {
                th scope="row" {
                    code { (text::cut_plain(&link.paths.first().cloned().unwrap_or_else(|| link.sha256.to_string()), MAX_TEXT)) }
                }
                td { (text::cut_plain(&urls(&link.a), MAX_TEXT)) }
                td { (text::cut_plain(&urls(&link.b), MAX_TEXT)) }
            }
        }
    };
    titled("links", "Links", !diff.links.is_empty(), table("Links", &["File", "A", "B"], diff.links.len(), rows))
}
