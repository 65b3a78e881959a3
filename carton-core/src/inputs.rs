//! The inputs of a call, as callers pass them: tensors by name, or in the order that the carton declares.

use std::collections::{BTreeMap, HashMap};

use carton_format::metadata::TensorSpec;
use carton_format::signature;
use carton_runner_interface::Tensors;
use carton_tensor::Tensor;

use crate::error::Error;

/// The inputs of one call.
///
/// ```
/// use carton_core::Inputs;
/// use carton_tensor::NumericTensor;
///
/// let tensor = NumericTensor::from_vec(vec![1.0_f32, 2.0], vec![2])?;
/// let by_name = Inputs::from([("x", tensor.clone())]);
/// let numbered: Inputs = (0..3).map(|i| (format!("x{i}"), tensor.clone())).collect();
/// let in_declared_order = Inputs::from(vec![tensor]);
/// # let _ = (by_name, numbered, in_declared_order);
/// # Ok::<(), carton_tensor::TensorError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Inputs {
    /// Tensors by the input names that the carton declares.
    Named(BTreeMap<String, Tensor>),
    /// Tensors in the order in which the carton declares its inputs.
    Positional(Vec<Tensor>),
}

impl Inputs {
    /// No inputs, for models that take none.
    #[must_use]
    pub fn none() -> Self {
        Self::Named(BTreeMap::new())
    }
}

/// Casts tensors to the dtypes of the declared inputs, where no value changes but floats that are rounded to shorter ones. Tensors that are
/// not declared stay unchanged. Of several declarations with one name, the first applies.
///
/// # Errors
/// The first tensor with an element that the declared dtype cannot hold.
pub fn cast_inputs<'specs>(
    declared: impl IntoIterator<Item = &'specs TensorSpec>,
    tensors: Tensors,
) -> Result<Tensors, Error> {
    Ok(signature::cast_inputs(declared, tensors)?)
}

impl<T: Into<Tensor>> From<Vec<T>> for Inputs {
    fn from(tensors: Vec<T>) -> Self {
        Self::Positional(tensors.into_iter().map(Into::into).collect())
    }
}

impl<N: Into<String>, T: Into<Tensor>> FromIterator<(N, T)> for Inputs {
    fn from_iter<I: IntoIterator<Item = (N, T)>>(tensors: I) -> Self {
        Self::Named(tensors.into_iter().map(|(name, tensor)| (name.into(), tensor.into())).collect())
    }
}

impl<T: Into<Tensor>> From<BTreeMap<String, T>> for Inputs {
    fn from(tensors: BTreeMap<String, T>) -> Self {
        tensors.into_iter().collect()
    }
}

impl<T: Into<Tensor>> From<HashMap<String, T>> for Inputs {
    fn from(tensors: HashMap<String, T>) -> Self {
        tensors.into_iter().collect()
    }
}

impl<N: Into<String>, T: Into<Tensor>, const COUNT: usize> From<[(N, T); COUNT]> for Inputs {
    fn from(tensors: [(N, T); COUNT]) -> Self {
        tensors.into_iter().collect()
    }
}
