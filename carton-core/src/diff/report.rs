//! What differs between two cartons. The names of fields in JSON are stable: they are those of the fields here, and unset fields are `null`.

use std::collections::BTreeMap;

use carton_format::digest::Sha256Digest;
use carton_format::manifest::ManifestHash;
use carton_format::url::ShownUrl;
use carton_tensor::difference::TensorsDifference;
use serde::Serialize;
use serde_json::Value;

use crate::trust::SigningStatus;

/// What differs between two cartons. Made by [`Carton::diff`](crate::Carton::diff).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CartonDiff {
    /// Whether both are the same carton: their MANIFESTs have the same SHA-256. Links and signatures are no part of a carton, and may differ.
    pub is_same: bool,
    /// Whether tensors or a list of packages could not be compared. Their files differ.
    pub is_incomplete: bool,
    /// The first carton.
    pub a: DiffedCarton,
    /// The second carton.
    pub b: DiffedCarton,
    /// The fields of carton.toml that differ, but for inputs, outputs, self-tests and examples.
    pub metadata: Vec<FieldChange>,
    /// The declared inputs that differ.
    pub inputs: Vec<SpecChange>,
    /// The declared outputs that differ.
    pub outputs: Vec<SpecChange>,
    /// The files that differ, sorted by path.
    pub files: Vec<FileChange>,
    /// The tensors in those files of the model that are tensor files.
    pub tensors: Vec<FileTensors>,
    /// The locked packages of a Python model; `None` if neither carton has a lock, or both have the same.
    pub packages: Option<Packages>,
    /// The self-tests that differ.
    pub self_tests: Vec<CaseChange>,
    /// The examples that differ.
    pub examples: Vec<CaseChange>,
    /// The files whose links differ.
    pub links: Vec<LinkChange>,
}

/// A carton that was compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DiffedCarton {
    /// Where it is, without secrets.
    pub location: String,
    /// The hash of the carton.
    pub manifest_sha256: Option<ManifestHash>,
    /// The model's name.
    pub model_name: Option<String>,
    /// What was found out about who signed it; `None` if it was not looked for.
    pub signing: Option<SigningStatus>,
}

/// Whether something is only in one of the cartons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// Only the first carton has it.
    Removed,
    /// Only the second carton has it.
    Added,
    /// Both have it, and it differs.
    Changed,
    /// Both have the same file, at different paths.
    Renamed,
}

/// A field with another value.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FieldChange {
    /// The field, as carton.toml has it: `license`, `runner.opts.threads`. `input` and `output` stand for the order of their names. A key
    /// that this version of the format does not have is a path: `self_test[0].key`, with its value as TOML.
    pub field: String,
    /// The value in the first carton; `None` if it is not set.
    pub a: Option<Value>,
    /// The value in the second carton.
    pub b: Option<Value>,
}

/// An input or output that is declared otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SpecChange {
    /// Its name.
    pub name: String,
    /// What became of it.
    pub change: Change,
    /// The properties that differ: `dtype`, `shape`, `optional`, `default`, `description`, `internal_name`. One that only one of the cartons has
    /// is listed with its type and shape.
    pub fields: Vec<FieldChange>,
    /// What differs between the tensors that stand for an input that a call leaves out, if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<TensorsDifference>,
}

/// A file that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FileChange {
    /// Its path, in the second carton if that has it.
    pub path: String,
    /// What became of it.
    pub change: Change,
    /// Its path in the first carton, if it was renamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_a: Option<String>,
    /// It in the first carton.
    pub a: Option<FileVersion>,
    /// It in the second carton.
    pub b: Option<FileVersion>,
}

/// A file of one of the cartons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FileVersion {
    /// Its SHA-256.
    pub sha256: Option<Sha256Digest>,
    /// Its size in bytes, if it is known.
    pub size: Option<u64>,
}

/// The tensors of a tensor file that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FileTensors {
    /// The path of the file, or of the index of a sharded checkpoint, in the first carton.
    pub path_a: String,
    /// The same in the second carton.
    pub path_b: String,
    /// Why the tensors could not be compared.
    pub problem: Option<String>,
    /// What differs.
    #[serde(flatten)]
    pub found: TensorsDifference,
}

/// The locked packages of a Python model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Packages {
    /// Why they could not be compared.
    pub problem: Option<String>,
    /// The packages that differ, sorted by name.
    pub changes: Vec<PackageChange>,
}

/// A package that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PackageChange {
    /// Its normalized name, with its extras: `uvicorn[standard]`.
    pub name: String,
    /// The environments that it is for, if not for all: `sys_platform == 'win32'`.
    pub marker: Option<String>,
    /// The versions in the first carton; empty if it has none.
    pub a: Vec<String>,
    /// The versions in the second carton. If they are those of the first, the files of the package differ.
    pub b: Vec<String>,
}

/// A self-test or example that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CaseChange {
    /// Its name; `self_test_N` or `example_N` if it has none.
    pub name: String,
    /// What became of it.
    pub change: Change,
    /// The description, if it differs.
    pub description: Option<FieldChange>,
    /// What differs between the inputs.
    pub inputs: TensorsDifference,
    /// What differs between the expected outputs, or those of an example. An output that only one of the cartons expects is one that only it
    /// has.
    pub outputs: TensorsDifference,
}

/// A file whose links differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LinkChange {
    /// The SHA-256 of the file.
    pub sha256: Sha256Digest,
    /// The paths of the file in both cartons.
    pub paths: Vec<String>,
    /// Where the first carton says that it can be fetched; without secrets.
    pub a: Vec<ShownUrl>,
    /// Where the second carton says that it can be fetched.
    pub b: Vec<ShownUrl>,
}

/// Lists the keys of two maps that have other values.
pub(super) fn changed_fields(
    a: &BTreeMap<String, Value>,
    b: &BTreeMap<String, Value>,
) -> impl Iterator<Item = FieldChange> {
    let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let changed = names.into_iter().filter(|name| a.get(*name) != b.get(*name));
    changed
        .map(|name| FieldChange { field: name.clone(), a: a.get(name).cloned(), b: b.get(name).cloned() })
        .collect::<Vec<_>>()
        .into_iter()
}
