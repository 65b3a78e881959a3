//! ONNX models: what the package `onnx` has written is read as it reads it, and what breaks the format is refused. `onnx_files.py` made the
//! files and what is expected of them.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use carton_tensor::files::{FileBytes, RawTensor};
use carton_tensor::onnx::{OnnxError, Reader, TensorInfo};
use serde_json::{Value, json};

const MAX_DENSE: u64 = 1 << 20;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/onnx")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(reader: &Reader, info: &TensorInfo) -> RawTensor {
    let tensor = reader.read_within(info, MAX_DENSE).unwrap();
    assert_eq!((info.dtype(), info.shape()), (Some(tensor.dtype()), tensor.shape()));
    if let Some((file, range)) = reader.location(info) {
        assert_eq!(*file.read(range).unwrap(), **tensor.bytes());
    }
    if !info.is_sparse() {
        assert_eq!(info.n_bytes(), tensor.bytes().len() as u64, "{}", info.name());
        let mut pieces = Vec::new();
        reader
            .visit(info, 3, &mut |piece| {
                pieces.extend_from_slice(piece);
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(pieces, **tensor.bytes(), "{}", info.name());
    }
    tensor
}

/// The same form as in the files of what is expected.
fn described(reader: &Reader, info: &TensorInfo) -> Value {
    reader.check(info).unwrap();
    if info.is_strings() {
        let strings = reader.read_strings(info, MAX_DENSE).unwrap();
        // NumPy drops NULs at the end of a string, on the way through its arrays of strings.
        let texts: Vec<&str> = strings.elements().iter().map(|text| text.trim_end_matches('\0')).collect();
        return json!([info.name(), "string", strings.shape(), texts]);
    }
    let tensor = read(reader, info);
    json!([info.name(), tensor.dtype().name(), tensor.shape(), hex(tensor.bytes())])
}

#[test]
fn what_the_package_wrote_is_read_as_it_reads_it() {
    let mut n_tensors = 0;
    for name in ["raw", "values", "encodings", "graphs", "sparse", "nothing", "external/external"] {
        let path = folder().join(format!("{name}.onnx"));
        let expected: Value =
            serde_json::from_str(&std::fs::read_to_string(path.with_extension("json")).unwrap()).unwrap();
        let reader = Reader::open(&path).unwrap();
        let found: Vec<Value> = reader.tensors().iter().map(|info| described(&reader, info)).collect();
        let n_found = found.len();
        assert_eq!(Value::from(found), expected, "{name}");
        n_tensors += n_found;
    }
    assert_eq!(n_tensors, 159);
}

#[test]
fn metadata_is_what_the_model_says_of_itself() {
    let reader = Reader::open(folder().join("graphs.onnx")).unwrap();
    let expected = [
        ("onnx.ir_version", "11"),
        ("onnx.producer_name", "made"),
        ("onnx.opset_import.ai.onnx", "25"),
        ("onnx.opset_import.other", "1"),
        ("author", "someone"),
        ("größe", "一"),
    ];
    let found: Vec<(&str, &str)> =
        reader.metadata().iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let mut sorted = (found, expected.to_vec());
    sorted.0.sort_unstable();
    sorted.1.sort_unstable();
    assert_eq!(sorted.0, sorted.1);
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A field that holds a number.
fn number(field: u64, value: i64) -> Vec<u8> {
    [varint(field << 3), varint(value.cast_unsigned())].concat()
}

/// A field that holds bytes, text or a message.
fn bytes(field: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    [varint(field << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

/// A tensor of a type and shape, with further fields.
fn tensor(of: i64, shape: &[i64], further: &[Vec<u8>]) -> Vec<u8> {
    let shape: Vec<u8> = shape.iter().flat_map(|size| number(1, *size)).collect();
    [shape, number(2, of), bytes(8, "t"), further.concat()].concat()
}

/// A model with this graph.
fn model(graph: &[Vec<u8>]) -> Vec<u8> {
    [number(1, 10), bytes(7, graph.concat())].concat()
}

/// A model with this initializer.
fn with_tensor(of: i64, shape: &[i64], further: &[Vec<u8>]) -> Vec<u8> {
    model(&[bytes(5, tensor(of, shape, further))])
}

fn entry(key: &str, value: &str) -> Vec<u8> {
    bytes(13, [bytes(1, key), bytes(2, value)].concat())
}

/// A model with a tensor of two uint8 that is in another file.
fn external(entries: &[(&str, &str)]) -> Vec<u8> {
    let entries = entries.iter().map(|(key, value)| entry(key, value)).chain([number(14, 1)]);
    with_tensor(2, &[2], &entries.collect::<Vec<_>>())
}

/// What opening a model, or checking its tensors, says. Files of external data have 4 bytes.
fn problem(model: Vec<u8>) -> String {
    let beside = |name: &str| match name {
        "w" => Ok(FileBytes::from(vec![1, 2, 3, 4])),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    let opened = Reader::new(model, "m.onnx", Some(&beside));
    let checked = opened.and_then(|reader| {
        reader.tensors().iter().try_for_each(|info| {
            reader.check(info)?;
            match info.is_strings() {
                true => reader.read_strings(info, MAX_DENSE).map(drop),
                false => reader.read_within(info, MAX_DENSE).map(drop),
            }
        })
    });
    match checked {
        Ok(()) => "none".to_owned(),
        Err(error) => {
            assert!(error.is_about_content(), "{error}");
            let text = error.to_string().replace(" (spec/onnx-tensors.md)", "");
            text.replace("`m.onnx` is not a valid ONNX model: ", "").replace("`m.onnx` is refused: ", "refused: ")
        }
    }
}

#[track_caller]
fn check(model: Vec<u8>, expected: &str) {
    assert_eq!(problem(model), expected);
}

#[test]
fn models_that_are_no_models() {
    check(vec![], "it is empty");
    check(number(1, 10), "it has no graph");
    check(bytes(7, []), "it has no IR version");
    check([model(&[]), bytes(7, [])].concat(), "it has two graphs");
    check(
        vec![8, 10, 0x3a, 5, 1],
        "the message ends in the middle of a field at byte 4: the file is truncated, or not an ONNX model",
    );
    check(vec![8, 10, 0x3b, 0], "byte 2 is not the start of a field");
    check([number(1, 10), number(7, 1)].concat(), "field 7 at byte 2 should hold a message");
    check([number(1, 10), bytes(2, [0xff])].concat(), "field 2 at byte 2 is not valid UTF-8");
}

#[test]
fn what_a_model_has_once_is_not_there_twice() {
    let twice = |what: &str, at: u64| format!("{what} is there twice, at byte {at}");
    let model_with = |further: &[Vec<u8>]| [model(&[]), further.concat()].concat();
    check(model_with(&[number(1, 10)]), &twice("`ir_version`", 4));
    // A text that is empty is one, too.
    for (field, name) in [(2, "`producer_name`"), (3, "`producer_version`"), (4, "`domain`")] {
        check(model_with(&[bytes(field, ""), bytes(field, "a")]), &twice(name, 6));
    }
    check(model_with(&[number(5, 1), number(5, 1)]), &twice("`model_version`", 6));
    let (text, other) = (|field| bytes(field, "a"), |field| bytes(field, "b"));
    check(model_with(&[bytes(8, [text(1), other(1)].concat())]), &twice("the domain of an operator set", 9));
    check(model_with(&[bytes(8, [number(2, 1), number(2, 2)].concat())]), &twice("the version of an operator set", 8));
    check(model_with(&[bytes(14, [text(1), other(1)].concat())]), &twice("a key of the metadata", 9));
    check(model_with(&[bytes(14, [text(2), other(2)].concat())]), &twice("a value of the metadata", 9));
    for (field, name) in [(1, "`initialization`"), (2, "`algorithm`")] {
        check(model_with(&[bytes(20, [bytes(field, []), bytes(field, [])].concat())]), &twice(name, 9));
    }
    let node = |fields: &[Vec<u8>]| model(&[bytes(1, fields.concat())]);
    check(node(&[text(4), other(4)]), &twice("the operator of a node", 9));
    check(node(&[text(7), other(7)]), &twice("the domain of a node", 9));
    check(node(&[bytes(5, [text(1), other(1)].concat())]), &twice("the name of an attribute", 11));
    check(node(&[bytes(5, [bytes(6, []), bytes(6, [])].concat())]), "the attribute at byte 6 has two graphs");
    let external = |entry: &[Vec<u8>]| with_tensor(2, &[1], &[bytes(13, entry.concat())]);
    check(external(&[text(1), other(1)]), &twice("a key of external data", 18));
    check(external(&[text(2), other(2)]), &twice("a value of external data", 18));
    // What the format has any number of times may be there as often.
    let property = || bytes(14, [text(1), text(2)].concat());
    let outputs = [bytes(2, "x"), bytes(2, "y")].concat();
    let [nodes, properties] = [bytes(1, outputs.repeat(2)), property().repeat(2)];
    check([number(1, 10), bytes(7, nodes), properties].concat(), "none");
}

#[test]
fn tensors_that_break_the_format() {
    let raw = |content: &[u8]| bytes(9, content);
    check(with_tensor(1, &[2], &[raw(&[0; 8])]), "none");
    check(
        with_tensor(1, &[2], &[raw(&[0; 9])]),
        "`raw_data` of tensor `t` at byte 4 has 9 bytes, expected 8 for 2 elements of float32",
    );
    check(with_tensor(1, &[2], &[]), "tensor `t` at byte 4 has no data, expected 2 elements of float32");
    check(
        with_tensor(1, &[0], &[raw(&[1])]),
        "`raw_data` of tensor `t` at byte 4 has 1 bytes, expected 0 for 0 elements of float32",
    );
    check(with_tensor(1, &[-1], &[raw(&[])]), "a dimension at byte 6 is -1, expected at least 0");
    check(
        with_tensor(1, &[1; 65], &[raw(&[0; 4])]).clone(),
        "refused: the tensor at byte 136 has more than 64 dimensions",
    );
    check(
        with_tensor(1, &[1 << 40, 1 << 40], &[raw(&[])]),
        "tensor `t` at byte 4 has the shape [1099511627776, 1099511627776], which no memory can hold",
    );
    check(
        with_tensor(11, &[1 << 61], &[raw(&[])]),
        "tensor `t` at byte 4 has the shape [2305843009213693952], which no memory can hold",
    );
    check(
        with_tensor(11, &[1 << 61, 0], &[raw(&[])]),
        "tensor `t` at byte 4 has the shape [2305843009213693952, 0], which no memory can hold",
    );
    check(with_tensor(1, &[1], &[raw(&[0; 4]), raw(&[0; 4])]), "`raw_data` is there twice, at byte 19");
    check(
        with_tensor(1, &[1], &[raw(&[0; 4]), number(2, 1)]),
        "the element type of a tensor is there twice, at byte 19",
    );
    check(
        with_tensor(1, &[1], &[raw(&[0; 4]), bytes(4, [0; 4])]),
        "tensor `t` at byte 4 has both `raw_data` and `float_data`",
    );
    check(
        with_tensor(1, &[1], &[bytes(4, [0; 4]), number(5, 1)]),
        "the tensor at byte 19 has both `float_data` and `int32_data`",
    );
    check(
        with_tensor(1, &[1], &[number(7, 1)]),
        "tensor `t` at byte 4 is of float32 and has `int64_data`, expected `float_data`",
    );
    check(
        with_tensor(1, &[2], &[bytes(4, [0; 4])]),
        "`float_data` of tensor `t` at byte 4 has 1 values, expected 2 values",
    );
    check(
        with_tensor(1, &[2], &[bytes(4, [0; 9])]),
        "field 4 at byte 13 should hold numbers of a fixed size, the last one whole",
    );
    check(
        with_tensor(14, &[1], &[bytes(4, [0; 4])]),
        "`float_data` of tensor `t` at byte 4 has 1 values, expected 2 values",
    );
    check(with_tensor(7, &[2], &[bytes(7, [1, 2, 3])]), "`int64_data` of tensor `t` has more than 2 values");
    check(with_tensor(7, &[2], &[bytes(7, [0x80, 1])]), "`int64_data` of tensor `t` has 1 values, expected 2");
    check(
        with_tensor(7, &[2], &[bytes(7, [1])]),
        "`int64_data` of tensor `t` at byte 4 has 1 bytes of values, expected 2 values",
    );
    check(
        with_tensor(7, &[1], &[bytes(7, [0x80])]),
        "the message ends in the middle of a field at byte 15: the file is truncated, or not an ONNX model",
    );
    check(with_tensor(2, &[1], &[number(5, 256)]), "value 0 of `int32_data` of tensor `t` is 256, which uint8 has not");
    check(
        with_tensor(3, &[1], &[number(5, -129)]),
        "value 0 of `int32_data` of tensor `t` is -129, which int8 has not",
    );
    check(
        with_tensor(10, &[1], &[number(5, -1)]),
        "value 0 of `int32_data` of tensor `t` is -1, which float16 has not",
    );
    check(with_tensor(22, &[2], &[number(5, 256)]), "value 0 of `int32_data` of tensor `t` is 256, which int4 has not");
    check(
        with_tensor(27, &[4], &[bytes(5, [1, 2, 3, 64])]),
        "value 3 of `int32_data` of tensor `t` is 64, which float6_e2m3fn has not",
    );
    check(with_tensor(9, &[2], &[raw(&[1, 2])]), "bools of tensor `t` are neither 0 nor 1");
    check(with_tensor(9, &[1], &[number(5, 2)]), "bools of tensor `t` are neither 0 nor 1");
    check(
        with_tensor(8, &[1], &[raw(&[0])]),
        "tensor `t` at byte 4 is of strings, and has `raw_data`, expected `string_data`",
    );
    check(
        with_tensor(8, &[2], &[bytes(6, "a")]),
        "`string_data` of tensor `t` at byte 4 has 1 values, expected 2 values",
    );
    check(with_tensor(8, &[1], &[bytes(6, [0xff])]), "a string of tensor `t` at byte 13 is not valid UTF-8");
    check(
        with_tensor(1, &[1], &[raw(&[0; 4]), number(14, 2)]),
        "`data_location` of tensor `t` at byte 4 is 2, expected 0 or 1",
    );
    let twice = model(&[bytes(5, tensor(2, &[], &[raw(&[1])])), bytes(5, tensor(2, &[], &[raw(&[1])]))]);
    check(twice, "two tensors are named `t`, the second at byte 14");
    check(model(&[bytes(5, [number(2, 2), raw(&[1])].concat())]), "the tensor at byte 4 has no name");
}

#[test]
fn tensors_that_are_not_read_are_listed() {
    let listed = |model: Vec<u8>, expected: &str| {
        let reader = Reader::new(model, "m.onnx", None).unwrap();
        let info = reader.get("t").unwrap();
        assert_eq!((info.unsupported(), info.dtype()), (Some(expected), None));
        for error in [reader.check(info).unwrap_err(), reader.read("t").unwrap_err()] {
            let expected = format!("`m.onnx` is refused: tensor `t` is not read: {expected} (spec/onnx-tensors.md)");
            assert_eq!(error.to_string(), expected);
        }
    };
    listed(with_tensor(99, &[1], &[bytes(9, [1])]), "the element type 99 is not known");
    listed(with_tensor(0, &[1], &[bytes(9, [1])]), "it has no element type");
    listed(with_tensor(1, &[1], &[bytes(3, []), bytes(9, [0; 4])]), "it is a segment of a larger tensor");
    listed(with_tensor(23, &[3], &[bytes(9, [1, 2])]), "3 elements of float4_e2m1fn are no whole number of bytes");
    let reader = Reader::new(model(&[]), "m.onnx", None).unwrap();
    assert!(matches!(reader.read("t").unwrap_err(), OnnxError::NoSuchTensor { .. }));
}

#[test]
fn external_data_is_in_the_folder_and_as_long_as_it_says() {
    let location = ("location", "w");
    check(external(&[location, ("offset", "1"), ("length", "2"), ("checksum", "?"), ("basepath", "/")]), "none");
    check(external(&[location, ("offset", "2")]), "none");
    let of = "external data of tensor `t` in `w`";
    check(external(&[location]), &format!("the {of} has no length, and 4 bytes from 0 on, expected 2"));
    check(
        external(&[location, ("offset", "3"), ("length", "2")]),
        &format!("the {of} needs 2 bytes at 3, and the file has 4"),
    );
    check(
        external(&[location, ("offset", "5"), ("length", "2")]),
        &format!("the {of} needs 2 bytes at 5, and the file has 4"),
    );
    let large = u64::MAX.to_string();
    let needs = format!("the {of} needs 2 bytes at {large}, and the file has 4");
    check(external(&[location, ("offset", &large), ("length", "2")]), &needs);
    check(
        external(&[location, ("length", "3")]),
        "the length of the external data of tensor `t` at byte 4 is 3, expected 2",
    );
    for wrong in ["-1", "+1", " 1", "", "18446744073709551616"] {
        check(
            external(&[location, ("offset", wrong)]),
            &format!("the offset of tensor `t` at byte 4 is `{wrong}`, expected a number"),
        );
    }
    check(external(&[]), "the data of tensor `t` at byte 4 is external, and it has no location");
    assert!(problem(external(&[location, location])).starts_with("the location of external data is there twice"));
    for (outside, why) in [
        ("../w", "has `..` in its path; it must lie in the model's folder"),
        ("a/../w", "has `..` in its path; it must lie in the model's folder"),
        ("/w", "is an absolute path; it must lie in the model's folder"),
        ("c:w", "is not a portable path: it holds a back slash, a newline or NUL, or begins with a drive"),
        (".", "names no file"),
    ] {
        check(
            external(&[("location", outside)]),
            &format!("refused: the location `{outside}` of tensor `t` at byte 4 {why}"),
        );
    }
    check(
        external(&[("location", "no\u{1b}ne"), ("length", "2")]),
        "`no\\u{1b}ne`, which holds data of `m.onnx`, is missing",
    );
    let both = with_tensor(2, &[1], &[entry("location", "w"), number(14, 1), bytes(9, [1])]);
    check(both, "the data of tensor `t` at byte 4 is external, and it has `raw_data` too");
    let error = Reader::new(external(&[location, ("length", "2")]), "m.onnx", None).unwrap_err().to_string();
    assert!(error.contains("its data is in `w`, and it is opened without the files beside it"), "{error}");
}

#[cfg(unix)]
#[test]
fn links_do_not_lead_out_of_the_folder() {
    let place = tempfile::tempdir().unwrap();
    let (inside, outside) = (place.path().join("inside"), place.path().join("outside"));
    for folder in [&inside, &outside] {
        std::fs::create_dir(folder).unwrap();
    }
    std::fs::write(outside.join("secret"), [1, 2]).unwrap();
    std::fs::write(inside.join("data"), [3, 4]).unwrap();
    std::os::unix::fs::symlink(outside.join("secret"), inside.join("out")).unwrap();
    std::os::unix::fs::symlink(&outside, inside.join("folder")).unwrap();
    std::os::unix::fs::symlink("data", inside.join("w")).unwrap();
    let path = inside.join("m.onnx");
    let open = |location: &str| {
        std::fs::write(&path, external(&[("location", location), ("length", "2")])).unwrap();
        Reader::open(&path).map(|reader| reader.read("t").unwrap().bytes().to_vec())
    };
    assert_eq!(open("w").unwrap(), [3, 4]);
    for location in ["out", "folder/secret"] {
        let error = open(location).unwrap_err();
        let reason = std::error::Error::source(&error).unwrap().to_string();
        assert!(error.to_string().ends_with(&format!("/{location}`")), "{error}");
        assert!(reason.ends_with("outside of its folder, that is not followed"), "{reason}");
    }
    // A model that is a link itself, as in the cache of the Hugging Face Hub: its data may be beside the file that it leads to.
    let blobs = place.path().join("blobs");
    std::fs::create_dir(&blobs).unwrap();
    std::fs::write(blobs.join("1"), external(&[("location", "w2"), ("length", "2")])).unwrap();
    std::fs::write(blobs.join("2"), [5, 6]).unwrap();
    std::os::unix::fs::symlink(blobs.join("1"), inside.join("l.onnx")).unwrap();
    std::os::unix::fs::symlink(blobs.join("2"), inside.join("w2")).unwrap();
    assert_eq!(*Reader::open(inside.join("l.onnx")).unwrap().read("t").unwrap().bytes().to_vec(), [5, 6]);
}

#[test]
fn sparse_tensors_have_ascending_indices() {
    let sparse = |shape: &[i64], indices_shape: &[i64], indices: &[i64]| {
        let shape: Vec<u8> = shape.iter().flat_map(|size| number(3, *size)).collect();
        let indices: Vec<u8> = indices.iter().flat_map(|index| index.to_le_bytes()).collect();
        let values = bytes(1, tensor(2, &[2], &[bytes(9, [7, 8])]));
        let indices = bytes(
            2,
            [indices_shape.iter().flat_map(|size| number(1, *size)).collect(), number(2, 7), bytes(9, indices)]
                .concat(),
        );
        model(&[bytes(15, [values, indices, shape].concat())])
    };
    let good = sparse(&[2, 2], &[2], &[1, 2]);
    let reader = Reader::new(good.clone(), "m.onnx", None).unwrap();
    assert_eq!(**reader.read("t").unwrap().bytes(), [0, 7, 8, 0]);
    let error = reader.read_within(reader.get("t").unwrap(), 3).unwrap_err();
    assert!(matches!(error, OnnxError::TooLarge { n_bytes: 4, limit: 3, .. }), "{error}");
    check(sparse(&[2, 2], &[2, 2], &[0, 1, 1, 0]), "none");
    let unordered = "index 1 of sparse tensor `t` does not follow the one before, expected ascending indices";
    check(sparse(&[2, 2], &[2], &[2, 1]), unordered);
    check(sparse(&[2, 2], &[2], &[1, 1]), unordered);
    check(sparse(&[2, 2], &[2, 2], &[1, 0, 0, 1]), unordered);
    check(sparse(&[2, 2], &[2], &[1, 4]), "index 1 of sparse tensor `t` has 4, expected from 0 to below 4");
    check(sparse(&[2, 2], &[2], &[-1, 1]), "index 0 of sparse tensor `t` has -1, expected from 0 to below 4");
    check(sparse(&[2, 2], &[2, 2], &[0, 2, 1, 1]), "index 0 of sparse tensor `t` has 2, expected from 0 to below 2");
    check(sparse(&[0], &[2], &[0, 1]), "index 0 of sparse tensor `t` has 0, expected from 0 to below 0");
    let shape = problem(sparse(&[2, 2], &[1, 2], &[0, 1]));
    assert!(shape.ends_with("have the shape [1, 2], expected [2] or [2, 2]"), "{shape}");
    let scalar = sparse(&[], &[2, 0], &[]);
    check(scalar, "sparse tensor `t` has more values than elements");
    check(model(&[bytes(15, [])]), "the sparse tensor at byte 4 has no values or no indices");
}

#[test]
fn graphs_are_nested_to_a_limit() {
    let nested = |depth: usize| {
        let mut graph = bytes(5, tensor(2, &[], &[bytes(9, [1])]));
        for _ in 0..depth {
            graph = bytes(1, bytes(5, [bytes(1, "body"), bytes(6, graph)].concat()));
        }
        model(&[graph])
    };
    let reader = Reader::new(nested(2), "m.onnx", None).unwrap();
    assert_eq!(reader.tensors()[0].name(), "node[0].body.node[0].body.t");
    assert_eq!(problem(nested(20)), "none");
    assert!(
        problem(nested(21)).starts_with("refused: messages are nested more than 64 deep"),
        "{}",
        problem(nested(21))
    );
    assert!(problem(nested(10_000)).starts_with("refused: messages are nested more than 64 deep"));
    // The path of a graph counts as often as it is there.
    let attribute = [bytes(1, vec![b'a'; 60_000]), bytes(11, []).repeat(1200)].concat();
    let long = model(&[bytes(1, bytes(5, attribute))]);
    assert_eq!(problem(long), "refused: the names of its tensors and graphs have more than 67108864 bytes");
}

/// Every change of a byte and every shorter file is an error or gives tensors; none is a panic.
#[test]
fn damaged_models_do_no_harm() {
    for name in ["values", "graphs", "sparse", "encodings"] {
        let whole = std::fs::read(folder().join(format!("{name}.onnx"))).unwrap();
        for end in 0..whole.len() {
            problem_or_none(whole[..end].to_vec());
        }
        for position in 0..whole.len() {
            for change in [1, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[position] ^= change;
                problem_or_none(changed);
            }
        }
    }
}

fn problem_or_none(model: Vec<u8>) {
    let text = problem(model);
    assert!(!text.contains(|char: char| char.is_control()), "{text}");
}

/// What is read of a changed model is what the package reads of it. It needs the Python interpreter named by `CARTON_TEST_ONNX`; without one the test is
/// skipped.
#[test]
fn changed_models_are_read_as_the_package_reads_them() {
    let Some(python) = std::env::var_os("CARTON_TEST_ONNX") else {
        eprintln!(
            "skipped: CARTON_TEST_ONNX names no python3 that has onnx (runners/onnx/tests/suite/setup.sh makes one)"
        );
        return;
    };
    let variable = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let (count, seed) = (variable("CARTON_TEST_ONNX_FILES", "300"), variable("CARTON_TEST_ONNX_SEED", "1"));
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onnx_peers.py");
    let output =
        std::process::Command::new(python).arg(script).arg(folder()).arg(place).args([count, seed]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut n_models, mut n_tensors) = (0, 0);
    let expected = std::fs::read_to_string(place.join("expected.txt")).unwrap();
    for (position, line) in expected.lines().enumerate() {
        let path = place.join(format!("{position}.onnx"));
        let (Ok(reader), true) = (Reader::open(&path), line != "refused") else { continue };
        n_models += 1;
        let expected: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
        assert_eq!(reader.tensors().len(), expected.len(), "model {position}");
        for info in reader.tensors() {
            let found = match info.is_strings() {
                true => reader.read_strings(info, MAX_DENSE).is_ok(),
                false => reader.read_within(info, MAX_DENSE).is_ok(),
            };
            if found {
                n_tensors += 1;
                let is_same = Some(&described(&reader, info)) == expected.get(info.name());
                assert!(is_same, "`{}` of model {position}: {line}", info.name());
            }
        }
    }
    assert!(n_models > 20 && n_tensors > 500, "{n_models} models, {n_tensors} tensors");
}
