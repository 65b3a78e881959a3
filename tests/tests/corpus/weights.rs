//! The weights of models: loading, statistics, quantization, validation and merging (spec/weights.md).

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::path::PathBuf;

use carton_core::Sha256Digest;
use carton_tensor::any_file::TensorFile;
use carton_tensor::files::RawTensor;
use carton_tensor::weights::{
    self, Description, Filter, Finding, LoadOptions, QuantizationError, QuantizeOptions, Statistics,
};
use carton_tensor::{safetensors, ztensor};
use serde_json::{Map, Value, json};

use crate::{Case, Refusal, Said, chain, check, cites};

#[test]
fn every_question_about_weights_is_answered_as_the_corpus_has_it() {
    check("weights", &[], |case| answer(case).map(|found| as_expected(&case.description["reads"], found)));
}

/// What the errors of the cases say that are refused for `weights`.
const REFUSALS: [(&str, &str); 12] = [
    ("groups-beyond-float32", "column 0 has numbers whose scale is beyond float32"),
    ("load-nothing", "no tensors found in"),
    ("load-nothing-filtered", "passes the filter"),
    ("merged-attribute-of-a-number", "attribute `k` is not text, which safetensors cannot hold"),
    ("merged-attribute-of-an-object", "object `x` has attributes, which safetensors cannot hold"),
    ("merged-further-component", "object `x` has further components, which safetensors cannot hold"),
    ("merged-further-component-of-a-sparse-object", "object `s` has further components, which safetensors cannot hold"),
    ("merged-metadata-differs", "metadata `k` is `v` in one file and `w` in"),
    ("merged-name-twice", "tensor `a` is both in"),
    ("merged-name-twice-into-ztensor", "tensor `a` is both in"),
    ("merged-nothing", "no tensors found in"),
    ("merged-unknown-type", "object `x` has the unknown type `posit8`, which would be lost"),
];

type Answer = Result<Value, Box<dyn StdError>>;

fn answer(case: &Case) -> Said {
    let weights = |error: Box<dyn StdError>| {
        let text = chain(&*error);
        let expected = REFUSALS.iter().find(|(name, _)| *name == case.name);
        let is_right = expected.is_some_and(|(_, problem)| text.contains(problem));
        Refusal { reason: if is_right { "weights" } else { "another error" }, text }
    };
    match case.description["asks"].as_str() {
        Some("tensors") => loaded(case).map_err(weights),
        Some("statistics") => statistics(case).map_err(weights),
        Some("int8") => int8(case).map_err(weights),
        Some("int8 in groups") => groups(case).map_err(weights),
        Some("merged") => merged(case).map_err(weights),
        Some("validation") => {
            let description = description(case)?;
            validation(case, &description).map_err(weights)
        }
        asked => panic!("nobody knows what {asked:?} is"),
    }
}

/// The file with the tensors of a model.
fn model(case: &Case) -> PathBuf {
    let [safetensors, ztensor] = ["model.safetensors", "model.zt"].map(|name| case.path.join(name));
    if safetensors.exists() { safetensors } else { ztensor }
}

fn options(case: &Case) -> LoadOptions {
    let filter = case.description["options"]["filter"].as_str();
    LoadOptions::default().filter(filter.map_or(Filter::ALL, |pattern| Filter::glob(pattern).unwrap()))
}

fn loaded(case: &Case) -> Answer {
    let weights = weights::load(model(case), &options(case))?;
    let tensors: Vec<Value> = weights.tensors.iter().map(|(name, tensor)| describe(name, tensor)).collect();
    Ok(json!({ "tensors": tensors }))
}

fn describe(name: &str, tensor: &RawTensor) -> Value {
    let sha256 = Sha256Digest::of(tensor.bytes()).to_string();
    json!({ "name": name, "dtype": tensor.dtype().name(), "shape": tensor.shape(), "sha256": sha256 })
}

fn statistics(case: &Case) -> Answer {
    let weights = weights::load(model(case), &options(case))?;
    let described = weights.tensors.iter().map(|(name, tensor)| {
        let Statistics { min, max, mean, standard_deviation, n_nan, n_infinite, .. } = weights::stats(tensor)?;
        let found = json!({
            "min": min,
            "max": max,
            "mean": mean,
            "standard_deviation": standard_deviation,
            "nan": n_nan,
            "infinite": n_infinite,
        });
        Ok((name.clone(), found))
    });
    Ok(json!({ "statistics": described.collect::<Result<Map<_, _>, Box<dyn StdError>>>()? }))
}

fn int8(case: &Case) -> Answer {
    let mut quantize = QuantizeOptions::default().measured();
    if case.description["options"]["scales"] == "channel" {
        quantize = quantize.per_channel();
    }
    let found = weights::load_quantized(model(case), &options(case), &quantize)?;
    let mut tensors: BTreeMap<String, Value> = BTreeMap::new();
    let (mut n_non_finite, mut error) = (0, QuantizationError::default());
    for (name, quantized) in &found.quantized {
        let scale = format!("{name}{}", weights::SCALE_SUFFIX);
        tensors.insert(scale.clone(), describe(&scale, &quantized.scales.to_tensor()?));
        tensors.insert(name.clone(), describe(name, &quantized.tensor));
        n_non_finite += quantized.n_non_finite;
        error = quantized.error.map_or(error, |of_tensor| error.merge(of_tensor));
    }
    tensors.extend(found.unchanged.iter().map(|(name, tensor)| (name.clone(), describe(name, tensor))));
    let tensors: Vec<Value> = tensors.into_values().collect();
    let mut described = json!({ "tensors": tensors, "not_finite": n_non_finite });
    if case.description["reads"].get("error").is_some() {
        let QuantizationError { norm_of_error, norm, max_absolute, .. } = error;
        let relative = error.relative();
        described["error"] = json!({
            "relative": relative,
            "norm_of_error": norm_of_error,
            "norm": norm,
            "max_absolute": max_absolute,
        });
    }
    Ok(described)
}

fn groups(case: &Case) -> Answer {
    let weights = weights::load(model(case), &options(case))?;
    let (name, matrix) = weights.tensors.first_key_value().unwrap();
    let group_size = case.description["options"]["group_size"].as_u64().unwrap() as usize;
    let quantized = weights::quantize_groups(matrix, group_size, &QuantizeOptions::default())?;
    Ok(json!({
        "integers": describe(name, &quantized.integers),
        "scales": describe(name, &quantized.scales),
        "not_finite": quantized.n_non_finite,
    }))
}

fn description(case: &Case) -> Result<Description, Refusal> {
    let sizes = case.description["options"]["sizes"].as_object().into_iter().flatten();
    let sizes = sizes.map(|(name, size)| (name.clone(), size.as_u64().unwrap() as usize)).collect();
    Description::open_with_sizes(case.path.join("description.toml"), &sizes).map_err(|error| {
        let text = chain(&error);
        let reason = if cites(case, &text) { "description" } else { "another section" };
        Refusal { reason, text }
    })
}

fn validation(case: &Case, description: &Description) -> Answer {
    let file = TensorFile::open(model(case))?;
    let found = weights::validate(&file, description, &options(case))?;
    let listed = |findings: &[Finding]| {
        let mut listed: Vec<(String, Option<String>)> = findings
            .iter()
            .map(|finding| {
                let category = serde_json::to_value(finding.category).unwrap();
                (category.as_str().unwrap().to_owned(), finding.tensor.clone())
            })
            .collect();
        listed.sort_unstable();
        listed.into_iter().map(|(category, tensor)| json!({ "category": category, "tensor": tensor })).collect()
    };
    let (errors, warnings): (Vec<Value>, Vec<Value>) = (listed(&found.errors), listed(&found.warnings));
    Ok(json!({
        "tensors": found.n_tensors,
        "parameters": found.n_parameters,
        "errors": errors,
        "warnings": warnings,
    }))
}

fn merged(case: &Case) -> Answer {
    let entries: Result<Vec<_>, _> = std::fs::read_dir(&case.path)?.collect();
    let mut inputs: Vec<PathBuf> = entries?.into_iter().map(|entry| entry.path()).collect();
    inputs.sort_unstable();
    let folder = tempfile::tempdir()?;
    let into = case.description["options"]["into"].as_str().unwrap();
    let output = folder.path().join(format!("merged.{into}"));
    weights::join(inputs, &output, &options(case))?;
    if into == "zt" { describe_objects(&ztensor::Reader::open(&output)?) } else { describe_tensors(&output) }
}

/// The tensors of a safetensors file in the order of their bytes.
fn describe_tensors(path: &std::path::Path) -> Answer {
    let reader = safetensors::Reader::open(path)?;
    let metadata: Map<String, Value> =
        reader.metadata().iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
    let mut tensors: Vec<_> = reader.header().iter().collect();
    tensors.sort_by_key(|tensor| tensor.range.start);
    let described: Result<Vec<Value>, Box<dyn StdError>> =
        tensors.iter().map(|tensor| Ok(describe(tensor.name, &reader.read(tensor.name)?))).collect();
    Ok(json!({ "tensors": described?, "metadata": metadata }))
}

fn describe_objects(reader: &ztensor::Reader) -> Answer {
    let mut objects = Vec::new();
    for object in reader.objects() {
        let mut components = Map::new();
        let mut n_digests = 0;
        for component in object.components() {
            let sha256 = Sha256Digest::of(&reader.read_component(&component, ztensor::Checks::ALL)?).to_string();
            n_digests += usize::from(component.digest_text().is_some());
            components.insert(component.role().to_owned(), json!({ "sha256": sha256 }));
        }
        objects.push(json!({
            "name": object.name(),
            "shape": object.shape(),
            "format": object.format().name(),
            "attributes": object.attributes()?.len(),
            "digests": n_digests,
            "components": components,
        }));
    }
    let mut attributes = Map::new();
    for (name, value) in reader.manifest().attributes()? {
        attributes.insert(name, value.as_integer().map_or_else(|| value.as_text().into(), Value::from));
    }
    Ok(json!({ "objects": objects, "attributes": attributes }))
}

/// Replaces numbers that nearly equal those of the corpus by them, because sums and quotients may be rounded differently.
fn as_expected(expected: &Value, mut found: Value) -> Value {
    for (name, object) in found.as_object_mut().into_iter().flatten() {
        let expected = &expected[name];
        match name.as_str() {
            // The difference of nearly equal numbers has fewer significant digits than they have.
            "error" => nearly_equal(expected, object, expected["norm"].as_f64().unwrap_or_default()),
            "statistics" => {
                let tensors = object.as_object_mut().into_iter().flatten();
                tensors.for_each(|(name, statistics)| nearly_equal(&expected[name], statistics, 1.0));
            }
            _ => {}
        }
    }
    found
}

/// Replaces the numbers of an object that equal the expected ones to 12 digits of `unit`.
fn nearly_equal(expected: &Value, found: &mut Value, unit: f64) {
    for (name, number) in found.as_object_mut().into_iter().flatten() {
        let expected = &expected[name];
        let unit = if name == "relative" { 1.0 } else { unit };
        let near = |(expected, found): (f64, f64)| (expected - found).abs() <= 1e-12 * unit.max(expected.abs());
        if expected.as_f64().zip(number.as_f64()).is_some_and(near) {
            *number = expected.clone();
        }
    }
}
