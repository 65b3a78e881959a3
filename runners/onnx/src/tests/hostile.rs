//! Broken and malicious files: each is an error and never a panic, and no claimed size is allocated.

use proptest::prelude::*;

use super::{TestFiles, models};
use crate::element_type::ElementType;
use crate::model_file::{ModelFile, ModelFileError, ValueKind};
use crate::model_source::ModelSource;
use carton_tensor::onnx::wire::WireError;

fn names() -> Vec<String> {
    let mut names: Vec<String> = models()
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".onnx"))
        .collect();
    names.sort();
    assert!(names.len() > 15, "{names:?}");
    names
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(models().join(name)).unwrap()
}

/// Whether a model is accepted, so that ONNX Runtime would see it.
fn is_accepted(bytes: &[u8]) -> bool {
    ModelSource::open(&TestFiles::of_bytes(bytes.to_vec()), None).is_ok()
}

#[test]
fn truncated_at_every_length() {
    for name in names() {
        let bytes = read(&name);
        let n_sets = ModelFile::parse(&bytes).map_or(0, |file| file.operator_sets.len());
        for length in 0..bytes.len() {
            // The operator sets come last in these files, so that no prefix of a file is a model, unless it has one of two sets.
            if ModelFile::parse(&bytes[..length]).is_ok_and(|file| n_sets > file.operator_sets.len()) {
                continue;
            }
            assert!(!is_accepted(&bytes[..length]), "{name} cut to {length} bytes");
        }
    }
}

#[test]
fn messages_inside_messages() {
    // An `If` whose branch is a graph with an `If`, and so on: attribute 5 of a node, graph 6 of an attribute, node 1.
    let nest = |depth: usize| {
        let mut graph = Vec::new();
        for _ in 0..depth {
            let attribute = field(6, &graph);
            let node = [field(4, b"If"), field(5, &attribute)].concat();
            graph = field(1, &node);
        }
        [vec![0x08, 8], field(7, &[graph, field(12, &field(1, b"y"))].concat()), field(8, &[0x10, 17])].concat()
    };
    assert!(ModelFile::parse(&nest(10)).is_ok());
    for depth in [30, 1_000, 5_000] {
        let error = ModelFile::parse(&nest(depth)).unwrap_err();
        assert!(matches!(error, ModelFileError::Malformed(WireError::TooDeep { .. })), "{depth}: {error}");
    }
    // Types inside types: sequence 4 of a type, element type 1 of a sequence.
    let mut value = Vec::new();
    for _ in 0..1_000 {
        value = field(4, &field(1, &value));
    }
    let value = [field(1, b"y"), field(2, &value)].concat();
    let model = [vec![0x08, 8], field(7, &field(12, &value)), field(8, &[0x10, 17])].concat();
    let error = ModelFile::parse(&model).unwrap_err();
    assert!(matches!(error, ModelFileError::Malformed(WireError::TooDeep { .. })), "{error}");
}

#[test]
fn malformed_lists_of_numbers() {
    let model = |list: &[u8]| {
        let tensor = [vec![0x08, 1, 0x10, 6], list.to_vec(), field(8, b"w")].concat();
        let node = [field(1, b"w"), field(2, b"y"), field(4, b"Identity")].concat();
        let graph = [field(1, &node), field(5, &tensor), field(12, &field(1, b"y"))].concat();
        [vec![0x08, 8], field(7, &graph), field(8, &[0x10, 17])].concat()
    };
    let lists: [(u8, &[u8]); 7] = [
        (4, &[0; 7]),
        (5, &[1, 0x80]),
        (5, &[0xff; 12]),
        (7, &[1, 0x80]),
        (7, &[0xff; 12]),
        (10, &[0; 12]),
        (11, &[0xff; 12]),
    ];
    for (number, bytes) in lists {
        let model = model(&field(number, bytes));
        let error = ModelFile::parse(&model).unwrap_err();
        assert!(matches!(error, ModelFileError::Malformed(_)), "{number}: {error}");
    }
    assert!(ModelFile::parse(&model(&field(4, &[0; 8]))).is_ok());
    assert!(ModelFile::parse(&model(&field(5, &[1, 0x80, 1]))).is_ok());
}

#[test]
fn maps_inside_sequences() {
    // A map from int64 to values of a type; a type that is a sequence of elements of a type.
    let map = |value: &[u8]| field(5, &[vec![0x08, 7], field(2, value)].concat());
    let sequence = |element: &[u8]| field(4, &field(1, element));
    let kind = |of_output: &[u8]| {
        let y = [field(1, b"y"), field(2, of_output)].concat();
        let model = [vec![0x08, 8], field(7, &field(12, &y)), field(8, &[0x10, 17])].concat();
        ModelFile::parse(&model).map(|file| file.outputs[0].kind.clone())
    };
    let (float, double) = (field(1, &[0x08, 1]), field(1, &[0x08, 11]));
    assert_eq!(kind(&sequence(&map(&float))), Ok(ValueKind::Scores));
    assert_eq!(
        kind(&sequence(&map(&double))),
        Ok(ValueKind::Other("a sequence of maps to something else than float32"))
    );
    let other = Ok(ValueKind::Other("a sequence of something else than tensors"));
    assert_eq!(kind(&sequence(&map(&sequence(&map(&float))))), other);
    let (key, element) = (ElementType::INT64, ElementType::FLOAT);
    assert_eq!(kind(&map(&float)), Ok(ValueKind::Map { key, element }));
    // At the greatest depth, each level is walked once.
    let mut nested = float;
    for _ in 0..6 {
        nested = sequence(&map(&nested));
    }
    assert_eq!(kind(&nested), other);
}

#[test]
fn claims() {
    let model = |graph: &[u8]| [vec![0x08, 8], field(7, graph), field(8, &[0x10, 17])].concat();
    let y = field(12, &field(1, b"y"));
    let check = |what: &str, bytes: &[u8], expected: &str| {
        let error = ModelSource::open(&TestFiles::of_bytes(bytes.to_vec()), None).err().unwrap();
        assert!(error.message.contains(expected), "{what}: {}", error.message);
    };
    check("empty", b"", "it is empty");
    check("truncated", &[0x08, 8, 0x3a, 0x20, 0], "the file is truncated, or not an ONNX model");
    check("no version", &field(7, &y), "not an ONNX model: the file has no IR version");
    check("text", b"this is no model at all", "not a");
    check("zip", b"PK\x03\x04\x14\0\0\0\0\0", "not a");
    check("no graph", &[0x08, 8], "the file has no graph");
    check("no operator set", &[vec![0x08, 8], field(7, &y)].concat(), "the file has no operator set");
    check("two graphs", &[model(&y), field(7, &y)].concat(), "it has two graphs");
    check("no outputs", &model(b""), "its graph has no outputs");
    check("two outputs of a name", &model(&[y.clone(), y.clone()].concat()), "two graph outputs are named `y`");
    check("nameless output", &model(&field(12, b"")), "a graph output has no name");
    check("no operator", &model(&[field(1, b""), y.clone()].concat()), "a node has no operator");

    // 2^60 float32 elements in no bytes, inside the file and outside.
    let huge = [vec![0x08], vec![0x80; 8], vec![0x10, 0x10, 1]].concat();
    let tensor = [huge, field(8, b"w")].concat();
    assert!(is_accepted(&model(&[field(5, &tensor), y.clone()].concat())), "nothing is allocated for a claim");
    let location = field(13, &[field(1, b"location"), field(2, b"../../etc/passwd")].concat());
    let outside = [tensor.clone(), location, vec![0x70, 1]].concat();
    check("outside", &model(&[field(5, &outside), y.clone()].concat()), "has `..` in its path");
    let location = field(13, &[field(1, b"location"), field(2, b"gone.data")].concat());
    let missing = [tensor, location, vec![0x70, 1]].concat();
    check("missing", &model(&[field(5, &missing), y].concat()), "reading `gone.data`");
}

#[test]
fn external_data_of_another_size() {
    for length in [0, 1, 267] {
        let mut files = TestFiles::of_model("external/model.onnx").into_ranges();
        files.files.get_mut("model.onnx.data").unwrap().truncate(length);
        let error = ModelSource::open(&files, None).err().unwrap();
        assert!(error.message.contains("`model.onnx.data` is too short for tensor"), "{}", error.message);
    }
    let mut files = TestFiles::of_model("external_whole/model.onnx").into_ranges();
    files.files.get_mut("first.bin").unwrap().push(0);
    let error = ModelSource::open(&files, None).err().unwrap();
    assert_eq!(error.message, "tensor `w1` needs 128 bytes, but 129 are set aside for it in `first.bin`");
}

/// A field that holds bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        field.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    field.push(length as u8);
    [field, bytes.to_vec()].concat()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(ModelFile::parse(&bytes).is_err());
    }

    #[test]
    fn changed_bytes(model in 0..100_usize, changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..6)) {
        let names = names();
        let name = &names[model % names.len()];
        let mut bytes = read(name);
        for (position, byte) in changes {
            let position = usize::from(position) % bytes.len();
            bytes[position] = byte;
        }
        is_accepted(&bytes);
    }
}
