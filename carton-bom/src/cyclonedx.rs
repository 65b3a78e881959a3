//! CycloneDX 1.6: the model as `metadata.component`, with a model card and with its files in it; the runner, Python packages and data beside
//! it.

use carton_core::model_card::ModelCard;
use carton_core::package::{FileInfo, Info, Inventory, PythonPackage};
use serde_json::{Value, json};

use crate::facts::{self, ANY_OF, HASH, NOTICE, Signing};
use crate::identity::uuid;
use crate::license::License;
use crate::moment::Moment;
use crate::object::Object;
use crate::uri;

const MODEL: &str = "model";
const RUNNER: &str = "runner";

pub(crate) fn document(inventory: &Inventory, moment: &Moment) -> Value {
    let Inventory { info, python_packages, .. } = inventory;
    let time = moment.chosen();
    let tool = || json!({ "type": "application", "name": "carton", "version": env!("CARGO_PKG_VERSION") });
    let mut components = vec![runner(info)];
    components.extend(info.card.datasets.iter().enumerate().map(|(index, dataset)| {
        let url = dataset.url.as_deref().and_then(uri::web);
        let contents = url.map(|url| json!({ "url": url }));
        let data = Object::new().with("type", "dataset").with("name", dataset.name.as_str()).with("contents", contents);
        let data = data.with("description", dataset.description.clone());
        let unusable = dataset.url.as_ref().filter(|_| url.is_none());
        Object::new()
            .with("type", "data")
            .with("bom-ref", format!("dataset:{index}"))
            .with("name", dataset.name.as_str())
            .with("hashes", hashes(dataset.sha256.map(|digest| ("sha256".to_owned(), digest.to_string()))))
            .with("licenses", licenses(dataset.license.as_deref()))
            .with("data", vec![Value::from(data)])
            .with("properties", properties(unusable.map(|url| ("carton:url", url.clone()))))
            .into()
    }));
    components.extend(python_packages.iter().enumerate().map(|(index, package)| python_package(index, package)));
    let on_model: Vec<String> = std::iter::once(RUNNER.to_owned())
        .chain((0..python_packages.len()).map(|index| format!("python:{index}")))
        .collect();
    let annotation = time.as_ref().map(|time| {
        json!([{ "subjects": [MODEL], "annotator": { "component": tool() }, "timestamp": time, "text": NOTICE }])
    });
    let metadata = Object::new()
        .with("timestamp", time.clone())
        .with("tools", json!({ "components": [tool()] }))
        .with("component", model(info))
        .with("properties", properties([("carton:notice", NOTICE.to_owned())]));
    let rest = Object::new()
        .with("$schema", "http://cyclonedx.org/schema/bom-1.6.schema.json")
        .with("bomFormat", "CycloneDX")
        .with("specVersion", "1.6")
        .with("version", 1)
        .with("metadata", metadata)
        .with("components", components)
        .with("dependencies", json!([{ "ref": MODEL, "dependsOn": on_model }]))
        .with("annotations", annotation);
    let mut document = Value::from(rest);
    let serial = format!("urn:uuid:{}", uuid(&document));
    if let Some(members) = document.as_object_mut() {
        members.insert("serialNumber".to_owned(), serial.into());
    }
    document
}

fn model(info: &Info) -> Object {
    let references = [("vcs", &info.repository), ("website", &info.homepage)];
    let references = references
        .into_iter()
        .filter_map(|(kind, url)| Some(json!({ "type": kind, "url": uri::web(url.as_deref()?)? })));
    let ancestors: Vec<Value> = info
        .card
        .base_model
        .iter()
        .enumerate()
        .map(|(index, base)| {
            let hash = base.carton.map(|hash| hash.to_string());
            let file = base.sha256.map(|digest| digest.to_string());
            let stated = hash.clone().or_else(|| file.clone()).map(|digest| ("sha256".to_owned(), digest));
            let url = base.url.as_deref().and_then(uri::web).map(|url| json!([{ "type": "website", "url": url }]));
            let said = [
                ("carton:relation", base.relation.clone()),
                ("carton:manifest-sha256", hash),
                ("carton:file-sha256", file),
            ];
            Object::new()
                .with("type", "machine-learning-model")
                .with("bom-ref", format!("base-model:{index}"))
                .with("name", base.name.as_str())
                // A carton and a file are different things, and a component is one of them.
                .with("hashes", hashes(stated))
                .with("externalReferences", url)
                .with("properties", properties(said.into_iter().filter_map(|(name, value)| Some((name, value?)))))
                .into()
        })
        .collect();
    let description = info.short_description.clone().or_else(|| info.model_description.clone());
    Object::new()
        .with("type", "machine-learning-model")
        .with("bom-ref", MODEL)
        .with("name", facts::model_name(info))
        .with("description", description)
        .with("hashes", hashes(info.manifest_sha256.map(|hash| ("sha256".to_owned(), hash.to_string()))))
        .with("licenses", licenses(facts::license(info)))
        .with("pedigree", Object::new().with("ancestors", ancestors))
        .with("externalReferences", references.collect::<Vec<_>>())
        .with("tags", info.card.tags.clone())
        .with("modelCard", model_card(info))
        .with("components", info.files.iter().map(file).collect::<Vec<_>>())
        .with("properties", of_model(info))
}

/// What CycloneDX has no field for.
fn of_model(info: &Info) -> Value {
    let card = &info.card;
    let mut found: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: String| found.push((format!("carton:{name}"), value));
    if info.manifest_sha256.is_some() {
        add("hash", HASH.to_owned());
    }
    add("spec-version", info.spec_version.to_string());
    for platform in &info.required_platforms {
        add("required-platform", platform.clone());
    }
    if !info.sandbox.is_empty() {
        add("asks-for", info.sandbox.to_string());
    }
    for (side, specs) in [("input", &info.inputs), ("output", &info.outputs)] {
        for spec in specs {
            add(&format!("{side}:{}", spec.name), facts::tensor(spec));
        }
    }
    for test in &info.self_tests {
        add("self-test", test.clone());
    }
    if let Some(Signing { status, signer }) = facts::signing(info) {
        add("signing:status", status.to_owned());
        if let Some((word, signer)) = signer {
            add(&format!("signing:{word}"), signer);
        }
    }
    for (name, values) in [("language", &card.language), ("metric", &card.metrics)] {
        for value in values {
            add(name, value.clone());
        }
    }
    let texts = [("library-name", &card.library_name), ("out-of-scope-use", &card.out_of_scope_use)];
    for (name, text) in texts {
        if let Some(text) = text {
            add(name, text.clone());
        }
    }
    for warning in &info.warnings {
        add("warning", warning.clone());
    }
    properties(found.iter().map(|(name, value)| (name.as_str(), value.clone())))
}

fn model_card(info: &Info) -> Object {
    let card = &info.card;
    let datasets = (0..card.datasets.len()).map(|index| json!({ "ref": format!("dataset:{index}") }));
    let formats = |specs: &[carton_core::metadata::TensorSpec]| -> Vec<Value> {
        specs.iter().map(|spec| json!({ "format": facts::tensor(spec) })).collect()
    };
    let parameters = Object::new()
        .with("task", card.pipeline_tag.clone())
        .with("modelArchitecture", card.architecture.clone())
        .with("datasets", datasets.collect::<Vec<_>>())
        .with("inputs", formats(&info.inputs))
        .with("outputs", formats(&info.outputs));
    let metrics = card.results.iter().map(|result| {
        Value::from(
            Object::new()
                .with("type", result.metric.as_str())
                .with("value", result.value.to_string())
                .with("slice", facts::measured_on(result)),
        )
    });
    let metrics = Object::new().with("performanceMetrics", metrics.collect::<Vec<_>>());
    let list = |text: &Option<String>| text.iter().cloned().collect::<Vec<_>>();
    let risks = card.ethical_considerations.iter().map(|text| json!({ "name": text }));
    let considerations = Object::new()
        .with("users", card.users.clone())
        .with("useCases", list(&card.intended_use))
        .with("technicalLimitations", list(&card.limitations))
        .with("ethicalConsiderations", risks.collect::<Vec<_>>())
        .with("environmentalConsiderations", environment(card));
    Object::new()
        .with("modelParameters", parameters)
        .with("quantitativeAnalysis", metrics)
        .with("considerations", considerations)
}

/// CycloneDX has emissions of a known energy only, and energy with its providers, which a card does not name.
fn environment(card: &ModelCard) -> Object {
    let Some(stated) = &card.co2_eq_emissions else { return Object::new() };
    let consumption = stated.energy_kwh.map(|energy| {
        let is_fine_tuning = facts::is_fine_tuning(stated.training_type.as_deref());
        let emissions = stated.emissions.map(|grams| json!({ "value": grams / 1e6, "unit": "tCO2eq" }));
        let consumption = Object::new()
            .with("activity", if is_fine_tuning { "fine-tuning" } else { "training" })
            .with_empty("energyProviders", Vec::<Value>::new())
            .with("activityEnergyCost", json!({ "value": energy, "unit": "kWh" }))
            .with("co2CostEquivalent", emissions);
        vec![Value::from(consumption)]
    });
    let said = [
        ("carton:co2-eq-emissions-grams", stated.emissions.map(|grams| grams.to_string())),
        ("carton:co2-eq-emissions-source", stated.source.clone()),
        ("carton:training-type", stated.training_type.clone()),
        ("carton:geographical-location", stated.geographical_location.clone()),
        ("carton:hardware-used", stated.hardware_used.clone()),
    ];
    Object::new()
        .with("energyConsumptions", consumption)
        .with("properties", properties(said.into_iter().filter_map(|(name, value)| Some((name, value?)))))
}

fn file(file: &FileInfo) -> Value {
    let said = [
        ("carton:size", file.size.map(|size| size.to_string())),
        ("carton:symlink", file.symlink.clone()),
        ("carton:linked", file.linked.then(|| "true".to_owned())),
    ];
    Object::new()
        .with("type", "file")
        .with("bom-ref", format!("file:{}", file.path))
        .with("name", file.path.as_str())
        .with("hashes", hashes(file.sha256.map(|digest| ("sha256".to_owned(), digest.to_string()))))
        .with("properties", properties(said.into_iter().filter_map(|(name, value)| Some((name, value?)))))
        .into()
}

fn runner(info: &Info) -> Value {
    let runner = &info.runner;
    let said = [
        ("carton:required-framework-version", runner.required_framework_version.to_string()),
        ("carton:runner-compat-version", runner.runner_compat_version.to_string()),
    ];
    Object::new()
        .with("type", "framework")
        .with("bom-ref", RUNNER)
        .with("name", runner.runner_name.as_str())
        .with("scope", "required")
        .with("properties", properties(said))
        .into()
}

fn python_package(index: usize, package: &PythonPackage) -> Value {
    let several = package.hashes.len() > 1;
    let said = [
        ("carton:marker", package.marker.clone()),
        ("carton:hashes", several.then(|| ANY_OF.to_owned())),
        ("carton:wheel", package.wheel.clone()),
    ];
    Object::new()
        .with("type", "library")
        .with("bom-ref", format!("python:{index}"))
        .with("name", package.name.as_str())
        .with("version", package.version.as_str())
        .with("hashes", hashes(package.hashes.iter().cloned()))
        .with("licenses", licenses(package.license.as_deref()))
        .with("purl", uri::of_python_package(&package.name, &package.version))
        .with("properties", properties(said.into_iter().filter_map(|(name, value)| Some((name, value?)))))
        .into()
}

fn hashes(hashes: impl IntoIterator<Item = (String, String)>) -> Value {
    let name = |algorithm: &str| match algorithm {
        "sha384" => "SHA-384",
        "sha512" => "SHA-512",
        _ => "SHA-256",
    };
    let mut found: Vec<Value> = Vec::new();
    for (algorithm, digest) in hashes {
        let hash = json!({ "alg": name(&algorithm), "content": digest });
        if !found.contains(&hash) {
            found.push(hash);
        }
    }
    found.into()
}

fn licenses(text: Option<&str>) -> Value {
    match text.map(License::of) {
        None => Value::Null,
        // As an expression, which no list in the schema limits, also where it is one identifier.
        Some(License::Expression(expression)) => json!([{ "expression": expression, "acknowledgement": "declared" }]),
        Some(License::Named(name)) => json!([{ "license": { "name": name, "acknowledgement": "declared" } }]),
    }
}

fn properties<'a>(properties: impl IntoIterator<Item = (&'a str, String)>) -> Value {
    let property = |(name, value)| json!({ "name": name, "value": value });
    properties.into_iter().map(property).collect::<Vec<_>>().into()
}
