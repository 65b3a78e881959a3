//! All numeric tensors in one safetensors or zTensor file.

use std::collections::BTreeMap;

use carton_tensor::{NestedTensor, NumericTensor, StringTensor, Tensor};

use super::*;

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
        let index = TensorIndex::parse(&memory.files["tensor_data/index.toml"]).unwrap();
        assert_eq!(index.files_of(["r", "s"]).into_iter().collect::<Vec<_>>(), ["tensor_0.toml", file]);
    };
    check(TensorFormat::Safetensors, "tensors.safetensors", "safetensors", "__metadata___");
    check(TensorFormat::Ztensor, "tensors.zt", "ztensor", "__metadata__");
    // Without numeric tensors there is no file for them.
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

/// An index with `t`, a member of a file, and the further keys `more`.
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
    // Without `name_in_file`, the tensor has its own name in the file.
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
    // With any byte changed, the file is either read or refused.
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
        let index = TensorIndex::parse(&counting.0.files["tensor_data/index.toml"]).unwrap();
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
