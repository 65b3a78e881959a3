//! Bound outputs: the runtime writes them straight into memory of the pool.
//!
//! That memory must exist before the run, so the shape must be known in advance. It can be predicted if the model declares it
//! in sizes and in symbols that the inputs have too, but a declaration may be wrong. Therefore
//!
//! - an output is bound only after a run whose output had the predicted shape;
//! - the runtime refuses to write an output of another shape than that of the given memory;
//! - after each run the memory is checked for whether anything was written at all, since an output that is also an input, or a
//!   constant, is returned as another value than the given one.
//!
//! If anything goes wrong, the run is repeated without bound outputs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};

use carton_runner_interface::runner::RunnerError;
use carton_tensor::{Dimension, NumericTensor, SymbolicShape};
use ort::session::Session;
use ort::value::{TensorElementType, ValueType};

use super::element::number;
use super::value::Value;
use super::{Allocate, Given};
use crate::element_type::ElementType;
use crate::model_file::{GraphValue, ValueKind};

/// The size in bytes from which outputs are bound. Smaller ones travel inside the answer, and are copied in any case.
const SMALLEST: usize = 16 << 10;

/// The bytes at both ends of the memory before a run. An output is most unlikely to begin and end with them.
const MARK: [u8; 16] = *b"\xd3\x1e\x9b\x06not written\x97";

/// The states of an output: its shape was not compared yet, was as predicted, or it cannot be bound.
const UNKNOWN: u8 = 0;
const AS_PREDICTED: u8 = 1;
const NOT_BOUND: u8 = 2;

/// The outputs of a session that may be bound, with their states.
#[derive(Debug, Default)]
pub(super) struct Bindable {
    outputs: BTreeMap<String, AtomicU8>,
}

/// The memory of a bound output.
pub(super) struct Bound {
    pub(super) tensor: NumericTensor,
    pub(super) element: ElementType,
}

impl Bindable {
    /// Selects the outputs that have the same type in the session as in the model file. An optional one is not bound: it may not be there.
    pub(super) fn of(session: &Session, declared: &[GraphValue]) -> Self {
        let mut outputs = BTreeMap::new();
        for output in session.outputs() {
            let Some(value) = declared.iter().find(|value| value.name == output.name()) else { continue };
            if let (ValueKind::Tensor { element, .. }, ValueType::Tensor { ty, .. }) = (&value.kind, output.dtype())
                && !value.is_optional
                && in_place(*element).is_some_and(|expected| expected == *ty)
            {
                outputs.insert(value.name.clone(), AtomicU8::new(UNKNOWN));
            }
        }
        Self { outputs }
    }

    /// Predicts the shape of an output from the inputs. Returns `None` if the output cannot be bound.
    pub(super) fn predict(&self, output: &GraphValue, inputs: &[(&GraphValue, Given<'_>)]) -> Option<Vec<usize>> {
        if self.state(output)?.load(Ordering::Relaxed) == NOT_BOUND {
            return None;
        }
        predicted_shape(output, inputs)
    }

    /// Allocates memory for an output whose predicted shape has been right before. Returns `None` if the output is not to be
    /// bound.
    pub(super) fn allocate(&self, output: &GraphValue, shape: &[usize], allocate: Allocate<'_>) -> Option<Bound> {
        if self.state(output)?.load(Ordering::Relaxed) != AS_PREDICTED {
            return None;
        }
        let ValueKind::Tensor { element, .. } = output.kind else { return None };
        let dtype = element.carton()?;
        if NumericTensor::n_bytes_of(dtype, shape).ok()? < SMALLEST {
            return None;
        }
        let mut tensor = allocate(dtype, shape).ok()?;
        let bytes = tensor.bytes_mut()?;
        bytes.first_chunk_mut::<{ MARK.len() }>()?.copy_from_slice(&MARK);
        bytes.last_chunk_mut::<{ MARK.len() }>()?.copy_from_slice(&MARK);
        Some(Bound { tensor, element })
    }

    /// Records whether the output of the first run had the predicted shape.
    pub(super) fn learn(&self, output: &GraphValue, predicted: &[usize], found: Option<&[usize]>) {
        if let Some(state) = self.state(output) {
            let known = if found == Some(predicted) { AS_PREDICTED } else { NOT_BOUND };
            // An output that was given up stays so, because its shape may be right and another fault the reason.
            let _ = state.compare_exchange(UNKNOWN, known, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Records that an output cannot be bound.
    pub(super) fn give_up(&self, output: &GraphValue) {
        if let Some(state) = self.state(output) {
            state.store(NOT_BOUND, Ordering::Relaxed);
        }
    }

    fn state(&self, output: &GraphValue) -> Option<&AtomicU8> {
        self.outputs.get(&output.name)
    }
}

impl Bound {
    /// The memory as a value of the runtime.
    pub(super) fn value(&mut self) -> Result<Value<'_>, RunnerError> {
        let number = number(self.element).ok_or_else(|| RunnerError::new("an element type without a number"))?;
        let shape = self.tensor.shape().to_vec();
        let bytes = self.tensor.bytes_mut().ok_or_else(|| RunnerError::new("memory that cannot be written"))?;
        Value::writing(bytes, &shape, number)
    }

    /// Whether a run has written nothing to the memory.
    pub(super) fn is_untouched(&self) -> bool {
        self.tensor.bytes().starts_with(&MARK) && self.tensor.bytes().ends_with(&MARK)
    }
}

/// Returns the runtime's name for an element type that tensors of Carton have; `None` for strings, which are copied.
fn in_place(element: ElementType) -> Option<TensorElementType> {
    Some(match element.0 {
        1 => TensorElementType::Float32,
        2 => TensorElementType::Uint8,
        3 => TensorElementType::Int8,
        4 => TensorElementType::Uint16,
        5 => TensorElementType::Int16,
        6 => TensorElementType::Int32,
        7 => TensorElementType::Int64,
        9 => TensorElementType::Bool,
        10 => TensorElementType::Float16,
        11 => TensorElementType::Float64,
        12 => TensorElementType::Uint32,
        13 => TensorElementType::Uint64,
        16 => TensorElementType::Bfloat16,
        17 => TensorElementType::Float8E4M3FN,
        18 => TensorElementType::Float8E4M3FNUZ,
        19 => TensorElementType::Float8E5M2,
        20 => TensorElementType::Float8E5M2FNUZ,
        _ => return None,
    })
}

/// Returns the declared shape of an output, with the inputs' values for its symbols.
fn predicted_shape(output: &GraphValue, inputs: &[(&GraphValue, Given<'_>)]) -> Option<Vec<usize>> {
    let ValueKind::Tensor { shape: SymbolicShape::Dimensions(dimensions), .. } = &output.kind else { return None };
    dimensions
        .iter()
        .map(|dimension| match dimension {
            Dimension::Fixed(size) => usize::try_from(*size).ok(),
            Dimension::Symbol(symbol) => value_of(symbol, inputs),
            Dimension::Any => None,
        })
        .collect()
}

/// Returns the value of a symbol, if the inputs agree on one.
fn value_of(symbol: &str, inputs: &[(&GraphValue, Given<'_>)]) -> Option<usize> {
    let mut value = None;
    for (declared, given) in inputs {
        let ValueKind::Tensor { shape: SymbolicShape::Dimensions(dimensions), .. } = &declared.kind else { continue };
        let Given::Tensor(tensor) = given else { continue };
        for (dimension, size) in dimensions.iter().zip(tensor.shape()?) {
            let is_it = matches!(dimension, Dimension::Symbol(name) if name == symbol);
            if is_it && value.replace(*size).is_some_and(|before| before != *size) {
                return None;
            }
        }
    }
    value
}
