//! `carton info`: prints what a carton says about its model, or writes it as a web page.

use carton_core::metadata::TensorSpec;
use carton_core::package::Info;
use carton_core::trust::SigningStatus;
use carton_tensor::{Dimension, SymbolicShape};

#[cfg(feature = "card")]
use super::card;
use super::{Context, how_to_run, open, warn_each};
use crate::args::{InfoArgs, ModelArgs};
use crate::failure::{Exit, Failure};
use crate::output::{Align, Output, Role, Table};
use crate::text::{byte_size, count, one_line, printable};

/// Longer lists of files are abbreviated.
const MAX_FILES: usize = 20;
/// The number of files shown of an abbreviated list.
const SHOWN_FILES: usize = 15;

pub(super) async fn run(arguments: InfoArgs, all_files: bool, context: &Context<'_>) -> Result<Exit, Failure> {
    let InfoArgs { model, html } = arguments;
    #[cfg(feature = "card")]
    if let Some(path) = html {
        return card::write(&model, path, context).await;
    }
    #[cfg(not(feature = "card"))]
    if html.is_some() {
        return Err(Failure::absent("`--html`"));
    }
    let package = open::open_with_signing(&model, false, context).await?;
    let info = package.info();
    if context.output.is_json() {
        context.output.json(&info)?;
    } else {
        warn_each(info.warnings.iter().cloned(), context.output);
        context.output.text(&page(&info, &model, all_files, context.output))?;
    }
    Ok(Exit::Ok)
}

/// Formats the page for people. Fields that are not set take no line.
fn page(info: &Info, model: &ModelArgs, all_files: bool, output: &Output) -> String {
    let mut page = String::new();
    let name = info.model_name.as_deref().map_or_else(|| "(no name)".to_owned(), one_line);
    page.push_str(&format!("{}\n", output.paint(Role::Heading, &name)));
    if let Some(line) = &info.short_description {
        page.push_str(&format!("{}\n", one_line(line)));
    }
    page.push('\n');
    page.push_str(&facts(info, output));
    if let Some(text) = &info.model_description {
        section(&mut page, output, "Description", &indented_lines(text));
    }
    tensors(&mut page, output, "Inputs", &info.inputs);
    tensors(&mut page, output, "Outputs", &info.outputs);
    if !info.runner.opts.is_empty() {
        let mut table = Table::new(&[Align::Left, Align::Left]).indent("  ");
        for (key, value) in &info.runner.opts {
            table.row([key.clone(), value.to_string()]);
        }
        section(&mut page, output, "Options for the runner", &plain(&table));
    }
    if !info.runner.env.is_empty() {
        let mut table = Table::new(&[Align::Left, Align::Left]).indent("  ");
        for (name, value) in &info.runner.env {
            table.row([name.clone(), one_line(value)]);
        }
        section(&mut page, output, "Environment variables", &plain(&table));
    }
    names(&mut page, output, "Self-tests", &info.self_tests);
    names(&mut page, output, "Examples", &info.examples);
    files(&mut page, output, info, all_files);
    if let Some(lines) = how_to_run::lines(info, model) {
        section(&mut page, output, "Run it with", &lines);
    }
    page
}

fn facts(info: &Info, output: &Output) -> String {
    let mut table = Table::new(&[Align::Left, Align::Left]);
    let runner = &info.runner;
    table.row(["runner".to_owned(), format!("{} {}", runner.runner_name, runner.required_framework_version)]);
    for (label, value) in [("license", &info.license), ("repository", &info.repository), ("homepage", &info.homepage)] {
        if let Some(value) = value {
            table.row([label, value]);
        }
    }
    if !info.required_platforms.is_empty() {
        table.row(["platforms".to_owned(), info.required_platforms.join(", ")]);
    }
    if !info.sandbox.is_empty() {
        table.row(["asks for".to_owned(), one_line(&info.sandbox.to_string())]);
    }
    if let Some(hash) = &info.manifest_sha256 {
        table.row(["manifest".to_owned(), format!("sha256:{hash}")]);
    }
    if let Some(status) = info.signing.as_ref().filter(|status| !matches!(status, SigningStatus::Unsigned { .. })) {
        table.row(["signed".to_owned(), signing_line(status)]);
    }
    table.lines(&|_, column, cell| if column == 0 { output.paint(Role::Faint, &cell) } else { cell })
}

/// What is known of who signed a carton, in a line.
pub(super) fn signing_line(status: &SigningStatus) -> String {
    let by = status.signer().map(|signer| format!(" by {}", one_line(&signer))).unwrap_or_default();
    match status {
        SigningStatus::Unsigned { place } => format!("none at `{}`", one_line(place)),
        SigningStatus::Trusted { .. } => format!("trusted{by}"),
        SigningStatus::Untrusted { is_broken: true, reason, .. } => format!("broken: {}", one_line(reason)),
        SigningStatus::Untrusted { reason, .. } => format!("not trusted{by}: {}", one_line(reason)),
        _ => String::new(),
    }
}

fn tensors(page: &mut String, output: &Output, title: &str, tensors: &[TensorSpec]) {
    if tensors.is_empty() {
        return;
    }
    let mut table = Table::new(&[Align::Left; 4]).indent("  ");
    for tensor in tensors {
        let optional = if tensor.is_optional() { "(optional) " } else { "" };
        let description = format!("{optional}{}", tensor.description.as_deref().unwrap_or_default());
        table.row([tensor.name.as_str(), tensor.dtype.name(), &shape(&tensor.shape), description.trim_end()]);
    }
    section(page, output, title, &plain(&table));
}

/// Formats a shape: `[batch, 64]`, `any shape`.
fn shape(shape: &SymbolicShape) -> String {
    match shape {
        SymbolicShape::Any => "any shape".to_owned(),
        SymbolicShape::Symbol(symbol) => format!("shape {symbol}"),
        SymbolicShape::Dimensions(dimensions) if dimensions.is_empty() => "scalar".to_owned(),
        SymbolicShape::Dimensions(dimensions) => {
            let dimensions: Vec<String> = dimensions
                .iter()
                .map(|dimension| match dimension {
                    Dimension::Any => "*".to_owned(),
                    Dimension::Symbol(symbol) => symbol.clone(),
                    Dimension::Fixed(size) => size.to_string(),
                })
                .collect();
            format!("[{}]", dimensions.join(", "))
        }
    }
}

fn names(page: &mut String, output: &Output, title: &str, names: &[String]) {
    if !names.is_empty() {
        let lines: Vec<String> = names.iter().map(|name| format!("  {}\n", one_line(name))).collect();
        section(page, output, title, &lines.concat());
    }
}

fn files(page: &mut String, output: &Output, info: &Info, all: bool) {
    let mut table = Table::new(&[Align::Left, Align::Right]).indent("  ");
    let (mut size_of_all, mut stored, mut folded) = (0_u64, 0_u64, 0_usize);
    for (position, file) in info.files.iter().enumerate() {
        stored = stored.saturating_add(file.stored.unwrap_or(0));
        if file.symlink.is_none() {
            size_of_all = size_of_all.saturating_add(file.size.unwrap_or(0));
        }
        let size = match (&file.symlink, file.linked, file.size) {
            (Some(target), ..) => format!("-> {target}"),
            (None, true, size) => {
                size.map_or_else(|| "linked".to_owned(), |size| format!("linked, {}", byte_size(size)))
            }
            (None, false, size) => size.map_or_else(|| "-".to_owned(), byte_size),
        };
        if all || info.files.len() <= MAX_FILES || position < SHOWN_FILES {
            table.row([file.path.clone(), size]);
        } else {
            folded += 1;
        }
    }
    let number = count(info.files.len(), "file");
    let title = format!("Files ({number}, {}, {} in the carton)", byte_size(size_of_all), byte_size(stored));
    let mut lines = plain(&table);
    if folded > 0 {
        lines.push_str(&format!("  … and {folded} more: `carton info -v` and `carton ls` show all\n"));
    }
    section(page, output, &title, &lines);
}

fn section(page: &mut String, output: &Output, title: &str, body: &str) {
    page.push_str(&format!("\n{}\n{body}", output.paint(Role::Heading, title)));
}

fn plain(table: &Table) -> String {
    table.lines(&|_, _, cell| cell)
}

fn indented_lines(text: &str) -> String {
    printable(text)
        .trim()
        .lines()
        .map(|line| if line.trim().is_empty() { "\n".to_owned() } else { format!("  {}\n", line.trim_end()) })
        .collect()
}
