//! Outputs that the runtime writes straight into memory of the pool.
//!
//! That memory has to be there before the run, so the shape must be known before: it is where the model declares it in sizes
//! and in symbols that the inputs have too. What a model declares may be wrong. So an output is bound only after a run whose
//! output had the shape that was foretold; the runtime refuses to write an output of another shape than that of the memory
//! given; and after each run it is looked at whether anything was written at all, since an output that is also an input, or a
//! constant, comes back as another value than the one given. Whatever goes wrong, the run is repeated without.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};

use carton_runner_interface::runner::RunnerError;
use carton_tensor::{Dimension, NumericTensor, SymbolicShape, Tensor};
use ort::session::Session;
use ort::value::{TensorElementType, ValueType};

use super::element::number;
use super::value::Value;
use crate::element_type::ElementType;
use crate::engine::Allocate;
use crate::model_file::{GraphValue, ValueKind};

/// Smaller outputs travel inside the answer: they are copied in any case, and it costs nothing.
const SMALLEST: usize = 16 << 10;

/// What stands at both ends of the memory before a run, which hardly an output ends with.
const MARK: [u8; 16] = *b"\xd3\x1e\x9b\x06not written\x97";

/// What is known of an output.
const UNKNOWN: u8 = 0;
const AS_FORETOLD: u8 = 1;
const NOT_BOUND: u8 = 2;

/// What the outputs of a session are known to be.
#[derive(Debug, Default)]
pub(super) struct Bindable {
    outputs: BTreeMap<String, AtomicU8>,
}

/// Memory for an output.
pub(super) struct Bound {
    pub(super) tensor: NumericTensor,
    pub(super) element: ElementType,
}

impl Bindable {
    /// Those whose type the runtime sees as the file declares it.
    pub(super) fn of(session: &Session, declared: &[GraphValue]) -> Self {
        let mut outputs = BTreeMap::new();
        for output in session.outputs() {
            let Some(value) = declared.iter().find(|value| value.name == output.name()) else { continue };
            if let (ValueKind::Tensor { element, .. }, ValueType::Tensor { ty, .. }) = (&value.kind, output.dtype())
                && in_place(*element).is_some_and(|expected| expected == *ty)
            {
                outputs.insert(value.name.clone(), AtomicU8::new(UNKNOWN));
            }
        }
        Self { outputs }
    }

    /// The shape that an output should have, by what the inputs are.
    pub(super) fn foretell(&self, output: &GraphValue, inputs: &[(&GraphValue, &Tensor)]) -> Option<Vec<usize>> {
        if self.state(output)?.load(Ordering::Relaxed) == NOT_BOUND {
            return None;
        }
        foretold(output, inputs)
    }

    /// Memory for an output of a shape that was foretold before and turned out so.
    pub(super) fn allocate(&self, output: &GraphValue, shape: &[usize], allocate: Allocate<'_>) -> Option<Bound> {
        if self.state(output)?.load(Ordering::Relaxed) != AS_FORETOLD {
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

    /// Remembers whether the first output had the shape that was foretold.
    pub(super) fn learn(&self, output: &GraphValue, foretold: &[usize], found: Option<&[usize]>) {
        if let Some(state) = self.state(output) {
            let known = if found == Some(foretold) { AS_FORETOLD } else { NOT_BOUND };
            // What was given up stays so: its shape may be right.
            let _ = state.compare_exchange(UNKNOWN, known, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Remembers that an output cannot be bound.
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
    /// The memory as the runtime takes it.
    pub(super) fn value(&mut self) -> Result<Value<'_>, RunnerError> {
        let number = number(self.element).ok_or_else(|| RunnerError::new("an element type without a number"))?;
        let shape = self.tensor.shape().to_vec();
        let bytes = self.tensor.bytes_mut().ok_or_else(|| RunnerError::new("memory that cannot be written"))?;
        Value::writing(bytes, &shape, number)
    }

    /// Whether a run left the memory as it was.
    pub(super) fn is_untouched(&self) -> bool {
        self.tensor.bytes().starts_with(&MARK) && self.tensor.bytes().ends_with(&MARK)
    }
}

/// The runtime's name for an element type that tensors of Carton carry as it is.
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
        11 => TensorElementType::Float64,
        12 => TensorElementType::Uint32,
        13 => TensorElementType::Uint64,
        _ => return None,
    })
}

/// The declared shape of an output with the symbols that the inputs give values to.
fn foretold(output: &GraphValue, inputs: &[(&GraphValue, &Tensor)]) -> Option<Vec<usize>> {
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

/// The value of a symbol, if the inputs agree on one.
fn value_of(symbol: &str, inputs: &[(&GraphValue, &Tensor)]) -> Option<usize> {
    let mut value = None;
    for (declared, tensor) in inputs {
        let ValueKind::Tensor { shape: SymbolicShape::Dimensions(dimensions), .. } = &declared.kind else { continue };
        for (dimension, size) in dimensions.iter().zip(tensor.shape()?) {
            let is_it = matches!(dimension, Dimension::Symbol(name) if name == symbol);
            if is_it && value.replace(*size).is_some_and(|before| before != *size) {
                return None;
            }
        }
    }
    value
}
