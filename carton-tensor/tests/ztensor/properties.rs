//! Property tests: everything that is written can be read again, and reading any bytes gives a result or an error.

use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::ztensor::{Attribute, Attributes, Checks, Coo, Csr, Reader, StoreAs, Version, Writer};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use crate::container::{all_storages, container};
use crate::reject::read_all;

/// A tensor of any type and a small shape.
fn any_tensor() -> impl Strategy<Value = RawTensor> {
    let shape = vec(0_usize..5, 0..4);
    (proptest::sample::select(&ElementType::ALL[..]), shape, any::<u64>()).prop_filter_map(
        "elements that end between bytes",
        |(dtype, shape, seed)| {
            let n_bytes = dtype.n_bytes(shape.iter().product())?;
            let limit = if dtype == ElementType::Bool { 2 } else { 256 };
            let byte = |index| (seed.rotate_left(index as u32 * 7) % limit) as u8;
            let bytes: Vec<u8> = (0..n_bytes).map(byte).collect();
            RawTensor::new(dtype, shape, bytes.into()).ok()
        },
    )
}

fn any_store_as() -> impl Strategy<Value = StoreAs> {
    proptest::sample::select(all_storages())
}

fn any_attribute() -> impl Strategy<Value = Attribute> {
    let leaf = prop_oneof![
        Just(Attribute::Null),
        any::<bool>().prop_map(Attribute::Bool),
        (-(1_i128 << 64)..1_i128 << 64).prop_map(Attribute::Integer),
        any::<f64>().prop_filter("equal to itself", |float| !float.is_nan()).prop_map(Attribute::Float),
        any::<f32>().prop_filter("equal to itself", |float| !float.is_nan()).prop_map(|it| Attribute::Float(it.into())),
        ".{0,20}".prop_map(Attribute::Text),
        vec(any::<u8>(), 0..20).prop_map(Attribute::Bytes),
        prop_oneof![0_u8..20, Just(23), 32_u8..].prop_map(Attribute::Simple),
    ];
    leaf.prop_recursive(4, 30, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Attribute::Array),
            // Keys are distinct.
            btree_map(".{0,5}", inner.clone(), 0..5)
                .prop_map(|map| Attribute::Map(map.into_iter().map(|(key, value)| (key.into(), value)).collect())),
            (any::<u64>(), inner).prop_map(|(tag, value)| Attribute::Tagged(tag, Box::new(value))),
        ]
    })
}

fn any_attributes() -> impl Strategy<Value = Attributes> {
    btree_map(".{0,8}", any_attribute(), 0..4)
}

/// Arbitrary CBOR, most of it similar to a manifest.
fn any_cbor() -> impl Strategy<Value = Vec<u8>> {
    let words = [
        &b"gversion"[..],
        b"e1.2.0",
        b"gobjects",
        b"jcomponents",
        b"eshape",
        b"fformat",
        b"edense",
        b"ddata",
        b"edtype",
        b"bu8",
        b"foffset",
        b"\x18\x40",
        b"flength",
        b"\x02",
        b"hencoding",
        b"dzstd",
        b"jattributes",
        b"\xa0",
        b"\xa1",
        b"\xa2",
        b"\xa3",
        b"\xa4",
        b"\x80",
        b"\x81",
        b"\xbf",
        b"\x9f",
        b"\xff",
        b"\xf6",
        b"\x7f",
        b"\xc0",
        b"\xf9\x00\x00",
        b"jsparse_csr",
        b"fvalues",
        b"aa",
        b"\x1b\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff",
    ];
    let word = prop_oneof![
        20 => proptest::sample::select(words.map(<[u8]>::to_vec).to_vec()),
        1 => vec(any::<u8>(), 0..4),
    ];
    vec(word, 0..40).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn files_are_read_as_they_were_written(
        tensors in btree_map(".{0,12}", (any_tensor(), any_store_as(), any_attributes()), 0..8),
        order in any::<prop::sample::Index>(),
        attributes in any_attributes(),
        is_1_1 in any::<bool>(),
    ) {
        let version = if is_1_1 { Version::V1_1 } else { Version::V1_2 };
        let mut writer = Writer::with_version(Vec::new(), version).unwrap();
        writer.set_attributes(&attributes).unwrap();
        // Names in any order, so that offsets do not follow the order of names.
        let mut entries: Vec<_> = tensors.iter().collect();
        if !entries.is_empty() {
            let middle = order.index(entries.len());
            entries.rotate_left(middle);
        }
        let mut written = 0;
        for (name, (tensor, store_as, attributes)) in entries {
            let parts = [("data", tensor, *store_as)];
            written += usize::from(writer.object(name, tensor.shape(), "dense", attributes, &parts).is_ok());
        }
        prop_assert!(is_1_1 || written == tensors.len());
        let reader = Reader::new(writer.finish().unwrap().into()).unwrap().checking(Checks::ALL);
        prop_assert_eq!(reader.objects().len(), written);
        prop_assert_eq!(reader.manifest().attributes().unwrap(), attributes);
        for object in reader.objects() {
            let (tensor, _, attributes) = &tensors[object.name()];
            prop_assert_eq!(&reader.read_object(&object).unwrap(), tensor);
            prop_assert_eq!(&object.attributes().unwrap(), attributes);
        }
        prop_assert!(reader.verify_all().failures.is_empty());
    }

    #[test]
    fn dense_is_sparse_is_dense(tensor in any_tensor(), store_as in any_store_as()) {
        if let Ok(coo) = Coo::from_dense(&tensor) {
            prop_assert_eq!(&coo.to_dense().unwrap(), &tensor);
            let mut writer = Writer::new(Vec::new()).unwrap();
            writer.coo("x", &coo, store_as).unwrap();
            let reader = Reader::new(writer.finish().unwrap().into()).unwrap();
            prop_assert_eq!(&reader.coo("x").unwrap().to_dense().unwrap(), &tensor);
        } else {
            prop_assert!(tensor.dtype().bits() < 8);
        }
        if let Ok(csr) = Csr::from_dense(&tensor) {
            prop_assert_eq!(&csr.to_dense().unwrap(), &tensor);
        } else {
            prop_assert!(tensor.dtype().bits() < 8 || tensor.shape().len() != 2);
        }
    }

    #[test]
    fn anything_is_answered(cbor in any_cbor(), blob in vec(any::<u8>(), 0..100)) {
        let _ = read_all(&container(&blob, &cbor));
        let _ = read_all(&cbor);
    }
}
