//! Tensors read back as they were written, in every format; damaged indexes.

use carton_tensor::{BytesTensor, DataType, NestedTensor, NumericTensor, StringTensor, Tensor};
use proptest::prelude::*;

use super::*;

fn any_plain(rank: usize) -> BoxedStrategy<Tensor> {
    let shapes = proptest::collection::vec(0..4_usize, 0..=rank).boxed();
    macro_rules! numbers {
        ($element:ty, $shapes:expr) => {
            $shapes
                .prop_flat_map(|shape| {
                    let count = shape.iter().product::<usize>();
                    (proptest::collection::vec(any::<$element>(), count), Just(shape))
                })
                .prop_map(|(elements, shape)| Tensor::from(NumericTensor::from_vec(elements, shape).unwrap()))
                .boxed()
        };
    }
    let strings = shapes
        .clone()
        .prop_flat_map(|shape| {
            let count = shape.iter().product::<usize>();
            (proptest::collection::vec(any::<String>(), count), Just(shape))
        })
        .prop_map(|(elements, shape)| Tensor::from(StringTensor::new(elements, shape).unwrap()));
    prop_oneof![
        numbers!(u8, shapes.clone()),
        numbers!(i64, shapes.clone()),
        numbers!(f32, shapes.clone()),
        numbers!(u16, shapes.clone()),
        strings,
        carried(shapes),
    ]
    .boxed()
}

/// Tensors of the dtypes that version 1 lacks.
fn carried(shapes: BoxedStrategy<Vec<usize>>) -> impl Strategy<Value = Tensor> {
    let dtypes: Vec<DataType> = DataType::ALL.into_iter().filter(|dtype| dtype.element().is_some()).collect();
    (shapes, proptest::sample::select(dtypes), any::<u64>()).prop_map(|(shape, dtype, seed)| {
        let count = shape.iter().product::<usize>();
        let byte = |position: usize| (seed.rotate_left(u32::try_from(position % 64).unwrap()) & 0xff) as u8;
        let Some(size) = dtype.size() else {
            let elements = (0..count).map(|position| vec![byte(position); position % 5]).collect();
            return BytesTensor::new(elements, shape).unwrap().into();
        };
        let values = if dtype == DataType::Bool { 2 } else { 256 };
        let bytes: Vec<u8> = (0..count * size).map(|position| (usize::from(byte(position)) % values) as u8).collect();
        let tensor = Tensor::from(NumericTensor::copy_from_bytes(dtype, shape, &bytes).unwrap());
        // A carrier is the same number. There are several NaN, which are one number, so this has the one that is read back.
        carton_tensor::restored(&carton_tensor::carried(&tensor).unwrap(), dtype).unwrap()
    })
}

fn any_nested() -> impl Strategy<Value = Tensor> {
    let strings = (any::<Vec<String>>()).prop_map(|elements| {
        let shape = vec![elements.len()];
        Tensor::from(StringTensor::new(elements, shape).unwrap())
    });
    let halves = any::<Vec<u8>>().prop_map(|elements| {
        let elements: Vec<_> =
            elements.into_iter().map(|element| carton_tensor::f16::from_f32(element.into())).collect();
        let shape = vec![elements.len()];
        Tensor::from_vec(elements, shape).unwrap()
    });
    let nested = |elements| Tensor::from(NestedTensor::new(elements).unwrap());
    prop_oneof![
        proptest::collection::vec(strings, 0..4).prop_map(nested),
        proptest::collection::vec(halves, 0..4).prop_map(nested),
    ]
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        tensors in proptest::collection::btree_map("\\PC{1,8}|.{1,4}", prop_oneof![any_plain(3), any_nested().boxed()], 0..5)
    ) {
        let sizes = [(|size| Some(size)) as fn(u64) -> Option<u64>, |_| None];
        let formats = [TensorFormat::Bin, TensorFormat::Safetensors, TensorFormat::Ztensor];
        for (size, format) in sizes.into_iter().flat_map(|size| formats.map(|format| (size, format))) {
            let mut memory = written_as(&tensors, format);
            memory.size = size;
            let index = TensorIndex::parse(&memory.files["tensor_data/index.toml"]).unwrap();
            index.check_files(|path| memory.files.get(path).map(|bytes| Some(bytes.len() as u64))).unwrap();
            for (name, tensor) in &tensors {
                prop_assert_eq!(bits(&memory.tensor(name).unwrap()), bits(tensor));
            }
        }
    }

    #[test]
    fn no_index_is_too_strange(bytes in any::<Vec<u8>>()) {
        let _ = TensorIndex::parse(&bytes);
    }

    /// A valid index with overwritten bytes is either read or refused. If it is read, it is consistent.
    #[test]
    fn damaged_indexes(damage in proptest::collection::vec((0..400_usize, any::<u8>()), 1..6)) {
        let ragged = NestedTensor::new(vec![StringTensor::new(vec!["x".to_owned()], vec![1]).unwrap().into()]).unwrap();
        let numbers = NumericTensor::from_vec(vec![1_i16, 2, 3, 4], vec![2, 2]).unwrap();
        let tensors = [("r".to_owned(), Tensor::from(ragged)), ("t".to_owned(), numbers.into())].into_iter().collect();
        let mut memory = written(&tensors);
        let bytes = memory.files.get_mut("tensor_data/index.toml").unwrap();
        for (position, byte) in damage {
            let position = position % bytes.len();
            bytes[position] = byte;
        }
        if let Ok(index) = TensorIndex::parse(bytes) {
            for name in index.names() {
                if let Ok(Tensor::Numeric(tensor)) = memory.tensor(name) {
                    prop_assert_eq!(tensor.bytes().len(), 8);
                }
            }
        }
    }
}
