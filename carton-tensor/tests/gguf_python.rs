//! Agreement with the Python package `gguf`: the numbers of blocks of every type, files of its writer, and blocks that it makes of numbers. It needs the Python interpreter
//! named by `CARTON_TEST_PYTHON`; without one the test is skipped.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::Command;

use carton_tensor::files::ElementType;
use carton_tensor::gguf::{GgmlType, Layout, NotRepresented, QuantizedType, Reader, Value, Writer};

#[test]
fn numbers_and_files_of_the_python_package_agree() {
    let Some(python) = std::env::var_os("CARTON_TEST_PYTHON") else {
        eprintln!("skipped: CARTON_TEST_PYTHON names no python3 that has gguf (tests/python/setup.sh makes one)");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/gguf_interop.py");
    let output = Command::new(python).arg(script).arg(place).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let reader = Reader::open(place.join("all.gguf")).unwrap();
    let expected = fs::read_to_string(place.join("expected.txt")).unwrap();
    let (mut n_quantized, mut n_plain) = (0, 0);
    for line in expected.lines() {
        let [name, dtype, shape] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let shape: Vec<usize> = shape.split(',').map(|size| size.parse().unwrap()).collect();
        let tensor = reader.get(name).unwrap();
        assert_eq!(tensor.shape, shape, "{name}");
        let found = reader.read(tensor).unwrap();
        assert_eq!((found.dtype().name(), found.shape()), (dtype, shape.as_slice()), "{name}");
        let raw = fs::read(place.join(format!("{name}.raw"))).unwrap();
        if !tensor.ggml_type.is_quantized() {
            assert_eq!(**found.bytes(), *raw, "{name}");
            n_plain += 1;
            continue;
        }
        assert_eq!(tensor.ggml_type.name(), name);
        let (found, raw) = (found.to_f32().unwrap(), ElementType::Float32.to_f32(&raw).unwrap());
        assert_eq!(found.len(), raw.len(), "{name}");
        let n_nan = raw.iter().filter(|number| number.is_nan()).count();
        assert!(n_nan > 0 || ["MXFP4", "NVFP4"].contains(&name), "{name} was not tested with NaN");
        for (position, (found, expected)) in found.iter().zip(&raw).enumerate() {
            let is_same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(is_same, "{name}, element {position}: {found:?}, expected {expected:?}");
        }
        n_quantized += 1;
    }
    // The types that have no numbers are those that the package does not dequantize either.
    let dequantized = GgmlType::ALL.iter().filter(|of| of.is_dequantized()).count();
    assert_eq!((n_quantized, n_plain), (dequantized, 8));

    let header = reader.header();
    assert_eq!(header.version(), 3);
    let check = |key: &str, expected: Value| assert_eq!(header.value(key), Some(&expected), "{key}");
    check("general.architecture", Value::Text("llama".to_owned()));
    check("general.name", Value::Text("Ü".to_owned()));
    check("n.uint8", Value::Unsigned(255));
    check("n.int8", Value::Signed(-128));
    check("n.uint16", Value::Unsigned(65_535));
    check("n.int16", Value::Signed(-32_768));
    check("n.uint32", Value::Unsigned(u32::MAX.into()));
    check("n.int32", Value::Signed(i32::MIN.into()));
    check("n.uint64", Value::Unsigned(u64::MAX));
    check("n.int64", Value::Signed(i64::MIN));
    check("n.float32", Value::Float32(0.1));
    check("n.float64", Value::Float64(0.1));
    check("n.bool", Value::Bool(true));
    let Some(Value::Array(words)) = header.value("a.words") else { panic!() };
    assert!(words.len == 1000 && !words.is_whole() && words.first[7] == Value::Text("word 7".to_owned()));
    let Some(Value::Array(numbers)) = header.value("a.numbers") else { panic!() };
    assert!(numbers.is_whole() && numbers.first == (0..10).map(Value::Signed).collect::<Vec<_>>());

    check_written_again(&reader, &fs::read(place.join("all.gguf")).unwrap());
    let numbers = fs::read(place.join("numbers.raw")).unwrap();
    for of in [QuantizedType::Q8_0, QuantizedType::Q4_0] {
        let expected = fs::read(place.join(format!("{}.quantized", of.ggml_type()))).unwrap();
        let mut blocks = Vec::new();
        assert_eq!(of.quantize(&numbers, false, &mut blocks), NotRepresented::default());
        assert_eq!(blocks.len(), expected.len());
        let block = of.ggml_type().block_bytes();
        for (position, (found, expected)) in blocks.chunks(block).zip(expected.chunks(block)).enumerate() {
            let numbers = ElementType::Float32.to_f32(&numbers[position * 128..][..128]).unwrap();
            assert_eq!(found, expected, "{of:?}, block {position}: {numbers:?}");
        }
    }
}

/// Writing what a file of the package has gives the same bytes.
fn check_written_again(reader: &Reader, expected: &[u8]) {
    let metadata = reader.encoded_metadata().map(|(key, value)| (key.to_owned(), value)).collect();
    let tensors = reader.header().tensors();
    let described = tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.ggml_type, tensor.shape.as_slice()));
    let mut writer = Writer::new(Vec::new(), Layout::new(metadata, described).unwrap()).unwrap();
    for tensor in tensors {
        let mut write = |piece: &[u8]| {
            writer.write(&tensor.name, piece).unwrap();
            ControlFlow::Continue(())
        };
        reader.visit_stored(tensor, 1000, &mut write).unwrap();
    }
    assert!(writer.finish().unwrap() == expected, "the file that was written again differs");
}
