//! What a carton says about itself. The names of the fields in JSON are stable.

use carton_format::manifest::ManifestHash;
use carton_format::metadata::{Runner, SandboxRequest, TensorSpec};
use carton_format::model_card::ModelCard;
use serde::Serialize;

use super::Package;
use crate::contents::FileInfo;
use crate::trust::SigningStatus;

/// Everything that is known about a carton without reading a file of the model.
///
/// In JSON, the fields have the same names as here. An unset field is `null` or an empty list; in the card it is left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Info {
    /// The SHA-256 of MANIFEST, which is the hash of the carton; `None` for a model that is not in a carton.
    pub manifest_sha256: Option<ManifestHash>,
    /// What was found out about who signed it; `None` if it was not looked for.
    pub signing: Option<SigningStatus>,
    /// The version of the format.
    pub spec_version: u64,
    /// The model's name.
    pub model_name: Option<String>,
    /// One line about the model.
    pub short_description: Option<String>,
    /// Markdown about the model.
    pub model_description: Option<String>,
    /// An SPDX expression where one exists.
    pub license: Option<String>,
    /// The URL of the model's sources.
    pub repository: Option<String>,
    /// The model's home page.
    pub homepage: Option<String>,
    /// The target triples the model runs on; empty for all.
    pub required_platforms: Vec<String>,
    /// What the model asks for beyond its own files. The user decides whether it gets that.
    pub sandbox: SandboxRequest,
    /// What is known of the model beyond its signature. Nothing of it is checked.
    pub card: ModelCard,
    /// The runner that the model requires.
    pub runner: Runner,
    /// The declared inputs in order; empty when none are declared.
    pub inputs: Vec<TensorSpec>,
    /// The declared outputs in order; empty when none are declared.
    pub outputs: Vec<TensorSpec>,
    /// The names of the self-tests; `self_test_N` for those without one.
    pub self_tests: Vec<String>,
    /// The names of the examples; `example_N` for those without one.
    pub examples: Vec<String>,
    /// One sentence for each oddity of the carton: [`Package::oddities`] as text.
    pub warnings: Vec<String>,
    /// All files but MANIFEST and LINKS, sorted by path.
    pub files: Vec<FileInfo>,
}

impl Info {
    pub(super) fn of(package: &Package) -> Self {
        let metadata = package.metadata();
        let contents = package.contents();
        let text = |text: Option<&str>| text.map(str::to_owned);
        Self {
            manifest_sha256: contents.manifest_hash(),
            signing: package.signing_status().cloned(),
            spec_version: metadata.spec_version(),
            model_name: text(metadata.model_name()),
            short_description: text(metadata.short_description()),
            model_description: text(metadata.model_description()),
            license: text(metadata.license()),
            repository: text(metadata.repository()),
            homepage: text(metadata.homepage()),
            required_platforms: metadata.required_platforms().to_vec(),
            sandbox: metadata.sandbox().clone(),
            card: metadata.card().clone(),
            runner: metadata.runner().clone(),
            inputs: metadata.inputs().to_vec(),
            outputs: metadata.outputs().to_vec(),
            self_tests: package.self_tests().map(|test| test.label()).collect(),
            examples: package.examples().map(|example| example.label()).collect(),
            warnings: package.oddities().iter().map(ToString::to_string).collect(),
            files: contents.files(),
        }
    }
}
