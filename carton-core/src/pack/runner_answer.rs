//! Asks the runner what the model is, and completes the user's metadata with its answer.

use std::path::Path;

use carton_format::metadata::{self, Draft};
use carton_runner_interface::host::{CallError, CallOptions, ConnectionOptions};
use carton_runner_interface::runner::{PackRequest, PackResponse};
use carton_runner_interface::signature::{Elements, ModelValue, output_shape_mismatches};
use carton_runner_interface::{DeclaredTensor, Options};
use semver::VersionReq;

use super::{Pack, other_side};
use crate::Error;
use crate::config::Config;
use crate::model::{complete_policy, start_runner, wire_specs};
use crate::runner::Descriptor;
use crate::runner::launch::Access;
use crate::runner_failure::RunnerFailure;

/// Who is asked, and with which settings.
pub(super) struct Asking<'a> {
    pub(super) descriptor: &'a Descriptor,
    pub(super) config: &'a Config,
    pub(super) pack: &'a Pack,
    /// The file or folder that the user gave.
    pub(super) given: &'a Path,
    /// The paths in the model that are not packed.
    pub(super) leave_out: Vec<String>,
}

impl Asking<'_> {
    /// Asks about the model at `path`, which may be one that leads to the given files.
    ///
    /// # Errors
    /// The runner cannot be started, or refuses the model.
    pub(super) async fn ask(&self, path: &Path, scratch: &Path, draft: &Draft) -> Result<PackResponse, Error> {
        let Self { descriptor, config, pack, given, ref leave_out } = *self;
        let mut policy = pack.policy.clone();
        complete_policy(&mut policy, config)?;
        // The parts of a model may be in several files beside each other.
        let folder =
            |path: &Path| if path.is_dir() { Some(path.to_path_buf()) } else { path.parent().map(Path::to_path_buf) };
        let access = Access {
            read: folder(path).into_iter().chain(folder(given)).chain(policy.allow.read.iter().cloned()).collect(),
            write: vec![scratch.to_path_buf()],
            network: descriptor.prepare.is_some() && !config.offline,
            prepares: descriptor.prepare.is_some(),
            ..Access::default()
        };
        let session = start_runner(
            descriptor,
            &policy,
            &access,
            ConnectionOptions::default(),
            pack.operation.progress().cloned(),
        )
        .await?;
        let mut runner_options = Options::new();
        runner_options.extend(draft.opts.clone());
        let request = PackRequest {
            path: path.to_path_buf(),
            scratch: scratch.to_path_buf(),
            options: runner_options,
            pack_options: pack.pack_options.clone(),
            leave_out: leave_out.clone(),
            inputs: draft.inputs.as_deref().map(wire_specs),
            outputs: draft.outputs.as_deref().map(wire_specs),
            runner_compat_version: draft.runner_compat_version,
        };
        match session.connection().pack(request, CallOptions::default()).await {
            Ok(response) => Ok(response),
            Err(error) => Err(match session.explain(error).await {
                Err(crash) => crash.into(),
                Ok(CallError::Runner { error, .. }) => {
                    let limits = session.suspected_limits(&error);
                    RunnerFailure::refused(descriptor.to_string(), error, limits).into()
                }
                Ok(other) => other.into(),
            }),
        }
    }
}

/// The contradictions between the shapes of the outputs that the user declares and those that the model states, one sentence each. Only a run
/// of the model can tell which of them is wrong.
pub(super) fn doubtful_outputs(draft: &Draft, response: &PackResponse) -> Vec<String> {
    let value = |output: &DeclaredTensor| ModelValue {
        name: output.model_name().to_owned(),
        elements: Elements::Any,
        shape: output.shape.clone(),
        is_required: false,
    };
    let declared = draft.outputs.as_deref().map(wire_specs);
    output_shape_mismatches(declared.as_deref(), &response.outputs.iter().map(value).collect::<Vec<_>>())
}

/// Fills in the fields of the metadata that the user did not set.
pub(super) fn complete(
    draft: &mut Draft,
    descriptor: &Descriptor,
    response: &PackResponse,
    framework_version: Option<VersionReq>,
) -> Result<(), Error> {
    draft.runner_name = Some(descriptor.runner_name.clone());
    let compat_version = response.runner_compat_version.unwrap_or(descriptor.runner_compat_version);
    if draft.runner_compat_version.is_some_and(|asked| asked != compat_version) {
        return Err(RunnerFailure::Answer {
            runner: descriptor.to_string(),
            expected: "the one that the metadata asks for",
            found: format!("runner_compat_version = {compat_version}"),
        }
        .into());
    }
    draft.runner_compat_version = Some(compat_version);
    if framework_version.is_some() {
        draft.required_framework_version = framework_version;
    }
    if draft.required_framework_version.is_none() {
        let recommended = match &response.required_framework_version {
            Some(recommended) => recommended.clone(),
            None => format!("={}", descriptor.framework_version),
        };
        let requirement = VersionReq::parse(&recommended).map_err(|_| RunnerFailure::Answer {
            runner: descriptor.to_string(),
            expected: "a semantic version requirement",
            found: recommended,
        })?;
        draft.required_framework_version = Some(requirement);
    }
    for (key, value) in &response.options {
        draft.opts.entry(key.clone()).or_insert_with(|| value.clone());
    }
    complete_signature(draft, response);
    for (specs, optional) in
        [(&mut draft.inputs, &response.optional_inputs), (&mut draft.outputs, &response.optional_outputs)]
    {
        let unstated = specs.iter_mut().flatten().filter(|spec| spec.optional.is_none());
        for spec in unstated.filter(|spec| optional.contains(spec.internal_name.as_ref().unwrap_or(&spec.name))) {
            spec.optional = Some(true);
        }
    }
    Ok(())
}

/// Adds the sides of the signature that the user does not declare.
fn complete_signature(draft: &mut Draft, response: &PackResponse) {
    let (inputs, outputs) = (&response.inputs, &response.outputs);
    if inputs.is_empty() && outputs.is_empty() {
        return;
    }
    match (&draft.inputs, &draft.outputs) {
        (None, None) => {
            draft.inputs = Some(inputs.iter().map(declared).collect());
            draft.outputs = Some(outputs.iter().map(declared).collect());
        }
        (Some(declared), None) if !outputs.is_empty() => {
            draft.outputs = Some(other_side::of_model(declared, inputs, outputs))
        }
        (None, Some(declared)) => draft.inputs = Some(other_side::of_model(declared, outputs, inputs)),
        _ => {}
    }
}

pub(super) fn declared(spec: &DeclaredTensor) -> metadata::TensorSpec {
    let mut declared = metadata::TensorSpec::new(spec.name.clone(), spec.dtype, spec.shape.clone());
    declared.internal_name = spec.internal_name.clone();
    declared
}
