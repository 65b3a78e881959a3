//! The built-in engine: `rten`, in pure Rust.
//!
//! It computes in float32, int32, int8 and uint8. A model's int64 and bool tensors are int32 inside the engine: this module
//! narrows inputs and checks every value, and widens outputs back to the declared type. A model with a constant that int32
//! cannot hold is refused rather than computed wrongly. float64 inputs and outputs are refused because the engine would
//! compute them in float32.

use std::sync::Arc;

use carton_runner_protocol::runner::RunnerError;
use carton_tensor::{Element, NumericTensor, Tensor};
use rten::{Model, NodeId, RunError, RunOptions, ThreadPool, Value, ValueOrView, ValueView};
use rten_tensor::prelude::*;
use rten_tensor::{Tensor as EngineTensor, TensorView};

use self::rewrite::Bytes;
use super::{Allocate, Engine, WAY_OUT, catch_panic, write_output};
use crate::element_type::ElementType;
use crate::model_file::{GraphValue, ModelFile, Operator, ValueKind};
use crate::model_source::ModelSource;
use crate::options::ModelOptions;

mod operators;
mod repair;
mod rewrite;

/// The release of the engine that this runner is built with.
const VERSION: &str = "0.27";

/// The greatest number of concurrent calls. A thread of the engine's pool that waits for others may start a second call
/// on its own stack, so this also bounds the depth of that stack.
const MAX_CONCURRENCY: usize = 8;

/// A model loaded by `rten`.
pub(crate) struct Rten {
    model: Model,
    pool: Option<Arc<ThreadPool>>,
    concurrency: usize,
}

impl Rten {
    /// Loads a model. Passes warnings to `warn`.
    ///
    /// # Errors
    /// This engine cannot run the model, or the model is broken.
    pub(crate) fn load(
        source: &ModelSource,
        options: &ModelOptions,
        warn: &mut dyn FnMut(String),
    ) -> Result<Self, RunnerError> {
        let problems = unsupported(&source.file);
        if !problems.is_empty() {
            return Err(RunnerError::new(format!(
                "the built-in engine cannot run `{}`: {}",
                source.path,
                problems.join("; ")
            ))
            .with_hint(WAY_OUT));
        }
        if source.file.has_double_constants {
            warn("the built-in engine computes the model's float64 constants in float32".to_owned());
        }
        if options.inter_op_threads.is_some() {
            warn("the built-in engine has no use for inter_op_threads: it runs operators one after another".to_owned());
        }
        let model = catch_panic("loading the model", || {
            let prepared = rewrite::prepare(source)?;
            let loaded = match prepared.bytes {
                Bytes::InPlace(bytes) => prepared.options.load_static_slice(bytes),
                Bytes::Rewritten(bytes) => prepared.options.load(bytes),
            };
            loaded.map_err(|error| {
                RunnerError::new(format!("the built-in engine cannot load `{}`: {error}", source.path))
                    .with_hint(WAY_OUT)
            })
        })?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            model,
            pool: options.intra_op_threads.map(|threads| Arc::new(ThreadPool::with_num_threads(threads))),
            concurrency: options.intra_op_threads.unwrap_or(cores).clamp(1, MAX_CONCURRENCY),
        })
    }

    fn node(&self, name: &str) -> Result<NodeId, RunnerError> {
        self.model
            .find_node(name)
            .ok_or_else(|| RunnerError::new(format!("the built-in engine lost the value `{name}` of the model")))
    }
}

impl Engine for Rten {
    fn description(&self) -> String {
        format!("rten {VERSION} (built in)")
    }

    fn max_concurrency(&self) -> usize {
        self.concurrency
    }

    fn run(
        &self,
        inputs: &[(&GraphValue, &Tensor)],
        outputs: &[&GraphValue],
        allocate: Allocate<'_>,
    ) -> Result<Vec<Tensor>, RunnerError> {
        let mut values = Vec::with_capacity(inputs.len());
        for (declared, tensor) in inputs {
            values.push((self.node(&declared.name)?, input(declared, tensor)?));
        }
        let nodes = outputs.iter().map(|output| self.node(&output.name)).collect::<Result<Vec<_>, _>>()?;
        let results = catch_panic("the built-in engine", || {
            let run_options = RunOptions::default().with_thread_pool(self.pool.clone());
            self.model.run(values, &nodes, Some(run_options)).map_err(|error| run_error(&error))
        })?;
        if results.len() != outputs.len() {
            return Err(RunnerError::new(format!("expected {} outputs, found {}", outputs.len(), results.len())));
        }
        outputs.iter().zip(&results).map(|(declared, value)| output(declared, value, allocate)).collect()
    }
}

fn run_error(error: &RunError) -> RunnerError {
    let message = error.to_string();
    // Some operators report an unsupported type or option only when they run.
    let hint = message.contains("unsupported").then(|| WAY_OUT.to_owned());
    RunnerError { hint, ..RunnerError::new(format!("the built-in engine: {message}")) }
}

/// Returns the reasons why this engine cannot run a model, as far as the file shows them; empty if it can.
pub(crate) fn unsupported(file: &ModelFile) -> Vec<String> {
    let mut problems = Vec::new();
    let operators = unsupported_operators(file);
    if !operators.is_empty() {
        let names: Vec<String> = operators.iter().map(|operator| format!("`{operator}`")).collect();
        problems.push(format!("it lacks the operator {}", names.join(", ")));
    }
    let deviations = repair::deviations(file);
    if !deviations.is_empty() {
        problems.push(format!("it computes {} otherwise than ONNX specifies", deviations.join(", ")));
    }
    for (what, values) in [("input", &file.inputs), ("output", &file.outputs)] {
        for value in values {
            if let ValueKind::Tensor { element, .. } = value.kind
                && !is_supported(element)
            {
                problems.push(format!("{what} `{}` is {element}, which it does not compute in", value.name));
            }
        }
    }
    if let Some(constant) = &file.wide_constant {
        problems.push(format!(
            "constant `{}` holds {} at {}, beyond the int32 that it computes int64 in",
            constant.name, constant.value, constant.index
        ));
    }
    problems
}

/// Returns the operators of a model that this engine lacks.
fn unsupported_operators(file: &ModelFile) -> Vec<&Operator> {
    file.operators.iter().filter(|operator| !operators::is_supported(operator)).collect()
}

/// Whether inputs and outputs may have elements of this type.
fn is_supported(element: ElementType) -> bool {
    use carton_tensor::DataType::{Float32, Int8, Int32, Int64, Uint8};
    let is_half = matches!(element, ElementType::FLOAT16 | ElementType::BFLOAT16);
    !is_half && matches!(element.carton(), Some(Float32 | Int8 | Int32 | Int64 | Uint8))
}

/// Converts a tensor into an input of the engine: in place if the engine has its dtype.
fn input<'a>(declared: &GraphValue, tensor: &'a Tensor) -> Result<ValueOrView<'a>, RunnerError> {
    use carton_tensor::DataType;

    let name = &declared.name;
    let Tensor::Numeric(tensor) = tensor else {
        return Err(
            RunnerError::new(format!("input `{name}`: the built-in engine takes numbers only")).with_hint(WAY_OUT)
        );
    };
    if matches!(declared.kind, ValueKind::Tensor { element: ElementType::BOOL, .. }) {
        let flags = tensor.bytes().iter().map(|&byte| i32::from(byte != 0)).collect();
        return owned(tensor, flags);
    }
    match tensor.dtype() {
        DataType::Float32 => view::<f32>(tensor),
        DataType::Int32 => view::<i32>(tensor),
        DataType::Int8 => view::<i8>(tensor),
        DataType::Uint8 => view::<u8>(tensor),
        DataType::Int64 => owned(tensor, narrow(name, tensor)?),
        dtype => Err(RunnerError::new(format!(
            "input `{name}` is {dtype}; the built-in engine takes float32, int64, int32, int8 and uint8"
        ))
        .with_hint(WAY_OUT)),
    }
}

fn view<T: Element>(tensor: &NumericTensor) -> Result<ValueOrView<'_>, RunnerError>
where
    for<'a> ValueView<'a>: From<TensorView<'a, T>>,
    Value: From<EngineTensor<T>>,
{
    match tensor.as_slice::<T>() {
        Ok(elements) => ValueView::from_shape(tensor.shape(), elements)
            .map(ValueOrView::View)
            .map_err(|error| RunnerError::from_error(&error)),
        // Small tensors in frames need not be aligned.
        Err(_) => owned(tensor, tensor.to_vec::<T>()?),
    }
}

fn owned<T>(tensor: &NumericTensor, elements: Vec<T>) -> Result<ValueOrView<'static>, RunnerError>
where
    Value: From<EngineTensor<T>>,
{
    Value::from_shape(tensor.shape(), elements).map(ValueOrView::Value).map_err(|error| RunnerError::from_error(&error))
}

/// Converts int64 elements to int32.
///
/// # Errors
/// An element does not fit; the error gives its position.
fn narrow(name: &str, tensor: &NumericTensor) -> Result<Vec<i32>, RunnerError> {
    let mut narrowed = Vec::with_capacity(tensor.bytes().len() / 8);
    for (index, bytes) in tensor.bytes().as_chunks().0.iter().enumerate() {
        let value = i64::from_le_bytes(*bytes);
        narrowed.push(i32::try_from(value).map_err(|_| {
            RunnerError::new(format!(
                "input `{name}` holds {value} at {:?}; the built-in engine computes int64 in int32, which ends at {}",
                position(index, tensor.shape()),
                if value < 0 { i32::MIN } else { i32::MAX }
            ))
            .with_hint(WAY_OUT)
        })?);
    }
    Ok(narrowed)
}

/// Returns the indices of the element at position `index` in C order.
fn position(mut index: usize, shape: &[usize]) -> Vec<usize> {
    let mut indices = vec![0; shape.len()];
    for (slot, &size) in indices.iter_mut().zip(shape).rev() {
        *slot = index % size.max(1);
        index /= size.max(1);
    }
    indices
}

/// Converts a result of the engine to the dtype that the model file declares for it. Each element is written once.
fn output(declared: &GraphValue, value: &Value, allocate: Allocate<'_>) -> Result<Tensor, RunnerError> {
    let element = match declared.kind {
        ValueKind::Tensor { element, .. } => Some(element),
        _ => None,
    };
    match (value, element) {
        (Value::Int32Tensor(tensor), Some(ElementType::INT64)) => {
            convert(tensor.view(), allocate, |number: i32| i64::from(number))
        }
        (Value::Int32Tensor(tensor), Some(ElementType::BOOL)) => {
            convert(tensor.view(), allocate, |flag: i32| u8::from(flag != 0))
        }
        (Value::FloatTensor(tensor), None | Some(ElementType::FLOAT)) => copy(tensor.view(), allocate),
        (Value::Int32Tensor(tensor), None | Some(ElementType(6))) => copy(tensor.view(), allocate),
        (Value::Int8Tensor(tensor), None | Some(ElementType(3))) => copy(tensor.view(), allocate),
        (Value::UInt8Tensor(tensor), None | Some(ElementType(2))) => copy(tensor.view(), allocate),
        (value, element) => Err(RunnerError::new(format!(
            "output `{}` came out of the built-in engine as {}, the model declares {}",
            declared.name,
            value.dtype(),
            element.map_or_else(|| "nothing".to_owned(), |element| element.to_string())
        ))
        .with_hint(WAY_OUT)),
    }
}

fn copy<T: Element>(view: TensorView<'_, T>, allocate: Allocate<'_>) -> Result<Tensor, RunnerError> {
    write_output(allocate, view.shape(), |elements: &mut [T]| {
        match view.data() {
            Some(data) if data.len() == elements.len() => elements.copy_from_slice(data),
            _ => elements.iter_mut().zip(view.iter()).for_each(|(to, from)| *to = *from),
        }
        Ok(())
    })
}

fn convert<From: Element, To: Element>(
    view: TensorView<'_, From>,
    allocate: Allocate<'_>,
    each: impl Fn(From) -> To,
) -> Result<Tensor, RunnerError> {
    write_output(allocate, view.shape(), |elements: &mut [To]| {
        match view.data() {
            Some(data) => elements.iter_mut().zip(data).for_each(|(to, from)| *to = each(*from)),
            None => elements.iter_mut().zip(view.iter()).for_each(|(to, from)| *to = each(*from)),
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn positions() {
        let check = |index: usize, shape: &[usize], expected: &[usize]| assert_eq!(position(index, shape), expected);
        check(0, &[], &[]);
        check(5, &[2, 3], &[1, 2]);
        check(7, &[2, 2, 2], &[1, 1, 1]);
    }

    #[test]
    fn version_is_the_one_locked() {
        let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")).unwrap();
        assert!(lock.contains(&format!("name = \"rten\"\nversion = \"{VERSION}.")));
    }
}
