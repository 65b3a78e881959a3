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
        index.read(name, self)
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
    let files = entries(tensors)
        .unwrap()
        .into_iter()
        .map(|(path, content)| match content {
            Content::Bytes(bytes) => (path, bytes),
            other => panic!("{other:?}"),
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
    assert!(entries(&nameless.into_iter().collect()).is_err());
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
        for size in [(|size| Some(size)) as fn(u64) -> Option<u64>, |_| None] {
            let mut memory = written(&tensors);
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
                if let Ok(Tensor::Numeric(tensor)) = index.read(name, &memory) {
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
