//! Access to the elements of a numeric tensor of any type and alignment.

use std::borrow::Cow;

use carton_tensor::{Element, NumericTensor};

/// Returns the elements, borrowed if their alignment allows it. Empty if `T` is not the tensor's element type.
pub(super) fn elements<T: Element>(tensor: &NumericTensor) -> Cow<'_, [T]> {
    match tensor.as_slice::<T>() {
        Ok(elements) => Cow::Borrowed(elements),
        Err(_) => Cow::Owned(tensor.to_vec::<T>().unwrap_or_default()),
    }
}

/// Evaluates an expression with `$elements` bound to the elements of a tensor of numbers or booleans, in their Rust type.
macro_rules! with_elements {
    ($tensor:expr, $elements:ident => $body:expr, else $otherwise:expr) => {
        carton_tensor::with_element!($tensor.dtype(), T => {
            let $elements = $crate::tensors::elements::elements::<T>($tensor);
            $body
        }, else $otherwise)
    };
}

pub(super) use with_elements;
