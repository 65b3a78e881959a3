//! Cartons and unpacked cartons, by the public API.

use std::error::Error as _;

use carton_core::config::Config;
use carton_core::errors::{
    ArchiveError, ContentsError, LinksError, ManifestError, MetadataError, PackageError, TensorDataError,
};
use carton_core::metadata::Metadata;
use carton_core::{Carton, Error, FileInfo, Open, Package, Sha256Digest, TensorEntry};
use carton_tensor::Tensor;
use serde_json::{Map, Value, json};

use crate::{Case, Refusal, check};

/// The largest file that is read as a whole.
const CAP: u64 = 64 << 20;

/// Cases for which our errors tell another reason.
const DIFFERING: [(&str, &str); 8] = [
    // libzstd does not tell a window that is too large from damage.
    ("zstd-window-too-large.carton", "archive"),
    // The digests of link and file are compared with each other, before one of them is with the file.
    ("link-of-the-text.carton", "link"),
    // One error for whatever is no file: it has no word for why.
    ("links-is-a-folder.carton", "link"),
    // Names that exclude each other are a fault of the archive to us.
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
        // A cache of its own: a file of another case must not stand in for one of this.
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
    // The corpus has tensors in the order of the index, which our API does not tell.
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

/// A file as the corpus has it. One that is linked, or a symbolic link to such a one, has URLs there, which our API does not tell: those of
/// the corpus are taken for them, and the file is not read.
#[allow(clippy::result_large_err, reason = "the error is the library's own, and is matched on")]
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

fn describe_tensor(package: &Package, name: &str, entry: &TensorEntry) -> Result<Value, PackageError> {
    let tensor = package.tensor(name)?;
    Ok(match (entry, &tensor) {
        (TensorEntry::Nested { inner }, _) => json!({ "name": name, "dtype": "nested", "inner": inner }),
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
    })
}

/// The metadata as the corpus has it, which calls lists in the plural. The field `optional` is as the author wrote it there, and what
/// comes of it here.
fn describe_metadata(metadata: &Metadata, expected: &Value) -> Value {
    let toml: toml::Table = metadata.to_toml().parse().unwrap();
    let Value::Object(fields) = serde_json::to_value(toml).unwrap() else { panic!("a table is an object") };
    let mut described = Map::new();
    for (name, mut value) in fields {
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
    // We write the default, too.
    described["runner"]["runner_compat_version"] = metadata.runner().runner_compat_version.into();
    // Requirements are the same that are written differently: `=1` and `= 1`.
    let requirement = &expected["runner"]["required_framework_version"];
    if requirement.as_str().and_then(|text| text.parse().ok()).as_ref()
        == Some(&metadata.runner().required_framework_version)
    {
        described["runner"]["required_framework_version"] = requirement.clone();
    }
    Value::Object(described)
}

/// An empty symbol, which we keep as it is written, is the same as "*".
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
    let reason = match error {
        Error::Package(error) => of_package(error),
        Error::Contents(error) => of_contents(error),
        Error::Metadata(error) => of_metadata(error),
        _ => None,
    };
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    Refusal { reason: reason.unwrap_or_else(|| panic!("no reason: {error:?}")), text }
}

fn of_package(error: &PackageError) -> Option<&'static str> {
    Some(match error {
        PackageError::Contents(error) => return of_contents(error),
        PackageError::Metadata(error) => return of_metadata(error),
        PackageError::TensorData(TensorDataError::TooLarge { .. }) => "limit",
        PackageError::TensorData(_) => "tensor",
        PackageError::Archive(error) => of_archive(error),
        PackageError::NoMetadata { .. } => "manifest",
        PackageError::MetadataTooLarge { .. } => "limit",
        PackageError::Dangling { .. } => "metadata",
        _ => return None,
    })
}

fn of_contents(error: &ContentsError) -> Option<&'static str> {
    Some(match error {
        ContentsError::Digest { .. } => "digest",
        ContentsError::Link { .. } | ContentsError::Kind { .. } => "link",
        ContentsError::Missing { .. } | ContentsError::Unlisted { .. } | ContentsError::NoManifest { .. } => "manifest",
        ContentsError::Manifest(error) => match error {
            ManifestError::TooLong { .. } => "limit",
            ManifestError::Line { .. } | ManifestError::Digest { .. } | ManifestError::Reserved { .. } => "manifest",
            _ => "name",
        },
        ContentsError::Links(error) => match error {
            LinksError::TooLong { .. } => "limit",
            LinksError::Version { .. } => "unsupported",
            _ => "links",
        },
        ContentsError::Size { .. } => "limit",
        ContentsError::Archive { source, .. } => of_archive(source),
        _ => return None,
    })
}

fn of_archive(error: &ArchiveError) -> &'static str {
    match error {
        ArchiveError::Name { .. } => "name",
        ArchiveError::Unsupported { .. } => "unsupported",
        ArchiveError::Limit { .. } => "limit",
        _ => "archive",
    }
}

fn of_metadata(error: &MetadataError) -> Option<&'static str> {
    Some(match error {
        MetadataError::UnsupportedVersion { .. } => "unsupported",
        _ => "metadata",
    })
}
