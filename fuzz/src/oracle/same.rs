//! Whether two tensors are identical: kind, type, shape and bytes.

use carton_tensor::Tensor;

/// Whether the tensors are identical. NaNs with the same bits are.
pub(super) fn is_same(one: &Tensor, other: &Tensor) -> bool {
    match (one, other) {
        (Tensor::Numeric(one), Tensor::Numeric(other)) => {
            (one.dtype(), one.shape(), one.bytes()) == (other.dtype(), other.shape(), other.bytes())
        }
        (Tensor::String(one), Tensor::String(other)) => one == other,
        (Tensor::Nested(one), Tensor::Nested(other)) => {
            let (one, other) = (one.elements(), other.elements());
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        _ => false,
    }
}
