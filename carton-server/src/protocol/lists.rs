//! Lists of tensors, as the protocol can say them: it has tensors alone (spec/serving.md §3). Pure.
//!
//! A list of tensors of one shape is one tensor with one more dimension. Any other list is a tensor of all elements, and one of the shapes.

use carton_core::metadata::TensorSpec;
use carton_core::tensor::BytesTensor;
use carton_core::{DataType, Dimension, NestedTensor, NumericTensor, StringTensor, SymbolicShape, Tensor, Tensors};

use super::datatype::InputTypes;
use super::parameter::Place;
use crate::failure::{Failure, Reason};

/// What the name of the shapes ends in, after that of the list. No leaf of a structured value has such a name (spec/structured-values.md).
const SHAPES: &str = ".#shapes";

/// The memory that a tensor of a list takes beside its elements, about.
const TENSOR_BYTES: usize = 128;

/// The name under which the shapes of a list are sent.
pub(crate) fn shapes_name(list: &str) -> String {
    format!("{list}{SHAPES}")
}

/// Makes lists of the inputs that come as elements and shapes. `claim` is called with the memory that each takes, and refuses what is too
/// much.
///
/// # Errors
/// The shapes are not of whole numbers, or say another number of elements than there are.
pub(crate) fn gather(
    declared: &InputTypes,
    inputs: &mut Tensors,
    claim: &mut dyn FnMut(usize) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let of_list = |name: &String| match declared.contains_key(name) {
        true => None,
        false => name.strip_suffix(SHAPES).filter(|list| inputs.contains_key(*list)).map(str::to_owned),
    };
    let lists: Vec<String> = inputs.keys().filter_map(of_list).collect();
    for name in lists {
        let (Some(elements), Some(shapes)) = (inputs.remove(&name), inputs.remove(&shapes_name(&name))) else {
            continue;
        };
        let list = list(&name, &elements, &shapes, claim)?;
        inputs.insert(name, list.into());
    }
    Ok(())
}

fn list(
    name: &str,
    elements: &Tensor,
    shapes: &Tensor,
    claim: &mut dyn FnMut(usize) -> Result<(), Failure>,
) -> Result<NestedTensor, Failure> {
    let place = Place::input(name);
    let invalid = |reason: &str| Failure::invalid(format!("{place}: {reason}"));
    let sizes = shapes.as_numeric().filter(|numbers| numbers.dtype() == DataType::Int64);
    let (Some(sizes), Some(&[n_tensors, rank])) = (sizes, shapes.shape()) else {
        return Err(invalid("expected the shapes of a list as INT64 of two dimensions, one row for each tensor"));
    };
    let sizes = sizes.to_vec::<i64>().map_err(|error| invalid(&error.to_string()))?;
    let sizes: Vec<usize> = sizes
        .into_iter()
        .map(usize::try_from)
        .collect::<Result<_, _>>()
        .map_err(|_| invalid("the shapes of its tensors have a negative size"))?;
    // Scalars have no sizes, and each is an element: of more than there are, those beyond are not made.
    let n_bounded =
        if rank == 0 { n_tensors.min(elements.shape().map_or(0, |shape| shape.iter().product())) } else { n_tensors };
    claim(n_bounded.saturating_mul(TENSOR_BYTES + rank * size_of::<usize>()))?;
    let shapes = (0..n_tensors).map(|tensor| sizes[tensor * rank..(tensor + 1) * rank].to_vec());
    let list = NestedTensor::of_shapes(elements, shapes).map_err(|error| invalid(&error.to_string()))?;
    list.ok_or_else(|| invalid("the shapes of its tensors need another number of elements than there are"))
}

/// What stands for a list in an answer: a tensor, and the shapes of the tensors if they differ.
///
/// # Errors
/// The tensors differ in their number of dimensions, there are none and the model does not declare what they are, or there is no memory.
pub(crate) fn scatter(
    name: &str,
    list: &NestedTensor,
    declared: Option<&TensorSpec>,
) -> Result<(Tensor, Option<Tensor>), Failure> {
    let failed = |reason: String| Failure::new(Reason::Model, format!("{} {reason}", Place::output(name)));
    let unwritable = |error: carton_core::TensorError| failed(format!("cannot be written: {error}"));
    if list.elements().is_empty() {
        let empty = declared.and_then(empty).ok_or_else(|| {
            failed(
                "is an empty list of tensors, and the model does not declare their dtype and number of dimensions"
                    .to_owned(),
            )
        })?;
        return Ok((empty.map_err(unwritable)?, None));
    }
    if let Some(stacked) = list.stacked().map_err(unwritable)? {
        return Ok((stacked, None));
    }
    let shapes: Vec<&[usize]> = list.elements().iter().filter_map(Tensor::shape).collect();
    let rank = shapes.first().map_or(0, |shape| shape.len());
    if shapes.iter().any(|shape| shape.len() != rank) {
        return Err(failed(
            "is a list of tensors with different numbers of dimensions, which the protocol cannot carry".to_owned(),
        ));
    }
    let sizes = shapes.iter().flat_map(|shape| shape.iter()).map(|size| i64::try_from(*size).unwrap_or(i64::MAX));
    let shapes = Tensor::from_vec(sizes.collect(), vec![shapes.len(), rank]).map_err(unwritable)?;
    let flat = list.flattened().map_err(unwritable)?;
    flat.map(|flat| (flat, Some(shapes))).ok_or_else(|| failed("is an empty list of tensors".to_owned()))
}

/// The tensor for an empty list: of the declared sizes where these are fixed, and of size 0 in the first and the other dimensions.
fn empty(declared: &TensorSpec) -> Option<Result<Tensor, carton_core::TensorError>> {
    let SymbolicShape::Dimensions(dimensions) = &declared.shape else { return None };
    let rest = dimensions.iter().skip(1).map(|dimension| match dimension {
        Dimension::Fixed(size) => usize::try_from(*size).unwrap_or(0),
        Dimension::Any | Dimension::Symbol(_) => 0,
    });
    let shape: Vec<usize> = std::iter::once(0).chain(rest).collect();
    Some(match declared.dtype {
        DataType::String => StringTensor::new(Vec::new(), shape).map(Tensor::from),
        DataType::Bytes => BytesTensor::new(Vec::new(), shape).map(Tensor::from),
        dtype => NumericTensor::zeroed(dtype, shape).map(Tensor::from),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn floats(shape: &[usize]) -> Tensor {
        let n_elements: usize = shape.iter().product();
        Tensor::from_vec((0..n_elements).map(|element| element as f32).collect(), shape.to_vec()).unwrap()
    }

    fn nested(elements: Vec<Tensor>) -> NestedTensor {
        NestedTensor::new(elements).unwrap()
    }

    #[test]
    fn lists_there_and_back() {
        let check = |elements: Vec<Tensor>, shape: &[usize], shapes: Option<(&[i64], &[usize])>| {
            let list = nested(elements);
            let (tensor, found) = scatter("x", &list, None).unwrap();
            assert_eq!(tensor.shape(), Some(shape));
            let expected = shapes.map(|(sizes, shape)| Tensor::from_vec(sizes.to_vec(), shape.to_vec()).unwrap());
            assert_eq!(found, expected);
            let Some(shapes) = found else { return };
            let mut inputs = Tensors::from([("x".to_owned(), tensor), (shapes_name("x"), shapes)]);
            gather(&InputTypes::new(), &mut inputs, &mut |_| Ok(())).unwrap();
            assert_eq!(inputs, Tensors::from([("x".to_owned(), list.into())]));
        };
        check(vec![floats(&[1, 4]), floats(&[3, 4])], &[16], Some((&[1, 4, 3, 4], &[2, 2])));
        check(vec![floats(&[0]), floats(&[2])], &[2], Some((&[0, 2], &[2, 1])));
        check(vec![floats(&[2, 4]), floats(&[2, 4])], &[2, 2, 4], None);
        let texts = |texts: &[&str]| Tensor::from_strings(texts.to_vec(), vec![texts.len()]).unwrap();
        check(vec![texts(&["a"]), texts(&["b", "c"])], &[3], Some((&[1, 2], &[2, 1])));
    }

    #[test]
    fn empty_lists_need_a_declaration() {
        let check = |dtype, shape: &str, expected: &[usize]| {
            let spec = TensorSpec::new("x", dtype, serde_json::from_str(shape).unwrap());
            let (tensor, shapes) = scatter("x", &nested(Vec::new()), Some(&spec)).unwrap();
            assert_eq!((tensor.dtype(), tensor.shape(), shapes), (Some(dtype), Some(expected), None));
        };
        check(DataType::Float32, r#"["*", "n", 4]"#, &[0, 0, 4]);
        check(DataType::String, r#"["*", 2]"#, &[0, 2]);
        check(DataType::Bytes, r#"["*"]"#, &[0]);
        let error = scatter("x", &nested(Vec::new()), None).unwrap_err().message;
        assert!(error.starts_with("output `x` is an empty list of tensors, and the model does not declare"), "{error}");
    }

    #[test]
    fn what_is_refused() {
        let error = scatter("x", &nested(vec![floats(&[1]), floats(&[1, 2])]), None).unwrap_err();
        assert!(error.message.contains("different numbers of dimensions"), "{error:?}");
        let check = |elements: Tensor, shapes: Tensor, expected: &str| {
            let mut inputs = Tensors::from([("x".to_owned(), elements), (shapes_name("x"), shapes)]);
            let error = gather(&InputTypes::new(), &mut inputs, &mut |_| Ok(())).unwrap_err();
            assert!(error.message.starts_with(&format!("input `x`: {expected}")), "{error:?}");
        };
        let sizes = |sizes: &[i64], shape: &[usize]| Tensor::from_vec(sizes.to_vec(), shape.to_vec()).unwrap();
        check(floats(&[2]), floats(&[1, 1]), "expected the shapes of a list as INT64");
        check(floats(&[2]), sizes(&[2], &[1]), "expected the shapes of a list as INT64");
        check(floats(&[2]), sizes(&[-1], &[1, 1]), "the shapes of its tensors have a negative size");
        check(floats(&[2]), sizes(&[1], &[1, 1]), "the shapes of its tensors need another number");
        check(floats(&[2]), sizes(&[i64::MAX, i64::MAX], &[1, 2]), "the shapes of its tensors need another number");
        check(floats(&[2]), sizes(&[], &[1 << 40, 0]), "the shapes of its tensors need another number");
    }

    #[test]
    fn names_that_the_model_declares_are_no_shapes() {
        let mut inputs = Tensors::from([("x".to_owned(), floats(&[1])), (shapes_name("x"), floats(&[1, 1]))]);
        let expected = inputs.clone();
        gather(&InputTypes::from([(shapes_name("x"), DataType::Float32)]), &mut inputs, &mut |_| Ok(())).unwrap();
        assert_eq!(inputs, expected);
        // Shapes of nothing are an input that the signature does not have.
        let mut inputs = Tensors::from([(shapes_name("y"), floats(&[1, 1]))]);
        gather(&InputTypes::new(), &mut inputs, &mut |_| Ok(())).unwrap();
        assert_eq!(inputs.len(), 1);
    }
}
