//! Lists of tensors, as the protocol can say them: it has tensors alone (spec/serving.md §3). Pure.
//!
//! A list of tensors of one shape is one tensor with one more dimension. Any other list is a tensor of all elements, and one of the shapes.

use carton_core::metadata::TensorSpec;
use carton_core::tensor::BytesTensor;
use carton_core::{DataType, Dimension, NestedTensor, NumericTensor, StringTensor, SymbolicShape, Tensor, Tensors};

use super::datatype::InputTypes;
use super::parameter::Place;
use crate::failure::{Failure, Reason};
use crate::model::call::tensor_n_bytes;

/// What the name of the shapes ends in, after that of the list. No leaf of a structured value has such a name (spec/structured-values.md).
const SHAPES: &str = ".#shapes";

/// The memory that a tensor of a list takes beside its elements, about.
const TENSOR_BYTES: usize = 128;

/// The name under which the shapes of a list are sent.
pub(crate) fn shapes_name(list: &str) -> String {
    format!("{list}{SHAPES}")
}

/// The inputs that are the elements of lists, each with its shapes. A name that the model declares is that of an input of its own.
fn lists<'a>(declared: &'a InputTypes, inputs: &'a Tensors) -> impl Iterator<Item = (&'a str, &'a Tensor, &'a Tensor)> {
    let shapes = inputs.iter().filter(|(name, _)| !declared.contains_key(*name));
    shapes.filter_map(|(name, shapes)| {
        let list = name.strip_suffix(SHAPES)?;
        Some((list, inputs.get(list)?, shapes))
    })
}

/// The bytes that [`make_lists`] will take; `None` if no input is a list.
pub(crate) fn n_bytes(declared: &InputTypes, inputs: &Tensors) -> Option<usize> {
    let of_list = |(_, elements, shapes): (&str, &Tensor, &Tensor)| {
        let Some(&[n_tensors, rank]) = shapes.shape() else { return 0 };
        // Scalars have no sizes, and each is an element: of more than there are, those beyond are not made.
        let n_elements =
            elements.shape().unwrap_or_default().iter().fold(1, |product: usize, size| product.saturating_mul(*size));
        let n_tensors = if rank == 0 { n_tensors.min(n_elements) } else { n_tensors };
        // The sizes are read into one list, and then into the shape of each tensor.
        let tensor_bytes = rank.saturating_mul(2 * size_of::<usize>()).saturating_add(TENSOR_BYTES);
        // Numbers stay where they are; texts and bytes are copied.
        let copied = if elements.as_numeric().is_some() { 0 } else { tensor_n_bytes(elements) };
        n_tensors.saturating_mul(tensor_bytes).saturating_add(copied)
    };
    lists(declared, inputs).map(of_list).reduce(usize::saturating_add)
}

/// Makes lists of the inputs that come as elements and shapes.
///
/// # Errors
/// The shapes are not of whole numbers, or say another number of elements than there are.
pub(crate) fn make_lists(declared: &InputTypes, inputs: &mut Tensors) -> Result<(), Failure> {
    let names: Vec<String> = lists(declared, inputs).map(|(list, ..)| list.to_owned()).collect();
    for name in names {
        let shapes_name = shapes_name(&name);
        // The shapes of a list that was made are no list, whatever was sent as their shapes.
        let (Some(elements), Some(shapes)) = (inputs.get(&name), inputs.get(&shapes_name)) else { continue };
        let list = list(&name, elements, shapes)?;
        inputs.remove(&shapes_name);
        inputs.insert(name, list.into());
    }
    Ok(())
}

fn list(name: &str, elements: &Tensor, shapes: &Tensor) -> Result<NestedTensor, Failure> {
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
    let shapes = (0..n_tensors).map(|tensor| sizes[tensor * rank..(tensor + 1) * rank].to_vec());
    let list = NestedTensor::of_shapes(elements, shapes).map_err(|error| invalid(&error.to_string()))?;
    list.ok_or_else(|| invalid("the shapes of its tensors need another number of elements than there are"))
}

/// What stands for a list in an answer: a tensor, and the shapes of the tensors if they differ.
///
/// # Errors
/// The tensors of the list differ in their number of dimensions; the list is empty and the model does not declare its dtype; or the memory
/// for the answer cannot be had.
pub(crate) fn tensors_of(
    name: &str,
    list: &NestedTensor,
    declared: Option<&TensorSpec>,
) -> Result<(Tensor, Option<Tensor>), Failure> {
    let failed = |reason: String| Failure::new(Reason::Model, format!("{} {reason}", Place::output(name)));
    let unwritable = |error: carton_core::TensorError| failed(format!("cannot be written: {error}"));
    if list.elements().is_empty() {
        let declared = declared.ok_or_else(|| {
            failed("is an empty list of tensors, and the model does not declare their dtype".to_owned())
        })?;
        return empty(declared).map_err(unwritable);
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
    let sizes: Result<Vec<i64>, _> =
        shapes.iter().flat_map(|shape| shape.iter()).map(|size| i64::try_from(*size)).collect();
    let sizes = sizes.map_err(|_| failed("is a list of tensors with a size of more than 63 bits".to_owned()))?;
    let shapes = Tensor::from_vec(sizes, vec![shapes.len(), rank]).map_err(unwritable)?;
    let flat = list.flattened().map_err(unwritable)?;
    flat.map(|flat| (flat, Some(shapes))).ok_or_else(|| failed("is a list of lists".to_owned()))
}

/// What stands for an empty list: a tensor of the declared sizes where these are fixed, and of size 0 in the first and the other dimensions.
/// Where no dimensions are declared, no elements and no shapes.
fn empty(declared: &TensorSpec) -> Result<(Tensor, Option<Tensor>), carton_core::TensorError> {
    let (shape, shapes) = match &declared.shape {
        SymbolicShape::Dimensions(dimensions) => {
            let rest = dimensions.iter().skip(1).map(|dimension| match dimension {
                Dimension::Fixed(size) => usize::try_from(*size).unwrap_or(0),
                Dimension::Any | Dimension::Symbol(_) => 0,
            });
            (std::iter::once(0).chain(rest).collect(), None)
        }
        _ => (vec![0], Some(Tensor::from_vec(Vec::<i64>::new(), vec![0, 0])?)),
    };
    let elements = match declared.dtype {
        DataType::String => StringTensor::new(Vec::new(), shape)?.into(),
        DataType::Bytes => BytesTensor::new(Vec::new(), shape)?.into(),
        dtype => NumericTensor::zeroed(dtype, shape)?.into(),
    };
    Ok((elements, shapes))
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
            let (tensor, found) = tensors_of("x", &list, None).unwrap();
            assert_eq!(tensor.shape(), Some(shape));
            let expected = shapes.map(|(sizes, shape)| Tensor::from_vec(sizes.to_vec(), shape.to_vec()).unwrap());
            assert_eq!(found, expected);
            let Some(shapes) = found else { return };
            let mut inputs = Tensors::from([("x".to_owned(), tensor), (shapes_name("x"), shapes)]);
            assert!(n_bytes(&InputTypes::new(), &inputs).unwrap() >= list.elements().len() * TENSOR_BYTES);
            make_lists(&InputTypes::new(), &mut inputs).unwrap();
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
            let (tensor, shapes) = tensors_of("x", &nested(Vec::new()), Some(&spec)).unwrap();
            assert_eq!((tensor.dtype(), tensor.shape(), shapes), (Some(dtype), Some(expected), None));
        };
        check(DataType::Float32, r#"["*", "n", 4]"#, &[0, 0, 4]);
        check(DataType::String, r#"["*", 2]"#, &[0, 2]);
        check(DataType::Bytes, r#"["*"]"#, &[0]);
        // Of any number of dimensions.
        let any = TensorSpec::new("x", DataType::Float32, SymbolicShape::Any);
        let (tensor, shapes) = tensors_of("x", &nested(Vec::new()), Some(&any)).unwrap();
        assert_eq!((tensor.shape(), shapes.as_ref().and_then(Tensor::shape)), (Some(&[0][..]), Some(&[0, 0][..])));
        let mut inputs = Tensors::from([("x".to_owned(), tensor), (shapes_name("x"), shapes.unwrap())]);
        make_lists(&InputTypes::new(), &mut inputs).unwrap();
        assert_eq!(inputs, Tensors::from([("x".to_owned(), nested(Vec::new()).into())]));
        let error = tensors_of("x", &nested(Vec::new()), None).unwrap_err().message;
        assert!(error.starts_with("output `x` is an empty list of tensors, and the model does not declare"), "{error}");
    }

    #[test]
    fn what_is_refused() {
        let error = tensors_of("x", &nested(vec![floats(&[1]), floats(&[1, 2])]), None).unwrap_err();
        assert!(error.message.contains("different numbers of dimensions"), "{error:?}");
        let check = |elements: Tensor, shapes: Tensor, expected: &str| {
            let mut inputs = Tensors::from([("x".to_owned(), elements), (shapes_name("x"), shapes)]);
            n_bytes(&InputTypes::new(), &inputs).unwrap();
            let error = make_lists(&InputTypes::new(), &mut inputs).unwrap_err();
            assert!(error.message.starts_with(&format!("input `x`: {expected}")), "{error:?}");
        };
        let sizes = |sizes: &[i64], shape: &[usize]| Tensor::from_vec(sizes.to_vec(), shape.to_vec()).unwrap();
        check(floats(&[2]), floats(&[1, 1]), "expected the shapes of a list as INT64");
        check(floats(&[2]), sizes(&[2], &[1]), "expected the shapes of a list as INT64");
        check(floats(&[2]), sizes(&[-1], &[1, 1]), "the shapes of its tensors have a negative size");
        check(floats(&[2]), sizes(&[1], &[1, 1]), "the shapes of its tensors need another number");
        check(floats(&[2]), sizes(&[i64::MAX, i64::MAX], &[1, 2]), "the shapes of its tensors need another number");
        check(floats(&[2]), sizes(&[], &[1 << 40, 0]), "the shapes of its tensors need another number");
        check(floats(&[2]), sizes(&[], &[0, 1 << 62]), "the shapes of its tensors need another number");
        let no_floats = Tensor::from_vec(Vec::<f32>::new(), vec![1 << 40, 1 << 40, 0]).unwrap();
        check(no_floats, sizes(&[1], &[1, 1]), "the shapes of its tensors need another number");
    }

    #[test]
    fn what_a_list_takes_is_known_before() {
        let check = |elements: Tensor, shape: &[usize], expected: usize| {
            let shapes = Tensor::from_vec(vec![0_i64; shape.iter().product()], shape.to_vec()).unwrap();
            let inputs = Tensors::from([("x".to_owned(), elements), (shapes_name("x"), shapes)]);
            assert_eq!(n_bytes(&InputTypes::new(), &inputs), Some(expected));
        };
        check(floats(&[4]), &[10, 2], 10 * (TENSOR_BYTES + 32));
        // More scalars than elements are not made.
        check(floats(&[4]), &[1 << 40, 0], 4 * TENSOR_BYTES);
        let texts = Tensor::from_strings(["four", ""], vec![2]).unwrap();
        check(texts, &[1, 1], TENSOR_BYTES + 16 + 4 + 2 * size_of::<String>());
    }

    #[test]
    fn names_that_the_model_declares_are_no_shapes() {
        let mut inputs = Tensors::from([("x".to_owned(), floats(&[1])), (shapes_name("x"), floats(&[1, 1]))]);
        let expected = inputs.clone();
        let declared = InputTypes::from([(shapes_name("x"), DataType::Float32)]);
        assert_eq!(n_bytes(&declared, &inputs), None);
        make_lists(&declared, &mut inputs).unwrap();
        assert_eq!(inputs, expected);
        // Shapes of nothing are an input that the signature does not have.
        let mut inputs = Tensors::from([(shapes_name("y"), floats(&[1, 1]))]);
        make_lists(&InputTypes::new(), &mut inputs).unwrap();
        assert_eq!(inputs.len(), 1);
        // Shapes of shapes stay, and are an input that the signature does not have.
        let shapes = |shape: &[usize]| Tensor::from_vec(vec![1_i64; shape.iter().product()], shape.to_vec()).unwrap();
        let of_shapes = shapes_name(&shapes_name("x"));
        let mut inputs = Tensors::from([
            ("x".to_owned(), floats(&[1])),
            (shapes_name("x"), shapes(&[1, 1])),
            (of_shapes.clone(), shapes(&[1, 1])),
        ]);
        make_lists(&InputTypes::new(), &mut inputs).unwrap();
        assert_eq!(inputs.keys().collect::<Vec<_>>(), ["x", &of_shapes]);
    }
}
