//! Every rule of `tensor_data`, case by case; round trips; and bytes that nobody meant as an index.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use carton_tensor::{NestedTensor, NumericTensor, StringTensor, Tensor, Tolerance, allclose};
use proptest::prelude::*;

use super::*;
use crate::archive::Content;

/// Files in memory, whose sizes are known, unknown, or claimed to be something else.
struct Memory {
    files: BTreeMap<String, Vec<u8>>,
    size: fn(u64) -> Option<u64>,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    TensorData(#[from] TensorDataError),
    #[error("no file {0}")]
    NoFile(String),
    #[error("{0} has another size than asked for")]
    Size(String),
}

impl Memory {
    fn get(&self, path: &str) -> Result<&Vec<u8>, Failure> {
        self.files.get(path).ok_or_else(|| Failure::NoFile(path.to_owned()))
    }

    /// What `Index::read` makes of the files.
    fn tensor(&self, name: &str) -> Result<Tensor, Failure> {
        let index = Index::parse(self.get("tensor_data/index.toml")?)?;
        index.read(name, self, &Directories::default())
    }
}

impl TensorFiles for Memory {
    type Error = Failure;

    fn size(&self, path: &str) -> Result<Option<u64>, Failure> {
        Ok((self.size)(self.get(path)?.len() as u64))
    }

    fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, Failure> {
        let bytes = self.get(path)?;
        if bytes.len() as u64 > cap { Err(Failure::Size(path.to_owned())) } else { Ok(bytes.clone()) }
    }

    fn read_into(&self, path: &str, buffer: &mut [u8]) -> Result<(), Failure> {
        let bytes = self.get(path)?;
        if bytes.len() != buffer.len() {
            return Err(Failure::Size(path.to_owned()));
        }
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn exact_size(&self, path: &str) -> Result<u64, Failure> {
        Ok(self.get(path)?.len() as u64)
    }

    fn read_range(&self, path: &str, offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        let start = usize::try_from(offset).unwrap();
        let range = self.get(path)?.get(start..start + buffer.len());
        buffer.copy_from_slice(range.ok_or_else(|| Failure::Size(path.to_owned()))?);
        Ok(())
    }
}

/// `index.toml` and other files, with sizes that are known.
fn memory(index: &str, files: &[(&str, &[u8])]) -> Memory {
    let mut map: BTreeMap<_, _> =
        files.iter().map(|(name, bytes)| (format!("{FOLDER}{name}"), bytes.to_vec())).collect();
    map.insert(format!("{FOLDER}{INDEX}"), index.as_bytes().to_vec());
    Memory { files: map, size: Some }
}

/// An error with what lies behind it, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    crate::causes::in_one_line(error).replace('\n', " ")
}

fn bits(tensor: &Tensor) -> String {
    match tensor {
        Tensor::Numeric(tensor) => format!("{} {:?} {:?}", tensor.dtype(), tensor.shape(), tensor.bytes()),
        Tensor::String(tensor) => format!("string {:?} {:?}", tensor.shape(), tensor.elements()),
        Tensor::Nested(tensor) => format!("nested {:?}", tensor.elements().iter().map(bits).collect::<Vec<_>>()),
        _ => panic!("another kind of tensor"),
    }
}

/// Reads `t` and compares either what it is or a part of the error.
fn check(index: &str, files: &[(&str, &[u8])], expected: Result<&str, &str>) {
    let found = memory(index, files).tensor("t");
    match (found, expected) {
        (Ok(found), Ok(expected)) => assert_eq!(bits(&found), expected, "{index}"),
        (Err(found), Err(expected)) => {
            let found = chain(&found);
            assert!(found.contains(expected), "{index}\nexpected {expected}\nfound {found}");
        }
        (found, expected) => panic!("{index}\nexpected {expected:?}\nfound {found:?}"),
    }
}

/// One plain tensor called `t`.
fn plain(dtype: &str, shape: &str, file: &str) -> String {
    format!("[[tensor]]\nname = 't'\ndtype = '{dtype}'\nshape = {shape}\nfile = '{file}'\n")
}

/// Two strings of one element, `a` and `b`, and `t` made of them, as `inner` says.
fn nested(inner: &str) -> String {
    let one = |name: &str, dtype: &str, file: &str| {
        format!("[[tensor]]\nname = '{name}'\ndtype = '{dtype}'\nshape = [1]\nfile = '{file}'\n")
    };
    format!(
        "[[tensor]]\nname = 't'\ndtype = 'nested'\n{inner}\n{}{}",
        one("a", "uint8", "a.bin"),
        one("b", "int8", "b.bin")
    )
}

#[test]
fn numbers() {
    check(&plain("uint8", "[2, 2]", "t.bin"), &[("t.bin", &[1, 2, 3, 4])], Ok("uint8 [2, 2] [1, 2, 3, 4]"));
    check(&plain("int16", "[1]", "t.bin"), &[("t.bin", &[1, 2])], Ok("int16 [1] [1, 2]"));
    check(&plain("float64", "[]", "t.bin"), &[("t.bin", &[7; 8])], Ok("float64 [] [7, 7, 7, 7, 7, 7, 7, 7]"));
    check(&plain("float32", "[5, 0]", "t.bin"), &[("t.bin", &[])], Ok("float32 [5, 0] []"));
    let index = format!("future = 1\n{}more = 'x'\ninner = []\n", plain("uint8", "[1]", "any name"));
    check(&index, &[("any name", &[9])], Ok("uint8 [1] [9]"));
}

#[test]
fn sizes() {
    let mismatch = Err("tensor `t`: its dtype and shape need 8 bytes, `tensor_data/t.bin` has 7");
    check(&plain("float32", "[2]", "t.bin"), &[("t.bin", &[0; 7])], mismatch);
    let mismatch = Err("need 8 bytes, `tensor_data/t.bin` has 9");
    check(&plain("float32", "[2]", "t.bin"), &[("t.bin", &[0; 9])], mismatch);
    // 10 GiB in 1 KiB.
    let mismatch = Err("need 10737418240 bytes, `tensor_data/t.bin` has 1024");
    check(&plain("uint8", "[10737418240]", "t.bin"), &[("t.bin", &[0; 1024])], mismatch);
    let too_large =
        Err("`tensor[0].shape`: expected a number of elements that fits in memory, found [4294967296, 4294967296]");
    check(&plain("uint8", "[4294967296, 4294967296]", "t.bin"), &[("t.bin", &[])], too_large);
    check(&plain("uint64", "[2305843009213693952]", "t.bin"), &[("t.bin", &[])], Err("fits in memory"));
    check(&plain("uint8", "[-1]", "t.bin"), &[("t.bin", &[])], Err("invalid value: integer `-1`"));
    // Nothing overflows where there is nothing.
    check(
        &plain("uint8", "[0, 4294967296, 4294967296]", "t.bin"),
        &[("t.bin", &[])],
        Ok("uint8 [0, 4294967296, 4294967296] []"),
    );
}

#[test]
fn sizes_that_are_not_known_or_not_true() {
    let index = plain("uint8", "[4]", "t.bin");
    let mut files = memory(&index, &[("t.bin", &[1, 2, 3, 4])]);
    files.size = |_| None;
    assert_eq!(bits(&files.tensor("t").unwrap()), "uint8 [4] [1, 2, 3, 4]");
    files.files.insert("tensor_data/t.bin".to_owned(), vec![1, 2, 3]);
    assert!(matches!(files.tensor("t"), Err(Failure::TensorData(TensorDataError::SizeMismatch { found: 3, .. }))));
    files.files.insert("tensor_data/t.bin".to_owned(), vec![0; 5]);
    assert!(matches!(files.tensor("t"), Err(Failure::Size(_))));
    // A compressed entry may claim any size.
    let mut files = memory(&plain("uint8", "[1152921504606846976]", "t.bin"), &[("t.bin", &[0; 9])]);
    files.size = |_| Some(1 << 60);
    assert!(matches!(files.tensor("t"), Err(Failure::TensorData(TensorDataError::OutOfMemory { .. }))));
}

#[test]
fn strings() {
    let index = plain("string", "[2]", "t.toml");
    check(&index, &[("t.toml", b"data = ['x', \"\\u00e9\"]")], Ok("string [2] [\"x\", \"\u{e9}\"]"));
    check(&index, &[("t.toml", b"data = ['x', '''\ny''',]\nmore = 1 # ignored")], Ok("string [2] [\"x\", \"y\"]"));
    check(&index, &[("t.toml", b"data = ['x', 'y', 'z']")], Err("need 2 strings, `tensor_data/t.toml` has 3"));
    check(&index, &[("t.toml", b"data = ['xxxxxx']")], Err("need 2 strings, `tensor_data/t.toml` has 1"));
    check(&index, &[("t.toml", b"data = ['x', 1]")], Err("`tensor_data/t.toml` is malformed: TOML parse error"));
    check(
        &index,
        &[("t.toml", b"data = ['x', 1979-05-27]")],
        Err("`tensor_data/t.toml` is malformed: TOML parse error"),
    );
    check(&index, &[("t.toml", b"date = ['x', 'y']")], Err("missing field `data`"));
    check(
        &index,
        &[("t.toml", b"data = ['\xff', 'y']")],
        Err("`tensor_data/t.toml` is not UTF-8: invalid byte at offset 9"),
    );
    check(&plain("string", "[]", "t.toml"), &[("t.toml", b"data = ['x']")], Ok("string [] [\"x\"]"));
    check(&plain("string", "[0]", "t.toml"), &[("t.toml", b"data = []")], Ok("string [0] []"));
    // Seen to be too short before it is parsed.
    check(&plain("string", "[1000]", "t.toml"), &[("t.toml", b"not = TOML")], Err("need 1000 strings"));
    let mut files = memory(&index, &[("t.toml", b"data = ['x', 'y']")]);
    files.size = |_| Some(MAX_STRINGS_LENGTH + 1);
    assert!(matches!(files.tensor("t"), Err(Failure::TensorData(TensorDataError::TooLarge { .. }))));
}

#[test]
fn nested_tensors() {
    let files: &[(&str, &[u8])] = &[("a.bin", &[1]), ("b.bin", &[2])];
    check(&nested("inner = ['a']"), files, Ok("nested [\"uint8 [1] [1]\"]"));
    check(&nested("inner = ['a', 'a']"), files, Ok("nested [\"uint8 [1] [1]\", \"uint8 [1] [1]\"]"));
    check(&nested("inner = []"), files, Ok("nested []"));
    check(&nested(""), files, Ok("nested []"));
    check(&nested("inner = ['a']\nshape = []\nfile = ''"), files, Ok("nested [\"uint8 [1] [1]\"]"));
    check(
        &nested("inner = ['a', 'c']"),
        files,
        Err("`tensor[0].inner[1]`: expected the name of a tensor in the index, found `c`"),
    );
    check(
        &nested("inner = ['t']"),
        files,
        Err("`tensor[0].inner[0]`: expected a tensor that is not nested, found the nested tensor `t`"),
    );
    check(
        &nested("inner = ['a', 'b']"),
        files,
        Err("expected a tensor of uint8, as the first one is, found `b` of int8"),
    );
    check(&nested("inner = 'a'"), files, Err("invalid type: string"));
    check(&nested("inner = ['a']"), &[("a.bin", &[1, 2])], Err("tensor `a`: its dtype and shape need 1 bytes"));
    check(&nested("inner = ['a']"), &[], Err("no file tensor_data/a.bin"));
    let cycle = "[[tensor]]\nname = 't'\ndtype = 'nested'\ninner = ['u']\n[[tensor]]\nname = 'u'\ndtype = 'nested'\ninner = ['t']";
    check(cycle, files, Err("expected a tensor that is not nested, found the nested tensor `u`"));
}

#[test]
fn index() {
    let file: &[(&str, &[u8])] = &[("t.bin", &[1])];
    check("", file, Err("tensor `t` is not in `tensor_data/index.toml`"));
    check("tensor = []", file, Err("tensor `t` is not in `tensor_data/index.toml`"));
    check("tensor = 1", file, Err("`tensor_data/index.toml` is malformed"));
    check("tensor = [['t', 'uint8', [1], 't.bin']]", file, Err("invalid type: sequence, expected a table"));
    check("[[tensor]]", file, Err("missing field `name`"));
    check("[[tensor]]\nname = 't'", file, Err("missing field `dtype`"));
    check("[[tensor]]\nname = ''\ndtype = 'nested'", file, Err("`tensor[0].name`: expected a name"));
    check("[[tensor]]\nname = 't'\ndtype = 'uint8'\nfile = 't.bin'", file, Err("`tensor[0].shape`: expected a value"));
    check("[[tensor]]\nname = 't'\ndtype = 'uint8'\nshape = [1]", file, Err("`tensor[0].file`: expected a value"));
    check(&plain("float16", "[1]", "t.bin"), file, Err("`tensor[0].dtype`: expected nested or one of float32, "));
    let with_inner = format!("{}inner = ['t']", plain("uint8", "[1]", "t.bin"));
    check(&with_inner, file, Err("`tensor[0].inner`: expected nothing for a tensor of uint8, found 1 names"));
    let twice = plain("uint8", "[1]", "t.bin").repeat(2);
    check(&twice, file, Err("`tensor[1].name`: expected another name than any tensor before, found `t`"));
    for name in ["", ".", "..", "../t.bin", "a/t.bin", "/t.bin", "a\\\\b", "a\\nb", "a\\u0000"] {
        let index = plain("uint8", "[1]", "FILE").replace("'FILE'", &format!("\"{name}\""));
        check(&index, file, Err("`tensor[0].file`: expected the name of a file in `tensor_data`"));
    }
}

#[test]
fn files_are_checked_without_being_read() {
    let index = Index::parse(plain("float32", "[2]", "t.bin").as_bytes()).unwrap();
    assert!(index.check_files(|path| (path == "tensor_data/t.bin").then_some(Some(8))).is_ok());
    assert!(index.check_files(|_| Some(None)).is_ok());
    assert!(matches!(index.check_files(|_| None), Err(TensorDataError::NoSuchFile { .. })));
    assert!(matches!(index.check_files(|_| Some(Some(9))), Err(TensorDataError::SizeMismatch { found: 9, .. })));
    // More strings than are read stand in nobody's way until somebody asks for them.
    let index = Index::parse(plain("string", "[2]", "t.toml").as_bytes()).unwrap();
    assert!(index.check_files(|_| Some(Some(MAX_STRINGS_LENGTH + 1))).is_ok());
    assert!(matches!(index.check_files(|_| Some(Some(3))), Err(TensorDataError::SizeMismatch { found: 1, .. })));
}

/// The files that `entries` makes, with sizes that are known.
fn written(tensors: &BTreeMap<String, Tensor>) -> Memory {
    written_as(tensors, TensorFormat::Bin)
}

fn written_as(tensors: &BTreeMap<String, Tensor>, format: TensorFormat) -> Memory {
    let bytes = |content| match content {
        Content::Bytes(bytes) => bytes,
        other => panic!("{other:?}"),
    };
    let files = entries(tensors, format)
        .unwrap()
        .into_iter()
        .map(|(path, content)| match content {
            Content::InPlace(content) => {
                assert!(is_tensor_file(&path), "{path}");
                (path, bytes(*content))
            }
            content => (path, bytes(content)),
        })
        .collect();
    Memory { files, size: Some }
}

#[test]
fn layout_of_what_is_written() {
    let numbers = Tensor::from(NumericTensor::from_vec(vec![1_u8, 2], vec![2]).unwrap());
    let strings = Tensor::from(StringTensor::new(vec!["\"".to_owned(), "two\nlines".to_owned()], vec![2, 1]).unwrap());
    let ragged = Tensor::from(
        NestedTensor::new(vec![numbers.clone(), NumericTensor::from_vec(vec![3_u8], vec![]).unwrap().into()]).unwrap(),
    );
    let tensors = [("n", numbers.clone()), ("r", ragged), ("r[0]", numbers), ("s", strings)];
    let memory = written(&tensors.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect());
    let text = |name: &str| String::from_utf8(memory.files[&format!("tensor_data/{name}")].clone()).unwrap();
    let expected = r#"[[tensor]]
name = "n"
dtype = "uint8"
shape = [2]
file = "tensor_0.bin"
inner = []

[[tensor]]
name = "r[0]_"
dtype = "uint8"
shape = [2]
file = "tensor_1.bin"
inner = []

[[tensor]]
name = "r[1]"
dtype = "uint8"
shape = []
file = "tensor_2.bin"
inner = []

[[tensor]]
name = "r"
dtype = "nested"
inner = ["r[0]_", "r[1]"]

[[tensor]]
name = "r[0]"
dtype = "uint8"
shape = [2]
file = "tensor_3.bin"
inner = []

[[tensor]]
name = "s"
dtype = "string"
shape = [2, 1]
file = "tensor_4.toml"
inner = []
"#;
    assert_eq!(text("index.toml"), expected);
    assert_eq!(text("tensor_4.toml"), "data = ['\"', \"\"\"\ntwo\nlines\"\"\"]\n");
    assert_eq!(memory.files["tensor_data/tensor_0.bin"], [1, 2]);
    assert_eq!(memory.files.len(), 6);
}

#[test]
fn an_index_is_written_even_for_nothing() {
    let memory = written(&BTreeMap::new());
    assert_eq!(memory.files["tensor_data/index.toml"], b"tensor = []\n");
    assert!(matches!(memory.tensor("t"), Err(Failure::TensorData(TensorDataError::NoSuchTensor { .. }))));
    let nameless = [(String::new(), Tensor::from(NumericTensor::from_vec(vec![0_u8], vec![]).unwrap()))];
    assert!(entries(&nameless.into_iter().collect(), TensorFormat::Bin).is_err());
}

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
        numbers!(u16, shapes),
        strings
    ]
    .boxed()
}

fn any_nested() -> impl Strategy<Value = Tensor> {
    let strings = (any::<Vec<String>>()).prop_map(|elements| {
        let shape = vec![elements.len()];
        Tensor::from(StringTensor::new(elements, shape).unwrap())
    });
    proptest::collection::vec(strings, 0..4).prop_map(|elements| NestedTensor::new(elements).unwrap().into())
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
            let index = Index::parse(&memory.files["tensor_data/index.toml"]).unwrap();
            index.check_files(|path| memory.files.get(path).map(|bytes| Some(bytes.len() as u64))).unwrap();
            for (name, tensor) in &tensors {
                prop_assert_eq!(bits(&memory.tensor(name).unwrap()), bits(tensor));
            }
        }
    }

    #[test]
    fn no_index_is_too_strange(bytes in any::<Vec<u8>>()) {
        let _ = Index::parse(&bytes);
    }

    /// A valid index in which bytes were overwritten is read, or refused, and never more than that; what it then says is true.
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
        if let Ok(index) = Index::parse(bytes) {
            for name in index.names() {
                if let Ok(Tensor::Numeric(tensor)) = memory.tensor(name) {
                    prop_assert_eq!(tensor.bytes().len(), 8);
                }
            }
        }
    }
}

/// The index that the first implementation writes: in the order of a hash map, `inner` everywhere, no folders, files named
/// after a count of their own.
#[test]
fn as_the_original_writes_it() {
    let index = r#"
[[tensor]]
name = "_tensor_3"
dtype = "string"
shape = [1]
file = "tensor_0.toml"
inner = []

[[tensor]]
name = "_tensor_0"
dtype = "float64"
shape = []
file = "tensor_1.bin"
inner = []
"#;
    let pi = 3.25_f64.to_le_bytes();
    let files = memory(index, &[("tensor_0.toml", b"data = ['a']\n"), ("tensor_1.bin", &pi)]);
    let expected = Tensor::from(NumericTensor::from_vec(vec![3.25_f64], vec![]).unwrap());
    let found = files.tensor("_tensor_0").unwrap();
    assert!(allclose(&found, &expected, Tolerance { rtol: 0.0, atol: 0.0, equal_nan: false }).passed);
    assert_eq!(bits(&files.tensor("_tensor_3").unwrap()), "string [1] [\"a\"]");
}

/// Tensors of every kind, one of them with a name that a safetensors file cannot have.
fn example() -> BTreeMap<String, Tensor> {
    let numbers = Tensor::from(NumericTensor::from_vec(vec![1_u8, 2], vec![2]).unwrap());
    let strings = Tensor::from(StringTensor::new(vec!["a".to_owned()], vec![1]).unwrap());
    let ragged = NestedTensor::new(vec![numbers.clone(), NumericTensor::from_vec(vec![3_u8], vec![]).unwrap().into()]);
    let tensors = [
        ("__metadata__", numbers),
        ("f", NumericTensor::from_vec(vec![1.5_f32], vec![1, 1]).unwrap().into()),
        ("r", ragged.unwrap().into()),
        ("s", strings),
    ];
    tensors.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect()
}

#[test]
fn layout_of_one_file_for_all_numbers() {
    let check = |format, file: &str, file_format: &str, metadata: &str| {
        let memory = written_as(&example(), format);
        let paths: Vec<&str> = memory.files.keys().map(String::as_str).collect();
        let file_path = format!("tensor_data/{file}");
        let mut expected = ["tensor_data/index.toml", "tensor_data/tensor_0.toml", &file_path];
        expected.sort_unstable();
        assert_eq!(paths, expected);
        let member = |name: &str, dtype: &str, shape: &str, name_in_file: &str| {
            format!(
                "[[tensor]]\nname = \"{name}\"\ndtype = \"{dtype}\"\nshape = {shape}\nfile = \"{file}\"\n\
                 file_format = \"{file_format}\"\nname_in_file = \"{name_in_file}\"\ninner = []\n"
            )
        };
        let expected = [
            member("__metadata__", "uint8", "[2]", metadata),
            member("f", "float32", "[1, 1]", "f"),
            member("r[0]", "uint8", "[2]", "r[0]"),
            member("r[1]", "uint8", "[]", "r[1]"),
            "[[tensor]]\nname = \"r\"\ndtype = \"nested\"\ninner = [\"r[0]\", \"r[1]\"]\n".to_owned(),
            "[[tensor]]\nname = \"s\"\ndtype = \"string\"\nshape = [1]\nfile = \"tensor_0.toml\"\ninner = []\n"
                .to_owned(),
        ];
        assert_eq!(String::from_utf8_lossy(&memory.files["tensor_data/index.toml"]), expected.join("\n"));
        // The same input gives the same bytes.
        assert_eq!(written_as(&example(), format).files, memory.files);
        let index = Index::parse(&memory.files["tensor_data/index.toml"]).unwrap();
        assert_eq!(index.files_of(["r", "s"]).into_iter().collect::<Vec<_>>(), ["tensor_0.toml", file]);
    };
    check(TensorFormat::Safetensors, "tensors.safetensors", "safetensors", "__metadata___");
    check(TensorFormat::Ztensor, "tensors.zt", "ztensor", "__metadata__");
    // Nothing for numbers where there are none.
    let strings = [("s".to_owned(), example().remove("s").unwrap())].into_iter().collect();
    for format in [TensorFormat::Safetensors, TensorFormat::Ztensor] {
        assert_eq!(written_as(&strings, format).files, written(&strings).files);
        assert_eq!(written_as(&BTreeMap::new(), format).files, written(&BTreeMap::new()).files);
    }
}

#[test]
fn names_that_are_taken_in_the_file_are_lengthened() {
    let one = || Tensor::from(NumericTensor::from_vec(vec![1_u8], vec![]).unwrap());
    let two = || Tensor::from(NumericTensor::from_vec(vec![2_u8], vec![]).unwrap());
    let tensors = [("__metadata__".to_owned(), one()), ("__metadata___".to_owned(), two())].into_iter().collect();
    let memory = written_as(&tensors, TensorFormat::Safetensors);
    assert_eq!(bits(&memory.tensor("__metadata__").unwrap()), bits(&one()));
    assert_eq!(bits(&memory.tensor("__metadata___").unwrap()), bits(&two()));
}

/// An index of `t`, a member of a file with other keys as given.
fn member(dtype: &str, shape: &str, more: &str) -> String {
    format!("{}{more}", plain(dtype, shape, "t.file"))
}

#[test]
fn a_file_of_many_tensors_and_the_index_must_agree() {
    let header = br#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"h":{"dtype":"F16","shape":[1],"data_offsets":[2,4]}}"#;
    let safetensors = [&(header.len() as u64).to_le_bytes(), header.as_slice(), &[7, 8, 0, 0]].concat();
    let st = |dtype, shape, name: &str, expected| {
        let index = member(dtype, shape, &format!("file_format = 'safetensors'\nname_in_file = '{name}'\n"));
        check(&index, &[("t.file", &safetensors)], expected);
    };
    st("uint8", "[2]", "a", Ok("uint8 [2] [7, 8]"));
    st("int8", "[2]", "a", Err("`tensor_data/index.toml` says int8 [2], `tensor_data/t.file` has uint8 [2]"));
    st("uint8", "[2, 1]", "a", Err("says uint8 [2, 1], `tensor_data/t.file` has uint8 [2]"));
    st("uint8", "[1]", "a", Err("says uint8 [1], `tensor_data/t.file` has uint8 [2]"));
    st("uint16", "[1]", "h", Err("has float16 [1]"));
    st("uint8", "[2]", "b", Err("called `b` in `tensor_data/t.file`, which has no such tensor"));
    st("float64", "[100]", "a", Err("is to hold it with others, has 118"));
    // Without a name the tensor's own is meant.
    let index = member("uint8", "[2]", "file_format = 'safetensors'\n");
    check(&index, &[("t.file", &safetensors)], Err("called `t` in"));
    let bytes = |bytes: &[u8], expected| {
        for format in ["safetensors", "ztensor"] {
            let index = member("uint8", "[]", &format!("file_format = '{format}'\n"));
            check(&index, &[("t.file", bytes)], Err(expected));
        }
    };
    bytes(b"", "which is to hold it with others, has 0");
    bytes(b"0123456", "cannot be read as a");
    bytes(&[0xFF; 40], "cannot be read as a");
    check(
        &member("uint8", "[]", "file_format = 'zarr'\n"),
        &[],
        Err("`tensor[0].file_format`: expected safetensors or ztensor"),
    );
    check(&member("string", "[]", "file_format = 'ztensor'\n"), &[], Err("expected nothing for a tensor of string"));
    let nested = "[[tensor]]\nname = 't'\ndtype = 'nested'\nfile_format = 'zarr'\n";
    check(nested, &[], Ok("nested []"));
}

#[test]
fn objects_of_ztensor_files_that_a_carton_cannot_have() {
    use carton_tensor::files::{ElementType, RawTensor};
    use carton_tensor::ztensor::{Attributes, StoreAs, Writer};
    let raw = |dtype, shape: &[usize], bytes: Vec<u8>| RawTensor::new(dtype, shape.to_vec(), bytes.into()).unwrap();
    let mut writer = Writer::new(Vec::new()).unwrap();
    let numbers = raw(ElementType::Uint8, &[3], vec![1, 2, 3]);
    writer.add("raw", &numbers, StoreAs::RAW).unwrap();
    writer.add("zstd", &numbers, StoreAs::RAW.zstd(1)).unwrap();
    writer.add("complex", &raw(ElementType::Complex64, &[], vec![0; 8]), StoreAs::RAW).unwrap();
    writer.object("other", &[3], "my_format", &Attributes::new(), &[("data", &numbers, StoreAs::RAW)]).unwrap();
    let file = writer.finish().unwrap();
    let zt = |name: &str, expected| {
        let index = member("uint8", "[3]", &format!("file_format = 'ztensor'\nname_in_file = '{name}'\n"));
        check(&index, &[("t.file", &file)], expected);
    };
    zt("raw", Ok("uint8 [3] [1, 2, 3]"));
    zt("zstd", Err("a tensor compressed with zstd, which cannot be read in place"));
    zt("complex", Err("has complex64 []"));
    zt("other", Err("a tensor of the format `my_format`"));
    zt("none", Err("no such tensor"));
    // Any byte of it may be another: then it is read, or refused, and no more than that.
    for position in 0..file.len() {
        let mut damaged = file.clone();
        damaged[position] ^= 0x41;
        let index = member("uint8", "[3]", "file_format = 'ztensor'\nname_in_file = 'raw'\n");
        let _ = memory(&index, &[("t.file", &damaged)]).tensor("t");
    }
}

#[test]
fn a_directory_is_read_once() {
    struct Counting(Memory, std::cell::Cell<usize>);
    impl TensorFiles for Counting {
        type Error = Failure;
        fn size(&self, path: &str) -> Result<Option<u64>, Failure> {
            self.0.size(path)
        }
        fn read(&self, path: &str, cap: u64) -> Result<Vec<u8>, Failure> {
            self.0.read(path, cap)
        }
        fn read_into(&self, path: &str, buffer: &mut [u8]) -> Result<(), Failure> {
            self.0.read_into(path, buffer)
        }
        fn exact_size(&self, path: &str) -> Result<u64, Failure> {
            self.0.exact_size(path)
        }
        fn read_range(&self, path: &str, offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
            self.1.set(self.1.get() + buffer.len());
            self.0.read_range(path, offset, buffer)
        }
    }
    for format in [TensorFormat::Safetensors, TensorFormat::Ztensor] {
        let counting = Counting(written_as(&example(), format), std::cell::Cell::new(0));
        let index = Index::parse(&counting.0.files["tensor_data/index.toml"]).unwrap();
        let directories = Directories::default();
        index.read("f", &counting, &directories).unwrap();
        let first = counting.1.replace(0);
        assert!(first > 4);
        index.read("f", &counting, &directories).unwrap();
        assert_eq!(counting.1.replace(0), 4);
        index.read("r", &counting, &directories).unwrap();
        assert_eq!(counting.1.get(), 3);
    }
}
