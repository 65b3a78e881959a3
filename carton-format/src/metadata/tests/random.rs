//! Valid metadata survives being written, and invalid metadata is refused without a panic.

use carton_tensor::Dimension;
use proptest::prelude::*;

use super::*;
use crate::digest::Sha256Digest;
use crate::metadata::SandboxRequest;
use crate::model_card::{BaseModel, Dataset, Emissions, EvaluationResult, MetricValue, ModelCard};

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["\\PC{0,12}", ".{0,12}", "[\"'\\\\\n\r\t\u{0}\u{1b}\u{7f} =#]{0,12}"]
}

fn any_name() -> impl Strategy<Value = String> {
    any_text().prop_filter("names are not empty", |name| !name.is_empty())
}

fn any_shape() -> impl Strategy<Value = SymbolicShape> {
    let symbol = || any_name().prop_filter("reserved", |name| name != "*");
    let dimension = prop_oneof![
        Just(Dimension::Any),
        symbol().prop_map(Dimension::Symbol),
        (0..=u64::MAX >> 1).prop_map(Dimension::Fixed)
    ];
    prop_oneof![
        Just(SymbolicShape::Any),
        symbol().prop_map(SymbolicShape::Symbol),
        proptest::collection::vec(dimension, 0..4).prop_map(SymbolicShape::Dimensions)
    ]
}

fn any_specs() -> impl Strategy<Value = Vec<TensorSpec>> {
    let optional = any::<Option<bool>>();
    let rest = (proptest::sample::select(&DataType::ALL[..]), any_shape(), any_name(), any_name(), optional);
    proptest::collection::btree_map(any_name(), rest, 0..3).prop_map(|specs| {
        let spec = |(name, (dtype, shape, description, internal_name, optional))| TensorSpec {
            name,
            dtype,
            shape,
            description: Some(description),
            internal_name: Some(internal_name),
            optional,
            default: None,
        };
        specs.into_iter().map(spec).collect()
    })
}

fn any_tensors() -> impl Strategy<Value = BTreeMap<String, DraftReference>> {
    let tensor = any_name().prop_map(|name| Reference::TensorData(name).into());
    proptest::collection::btree_map(any_text(), tensor, 0..3)
}

fn any_option() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(serde_json::Value::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(serde_json::Value::from),
        any::<bool>().prop_map(serde_json::Value::from),
        any_text().prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(serde_json::Value::from),
            proptest::collection::btree_map(any_text(), inner, 0..3)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect()))
        ]
    })
}

fn any_card() -> impl Strategy<Value = ModelCard> {
    let texts = || proptest::collection::vec(any_name(), 0..3);
    let number = || any::<f64>().prop_filter("finite", |number| number.is_finite());
    let value = prop_oneof![number().prop_map(MetricValue::Number), any_name().prop_map(MetricValue::Text)];
    let dataset =
        any_name().prop_map(|name| Dataset { sha256: Some(Sha256Digest::of(b"data")), name, ..Dataset::default() });
    let results = proptest::collection::vec((any_name(), value), 0..3);
    let base = (any_name(), proptest::option::of(any_name()));
    let base = base.prop_map(|(name, relation)| BaseModel { name, relation, ..BaseModel::default() });
    let optional = || proptest::option::of(any_name());
    let energy = proptest::option::of(number().prop_map(f64::abs));
    let lists = (texts(), texts(), proptest::collection::vec(dataset, 0..3), proptest::collection::vec(base, 0..3));
    (optional(), optional(), lists, results, energy).prop_map(
        |(pipeline_tag, limitations, (language, users, datasets, base_model), results, energy)| ModelCard {
            pipeline_tag,
            limitations,
            language,
            users,
            datasets,
            base_model,
            results: results
                .into_iter()
                .map(|(metric, value)| EvaluationResult { metric, value, ..EvaluationResult::default() })
                .collect(),
            co2_eq_emissions: energy.map(|energy| Emissions { energy_kwh: Some(energy), ..Emissions::default() }),
            ..ModelCard::default()
        },
    )
}

fn any_draft() -> impl Strategy<Value = Draft> {
    let texts = proptest::collection::vec(proptest::option::of(any_name()), 9);
    let opts = proptest::collection::btree_map(any_text(), any_option(), 0..4);
    let tests = (any_tensors(), proptest::option::of(any_tensors()));
    let read = proptest::collection::vec(any_text().prop_map(|text| format!("/{}", text.replace("..", ""))), 0..3);
    let sandbox = (proptest::bool::ANY, read);
    let value = any_text().prop_map(|text| text.replace('\0', ""));
    let env = proptest::collection::btree_map("V[A-Z_0-9]{0,3}", value, 0..3);
    (texts, any_specs(), any_specs(), tests, (opts, env), (sandbox, any_card())).prop_map(
        |(mut texts, inputs, outputs, (tensors, expected), (opts, env), ((network, read), card))| {
            let mut text = || texts.pop().flatten();
            Draft {
                model_name: text(),
                short_description: text(),
                model_description: text(),
                license: text(),
                repository: text(),
                homepage: text(),
                required_platforms: vec![],
                inputs: Some(inputs),
                outputs: Some(outputs),
                self_tests: vec![SelfTest {
                    name: text(),
                    description: text(),
                    inputs: tensors.clone(),
                    expected_out: expected,
                }],
                examples: vec![Example {
                    name: text(),
                    description: None,
                    inputs: tensors,
                    sample_out: [("x".to_owned(), Reference::Misc("a b/c".to_owned()).into())].into(),
                }],
                runner_name: Some("r".to_owned()),
                required_framework_version: Some(VersionReq::STAR),
                runner_compat_version: Some(3),
                opts: opts.into_iter().collect(),
                env,
                sandbox: SandboxRequest::new(network, read),
                card,
                card_problems: vec![],
                unknown_keys: vec![],
            }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_reads_back(draft in any_draft()) {
        let metadata = draft.validate().unwrap();
        let text = metadata.to_toml();
        match Metadata::parse(&text) {
            Ok(again) => prop_assert_eq!(again, metadata, "{}", text),
            Err(error) => prop_assert!(false, "{}\n{}", chain(&error), text),
        }
    }

    #[test]
    fn no_text_is_too_strange(text in any::<String>()) {
        let _ = Metadata::parse(&text);
        let _ = Draft::parse(&text);
    }

    /// A valid file in which bytes were overwritten is read, or refused with an error; what was read is valid.
    #[test]
    fn damaged_files(damage in proptest::collection::vec((0..4096_usize, any::<u8>()), 1..6)) {
        let mut bytes = COMPLETE.as_bytes().to_vec();
        for (position, byte) in damage {
            let position = position % bytes.len();
            bytes[position] = byte;
        }
        if let Ok(metadata) = Metadata::from_bytes(&bytes) {
            prop_assert_eq!(Metadata::parse(&metadata.to_toml()).unwrap(), metadata);
        }
    }
}
