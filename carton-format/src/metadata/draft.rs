//! Drafts of carton.toml: public fields to fill in, and the rules that turn them into [`Metadata`].

use std::collections::BTreeMap;
use std::path::Path;

use carton_tensor::{DataType, Dimension, SymbolicShape};
use semver::VersionReq;

use super::left_out::Calls;
use super::raw::{RawExample, RawMetadata, RawSelfTest, RawTensorSpec, Version, described};
use super::{
    DraftReference, Example, Metadata, MetadataError, Options, Reference, Runner, SandboxRequest, SelfTest, Signature,
    Table, TensorSpec, options,
};
use crate::elements::{native_shape, v1_dtype, v1_names};
use crate::model_card::{CardProblem, ModelCard};
use crate::unknown_keys::UnknownKey;
use crate::variables::{self, InvalidVariables};

/// Metadata to be packed: nothing is required yet, and references may name files.
///
/// ```
/// use carton_format::metadata::Draft;
/// let mut draft = Draft::parse("model_name = 'digits'\n[runner.opts]\nthreads = 2")?;
/// draft.runner_name = Some("onnx".to_owned());
/// draft.required_framework_version = Some(">=1.12, <2".parse()?);
/// let metadata = draft.validate()?;
/// assert_eq!(metadata.model_name(), Some("digits"));
/// assert_eq!(metadata.runner().opts["threads"], 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Draft {
    /// The model's name.
    pub model_name: Option<String>,
    /// A description of one line, at most 100 characters.
    pub short_description: Option<String>,
    /// A description in Markdown; its images may be `@misc/PATH`.
    pub model_description: Option<String>,
    /// The license: an SPDX expression where one exists.
    pub license: Option<String>,
    /// Where the model's sources are.
    pub repository: Option<String>,
    /// The model's home page.
    pub homepage: Option<String>,
    /// The target triples on which the model runs; empty for all.
    pub required_platforms: Vec<String>,
    /// The inputs in order; `None` if they are not declared.
    pub inputs: Option<Vec<TensorSpec>>,
    /// The outputs in order; they must be declared if the inputs are.
    pub outputs: Option<Vec<TensorSpec>>,
    /// Inputs, with the outputs that the model should return.
    pub self_tests: Vec<SelfTest<DraftReference>>,
    /// Inputs and outputs to show to people.
    pub examples: Vec<Example<DraftReference>>,
    /// The runner's name.
    pub runner_name: Option<String>,
    /// The framework versions that run the model.
    pub required_framework_version: Option<VersionReq>,
    /// The version of the layout of the `model` folder; 1 if not given.
    pub runner_compat_version: Option<u64>,
    /// Options for the runner.
    pub opts: Options,
    /// Environment variables that are set for the process that runs the model (spec/carton-format-extensions.md, "Environment variables").
    pub env: BTreeMap<String, String>,
    /// What the model asks for beyond its own files (spec/carton-format-extensions.md, "Sandbox").
    pub sandbox: SandboxRequest,
    /// What is known of the model beyond its signature (spec/carton-format-extensions.md, "Model cards").
    pub card: ModelCard,
    /// What means nothing in the card of the carton that was read. A draft that is read has none, because they are errors there.
    pub(super) card_problems: Vec<CardProblem>,
    /// The unknown keys of the text that was read, with the keys that may have been meant. The keys in `[runner.opts]` belong to the runner
    /// and are not checked. In a carton that is read, unknown keys are accepted, because a later writer may know them.
    ///
    /// ```
    /// use carton_format::metadata::Draft;
    /// let draft = Draft::parse("[[self_test]]\ninputs = {}\nexpected = { y = 'y.npy' }")?;
    /// assert_eq!(
    ///     draft.unknown_keys[0].to_string(),
    ///     "line 3: unknown key `expected` in self_test[0]: did you mean `expected_out`?",
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub unknown_keys: Vec<UnknownKey>,
}

impl Draft {
    /// Reads a carton.toml that may be unfinished: `spec_version` and `[runner]` may be missing, and references may name files.
    ///
    /// # Errors
    /// As [`Metadata::parse`], except for missing parts. Rules that concern the whole are left to [`validate`](Self::validate).
    pub fn parse(text: &str) -> Result<Self, MetadataError> {
        let draft = Self::from_raw(RawMetadata::parse(text, Version::Optional)?, Origin::Draft)?;
        Ok(Self { unknown_keys: RawMetadata::known().unknown_in(text), ..draft })
    }

    /// The files to which defaults of inputs, self-tests and examples refer, in the order of the draft. A file appears once for each reference
    /// to it.
    pub fn files(&self) -> impl Iterator<Item = (&Path, Option<&str>)> {
        let tests = self.self_tests.iter().flat_map(|test| {
            test.inputs.values().chain(test.expected_out.iter().flatten().map(|(_, reference)| reference))
        });
        let examples =
            self.examples.iter().flat_map(|example| example.inputs.values().chain(example.sample_out.values()));
        let defaults = self.inputs.iter().flatten().filter_map(|input| input.default.as_ref());
        defaults.chain(tests).chain(examples).filter_map(|reference| match reference {
            DraftReference::File { path, member } => Some((path.as_path(), member.as_deref())),
            DraftReference::Carton(_) => None,
        })
    }

    /// Replaces every reference to a file by the result of `resolve`. Its arguments are the path, the member, and a description of the
    /// part of the draft that refers to the file: ``self-test `two digits`, input `image` ``.
    ///
    /// # Errors
    /// The first error of `resolve`.
    pub fn resolve_files<E>(
        &mut self,
        mut resolve: impl FnMut(&Path, Option<&str>, &dyn Fn() -> String) -> Result<Reference, E>,
    ) -> Result<(), E> {
        for input in self.inputs.iter_mut().flatten() {
            if let Some(DraftReference::File { path, member }) = &input.default {
                let place = || format!("input `{}`, default", input.name);
                input.default = Some(DraftReference::Carton(resolve(path, member.as_deref(), &place)?));
            }
        }
        let mut resolve_all = |references: &mut BTreeMap<String, DraftReference>, owner: &str, side: &str| {
            for (name, reference) in references {
                if let DraftReference::File { path, member } = reference {
                    let place = || format!("{owner}, {side} `{name}`");
                    *reference = DraftReference::Carton(resolve(path, member.as_deref(), &place)?);
                }
            }
            Ok(())
        };
        for (index, test) in self.self_tests.iter_mut().enumerate() {
            let owner = format!("self-test `{}`", test.name.clone().unwrap_or_else(|| format!("self_test_{index}")));
            resolve_all(&mut test.inputs, &owner, "input")?;
            if let Some(expected) = &mut test.expected_out {
                resolve_all(expected, &owner, "expected output")?;
            }
        }
        for (index, example) in self.examples.iter_mut().enumerate() {
            let owner = format!("example `{}`", example.name.clone().unwrap_or_else(|| format!("example_{index}")));
            resolve_all(&mut example.inputs, &owner, "input")?;
            resolve_all(&mut example.sample_out, &owner, "sample output")?;
        }
        Ok(())
    }

    /// Checks the draft against all rules of the format, including those that only writers must obey.
    ///
    /// # Errors
    /// [`MetadataError::Invalid`] naming the first field that breaks a rule.
    pub fn validate(self) -> Result<Metadata, MetadataError> {
        // The limit applies only to written cartons: the first version of the format did not have the field.
        if let Some(text) = &self.short_description
            && text.chars().count() > SHORT_DESCRIPTION_LIMIT
        {
            let expected = format!("at most {SHORT_DESCRIPTION_LIMIT} characters");
            return Err(MetadataError::invalid("short_description", expected, text.chars().count()));
        }
        self.check_written()?;
        self.finish()
    }

    /// Checks the draft as [`validate`](Self::validate) does, but accepts inputs without outputs, which are about to be recorded.
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    pub fn validate_inputs(self) -> Result<Metadata, MetadataError> {
        if self.inputs.is_none() || self.outputs.is_some() {
            return self.validate();
        }
        Self { outputs: Some(Vec::new()), ..self.clone() }.validate()?;
        self.finish()
    }

    /// Whether any self-test or example has an input.
    pub(super) fn gives_inputs(&self) -> bool {
        self.self_tests.iter().any(|test| !test.inputs.is_empty())
            || self.examples.iter().any(|example| !example.inputs.is_empty())
    }

    /// Checks the rules that this library obeys and other writers do not. In a carton that is read, a violation is a [`super::Oddity`].
    fn check_written(&self) -> Result<(), MetadataError> {
        match (&self.inputs, &self.outputs) {
            (Some(inputs), Some(outputs)) => {
                check_specs(inputs, "input")?;
                check_specs(outputs, "output")?;
            }
            (Some(_), None) => return Err(MetadataError::missing("output", BOTH_OR_NEITHER)),
            (None, Some(_)) => return Err(MetadataError::missing("input", BOTH_OR_NEITHER)),
            (None, None) if !self.self_tests.is_empty() => {
                return Err(MetadataError::missing("input", "inputs and outputs, which `self_test` needs"));
            }
            (None, None) if !self.examples.is_empty() => {
                return Err(MetadataError::missing("input", "inputs and outputs, which `example` needs"));
            }
            (None, None) => {}
        }
        if let Some(CardProblem { field, expected, found }) =
            self.card_problems.first().cloned().or(self.card.unwritable())
        {
            return Err(MetadataError::Invalid { field, expected, found });
        }
        for (index, path) in self.sandbox.read.iter().enumerate() {
            let is_plain = !Path::new(path).components().any(|part| part == std::path::Component::ParentDir);
            if !Path::new(path).is_absolute() || !is_plain {
                return Err(invalid_text(format!("sandbox.read[{index}]"), "an absolute path without `..`", path));
            }
        }
        for (index, example) in self.examples.iter().enumerate() {
            for (map, references) in [("inputs", &example.inputs), ("sample_out", &example.sample_out)] {
                for (name, reference) in references {
                    if let DraftReference::Carton(Reference::Misc(path)) = reference
                        && path.contains('\\')
                    {
                        let field = format!("example[{index}].{map}.{name}");
                        return Err(invalid_text(field, "a path without back slashes after `@misc/`", path));
                    }
                }
            }
        }
        Ok(())
    }

    /// Converts the raw metadata to a draft, and checks each value by itself.
    pub(super) fn from_raw(raw: RawMetadata, origin: Origin) -> Result<Self, MetadataError> {
        let runner = raw.runner.map(|Table(runner)| runner).unwrap_or_default();
        let required_framework_version = match runner.required_framework_version {
            None => None,
            Some(text) => Some(text.parse::<VersionReq>().map_err(|error| {
                let expected = format!("a semver requirement ({error})");
                MetadataError::invalid("runner.required_framework_version", expected, format!("`{text}`"))
            })?),
        };
        let table = raw.card.map(options::value_to_json);
        let (card, card_problems) = table.as_ref().map(ModelCard::of_table).unwrap_or_default();
        if let (Origin::Draft, Some(CardProblem { field, expected, found })) = (origin, card_problems.first().cloned())
        {
            return Err(MetadataError::Invalid { field, expected, found });
        }
        Ok(Self {
            model_name: set(raw.model_name),
            short_description: set(raw.short_description),
            model_description: set(raw.model_description),
            license: set(raw.license),
            repository: set(raw.repository),
            homepage: set(raw.homepage),
            required_platforms: raw.required_platforms,
            inputs: raw.input.map(|specs| tensor_specs(specs, "input", origin)).transpose()?,
            outputs: raw.output.map(|specs| tensor_specs(specs, "output", origin)).transpose()?,
            self_tests: raw.self_test.into_iter().enumerate().map(self_test).collect::<Result<_, _>>()?,
            examples: raw.example.into_iter().enumerate().map(example).collect::<Result<_, _>>()?,
            runner_name: runner.runner_name,
            required_framework_version,
            runner_compat_version: runner.runner_compat_version,
            opts: options::to_json(runner.opts),
            env: runner.env,
            sandbox: raw.sandbox.map(|Table(raw)| SandboxRequest::new(raw.network, raw.read)).unwrap_or_default(),
            card,
            card_problems,
            unknown_keys: Vec::new(),
        })
    }

    /// Checks the rules about the whole that every carton obeys.
    pub(super) fn finish(mut self) -> Result<Metadata, MetadataError> {
        for (index, platform) in self.required_platforms.iter().enumerate() {
            if !is_target_triple(platform) {
                let expected = "a target triple such as x86_64-unknown-linux-gnu";
                return Err(invalid_text(format!("required_platforms[{index}]"), expected, platform));
            }
        }
        let self_tests: Vec<SelfTest> =
            self.self_tests.into_iter().enumerate().map(finished_self_test).collect::<Result<_, _>>()?;
        let examples: Vec<Example> =
            self.examples.into_iter().enumerate().map(finished_example).collect::<Result<_, _>>()?;
        settle_optional(&mut self.inputs, &mut Calls::of(&self_tests, &examples));
        for output in self.outputs.iter_mut().flatten() {
            output.optional = output.optional.filter(|optional| *optional);
            output.default = None;
        }
        for (index, input) in self.inputs.iter().flatten().enumerate() {
            if let Some(other) = input.default.as_ref().filter(|_| input.default_tensor().is_none()) {
                let field = format!("input[{index}].default");
                return Err(invalid_text(field, "`@tensor_data/NAME`", &other.to_string()));
            }
        }
        let is_declared = self.inputs.is_some() || self.outputs.is_some();
        let signature = is_declared.then_some(Signature { inputs: self.inputs, outputs: self.outputs });

        let runner_name =
            self.runner_name.ok_or_else(|| MetadataError::missing("runner.runner_name", "the name of a runner"))?;
        if !is_runner_name(&runner_name) {
            let expected = "letters, digits, `_`, `-` and `.`, with a vendor before a `/` where there is one";
            return Err(invalid_text("runner.runner_name", expected, &runner_name));
        }
        let required_framework_version = self.required_framework_version.ok_or_else(|| {
            MetadataError::missing("runner.required_framework_version", "a semver requirement such as =1.2.3")
        })?;
        let runner_compat_version = self.runner_compat_version.unwrap_or(1);
        if i64::try_from(runner_compat_version).is_err() {
            return Err(MetadataError::invalid(
                "runner.runner_compat_version",
                "an integer that TOML can hold",
                runner_compat_version,
            ));
        }
        let card_toml = toml::Table::try_from(&self.card)
            .map_err(|error| MetadataError::invalid("card", "values that TOML can hold", error.to_string()))?;
        let opts_toml = options::to_toml(&self.opts, "runner.opts")?;
        variables::check(&self.env).map_err(|InvalidVariables { name, expected, found }| {
            let field = name.map_or_else(|| "runner.env".to_owned(), |name| format!("runner.env.{name}"));
            MetadataError::invalid(field, expected, found)
        })?;
        let runner =
            Runner { runner_name, required_framework_version, runner_compat_version, opts: self.opts, env: self.env };
        Ok(Metadata {
            model_name: set(self.model_name),
            short_description: set(self.short_description),
            model_description: set(self.model_description),
            license: set(self.license),
            repository: set(self.repository),
            homepage: set(self.homepage),
            required_platforms: self.required_platforms,
            signature,
            self_tests,
            examples,
            runner,
            opts_toml,
            sandbox: self.sandbox,
            card: self.card,
            card_problems: self.card_problems,
            card_toml,
        })
    }
}

/// Decides which inputs are optional where the draft does not state it: those that a recorded call leaves out.
fn settle_optional(inputs: &mut Option<Vec<TensorSpec>>, calls: &mut Calls<'_>) {
    for input in inputs.iter_mut().flatten() {
        let has_default = input.default.is_some();
        input.optional.get_or_insert_with(|| has_default || calls.without(&input.name).is_some());
    }
}

/// The largest number of characters in a `short_description`.
const SHORT_DESCRIPTION_LIMIT: usize = 100;

const BOTH_OR_NEITHER: &str = "inputs and outputs to be declared together (an empty list is `input = []`)";

/// An optional text. An empty text counts as not set.
fn set(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn invalid_text(field: impl Into<String>, expected: impl Into<String>, found: &str) -> MetadataError {
    MetadataError::invalid(field, expected, format_args!("`{found}`"))
}

/// Where metadata comes from. What a later version may have written is ignored in a carton, and refused in a draft.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Carton,
    Draft,
}

fn tensor_specs(raw: Vec<Table<RawTensorSpec>>, list: &str, origin: Origin) -> Result<Vec<TensorSpec>, MetadataError> {
    let spec = |(index, Table(raw)): (usize, Table<RawTensorSpec>)| {
        let (dtype, shape) = elements(&raw, &format!("{list}[{index}]"), origin)?;
        let default = match list {
            "input" => default(raw.default, &format!("{list}[{index}].default"), origin)?,
            _ => None,
        };
        Ok(TensorSpec {
            name: raw.name,
            dtype,
            shape,
            description: set(raw.description),
            internal_name: set(raw.internal_name),
            // That an output is there is what a declaration says anyway.
            optional: raw.optional.filter(|optional| *optional || list == "input"),
            default,
        })
    };
    raw.into_iter().enumerate().map(spec).collect()
}

/// The dtype and the shape of a tensor, of the fields `dtype`, `element` and `shape`. A draft may also name the dtype itself.
fn elements(raw: &RawTensorSpec, field: &str, origin: Origin) -> Result<(DataType, SymbolicShape), MetadataError> {
    let declared = shape(raw.shape.clone(), &format!("{field}.shape"))?;
    let Some(carrier) = v1_dtype(&raw.dtype) else {
        let native = raw.dtype.parse::<DataType>();
        return match (origin, native) {
            (Origin::Draft, Ok(dtype)) if raw.element.is_none() => Ok((dtype, declared)),
            (Origin::Draft, Err(error)) => {
                let expected = DataType::ALL.map(DataType::name).join(", ");
                Err(invalid_text(format!("{field}.dtype"), format!("one of {expected}{}", error.advice()), &raw.dtype))
            }
            _ => Err(invalid_text(format!("{field}.dtype"), format!("one of {}", v1_names()), &raw.dtype)),
        };
    };
    let Some(element) = &raw.element else { return Ok((carrier, declared)) };
    let name = element.as_str();
    let native = name.and_then(|name| carrier.with_element(name));
    let shaped = native.and_then(|dtype| Some((dtype, native_shape(dtype, declared.clone())?)));
    if let Some(native) = shaped {
        return Ok(native);
    }
    // What a later version may have written says nothing to this one.
    if origin == Origin::Carton {
        return Ok((carrier, declared));
    }
    if let Some(dtype) = native {
        let expected = format!("a last dimension of 2, the real and the imaginary part, for {dtype}");
        return Err(MetadataError::invalid(format!("{field}.shape"), expected, &raw.shape));
    }
    let known = DataType::ALL.into_iter().find(|dtype| dtype.element().is_some() && dtype.element() == name);
    let field = format!("{field}.element");
    Err(match known {
        Some(dtype) => {
            MetadataError::invalid(field, format!("the dtype {} beside `{dtype}`", dtype.carrier()), carrier)
        }
        None => {
            let names: Vec<_> = DataType::ALL.into_iter().filter_map(DataType::element).collect();
            let found = name.map_or_else(|| element.to_string(), str::to_owned);
            MetadataError::invalid(field, format!("one of {}", names.join(", ")), format_args!("`{found}`"))
        }
    })
}

/// The reference to the tensor for an input that a call leaves out. A carton of a later version may say something else here.
fn default(raw: Option<toml::Value>, field: &str, origin: Origin) -> Result<Option<DraftReference>, MetadataError> {
    let Some(raw) = raw else { return Ok(None) };
    let reference = raw.as_str().and_then(|text| text.parse::<DraftReference>().ok());
    match (reference, origin) {
        (Some(reference @ DraftReference::Carton(Reference::TensorData(_))), _) => Ok(Some(reference)),
        (Some(reference @ DraftReference::File { .. }), Origin::Draft) => Ok(Some(reference)),
        (_, Origin::Carton) => Ok(None),
        (_, Origin::Draft) => {
            Err(MetadataError::invalid(field, "`@tensor_data/NAME`, or a file: `x.npy`, `x.npz#NAME`", &raw))
        }
    }
}

fn shape(raw: toml::Value, field: &str) -> Result<SymbolicShape, MetadataError> {
    let dimensions = match raw {
        toml::Value::String(name) if name == "*" => return Ok(SymbolicShape::Any),
        toml::Value::String(name) => return Ok(SymbolicShape::Symbol(name)),
        toml::Value::Array(dimensions) => dimensions,
        other => {
            let detail = format!("expected a list, a symbol or \"*\", found {}", described(&other));
            return Err(MetadataError::WrongType { field: field.to_owned(), detail });
        }
    };
    let dimension = |(index, raw)| {
        let field = || format!("{field}[{index}]");
        match raw {
            toml::Value::Integer(size) => u64::try_from(size)
                .map(Dimension::Fixed)
                .map_err(|_| MetadataError::invalid(field(), "a size of 0 or more", size)),
            toml::Value::String(name) if name == "*" => Ok(Dimension::Any),
            toml::Value::String(name) => Ok(Dimension::Symbol(name)),
            other => {
                let detail = format!("expected an integer, a symbol or \"*\", found {}", described(&other));
                Err(MetadataError::WrongType { field: field(), detail })
            }
        }
    };
    dimensions.into_iter().enumerate().map(dimension).collect::<Result<_, _>>().map(SymbolicShape::Dimensions)
}

fn references(raw: BTreeMap<String, String>, field: &str) -> Result<BTreeMap<String, DraftReference>, MetadataError> {
    raw.into_iter()
        .map(|(name, text)| match text.parse() {
            Ok(reference) => Ok((name, reference)),
            Err(error) => {
                let super::InvalidReference { expected, found } = error;
                Err(invalid_text(format!("{field}.{name}"), expected, &found))
            }
        })
        .collect()
}

fn self_test((index, Table(raw)): (usize, Table<RawSelfTest>)) -> Result<SelfTest<DraftReference>, MetadataError> {
    Ok(SelfTest {
        name: set(raw.name),
        description: set(raw.description),
        inputs: references(raw.inputs, &format!("self_test[{index}].inputs"))?,
        expected_out: raw
            .expected_out
            .map(|raw| references(raw, &format!("self_test[{index}].expected_out")))
            .transpose()?,
    })
}

fn example((index, Table(raw)): (usize, Table<RawExample>)) -> Result<Example<DraftReference>, MetadataError> {
    Ok(Example {
        name: set(raw.name),
        description: set(raw.description),
        inputs: references(raw.inputs, &format!("example[{index}].inputs"))?,
        sample_out: references(raw.sample_out, &format!("example[{index}].sample_out"))?,
    })
}

fn finished_self_test((index, test): (usize, SelfTest<DraftReference>)) -> Result<SelfTest, MetadataError> {
    let names = |references: BTreeMap<String, DraftReference>, map: &str| {
        references
            .into_iter()
            .map(|(name, reference)| match reference {
                DraftReference::Carton(Reference::TensorData(tensor)) if !tensor.is_empty() => Ok((name, tensor)),
                other => {
                    let field = format!("self_test[{index}].{map}.{name}");
                    Err(invalid_text(field, "`@tensor_data/NAME`", &other.to_string()))
                }
            })
            .collect()
    };
    Ok(SelfTest {
        name: set(test.name),
        description: set(test.description),
        inputs: names(test.inputs, "inputs")?,
        expected_out: test.expected_out.map(|references| names(references, "expected_out")).transpose()?,
    })
}

fn finished_example((index, example): (usize, Example<DraftReference>)) -> Result<Example, MetadataError> {
    let finished = |references: BTreeMap<String, DraftReference>, map: &str| -> Result<BTreeMap<_, _>, _> {
        references
            .into_iter()
            // Checks a reference built in code by the same rules as one that was read.
            .map(|(name, reference)| match reference.to_string().parse::<Reference>() {
                Ok(parsed) => Ok((name, parsed)),
                Err(error) => Err(invalid_text(format!("example[{index}].{map}.{name}"), error.expected, &error.found)),
            })
            .collect()
    };
    Ok(Example {
        name: set(example.name),
        description: set(example.description),
        inputs: finished(example.inputs, "inputs")?,
        sample_out: finished(example.sample_out, "sample_out")?,
    })
}

fn check_specs(specs: &[TensorSpec], list: &str) -> Result<(), MetadataError> {
    let mut names = std::collections::HashMap::new();
    for (index, spec) in specs.iter().enumerate() {
        let field = format!("{list}[{index}].name");
        if spec.name.is_empty() {
            return Err(MetadataError::invalid(field, "a name", "an empty string"));
        }
        if let Some(first) = names.insert(spec.name.as_str(), index) {
            return Err(invalid_text(field, format!("another name than {list}[{first}] has"), &spec.name));
        }
        let field = format!("{list}[{index}].shape");
        match &spec.shape {
            SymbolicShape::Any => {}
            SymbolicShape::Symbol(name) => check_symbol(name, field)?,
            SymbolicShape::Dimensions(dimensions) => {
                for (position, dimension) in dimensions.iter().enumerate() {
                    match dimension {
                        Dimension::Symbol(name) => check_symbol(name, format!("{field}[{position}]"))?,
                        Dimension::Fixed(size) if i64::try_from(*size).is_err() => {
                            let expected = "a size that TOML can hold";
                            return Err(MetadataError::invalid(format!("{field}[{position}]"), expected, size));
                        }
                        Dimension::Fixed(_) | Dimension::Any => {}
                    }
                }
            }
        }
    }
    Ok(())
}

/// Refuses a symbol built in code as `"*"`, which would be read back as "any".
fn check_symbol(name: &str, field: String) -> Result<(), MetadataError> {
    match name {
        "" | "*" => Err(invalid_text(field, "a symbol", name)),
        _ => Ok(()),
    }
}

/// Whether `text` has the form of a target triple. The code that compares triples knows which ones exist.
fn is_target_triple(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
    };
    text.len() <= 100 && text.contains('-') && text.split('-').all(is_part)
}

/// Whether `name` can name a runner: `onnx`, `vendor/name`. It becomes part of paths.
fn is_runner_name(name: &str) -> bool {
    let is_part = |part: &str| {
        !matches!(part, "" | "." | "..")
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
    };
    name.len() <= 128 && name.split('/').count() <= 2 && name.split('/').all(is_part)
}
