//! Files that are written: byte for byte those of the library, and refused where no reader could read them.

use std::fs;
use std::io::Cursor;

use carton_tensor::files::{ElementType, FileBytes, RawTensor};
use carton_tensor::ztensor::{Attribute, Attributes};
use carton_tensor::ztensor2::{Reader, Writer, ZTensor2Error};

use crate::fixtures::folder;

/// The attributes of `canonical.zt`.
pub(crate) fn attributes() -> Attributes {
    let more =
        [("a".into(), Attribute::Integer(-1)), ("b".into(), Attribute::Array(vec![Attribute::Float(1.5), "x".into()]))];
    Attributes::from([
        ("framework".to_owned(), "none".into()),
        ("epochs".to_owned(), Attribute::Integer(3)),
        ("rate".to_owned(), Attribute::Float(0.1)),
        ("flags".to_owned(), Attribute::Array(vec![Attribute::Bool(true), Attribute::Null])),
        ("more".to_owned(), Attribute::Map(more.to_vec())),
    ])
}

/// A file with these tensors, which are sorted first.
pub(crate) fn written(tensors: &[(String, RawTensor)], attributes: &Attributes) -> Vec<u8> {
    let mut sorted: Vec<_> = tensors.iter().collect();
    sorted.sort_by_key(|(name, _)| name);
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    for (name, tensor) in sorted {
        let added = writer.add_with(name, tensor.dtype(), tensor.shape(), &Attributes::new(), |out| {
            tensor.bytes().chunks(3000).try_for_each(|piece| out.write_all(piece))
        });
        added.unwrap();
    }
    let (file, length) = writer.finish(attributes).unwrap();
    let mut bytes = file.into_inner();
    bytes.truncate(length as usize);
    bytes
}

fn weights(shape: &[usize]) -> RawTensor {
    let bytes: Vec<u8> = (0..5_u8).flat_map(|number| f32::from(number).to_le_bytes()).collect();
    RawTensor::new(ElementType::Float32, shape.to_vec(), bytes.into()).unwrap()
}

#[test]
fn a_file_is_that_of_the_library() {
    let tensors = [("a".to_owned(), weights(&[5])), ("b".to_owned(), weights(&[5, 1]))];
    let ours = written(&tensors, &attributes());
    assert!(ours == fs::read(folder().join("canonical.zt")).unwrap());
}

/// Bytes are only shared if they are the same: the length and the hash of the last tensor are those of one before, and then it is cut off.
#[test]
fn equal_tensors_share_their_bytes() {
    let other = RawTensor::new(ElementType::Uint8, vec![70_000], vec![9_u8; 70_000].into()).unwrap();
    let tensors =
        ["a", "b", "c", "d"].map(|name| (name.to_owned(), if name == "b" { other.clone() } else { weights(&[5]) }));
    let bytes = written(&tensors, &Attributes::new());
    let reader = Reader::new(FileBytes::from(bytes.clone()), "x.zt", None).unwrap();
    let places: Vec<u64> = reader.objects().map(|object| object.part("data").unwrap().stored().start).collect();
    assert_eq!(places, [65_536, 131_072, 65_536, 65_536]);
    assert!(bytes[131_072 + 70_000..262_144].iter().all(|byte| *byte == 0) && bytes.len() < 263_000);
    for (name, tensor) in tensors {
        assert_eq!(reader.read(&reader.object(&name).unwrap(), 0).unwrap(), tensor);
    }
}

#[test]
fn what_no_reader_could_read_is_refused() {
    let add = |names: &[&str], dtype: ElementType, shape: &[usize], n_bytes: usize| {
        let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
        for name in names {
            writer.add_with(name, dtype, shape, &Attributes::new(), |out| out.write_all(&vec![1; n_bytes]))?;
        }
        writer.finish(&Attributes::new()).map(drop)
    };
    let check = |result: Result<(), ZTensor2Error>, expected: &str| {
        let error = result.unwrap_err();
        assert!(matches!(error, ZTensor2Error::NotWritten { .. }) && error.to_string().contains(expected), "{error}");
    };
    add(&["a", "b"], ElementType::Uint8, &[3], 3).unwrap();
    check(add(&["b", "a"], ElementType::Uint8, &[3], 3), "does not come after that of the last tensor");
    check(add(&["a", "a"], ElementType::Uint8, &[3], 3), "does not come after that of the last tensor");
    check(add(&["a"], ElementType::Uint8, &[3], 4), "4 bytes were written, expected 3");
    check(add(&["a"], ElementType::Float6E2m3Fn, &[4], 3), "no elements of float6_e2m3fn");
    check(add(&["a"], ElementType::Float64, &[usize::MAX, 2], 3), "more than 64 bits can count");
    check(add(&[""], ElementType::Uint8, &[3], 3), "the name of an object is ``");
    check(add(&["a"], ElementType::Uint8, &[1; 65], 1), "65 dimensions");
    let finish = |name: &str, value: Attribute| {
        let writer = Writer::new(Cursor::new(Vec::new())).unwrap();
        writer.finish(&Attributes::from([(name.to_owned(), value)])).map(drop)
    };
    check(finish("", Attribute::Null), "the name of an attribute is ``");
    check(finish("a", Attribute::Tagged(1, Box::new(Attribute::Null))), "a tag");
    check(finish("a", Attribute::Integer(1 << 65)), "beyond what CBOR has");
    check(finish("a", (0..40).fold(Attribute::Null, |inner, _| Attribute::Array(vec![inner]))), "nested");
    let twice = Attribute::Map(vec![(Attribute::Null, Attribute::Null), (Attribute::Null, Attribute::Bool(true))]);
    check(finish("a", twice), "a map has a key twice");
}

#[test]
fn attributes_are_read_as_they_were_written() {
    let mut attributes = attributes();
    let numbers = [0.0, -0.0, 1.5, 1.0e-7, 65504.0, 65505.0, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, 5.0e-324];
    attributes.insert("floats".to_owned(), Attribute::Array(numbers.map(Attribute::Float).to_vec()));
    let integers = [
        0,
        23,
        24,
        255,
        256,
        65535,
        65536,
        u32::MAX.into(),
        1 << 32,
        u64::MAX.into(),
        -1,
        -24,
        -25,
        -1 - i128::from(u64::MAX),
    ];
    attributes.insert("integers".to_owned(), Attribute::Array(integers.map(Attribute::Integer).to_vec()));
    attributes.insert("bytes".to_owned(), Attribute::Bytes(vec![0; 300]));
    let bytes = written(&[], &attributes);
    let reader = Reader::new(FileBytes::from(bytes), "x.zt", None).unwrap();
    assert_eq!(reader.manifest().attributes().unwrap(), attributes);
}
