//! The runner itself: finds the model among the files, picks an engine, translates names.

use carton_runner_interface::runner::{Call, Description, LoadRequest, Runner, RunnerError, Tensors};

use crate::{FRAMEWORK_VERSION, RUNNER_NAME};

/// A loaded ONNX model.
pub struct Onnx {}

impl Runner for Onnx {
    fn describe() -> Description {
        Description { name: RUNNER_NAME.to_owned(), framework_version: FRAMEWORK_VERSION.to_owned() }
    }

    fn load(_request: LoadRequest, _call: &Call) -> Result<Self, RunnerError> {
        Err(RunnerError::new("the onnx runner cannot load models yet"))
    }

    fn infer(&self, _inputs: Tensors, _call: &Call) -> Result<Tensors, RunnerError> {
        Err(RunnerError::new("the onnx runner cannot run models yet"))
    }
}
