//! `carton diff`: shows what differs between two cartons, as text or as a web page.

use carton_core::diff::{
    CartonDiff, CaseChange, Change, Diff, DiffedCarton, FieldChange, FileChange, Packages, SpecChange,
};
use carton_core::{Carton, OptionValue};
use carton_tensor::Tolerance;

#[cfg(feature = "card")]
use super::card;
use super::info::signing_line;
use super::{Context, open, set};
use crate::args::DiffArgs;
use crate::failure::{Exit, Failure};
use crate::output::{Align, Output, Role, Table};
use crate::tensors::{differences, summary_of_differences};
use crate::text::{byte_size, count, one_line};

/// The result of `--html` for `--json`.
#[cfg(feature = "card")]
#[derive(serde::Serialize)]
struct Written {
    html: std::path::PathBuf,
    is_same: bool,
}

pub(super) async fn run(arguments: DiffArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    #[cfg(feature = "card")]
    if let Some(path) = &arguments.html {
        card::check(path, context)?;
    }
    #[cfg(not(feature = "card"))]
    if arguments.html.is_some() {
        return Err(Failure::absent("`--html`"));
    }
    let (model_a, model_b) = (arguments.model(&arguments.a), arguments.model(&arguments.b));
    let a = open::open_with_signing(&model_a, false, context).await?;
    let b = open::open_with_signing(&model_b, false, context).await?;
    let tolerance = Tolerance::new(arguments.elements.rtol, arguments.elements.atol);
    let diff = Carton::diff(a, b).config(context.config.clone()).fetch(arguments.fetch).tolerance(tolerance);
    let mut diff = set(diff, open::progress(context), Diff::progress).await?;
    // The locations as they were given say more than those of files in the cache.
    diff.a.location = model_a.location().to_string();
    diff.b.location = model_b.location().to_string();
    output.progress().finish();
    let exit = if diff.is_same { Exit::Ok } else { Exit::Different };
    #[cfg(feature = "card")]
    if let Some(path) = arguments.html {
        let written = Written { html: path.clone(), is_same: diff.is_same };
        card::write_page(path, move |_| carton_card::diff_page(&diff), &written, context).await?;
        return Ok(exit);
    }
    match output.is_json() {
        true => output.json(&diff)?,
        false => output.text(&page(&diff, output))?,
    }
    Ok(exit)
}

/// Formats what differs for people.
fn page(diff: &CartonDiff, output: &Output) -> String {
    let mut page = String::new();
    let mut table = Table::new(&[Align::Left; 4]);
    for (side, carton) in [("A", &diff.a), ("B", &diff.b)] {
        let signed = carton.signing.as_ref().filter(|status| status.signer().is_some() || status.is_trusted());
        table.row([
            side.to_owned(),
            carton.location.clone(),
            hash(carton),
            signed.map(signing_line).unwrap_or_default(),
        ]);
    }
    page.push_str(&table.lines(&|_, column, cell| if column == 0 { output.paint(Role::Heading, &cell) } else { cell }));
    let verdict = match diff.is_same {
        true => output.paint(Role::Good, "the same carton"),
        false => output.paint(Role::Notice, "not the same"),
    };
    page.push_str(&format!("{verdict}\n"));
    section(&mut page, output, "Metadata", &fields(&diff.metadata));
    section(&mut page, output, "Inputs", &specs(&diff.inputs, output));
    section(&mut page, output, "Outputs", &specs(&diff.outputs, output));
    section(&mut page, output, &format!("Files ({})", count(diff.files.len(), "change")), &files(&diff.files));
    for file in &diff.tensors {
        let path = arrow(&file.path_a, &file.path_b);
        let body = match &file.problem {
            Some(problem) => format!("  {}: {}\n", output.paint(Role::Notice, "not compared"), one_line(problem)),
            None if file.found.is_same() => format!("  {}\n", summary_of_differences(&file.found)),
            None => {
                format!("{}  {}\n", differences(&file.found.tensors, "  ", output), summary_of_differences(&file.found))
            }
        };
        section(&mut page, output, &format!("Tensors of {}", one_line(&path)), &body);
    }
    if let Some(found) = &diff.packages {
        section(&mut page, output, "Packages", &packages(found, output));
    }
    section(&mut page, output, "Self-tests", &cases(&diff.self_tests, "expected outputs", output));
    section(&mut page, output, "Examples", &cases(&diff.examples, "outputs", output));
    let mut links = Table::new(&[Align::Left; 2]).indent("  ");
    for link in &diff.links {
        let urls = |urls: &[carton_core::ShownUrl]| match urls {
            [] => "no link".to_owned(),
            urls => urls.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        };
        let name = link.paths.first().cloned().unwrap_or_else(|| link.sha256.to_string());
        links.row([name, format!("{} -> {}", urls(&link.a), urls(&link.b))]);
    }
    section(&mut page, output, "Links", &plain(&links));
    page
}

fn hash(carton: &DiffedCarton) -> String {
    carton.manifest_sha256.as_ref().map_or_else(|| "-".to_owned(), |hash| format!("sha256:{hash}"))
}

/// Adds a section, if it has a body.
fn section(page: &mut String, output: &Output, title: &str, body: &str) {
    if !body.is_empty() {
        page.push_str(&format!("\n{}\n{body}", output.paint(Role::Heading, title)));
    }
}

fn plain(table: &Table) -> String {
    table.lines(&|_, _, cell| cell)
}

fn arrow(a: &str, b: &str) -> String {
    if a == b { a.to_owned() } else { format!("{a} -> {b}") }
}

fn change(change: Change) -> &'static str {
    match change {
        Change::Removed => "removed",
        Change::Added => "added",
        Change::Changed => "changed",
        Change::Renamed => "renamed",
        _ => "other",
    }
}

fn fields(changes: &[FieldChange]) -> String {
    let mut table = Table::new(&[Align::Left; 2]).indent("  ");
    for field in changes {
        table.row([field.field.clone(), values(field)]);
    }
    plain(&table)
}

/// `"MIT" -> "Apache-2.0"`.
fn values(field: &FieldChange) -> String {
    /// The characters that are shown of a value.
    const LONGEST: usize = 100;
    let value = |value: &Option<OptionValue>| match value {
        None => "not set".to_owned(),
        Some(value) => {
            let text = value.to_string();
            match text.char_indices().nth(LONGEST) {
                Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()),
                None => text,
            }
        }
    };
    format!("{} -> {}", value(&field.a), value(&field.b))
}

fn specs(changes: &[SpecChange], output: &Output) -> String {
    let mut text = String::new();
    for spec in changes {
        text.push_str(&format!("  {} {}\n", change(spec.change), one_line(&spec.name)));
        let mut table = Table::new(&[Align::Left; 2]).indent("    ");
        for field in &spec.fields {
            let side = |value: &Option<OptionValue>| value.as_ref().map(ToString::to_string).unwrap_or_default();
            let shown = match spec.change {
                Change::Removed => side(&field.a),
                Change::Added => side(&field.b),
                _ => values(field),
            };
            table.row([field.field.clone(), shown]);
        }
        text.push_str(&plain(&table));
        if let Some(default) = &spec.default {
            text.push_str(&format!("    default\n{}", differences(&default.tensors, "      ", output)));
        }
    }
    text
}

fn files(changes: &[FileChange]) -> String {
    let mut table = Table::new(&[Align::Left, Align::Left, Align::Left]).indent("  ");
    for file in changes {
        let size = |version: &Option<carton_core::diff::FileVersion>| {
            version.as_ref().map(|version| version.size.map_or_else(|| "?".to_owned(), byte_size))
        };
        let sizes = match (size(&file.a), size(&file.b)) {
            (Some(a), Some(b)) => arrow(&a, &b),
            (a, b) => a.or(b).unwrap_or_default(),
        };
        let path = file.path_a.as_ref().map_or_else(|| file.path.clone(), |path_a| arrow(path_a, &file.path));
        table.row([change(file.change).to_owned(), path, sizes]);
    }
    plain(&table)
}

fn packages(found: &Packages, output: &Output) -> String {
    if let Some(problem) = &found.problem {
        return format!("  {}: {}\n", output.paint(Role::Notice, "not compared"), one_line(problem));
    }
    let mut table = Table::new(&[Align::Left; 3]).indent("  ");
    for package in &found.changes {
        let versions = |versions: &[String]| versions.join(", ");
        let change = match (package.a.as_slice(), package.b.as_slice()) {
            ([], b) => format!("added {}", versions(b)),
            (a, []) => format!("removed {}", versions(a)),
            (a, b) if a == b => format!("{} with other files", versions(b)),
            (a, b) => format!("{} -> {}", versions(a), versions(b)),
        };
        table.row([package.name.clone(), change, package.marker.clone().unwrap_or_default()]);
    }
    match found.changes.is_empty() {
        true => "  the same packages\n".to_owned(),
        false => plain(&table),
    }
}

fn cases(changes: &[CaseChange], outputs: &str, output: &Output) -> String {
    let mut text = String::new();
    for case in changes {
        text.push_str(&format!("  {} {}\n", change(case.change), one_line(&case.name)));
        if case.change != Change::Changed {
            continue;
        }
        if let Some(description) = &case.description {
            text.push_str(&format!("    description {}\n", one_line(&values(description))));
        }
        for (title, found) in [("inputs", &case.inputs), (outputs, &case.outputs)] {
            if !found.is_same() {
                text.push_str(&format!("    {title}\n{}", differences(&found.tensors, "      ", output)));
            }
        }
    }
    text
}
