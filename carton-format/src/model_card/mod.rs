//! Model cards: what a model is for, what it was trained on, and what it was measured to do (spec/carton-format-extensions.md, "Model
//! cards"). They are in the table `[card]` of carton.toml, and in the front matter of `misc/README.md`, as the Hugging Face Hub has it.
//!
//! `front_matter` finds the YAML in a README, `yaml` reads it, `read` makes a card of it or of the table.

mod front_matter;
mod read;
#[cfg(test)]
mod tests;
mod yaml;

use std::fmt;

use serde::Serialize;

use crate::digest::Sha256Digest;
use crate::manifest::ManifestHash;

pub use front_matter::{FrontMatterError, has_front_matter};
pub(crate) use read::{KEYS, known_keys};

/// The path below `misc/` of the file whose front matter is a model card.
pub const README: &str = "README.md";

/// A larger README has no model card.
pub const MAX_README_LENGTH: u64 = 4 << 20;

/// What is known of a model beyond its signature. Everything in it is a claim of whoever wrote it; nothing is checked.
///
/// In JSON, the fields have the same names as here, and those that are not set are left out.
///
/// ```
/// use carton_format::model_card::ModelCard;
/// let readme = "---\npipeline_tag: image-classification\ndatasets: [ylecun/mnist]\n---\n# Digits\n";
/// let (card, problems) = ModelCard::of_readme(readme.as_bytes())?.unwrap_or_default();
/// assert_eq!(card.pipeline_tag.as_deref(), Some("image-classification"));
/// assert_eq!(card.datasets[0].name, "ylecun/mnist");
/// assert!(problems.is_empty());
/// # Ok::<(), carton_format::model_card::FrontMatterError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ModelCard {
    /// The task, in the Hub's words: `image-classification`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline_tag: Option<String>,
    /// The library that the model was made with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library_name: Option<String>,
    /// The architecture: `ResNet-50`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// The license that a README states. The license of a carton is in carton.toml.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// The languages of what the model reads and writes, as codes of ISO 639 or as words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub language: Vec<String>,
    /// Words to find the model by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// What the model is for, in Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intended_use: Option<String>,
    /// What the model is not for, in Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_of_scope_use: Option<String>,
    /// Whom the model is for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// What the model cannot do, where it is wrong, and its biases, in Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limitations: Option<String>,
    /// Risks of using the model, in Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ethical_considerations: Option<String>,
    /// The data that the model was trained on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub datasets: Vec<Dataset>,
    /// The models that this one was made of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub base_model: Vec<BaseModel>,
    /// The names of the metrics that the model was judged by: `accuracy`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    /// What was measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<EvaluationResult>,
    /// What training emitted and used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub co2_eq_emissions: Option<Emissions>,
}

/// Data that a model was trained on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Dataset {
    /// Its name, or its identifier on the Hub: `ylecun/mnist`.
    pub name: String,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The SHA-256 of it as a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256Digest>,
    /// Its license.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// What it contains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A model that another was made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BaseModel {
    /// Its name, or its identifier on the Hub: `openai-community/gpt2`.
    pub name: String,
    /// How the model was made of it, in the Hub's words: `adapter`, `merge`, `quantized`, `finetune`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relation: Option<String>,
    /// The hash of its carton.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carton: Option<ManifestHash>,
    /// The SHA-256 of its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256Digest>,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A measurement of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct EvaluationResult {
    /// The metric: `accuracy`.
    pub metric: String,
    /// What was measured.
    pub value: MetricValue,
    /// The name of the metric for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The task that the model was measured at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The data that it was measured on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// The configuration of the data: `en`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// The part of the data: `test`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Who measured, or where the measurement is published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// The value of a metric. The text form is that of the number, or the text.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum MetricValue {
    /// A finite number.
    Number(f64),
    /// Anything else: `0.98 ± 0.01`.
    Text(String),
}

impl Default for MetricValue {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl fmt::Display for MetricValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// What training a model emitted and used.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Emissions {
    /// Grams of carbon dioxide equivalent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emissions: Option<f64>,
    /// Kilowatt hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_kwh: Option<f64>,
    /// How they were found out: `CodeCarbon`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// `pre-training` or `fine-tuning`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub training_type: Option<String>,
    /// Where the model was trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub geographical_location: Option<String>,
    /// The machines that trained it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware_used: Option<String>,
}

/// A part of a card that means nothing to this reader, and is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CardProblem {
    /// The field, as in `datasets[0].sha256`; empty for the whole card.
    pub field: String,
    /// What may be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl fmt::Display for CardProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, expected, found } = self;
        write!(f, "`{field}`: expected {expected}, found {found}")
    }
}

impl ModelCard {
    /// Reads the card of a README: its front matter, if it has one. What means nothing is left out, and listed beside the card.
    ///
    /// # Errors
    /// The front matter is no YAML that this reader accepts.
    pub fn of_readme(readme: &[u8]) -> Result<Option<(Self, Vec<CardProblem>)>, FrontMatterError> {
        let Some(text) = front_matter::of(readme)? else { return Ok(None) };
        Ok(Some(read::of_front_matter(&yaml::parse(text)?)))
    }

    /// Reads the table `[card]`, as JSON.
    pub(crate) fn of_table(table: &serde_json::Value) -> (Self, Vec<CardProblem>) {
        read::of_table(table)
    }

    /// The first part of the card that `[card]` cannot have.
    pub(crate) fn unwritable(&self) -> Option<CardProblem> {
        let problem = |field: String, expected: &str, found: String| {
            Some(CardProblem { field, expected: expected.to_owned(), found })
        };
        if let Some(license) = &self.license {
            return problem(
                "card.license".to_owned(),
                "nothing: `license` is no key of `[card]`",
                format!("`{license}`"),
            );
        }
        let nameless = [
            ("datasets", self.datasets.iter().position(|dataset| dataset.name.is_empty())),
            ("base_model", self.base_model.iter().position(|base| base.name.is_empty())),
            ("results", self.results.iter().position(|result| result.metric.is_empty())),
        ];
        if let Some((list, Some(index))) = nameless.into_iter().find(|(_, index)| index.is_some()) {
            return problem(format!("card.{list}[{index}]"), "a name", "an empty text".to_owned());
        }
        for (index, result) in self.results.iter().enumerate() {
            let is_right = match &result.value {
                MetricValue::Number(number) => number.is_finite(),
                MetricValue::Text(text) => !text.is_empty(),
            };
            if !is_right {
                let field = format!("card.results[{index}].value");
                return problem(field, "a finite number or a text", format!("`{}`", result.value));
            }
        }
        let emissions = self.co2_eq_emissions.as_ref();
        let amounts = emissions
            .into_iter()
            .flat_map(|emissions| [("emissions", emissions.emissions), ("energy_kwh", emissions.energy_kwh)]);
        for (key, amount) in amounts {
            if let Some(amount) = amount.filter(|amount| !amount.is_finite() || *amount < 0.0) {
                let field = format!("card.co2_eq_emissions.{key}");
                return problem(field, "a number of 0 or more", amount.to_string());
            }
        }
        None
    }

    /// Whether the card says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// This card, with what it does not say taken from `other`. A list that is not empty is kept whole.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        fn list<T>(one: Vec<T>, other: Vec<T>) -> Vec<T> {
            if one.is_empty() { other } else { one }
        }
        Self {
            pipeline_tag: self.pipeline_tag.or(other.pipeline_tag),
            library_name: self.library_name.or(other.library_name),
            architecture: self.architecture.or(other.architecture),
            license: self.license.or(other.license),
            language: list(self.language, other.language),
            tags: list(self.tags, other.tags),
            intended_use: self.intended_use.or(other.intended_use),
            out_of_scope_use: self.out_of_scope_use.or(other.out_of_scope_use),
            users: list(self.users, other.users),
            limitations: self.limitations.or(other.limitations),
            ethical_considerations: self.ethical_considerations.or(other.ethical_considerations),
            datasets: list(self.datasets, other.datasets),
            base_model: list(self.base_model, other.base_model),
            metrics: list(self.metrics, other.metrics),
            results: list(self.results, other.results),
            co2_eq_emissions: self.co2_eq_emissions.or(other.co2_eq_emissions),
        }
    }
}
