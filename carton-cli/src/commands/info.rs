//! `carton info`: prints what a carton says about its model, as text, JSON or a bill of materials, or writes it as a web page.

use carton_bom::{Format, Moment};
use carton_core::Package;
use carton_core::metadata::TensorSpec;
use carton_core::model_card::ModelCard;
use carton_core::package::Info;
use carton_core::trust::SigningStatus;
use carton_tensor::{Dimension, SymbolicShape};

#[cfg(feature = "card")]
use super::card;
use super::{Context, how_to_run, open, warn_each};
use crate::args::{BomFormat, InfoArgs, ModelArgs};
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::{Align, Output, Role, Table};
use crate::text::{byte_size, count, one_line, printable};

/// Longer lists of files are abbreviated.
const MAX_FILES: usize = 20;
/// The number of files shown of an abbreviated list.
const SHOWN_FILES: usize = 15;
/// The number of measurements that are shown.
const MAX_RESULTS: usize = 20;

pub(super) async fn run(arguments: InfoArgs, all_files: bool, context: &Context<'_>) -> Result<Exit, Failure> {
    let InfoArgs { model, html, bom } = arguments;
    #[cfg(feature = "card")]
    if let Some(path) = html {
        return card::write(&model, path, context).await;
    }
    #[cfg(not(feature = "card"))]
    if html.is_some() {
        return Err(Failure::absent("`--html`"));
    }
    let package = open::open_with_signing(&model, false, context).await?;
    if let Some(format) = bom {
        return bill_of_materials(package, format, context).await;
    }
    let info =
        interrupt::blocking(move |cancel_token| Ok(package.cancel_token(cancel_token.clone()).read_info()?)).await?;
    if context.output.is_json() {
        context.output.json(&info)?;
    } else {
        warn_each(info.warnings.iter().cloned(), context.output);
        context.output.text(&page(&info, &model, all_files, context.output))?;
    }
    Ok(Exit::Ok)
}

/// Prints a bill of materials.
async fn bill_of_materials(package: Package, format: BomFormat, context: &Context<'_>) -> Result<Exit, Failure> {
    let moment = Moment::from_environment().map_err(Failure::usage)?;
    let inventory =
        interrupt::blocking(move |cancel_token| Ok(package.cancel_token(cancel_token.clone()).inventory()?)).await?;
    let format = match format {
        BomFormat::CycloneDx => Format::CycloneDx,
        BomFormat::Spdx => Format::Spdx,
    };
    warn_each(inventory.info.warnings.iter().cloned(), context.output);
    context.output.text(&carton_bom::document(&inventory, format, &moment))?;
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
    model_card(&mut page, output, &info.card);
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

/// What the card says; texts of several lines are indented below their names.
fn model_card(page: &mut String, output: &Output, card: &ModelCard) {
    let mut table = Table::new(&[Align::Left, Align::Left]).indent("  ");
    let lines = [
        ("task", card.pipeline_tag.clone()),
        ("architecture", card.architecture.clone()),
        ("library", card.library_name.clone()),
        ("license", card.license.clone()),
        ("languages", Some(card.language.join(", "))),
        ("tags", Some(card.tags.join(", "))),
        ("users", Some(card.users.join(", "))),
        ("metrics", Some(card.metrics.join(", "))),
    ];
    for (label, value) in lines {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            table.row([label.to_owned(), one_line(&value)]);
        }
    }
    for dataset in &card.datasets {
        let sha256 = dataset.sha256.map(|digest| format!("sha256:{digest}"));
        let parts = [Some(&dataset.name), dataset.url.as_ref(), dataset.license.as_ref(), sha256.as_ref()];
        table.row(["trained on".to_owned(), joined(parts)]);
    }
    for base in &card.base_model {
        let carton = base.carton.map(|hash| format!("carton sha256:{hash}"));
        let sha256 = base.sha256.map(|digest| format!("file sha256:{digest}"));
        let parts = [Some(&base.name), base.relation.as_ref(), carton.as_ref(), sha256.as_ref(), base.url.as_ref()];
        table.row(["made of".to_owned(), joined(parts)]);
    }
    for result in card.results.iter().take(MAX_RESULTS) {
        let measured = format!("{} {}", result.metric, result.value);
        let on = [&result.dataset, &result.config, &result.split].into_iter().flatten();
        let on = on.map(String::as_str).collect::<Vec<_>>().join(" ");
        let parts = [Some(&measured), Some(&on).filter(|on| !on.is_empty()), result.source.as_ref()];
        table.row(["measured".to_owned(), joined(parts)]);
    }
    if card.results.len() > MAX_RESULTS {
        table.row(["".to_owned(), format!("… and {} more: --json shows all", card.results.len() - MAX_RESULTS)]);
    }
    if let Some(stated) = &card.co2_eq_emissions {
        let grams = stated.emissions.map(|grams| format!("{grams} g of CO2 equivalent"));
        let energy = stated.energy_kwh.map(|energy| format!("{energy} kWh"));
        let parts = [&grams, &energy, &stated.source, &stated.training_type];
        let parts = parts.into_iter().chain([&stated.geographical_location, &stated.hardware_used]);
        table.row(["training".to_owned(), joined(parts.map(Option::as_ref))]);
    }
    let mut body = plain(&table);
    let texts = [
        ("intended use", &card.intended_use),
        ("out of scope", &card.out_of_scope_use),
        ("limitations", &card.limitations),
        ("ethical considerations", &card.ethical_considerations),
    ];
    for (label, text) in texts {
        if let Some(text) = text {
            body.push_str(&format!("  {label}:\n"));
            body.extend(indented_lines(text).lines().map(|line| format!("  {line}\n")));
        }
    }
    if !body.is_empty() {
        section(page, output, "Model card, as its author states it", &body);
    }
}

/// The parts that are there, in one line.
fn joined<'a>(parts: impl IntoIterator<Item = Option<&'a String>>) -> String {
    parts.into_iter().flatten().map(|part| one_line(part)).collect::<Vec<_>>().join("; ")
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
