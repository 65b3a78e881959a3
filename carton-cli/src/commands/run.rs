//! `carton run`: runs a model on inputs, or its self-tests.

use std::collections::BTreeMap;

use carton_core::metadata::Signature;
use carton_core::signature::cast_inputs;
use carton_core::{CallTimings, Carton, Load, Tensors};
use carton_tensor::{Tensor, Tolerance};
use serde::Serialize;

use super::context::confined;
#[cfg(feature = "tables")]
use super::run_rows;
use super::trust::with_trust;
use super::{Context, example, open, self_test, set};
use crate::args::RunArgs;
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::Role;
use crate::tensors::{DeclaredInput, Destinations, JsonOutput, ReadInputs, summary};
use crate::text::one_line;

/// The output of `--json`.
#[derive(Serialize)]
struct Answer<'a> {
    outputs: BTreeMap<&'a str, JsonOutput<'a>>,
    /// With `--example`: the example, and the comparison with its samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    example: Option<example::Report>,
    runner: String,
    /// The number of the call, as in the log.
    call: u64,
    seconds: Seconds,
}

/// The parts of the call's time, in seconds.
#[derive(Serialize)]
struct Seconds {
    queue: f64,
    transfer: f64,
    run: f64,
}

impl From<CallTimings> for Seconds {
    fn from(timings: CallTimings) -> Self {
        Self {
            queue: timings.queue.as_secs_f64(),
            transfer: timings.transfer.as_secs_f64(),
            run: timings.run.as_secs_f64(),
        }
    }
}

pub(super) async fn run(arguments: RunArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    #[cfg(not(feature = "tables"))]
    if !arguments.table.rows.is_empty() {
        return Err(Failure::absent("`--rows`"));
    }
    #[cfg(feature = "tables")]
    let table = run_rows::open(&arguments, context.output.is_json()).await?;
    let (inputs, is_cast) = (arguments.inputs.clone(), arguments.cast);
    let inputs = interrupt::blocking(move |_| Ok(ReadInputs::read(inputs, is_cast)?)).await?;
    let model = load(&arguments, context).await?;
    if arguments.self_test {
        return self_test::run(&model, tolerance(&arguments), context).await;
    }
    #[cfg(feature = "tables")]
    if let Some(table) = table {
        return run_rows::run(&model, table, tensors(&model, inputs)?, &arguments.table, context).await;
    }
    infer(&model, inputs, arguments, context).await
}

fn tolerance(arguments: &RunArgs) -> Tolerance {
    Tolerance::new(arguments.rtol, arguments.atol)
}

/// Loads the model: a carton, or with `--runner` also a bare model.
async fn load(arguments: &RunArgs, context: &Context<'_>) -> Result<Carton, Failure> {
    let model = &arguments.model;
    if let Some(runner) = &arguments.runner
        && model.expect.is_none()
        && open::looks_bare(&model.path)
    {
        return Ok(as_asked(Carton::load_bare(&model.path, runner), arguments, context)?.await?);
    }
    if arguments.self_test {
        // Checked before a runner is started in vain.
        self_test::require(&open::open(model, context).await?)?;
    }
    if let Some(name) = &arguments.example {
        example::require(&open::open(model, context).await?, name)?;
    }
    let load = set(Carton::load(model.location()), arguments.runner.as_deref(), Load::runner);
    as_asked(load, arguments, context)?.await.map_err(|error| open::unopened(error, &model.path))
}

/// Applies the arguments to the load.
fn as_asked(load: Load, arguments: &RunArgs, context: &Context<'_>) -> Result<Load, Failure> {
    let options = arguments.options.iter().map(|option| (option.key.clone(), option.value.clone()));
    let load = load
        .options(options)
        .install_runners(arguments.install_runners)
        .signature(arguments.signature_mode.into())
        .allow_file_links(arguments.model.allow_file_links)
        .config(context.config.clone());
    let load = set(with_trust!(load, arguments.model), arguments.model.expect, Load::expect_hash);
    let load = set(load, arguments.device.as_deref(), Load::device);
    let load = set(load, arguments.framework_version.clone(), Load::framework_version);
    let load = set(load, arguments.timeout, Load::timeout);
    Ok(set(confined!(load, arguments.sandbox), open::progress(context), Load::progress))
}

/// The tensors that the arguments give as inputs.
pub(super) fn tensors(model: &Carton, inputs: ReadInputs) -> Result<Tensors, Failure> {
    let positional = model.package().metadata().signature().map(Signature::positional_inputs).unwrap_or_default();
    let declared: Vec<DeclaredInput<'_>> = positional.iter().map(|input| DeclaredInput::from(*input)).collect();
    Ok(inputs.into_tensors(&declared)?)
}

async fn infer(model: &Carton, inputs: ReadInputs, arguments: RunArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let output = context.output;
    let metadata = model.package().metadata();
    let mut inputs = match &arguments.example {
        Some(name) => example::inputs(model, name).await?,
        None => tensors(model, inputs)?,
    };
    if arguments.cast {
        let package = model.package().clone();
        inputs = interrupt::blocking(move |_| {
            let declared = package.metadata().signature().map(Signature::positional_inputs).unwrap_or_default();
            cast_inputs(declared, inputs).map_err(Failure::usage)
        })
        .await?;
    }
    let (outputs, timings) = model.infer(inputs).timed().await?;
    let outputs = outputs.into_tensors();
    let (outputs, example) = match &arguments.example {
        Some(name) => example::compare(model, name, outputs, tolerance(&arguments)).await?,
        None => (outputs, None),
    };
    output.progress().finish();

    let declared: Vec<String> = metadata.outputs().iter().map(|output| output.name.clone()).collect();
    let files = arguments.outputs;
    let (outputs, destinations) = interrupt::blocking(move |_| {
        let declared: Vec<&str> = declared.iter().map(String::as_str).collect();
        let destinations = Destinations::resolve(files, &declared, &outputs)?;
        destinations.write(&outputs)?;
        Ok((outputs, destinations))
    })
    .await?;
    if output.is_json() {
        let outputs = outputs
            .iter()
            .map(|(name, tensor)| (name.as_str(), JsonOutput { tensor, file: destinations.file_of(name) }))
            .collect();
        output.json(&Answer {
            outputs,
            example,
            runner: model.runner().to_string(),
            call: timings.call,
            seconds: timings.into(),
        })?;
        return Ok(Exit::Ok);
    }
    if destinations.is_empty() {
        output.text(&shown(
            &outputs,
            &metadata.outputs().iter().map(|output| output.name.as_str()).collect::<Vec<_>>(),
            output,
        ))?;
    } else {
        for (name, tensor) in &outputs {
            if let Some(path) = destinations.file_of(name) {
                let path = path.display().to_string();
                output.note(&format!("wrote {} ({}) to {}", one_line(name), summary(tensor).0, one_line(&path)));
            }
        }
    }
    if let Some(example) = &example {
        output.text(&example.text(output))?;
    }
    Ok(Exit::Ok)
}

/// Formats outputs for people: the declared ones in their order, then the others.
fn shown(outputs: &BTreeMap<String, Tensor>, declared: &[&str], output: &crate::output::Output) -> String {
    let others = outputs.keys().map(String::as_str).filter(|name| !declared.contains(name));
    let mut text = String::new();
    for name in declared.iter().copied().chain(others) {
        let Some(tensor) = outputs.get(name) else { continue };
        let (kind, values) = summary(tensor);
        text.push_str(&format!("{}  {kind}\n{values}\n", output.paint(Role::Heading, &one_line(name))));
    }
    text
}
