//! Agreement with the Python library `safetensors`, and with `ml_dtypes` on the values of small floats. Both need the Python
//! interpreter named by `CARTON_TEST_PYTHON`; without one the tests are skipped.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::safetensors::{self, Metadata, Reader};

/// Returns the Python interpreter. Without one, prints that the test is skipped and returns `None`.
fn python() -> Option<OsString> {
    let python = std::env::var_os("CARTON_TEST_PYTHON");
    if python.is_none() {
        eprintln!(
            "skipped: CARTON_TEST_PYTHON names no python3 that has safetensors (tests/python/setup.sh makes one)"
        );
    }
    python
}

fn run(python: &OsString, task: &str, place: &Path) {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/safetensors_interop.py");
    let output = Command::new(python).arg(script).arg(task).arg(place).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Checks that we decode every value of the table.
fn check_values(table: &str) {
    let mut n_types = 0;
    for line in table.lines() {
        let (name, words) = line.split_once(' ').unwrap();
        let dtype = ElementType::ALL.into_iter().find(|dtype| dtype.name() == name).unwrap();
        let expected: Vec<f64> =
            words.split(',').map(|word| f64::from_bits(u64::from_str_radix(word, 16).unwrap())).collect();
        let patterns = 0..expected.len() as u32;
        let bytes: Vec<u8> = match dtype.bits() {
            16 => patterns.flat_map(|pattern| (pattern as u16).to_le_bytes()).collect(),
            8 => patterns.map(|pattern| pattern as u8).collect(),
            // Packs two elements into one byte, or four into three, from the lowest bit upwards.
            bits => {
                let per_chunk = if bits == 6 { 4 } else { 2 };
                let chunks = patterns.collect::<Vec<_>>();
                let pack = |chunk: &[u32]| {
                    let packed = chunk.iter().rev().fold(0_u32, |packed, pattern| packed << bits | pattern);
                    packed.to_le_bytes()[..bits * per_chunk / 8].to_vec()
                };
                chunks.chunks_exact(per_chunk).flat_map(pack).collect()
            }
        };
        let found = dtype.to_f64(&bytes).unwrap();
        let narrow = dtype.to_f32(&bytes).unwrap();
        assert_eq!(found.len(), expected.len(), "{dtype}");
        for (pattern, (&found, &expected)) in found.iter().zip(&expected).enumerate() {
            let same = found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
            assert!(same, "{dtype} {pattern:#x}: found {found}, expected {expected}");
            assert_eq!((narrow[pattern] as f64).to_bits() << 1, found.to_bits() << 1, "{dtype} {pattern:#x}");
        }
        n_types += 1;
    }
    assert_eq!(n_types, 10);
}

#[test]
fn files_and_values_of_the_python_library_agree() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    run(&python, "make", place);
    check_values(&fs::read_to_string(place.join("values.txt")).unwrap());

    let mut n_files = 0;
    for entry in fs::read_dir(place.join("in")).unwrap() {
        let path = entry.unwrap().path();
        let copied = Reader::open(&path).unwrap();
        let mapped = Reader::map(&path).unwrap();
        let names: Vec<&str> = copied.names().collect();
        let tensors: Vec<RawTensor> = names.iter().map(|name| copied.read(name).unwrap()).collect();
        for (name, tensor) in names.iter().zip(&tensors) {
            assert_eq!(&mapped.read(name).unwrap(), tensor, "{name}");
        }
        let output = fs::File::create(place.join("out").join(path.file_name().unwrap())).unwrap();
        safetensors::write(names.iter().zip(&tensors), copied.metadata(), output).unwrap();
        n_files += 1;
    }
    assert_eq!(n_files, 18);

    // Our names of element types in the format are those of the library.
    let mut tensors = Vec::new();
    let mut described = Vec::new();
    for dtype in ElementType::ALL.into_iter().filter(|dtype| *dtype != ElementType::Complex128) {
        let bytes: Vec<u8> = (0..dtype.bits() as u8).collect();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        described.push(format!(r#""{dtype}":["{}",[4,2],"{hex}"]"#, format_name(dtype)));
        tensors.push((dtype.name(), RawTensor::new(dtype, vec![4, 2], bytes.into()).unwrap()));
    }
    let output = fs::File::create(place.join("ours.safetensors")).unwrap();
    safetensors::write(tensors.iter().map(|(name, tensor)| (name, tensor)), &Metadata::default(), output).unwrap();
    // Several files, with some tensor names outside ASCII.
    let sharded = place.join("sharded");
    fs::create_dir(&sharded).unwrap();
    let numbers = [("b\u{7f}\n\"é👋", 3), ("a", 5), ("zero", 0), ("c", 12), ("B", 2)];
    let numbers = numbers.map(|(name, count)| (name, ElementType::Int16, [count]));
    let read = |position: usize| Ok(vec![7_u8; numbers[position].2[0] * 2].into());
    let index = safetensors::write_sharded(&sharded, "model", &numbers, &Metadata::default(), 16, read).unwrap();
    assert!(carton_tensor::checkpoint::Sharded::open(index).unwrap().shards().len() == 3);
    fs::write(place.join("ours.json"), format!("{{{}}}", described.join(","))).unwrap();
    run(&python, "check", place);
}

/// The name of an element type in the format and in the library.
fn format_name(dtype: ElementType) -> &'static str {
    match dtype.name() {
        "bool" => "BOOL",
        "uint8" => "U8",
        "int8" => "I8",
        "uint16" => "U16",
        "int16" => "I16",
        "uint32" => "U32",
        "int32" => "I32",
        "uint64" => "U64",
        "int64" => "I64",
        "float16" => "F16",
        "bfloat16" => "BF16",
        "float32" => "F32",
        "float64" => "F64",
        "complex64" => "C64",
        "float8_e4m3fn" => "F8_E4M3",
        "float8_e5m2" => "F8_E5M2",
        "float8_e4m3fnuz" => "F8_E4M3FNUZ",
        "float8_e5m2fnuz" => "F8_E5M2FNUZ",
        "float8_e8m0fnu" => "F8_E8M0",
        "float6_e2m3fn" => "F6_E2M3",
        "float6_e3m2fn" => "F6_E3M2",
        "float4_e2m1fn" => "F4",
        other => panic!("no format has {other}"),
    }
}
