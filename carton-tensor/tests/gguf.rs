//! GGUF files: what is read of them, and what is refused (spec/gguf.md).

#![allow(clippy::unwrap_used, clippy::panic)]

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use carton_tensor::files::{ElementType, FileBytes, ReadAt};
use carton_tensor::gguf::{GgmlType, GgufError, Reader, Value};

/// A file that is being made. Positions in the messages below are those of its parts.
#[derive(Clone)]
struct Made {
    version: u32,
    pairs: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    data: Vec<u8>,
    alignment: usize,
}

fn text(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text].concat()
}

fn pair(key: &str, of: u32, value: &[u8]) -> Vec<u8> {
    [text(key.as_bytes()), of.to_le_bytes().to_vec(), value.to_vec()].concat()
}

fn array(of: u32, len: u64, values: &[u8]) -> Vec<u8> {
    [&of.to_le_bytes()[..], &len.to_le_bytes(), values].concat()
}

fn tensor(name: &str, dimensions: &[u64], of: u32, offset: u64) -> Vec<u8> {
    let dimensions: Vec<u8> = (dimensions.len() as u32)
        .to_le_bytes()
        .into_iter()
        .chain(dimensions.iter().flat_map(|size| size.to_le_bytes()))
        .collect();
    [text(name.as_bytes()), dimensions, of.to_le_bytes().to_vec(), offset.to_le_bytes().to_vec()].concat()
}

impl Made {
    fn new() -> Self {
        Self { version: 3, pairs: Vec::new(), tensors: Vec::new(), data: Vec::new(), alignment: 32 }
    }

    fn pair(mut self, key: &str, of: u32, value: &[u8]) -> Self {
        self.pairs.push(pair(key, of, value));
        self
    }

    fn tensor(mut self, name: &str, dimensions: &[u64], of: u32, offset: u64) -> Self {
        self.tensors.push(tensor(name, dimensions, of, offset));
        self
    }

    fn data(self, n_bytes: u8) -> Self {
        Self { data: (0..n_bytes).collect(), ..self }
    }

    fn header(&self) -> Vec<u8> {
        let mut bytes = [b"GGUF".as_slice(), &self.version.to_le_bytes()].concat();
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend((self.pairs.len() as u64).to_le_bytes());
        bytes.extend(self.pairs.concat());
        bytes.extend(self.tensors.concat());
        bytes
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.header();
        bytes.resize(bytes.len().next_multiple_of(self.alignment), 0);
        bytes.extend(&self.data);
        bytes
    }

    fn read(&self) -> Result<Reader, GgufError> {
        Reader::new(self.bytes(), "made")
    }
}

/// The error of a file, with its causes.
fn told(bytes: Vec<u8>) -> String {
    let error = Reader::new(bytes, "made").unwrap_err();
    assert!(error.is_about_content());
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        message += &format!(": {error}");
        source = error.source();
    }
    message
}

#[track_caller]
fn refused(made: &Made, expected: &str) {
    let found = told(made.bytes());
    assert!(found.contains(expected), "found {found}\nexpected {expected}");
}

#[test]
fn what_a_header_says_is_read() {
    let words = array(8, 2, &[text(b"a"), text(b"\xff")].concat());
    let nested = array(9, 2, &[array(4, 1, &7_u32.to_le_bytes()), array(7, 0, &[])].concat());
    let long: Vec<u8> = (0..100_u16).flat_map(u16::to_le_bytes).collect();
    let made = Made { alignment: 64, ..Made::new() }
        .pair("general.alignment", 4, &64_u32.to_le_bytes())
        .pair("words", 9, &words)
        .pair("nested", 9, &nested)
        .pair("long", 9, &array(2, 100, &long))
        .pair("name", 8, &text(b"n"))
        .tensor("second", &[2, 3], 24, 64)
        .tensor("scalar", &[], 26, 0)
        .tensor("empty", &[32, 0], 2, 128)
        .data(70);
    for version in [2, 3] {
        let reader = Made { version, ..made.clone() }.read().unwrap();
        let header = reader.header();
        assert_eq!((header.version(), header.tensors().len()), (version, 3));
        // Dimensions are in C order.
        let second = reader.get("second").unwrap();
        assert_eq!((second.shape.as_slice(), second.ggml_type), ([3, 2].as_slice(), GgmlType::I8));
        assert_eq!(second.range, header.data_start() + 64..header.data_start() + 70);
        assert_eq!(**reader.read(second).unwrap().bytes(), [64, 65, 66, 67, 68, 69]);
        let scalar = reader.read(reader.get("scalar").unwrap()).unwrap();
        assert_eq!(
            (scalar.dtype(), scalar.shape(), &**scalar.bytes()),
            (ElementType::Int32, [].as_slice(), [0, 1, 2, 3].as_slice())
        );
        assert_eq!(reader.read(reader.get("empty").unwrap()).unwrap().shape(), [0, 32]);
        assert_eq!(header.value("name"), Some(&Value::Text("n".to_owned())));
        let Some(Value::Array(words)) = header.value("words") else { panic!() };
        assert_eq!(words.first, [Value::Text("a".to_owned()), Value::Bytes(vec![0xff])]);
        let Some(Value::Array(nested)) = header.value("nested") else { panic!() };
        assert!(nested.is_whole() && nested.len == 2);
        let Some(Value::Array(long)) = header.value("long") else { panic!() };
        assert!(!long.is_whole() && long.len == 100 && long.first.last() == Some(&Value::Unsigned(63)));
        assert!(matches!(reader.get("none"), Err(GgufError::NoSuchTensor { .. })));
    }
}

#[test]
fn headers_that_break_a_rule_are_refused() {
    let made = Made::new();
    let with = |version: u32| Made { version, ..Made::new() };
    assert!(told(b"GGML\x03\0\0\0".to_vec()).contains("begins with `GGML`, expected `GGUF`"));
    refused(&with(1), "version 1 of the format, expected 2 or 3");
    refused(&with(4), "version 4");
    refused(&with(3_u32.swap_bytes()), "big-endian byte order (its version reads as 0x03000000)");

    let flag = |value: u8| Made::new().pair("k", 7, &[value]);
    flag(1).read().unwrap();
    refused(&flag(2), "key `k`: the boolean at byte 37 is 2, expected 0 or 1");
    // A boolean that is not kept is checked nevertheless.
    let mut flags = [0_u8; 100];
    flags[99] = 3;
    refused(&made.clone().pair("k", 9, &array(7, 100, &flags)), "the boolean at byte 148 is 3");
    refused(&made.clone().pair("k", 13, &[0; 8]), "key `k`: value type 13 at byte 33, expected 0 to 12");
    refused(&made.clone().pair("k", 9, &array(99, 0, &[])), "value type 99");
    refused(&made.clone().pair("", 0, &[0]), "an empty key at byte 24");
    refused(&flag(1).pair("k", 0, &[0]), "key `k` at byte 38 occurs twice");
    let mut invalid = made.clone();
    invalid.pairs.push([text(b"\xff\n"), vec![0; 5]].concat());
    refused(&invalid, "a key at byte 24 is not UTF-8: `\\xff\\n`");
    let deep = |n: usize| (0..n).fold(array(0, 0, &[]), |inner, _| array(9, 1, &inner));
    made.clone().pair("k", 9, &deep(7)).read().unwrap();
    refused(&made.clone().pair("k", 9, &deep(8)), "is inside of 8 others");

    let aligned = |of: u32, value: u64| {
        made.clone().pair("general.alignment", of, &value.to_le_bytes()[..if of > 9 { 8 } else { 4 }])
    };
    refused(&aligned(4, 0), "key `general.alignment` is 0, expected a power of two");
    refused(&aligned(4, 24), "is 24, expected a power of two");
    refused(&aligned(10, 1 << 32), "is 4294967296, expected a power of two");
    refused(&aligned(5, 32), "is the signed integer 32");
    refused(&made.clone().pair("general.alignment", 8, &text(b"32")), "is no integer");
}

#[test]
fn numbers_that_the_file_cannot_hold_are_refused() {
    let counts = |tensors: u64, pairs: u64| {
        [b"GGUF\x03\0\0\0".as_slice(), &tensors.to_le_bytes(), &pairs.to_le_bytes(), &[0; 100]].concat()
    };
    assert!(
        told(counts(u64::MAX, 0))
            .contains("18446744073709551615 as the number of tensors at byte 8, expected at most 4")
    );
    assert!(told(counts(0, 1 << 62)).contains("as the number of keys at byte 16, expected at most 7"));
    let made = Made::new();
    let long = [&u64::MAX.to_le_bytes()[..], b"text"].concat();
    refused(&made.clone().pair("k", 8, &long), "as the number of the text of a value at byte 37");
    refused(&made.clone().pair("k", 9, &array(8, 1 << 61, &[])), "as the number of the values of an array at byte 41");
    refused(&made.clone().pair("k", 9, &array(10, 1 << 61, &[])), "as the number of the values of an array");
    // A name that fits the file, but is longer than any.
    let name = "n".repeat(70_000);
    refused(
        &made.clone().tensor(&name, &[], 0, 0).data(4),
        "70000 as the number of the name of a tensor at byte 24, expected at most 65535",
    );
    // Each file that ends inside the header.
    let whole = Made::new().pair("k", 9, &array(8, 2, &[text(b"ab"), text(b"")].concat())).tensor("t", &[2, 2], 0, 0);
    let header = whole.header();
    for length in 0..header.len() {
        let found = told(header[..length].to_vec());
        assert!(found.contains("more (spec") || found.contains("as the number of"), "{length}: {found}");
    }
}

#[test]
fn tensors_that_break_a_rule_are_refused() {
    let made = Made::new();
    let one = |dimensions: &[u64], of: u32, offset: u64| made.clone().tensor("t", dimensions, of, offset).data(100);
    one(&[25], 0, 0).read().unwrap();
    refused(&one(&[26], 0, 0), "tensor `t` is 104 bytes from byte 64, and the file has 164 bytes");
    refused(&one(&[1], 0, 128), "tensor `t` is 4 bytes from byte 192, and the file has 164 bytes");
    refused(&one(&[1], 0, u64::MAX - 31), "from byte 18446744073709551615");
    refused(&one(&[1], 0, 4), "tensor `t` has the offset 4 at byte 49, expected a multiple of 32");
    refused(&one(&[1; 5], 0, 0), "tensor `t` has 5 dimensions at byte 33, expected at most 4");
    refused(&one(&[1 << 32, 1 << 32], 0, 0), "has the dimensions [4294967296, 4294967296] in the order of the file");
    refused(&one(&[1 << 32, 1 << 32, 0], 0, 0), "more than can be addressed");
    refused(&one(&[u64::MAX], 24, 0), "more than can be addressed");
    refused(&one(&[1], 4, 0), "tensor `t` has the type 4 at byte 45, which is not known");
    refused(
        &one(&[16, 2], 2, 0),
        "tensor `t` at byte 24 has rows of 16 elements, expected a multiple of the 32 of a block of Q4_0",
    );
    refused(&one(&[], 8, 0), "rows of 1 elements");
    let two = |second: &str, offset: u64| one(&[12], 0, 0).tensor(second, &[1], 0, offset);
    two("u", 64).read().unwrap();
    refused(&two("u", 32), "tensor `t` ends at byte 144, and tensor `u` begins at byte 128: they overlap");
    refused(&two("t", 64), "two tensors are named `t`, the second at byte 57");
    // The order of the data is any.
    made.clone().tensor("a", &[8], 24, 32).tensor("b", &[8], 24, 0).data(40).read().unwrap();
}

#[test]
fn blocks_without_numbers_are_listed_and_not_read() {
    for of in GgmlType::ALL.iter().filter(|of| of.is_quantized() && !of.is_dequantized()) {
        let (elements, bytes) = of.block();
        let mut made = Made::new().tensor("t", &[elements as u64], of.id(), 0);
        made.data = vec![0; bytes];
        let reader = made.read().unwrap();
        let error = reader.read(reader.get("t").unwrap()).unwrap_err();
        assert!(error.to_string().contains(&format!("blocks of {of}, which are not dequantized")), "{error}");
        assert!(!of.dequantize(&[0; 300], &mut [0; 2000]));
    }
}

/// Whatever byte of a file is wrong, it is refused, or its tensors are inside of it and have as many numbers as their shapes say.
#[test]
fn damaged_files_are_no_panic() {
    let words = array(8, 3, &[text(b"a"), text(b""), text(b"ccc")].concat());
    let made = Made::new()
        .pair("general.alignment", 4, &32_u32.to_le_bytes())
        .pair("words", 9, &words)
        .pair("nested", 9, &array(9, 1, &array(7, 2, &[0, 1])))
        .tensor("q", &[32, 2], 2, 0)
        .tensor("f", &[2, 3], 0, 64)
        .data(100);
    let whole = made.bytes();
    let mut n_opened = 0;
    for position in 0..whole.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[position] ^= change;
            let Ok(reader) = Reader::new(bytes, "damaged") else { continue };
            n_opened += 1;
            for tensor in reader.header().tensors() {
                assert!(tensor.range.end <= whole.len() as u64);
                let n_elements: usize = tensor.shape.iter().product();
                match reader.read(tensor) {
                    Ok(read) => assert_eq!(read.to_f64().unwrap().len(), n_elements),
                    Err(error) => assert!(matches!(error, GgufError::NotDequantized { .. }), "{error}"),
                }
            }
        }
    }
    assert!(n_opened > 100 && n_opened < whole.len() * 3);
}

/// Counts the bytes that are read.
struct Counted(Vec<u8>, u64, AtomicU64);

impl ReadAt for Counted {
    fn len(&self) -> u64 {
        self.1
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.2.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        for (position, byte) in (offset..).zip(buffer) {
            *byte = usize::try_from(position).ok().and_then(|position| self.0.get(position).copied()).unwrap_or(0);
        }
        Ok(())
    }
}

/// Opening a large file reads its header and little more, also where the header is longer than what is read at a time.
#[test]
fn opening_reads_the_header_alone() {
    let words = (0..50_000_u32).map(|number| text(&number.to_le_bytes())).collect::<Vec<_>>().concat();
    let made = Made::new().pair("words", 9, &array(8, 50_000, &words)).tensor("t", &[1 << 20, 1 << 18], 12, 0);
    let (header, length) = (made.bytes(), (1_u64 << 38) / 256 * 144);
    let header_length = header.len() as u64;
    let counted = Arc::new(Counted(header, header_length + length, AtomicU64::new(0)));
    let reader = Reader::new(FileBytes::from_reader(counted.clone()), "large").unwrap();
    assert_eq!(reader.get("t").unwrap().range.end, header_length + length);
    let read = counted.2.load(Ordering::Relaxed);
    assert!(read < 2 * header_length + (128 << 10), "{read} bytes were read of a header of {header_length}");
}
