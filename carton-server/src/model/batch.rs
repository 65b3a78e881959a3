//! Joins the inputs of calls along their first dimension, and divides the outputs among the calls. Pure.

use std::sync::Arc;

use carton_core::tensor::{AlignedBytes, BytesTensor, Storage, VariableElement, VariableTensor};
use carton_core::{DataType, NumericTensor, StringTensor, Tensor, Tensors};

/// The size of the first dimension of these inputs. `None` if the call cannot be joined with any: an input is a scalar or nested, or the
/// first dimensions differ, which the check of the signature reports.
pub(crate) fn n_rows(inputs: &Tensors) -> Option<usize> {
    let mut sizes = inputs.values().map(|tensor| tensor.dtype().and(tensor.shape()?.first()));
    let first = *sizes.next()??;
    sizes.all(|size| size == Some(&first)).then_some(first)
}

/// Whether the inputs of two calls, each with a [number of rows](n_rows), can be joined: they have the same names, dtypes, and dimensions but
/// for the first.
pub(crate) fn can_join(a: &Tensors, b: &Tensors) -> bool {
    fn row_shape(tensor: &Tensor) -> Option<&[usize]> {
        tensor.shape()?.get(1..)
    }

    let mut pairs = a.iter().zip(b);
    a.len() == b.len()
        && pairs.all(|((a_name, a_tensor), (b_name, b_tensor))| {
            a_name == b_name && a_tensor.dtype() == b_tensor.dtype() && row_shape(a_tensor) == row_shape(b_tensor)
        })
}

/// The largest joined input, in bytes, that is made on the heap. A larger one is made in the memory that is shared with the runner.
const MAX_HEAP_BYTES: usize = 16 << 10;

/// The dtype and shape of the numbers of calls that are joined to `n_rows`. `None` for strings and bytes.
pub(crate) fn joined_shape(part: &Tensor, n_rows: usize) -> Option<(DataType, Vec<usize>)> {
    let mut shape = part.as_numeric()?.shape().to_vec();
    *shape.first_mut()? = n_rows;
    Some((part.dtype()?, shape))
}

/// Joins the tensors of one input of several calls that [can be joined](can_join). Numbers are written to `memory`, which the caller takes because it is
/// the runner's. `None` if they do not fit.
pub(crate) fn join(parts: &[&Tensor], memory: Option<NumericTensor>) -> Option<Tensor> {
    if let Some(mut numbers) = memory {
        fill(numbers.bytes_mut()?, parts)?;
        return Some(Tensor::Numeric(numbers));
    }
    match parts.first()? {
        Tensor::String(_) => {
            joined(parts.iter().map(|part| part.as_string()).collect::<Option<_>>()?).map(Tensor::String)
        }
        Tensor::Bytes(_) => joined(parts.iter().map(|part| part.as_bytes()).collect::<Option<_>>()?).map(Tensor::Bytes),
        _ => None,
    }
}

fn joined<T: VariableElement>(parts: Vec<&VariableTensor<T>>) -> Option<VariableTensor<T>> {
    let mut shape = parts.first()?.shape().to_vec();
    *shape.first_mut()? = parts.iter().filter_map(|part| part.shape().first()).sum();
    let elements = parts.iter().flat_map(|part| part.elements().iter().cloned()).collect();
    VariableTensor::new(elements, shape).ok()
}

/// Writes the bytes of the parts one after another.
fn fill(memory: &mut [u8], parts: &[&Tensor]) -> Option<()> {
    let mut rest = memory;
    for part in parts {
        let bytes = part.as_numeric()?.bytes();
        let (place, behind) = rest.split_at_mut_checked(bytes.len())?;
        place.copy_from_slice(bytes);
        rest = behind;
    }
    rest.is_empty().then_some(())
}

/// Whether a tensor of this size is passed in shared memory, and is best written there.
pub(crate) fn is_shared(n_bytes: usize) -> bool {
    n_bytes > MAX_HEAP_BYTES
}

/// A small tensor of zeros, to be filled.
pub(crate) fn on_heap(dtype: DataType, shape: Vec<usize>, n_bytes: usize) -> Option<NumericTensor> {
    NumericTensor::new(dtype, shape, Arc::new(AlignedBytes::try_zeroed(n_bytes)?)).ok()
}

/// Divides outputs among calls of these numbers of rows. `None` if an output has another number of rows than all calls together.
pub(crate) fn divide(outputs: &Tensors, n_rows: &[usize]) -> Option<Vec<Tensors>> {
    let total: usize = n_rows.iter().sum();
    let mut divided: Vec<Tensors> = n_rows.iter().map(|_| Tensors::new()).collect();
    for (name, tensor) in outputs {
        let (first, row) = tensor.shape()?.split_first()?;
        if *first != total {
            return None;
        }
        let mut start = 0;
        for (part, &n_rows) in divided.iter_mut().zip(n_rows) {
            let shape: Vec<usize> = std::iter::once(n_rows).chain(row.iter().copied()).collect();
            part.insert(name.clone(), rows(tensor, start, n_rows, shape)?);
            start += n_rows;
        }
    }
    Some(divided)
}

/// The rows `start..start + n_rows` of a tensor. Numbers are not copied.
fn rows(tensor: &Tensor, start: usize, n_rows: usize, shape: Vec<usize>) -> Option<Tensor> {
    let n_elements = |n_rows: usize| shape.iter().skip(1).try_fold(n_rows, |product, size| product.checked_mul(*size));
    match tensor {
        Tensor::Numeric(numbers) => {
            let (storage, offset): (&Arc<dyn Storage>, usize) = numbers.storage();
            let before = n_elements(start)?.checked_mul(numbers.dtype().size()?)?;
            let part = NumericTensor::with_offset(numbers.dtype(), shape.clone(), Arc::clone(storage), offset + before);
            part.ok().map(Tensor::Numeric)
        }
        Tensor::String(strings) => {
            let elements = strings.elements().get(n_elements(start)?..n_elements(start + n_rows)?)?;
            StringTensor::new(elements.to_vec(), shape.clone()).ok().map(Tensor::String)
        }
        Tensor::Bytes(bytes) => {
            let elements = bytes.elements().get(n_elements(start)?..n_elements(start + n_rows)?)?;
            BytesTensor::new(elements.to_vec(), shape.clone()).ok().map(Tensor::Bytes)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn call(x: &[f32], row: usize, s: &[&str]) -> Tensors {
        let x = Tensor::from_vec(x.to_vec(), vec![x.len() / row, row]).unwrap();
        Tensors::from([
            ("x".to_owned(), x),
            ("s".to_owned(), Tensor::from_strings(s.iter().copied(), vec![s.len()]).unwrap()),
        ])
    }

    #[test]
    fn calls_that_are_alike() {
        let (one, two) = (call(&[1.0, 2.0], 2, &["a"]), call(&[3.0, 4.0, 5.0, 6.0], 2, &["b", "c"]));
        let (other, invalid) = (call(&[1.0, 2.0, 3.0], 3, &["a"]), call(&[1.0, 2.0], 2, &["a", "b"]));
        assert!(can_join(&one, &two) && can_join(&two, &one));
        assert_eq!((n_rows(&one), n_rows(&two)), (Some(1), Some(2)));
        assert!(!can_join(&one, &other));
        let (mut fewer, mut renamed, mut retyped) = (one.clone(), one.clone(), one.clone());
        let x = fewer.remove("x").unwrap();
        let s = renamed.remove("s").unwrap();
        renamed.insert("t".to_owned(), s);
        retyped.insert("x".to_owned(), Tensor::from_vec(vec![1.0_f64, 2.0], vec![1, 2]).unwrap());
        for different in [&fewer, &renamed, &retyped] {
            assert!(!can_join(&one, different) && !can_join(different, &one));
        }
        assert_eq!(n_rows(&invalid), None);
        let nested = Tensor::nested(vec![Tensor::scalar(1_i32)]).unwrap();
        for tensor in [Tensor::scalar(1_i32), nested] {
            assert_eq!(n_rows(&Tensors::from([("x".to_owned(), x.clone()), ("y".to_owned(), tensor.clone())])), None);
            assert_eq!(n_rows(&Tensors::from([("x".to_owned(), tensor)])), None);
        }
        assert_eq!(n_rows(&Tensors::new()), None);
    }

    #[test]
    fn joined_and_divided() {
        let calls = [call(&[1.0, 2.0], 2, &["a"]), call(&[3.0, 4.0, 5.0, 6.0], 2, &["b", "c"])];
        let mut joined = Tensors::new();
        for name in ["x", "s"] {
            let parts: Vec<&Tensor> = calls.iter().map(|call| &call[name]).collect();
            let memory = joined_shape(parts[0], 3).map(|(dtype, shape)| on_heap(dtype, shape, 24).unwrap());
            assert_eq!(memory.is_some(), name == "x");
            let tensor = join(&parts, memory).unwrap();
            joined.insert(name.to_owned(), tensor);
        }
        assert_eq!(joined, call(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2, &["a", "b", "c"]));
        assert_eq!(divide(&joined, &[1, 2]).unwrap(), calls);
        assert_eq!(divide(&joined, &[1, 1]), None);
    }

    #[test]
    fn bytes_are_joined_and_divided() {
        let bytes = |elements: &[u8]| {
            Tensor::from_bytes(elements.iter().map(|byte| vec![*byte]), vec![elements.len()]).unwrap()
        };
        let joined = join(&[&bytes(&[255]), &bytes(&[1, 2])], None).unwrap();
        assert_eq!(joined, bytes(&[255, 1, 2]));
        let named = |tensor: Tensor| Tensors::from([("x".to_owned(), tensor)]);
        assert_eq!(divide(&named(joined), &[1, 2]).unwrap(), [named(bytes(&[255])), named(bytes(&[1, 2]))]);
    }

    #[test]
    fn memory_of_another_size_is_not_filled() {
        let tensor = Tensor::from_vec(vec![1_u8, 2], vec![2]).unwrap();
        assert_eq!(fill(&mut [0; 1], &[&tensor]), None);
        assert_eq!(fill(&mut [0; 3], &[&tensor]), None);
    }
}
