//! Makes a card of a table `[card]` or of front matter. Both have the same keys, those of the Hugging Face Hub where it has a word. What has
//! another type than expected is left out and reported.

use std::str::FromStr;

use serde_json::{Map, Value};

use super::{BaseModel, CardProblem, Dataset, Emissions, EvaluationResult, MetricValue, ModelCard};
use crate::digest::DigestError;
use crate::unknown_keys::Known;

/// The keys of `[card]`.
pub(crate) const KEYS: &[&str] = &[
    "pipeline_tag",
    "library_name",
    "architecture",
    "language",
    "tags",
    "intended_use",
    "out_of_scope_use",
    "users",
    "limitations",
    "ethical_considerations",
    "datasets",
    "base_model",
    "metrics",
    "results",
    "co2_eq_emissions",
];

/// The keys of `[card]` and of the tables in it.
pub(crate) fn known_keys() -> Known {
    Known::keys(KEYS)
        .table("datasets", Known::keys(&["name", "url", "sha256", "license", "description"]))
        .table("base_model", Known::keys(&["name", "relation", "carton", "sha256", "url"]))
        .table("results", Known::keys(&["metric", "value", "name", "task", "dataset", "config", "split", "source"]))
        .table(
            "co2_eq_emissions",
            Known::keys(&[
                "emissions",
                "energy_kwh",
                "source",
                "training_type",
                "geographical_location",
                "hardware_used",
            ]),
        )
}

/// The card of `[card]`.
pub(super) fn of_table(table: &Value) -> (ModelCard, Vec<CardProblem>) {
    let mut reader = Reader::default();
    let Some(table) = reader.table(table, "card") else { return (ModelCard::default(), reader.problems) };
    let card = reader.card(&Fields { table, place: "card" });
    (card, reader.problems)
}

/// The card of front matter. It may also have a license, the relation to the base models in a key of its own, and results in `model-index`.
pub(super) fn of_front_matter(value: &Value) -> (ModelCard, Vec<CardProblem>) {
    let mut reader = Reader::default();
    if value.is_null() {
        return (ModelCard::default(), reader.problems);
    }
    let Some(table) = reader.table(value, "front matter") else { return (ModelCard::default(), reader.problems) };
    let fields = Fields { table, place: "" };
    let mut card = reader.card(&fields);
    // The Hub calls a license that it has no word for `other`, and names it beside.
    let license = reader.texts(&fields, "license");
    let name = reader.text(&fields, "license_name").filter(|_| license == ["other"]);
    card.license = name.or_else(|| (!license.is_empty()).then(|| license.join(", ")));
    if let Some(relation) = reader.text(&fields, "base_model_relation") {
        for base in &mut card.base_model {
            base.relation.get_or_insert_with(|| relation.clone());
        }
    }
    if let Some(models) = fields.list("model-index") {
        for (index, model) in models.iter().enumerate() {
            let place = format!("model-index[{index}]");
            let Some(model) = reader.table(model, &place) else { continue };
            let results = Fields { table: model, place: &place }.list("results").unwrap_or_default();
            for (index, result) in results.iter().enumerate() {
                let place = format!("{place}.results[{index}]");
                let Some(result) = reader.table(result, &place) else { continue };
                reader.model_index_result(&Fields { table: result, place: &place }, &mut card.results);
            }
        }
    }
    (card, reader.problems)
}

/// The fields of a table, and where it is.
struct Fields<'a> {
    table: &'a Map<String, Value>,
    place: &'a str,
}

impl<'a> Fields<'a> {
    /// A value that is set.
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.table.get(key).filter(|value| !value.is_null())
    }

    fn list(&self, key: &str) -> Option<&'a [Value]> {
        self.get(key)?.as_array().map(Vec::as_slice)
    }

    fn place(&self, key: &str) -> String {
        if self.place.is_empty() { key.to_owned() } else { format!("{}.{key}", self.place) }
    }
}

/// How many problems are kept. Front matter may have any number of them.
const MAX_PROBLEMS: usize = 20;

#[derive(Default)]
struct Reader {
    problems: Vec<CardProblem>,
}

impl Reader {
    fn card(&mut self, fields: &Fields<'_>) -> ModelCard {
        ModelCard {
            pipeline_tag: self.text(fields, "pipeline_tag"),
            library_name: self.text(fields, "library_name"),
            architecture: self.text(fields, "architecture"),
            license: None,
            language: self.texts(fields, "language"),
            tags: self.texts(fields, "tags"),
            intended_use: self.text(fields, "intended_use"),
            out_of_scope_use: self.text(fields, "out_of_scope_use"),
            users: self.texts(fields, "users"),
            limitations: self.text(fields, "limitations"),
            ethical_considerations: self.text(fields, "ethical_considerations"),
            datasets: self.each(fields, "datasets", |reader, fields| {
                Some(Dataset {
                    name: reader.name(fields, "name")?,
                    url: reader.text(fields, "url"),
                    sha256: reader.digest(fields, "sha256"),
                    license: reader.text(fields, "license"),
                    description: reader.text(fields, "description"),
                })
            }),
            base_model: self.each(fields, "base_model", |reader, fields| {
                Some(BaseModel {
                    name: reader.name(fields, "name")?,
                    relation: reader.text(fields, "relation"),
                    carton: reader.digest(fields, "carton"),
                    sha256: reader.digest(fields, "sha256"),
                    url: reader.text(fields, "url"),
                })
            }),
            metrics: self.texts(fields, "metrics"),
            results: self.each(fields, "results", Self::result),
            co2_eq_emissions: self.emissions(fields),
        }
    }

    fn result(&mut self, fields: &Fields<'_>) -> Option<EvaluationResult> {
        Some(EvaluationResult {
            metric: self.name(fields, "metric")?,
            value: self.value(fields, "value")?,
            name: self.text(fields, "name"),
            task: self.text(fields, "task"),
            dataset: self.text(fields, "dataset"),
            config: self.text(fields, "config"),
            split: self.text(fields, "split"),
            source: self.text(fields, "source"),
        })
    }

    /// A result of the Hub: one task and one dataset, and any number of metrics.
    fn model_index_result(&mut self, fields: &Fields<'_>, results: &mut Vec<EvaluationResult>) {
        let mut of = |key: &str, inner: &[&str]| {
            let table = fields.get(key)?.as_object()?;
            let place = fields.place(key);
            let fields = Fields { table, place: &place };
            inner.iter().find_map(|key| self.text(&fields, key))
        };
        let shared = EvaluationResult {
            task: of("task", &["type", "name"]),
            dataset: of("dataset", &["type", "name"]),
            config: of("dataset", &["config"]),
            split: of("dataset", &["split"]),
            source: of("source", &["url", "name"]),
            ..EvaluationResult::default()
        };
        for (index, metric) in fields.list("metrics").unwrap_or_default().iter().enumerate() {
            let place = format!("{}[{index}]", fields.place("metrics"));
            let Some(table) = self.table(metric, &place) else { continue };
            let fields = Fields { table, place: &place };
            let (metric, value) = (self.name(&fields, "type"), self.value(&fields, "value"));
            if let (Some(metric), Some(value)) = (metric, value) {
                let name = self.text(&fields, "name");
                results.push(EvaluationResult { metric, value, name, ..shared.clone() });
            }
        }
    }

    fn emissions(&mut self, fields: &Fields<'_>) -> Option<Emissions> {
        const KEY: &str = "co2_eq_emissions";
        let value = fields.get(KEY)?;
        if value.is_number() {
            let emissions = Some(self.amount(fields, KEY)?);
            return Some(Emissions { emissions, ..Emissions::default() });
        }
        let place = fields.place(KEY);
        let table = self.table(value, &place)?;
        let fields = Fields { table, place: &place };
        let emissions = Emissions {
            emissions: self.amount(&fields, "emissions"),
            energy_kwh: self.amount(&fields, "energy_kwh"),
            source: self.text(&fields, "source"),
            training_type: self.text(&fields, "training_type"),
            geographical_location: self.text(&fields, "geographical_location"),
            hardware_used: self.text(&fields, "hardware_used"),
        };
        (emissions != Emissions::default()).then_some(emissions)
    }

    /// A list of tables, one of which may stand alone. A text is a table with this name.
    fn each<T>(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        read: impl Fn(&mut Self, &Fields<'_>) -> Option<T>,
    ) -> Vec<T> {
        let Some(value) = fields.get(key) else { return Vec::new() };
        let (values, is_list) = match value {
            Value::Array(values) => (values.as_slice(), true),
            value => (std::slice::from_ref(value), false),
        };
        let mut found = Vec::new();
        for (index, value) in values.iter().enumerate() {
            let place = if is_list { format!("{}[{index}]", fields.place(key)) } else { fields.place(key) };
            let named;
            let table = match value {
                Value::String(_) if key != "results" => {
                    named = Map::from_iter([("name".to_owned(), value.clone())]);
                    &named
                }
                Value::Object(table) => table,
                other => {
                    self.problem(place, "a table", other);
                    continue;
                }
            };
            found.extend(read(self, &Fields { table, place: &place }));
        }
        found
    }

    fn table<'a>(&mut self, value: &'a Value, place: &str) -> Option<&'a Map<String, Value>> {
        let table = value.as_object();
        if table.is_none() {
            self.problem(place.to_owned(), "a table", value);
        }
        table
    }

    /// A text that is set.
    fn text(&mut self, fields: &Fields<'_>, key: &str) -> Option<String> {
        let value = fields.get(key)?;
        match one_text(value) {
            Some(text) => Some(text).filter(|text| !text.is_empty()),
            None => {
                self.problem(fields.place(key), "a text", value);
                None
            }
        }
    }

    /// A text that must be there.
    fn name(&mut self, fields: &Fields<'_>, key: &str) -> Option<String> {
        match fields.get(key) {
            None => {
                self.problem(fields.place(key), "a name", &Value::Null);
                None
            }
            Some(value) => {
                let name = self.text(fields, key);
                if name.is_none() && value.as_str() == Some("") {
                    self.problem(fields.place(key), "a name", value);
                }
                name
            }
        }
    }

    /// A list of texts, one of which may stand alone.
    fn texts(&mut self, fields: &Fields<'_>, key: &str) -> Vec<String> {
        let Some(value) = fields.get(key) else { return Vec::new() };
        let values = value.as_array().map_or_else(|| std::slice::from_ref(value), Vec::as_slice);
        let mut texts = Vec::new();
        for value in values {
            match one_text(value) {
                Some(text) if !text.is_empty() => texts.push(text),
                Some(_) => {}
                None => self.problem(fields.place(key), "a list of texts", value),
            }
        }
        texts
    }

    /// A number that is finite and not negative.
    fn amount(&mut self, fields: &Fields<'_>, key: &str) -> Option<f64> {
        let value = fields.get(key)?;
        let amount = value.as_f64().filter(|amount| amount.is_finite() && *amount >= 0.0);
        if amount.is_none() {
            self.problem(fields.place(key), "a number of 0 or more", value);
        }
        amount
    }

    fn value(&mut self, fields: &Fields<'_>, key: &str) -> Option<MetricValue> {
        match fields.get(key) {
            Some(Value::String(text)) if !text.is_empty() => Some(MetricValue::Text(text.clone())),
            Some(Value::Number(number)) => number.as_f64().filter(|number| number.is_finite()).map(MetricValue::Number),
            other => {
                self.problem(fields.place(key), "a number or a text", other.unwrap_or(&Value::Null));
                None
            }
        }
    }

    /// A SHA-256, with or without `sha256:` before it.
    fn digest<D: FromStr<Err = DigestError>>(&mut self, fields: &Fields<'_>, key: &str) -> Option<D> {
        let value = fields.get(key)?;
        let digest = value.as_str().and_then(|text| text.strip_prefix("sha256:").unwrap_or(text).parse().ok());
        if digest.is_none() {
            self.problem(fields.place(key), "a SHA-256 of 64 hexadecimal digits", value);
        }
        digest
    }

    fn problem(&mut self, field: String, expected: &str, found: &Value) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(CardProblem { field, expected: expected.to_owned(), found: shown(found) });
        }
    }
}

/// A text, or a number in the place of one: the tag `2024`.
fn one_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A value for messages, on one line and not too long.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => return "nothing".to_owned(),
        Value::Array(_) => return "a list".to_owned(),
        Value::Object(_) => return "a table".to_owned(),
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    };
    let mut shown: String = text.chars().take(120).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(120).is_some() {
        shown.push('…');
    }
    shown
}
