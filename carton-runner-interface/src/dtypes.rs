//! The dtypes that a peer takes (spec/runner-protocol.md, "Hello"), and tensors in a form that it takes.

use carton_tensor::{CastError, DataType, Dimension, SymbolicShape, Tensors, carried, restored};

use crate::model::DeclaredTensor;

/// A tensor that no peer takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tensor `{name}` cannot be sent")]
pub struct NotTaken {
    /// Its name.
    pub name: String,
    /// The element that is no value of its dtype.
    pub source: CastError,
}

/// A set of dtypes, which has those of format v1 in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dtypes(u32);

impl Default for Dtypes {
    fn default() -> Self {
        Self::from_iter([])
    }
}

impl FromIterator<DataType> for Dtypes {
    fn from_iter<I: IntoIterator<Item = DataType>>(dtypes: I) -> Self {
        Self(DataType::V1.into_iter().chain(dtypes).fold(0, |set, dtype| set | bit(dtype)))
    }
}

/// A bit for each dtype; there are fewer than 32.
fn bit(dtype: DataType) -> u32 {
    1 << (dtype as u32)
}

impl Dtypes {
    /// The set that the field `dtypes` of a hello states. Names that this version does not know mean nothing.
    pub(crate) fn of_names(names: &[String]) -> Self {
        names.iter().filter_map(|name| name.parse().ok()).collect()
    }

    /// What the field `dtypes` says of these dtypes: the names of those that format v1 lacks.
    pub(crate) fn names(dtypes: &[DataType]) -> Vec<String> {
        dtypes.iter().filter(|dtype| dtype.carrier() != **dtype).map(|dtype| dtype.name().to_owned()).collect()
    }

    pub(crate) fn contains(self, dtype: DataType) -> bool {
        self.0 & bit(dtype) != 0
    }

    /// Replaces the tensors of dtypes that the peer does not take by their carriers.
    ///
    /// # Errors
    /// A boolean that is neither 0 nor 1, which no peer takes.
    pub(crate) fn carry(self, tensors: &mut Tensors) -> Result<(), NotTaken> {
        for (name, tensor) in tensors {
            let not_taken = |source| NotTaken { name: name.clone(), source };
            if tensor.dtype() == Some(DataType::Bool) {
                carried(tensor).and_then(|bytes| restored(&bytes, DataType::Bool)).map_err(not_taken)?;
            }
            if tensor.dtype().is_some_and(|dtype| !self.contains(dtype)) {
                *tensor = carried(tensor).map_err(not_taken)?;
            }
        }
        Ok(())
    }

    /// Declares tensors as their carriers, where the peer does not take their dtypes.
    pub(crate) fn declare(self, declared: &mut [DeclaredTensor]) {
        for tensor in declared.iter_mut().filter(|tensor| !self.contains(tensor.dtype)) {
            if let SymbolicShape::Dimensions(dimensions) = &mut tensor.shape
                && tensor.dtype.is_complex()
            {
                dimensions.push(Dimension::Fixed(2));
            }
            tensor.dtype = tensor.dtype.carrier();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use carton_tensor::{BoolByte, Tensor};

    use super::*;

    #[test]
    fn what_a_peer_does_not_take_is_carried() {
        let mask = Tensor::from_vec(vec![BoolByte(1)], vec![1]).unwrap();
        let half = Tensor::scalar(carton_tensor::f16::ONE);
        let mut tensors = Tensors::from([("half".to_owned(), half.clone()), ("mask".to_owned(), mask.clone())]);
        let names = ["float16".to_owned(), "of a later version".to_owned()];
        Dtypes::of_names(&names).carry(&mut tensors).unwrap();
        assert_eq!(tensors["half"], half);
        assert_eq!(tensors["mask"], Tensor::from_vec(vec![1_u8], vec![1]).unwrap());
        assert_eq!(Dtypes::names(&DataType::ALL).len(), DataType::ALL.len() - DataType::V1.len());
        assert!(DataType::V1.into_iter().all(|dtype| Dtypes::default().contains(dtype)));
    }

    #[test]
    fn declarations_name_carriers_too() {
        let shape = SymbolicShape::Dimensions(vec![Dimension::Any]);
        let mut declared = [DataType::Complex64, DataType::Int8].map(|dtype| DeclaredTensor {
            name: "x".to_owned(),
            dtype,
            shape: shape.clone(),
            internal_name: None,
        });
        Dtypes::default().declare(&mut declared);
        let pairs = SymbolicShape::Dimensions(vec![Dimension::Any, Dimension::Fixed(2)]);
        assert_eq!(
            declared.map(|tensor| (tensor.dtype, tensor.shape)),
            [(DataType::Float32, pairs), (DataType::Int8, shape)]
        );
    }
}
