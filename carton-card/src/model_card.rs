//! The section of what the author states of a model beyond its signature.

use carton_core::model_card::{EvaluationResult, ModelCard};
use maud::{Markup, html};

use crate::markdown::{self, external};
use crate::text;

/// The most measurements that are shown, and the most entries of each other list.
const MAX_RESULTS: usize = 50;
const MAX_ENTRIES: usize = 50;
/// The most characters of a value.
const MAX_TEXT: usize = 4_000;

/// The section of a card; nothing for an empty one.
pub(crate) fn section(card: &ModelCard) -> Markup {
    if card.is_empty() {
        return html! {};
    }
    let texts = [
        ("Intended use", &card.intended_use),
        ("Out of scope", &card.out_of_scope_use),
        ("Limitations", &card.limitations),
        ("Ethical considerations", &card.ethical_considerations),
    ];
    html! {
        section aria-labelledby="model-card" {
            h2 id="model-card" { "Model card" }
            p.missing { "What the author of the model states; nothing of it was checked." }
            (facts(card))
            @for (title, text) in texts {
                @if let Some(text) = text {
                    h3 { (title) }
                    div.prose { (markdown::render(text, &mut |_| None)) }
                }
            }
            @if !card.results.is_empty() { (results(&card.results)) }
        }
    }
}

fn facts(card: &ModelCard) -> Markup {
    let single = [
        ("Task", &card.pipeline_tag),
        ("Architecture", &card.architecture),
        ("Library", &card.library_name),
        ("License", &card.license),
    ];
    let lists =
        [("Languages", &card.language), ("Tags", &card.tags), ("Users", &card.users), ("Metrics", &card.metrics)];
    html! {
        dl.facts {
            @for (label, value) in single {
                @if let Some(value) = value { dt { (label) } dd { (text::cut(value, MAX_TEXT)) } }
            }
            @for (label, values) in lists {
                @if !values.is_empty() { dt { (label) } dd { (text::cut(&values.join(", "), MAX_TEXT)) } }
            }
            @for dataset in card.datasets.iter().take(MAX_ENTRIES) {
                dt { "Trained on" }
                dd {
                    (named(&dataset.name, dataset.url.as_deref()))
                    @if let Some(license) = &dataset.license { ", " (text::cut(license, MAX_TEXT)) }
                    @if let Some(digest) = &dataset.sha256 { ", " code { "sha256:" (digest) } }
                    @if let Some(description) = &dataset.description { br; (text::cut(description, MAX_TEXT)) }
                }
            }
            (more(card.datasets.len()))
            @for base in card.base_model.iter().take(MAX_ENTRIES) {
                dt { "Made of" }
                dd {
                    (named(&base.name, base.url.as_deref()))
                    @if let Some(relation) = &base.relation { ", " (text::cut(relation, MAX_TEXT)) }
                    @if let Some(hash) = &base.carton { ", carton " code { "sha256:" (hash) } }
                    @if let Some(digest) = &base.sha256 { ", file " code { "sha256:" (digest) } }
                }
            }
            (more(card.base_model.len()))
            @if let Some(stated) = &card.co2_eq_emissions {
                @if let Some(grams) = stated.emissions { dt { "Emissions of training" } dd { (grams) " g of CO₂ equivalent" } }
                @if let Some(energy) = stated.energy_kwh { dt { "Energy of training" } dd { (energy) " kWh" } }
                @let about = [&stated.source, &stated.training_type, &stated.geographical_location, &stated.hardware_used];
                @let about = about.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join("; ");
                @if !about.is_empty() { dt { "Training" } dd { (text::cut(&about, MAX_TEXT)) } }
            }
        }
    }
}

/// A name, as a link if there is an address.
fn named(name: &str, url: Option<&str>) -> Markup {
    let name = text::cut(name, MAX_TEXT);
    match url {
        Some(url) => external(url, name),
        None => html! { (name) },
    }
}

/// How many entries of a list are not shown.
fn more(n_entries: usize) -> Markup {
    html! { @if n_entries > MAX_ENTRIES { dt { "" } dd { "and " (n_entries - MAX_ENTRIES) " more" } } }
}

fn results(results: &[EvaluationResult]) -> Markup {
    html! {
        h3 { "Measurements" }
        div.scroll tabindex="0" role="region" aria-label="Measurements" {
            table {
                thead { tr { th scope="col" { "Metric" } th scope="col" { "Value" } th scope="col" { "Measured on" } th scope="col" { "Source" } } }
                tbody {
                    @for result in results.iter().take(MAX_RESULTS) {
                        @let on = [&result.dataset, &result.config, &result.split].into_iter().flatten();
                        @let on = on.map(String::as_str).collect::<Vec<_>>().join(" ");
                        tr {
                            th scope="row" { (text::cut(result.name.as_ref().unwrap_or(&result.metric), MAX_TEXT)) }
                            td.number { (text::cut(&result.value.to_string(), MAX_TEXT)) }
                            td { (text::cut(&on, MAX_TEXT)) }
                            td { (text::cut(result.source.as_deref().unwrap_or_default(), MAX_TEXT)) }
                        }
                    }
                }
            }
        }
        @if results.len() > MAX_RESULTS { p.missing { "and " (results.len() - MAX_RESULTS) " more" } }
    }
}
