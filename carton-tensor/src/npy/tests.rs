#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{self, Cursor};

use proptest::prelude::*;

use super::*;
use crate::NestedTensor;

const LIMIT: u64 = 1 << 21;

/// A file of version 1 with this header, followed by these bytes.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    framed([1, 0], &u16::try_from(header.len()).unwrap().to_le_bytes(), header, data)
}

fn framed(version: [u8; 2], length: &[u8], header: &str, data: &[u8]) -> Vec<u8> {
    [b"\x93NUMPY", version.as_slice(), length, header.as_bytes(), data].concat()
}

fn header(descr: &str, fortran_order: &str, shape: &str) -> String {
    format!("{{'descr': '{descr}', 'fortran_order': {fortran_order}, 'shape': {shape}, }}   \n")
}

fn written(tensor: &Tensor) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes, tensor).unwrap();
    bytes
}

fn numbers<T: crate::Element>(elements: &[T], shape: &[usize]) -> Tensor {
    Tensor::from_vec(elements.to_vec(), shape.to_vec()).unwrap()
}

fn strings(elements: &[&str], shape: &[usize]) -> Tensor {
    Tensor::from_strings(elements.iter().copied(), shape.to_vec()).unwrap()
}

/// Returns one byte per call, like a slow pipe.
struct ByteByByte<'a>(&'a [u8]);

impl Read for ByteByByte<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let end = buffer.len().min(1);
        self.0.read(&mut buffer[..end])
    }
}

#[test]
fn tensors_survive() {
    fn check(tensor: &Tensor) {
        let bytes = written(tensor);
        let start = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        assert_eq!(start % 64, 0, "elements start at a multiple of 64");
        assert_eq!(&read(bytes.as_slice(), LIMIT).unwrap(), tensor);
        assert_eq!(&read(ByteByByte(&bytes), LIMIT).unwrap(), tensor);
    }
    check(&Tensor::scalar(1.5_f32));
    check(&Tensor::scalar(f64::NAN));
    check(&numbers(&[i8::MIN, 0, i8::MAX], &[3]));
    check(&numbers(&[i16::MIN, 0, 1, i16::MAX], &[2, 2]));
    check(&numbers(&[i32::MIN, i32::MAX], &[2, 1, 1]));
    check(&numbers(&[i64::MIN, i64::MAX], &[1, 2]));
    check(&numbers(&[0, u8::MAX], &[2]));
    check(&numbers(&[0, u16::MAX], &[2]));
    check(&numbers(&[0, u32::MAX], &[2]));
    check(&numbers(&[0, u64::MAX], &[2]));
    check(&numbers::<f32>(&[], &[3, 0, usize::MAX]));
    // Larger than the allocation before any data arrives.
    check(&numbers(&vec![0.5_f64; 200_000], &[200_000]));
    check(&strings(&["", "a", "grüße 👋", "in\0side"], &[2, 2]));
    check(&strings(&[], &[0, 4]));
    check(&strings(&["", ""], &[2]));
    check(&strings(&["scalar"], &[]));
}

#[test]
fn files_of_numpy_are_read() {
    fn check(file: &[u8], expected: &Tensor) {
        assert_eq!(&read(file, LIMIT).unwrap(), expected);
    }
    let shorts = [1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0];
    let c_order = numbers(&[1_i16, 2, 3, 4, 5, 6], &[2, 3]);
    let transposed = numbers(&[1_i16, 3, 5, 2, 4, 6], &[2, 3]);
    check(&file(&header("<i2", "False", "(2, 3)"), &shorts), &c_order);
    check(&file(&header("<i2", "True", "(2, 3)"), &shorts), &transposed);
    check(&file(&header("=i2", "False", "(2, 3)"), &shorts), &c_order);
    check(&file(&header(">i2", "False", "(2,)"), &[0, 1, 0xff, 0xfe]), &numbers(&[1_i16, -2], &[2]));
    check(&file(&header(">f4", "True", "()"), &1.5_f32.to_be_bytes()), &Tensor::scalar(1.5_f32));
    check(&file(&header(">u8", "True", "(1, 1)"), &7_u64.to_be_bytes()), &numbers(&[7_u64], &[1, 1]));
    check(&file(&header("|u1", "True", "(2, 2)"), &[1, 2, 3, 4]), &numbers(&[1_u8, 3, 2, 4], &[2, 2]));
    check(
        &file(&header("<f8", "True", "(0, 18446744073709551615, 3)"), &[]),
        &numbers::<f64>(&[], &[0, usize::MAX, 3]),
    );

    let words = [b'a', 0, 0, 0, 0, 0, 0, 0, b'b', 0, 0, 0, b'c', 0, 0, 0];
    check(&file(&header("<U2", "False", "(2,)"), &words), &strings(&["a", "bc"], &[2]));
    check(&file(&header(">U1", "False", "(1,)"), &[0, 1, 0xf6, 0]), &strings(&["😀"], &[1]));
    check(&file(&header("|S2", "False", "(3,)"), b"a\0bc\0\0"), &strings(&["a", "bc", ""], &[3]));
    check(&file(&header("|S1", "True", "(2, 2)"), b"abcd"), &strings(&["a", "c", "b", "d"], &[2, 2]));
    check(&file(&header("<U0", "False", "(0,)"), &[]), &strings(&[], &[0]));

    // Keys in any order, both kinds of quotes, no last comma, Python 2's integers, and the longer header length of later versions.
    let text = "{\"shape\":(3L,),'fortran_order':False,\"descr\":'|u1'}";
    check(&file(text, &[1, 2, 3]), &numbers(&[1_u8, 2, 3], &[3]));
    let text = header("|u1", "False", "(3,)");
    for version in [2, 3] {
        let length = u32::try_from(text.len()).unwrap().to_le_bytes();
        check(&framed([version, 0], &length, &text, &[1, 2, 3]), &numbers(&[1_u8, 2, 3], &[3]));
    }
}

#[test]
fn bad_files_are_errors_that_say_why() {
    /// Takes the kind of error and a part of its message.
    fn check(file: &[u8], kind: &str, message: &str) {
        let error = read(file, LIMIT).unwrap_err();
        let found = match error {
            NpyError::Format { .. } => "format",
            NpyError::Unsupported { .. } => "unsupported",
            NpyError::TooLarge { .. } => "too large",
            _ => "other",
        };
        let text = error.to_string();
        assert!(found == kind && text.contains(message), "expected {kind} with `{message}`, found {found}: {text}");
    }
    let check_header = |header: &str, message: &str| check(&file(header, &[]), "format", message);
    check(b"", "format", "not a valid NumPy file: it is empty");
    check(b"\x93NUM", "format", "it is truncated: expected it to start with `\\x93NUMPY`, found `\\x93NUM`");
    check(b"PK\x03\x04....", "format", "found `PK\\x03\\x04..`");
    check(b"\x93NUMPY\x01\x00", "format", "ends before the length");
    check(b"\x93NUMPY\x04\x00\x00\x00", "unsupported", "version 4.0");
    check(b"\x93NUMPY\x01\x01\x00\x00", "unsupported", "version 1.1");
    check(&framed([2, 0], &[255; 4], "", &[]), "unsupported", "its header has 4294967295 bytes");
    check(
        &framed([1, 0], &[100, 0], "{}", &[]),
        "format",
        "it is truncated: its header should have 100 bytes, found 2",
    );

    check_header("", "expected `{`, found its end");
    check_header("{}", "no key `descr`");
    check_header("{'descr': '<f4', 'fortran_order': False}", "no key `shape`");
    check_header("{'descr': '<f4', 'descr': '<f4'}", "`descr` twice");
    check_header("{'other': 1}", "unknown key `other`");
    check_header("{'shape': (3)}", "expected a tuple, found `(3)}`");
    check_header("{'shape': (3 4)}", "expected `,` or `)`");
    check_header("{'shape': (-1,)}", "expected a dimension, found `-1,)}`");
    check_header("{'shape': (03,)}", "expected a dimension");
    check_header("{'shape': (99999999999999999999,)}", "expected a dimension");
    check_header("{'shape': (True,)}", "expected a dimension");
    check_header("{'shape': [3]}", "expected `(`");
    check_header("{'fortran_order': 0}", "expected `True` or `False`");
    check_header("{'fortran_order': Falsely}", "expected `True` or `False`");
    check_header("{'descr': <f4}", "expected a string");
    check_header("{'descr': '\\x3cf4'}", "expected a string without escapes");
    check_header("{'descr': '<f4", "expected a string");
    check_header("{'descr': '<f3'}", "unknown dtype `<f3`");
    check_header("{'descr': '<U-1'}", "unknown dtype `<U-1`");
    check_header("{'descr': ''}", "unknown dtype ``");
    check_header("{'descr': 'é4'}", "unknown dtype");
    check_header(&(header("<f4", "False", "()") + "}"), "expected nothing after the dictionary");
    check_header(&header("<f4", "False", "(4294967296, 4294967296)"), "is too large");
    check_header(&header("|u1", "False", &format!("({})", "1,".repeat(30_000))), "at most 64 dimensions, found 30000");
    check_header(&header("<U9223372036854775807", "False", "(2,)"), "is too large");

    let unsupported = |descr: &str, message: &str| {
        check(&file(&header(descr, "False", "(1,)"), &[]), "unsupported", &format!("dtype `{descr}` ({message}"));
    };
    let bools = header("|b1", "False", "(2, 2)");
    check(&file(&bools, &[0, 1, 1, 2]), "format", "element [1, 1]: expected 0 or 1, the values of bool, found 2");
    unsupported("<f16", "long double) is not one that a carton can hold; round it with `.astype(\"float64\")`");
    unsupported("<c32", "complex");
    unsupported("|O", "Python objects");
    unsupported("|T16", "variable-width strings");
    unsupported("<M8[ns]", "dates");
    unsupported("|V2", "raw bytes");
    let structured = "{'descr': [('a', '<f4'), ('b', '<i2')], 'fortran_order': False, 'shape': (2,), }";
    check(&file(structured, &[]), "unsupported", "structured dtype `[('a', '<f4'), ('b', '<i2')]`");
    check(&file(&header("<U0", "False", "(1000000000,)"), &[]), "unsupported", "stores no bytes");

    let one = header("<f4", "False", "(1,)");
    check(&file(&one, &[0; 3]), "format", "it is truncated: its array should have 4 bytes, found 3");
    check(&file(&one, &[0; 5]), "format", "bytes after the 4 bytes");
    check(&file(&header("<f8", "False", "(1000000000000,)"), &[0; 8]), "too large", "8000000000083 bytes");
    check(&file(&header("<U1", "False", "(1,)"), &[0, 0, 0x11, 0]), "format", "no character 0x110000");
}

/// NumPy's bytes are texts where they can be.
#[test]
fn bytes_are_texts_or_bytes() {
    let check = |elements: &[u8], expected: Tensor| {
        assert_eq!(read(file(&header("|S2", "False", "(2,)"), elements).as_slice(), LIMIT).unwrap(), expected);
        assert_eq!(read(written(&expected).as_slice(), LIMIT).unwrap(), expected);
    };
    check(b"ab\xc3\xa9", strings(&["ab", "é"], &[2]));
    check(b"a\0\xff\x01", Tensor::from_bytes([&b"a"[..], b"\xff\x01"], vec![2]).unwrap());
    let error = write(Vec::new(), &Tensor::from_bytes([b"\xff\0"], vec![1]).unwrap()).unwrap_err().to_string();
    assert!(error.contains("element 0 ends in NUL"), "{error}");
}

#[test]
fn dtypes_that_the_format_carries() {
    let half = |value: f32| crate::f16::from_f32(value);
    for tensor in [
        numbers(&[crate::BoolByte(1), crate::BoolByte(0)], &[2]),
        numbers(&[half(0.5), half(-2.0)], &[2]),
        numbers(&[crate::Complex::new(1.0_f32, 2.0)], &[1, 1]),
        numbers(&[crate::Complex::new(1.0_f64, 2.0)], &[]),
    ] {
        assert_eq!(read(written(&tensor).as_slice(), LIMIT).unwrap(), tensor);
    }
    let error = write(Vec::new(), &Tensor::scalar(crate::bf16::ONE)).unwrap_err().to_string();
    assert!(error.contains("NumPy has no dtype for bfloat16; safetensors and zTensor do"), "{error}");
}

#[test]
fn every_truncation_is_an_error() {
    for tensor in [numbers(&[1.0_f32, 2.0], &[2]), strings(&["a", "bc"], &[2])] {
        let bytes = written(&tensor);
        for length in 0..bytes.len() {
            assert!(matches!(read(&bytes[..length], LIMIT), Err(NpyError::Format { .. })), "{length}");
        }
    }
}

#[test]
fn tensors_that_npy_cannot_hold_are_not_written() {
    fn check(tensor: &Tensor, message: &str) {
        let error = write(&mut Vec::new(), tensor).unwrap_err();
        assert!(matches!(&error, NpyError::Unsupported { problem, .. } if problem.contains(message)), "{error}");
    }
    check(&Tensor::Nested(NestedTensor::new(vec![Tensor::scalar(1_u8)]).unwrap()), "nested");
    check(&strings(&["a", "b\0"], &[2]), "string 1 ends in NUL");
}

#[test]
fn a_path_is_named_and_its_size_checked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.npy");
    assert!(matches!(read_path(&path), Err(NpyError::Io { .. })));
    let tensor = numbers(&[1.0_f32, 2.0], &[2]);
    std::fs::write(&path, written(&tensor)).unwrap();
    assert_eq!(read_path(&path).unwrap(), tensor);
    // Trusting the shape would allocate eight terabytes.
    std::fs::write(&path, file(&header("<f8", "False", "(1000000000000,)"), &[0; 8])).unwrap();
    let message = read_path(&path).unwrap_err().to_string();
    assert!(message.contains("x.npy` is not a valid NumPy file") && message.contains("found 8"), "{message}");
}

#[test]
fn memory_that_is_not_there_is_an_error() {
    let problem = elements::read_bytes(&mut io::repeat(0), 1 << 60, true).map(drop).unwrap_err();
    assert!(matches!(problem, Problem::Io(error) if error.kind() == io::ErrorKind::OutOfMemory));
}

#[test]
fn limits_hold() {
    let bytes = written(&numbers(&[0_u8; 100], &[100]));
    let size = bytes.len() as u64;
    assert!(read(bytes.as_slice(), size).is_ok());
    assert!(
        matches!(read(bytes.as_slice(), size - 1), Err(NpyError::TooLarge { needed, limit, .. }) if needed == size && limit == size - 1)
    );
}

mod npz {
    use super::*;
    use ::zip::write::SimpleFileOptions;
    use ::zip::{CompressionMethod, ZipWriter};

    fn archive(entries: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in entries {
            writer.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn open(bytes: Vec<u8>) -> Result<Npz<Cursor<Vec<u8>>>, NpyError> {
        Npz::from_reader(Cursor::new(bytes), "cases.npz")
    }

    #[test]
    fn incomplete_zip_files_are_reported() {
        let whole = archive(&[("x.npy", b"")], CompressionMethod::Stored);
        let check = |bytes: &[u8], expected: &str| {
            let message = open(bytes.to_vec()).err().unwrap().to_string();
            assert_eq!(message, format!("`cases.npz` is not a valid NumPy file: {expected}"));
        };
        let truncated = "it is truncated: it begins as a zip file and does not end as one";
        check(b"", "it is empty");
        check(&whole[..3], truncated);
        check(&whole[..whole.len() / 2], truncated);
        check(&whole[..whole.len() - 1], truncated);
        check(b"hello", "expected a zip file, found one that begins with `hell`");
    }

    #[test]
    fn arrays_are_listed_and_read_alone() {
        let (x, y) = (numbers(&[1.0_f32, 2.0], &[2]), strings(&["a"], &[1]));
        for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
            let entries: [(&str, &[u8]); 4] =
                [("y.npy", &written(&y)), ("x.npy", &written(&x)), ("notes.txt", b"text"), ("bad.npy", b"nothing")];
            let mut npz = open(archive(&entries, method)).unwrap();
            assert_eq!(npz.names(), ["y", "x", "bad"]);
            assert_eq!(npz.read("x").unwrap(), x);
            assert_eq!(npz.read("y").unwrap(), y);
            assert_eq!(npz.read("x").unwrap(), x);
            let message = npz.read("bad").unwrap_err().to_string();
            assert!(message.starts_with("`cases.npz#bad` is not a valid NumPy file"), "{message}");
            let message = npz.read("notes").unwrap_err().to_string();
            assert_eq!(message, "`cases.npz` has no array `notes`, it has `y`, `x`, `bad`");
        }
    }

    /// A dropped `ZipWriter` prints to standard error if it cannot finish, so its last writes must appear to succeed.
    #[test]
    fn nothing_more_is_written_after_a_failure() {
        struct Full {
            file: Cursor<Vec<u8>>,
            attempts_when_full: usize,
        }
        impl io::Write for &mut Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                if self.file.position() + bytes.len() as u64 > 100_000 {
                    self.attempts_when_full += 1;
                    return Err(io::ErrorKind::StorageFull.into());
                }
                self.file.write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        impl io::Seek for &mut Full {
            fn seek(&mut self, position: io::SeekFrom) -> io::Result<u64> {
                self.file.seek(position)
            }
        }
        let mut full = Full { file: Cursor::new(Vec::new()), attempts_when_full: 0 };
        let large = Tensor::from_strings(vec!["word"; 40_000], vec![40_000]).unwrap();
        let result = write_npz(&mut full, [("x", &large)]);
        assert!(matches!(&result, Err(NpyError::Io { .. })), "{result:?}");
        assert_eq!(full.attempts_when_full, 1);
    }

    #[test]
    fn nothing_more_is_written_of_a_file_that_was_given_up() {
        struct Counting(Cursor<Vec<u8>>, std::rc::Rc<std::cell::Cell<usize>>);
        impl io::Write for Counting {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.1.set(self.1.get() + 1);
                self.0.write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        impl io::Seek for Counting {
            fn seek(&mut self, position: io::SeekFrom) -> io::Result<u64> {
                self.0.seek(position)
            }
        }
        let n_writes = std::rc::Rc::default();
        let mut npz = NpzWriter::new(Counting(Cursor::new(Vec::new()), std::rc::Rc::clone(&n_writes)));
        npz.add("x", &numbers(&[1; 100_000], &[100_000])).unwrap();
        let before = n_writes.get();
        assert!(before > 0);
        drop(npz);
        assert_eq!(n_writes.get(), before);
    }

    #[test]
    fn writing_is_reproducible() {
        let (x, y) = (Tensor::scalar(7_i64), strings(&["a", "bc"], &[2]));
        let write = || {
            let mut file = Cursor::new(Vec::new());
            write_npz(&mut file, [("x", &x), ("y", &y)]).unwrap();
            file.into_inner()
        };
        assert_eq!(write(), write());
        let mut npz = open(write()).unwrap();
        assert_eq!((npz.read("x").unwrap(), npz.read("y").unwrap()), (x.clone(), y.clone()));
        let twice = write_npz(Cursor::new(Vec::new()), [("x", &x), ("x", &y)]);
        assert!(matches!(twice, Err(NpyError::Format { place, .. }) if place == "npz data#x"));
    }

    #[test]
    fn no_name_that_is_written_leads_out_of_a_folder() {
        let x = Tensor::scalar(7_i64);
        for name in ["../x", "a/../../x", "..\\x", "a\\..\\x", "/x", "\\x", "C:/x", "c:\\x", "a/../b"] {
            let error = write_npz(Cursor::new(Vec::new()), [(name, &x)]).unwrap_err();
            assert!(matches!(error, NpyError::Unsupported { .. }), "{name}: {error}");
        }
        for name in ["a/b", "..", "a/..", "..x/y", "onnx::x_1", "", "a b", "w:0"] {
            let mut file = Cursor::new(Vec::new());
            write_npz(&mut file, [(name, &x)]).unwrap();
            assert_eq!(open(file.into_inner()).unwrap().read(name).unwrap(), x, "{name}");
        }
    }

    #[test]
    fn bombs_and_damage_are_errors() {
        // A megabyte of zeros deflates to a kilobyte. The shape is correct, but the limit forbids it.
        let tensor = numbers(&vec![0_u8; 1 << 20], &[1 << 20]);
        let bytes = archive(&[("x.npy", &written(&tensor))], CompressionMethod::Deflated);
        assert!(bytes.len() < 4096);
        assert_eq!(open(bytes.clone()).unwrap().read("x").unwrap(), tensor);
        let limited = open(bytes).unwrap().with_limit(1 << 19).read("x");
        assert!(matches!(limited, Err(NpyError::TooLarge { .. })), "{limited:?}");

        // The shape needs more, or fewer, bytes than the entry has.
        for shape in ["(1000000000000,)", "(1,)"] {
            let bytes = file(&header("<f8", "False", shape), &[0; 16]);
            let mut npz = open(archive(&[("x.npy", &bytes)], CompressionMethod::Stored)).unwrap();
            assert!(matches!(npz.read("x"), Err(NpyError::Format { .. })));
        }

        let bytes = archive(&[("x.npy", &written(&numbers(&[1_u8, 2, 3], &[3])))], CompressionMethod::Stored);
        let position = bytes.windows(3).position(|window| window == [1, 2, 3]).unwrap();
        let mut damaged = bytes.clone();
        damaged[position] = 9;
        let error = open(damaged).unwrap().read("x").unwrap_err();
        assert!(matches!(error, NpyError::Format { .. }), "a checksum that does not match: {error}");
        for length in 0..bytes.len() {
            assert!(open(bytes[..length].to_vec()).is_err(), "{length}");
        }
    }
}

/// Dtypes and shapes with few elements.
fn any_header() -> impl Strategy<Value = (String, bool, Vec<usize>)> {
    let descr = prop::sample::select(vec!["<f4", ">f8", "|i1", "<i2", ">u4", "<u8", "<U3", ">U2", "|S4"]);
    (descr.prop_map(str::to_owned), any::<bool>(), prop::collection::vec(0_usize..5, 0..4))
}

proptest! {
    #[test]
    fn written_headers_parse((descr, _, shape) in any_header()) {
        let bytes = header::format(&descr, &shape).unwrap();
        let (parsed, size) = header::read(&mut bytes.as_slice()).unwrap();
        prop_assert_eq!(size, bytes.len() as u64);
        prop_assert_eq!(size % 64, 0);
        prop_assert_eq!((parsed.dtype.descr, parsed.fortran_order, parsed.shape), (descr, false, shape));
    }

    #[test]
    fn numbers_survive(elements in prop::collection::vec(any::<u64>(), 0..50)) {
        let tensor = numbers(&elements, &[elements.len()]);
        prop_assert_eq!(read(written(&tensor).as_slice(), LIMIT).unwrap(), tensor);
    }

    #[test]
    fn strings_survive(elements in prop::collection::vec("[^\0]{0,8}", 0..10)) {
        let tensor = Tensor::from_strings(elements.iter().cloned(), vec![elements.len()]).unwrap();
        prop_assert_eq!(read(written(&tensor).as_slice(), LIMIT).unwrap(), tensor);
    }

    #[test]
    fn fortran_order_is_the_transpose_of_the_reversed_shape(
        shape in prop::collection::vec(1_usize..5, 0..5),
        big_endian: bool,
    ) {
        let count: usize = shape.iter().product();
        let data: Vec<u8> = (0..count as u32).flat_map(|n| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() }).collect();
        let dimensions: String = shape.iter().map(|size| format!("{size},")).collect();
        let descr = if big_endian { ">u4" } else { "<u4" };
        let tensor = read(file(&header(descr, "True", &format!("({dimensions})")), &data).as_slice(), LIMIT).unwrap();
        let reversed: Vec<usize> = shape.iter().rev().copied().collect();
        let expected = ndarray::ArrayD::from_shape_vec(reversed, (0..count as u32).collect()).unwrap().reversed_axes();
        prop_assert_eq!(tensor.view::<u32>().unwrap(), expected);
    }

    /// Random bytes cause neither a panic nor large allocations, whatever sizes the headers claim.
    #[test]
    fn random_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(bytes.as_slice(), LIMIT);
        let _ = read([b"\x93NUMPY\x01\x00".as_slice(), &bytes].concat().as_slice(), LIMIT);
        let _ = header::parse(&bytes);
        let _ = Npz::from_reader(Cursor::new(bytes), "random").map(drop);
    }

    #[test]
    fn random_headers_are_parsed_or_refused(text in "[{}()\\[\\]'\":, <>|=a-zA-Z0-9]{0,80}") {
        let _ = header::parse(text.as_bytes());
        let _ = header::parse(format!("{{'descr': {text}, 'shape': (1,), 'fortran_order': False}}").as_bytes());
        let _ = header::parse(format!("{{'descr': '{text}', 'shape': ({text}), 'fortran_order': False}}").as_bytes());
    }

    #[test]
    fn damaged_files_are_read_or_refused(position in 0_usize..200, byte: u8, (descr, fortran_order, shape) in any_header()) {
        let dimensions: String = shape.iter().map(|size| format!("{size},")).collect();
        let order = if fortran_order { "True" } else { "False" };
        let text = header(&descr, order, &format!("({dimensions})"));
        let parsed = header::parse(text.as_bytes()).unwrap();
        let mut bytes = file(&text, &vec![0; usize::try_from(parsed.n_bytes().unwrap()).unwrap()]);
        prop_assert!(read(bytes.as_slice(), LIMIT).is_ok());
        let position = position % bytes.len();
        bytes[position] = byte;
        let _ = read(bytes.as_slice(), LIMIT);
    }
}
