//! Tensors in their own files: numbers in .bin files, strings in .toml files, and nested ones made of both.

use std::collections::BTreeMap;

use carton_tensor::{NestedTensor, NumericTensor, StringTensor, Tensor, Tolerance, allclose};

use super::*;

/// An index with the tensors `a` (uint8) and `b` (int8), of one element each, and the nested tensor `t` with the keys in `inner`.
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
    // A file of 1 KiB that claims 10 GiB.
    let mismatch = Err("need 10737418240 bytes, `tensor_data/t.bin` has 1024");
    check(&plain("uint8", "[10737418240]", "t.bin"), &[("t.bin", &[0; 1024])], mismatch);
    let too_large =
        Err("`tensor[0].shape`: expected a number of elements that fits in memory, found [4294967296, 4294967296]");
    check(&plain("uint8", "[4294967296, 4294967296]", "t.bin"), &[("t.bin", &[])], too_large);
    check(&plain("uint64", "[2305843009213693952]", "t.bin"), &[("t.bin", &[])], Err("fits in memory"));
    check(&plain("uint8", "[-1]", "t.bin"), &[("t.bin", &[])], Err("invalid value: integer `-1`"));
    // An empty tensor with huge dimensions does not overflow.
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
    // A compressed entry can claim any size.
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
    // The file is found too short before it is parsed.
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
    let index = TensorIndex::parse(plain("float32", "[2]", "t.bin").as_bytes()).unwrap();
    assert!(index.check_files(|path| (path == "tensor_data/t.bin").then_some(Some(8))).is_ok());
    assert!(index.check_files(|_| Some(None)).is_ok());
    assert!(matches!(index.check_files(|_| None), Err(TensorDataError::NoSuchFile { .. })));
    assert!(matches!(index.check_files(|_| Some(Some(9))), Err(TensorDataError::SizeMismatch { found: 9, .. })));
    // A tensor with too many strings is an error only when it is read.
    let index = TensorIndex::parse(plain("string", "[2]", "t.toml").as_bytes()).unwrap();
    assert!(index.check_files(|_| Some(Some(MAX_STRINGS_LENGTH + 1))).is_ok());
    assert!(matches!(index.check_files(|_| Some(Some(3))), Err(TensorDataError::SizeMismatch { found: 1, .. })));
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

/// The index as the first implementation writes it: in the order of a hash map, `inner` everywhere, no folders, files numbered by
/// a separate counter.
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
    assert!(allclose(&found, &expected, Tolerance::new(0.0, 0.0)).passed);
    assert_eq!(bits(&files.tensor("_tensor_3").unwrap()), "string [1] [\"a\"]");
}
