//! SPDX 3.0.1 as JSON-LD: the model as an `AIPackage`, with relationships to its files, packages, data and licenses.
//!
//! A carton does not state who supplies it, a version, or when it was released, which the AI profile's text recommends, so these are left out.

use std::collections::BTreeMap;

use carton_core::package::{Info, Inventory, PythonPackage};
use serde_json::{Value, json};

use crate::facts::{self, ANY_OF, HASH, NOTICE, Signing};
use crate::identity::uuid;
use crate::license::License;
use crate::moment::Moment;
use crate::object::Object;
use crate::uri;

const CREATION: &str = "_:creation";

pub(crate) fn document(inventory: &Inventory, moment: &Moment) -> Value {
    // All identifiers begin with that of the document, which follows from the rest of it.
    let unnamed = below(String::new(), inventory, moment);
    below(format!("urn:uuid:{}", uuid(&unnamed)), inventory, moment)
}

/// The document whose identifiers begin with `base`.
fn below(base: String, inventory: &Inventory, moment: &Moment) -> Value {
    let Inventory { info, python_packages, .. } = inventory;
    let time = moment.text();
    let mut graph = Graph { base, elements: Vec::new(), n_relationships: 0, licenses: BTreeMap::new() };
    let (agent, tool) = (graph.id("agent"), graph.id("tool"));
    graph.add("agent", "SoftwareAgent", Object::new().with("name", "carton"));
    graph.add("tool", "Tool", Object::new().with("name", format!("carton {}", env!("CARGO_PKG_VERSION"))));

    let model = model(&mut graph, info);
    let files: Vec<String> = info
        .files
        .iter()
        .enumerate()
        .map(|(index, file)| {
            let digest = file.sha256.map(|digest| ("sha256".to_owned(), digest.to_string()));
            let linked = file.linked.then_some("Not in the carton itself: its LINKS says where it can be fetched.");
            let said = file
                .symlink
                .as_ref()
                .map(|target| format!("A symbolic link to {target}"))
                .or(linked.map(str::to_owned));
            let object = Object::new().with("name", file.path.as_str()).with("verifiedUsing", hashes(digest, None));
            graph.add(&format!("file-{index}"), "software_File", object.with("comment", said))
        })
        .collect();
    graph.relate(&model, "contains", files, Some("complete"), None);

    let runner = &info.runner;
    let needed = format!(
        "Runs the model. Required versions of the framework: {}; layout of the model: {}",
        runner.required_framework_version, runner.runner_compat_version
    );
    let object = Object::new().with("name", runner.runner_name.as_str()).with("software_primaryPurpose", "framework");
    let mut needs = vec![graph.add("runner", "software_Package", object.with("comment", needed))];
    for (index, package) in python_packages.iter().enumerate() {
        needs.push(python_package(&mut graph, index, package));
    }
    graph.relate(&model, "dependsOn", needs, None, None);
    data(&mut graph, info, &model);
    base_models(&mut graph, info, &model);
    graph.license(&model, facts::license(info));
    annotations(&mut graph, info, &model);

    let ids: Vec<Value> = graph.elements.iter().filter_map(|element| element.get("spdxId").cloned()).collect();
    let profiles = ["core", "software", "ai", "dataset", "simpleLicensing"];
    let about = Object::new()
        .with("name", format!("Bill of materials of {}", facts::model_name(info)))
        .with("comment", NOTICE)
        .with("profileConformance", profiles.map(Value::from).to_vec())
        .with("rootElement", vec![Value::from(model)])
        .with("element", ids);
    graph.add("document", "SpdxDocument", about);
    let creation = json!({
        "type": "CreationInfo",
        "@id": CREATION,
        "specVersion": "3.0.1",
        "created": time,
        "createdBy": [agent],
        "createdUsing": [tool],
    });
    graph.elements.insert(0, creation);
    json!({ "@context": "https://spdx.org/rdf/3.0.1/spdx-context.jsonld", "@graph": graph.elements })
}

/// The elements of a document, each with an identifier below that of the document.
struct Graph {
    base: String,
    elements: Vec<Value>,
    n_relationships: usize,
    /// The elements of the licenses that occurred.
    licenses: BTreeMap<License, String>,
}

impl Graph {
    fn id(&self, name: &str) -> String {
        format!("{}#{name}", self.base)
    }

    /// Adds an element, and returns its identifier.
    fn add(&mut self, name: &str, kind: &str, members: Object) -> String {
        let id = self.id(name);
        let members = members.with("type", kind).with("spdxId", id.as_str()).with("creationInfo", CREATION);
        self.elements.push(members.into());
        id
    }

    fn relate(&mut self, from: &str, kind: &str, to: Vec<String>, completeness: Option<&str>, comment: Option<String>) {
        if to.is_empty() {
            return;
        }
        let members = Object::new()
            .with("from", from)
            .with("relationshipType", kind)
            .with("to", to)
            .with("completeness", completeness)
            .with("comment", comment);
        let name = format!("relationship-{}", self.n_relationships);
        self.n_relationships += 1;
        self.add(&name, "Relationship", members);
    }

    /// States the license that an element declares.
    fn license(&mut self, of: &str, text: Option<&str>) {
        let Some(license) = text.map(License::of) else { return };
        let id = match self.licenses.get(&license) {
            Some(id) => id.clone(),
            None => {
                let name = format!("license-{}", self.licenses.len());
                let id = match &license {
                    License::Expression(expression) => {
                        let members = Object::new().with("simplelicensing_licenseExpression", expression.as_str());
                        self.add(&name, "simplelicensing_LicenseExpression", members)
                    }
                    License::Named(text) => {
                        let about =
                            "The license as it is stated, which is no expression of SPDX. Its text is not known.";
                        let members = Object::new().with("name", text.as_str()).with("comment", about);
                        let members = members.with("simplelicensing_licenseText", text.as_str());
                        self.add(&name, "simplelicensing_SimpleLicensingText", members)
                    }
                };
                self.licenses.insert(license, id.clone());
                id
            }
        };
        self.relate(of, "hasDeclaredLicense", vec![id], None, None);
    }
}

fn model(graph: &mut Graph, info: &Info) -> String {
    let card = &info.card;
    let hash = info.manifest_sha256.map(|hash| ("sha256".to_owned(), hash.to_string()));
    let metrics = card.results.iter().map(|result| {
        let on = facts::measured_on(result);
        let key = if on.is_empty() { result.metric.clone() } else { format!("{} ({on})", result.metric) };
        json!({ "type": "DictionaryEntry", "key": key, "value": result.value.to_string() })
    });
    let limits =
        [("", &card.limitations), ("Not for: ", &card.out_of_scope_use), ("Risks: ", &card.ethical_considerations)];
    let limits = limits.into_iter().filter_map(|(label, text)| Some(format!("{label}{}", text.as_ref()?)));
    let emissions = card.co2_eq_emissions.as_ref();
    let energy = emissions.and_then(|stated| {
        let is_fine_tuning = facts::is_fine_tuning(stated.training_type.as_deref());
        let key = if is_fine_tuning { "ai_finetuningEnergyConsumption" } else { "ai_trainingEnergyConsumption" };
        let description = json!([{
            "type": "ai_EnergyConsumptionDescription",
            "ai_energyQuantity": stated.energy_kwh?,
            "ai_energyUnit": "kilowattHour",
        }]);
        Some(Object::new().with("type", "ai_EnergyConsumption").with(key, description))
    });
    let training = emissions.and_then(|stated| {
        let grams = stated.emissions.map(|grams| format!("{grams} g of CO2 equivalent"));
        let parts =
            [&grams, &stated.source, &stated.training_type, &stated.geographical_location, &stated.hardware_used];
        let text = parts.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join("; ");
        (!text.is_empty()).then(|| format!("Emissions of training: {text}"))
    });
    let references = [("vcs", &info.repository), ("altWebPage", &info.homepage)];
    let references = references.into_iter().filter_map(|(kind, url)| {
        let url = uri::web(url.as_deref()?)?;
        Some(json!({ "type": "ExternalRef", "externalRefType": kind, "locator": [url] }))
    });
    let uses = [&card.intended_use].into_iter().flatten().cloned();
    let users = (!card.users.is_empty()).then(|| format!("Users: {}", card.users.join(", ")));
    let application = uses.chain(users).collect::<Vec<_>>().join("\n");
    let members = Object::new()
        .with("name", facts::model_name(info))
        .with("summary", info.short_description.clone())
        .with("description", info.model_description.clone())
        .with("software_primaryPurpose", "model")
        .with("verifiedUsing", hashes(hash, Some(HASH)))
        .with("software_homePage", info.homepage.as_deref().and_then(uri::web))
        .with("externalRef", references.collect::<Vec<_>>())
        .with("ai_domain", card.pipeline_tag.iter().cloned().collect::<Vec<_>>())
        .with("ai_typeOfModel", card.architecture.iter().cloned().collect::<Vec<_>>())
        .with("ai_informationAboutApplication", application)
        .with("ai_informationAboutTraining", training)
        .with("ai_limitation", limits.collect::<Vec<_>>().join("\n"))
        .with("ai_metric", metrics.collect::<Vec<_>>())
        .with("ai_energyConsumption", energy.map(Value::from));
    graph.add("model", "ai_AIPackage", members)
}

/// The data that the model was trained on, and that it was measured on.
fn data(graph: &mut Graph, info: &Info, model: &str) {
    // The name, what else is stated, and the element. One name may stand for two versions.
    let mut known: Vec<(String, Object, String)> = Vec::new();
    let mut add = |graph: &mut Graph, name: &str, stated: Option<Object>| {
        let is_it = |(known, other, _): &&(String, Object, String)| {
            known == name && stated.as_ref().is_none_or(|stated| stated == other)
        };
        if let Some((_, _, id)) = known.iter().find(is_it) {
            return id.clone();
        }
        let id = format!("dataset-{}", known.len());
        let stated = stated.unwrap_or_default();
        let members = stated
            .clone()
            .with("name", name)
            .with("software_primaryPurpose", "data")
            .with("dataset_datasetType", vec![Value::from("noAssertion")]);
        let id = graph.add(&id, "dataset_DatasetPackage", members);
        known.push((name.to_owned(), stated, id.clone()));
        id
    };
    let mut trained = Vec::new();
    for dataset in &info.card.datasets {
        let digest = dataset.sha256.map(|digest| ("sha256".to_owned(), digest.to_string()));
        let members = Object::new()
            .with("description", dataset.description.clone())
            .with("verifiedUsing", hashes(digest, None))
            .with("software_downloadLocation", dataset.url.as_deref().and_then(uri::web));
        let id = add(graph, &dataset.name, Some(members));
        if !trained.contains(&id) {
            graph.license(&id, dataset.license.as_deref());
            trained.push(id);
        }
    }
    let mut tested: Vec<String> = Vec::new();
    for name in info.card.results.iter().filter_map(|result| result.dataset.as_deref()) {
        let id = add(graph, name, None);
        if !tested.contains(&id) {
            tested.push(id);
        }
    }
    graph.relate(model, "trainedOn", trained, None, None);
    graph.relate(model, "testedOn", tested, None, None);
}

fn base_models(graph: &mut Graph, info: &Info, model: &str) {
    for (index, base) in info.card.base_model.iter().enumerate() {
        let of_carton = base.carton.map(|hash| ("sha256".to_owned(), hash.to_string()));
        let of_file = base.sha256.map(|digest| ("sha256".to_owned(), digest.to_string()));
        let mut found = hashes(of_carton, Some(HASH));
        found.extend(hashes(of_file, Some("The SHA-256 of its file.")));
        let members = Object::new()
            .with("name", base.name.as_str())
            .with("software_primaryPurpose", "model")
            .with("verifiedUsing", found)
            .with("software_homePage", base.url.as_deref().and_then(uri::web));
        let id = graph.add(&format!("base-model-{index}"), "ai_AIPackage", members);
        graph.relate(model, "descendantOf", vec![id], None, base.relation.clone());
    }
}

fn python_package(graph: &mut Graph, index: usize, package: &PythonPackage) -> String {
    let comment = (package.hashes.len() > 1).then_some(ANY_OF);
    let marker = package.marker.as_ref().map(|marker| format!("Where {marker}"));
    let members = Object::new()
        .with("name", package.name.as_str())
        .with("software_primaryPurpose", "library")
        .with("software_packageVersion", package.version.as_str())
        .with("software_packageUrl", uri::of_python_package(&package.name, &package.version))
        .with("verifiedUsing", hashes(package.hashes.iter().cloned(), comment))
        .with("comment", marker);
    let id = graph.add(&format!("python-{index}"), "software_Package", members);
    graph.license(&id, package.license.as_deref());
    id
}

/// What SPDX has no field for.
fn annotations(graph: &mut Graph, info: &Info, model: &str) {
    let mut statements = vec![NOTICE.to_owned()];
    for (side, specs) in [("input", &info.inputs), ("output", &info.outputs)] {
        statements.extend(specs.iter().map(|spec| format!("{side} {}: {}", spec.name, facts::tensor(spec))));
    }
    statements.extend(info.self_tests.iter().map(|test| format!("self-test, not run for this document: {test}")));
    if let Some(Signing { status, signer }) = facts::signing(info) {
        let signer = signer.map(|(word, signer)| format!(", {}: {signer}", word.replace('-', " ")));
        statements.push(format!("signature: {status}{}", signer.unwrap_or_default()));
    }
    let lists = [("language", &info.card.language), ("tag", &info.card.tags), ("metric", &info.card.metrics)];
    for (word, values) in lists {
        statements.extend(values.iter().map(|value| format!("{word}: {value}")));
    }
    statements.extend(info.required_platforms.iter().map(|platform| format!("required platform: {platform}")));
    statements.extend(info.card.library_name.iter().map(|library| format!("library: {library}")));
    if !info.sandbox.is_empty() {
        statements.push(format!("asks for: {}", info.sandbox));
    }
    statements.extend(info.warnings.iter().map(|warning| format!("warning: {warning}")));
    for (index, statement) in statements.into_iter().enumerate() {
        let members = Object::new().with("annotationType", "other").with("subject", model).with("statement", statement);
        graph.add(&format!("annotation-{index}"), "Annotation", members);
    }
}

fn hashes(hashes: impl IntoIterator<Item = (String, String)>, comment: Option<&str>) -> Vec<Value> {
    let hash = |(algorithm, digest): (String, String)| {
        let members = Object::new().with("type", "Hash").with("algorithm", algorithm).with("hashValue", digest);
        members.with("comment", comment).into()
    };
    hashes.into_iter().map(hash).collect()
}
