//! The runner itself: finds the model among the files, loads it and runs it.

use std::sync::Arc;

use carton_runner_interface::LogLevel;
use carton_runner_interface::runner::{
    Call, Description, LoadRequest, ModelFiles, PackRequest, PackResponse, Runner, RunnerError, Tensors,
};
use carton_tensor::Storage;

use crate::binding::Binding;
use crate::identity::{LIBTORCH_VERSION, RUNNER_NAME};
use crate::libtorch::{Device, Module, OutputValue, Structure, Value, process};
use crate::load_module::load_module;
use crate::options::ModelOptions;
use crate::{convert, device, model_location, pack};

/// A loaded TorchScript model.
///
/// Options: `num_threads`, `num_interop_threads`, `max_concurrency`, and `model`, the file to load where there are several.
pub struct TorchScript {
    module: Module,
    binding: Binding,
    max_concurrency: usize,
}

impl Runner for TorchScript {
    fn describe() -> Description {
        Description { name: RUNNER_NAME.to_owned(), framework_version: LIBTORCH_VERSION.to_owned() }
    }

    fn load(request: LoadRequest, call: &Call) -> Result<Self, RunnerError> {
        let options = ModelOptions::parse(&request.options, &mut |warning| call.warn(&warning))?;
        let (path, bytes) = find(&request.files, options.model.as_deref())?;
        let device = device::choose(request.device.as_deref())?;
        set_threads(&options, call)?;
        let module = load_module(&path, bytes, device)?;
        let binding = Binding::new(&module.arguments(), &request.inputs, &request.outputs)?;
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
        Ok(Self { module, binding, max_concurrency })
    }

    fn pack(request: PackRequest, call: &Call) -> Result<PackResponse, RunnerError> {
        pack::pack(request, call)
    }

    fn max_concurrency(&self) -> usize {
        self.max_concurrency
    }

    fn infer(&self, inputs: Tensors, call: &Call) -> Result<Tensors, RunnerError> {
        let bound = self.binding.inputs(&inputs)?;
        let values = bound.iter().map(convert::value).collect::<Result<Vec<Value<'_>>, _>>()?;
        let keys: Option<Vec<&str>> =
            self.binding.takes_dictionary().then(|| bound.iter().map(|input| input.inner).collect());
        let results = self.module.run(&values, keys.as_deref())?;
        let (mut structure, mut outputs) = results.outputs();
        if structure == Structure::One
            && let Some(OutputValue::TensorList(elements)) = outputs.first().map(|output| output.value()).transpose()?
        {
            let ranks = elements.iter().map(|element| match element.value() {
                Ok(OutputValue::Tensor { shape, .. }) => shape.len(),
                _ => 0,
            });
            if self.binding.takes_apart(&ranks.collect::<Vec<_>>()) {
                (structure, outputs) = (Structure::Sequence, elements);
            }
        }
        let names: Vec<String> = outputs.iter().map(|output| output.name()).collect();
        let wanted = self.binding.outputs(structure, &names)?;
        let named = wanted.into_iter().filter_map(|(position, name)| Some((outputs.get(position)?, name)));
        named.map(|(output, name)| Ok((name.clone(), convert::tensor(output, call, &name)?))).collect()
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
