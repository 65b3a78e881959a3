//! carton.toml (spec/carton-format.md, "carton.toml"): text in, validated [`Metadata`] out, and back. Pure: `carton-core` checks whether the
//! files that it refers to exist.
//!
//! `raw` is the file as serde reads it; a [`Draft`] holds values that are valid one by one; [`Metadata`] is valid as a whole. Metadata
//! read from a carton and metadata to be packed pass through the same steps. Metadata to be packed must obey additional rules: a carton
//! of another writer that breaks one of those can still be read, and [`Metadata::oddities`] lists what it breaks.

mod draft;
mod error;
mod left_out;
mod oddity;
mod options;
mod raw;
mod reference;
mod sandbox_request;
mod table;
mod write;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use carton_tensor::{DataType, Dimension, SymbolicShape};
use semver::VersionReq;
use serde::Serialize;

pub use draft::Draft;
use draft::Origin;
pub use error::MetadataError;
pub use oddity::Oddity;
pub use options::Options;
pub use reference::{DraftReference, InvalidReference, Reference};
pub use sandbox_request::SandboxRequest;
pub use table::Table;

use crate::model_card::{CardProblem, ModelCard};
use left_out::Calls;

/// The version of the format that this crate reads and writes.
pub const SPEC_VERSION: u64 = 1;

/// A valid carton.toml.
///
/// ```
/// use carton_format::metadata::Metadata;
/// let metadata = Metadata::parse(r#"
///     spec_version = 1
///     [runner]
///     runner_name = "onnx"
///     required_framework_version = ">=1.12, <2"
/// "#)?;
/// assert_eq!(metadata.runner().runner_name, "onnx");
/// assert!(metadata.signature().is_none());
/// assert_eq!(Metadata::parse(&metadata.to_toml())?, metadata);
/// # Ok::<(), carton_format::metadata::MetadataError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    model_name: Option<String>,
    short_description: Option<String>,
    model_description: Option<String>,
    license: Option<String>,
    repository: Option<String>,
    homepage: Option<String>,
    required_platforms: Vec<String>,
    signature: Option<Signature>,
    self_tests: Vec<SelfTest>,
    examples: Vec<Example>,
    runner: Runner,
    /// `runner.opts` as TOML. It was made by the check that the options can be written as TOML.
    opts_toml: toml::Table,
    sandbox: SandboxRequest,
    card: ModelCard,
    card_problems: Vec<CardProblem>,
    /// `card` as TOML.
    card_toml: toml::Table,
}

/// The declared inputs and outputs, in order. At least one of the two lists is declared; either may be empty.
///
/// `None` is a list that is not declared, for which nothing can be checked. This library writes both lists or none; other writers declare
/// only one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Signature {
    /// The inputs; positional arguments follow this order.
    pub inputs: Option<Vec<TensorSpec>>,
    /// The outputs.
    pub outputs: Option<Vec<TensorSpec>>,
}

impl Signature {
    /// Declares these inputs and outputs; a list that is `None` is not declared.
    #[must_use]
    pub fn new(inputs: Option<Vec<TensorSpec>>, outputs: Option<Vec<TensorSpec>>) -> Self {
        Self { inputs, outputs }
    }

    /// The inputs for positional arguments. Of several inputs with one name, which other writers declare, only the first.
    #[must_use]
    pub fn positional_inputs(&self) -> Vec<&TensorSpec> {
        let mut names = BTreeSet::new();
        self.inputs.iter().flatten().filter(|spec| names.insert(spec.name.as_str())).collect()
    }

    /// The symbol of the dimension along which calls can be joined. Every input and every output has it as its first dimension, and as no
    /// other dimension. `None` if the signature has no such symbol, or does not declare at least one input and one output.
    ///
    /// ```
    /// # use carton_format::metadata::{Signature, TensorSpec};
    /// # fn example(signature: &Signature) {
    /// // For inputs and outputs of the shapes ["batch", 3] and ["batch"]:
    /// assert_eq!(signature.batch_symbol(), Some("batch"));
    /// # }
    /// ```
    #[must_use]
    pub fn batch_symbol(&self) -> Option<&str> {
        let (inputs, outputs) = (self.inputs.as_deref()?, self.outputs.as_deref()?);
        if inputs.is_empty() || outputs.is_empty() {
            return None;
        }
        let mut batch = None;
        for spec in inputs.iter().chain(outputs) {
            let SymbolicShape::Dimensions(dimensions) = &spec.shape else { return None };
            let Some((Dimension::Symbol(first), rest)) = dimensions.split_first() else { return None };
            let is_batch = |dimension: &Dimension| matches!(dimension, Dimension::Symbol(symbol) if symbol == first);
            if *batch.get_or_insert(first.as_str()) != first || rest.iter().any(is_batch) {
                return None;
            }
        }
        batch
    }
}

/// A declared input or output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TensorSpec {
    /// The name. This library writes no empty name, and no name twice among the inputs or among the outputs; other writers do.
    pub name: String,
    /// The type of the elements. In a file it is said by two fields, where version 1 does not have it (spec/carton-format-extensions.md, "What
    /// elements are").
    pub dtype: DataType,
    /// The allowed shapes.
    pub shape: SymbolicShape,
    /// A description for people.
    pub description: Option<String>,
    /// The runner's name for it, such as a node of a graph. Callers do not see it.
    pub internal_name: Option<String>,
    /// Whether callers may leave out this input, or the model this output (spec/carton-format-extensions.md, "Optional inputs and outputs"). In
    /// a [`Draft`], `None` leaves the decision about an input to its default, to the self-tests, and to those examples that can be run: an input that
    /// has a default, or that one of them leaves out, is optional. [`Metadata`] has `Some` for each input, and `Some(true)` or `None` for outputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
    /// The tensor that the model gets for this input where a call leaves it out. In [`Metadata`] it is a tensor of `tensor_data`. Without it, the
    /// model itself decides.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    pub default: Option<DraftReference>,
}

impl TensorSpec {
    /// An input or output of this name and type, with one of these shapes.
    #[must_use]
    pub fn new(name: impl Into<String>, dtype: DataType, shape: SymbolicShape) -> Self {
        Self { name: name.into(), dtype, shape, description: None, internal_name: None, optional: None, default: None }
    }

    /// Whether callers may leave it out, or the model.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        self.optional == Some(true)
    }

    /// The name of the tensor of `tensor_data` that [`default`](Self::default) refers to.
    #[must_use]
    pub fn default_tensor(&self) -> Option<&str> {
        match &self.default {
            Some(DraftReference::Carton(Reference::TensorData(name))) => Some(name),
            _ => None,
        }
    }
}

/// Serializes a reference as the text that carton.toml has.
fn as_text<S: serde::Serializer>(reference: &Option<DraftReference>, serializer: S) -> Result<S::Ok, S::Error> {
    reference.as_ref().map(ToString::to_string).serialize(serializer)
}

/// Inputs, with the outputs that the model should return. `R` is the name of a tensor in `tensor_data`, or, in a [`Draft`], a
/// [`DraftReference`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SelfTest<R = String> {
    /// The test's name.
    pub name: Option<String>,
    /// What it tests.
    pub description: Option<String>,
    /// The input tensors by input name.
    pub inputs: BTreeMap<String, R>,
    /// The expected output tensors by output name; `None` if the test only demands that the model runs without an error.
    pub expected_out: Option<BTreeMap<String, R>>,
}

impl<R> SelfTest<R> {
    /// A test that runs the model on these inputs, without expected outputs yet.
    #[must_use]
    pub fn new(inputs: BTreeMap<String, R>) -> Self {
        Self { name: None, description: None, inputs, expected_out: None }
    }
}

/// Inputs and outputs to show to people; they need not be runnable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Example<R = Reference> {
    /// The example's name.
    pub name: Option<String>,
    /// What it shows.
    pub description: Option<String>,
    /// The inputs by name.
    pub inputs: BTreeMap<String, R>,
    /// The outputs by name.
    pub sample_out: BTreeMap<String, R>,
}

impl<R> Example<R> {
    /// An example of these inputs and outputs.
    #[must_use]
    pub fn new(inputs: BTreeMap<String, R>, sample_out: BTreeMap<String, R>) -> Self {
        Self { name: None, description: None, inputs, sample_out }
    }
}

/// The runner that runs the model, with its options.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Runner {
    /// `onnx`, or `vendor/name` for a runner of a third party.
    pub runner_name: String,
    /// The framework versions that run the model.
    pub required_framework_version: VersionReq,
    /// The version of the layout of the `model` folder.
    pub runner_compat_version: u64,
    /// Options for the runner. The model must run correctly without them.
    pub opts: Options,
    /// Environment variables that are set for the process that runs the model.
    pub env: BTreeMap<String, String>,
}

impl Metadata {
    /// The names of the runner's options that are lists or tables, sorted. Readers that support only single values cannot open a carton
    /// with such options.
    pub fn nested_options(&self) -> Vec<String> {
        let options = self.runner.opts.iter();
        let mut nested: Vec<String> =
            options.filter(|(_, value)| value.is_array() || value.is_object()).map(|(key, _)| key.clone()).collect();
        nested.sort();
        nested
    }

    /// The inputs that are optional because a self-test or an example leaves them out, not because `draft`, of which this metadata was
    /// made, states it. Each comes with the first self-test or example without it: ``self-test `two digits` ``.
    pub fn left_out<'a>(&'a self, draft: &'a Draft) -> impl Iterator<Item = (&'a str, String)> {
        let mut calls = Calls::of(&self.self_tests, &self.examples);
        let unstated = draft.inputs.iter().flatten().filter(|input| input.optional.is_none());
        unstated.filter_map(move |input| Some((input.name.as_str(), calls.without(&input.name)?.to_string())))
    }

    /// Reads a carton.toml of any writer.
    ///
    /// # Errors
    /// [`MetadataError::UnsupportedVersion`], which is checked before anything else, [`MetadataError::Syntax`],
    /// [`MetadataError::MissingQuotes`], [`MetadataError::WrongType`], [`MetadataError::Invalid`].
    pub fn parse(text: &str) -> Result<Self, MetadataError> {
        let mut draft = Draft::from_raw(raw::RawMetadata::parse(text, raw::Version::Required)?, Origin::Carton)?;
        if draft.outputs.is_some() && !draft.gives_inputs() {
            // The writer leaves out empty lists: outputs without inputs mean that the model has no inputs.
            draft.inputs.get_or_insert_default();
        }
        draft.finish()
    }

    /// Reads a carton.toml from bytes, which may not be UTF-8.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), and [`MetadataError::NotUtf8`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, MetadataError> {
        let text = str::from_utf8(bytes).map_err(|error| MetadataError::NotUtf8 { offset: error.valid_up_to() })?;
        Self::parse(text)
    }

    /// Returns the values of the keys of a carton.toml that this version of the format does not have, in TOML, by their paths:
    /// `self_test[0].key`.
    #[must_use]
    pub fn unknown_values(text: &str) -> BTreeMap<String, String> {
        raw::RawMetadata::known().values_in(text)
    }

    /// The version of the format.
    #[must_use]
    pub fn spec_version(&self) -> u64 {
        SPEC_VERSION
    }

    /// The model's name.
    #[must_use]
    pub fn model_name(&self) -> Option<&str> {
        self.model_name.as_deref()
    }

    /// One line about the model.
    #[must_use]
    pub fn short_description(&self) -> Option<&str> {
        self.short_description.as_deref()
    }

    /// Markdown about the model; its images may be `@misc/PATH`.
    #[must_use]
    pub fn model_description(&self) -> Option<&str> {
        self.model_description.as_deref()
    }

    /// The license: an SPDX expression where one exists.
    #[must_use]
    pub fn license(&self) -> Option<&str> {
        self.license.as_deref()
    }

    /// Where the model's sources are.
    #[must_use]
    pub fn repository(&self) -> Option<&str> {
        self.repository.as_deref()
    }

    /// The model's home page.
    #[must_use]
    pub fn homepage(&self) -> Option<&str> {
        self.homepage.as_deref()
    }

    /// The target triples on which the model runs; empty for all.
    #[must_use]
    pub fn required_platforms(&self) -> &[String] {
        &self.required_platforms
    }

    /// The declared inputs and outputs, if any.
    #[must_use]
    pub fn signature(&self) -> Option<&Signature> {
        self.signature.as_ref()
    }

    /// The declared inputs in order; empty if none are declared.
    #[must_use]
    pub fn inputs(&self) -> &[TensorSpec] {
        self.signature.as_ref().and_then(|signature| signature.inputs.as_deref()).unwrap_or_default()
    }

    /// The declared outputs in order; empty if none are declared.
    #[must_use]
    pub fn outputs(&self) -> &[TensorSpec] {
        self.signature.as_ref().and_then(|signature| signature.outputs.as_deref()).unwrap_or_default()
    }

    /// The self-tests in order.
    #[must_use]
    pub fn self_tests(&self) -> &[SelfTest] {
        &self.self_tests
    }

    /// The examples in order.
    #[must_use]
    pub fn examples(&self) -> &[Example] {
        &self.examples
    }

    /// What the model asks for beyond its own files. The user decides whether it gets that.
    #[must_use]
    pub fn sandbox(&self) -> &SandboxRequest {
        &self.sandbox
    }

    /// What is known of the model beyond its signature, by `[card]`. A README may say more: `Package::read_info` of `carton-core`
    /// reads both.
    #[must_use]
    pub fn card(&self) -> &ModelCard {
        &self.card
    }

    /// The runner that runs the model.
    #[must_use]
    pub fn runner(&self) -> &Runner {
        &self.runner
    }
}

/// The draft has the oddities of the metadata too, and [`Draft::validate`] then refuses it.
impl From<Metadata> for Draft {
    fn from(metadata: Metadata) -> Self {
        let (inputs, outputs) =
            metadata.signature.map_or((None, None), |signature| (signature.inputs, signature.outputs));
        let tensors = |names: BTreeMap<String, String>| {
            names.into_iter().map(|(name, tensor)| (name, Reference::TensorData(tensor).into())).collect()
        };
        let references = |references: BTreeMap<String, Reference>| {
            references.into_iter().map(|(name, reference)| (name, reference.into())).collect()
        };
        Self {
            model_name: metadata.model_name,
            short_description: metadata.short_description,
            model_description: metadata.model_description,
            license: metadata.license,
            repository: metadata.repository,
            homepage: metadata.homepage,
            required_platforms: metadata.required_platforms,
            inputs,
            outputs,
            self_tests: metadata
                .self_tests
                .into_iter()
                .map(|test| SelfTest {
                    name: test.name,
                    description: test.description,
                    inputs: tensors(test.inputs),
                    expected_out: test.expected_out.map(tensors),
                })
                .collect(),
            examples: metadata
                .examples
                .into_iter()
                .map(|example| Example {
                    name: example.name,
                    description: example.description,
                    inputs: references(example.inputs),
                    sample_out: references(example.sample_out),
                })
                .collect(),
            runner_name: Some(metadata.runner.runner_name),
            required_framework_version: Some(metadata.runner.required_framework_version),
            sandbox: metadata.sandbox,
            card: metadata.card,
            card_problems: metadata.card_problems,
            runner_compat_version: Some(metadata.runner.runner_compat_version),
            opts: metadata.runner.opts,
            env: metadata.runner.env,
            unknown_keys: Vec::new(),
        }
    }
}
