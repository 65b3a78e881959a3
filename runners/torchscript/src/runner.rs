//! The runner itself: finds the model among the files, loads it and runs it.

use std::sync::Arc;

use carton_runner_interface::LogLevel;
use carton_runner_interface::runner::{
    Call, Description, LoadRequest, ModelFiles, PackRequest, PackResponse, Runner, RunnerError, Tensors,
};
use carton_runner_interface::structure::flatten_declared;
use carton_tensor::{DataType, Storage, Tensor};

use crate::binding::Binding;
use crate::identity::{DTYPES, LIBTORCH_VERSION, RUNNER_NAME};
use crate::libtorch::{Device, Module, Output, OutputValue, process};
use crate::load_module::load_module;
use crate::options::ModelOptions;
use crate::outputs::{Outputs, Returned, Structure};
use crate::{convert, device, libraries, model_location, pack};

/// A loaded TorchScript model.
///
/// Options: `num_threads`, `num_interop_threads`, `max_concurrency`, `libraries`, which register operators, and `model`, the file to load
/// where there are several.
pub struct TorchScript {
    module: Module,
    binding: Binding,
    outputs: Outputs,
    max_concurrency: usize,
}

impl Runner for TorchScript {
    const DTYPES: &'static [DataType] = DTYPES;

    fn describe() -> Description {
        Description { name: RUNNER_NAME.to_owned(), framework_version: LIBTORCH_VERSION.to_owned() }
    }

    fn load(request: LoadRequest, call: &Call) -> Result<Self, RunnerError> {
        let options = ModelOptions::parse(&request.options, &mut |warning| call.warn(&warning))?;
        let (path, bytes) = find(&request.files, options.model.as_deref())?;
        let device = device::choose(request.device.as_deref())?;
        set_threads(&options, call)?;
        libraries::load(&options.libraries, &request.files)?;
        let module = load_module(&path, bytes, device)?;
        let binding = Binding::new(&module.arguments(), &request.inputs)?;
        let outputs = Outputs::new(&request.outputs);
        if let Some(error) = module.analysis_error() {
            call.log(LogLevel::Debug, &format!("libtorch's alias analysis failed: {}", error.message));
        }
        if module.copies_inputs() {
            call.info("the model may write to its inputs, so each call copies them");
        }
        let max_concurrency = if module.effects().changes_module { 1 } else { options.max_concurrency };
        if max_concurrency < options.max_concurrency {
            call.warn(
                "option `max_concurrency` is ignored: the model may change its attributes, so one call runs at a time",
            );
        }
        call.info(&format!(
            "running `{path}` with libtorch {LIBTORCH_VERSION} on {}, {} threads",
            if device == Device::Cpu { "the CPU" } else { "a GPU" },
            process::threads()?
        ));
        Ok(Self { module, binding, outputs, max_concurrency })
    }

    fn pack(request: PackRequest, call: &Call) -> Result<PackResponse, RunnerError> {
        pack::pack(request, call)
    }

    fn max_concurrency(&self) -> usize {
        self.max_concurrency
    }

    fn infer(&self, inputs: Tensors, call: &Call) -> Result<Tensors, RunnerError> {
        let arguments = convert::arguments(self.binding.inputs(&inputs)?)?;
        let results = self.module.run(&arguments)?;
        let (structure, outputs) = self.parts(&results.output())?;
        let declared = self.outputs.inner_names();
        let (mut returned, mut tensors) = (Vec::new(), Vec::new());
        for (name, output) in outputs.iter().filter(|(name, _)| structure != Structure::Map || self.outputs.wants(name))
        {
            let mut nones = Vec::new();
            let value = convert::value(output, call, name, &mut nones)?;
            let leaves = flatten_declared(name, value, &declared).map_err(|error| RunnerError::from_error(&error))?;
            let (names, values): (Vec<String>, Vec<Tensor>) = leaves.into_iter().unzip();
            returned.push(Returned { leaves: names, nones });
            tensors.push(values);
        }
        let chosen = self.outputs.choose(structure, &returned)?;
        let named = chosen.into_iter().map(|(value, leaf, name)| {
            let tensor = tensors.get(value).and_then(|leaves| leaves.get(leaf)).cloned();
            tensor.map(|tensor| (name, tensor)).ok_or_else(|| RunnerError::new("an output that is not there"))
        });
        named.collect()
    }
}

impl TorchScript {
    /// The values that forward returned, with their names.
    fn parts<'a>(&self, output: &Output<'a>) -> Result<(Structure, Vec<(String, Output<'a>)>), RunnerError> {
        let unnamed = |structure: Structure, elements: Vec<Output<'a>>| {
            let elements = elements.into_iter().enumerate();
            (structure, elements.map(|(index, element)| (Outputs::unnamed(structure, index), element)).collect())
        };
        Ok(match output.value()? {
            OutputValue::Dictionary(entries) => (Structure::Map, entries),
            OutputValue::Named(fields) => (Structure::NamedTuple, fields),
            OutputValue::Tuple(elements) => unnamed(Structure::Sequence, elements),
            OutputValue::List(elements) => {
                let ranks = elements.iter().map(|element| match element.value() {
                    Ok(OutputValue::Tensor { shape, .. }) => Some(shape.len()),
                    _ => None,
                });
                match ranks.collect::<Option<Vec<_>>>() {
                    Some(ranks) if self.outputs.takes_apart(&ranks) => unnamed(Structure::Sequence, elements),
                    _ => unnamed(Structure::One, vec![*output]),
                }
            }
            _ => unnamed(Structure::One, vec![*output]),
        })
    }
}

/// Finds the TorchScript file among the files of a model, and maps it.
fn find(files: &ModelFiles, wanted: Option<&str>) -> Result<(String, Arc<dyn Storage>), RunnerError> {
    let path = model_location::MODEL_FILE.choose(&files.paths(), wanted)?;
    let bytes = files.map(&path).map_err(|error| RunnerError::new(format!("reading `{path}`: {error}")))?;
    Ok((path, bytes))
}

/// Sets the numbers of libtorch's threads. The threads between operators can be set only once, before they are started.
///
/// # Errors
/// libtorch reports an error.
fn set_threads(options: &ModelOptions, call: &Call) -> Result<(), RunnerError> {
    if let Some(threads) = options.num_threads {
        process::set_threads(threads)?;
    }
    if let Some(threads) = options.num_interop_threads
        && process::interop_threads()? != threads
        && process::set_interop_threads(threads).is_err()
    {
        call.warn("option `num_interop_threads` comes too late: libtorch has started its threads");
    }
    Ok(())
}
