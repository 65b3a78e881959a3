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

/// Evaluates an expression with `$elements` bound to the elements of a numeric tensor in their Rust type.
macro_rules! with_elements {
    ($tensor:expr, $elements:ident => $body:expr, else $otherwise:expr) => {{
        use carton_tensor::DataType;
        use $crate::tensors::elements::elements;
        match $tensor.dtype() {
            DataType::Float32 => {
                let $elements = elements::<f32>($tensor);
                $body
            }
            DataType::Float64 => {
                let $elements = elements::<f64>($tensor);
                $body
            }
            DataType::Int8 => {
                let $elements = elements::<i8>($tensor);
                $body
            }
            DataType::Int16 => {
                let $elements = elements::<i16>($tensor);
                $body
            }
            DataType::Int32 => {
                let $elements = elements::<i32>($tensor);
                $body
            }
            DataType::Int64 => {
                let $elements = elements::<i64>($tensor);
                $body
            }
            DataType::Uint8 => {
                let $elements = elements::<u8>($tensor);
                $body
            }
            DataType::Uint16 => {
                let $elements = elements::<u16>($tensor);
                $body
            }
            DataType::Uint32 => {
                let $elements = elements::<u32>($tensor);
                $body
            }
            DataType::Uint64 => {
                let $elements = elements::<u64>($tensor);
                $body
            }
            _ => $otherwise,
        }
    }};
}

pub(super) use with_elements;
