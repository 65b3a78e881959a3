//! safetensors and zTensor files, and sharded checkpoints. Errors cite the section of the specification that a case is about.

use std::error::Error as StdError;

use carton_core::Sha256Digest;
use carton_tensor::checkpoint::{FollowLinks, Sharded};
use carton_tensor::files::{FileBytes, RawTensor};
use carton_tensor::safetensors::{HeaderError, Reader, dtype_name};
use carton_tensor::ztensor::{self, Checks, Object, QuantizedGroup, SparseError, VersionRule, ZTensorError};
use serde_json::{Map, Value, json};

use crate::{Case, Refusal, Said, chain, check, cites};

#[test]
fn every_safetensors_file_is_read_as_the_corpus_has_it() {
    check("safetensors", &[], |case| {
        said(case, || {
            let reader = Reader::open(&case.path)?;
            let metadata: Map<String, Value> =
                reader.metadata().iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
            let names = reader.names().map(str::to_owned).collect();
            Ok(json!({ "tensors": describe(names, |name| Ok(reader.read(name)?))?, "metadata": metadata }))
        })
    });
}

#[test]
fn every_sharded_checkpoint_is_read_as_the_corpus_has_it() {
    check("checkpoints", &[], |case| {
        said(case, || {
            let index = case.path.join("model.safetensors.index.json");
            // Whose links the corpus has depends on who checked it out.
            let sharded = Sharded::open_following(&index, FollowLinks::Inside, |path| FileBytes::open(path))?;
            let names = sharded.names().map(str::to_owned).collect();
            Ok(json!({ "tensors": describe(names, |name| Ok(sharded.read(name)?))? }))
        })
    });
}

#[test]
fn every_ztensor_file_is_read_as_the_corpus_has_it() {
    check("ztensor", &[], |case| said(case, || Ok(read_ztensor(case)?)));
}

/// Describes the tensors in the order of the corpus: by the bytes of their names.
fn describe(
    mut names: Vec<String>,
    read: impl Fn(&str) -> Result<RawTensor, Box<dyn StdError>>,
) -> Result<Vec<Value>, Box<dyn StdError>> {
    names.sort_unstable();
    let described = names.into_iter().map(|name| {
        let tensor = read(&name)?;
        let sha256 = Sha256Digest::of(tensor.bytes()).to_string();
        Ok(json!({ "name": name, "dtype": dtype_name(tensor.dtype()), "shape": tensor.shape(), "sha256": sha256 }))
    });
    described.collect()
}

/// Reads everything in a file with all checks, and makes arrays of the formats that the specification describes.
fn read_ztensor(case: &Case) -> Result<Value, ZTensorError> {
    let reader = ztensor::Reader::open(&case.path)?.checking(Checks::ALL);
    reader.manifest().attributes()?;
    let mut objects = Vec::new();
    for object in reader.objects() {
        object.attributes()?;
        let mut components = Map::new();
        for component in object.components() {
            let bytes = reader.read_component(&component, Checks::ALL)?;
            let sha256 = Sha256Digest::of(&bytes).to_string();
            components.insert(component.role().to_owned(), json!({ "sha256": sha256 }));
        }
        let format = object.format().name().to_owned();
        let mut described =
            json!({ "name": object.name(), "shape": object.shape(), "format": format, "components": components });
        if let Some(dense) = dense(case, &reader, &object)? {
            described["dense"] = dense;
        }
        objects.push(described);
    }
    objects.sort_by(|one, other| one["name"].as_str().cmp(&other["name"].as_str()));
    let mut described = json!({ "objects": objects });
    let mut findings: Vec<&str> = reader.findings()?.iter().map(|finding| word_of(finding.rule())).collect();
    if !findings.is_empty() {
        findings.sort_unstable();
        described["findings"] = findings.into();
    }
    Ok(described)
}

/// Describes the array of an object that is not dense, or the reason why none can be made. An error is about the file, and a verifier
/// would find it too.
fn dense(case: &Case, reader: &ztensor::Reader, object: &Object<'_>) -> Result<Option<Value>, ZTensorError> {
    let array = match object.format().name() {
        "dense" => {
            reader.read(object.name())?;
            return Ok(None);
        }
        "sparse_csr" => reader.csr(object.name())?.to_dense(),
        "sparse_coo" => reader.coo(object.name())?.to_dense(),
        "quantized_group" if QuantizedGroup::has_known_packing(&object.attributes()?) => {
            reader.quantized_group(object.name())?.dequantize()
        }
        "quantized_group" => reader.quantized_group(object.name()).and_then(|group| group.dequantize()),
        _ => return Ok(None),
    };
    Ok(Some(match array {
        Ok(array) => {
            let sha256 = Sha256Digest::of(array.bytes()).to_string();
            json!({ "dtype": array.dtype().name(), "shape": array.shape(), "sha256": sha256 })
        }
        Err(error) => {
            json!({ "refused": reason(case, &error) })
        }
    }))
}

/// The name of a finding in the corpus.
fn word_of(rule: VersionRule) -> &'static str {
    match rule {
        VersionRule::Padding => "padding",
        VersionRule::NoLogicalType => "logical-type",
        VersionRule::NoUncompressedLength => "uncompressed-length",
        VersionRule::StorageType => "storage-type",
        VersionRule::UncompressedLength => "no-uncompressed-length",
        VersionRule::IndexType => "index-type",
        VersionRule::GroupAttributes => "group-attributes",
        rule => panic!("the corpus has no word for {rule:?}"),
    }
}

/// What a reader says.
fn said(case: &Case, read: impl FnOnce() -> Result<Value, Box<dyn StdError>>) -> Said {
    read().map_err(|error| Refusal { reason: reason(case, &*error), text: chain(&*error) })
}

/// What the corpus calls the reason of an error that cites a section that the case is about.
fn reason(case: &Case, error: &(dyn StdError + 'static)) -> &'static str {
    if !cites(case, &chain(error)) {
        return "another section";
    }
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.find_map(special_reason).unwrap_or("tensor")
}

/// The reasons of errors that are not `tensor`.
fn special_reason(error: &(dyn StdError + 'static)) -> Option<&'static str> {
    if let Some(HeaderError::TooLong { .. }) = error.downcast_ref() {
        return Some("limit");
    }
    match error.downcast_ref()? {
        ZTensorError::ManifestSize { .. }
        | ZTensorError::CompressionRatio { .. }
        | ZTensorError::UndeclaredSize { .. }
        | ZTensorError::Sparse(SparseError::DenseSize { .. }) => Some("limit"),
        ZTensorError::DigestMismatch { .. } => Some("digest"),
        _ => None,
    }
}
