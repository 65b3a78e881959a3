//! The engines that run models, behind one trait: `rten`, which is built in, and ONNX Runtime, which is loaded if it is installed.

pub(crate) mod library;
pub(crate) mod onnx_runtime;
pub(crate) mod rten;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use carton_runner_protocol::runner::RunnerError;
use carton_tensor::{DataType, Element, NumericTensor, Tensor};

use crate::model_file::GraphValue;

/// The hint for models that the built-in engine cannot run.
pub(crate) const WAY_OUT: &str = "ONNX Runtime can run it: `carton runner install onnx` installs that too; leave the option \
                                  engine at \"auto\" or set it to \"onnxruntime\"";

/// Allocates an output: a new tensor with arbitrary contents.
pub(crate) type Allocate<'a> = &'a dyn Fn(DataType, &[usize]) -> Result<NumericTensor, RunnerError>;

/// A model loaded by an engine.
pub(crate) trait Engine: Send + Sync {
    /// The engine and its version, for people.
    fn description(&self) -> String;

    /// The number of concurrent calls of [`run`](Self::run) that the engine can use.
    fn max_concurrency(&self) -> usize;

    /// Runs the model. Inputs have the dtype that [`ElementType::carton`](crate::element_type::ElementType::carton)
    /// gives for their declaration. Outputs are returned in the requested order, with the dtype for their declaration.
    ///
    /// # Errors
    /// Any error that the engine reports.
    fn run(
        &self,
        inputs: &[(&GraphValue, &Tensor)],
        outputs: &[&GraphValue],
        allocate: Allocate<'_>,
    ) -> Result<Vec<Tensor>, RunnerError>;
}

/// Runs `work`, and turns a panic of an engine into an error of the call.
pub(crate) fn catch_panic<T>(what: &str, work: impl FnOnce() -> Result<T, RunnerError>) -> Result<T, RunnerError> {
    // Engines keep no half-changed state that a later call could see: `rten` builds all state of a call anew, and
    // ONNX Runtime's own state is behind its C interface.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        Err(RunnerError {
            causes: vec![panic_message(payload.as_ref())],
            ..RunnerError::new(format!("{what} panicked"))
        })
    })
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "for no stated reason".to_owned())
}

/// Returns a new tensor whose elements `fill` has written.
pub(crate) fn write_output<T: Element>(
    allocate: Allocate<'_>,
    shape: &[usize],
    fill: impl FnOnce(&mut [T]) -> Result<(), RunnerError>,
) -> Result<Tensor, RunnerError> {
    let mut tensor = allocate(T::DTYPE, shape)?;
    match tensor.as_mut_slice::<T>()? {
        Some(elements) => fill(elements)?,
        None => return Err(RunnerError::new("the memory for an output cannot be written")),
    }
    Ok(Tensor::Numeric(tensor))
}
