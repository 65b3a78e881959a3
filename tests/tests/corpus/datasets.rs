//! Datasets: their samples, their index, and the findings of verification.

use std::collections::BTreeSet;

use carton_core::Sha256Digest;
use carton_dataset::index::{self, INDEX_NAME, IndexRow};
use carton_dataset::{Category, Checks, Dataset, DatasetError, verify};
use carton_tensor::context::Context;
use carton_tensor::safetensors::dtype_name;
use serde_json::{Value, json};

use crate::{Case, Refusal, Said, chain, check, cites};

#[test]
fn every_dataset_is_read_as_the_corpus_has_it() {
    check("datasets", &[], read);
}

fn read(case: &Case) -> Said {
    let manifest = |error: DatasetError| {
        let text = chain(&error);
        let is_right = matches!(error, DatasetError::NoManifest { .. }) || cites(case, &text);
        Refusal { reason: if is_right { "manifest" } else { "another section" }, text }
    };
    let verification = verify(&case.path, Checks::Headers, &Context::default()).map_err(manifest)?;
    let found: BTreeSet<Category> = verification.findings.iter().map(|finding| finding.category).collect();
    let text = format!("{:?}", verification.findings);
    match found.iter().collect::<Vec<_>>()[..] {
        [] => {}
        [category] => return Err(Refusal { reason: category.name(), text }),
        _ => return Err(Refusal { reason: "several findings", text }),
    }
    let dataset = Dataset::open(&case.path).map_err(manifest)?;
    let samples: Result<Vec<Value>, DatasetError> = dataset.samples().map(|sample| Ok(describe(&sample?))).collect();
    let mut described = json!({ "samples": samples.map_err(manifest)? });
    let path = case.path.join(INDEX_NAME);
    if path.exists() {
        let index = index::read(&path).map_err(|error| Refusal { reason: "index", text: error.to_string() })?;
        described["index"] = index.rows().iter().map(describe_row).collect();
    }
    Ok(described)
}

fn describe_row(row: &IndexRow) -> Value {
    json!({ "tensor_key": &*row.tensor_key, "file_name": &*row.file_name, "shape": &*row.shape, "dtype": &*row.dtype })
}

fn describe(sample: &carton_dataset::Sample) -> Value {
    let mut tensors: Vec<Value> = sample
        .iter()
        .map(|(column, tensor)| {
            let sha256 = Sha256Digest::of(tensor.bytes()).to_string();
            json!({ "column": column, "dtype": dtype_name(tensor.dtype()), "shape": tensor.shape(), "sha256": sha256 })
        })
        .collect();
    tensors.sort_by(|one, other| one["column"].as_str().cmp(&other["column"].as_str()));
    json!({ "name": sample.name(), "tensors": tensors })
}
