#![allow(clippy::unwrap_used)]

use super::*;
use crate::metadata::{Draft, Metadata, Oddity};

fn readme(front_matter: &str) -> (ModelCard, Vec<String>) {
    let text = format!("---\n{front_matter}\n---\n# Model\n");
    let (card, problems) = ModelCard::of_readme(text.as_bytes()).unwrap().unwrap();
    (card, problems.iter().map(ToString::to_string).collect())
}

/// From the Hub's documentation of model cards, with its shapes of each field.
const HUB: &str = r#"
language:
- en
- no  # Norwegian, not false
license: apache-2.0
library_name: transformers
pipeline_tag: text-classification
tags: [finance, 2024]
datasets:
- stanfordnlp/imdb
metrics:
- accuracy
base_model: distilbert/distilbert-base-uncased
base_model_relation: finetune
co2_eq_emissions:
  emissions: 412.5
  source: "CodeCarbon"
  training_type: "fine-tuning"
  geographical_location: "East US, USA"
  hardware_used: "8 v100 GPUs"
widget:
- text: "It was: good"
model-index:
- name: a-model
  results:
  - task:
      type: text-classification
      name: Text Classification
    dataset:
      type: stanfordnlp/imdb
      name: IMDb
      split: test
      revision: 5503434ddd753f426f4b38109466949a1217c2bb
    metrics:
    - type: accuracy
      value: 0.9312
      name: Accuracy
    - {type: f1, value: "93.1 ± 0.2"}
    source:
      name: Open LLM Leaderboard
      url: https://example.com/board
"#;

#[test]
fn front_matter_of_the_hub() {
    let (card, problems) = readme(HUB);
    assert_eq!(problems, [""; 0]);
    assert_eq!(card.language, ["en", "no"]);
    assert_eq!(card.license.as_deref(), Some("apache-2.0"));
    assert_eq!(card.tags, ["finance", "2024"]);
    assert_eq!(card.datasets[0].name, "stanfordnlp/imdb");
    assert_eq!(card.base_model[0].name, "distilbert/distilbert-base-uncased");
    assert_eq!(card.base_model[0].relation.as_deref(), Some("finetune"));
    let emissions = card.co2_eq_emissions.unwrap();
    assert_eq!(emissions.emissions, Some(412.5));
    assert_eq!(emissions.hardware_used.as_deref(), Some("8 v100 GPUs"));
    let results: Vec<String> = card
        .results
        .iter()
        .map(|result| {
            let (dataset, split) = (result.dataset.as_deref().unwrap(), result.split.as_deref().unwrap());
            format!("{} {} {dataset} {split} {}", result.metric, result.value, result.source.as_deref().unwrap())
        })
        .collect();
    assert_eq!(
        results,
        [
            "accuracy 0.9312 stanfordnlp/imdb test https://example.com/board",
            "f1 93.1 ± 0.2 stanfordnlp/imdb test https://example.com/board",
        ]
    );
}

#[test]
fn other_shapes_of_front_matter() {
    let check = |text: &str, expected: ModelCard| assert_eq!(readme(text).0, expected, "{text}");
    check("", ModelCard::default());
    check("# only a comment", ModelCard::default());
    check(
        "license: [mit, apache-2.0]",
        ModelCard { license: Some("mit, apache-2.0".to_owned()), ..Default::default() },
    );
    check(
        "license: other\nlicense_name: llama3",
        ModelCard { license: Some("llama3".to_owned()), ..Default::default() },
    );
    let emissions = Some(Emissions { emissions: Some(12.0), ..Default::default() });
    check("co2_eq_emissions: 12", ModelCard { co2_eq_emissions: emissions, ..Default::default() });
    check("language: null\ntags: []\ndatasets: ~", ModelCard::default());
    let windows = ModelCard::of_readme(b"\xef\xbb\xbf--- \r\ntags:\r\n- a\r\n---\r\n").unwrap().unwrap().0;
    assert_eq!(windows.tags, ["a"]);
}

#[test]
fn what_means_nothing_is_left_out_and_said() {
    let check = |text: &str, expected: &[&str]| {
        let (card, problems) = readme(text);
        assert_eq!(problems, expected, "{text}");
        assert!(card.is_empty(), "{card:?}");
    };
    check("- a\n- b", &["`front matter`: expected a table, found a list"]);
    check("pipeline_tag: [a]", &["`pipeline_tag`: expected a text, found a list"]);
    check("datasets: 3", &["`datasets`: expected a table, found `3`"]);
    check("datasets: [{url: x}]", &["`datasets[0].name`: expected a name, found nothing"]);
    check("co2_eq_emissions: -1", &["`co2_eq_emissions`: expected a number of 0 or more, found `-1`"]);
    check("results: [{metric: accuracy}]", &["`results[0].value`: expected a number or a text, found nothing"]);
    let many = format!("tags: [{}]", "[],".repeat(1000));
    assert_eq!(readme(&many).1.len(), 20);
}

#[test]
fn files_without_front_matter() {
    for text in ["", "# Title\n---\na: b\n---\n", "----\na: b\n---\n", "--- a\n---\n", " ---\na: b\n---\n"] {
        assert_eq!(ModelCard::of_readme(text.as_bytes()).unwrap(), None, "{text}");
        assert!(!has_front_matter(text.as_bytes()));
    }
}

/// The library has no alarming cost for any of these, each of which repeats what its scanner looks ahead or back for.
#[test]
fn long_front_matter_takes_no_time() {
    for part in [
        "? ", "- ", "a: ", "[a, ", "{a: ", "a\n", "- a\n", " ", "\t", "\"", "'", "#\n", "\n", "a: |\n", "[", "{",
        "{? ", ": ", "!", "%a\n", "a ", "[a]: ", "a:\n ", "\\", "\"\\",
    ] {
        let length = (1 << 20) / part.len() * part.len();
        let text = format!("---\nx: {}\n---\n", part.repeat(length / part.len() - 8));
        let begin = std::time::Instant::now();
        let _ = ModelCard::of_readme(text.as_bytes());
        let keyless = format!("---\n{}\n---\n", part.repeat(length / part.len() - 8));
        let _ = ModelCard::of_readme(keyless.as_bytes());
        assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{part:?}: {:?}", begin.elapsed());
    }
}

#[test]
fn yaml_that_is_refused() {
    let check = |text: &[u8], expected: &str| {
        let error = ModelCard::of_readme(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    };
    check(b"---\na: b\n", "the front matter has no end: expected a line `---`");
    check(b"---\na: \xff\n---\n", "the front matter is not UTF-8");
    check(b"---\na: [b\n---\n", "the front matter is not YAML: line ");
    check(
        b"---\na: &x [1]\nb: *x\n---\n",
        "the front matter, line 2: expected texts, numbers, lists and tables, found an anchor",
    );
    check(
        b"---\na: !!python/object x\n---\n",
        "the front matter, line 2: expected texts, numbers, lists and tables, found a tag",
    );
    check(b"---\na: 1\nb: 2\na: 3\n---\n", "the front matter, line 4: expected a key once, found `a` again");
    check(b"---\n[a]: b\n---\n", "the front matter, line 2: expected a text as a key, found a list");
    check(b"---\n? {a: b}\n: c\n---\n", "the front matter, line 2: expected a text as a key, found a table");
    check(b"---\na: 1\n...\nb: 2\n---\n", "the front matter");
    let deep = format!("---\na: {}\n---\n", "[".repeat(100));
    check(
        deep.as_bytes(),
        "the front matter, line 2: expected at most 100000 values, nested at most 16 deep, found more",
    );
    let many = format!("---\na: [{}]\n---\n", "1,".repeat(200_000));
    check(many.as_bytes(), "the front matter, line 2: expected at most 100000 values");
    let long = format!("---\na: {}\n---\n", "x".repeat(2 << 20));
    check(long.as_bytes(), "the front matter has 2097156 bytes");
}

const CARD: &str = r#"
[card]
pipeline_tag = "image-classification"
language = ["en"]
intended_use = "Reads handwritten digits."
limitations = "Nothing but digits."
datasets = ["ylecun/mnist", { name = "ours", sha256 = "2222222222222222222222222222222222222222222222222222222222222222" }]
co2_eq_emissions = { emissions = 3.5, energy_kwh = 0.01 }

[[card.base_model]]
name = "team/lenet"
relation = "finetune"
carton = "sha256:1111111111111111111111111111111111111111111111111111111111111111"

[[card.results]]
metric = "accuracy"
value = 0.98
dataset = "ylecun/mnist"
split = "test"
"#;

const RUNNER: &str = "spec_version = 1\n[runner]\nrunner_name = 'onnx'\nrequired_framework_version = '*'\n";

#[test]
fn a_table_is_read_and_written() {
    let draft = Draft::parse(&format!("{RUNNER}{CARD}")).unwrap();
    assert_eq!(draft.unknown_keys, []);
    let metadata = draft.validate().unwrap();
    let card = metadata.card();
    assert_eq!(card.base_model[0].carton.unwrap().to_string(), "1".repeat(64));
    assert_eq!(card.datasets[1].sha256.unwrap().to_string(), "2".repeat(64));
    assert_eq!(card.results[0].value, MetricValue::Number(0.98));
    let text = metadata.to_toml();
    assert!(text.contains("\n[card]\npipeline_tag = \"image-classification\"\nlanguage = [\"en\"]\n"), "{text}");
    assert_eq!(Metadata::parse(&text).unwrap(), metadata);
}

#[test]
fn a_carton_is_opened_whatever_its_card_is() {
    let check = |card: &str, expected: &[&str]| {
        // A key before the tables, or a table after them.
        let (key, table) = if card.starts_with('[') { ("", card) } else { (card, "") };
        let metadata = Metadata::parse(&format!("{key}\n{RUNNER}{table}")).unwrap();
        let oddities: Vec<String> = metadata.oddities().iter().map(Oddity::to_string).collect();
        assert_eq!(oddities, expected, "{card}");
    };
    check("card = 'a'", &["`card`: expected a table, found `a`: it is ignored"]);
    check("[card]\nlater = 1\ntags = ['a']", &[]);
    check("[card]\nlimitations = ['a']", &["`card.limitations`: expected a text, found a list: it is ignored"]);
    check(
        "[card]\nbase_model = [{ name = 'a', carton = '12' }]",
        &["`card.base_model[0].carton`: expected a SHA-256 of 64 hexadecimal digits, found `12`: it is ignored"],
    );
    let error = Draft::parse("[card]\nlimitations = ['a']").unwrap_err().to_string();
    assert_eq!(error, "carton.toml: `card.limitations`: expected a text, found a list");
    let unknown =
        Draft::parse("[card]\nlimitation = 'a'\n[[card.results]]\nmetric = 'a'\nvalue = 1\nsources = 1").unwrap();
    let unknown: Vec<String> = unknown.unknown_keys.iter().map(ToString::to_string).collect();
    assert_eq!(
        unknown,
        [
            "line 2: unknown key `limitation` in card: did you mean `limitations`?",
            "line 6: unknown key `sources` in card.results[0]: did you mean `source`?",
        ]
    );
}

#[test]
fn cards_that_cannot_be_written() {
    let check = |card: ModelCard, expected: &str| {
        let mut draft = Draft::parse(RUNNER).unwrap();
        draft.card = card;
        assert_eq!(draft.validate().unwrap_err().to_string(), format!("carton.toml: {expected}"));
    };
    let emissions = Some(Emissions { emissions: Some(f64::NAN), ..Default::default() });
    check(
        ModelCard { co2_eq_emissions: emissions, ..Default::default() },
        "`card.co2_eq_emissions.emissions`: expected a number of 0 or more, found NaN",
    );
    check(
        ModelCard { datasets: vec![Dataset::default()], ..Default::default() },
        "`card.datasets[0]`: expected a name, found an empty text",
    );
    check(
        ModelCard { license: Some("mit".to_owned()), ..Default::default() },
        "`card.license`: expected nothing: `license` is no key of `[card]`, found `mit`",
    );
}

#[test]
fn one_card_is_completed_by_another() {
    let one = ModelCard { tags: vec!["a".to_owned()], ..Default::default() };
    let other = readme("tags: [b]\nlicense: mit").0;
    let joined = one.or(other);
    assert_eq!((joined.tags, joined.license), (vec!["a".to_owned()], Some("mit".to_owned())));
}
