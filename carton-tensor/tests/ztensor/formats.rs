//! Sparse and quantized tensors.

use carton_tensor::DataType;
use carton_tensor::files::{ElementType, RawTensor, SharedBytes};
use carton_tensor::ztensor::{
    Attributes, Coo, Csr, MAX_DENSE, QuantizedGroup, Reader, SparseError, StoreAs, Version, Writer, ZTensorError,
    density,
};
use serde_json::Value;

use crate::peers::{python, run_script, unhex};

fn raw(dtype: ElementType, shape: &[usize], bytes: impl Into<SharedBytes>) -> RawTensor {
    RawTensor::new(dtype, shape.to_vec(), bytes.into()).unwrap()
}

fn u64s(numbers: &[u64]) -> RawTensor {
    raw(ElementType::Uint64, &[numbers.len()], numbers.to_vec())
}

/// A few bytes may claim any number of zeros, so dense forms have a size limit.
#[test]
fn dense_forms_have_a_limit() {
    let csr = Csr::new(&[1, 1 << 40], raw(ElementType::Uint8, &[1], vec![7_u8]), &u64s(&[5]), &u64s(&[0, 1])).unwrap();
    let coo = Coo::new(&[1 << 20, 1 << 20], raw(ElementType::Uint8, &[1], vec![7_u8]), &u64s(&[0, 5])).unwrap();
    for error in [csr.to_dense().unwrap_err(), coo.to_dense().unwrap_err()] {
        let ZTensorError::Sparse(SparseError::DenseSize { n_bytes, limit, .. }) = error else { panic!("{error}") };
        assert_eq!((n_bytes, limit), (1 << 40, MAX_DENSE));
    }
    let csr = Csr::new(&[1, 8], raw(ElementType::Uint8, &[1], vec![7_u8]), &u64s(&[5]), &u64s(&[0, 1])).unwrap();
    assert!(matches!(
        csr.to_dense_within(7),
        Err(ZTensorError::Sparse(SparseError::DenseSize { n_bytes: 8, limit: 7, .. }))
    ));
    assert_eq!(csr.to_dense_within(8).unwrap().bytes()[..], [0, 0, 0, 0, 0, 7, 0, 0]);
}

#[test]
fn values_at_one_place_are_added_up() {
    let check = |dtype: ElementType, two: &[u8], sum: &[u8]| {
        let coo = Coo::new(&[2], raw(dtype, &[2], two.to_vec()), &u64s(&[1, 1])).unwrap();
        let dense = coo.to_dense().unwrap();
        let size = sum.len();
        assert_eq!((&dense.bytes()[..size], &dense.bytes()[size..]), (&vec![0; size][..], sum), "{dtype}");
        let csr = Csr::new(&[1, 2], raw(dtype, &[2], two.to_vec()), &u64s(&[1, 1]), &u64s(&[0, 2])).unwrap();
        assert_eq!(csr.to_dense().unwrap().bytes()[..], dense.bytes()[..], "{dtype}");
    };
    check(ElementType::Bool, &[1, 1], &[1]);
    check(ElementType::Uint8, &[200, 100], &[44]);
    check(ElementType::Int8, &[0x80, 0xff], &[0x7f]);
    check(ElementType::Int16, &[0xff, 0xff, 2, 0], &[1, 0]);
    check(ElementType::Uint32, &[0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0], &[0; 4]);
    check(ElementType::Int64, &[&[0xff; 8][..], &[0xff; 8]].concat(), &(-2_i64).to_le_bytes());
    // 1 + 2^-11 is halfway to the next binary16, and rounds to even.
    check(ElementType::Float16, &[0x00, 0x3c, 0x00, 0x10], &[0x00, 0x3c]);
    check(ElementType::BFloat16, &[0x80, 0x3f, 0x80, 0x3f], &[0x00, 0x40]);
    check(ElementType::Float32, bytemuck::cast_slice(&[0.1_f32, 0.2]), &(0.1_f32 + 0.2).to_le_bytes());
    check(ElementType::Float64, bytemuck::cast_slice(&[f64::INFINITY, 1.0]), &f64::INFINITY.to_le_bytes());
    check(ElementType::Complex64, bytemuck::cast_slice(&[1_f32, 2.0, 3.0, 5.0]), bytemuck::cast_slice(&[4_f32, 7.0]));
    check(ElementType::Complex128, bytemuck::cast_slice(&[1_f64, 2.0, 3.0, 5.0]), bytemuck::cast_slice(&[4_f64, 7.0]));
    let fp8 = Coo::new(&[2], raw(ElementType::Float8E5m2, &[2], vec![1_u8, 2]), &u64s(&[1, 1])).unwrap();
    assert!(matches!(fp8.to_dense(), Err(ZTensorError::Sparse(SparseError::DuplicateEntry { .. }))));
    // At different positions, nothing is added.
    let fp8 = Coo::new(&[2], raw(ElementType::Float8E5m2, &[2], vec![1_u8, 2]), &u64s(&[1, 0])).unwrap();
    assert_eq!(fp8.to_dense().unwrap().bytes()[..], [2, 1]);
}

#[test]
fn dense_tensors_survive_being_sparse_to_the_bit() {
    let values = [0.0_f32, -0.0, f32::NAN, 1.0, 0.0, f32::from_bits(1)];
    let dense = raw(ElementType::Float32, &[2, 3], values.to_vec());
    let csr = Csr::from_dense(&dense).unwrap();
    assert_eq!((csr.indptr(), csr.indices()), (&[0, 2, 4][..], &[1, 2, 0, 2][..]));
    assert_eq!(csr.to_dense().unwrap(), dense);
    let coo = Coo::from_dense(&dense).unwrap();
    assert_eq!(coo.coords(), [0, 0, 1, 1, 1, 2, 0, 2]);
    assert_eq!(coo.to_dense().unwrap(), dense);
    for shape in [&[6][..], &[1, 2, 1, 3], &[3, 2]] {
        let dense = raw(ElementType::Float32, shape, values.to_vec());
        assert_eq!(Coo::from_dense(&dense).unwrap().to_dense().unwrap(), dense);
    }
    for shape in [&[0, 3][..], &[3, 0], &[0, 0]] {
        let empty = raw(ElementType::Int8, shape, Vec::<u8>::new());
        assert_eq!(Coo::from_dense(&empty).unwrap().to_dense().unwrap(), empty);
        assert_eq!(Csr::from_dense(&empty).unwrap().to_dense().unwrap(), empty);
    }
    let scalar = raw(ElementType::Int8, &[], vec![5_u8]);
    assert_eq!(Coo::from_dense(&scalar).unwrap().to_dense().unwrap(), scalar);
    // No columns, and more rows than there is memory for row pointers.
    let tall = raw(ElementType::Int8, &[1 << 60, 0], Vec::<u8>::new());
    assert!(matches!(Csr::from_dense(&tall), Err(ZTensorError::TooLarge { .. })));
    assert!(matches!(Csr::from_dense(&scalar), Err(ZTensorError::Sparse(SparseError::CsrRank { found: 0, .. }))));
    let fp4 = raw(ElementType::Float4E2m1, &[2], vec![0_u8]);
    assert!(Coo::from_dense(&fp4).is_err());
}

#[test]
fn indices_may_be_any_integers() {
    let bytes =
        |number: u8, size: usize| (0..size).map(|index| if index == 0 { number } else { 0 }).collect::<Vec<u8>>();
    for dtype in ElementType::ALL {
        let size = dtype.bits() / 8;
        let numbers = |all: &[u8]| {
            let bytes: Vec<u8> = all.iter().flat_map(|&number| bytes(number, size)).collect();
            raw(dtype, &[all.len()], bytes)
        };
        let values = || raw(ElementType::Uint8, &[2], vec![7_u8, 8]);
        let is_integer = dtype.data_type().is_some_and(DataType::is_integer);
        if size == 0 {
            continue;
        }
        let csr = Csr::new(&[2, 3], values(), &numbers(&[2, 0]), &numbers(&[0, 1, 2]));
        let coo = Coo::new(&[2, 3], values(), &numbers(&[0, 1, 2, 0]));
        assert_eq!((csr.is_ok(), coo.is_ok()), (is_integer, is_integer), "{dtype}");
        if is_integer {
            let expected = [0, 0, 7, 8, 0, 0];
            assert_eq!(csr.unwrap().to_dense().unwrap().bytes()[..], expected);
            assert_eq!(coo.unwrap().to_dense().unwrap().bytes()[..], expected);
        }
    }
}

#[test]
fn sparse_objects_are_written_and_read() {
    let dense = raw(ElementType::Int16, &[3, 2], [0_i16, 1, 0, 0, -1, 2].map(i16::to_le_bytes).concat());
    let mut writer = Writer::new(Vec::new()).unwrap();
    let store_as = StoreAs::RAW.zstd(3);
    writer.csr("csr", &Csr::from_dense(&dense).unwrap(), store_as).unwrap();
    writer.coo("coo", &Coo::from_dense(&dense).unwrap(), StoreAs::RAW).unwrap();
    writer.add("dense", &dense, StoreAs::RAW).unwrap();
    let reader = Reader::new(writer.finish().unwrap().into()).unwrap();
    assert_eq!(reader.csr("csr").unwrap().to_dense().unwrap(), dense);
    assert_eq!(reader.coo("coo").unwrap().to_dense().unwrap(), dense);
    assert!(matches!(reader.coo("csr"), Err(ZTensorError::WrongFormat { .. })));
    assert!(matches!(reader.quantized_group("dense"), Err(ZTensorError::WrongFormat { .. })));
    assert!(matches!(reader.csr("none"), Err(ZTensorError::NoSuchObject { .. })));
    assert_eq!(reader.object("csr").unwrap().element_type(), Some(ElementType::Int16));
}

#[test]
fn a_hand_made_group_is_dequantized() {
    // Eight rows, two columns, one group. The first column counts up from 0, the second one down from 7.
    let words = [0x7654_3210_u32, 0x0123_4567];
    let packed = raw(ElementType::Int32, &[2], words.map(u32::to_le_bytes).concat());
    let scales = raw(ElementType::Float32, &[2], vec![0.5_f32, 2.0]);
    let zeros = raw(ElementType::Float32, &[2], vec![4.0_f32, 3.5]);
    let attributes = Attributes::from([
        ("bits".to_owned(), 4_i64.into()),
        ("group_size".to_owned(), 8_i64.into()),
        ("packing".to_owned(), "8_per_i32".into()),
    ]);
    let mut writer = Writer::new(Vec::new()).unwrap();
    let parts =
        [("packed_weight", &packed, StoreAs::RAW), ("scales", &scales, StoreAs::RAW), ("zeros", &zeros, StoreAs::RAW)];
    writer.object("x", &[8, 2], "quantized_group", &attributes, &parts).unwrap();
    let reader = Reader::new(writer.finish().unwrap().into()).unwrap();
    let group = reader.quantized_group("x").unwrap();
    assert_eq!((group.shape(), group.bits(), group.group_size(), group.n_groups()), ([8, 2], 4, 8, 1));
    let expected = [-2.0, 7.0, -1.5, 5.0, -1.0, 3.0, -0.5, 1.0, 0.0, -1.0, 0.5, -3.0, 1.0, -5.0, 1.5, -7.0];
    assert_eq!(group.dequantize().unwrap().to_f32().unwrap(), expected);
}

#[test]
fn groups_are_dequantized_as_auto_gptq_does() {
    let Some(python) = python() else { return };
    let place = tempfile::tempdir().unwrap();
    run_script(&python, "tests/ztensor_gptq.py", &[], place.path());
    let reader = Reader::open(place.path().join("gptq.zt")).unwrap();
    let expected: Value = serde_json::from_slice(&std::fs::read(place.path().join("gptq.json")).unwrap()).unwrap();
    let cases = expected.as_array().unwrap();
    assert_eq!(cases.len(), 120);
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let group = reader.quantized_group(name).unwrap();
        assert_eq!(group.bits() as u64, case["bits"].as_u64().unwrap());
        assert_eq!(group.n_groups() as u64, case["n_groups"].as_u64().unwrap());
        let found = group.dequantize().unwrap();
        assert_eq!(found.bytes()[..], unhex(case["bytes"].as_str().unwrap()), "{name}");
        // Writing it again gives the same group, however its zero points and groups are stored.
        let mut writer = Writer::with_version(Vec::new(), Version::V1_1).unwrap();
        writer.quantized_group("again", &group, StoreAs::RAW.zstd(1)).unwrap();
        let again = Reader::new(writer.finish().unwrap().into()).unwrap().quantized_group("again").unwrap();
        assert_eq!(again.dequantize().unwrap(), found, "{name}");
    }
}

#[test]
fn groups_of_integers_have_a_scale_for_each_group_and_column() {
    let integers = raw(ElementType::Int8, &[8, 2], (-8..8).collect::<Vec<i8>>());
    let scales = raw(ElementType::Float32, &[3, 2], vec![1.0_f32, 10.0, 0.5, 2.0, 4.0, -1.0]);
    let group = QuantizedGroup::from_integers(&integers, 4, Some(3), scales).unwrap();
    assert_eq!((group.bits(), group.n_groups(), group.shape()), (4, 3, [8, 2]));
    let expected = [
        -8.0, -70.0, -6.0, -50.0, -4.0, -30.0, // The second group.
        -1.0, -2.0, 0.0, 2.0, 1.0, 6.0, // The third group, of two rows.
        16.0, -5.0, 24.0, -7.0,
    ];
    assert_eq!(group.dequantize().unwrap().to_f32().unwrap(), expected);
    assert_eq!(QuantizedGroup::fewest_bits(&integers), Some(4));
    let wrong = |integers: &RawTensor, bits, group_size, scales: &[f32]| {
        let scales = raw(ElementType::Float32, &[scales.len()], scales.to_vec());
        format!("{:?}", QuantizedGroup::from_integers(integers, bits, group_size, scales).unwrap_err())
    };
    let check = |found: String, expected: &str| assert!(found.starts_with(expected), "{found}");
    check(wrong(&integers, 3, None, &[1.0; 2]), "QuantizedGroup(Attribute ");
    check(wrong(&integers, 4, Some(0), &[1.0; 2]), "QuantizedGroup(Attribute ");
    check(wrong(&integers, 4, None, &[1.0; 3]), "QuantizedGroup(Size ");
    check(wrong(&integers, 2, None, &[1.0; 2]), "QuantizedGroup(Shape ");
    let tall = raw(ElementType::Int8, &[16, 1], (-8..8).collect::<Vec<i8>>());
    check(wrong(&tall, 2, None, &[1.0]), "QuantizedGroup(Integer ");
    let bytes = raw(ElementType::Uint8, &[8, 2], vec![0_u8; 16]);
    check(wrong(&bytes, 4, None, &[1.0; 2]), "QuantizedGroup(Type ");
    let few = |shape: &[usize], integers: &[i8]| {
        QuantizedGroup::fewest_bits(&raw(ElementType::Int8, shape, integers.to_vec()))
    };
    assert_eq!(few(&[16, 1], &[-2, 1].repeat(8)), Some(2));
    assert_eq!(few(&[8, 1], &[-2, 1].repeat(4)), Some(4));
    assert_eq!(few(&[8, 1], &[-2, 8].repeat(4)), Some(8));
    assert_eq!(few(&[8, 0], &[]), Some(4));
    for shape in [&[2, 2][..], &[4], &[0, 4], &[1, 4, 1]] {
        assert_eq!(few(shape, &vec![0; shape.iter().product()]), None, "{shape:?}");
    }
    assert_eq!(QuantizedGroup::fewest_bits(&bytes), None);
}

/// The density counts exactly the elements that the sparse form stores.
#[test]
fn density_counts_the_stored_elements() {
    let dense =
        raw(ElementType::Float32, &[2, 4], vec![0.0_f32, -0.0, f32::NAN, 1.0, 0.0, 0.0, 0.0, f32::from_bits(1)]);
    assert_eq!(density(&dense), Some(0.5));
    assert_eq!(Csr::from_dense(&dense).unwrap().values().n_elements(), 4);
    assert_eq!(density(&raw(ElementType::Complex64, &[2], vec![0.0_f32, 1.0, 0.0, 0.0])), Some(0.5));
    assert_eq!(density(&raw(ElementType::Uint8, &[0], Vec::<u8>::new())), None);
    assert_eq!(density(&raw(ElementType::Float4E2m1, &[2], vec![0_u8])), None);
}
