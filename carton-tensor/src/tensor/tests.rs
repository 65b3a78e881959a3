#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::*;
use crate::Storage;

#[test]
fn zeroed_tensors_have_zeros_or_are_refused() {
    let tensor = NumericTensor::zeroed(DataType::Int16, vec![2, 3]).unwrap();
    assert_eq!(tensor.as_slice::<i16>().unwrap(), [0; 6]);
    let impossible = usize::try_from(isize::MAX).unwrap();
    for (dtype, shape) in [(DataType::Uint8, vec![impossible]), (DataType::Float64, vec![usize::MAX, 2])] {
        assert!(matches!(NumericTensor::zeroed(dtype, shape), Err(TensorError::TooLarge { .. })));
    }
    assert!(matches!(NumericTensor::zeroed(DataType::String, vec![1]), Err(TensorError::WrongDataType { .. })));
}

#[test]
fn sizes_are_checked_before_anything_is_built() {
    fn check(dtype: DataType, shape: &[usize], n_bytes: usize, expected: Result<(), TensorError>) {
        let bytes = vec![0_u8; n_bytes];
        assert_eq!(NumericTensor::copy_from_bytes(dtype, shape.to_vec(), &bytes).map(drop), expected);
        assert_eq!(NumericTensor::new(dtype, shape.to_vec(), Arc::new(bytes)).map(drop), expected);
    }
    let mismatch = |dtype, shape: &[usize], expected, found| {
        Err(TensorError::SizeMismatch { dtype, shape: shape.to_vec(), expected, found, unit: "bytes" })
    };
    let too_large = |dtype, shape: &[usize]| Err(TensorError::TooLarge { dtype, shape: shape.to_vec() });
    check(DataType::Float32, &[2, 3], 24, Ok(()));
    check(DataType::Float32, &[], 4, Ok(()));
    check(DataType::Float32, &[0, usize::MAX, usize::MAX], 0, Ok(()));
    check(DataType::Float32, &[2, 3], 23, mismatch(DataType::Float32, &[2, 3], 24, 23));
    check(DataType::Uint8, &[2], 3, mismatch(DataType::Uint8, &[2], 2, 3));
    check(DataType::Uint8, &[1; MAX_RANK], 1, Ok(()));
    check(DataType::Uint8, &[1; MAX_RANK + 1], 1, Err(TensorError::TooManyDimensions { found: MAX_RANK + 1 }));
    check(DataType::Uint8, &[], 0, mismatch(DataType::Uint8, &[], 1, 0));
    check(DataType::Uint8, &[usize::MAX], 0, too_large(DataType::Uint8, &[usize::MAX]));
    check(DataType::Float64, &[1 << 61], 0, too_large(DataType::Float64, &[1 << 61]));
    check(DataType::Float64, &[1 << 32, 1 << 32], 0, too_large(DataType::Float64, &[1 << 32, 1 << 32]));
    let strings = TensorError::WrongDataType { expected: "numbers".to_owned(), found: "string".to_owned() };
    check(DataType::String, &[1], 1, Err(strings));

    assert!(NumericTensor::from_vec(vec![1_u8], vec![usize::MAX, 2]).is_err());
    assert!(NumericTensor::from_vec(vec![1_u8], vec![]).is_ok());
    assert!(NumericTensor::from_vec(vec![1_u8], vec![2]).is_err());
    assert!(StringTensor::new(vec![], vec![usize::MAX, 2]).is_err());
    assert!(StringTensor::new(vec![String::new()], vec![2]).is_err());
    assert!(StringTensor::new(vec![String::new()], vec![]).is_ok());
}

#[test]
fn offsets_stay_inside_the_storage() {
    fn check(offset: usize, shape: &[usize], expected: Option<&[u8]>) {
        let storage = Arc::new(vec![0_u8, 1, 2, 3]);
        let tensor = NumericTensor::with_offset(DataType::Uint8, shape.to_vec(), storage, offset);
        assert_eq!(tensor.as_ref().ok().map(NumericTensor::bytes), expected);
    }
    check(0, &[4], Some(&[0, 1, 2, 3]));
    check(1, &[2], Some(&[1, 2]));
    check(4, &[0], Some(&[]));
    check(3, &[], Some(&[3]));
    check(4, &[], None);
    check(5, &[0], None);
    check(usize::MAX, &[1], None);
    check(1, &[usize::MAX], None);
}

#[test]
fn elements_are_written_by_their_only_owner() {
    let mut tensor = NumericTensor::with_offset(DataType::Uint16, vec![2], Arc::new(vec![1_u16, 2, 3]), 2).unwrap();
    tensor.as_mut_slice::<u16>().unwrap().unwrap()[0] = 9;
    assert_eq!(tensor.as_slice::<u16>().unwrap(), [9, 3]);
    assert_eq!(tensor.storage().0.bytes()[..2], [1, 0]);
    let clone = tensor.clone();
    assert!(tensor.bytes_mut().is_none());
    drop(clone);
    assert!(tensor.bytes_mut().is_some());
    assert!(tensor.as_mut_slice::<u8>().is_err());

    struct ReadOnly;
    impl Storage for ReadOnly {
        fn bytes(&self) -> &[u8] {
            &[1, 2]
        }
    }
    let mut tensor = NumericTensor::new(DataType::Uint8, vec![2], Arc::new(ReadOnly)).unwrap();
    assert!(tensor.bytes_mut().is_none());
    assert_eq!(tensor.into_vec::<u8>().unwrap(), [1, 2]);
}

#[test]
fn nested_tensors_hold_one_dtype_and_no_nested_ones() {
    let (byte, float, word) =
        (Tensor::scalar(1_u8), Tensor::scalar(1.0_f32), Tensor::from_strings(["a"], vec![1]).unwrap());
    let nested = Tensor::nested(vec![byte.clone(), byte.clone()]).unwrap();
    assert_eq!(nested.dtype(), Some(DataType::Uint8));
    assert_eq!(Tensor::nested(vec![]).unwrap().dtype(), None);
    assert_eq!(Tensor::nested(vec![byte.clone(), nested]), Err(TensorError::NestedInNested { index: 1 }));
    let (expected, found) = (DataType::Uint8, DataType::String);
    assert_eq!(Tensor::nested(vec![byte, word]), Err(TensorError::MixedNested { index: 1, expected, found }));
    assert_ne!(Tensor::nested(vec![float.clone()]).unwrap(), float);
}

#[test]
fn equality_is_of_bytes() {
    assert_eq!(Tensor::scalar(f32::NAN), Tensor::scalar(f32::NAN));
    assert_ne!(Tensor::scalar(0.0_f32), Tensor::scalar(-0.0_f32));
    assert_ne!(Tensor::scalar(0_i32), Tensor::scalar(0_u32));
    assert_ne!(Tensor::from_vec(vec![0_u8], vec![1]).unwrap(), Tensor::scalar(0_u8));
    let part = NumericTensor::with_offset(DataType::Uint8, vec![1], Arc::new(vec![5_u8, 6]), 1).unwrap();
    assert_eq!(Tensor::from(part), Tensor::from_vec(vec![6_u8], vec![1]).unwrap());
}

#[test]
fn debug_output_stays_short() {
    fn check(tensor: NumericTensor, elements: &str) {
        let expected = format!(
            "NumericTensor {{ dtype: {:?}, shape: {:?}, elements: {elements} }}",
            tensor.dtype(),
            tensor.shape()
        );
        assert_eq!(format!("{tensor:?}"), expected);
    }
    check(NumericTensor::scalar(1.5_f32), "[1.5]");
    check(NumericTensor::from_vec::<i64>(vec![], vec![0, 3]).unwrap(), "[]");
    check(NumericTensor::from_vec(vec![-1_i8; 8], vec![8]).unwrap(), "[-1, -1, -1, -1, -1, -1, -1, -1]");
    check(NumericTensor::from_vec(vec![7_u8; 1000], vec![10, 100]).unwrap(), "[7, 7, 7, 7, 7, 7, 7, 7, ..]");
}

#[test]
fn dtypes_are_named_as_in_the_specification() {
    for dtype in DataType::ALL {
        assert_eq!(dtype.name().parse(), Ok(dtype));
        assert_eq!(toml::Value::try_from(dtype).unwrap().as_str(), Some(dtype.name()));
    }
    for wrong in ["", "Float32", "half", "boolean", "float32 ", "nested", "int4"] {
        assert!(wrong.parse::<DataType>().is_err(), "{wrong}");
    }
}

#[test]
fn lists_of_one_shape_and_tensors_of_one_more_dimension() {
    let check = |tensor: Tensor| {
        let parts = NestedTensor::of_parts(&tensor).unwrap().unwrap();
        assert_eq!((parts.elements().len(), parts.stacked()), (2, Ok(Some(tensor))));
    };
    check(Tensor::from_vec(vec![1_i16, 2, 3, 4, 5, 6], vec![2, 3]).unwrap());
    check(Tensor::from_vec(Vec::<f32>::new(), vec![2, 0]).unwrap());
    check(Tensor::from_strings(["a", "b"], vec![2]).unwrap());
    check(Tensor::from_bytes([b"a", b"b"], vec![2, 1]).unwrap());
    assert_eq!(NestedTensor::of_parts(&Tensor::scalar(1_u8)), Ok(None));
    let ragged = NestedTensor::new(vec![Tensor::scalar(1_u8), Tensor::from_vec(vec![1_u8], vec![1]).unwrap()]).unwrap();
    assert_eq!((ragged.stacked(), NestedTensor::new(vec![]).unwrap().stacked()), (Ok(None), Ok(None)));
    let many = Tensor::from_vec(Vec::<f32>::new(), vec![1 << 40, 0]).unwrap();
    assert!(matches!(NestedTensor::of_parts(&many), Err(TensorError::TooManyParts { .. })));
}

#[test]
fn lists_of_any_shapes_and_all_their_elements() {
    let check = |elements: Vec<Tensor>, n_elements: usize| {
        let shapes: Vec<_> = elements.iter().map(|element| element.shape().unwrap().to_vec()).collect();
        let list = NestedTensor::new(elements).unwrap();
        let flat = list.flattened().unwrap().unwrap();
        assert_eq!(flat.shape(), Some([n_elements].as_slice()));
        assert_eq!(NestedTensor::of_shapes(&flat, shapes), Ok(Some(list)));
    };
    let floats = |shape: &[usize]| Tensor::from_vec(vec![0.5_f32; shape.iter().product()], shape.to_vec()).unwrap();
    check(vec![floats(&[2, 3]), floats(&[0, 4]), floats(&[])], 7);
    let texts = |texts: &[&str]| Tensor::from_strings(texts.to_vec(), vec![texts.len()]).unwrap();
    check(vec![texts(&["a"]), texts(&["b", "c"])], 3);
    check(vec![Tensor::from_bytes([b"a"], vec![1, 1]).unwrap(), Tensor::from_bytes([b""; 0], vec![0]).unwrap()], 1);
    assert_eq!(NestedTensor::new(vec![]).unwrap().flattened(), Ok(None));
    for wrong in [vec![vec![1]], vec![vec![1], vec![2]], vec![vec![usize::MAX, 2]], vec![vec![1], vec![usize::MAX]]] {
        assert_eq!(NestedTensor::of_shapes(&floats(&[2]), wrong), Ok(None));
    }
    assert_eq!(NestedTensor::of_shapes(&floats(&[0]), []), Ok(Some(NestedTensor::new(vec![]).unwrap())));
}
