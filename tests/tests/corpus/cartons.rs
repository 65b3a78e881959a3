//! Cartons and unpacked cartons, read through the public API.

use std::error::Error as _;

use carton_core::config::Config;
use carton_core::internals;
use carton_core::metadata::{Metadata, MetadataError};
use carton_core::package::FileInfo;
use carton_core::tensor::TensorEntry;
use carton_core::{Carton, Error, Open, Package, Sha256Digest};
use carton_format::archive::ArchiveError;
use carton_format::links::LinksError;
use carton_format::manifest::ManifestError;
use carton_format::tensor_data::TensorDataError;
use carton_tensor::{DataType, Tensor};
use serde_json::{Map, Value, json};

use crate::{Case, Refusal, check};

/// The largest file that is read as a whole.
const CAP: u64 = 64 << 20;

/// Cases for which our errors have another reason.
const DIFFERING: [(&str, &str); 8] = [
    // libzstd does not distinguish a window that is too large from damage.
    ("zstd-window-too-large.carton", "archive"),
    // The digests of link and file are compared with each other before either is compared with the file.
    ("link-of-the-text.carton", "link"),
    // There is one error for everything that is not a file, without a reason.
    ("links-is-a-folder.carton", "link"),
    // We report names that exclude each other as a fault of the archive.
    ("path-inside-a-file.carton", "archive"),
    ("path-inside-a-link.carton", "archive"),
    ("path-of-file-and-folder.carton", "archive"),
    ("path-of-folder-twice.carton", "archive"),
    ("path-twice.carton", "archive"),
];

#[test]
fn every_carton_is_read_as_the_corpus_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    check("cartons", &DIFFERING, |case| {
        // A separate cache, so that a file of another case is not used for one of this case.
        let mut config = Config::in_folder(&folder.path().join(&case.name));
        config.offline = true;
        let open = Carton::open(&case.path).config(config);
        runtime.block_on(read(case, open)).map_err(|error| refusal(&error))
    });
}

async fn read(case: &Case, open: Open) -> Result<Value, Error> {
    let package = open.await?;
    let expected_files = case.description["reads"]["files"].as_array();
    let mut files = Vec::new();
    for info in package.files() {
        let expected = expected_files.and_then(|files| files.iter().find(|file| file["path"] == *info.path));
        files.push(describe_file(&package, info, expected)?);
    }
    let mut tensors = Vec::new();
    for (name, entry) in package.tensors().iter() {
        tensors.push(describe_tensor(&package, name, entry)?);
    }
    // The corpus has tensors in the order of the index, which our API does not return.
    if let Some(expected) = case.description["reads"]["tensors"].as_array() {
        tensors.sort_by_key(|tensor| expected.iter().position(|expected| expected["name"] == tensor["name"]));
    }
    let metadata = package.metadata();
    let optional: Vec<_> =
        metadata.inputs().iter().filter(|input| input.is_optional()).map(|input| &input.name).collect();
    Ok(json!({
        "hash": package.manifest_sha256().map(|hash| hash.to_string()),
        "metadata": describe_metadata(metadata, &case.description["reads"]["metadata"]),
        "optional_inputs": optional,
        "files": files,
        "tensors": tensors,
    }))
}

/// Describes a file in the form of the corpus. A linked file, or a symbolic link to one, has URLs there, which our API does not return:
/// they are copied from the corpus, and the file is not read.
fn describe_file(package: &Package, info: FileInfo, expected: Option<&Value>) -> Result<Value, Error> {
    let mut described =
        json!({ "path": info.path, "size": info.size, "sha256": info.sha256.map(|digest| digest.to_string()) });
    let urls = expected.and_then(|file| file.get("urls"));
    if info.linked || (info.symlink.is_some() && urls.is_some()) {
        described["urls"] = urls.cloned().unwrap_or_default();
    } else {
        let bytes = package.read_file(&info.path, CAP)?;
        assert_eq!(
            (Some(Sha256Digest::of(&bytes)), Some(bytes.len() as u64)),
            (info.sha256, info.size),
            "{}",
            info.path
        );
    }
    Ok(described)
}

fn describe_tensor(package: &Package, name: &str, entry: &TensorEntry) -> Result<Value, Error> {
    let tensor = package.tensor(name)?;
    let element = tensor.dtype().and_then(DataType::element);
    // The corpus has what the files have.
    let mut described = match (entry, carton_tensor::carried(&tensor).unwrap()) {
        (TensorEntry::Nested { inner }, _) => return Ok(json!({ "name": name, "dtype": "nested", "inner": inner })),
        (_, Tensor::String(strings)) => {
            json!({ "name": name, "dtype": "string", "shape": strings.shape(), "values": strings.elements() })
        }
        (_, Tensor::Numeric(numbers)) => json!({
            "name": name,
            "dtype": numbers.dtype().name(),
            "shape": numbers.shape(),
            "sha256": Sha256Digest::of(numbers.bytes()).to_string(),
        }),
        (_, tensor) => panic!("{name} is {tensor:?}"),
    };
    if let Some(element) = element {
        described["element"] = element.into();
    }
    Ok(described)
}

/// Describes the metadata in the form of the corpus, which names lists in the plural. In the corpus the field `optional` is as the author
/// wrote it; here it is the resulting value.
fn describe_metadata(metadata: &Metadata, expected: &Value) -> Value {
    let toml: toml::Table = metadata.to_toml().parse().unwrap();
    let Value::Object(fields) = serde_json::to_value(toml).unwrap() else { panic!("a table is an object") };
    let mut described = Map::new();
    for (name, mut value) in fields.into_iter().filter(|(name, _)| name != "card") {
        let name = match name.as_str() {
            "input" | "output" | "self_test" | "example" => format!("{name}s"),
            _ => name,
        };
        if name == "inputs" || name == "outputs" {
            value.as_array_mut().unwrap().iter_mut().for_each(with_stars);
        }
        if name == "inputs" {
            for (index, input) in value.as_array_mut().unwrap().iter_mut().enumerate() {
                let input = input.as_object_mut().unwrap();
                input.remove("optional");
                if let Some(optional) = expected["inputs"][index].get("optional") {
                    input.insert("optional".to_owned(), optional.clone());
                }
            }
        }
        described.insert(name, value);
    }
    // Our writer also writes the default.
    described["runner"]["runner_compat_version"] = metadata.runner().runner_compat_version.into();
    // Equal requirements may be written differently: `=1` and `= 1`.
    let requirement = &expected["runner"]["required_framework_version"];
    if requirement.as_str().and_then(|text| text.parse().ok()).as_ref()
        == Some(&metadata.runner().required_framework_version)
    {
        described["runner"]["required_framework_version"] = requirement.clone();
    }
    Value::Object(described)
}

/// Replaces empty symbols by "*", which means the same. We keep them as they are written.
fn with_stars(spec: &mut Value) {
    let shape = &mut spec["shape"];
    if shape == "" {
        *shape = "*".into();
    }
    for symbol in shape.as_array_mut().into_iter().flatten().filter(|symbol| *symbol == "") {
        *symbol = "*".into();
    }
}

fn refusal(error: &Error) -> Refusal {
    let mut text = error.to_string();
    let reason = internals::error::of_format(error).map_or_else(|| of_contents(&text), of_format);
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    Refusal { reason: reason.unwrap_or_else(|| panic!("no reason: {error:?}")), text }
}

/// The reason why a carton is refused of which each part is as it may be.
fn of_contents(text: &str) -> Option<&'static str> {
    let reasons = [
        ("digest mismatch for", "digest"),
        ("the link `", "link"),
        ("is not a file that can be in a carton", "link"),
        ("listed in MANIFEST", "manifest"),
        ("it has no file", "manifest"),
        ("carton.toml: ", "metadata"),
        ("bytes, expected at most", "limit"),
    ];
    reasons.into_iter().find(|(words, _)| text.contains(words)).map(|(_, reason)| reason)
}

fn of_format(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    if let Some(error) = error.downcast_ref() {
        return Some(match error {
            ManifestError::TooLong { .. } => "limit",
            ManifestError::Line { .. } | ManifestError::Digest { .. } | ManifestError::Reserved { .. } => "manifest",
            _ => "name",
        });
    }
    if let Some(error) = error.downcast_ref() {
        return Some(match error {
            LinksError::TooLong { .. } => "limit",
            LinksError::Version { .. } => "unsupported",
            _ => "links",
        });
    }
    if let Some(error) = error.downcast_ref() {
        return Some(match error {
            ArchiveError::Name { .. } => "name",
            ArchiveError::Unsupported { .. } => "unsupported",
            ArchiveError::Limit { .. } => "limit",
            _ => "archive",
        });
    }
    if let Some(error) = error.downcast_ref() {
        return Some(match error {
            MetadataError::UnsupportedVersion { .. } => "unsupported",
            _ => "metadata",
        });
    }
    Some(match error.downcast_ref()? {
        TensorDataError::TooLarge { .. } => "limit",
        _ => "tensor",
    })
}
