//! The engines that run models, behind one trait: `rten`, built in, and ONNX Runtime, loaded when it is installed.

pub(crate) mod library;
pub(crate) mod onnx_runtime;
pub(crate) mod rten;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use carton_runner_interface::runner::RunnerError;
use carton_tensor::{DataType, Element, NumericTensor, Tensor};

use crate::model_file::GraphValue;

/// What to do where the built-in engine is not enough.
pub(crate) const WAY_OUT: &str = "ONNX Runtime can run it: `carton runner install onnx` installs that too; leave the option \
                                  engine at \"auto\" or set it to \"onnxruntime\"";

/// Where outputs are written: a fresh tensor whose contents are arbitrary.
pub(crate) type Allocate<'a> = &'a dyn Fn(DataType, &[usize]) -> Result<NumericTensor, RunnerError>;

/// A model loaded by an engine.
pub(crate) trait Engine: Send + Sync {
    /// The engine and its version, for people.
    fn description(&self) -> String;

    /// How many calls of [`run`](Self::run) make sense at once.
    fn max_concurrency(&self) -> usize;

    /// Runs the model. Inputs have the dtype that [`ElementType::carton`](crate::element_type::ElementType::carton)
    /// gives for their declaration; outputs come in the order asked for, with the dtype of theirs.
    ///
    /// # Errors
    /// Whatever the engine reports.
    fn run(
        &self,
        inputs: &[(&GraphValue, &Tensor)],
        outputs: &[&GraphValue],
        allocate: Allocate<'_>,
    ) -> Result<Vec<Tensor>, RunnerError>;
}

/// Runs `work`, turning a panic of an engine into an error of the call.
pub(crate) fn catch_panic<T>(what: &str, work: impl FnOnce() -> Result<T, RunnerError>) -> Result<T, RunnerError> {
    // Engines keep no half-changed state that a later call could see: `rten` builds everything a call needs anew, and
    // ONNX Runtime's own state lies behind its C interface.
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

/// A new tensor whose elements `fill` writes.
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
