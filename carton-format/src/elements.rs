//! The dtypes that files of version 1 name, and how `element` beside `dtype` says the others (spec/carton-format-extensions.md, "What
//! elements are").

use carton_tensor::{DataType, Dimension, SymbolicShape};

/// The dtype of version 1 with this name.
pub(crate) fn v1_dtype(name: &str) -> Option<DataType> {
    DataType::V1.into_iter().find(|dtype| dtype.name() == name)
}

/// The names of the dtypes of version 1, for errors.
pub(crate) fn v1_names() -> String {
    DataType::V1.map(DataType::name).join(", ")
}

/// The shape that is written for a tensor of `dtype`: that of its carrier. Complex numbers are pairs there, in one more dimension.
pub(crate) fn carrier_shape(dtype: DataType, shape: &SymbolicShape) -> SymbolicShape {
    match shape {
        SymbolicShape::Dimensions(dimensions) if dtype.is_complex() => {
            let pair = std::iter::once(Dimension::Fixed(2));
            SymbolicShape::Dimensions(dimensions.iter().cloned().chain(pair).collect())
        }
        // A whole shape without dimensions says the same of both.
        shape => shape.clone(),
    }
}

/// The shape of the tensor itself, of that of its carrier; `None` if no carrier of `dtype` has the shape.
pub(crate) fn native_shape(dtype: DataType, shape: SymbolicShape) -> Option<SymbolicShape> {
    match shape {
        SymbolicShape::Dimensions(mut dimensions) if dtype.is_complex() => {
            (dimensions.pop() == Some(Dimension::Fixed(2))).then_some(SymbolicShape::Dimensions(dimensions))
        }
        shape => Some(shape),
    }
}
