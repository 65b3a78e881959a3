//! Compares safetensors files with the `safetensors` library. We reject what the library rejects, read and byte-identically write what
//! the library writes, and reject only a known list of files that the library accepts.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use carton_tensor::files::{ElementType, RawTensor, RawTensorError};
use carton_tensor::safetensors::{self as ours, Header, HeaderError, Metadata, Reader, SafetensorsError};
use proptest::prelude::*;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::de::{IgnoredAny, MapAccess, Visitor};

/// The dtypes of the library, and ours.
const DTYPES: [(Dtype, ElementType); 22] = [
    (Dtype::BOOL, ElementType::Bool),
    (Dtype::F4, ElementType::Float4E2m1),
    (Dtype::F6_E2M3, ElementType::Float6E2m3Fn),
    (Dtype::F6_E3M2, ElementType::Float6E3m2Fn),
    (Dtype::U8, ElementType::Uint8),
    (Dtype::I8, ElementType::Int8),
    (Dtype::F8_E5M2, ElementType::Float8E5m2),
    (Dtype::F8_E4M3, ElementType::Float8E4m3Fn),
    (Dtype::F8_E8M0, ElementType::Float8E8m0Fnu),
    (Dtype::F8_E4M3FNUZ, ElementType::Float8E4m3Fnuz),
    (Dtype::F8_E5M2FNUZ, ElementType::Float8E5m2Fnuz),
    (Dtype::I16, ElementType::Int16),
    (Dtype::U16, ElementType::Uint16),
    (Dtype::F16, ElementType::Float16),
    (Dtype::BF16, ElementType::BFloat16),
    (Dtype::I32, ElementType::Int32),
    (Dtype::U32, ElementType::Uint32),
    (Dtype::F32, ElementType::Float32),
    (Dtype::C64, ElementType::Complex64),
    (Dtype::F64, ElementType::Float64),
    (Dtype::I64, ElementType::Int64),
    (Dtype::U64, ElementType::Uint64),
];

fn manifest_path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

fn to_ours(dtype: Dtype) -> ElementType {
    DTYPES.iter().find(|(theirs, _)| *theirs == dtype).unwrap().1
}

fn to_theirs(dtype: ElementType) -> Dtype {
    DTYPES.iter().find(|(_, ours)| *ours == dtype).unwrap().0
}

/// Returns the name of the error's variant.
fn rule(error: &HeaderError) -> String {
    format!("{error:?}").split([' ', '{', '(']).next().unwrap().to_owned()
}

/// The rules that the library does not check, as section 8 of the specification lists them.
const OURS_ALONE: [&str; 8] = [
    "FirstByte",
    "LastByte",
    "DuplicateTensor",
    "DuplicateMetadataKey",
    "NotMetadata",
    "NotATensor",
    "UnknownField",
    "TooManyDimensions",
];

/// Whether two tensors of the file have the same name.
fn has_duplicates(file: &[u8]) -> bool {
    struct Keys(Vec<String>);
    impl<'de> serde::Deserialize<'de> for Keys {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_map(Self(Vec::new()))
        }
    }
    impl<'de> Visitor<'de> for Keys {
        type Value = Self;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
            while let Some((key, IgnoredAny)) = map.next_entry()? {
                self.0.push(key);
            }
            Ok(self)
        }
    }
    let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let keys: Keys = serde_json::from_slice(&file[8..8 + length]).unwrap();
    keys.0.iter().collect::<BTreeSet<_>>().len() < keys.0.len()
}

/// Runs both readers on the same bytes. We must reject what the library rejects. What only we reject must break a rule that the library
/// does not check. What both accept must be the same.
fn check_agreement(file: &[u8]) {
    let theirs = SafeTensors::read_metadata(file);
    let ours = match Header::parse(file, file.len() as u64) {
        Ok(ours) => ours,
        Err(error) if theirs.is_ok() && !OURS_ALONE.contains(&rule(&error).as_str()) => {
            // The library only uses the last tensor of a name, so the others may break any rule.
            assert!(has_duplicates(file), "only we reject it: {error}");
            return;
        }
        Err(_) => return,
    };
    let (n_bytes, theirs) = theirs.unwrap_or_else(|error| panic!("only we accept it: {error}"));
    assert_eq!(ours.data_start(), 8 + n_bytes as u64);
    assert_eq!(ours.len(), theirs.tensors().len());
    for tensor in ours.iter() {
        let info = theirs.info(tensor.name).unwrap();
        assert_eq!((tensor.dtype, tensor.shape), (to_ours(info.dtype), info.shape.as_slice()), "{}", tensor.name);
        let (begin, end) = info.data_offsets;
        assert_eq!(tensor.range, ours.data_start() + begin as u64..ours.data_start() + end as u64);
        assert_eq!(ours.get(tensor.name), Some(tensor));
    }
    let pairs: HashMap<String, String> =
        ours.metadata().iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    assert_eq!(theirs.metadata().clone().unwrap_or_default(), pairs);
    assert_eq!(theirs.metadata().is_none(), ours.metadata().is_absent());
}

/// The files of the conformance corpus that must be refused: name, bytes, and the sections of the specification that they break.
fn refused() -> Vec<(String, Vec<u8>, Vec<String>)> {
    let descriptions = fs::read_dir(manifest_path("../spec/conformance/safetensors")).unwrap();
    let descriptions =
        descriptions.map(|entry| entry.unwrap().path()).filter(|path| path.extension().unwrap() == "json");
    let refused = descriptions.filter_map(|path| {
        let case: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        case.get("refused")?;
        let sections =
            case["shows"].as_array().unwrap().iter().map(|rule| rule["section"].as_str().unwrap().to_owned());
        let file = path.with_extension("");
        Some((file.file_stem().unwrap().to_str().unwrap().to_owned(), fs::read(&file).unwrap(), sections.collect()))
    });
    refused.collect()
}

/// The files that only the library accepts, according to section 8 of the specification.
fn accepted_by_the_library(specification: &str) -> BTreeSet<&str> {
    let (_, section) = specification.split_once("## 8").unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(2);
    rows.flat_map(|row| row.rsplit('|').nth(1).unwrap().split('`').skip(1).step_by(2)).collect()
}

#[test]
fn the_corpus_is_refused_each_file_by_its_rule() {
    let specification = fs::read_to_string(manifest_path("../spec/safetensors.md")).unwrap();
    let mut accepted = accepted_by_the_library(&specification);
    let refused = refused();
    let mut rules = BTreeSet::new();
    for (name, file, sections) in &refused {
        let error = match Header::parse(file, file.len() as u64) {
            Ok(_) => panic!("{name} is accepted"),
            Err(error) => error,
        };
        let text = error.to_string();
        let section = text.split_once("spec/safetensors.md §").map(|(_, rest)| rest.replace(')', "")).unwrap();
        assert!(sections.contains(&section), "{name}: {error}");
        assert!(specification.contains(&format!("\n**§{section}** ")), "{name} cites §{section}");
        let is_accepted = accepted.remove(name.as_str());
        assert_eq!(SafeTensors::deserialize(file).is_ok(), is_accepted, "{name}: the library's verdict is another one");
        assert!(Reader::new(file.clone(), "corpus").is_err());
        rules.insert(rule(&error));
    }
    assert!(accepted.is_empty(), "there are no files {accepted:?}");
    assert!(refused.len() > 100, "{}", refused.len());
    assert_eq!(rules.len(), 25, "{rules:?}");
}

/// A tensor of this dtype and shape. A counter and the seed determine its bytes.
fn tensor(dtype: ElementType, shape: &[usize], seed: u8) -> RawTensor {
    let n_elements: usize = shape.iter().product();
    let bytes: Vec<u8> =
        (0..n_elements * dtype.bits() / 8).map(|n| (n as u8).wrapping_mul(37).wrapping_add(seed)).collect();
    RawTensor::new(dtype, shape.to_vec(), bytes.into()).unwrap()
}

fn written(tensors: &[(String, RawTensor)], metadata: &Metadata) -> Vec<u8> {
    let mut file = Vec::new();
    ours::write(tensors.iter().map(|(name, tensor)| (name, tensor)), metadata, &mut file).unwrap();
    file
}

fn written_by_library(tensors: &[(String, RawTensor)], metadata: Option<HashMap<String, String>>) -> Vec<u8> {
    let views = tensors.iter().map(|(name, tensor)| {
        (name, TensorView::new(to_theirs(tensor.dtype()), tensor.shape().to_vec(), tensor.bytes()).unwrap())
    });
    safetensors::serialize(views, metadata).unwrap()
}

/// The metadata in the order of the file, because the library writes it in random order.
fn metadata_of(file: &[u8]) -> Metadata {
    Header::parse(file, file.len() as u64).unwrap().metadata().clone()
}

#[test]
fn every_dtype_is_written_as_the_library_writes_it() {
    let mut tensors = Vec::new();
    for (position, (_, dtype)) in DTYPES.into_iter().enumerate() {
        for (letter, shape) in [("z", &[4][..]), ("a", &[2, 3, 4]), ("m", &[0, 3]), ("\u{e9}\"\\\n\u{1}/", &[8, 1])] {
            tensors.push((format!("{letter}.{}", position % 7), tensor(dtype, shape, position as u8)));
        }
    }
    tensors.retain({
        let mut seen = BTreeSet::new();
        move |(name, _)| seen.insert(name.clone())
    });
    for (_, dtype) in DTYPES {
        tensors.push((format!("all.{dtype}"), tensor(dtype, &[2, 4], 9)));
    }
    tensors.push((String::new(), tensor(ElementType::Float32, &[], 1)));
    let file = written(&tensors, &Metadata::default());
    assert_eq!(file, written_by_library(&tensors, None));
    check_agreement(&file);
    let reader = Reader::new(file, "dtypes").unwrap();
    for (name, tensor) in &tensors {
        assert_eq!(&reader.read(name).unwrap(), tensor, "{name}");
    }
}

#[test]
fn errors_are_short_whatever_the_file_says() {
    fn check(header: &str) {
        let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
        let error = Header::parse(&file, file.len() as u64).unwrap_err().to_string();
        assert!(error.len() < 2000, "{} bytes", error.len());
        assert!(!error.contains(|character: char| character.is_control()), "{error:?}");
        assert!(error.contains("spec/safetensors.md §"), "{error}");
    }
    let long = "\\u001b[2J\u{e9}".repeat(100_000);
    check(&format!("{{\"{long}\":\"{long}\"}}"));
    check(&format!("{{\"{long}\":{{\"{long}\":1}}}}"));
    check(&format!("{{\"{long}\":{{\"dtype\":\"{long}\"}}}}"));
    check(&format!("{{\"{long}\":{{\"shape\":\"{long}\"}}}}"));
    check(&format!("{{\"__metadata__\":{{\"{long}\":\"\",\"{long}\":\"\"}}}}"));
    check(&format!("{{\"__metadata__\":{{\"k\":{}1}}}}", "1".repeat(100_000)));
    check(&format!("{{\"__metadata__\":\"{long}\"}}"));
    let entry = r#"{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
    check(&format!("{{\"{long}\":{entry},\"{long}x\":{entry}}}"));
    check(&format!("{{\"{long}\":{entry},\"{long}\":{entry}}}"));
}

#[test]
fn mapped_files_are_not_copied_and_others_are() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    let tensor = tensor(ElementType::Float32, &[3], 5);
    fs::write(&path, written(&[("a".to_owned(), tensor.clone())], &Metadata::default())).unwrap();
    let address = |tensor: &RawTensor| tensor.bytes().as_ptr().addr();

    let mapped = Reader::map(&path).unwrap();
    let (first, second) = (mapped.read("a").unwrap(), mapped.read("a").unwrap());
    assert_eq!(address(&first), address(&second));
    assert_eq!(
        first.view::<f32>().unwrap().as_slice().unwrap(),
        bytemuck::pod_collect_to_vec::<u8, f32>(tensor.bytes())
    );
    assert!(mapped.bytes().is_in_memory());

    let copied = Reader::open(&path).unwrap();
    let (first, second) = (copied.read("a").unwrap(), copied.read("a").unwrap());
    assert_ne!(address(&first), address(&second));
    assert_eq!(address(&first) % 64, 0);
    assert_eq!((&first, &second), (&tensor, &tensor));

    // A file that has become shorter is an error, if it is not mapped.
    drop(mapped);
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(70).unwrap();
    assert!(matches!(copied.read("a"), Err(SafetensorsError::Io { .. })));
    assert!(matches!(Reader::open(&path), Err(SafetensorsError::Header { .. })));
    assert!(matches!(Reader::open(place.path()), Err(SafetensorsError::Io { .. })));

    // Unaligned data cannot be viewed, but it can be copied.
    let header = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let padding = " ".repeat(9 - header.len() % 8);
    let length = (header.len() + padding.len()) as u64;
    let data = 1.5_f32.to_le_bytes();
    fs::write(&path, [&length.to_le_bytes(), header.as_bytes(), padding.as_bytes(), &data].concat()).unwrap();
    let tensor = Reader::map(&path).unwrap().read("a").unwrap();
    assert!(matches!(tensor.view::<f32>(), Err(RawTensorError::Misaligned { .. })));
    assert_eq!(tensor.to_array::<f32>().unwrap().as_slice(), Some([1.5].as_slice()));
    assert!(Reader::open(&path).unwrap().read("a").unwrap().view::<f32>().is_ok());
}

fn any_dtype() -> impl Strategy<Value = ElementType> {
    prop::sample::select(DTYPES.map(|(_, ours)| ours).to_vec())
}

fn any_tensors() -> impl Strategy<Value = Vec<(String, RawTensor)>> {
    let shape = prop::collection::vec(0_usize..5, 0..4);
    let entry = (any_dtype(), shape, any::<u8>()).prop_map(|(dtype, mut shape, seed)| {
        // Makes the elements fill whole bytes for every dtype.
        if dtype.bits() < 8 {
            shape.push(4);
        }
        tensor(dtype, &shape, seed)
    });
    prop::collection::btree_map(".{0,6}|[a-c]\\.[0-9]{1,2}", entry, 0..12).prop_map(|map| map.into_iter().collect())
}

fn any_metadata() -> impl Strategy<Value = Option<HashMap<String, String>>> {
    prop::option::of(prop::collection::hash_map(any::<String>(), any::<String>(), 0..4))
}

proptest! {
    #[test]
    fn files_are_those_of_the_library_to_the_byte(mut tensors in any_tensors(), metadata in any_metadata(), rotation: usize) {
        let has_nothing = tensors.is_empty() && metadata.as_ref().is_some_and(HashMap::is_empty);
        let file = written_by_library(&tensors, metadata);
        if has_nothing {
            // The library cannot read this file, although it wrote it.
            prop_assert!(SafeTensors::deserialize(&file).is_err());
            return Ok(());
        }
        check_agreement(&file);
        // The order in which tensors are passed does not matter.
        let rotation = rotation % tensors.len().max(1);
        tensors.rotate_left(rotation);
        prop_assert_eq!(&written(&tensors, &metadata_of(&file)), &file);

        let reader = Reader::new(file, "random").unwrap();
        prop_assert_eq!(reader.names().len(), tensors.len());
        for (name, tensor) in &tensors {
            prop_assert_eq!(&reader.read(name).unwrap(), tensor);
        }
    }

    #[test]
    fn damaged_files_are_refused_where_the_library_refuses(
        tensors in any_tensors(),
        metadata in any_metadata(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..3),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut file = written_by_library(&tensors, metadata);
        let header = 8 + usize::from(u16::from_le_bytes([file[0], file[1]]));
        for (position, byte) in damage {
            let position = position.index(header);
            file[position] = byte;
        }
        if let Some(cut) = cut {
            file.truncate(cut.index(file.len()));
        }
        check_agreement(&file);
    }

    /// Headers that consist of the words of valid headers.
    #[test]
    fn headers_of_the_right_words_are_judged_alike(
        words in prop::collection::vec(prop::sample::select(WORDS.to_vec()), 0..24),
        n_data in 0_usize..9,
    ) {
        let header = words.concat();
        let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0; n_data]].concat();
        check_agreement(&file);
    }

    #[test]
    fn headers_of_odd_entries_are_judged_alike(
        names in prop::collection::vec(prop::sample::select(NAMES.to_vec()), 4),
        entries in prop::collection::vec(prop::sample::select(ENTRIES.to_vec()), 0..4),
        space in "[ \n\t]{0,2}",
        n_data in 0_usize..5,
    ) {
        let entries = names.iter().zip(entries);
        let entries: Vec<_> = entries.map(|(name, entry)| format!("{space}{name}{space}:{space}{entry}")).collect();
        let header = format!("{{{}{space}}}{}", entries.join(","), " ".repeat(space.len()));
        let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0; n_data]].concat();
        check_agreement(&file);
    }

    #[test]
    fn random_bytes_are_judged_alike(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check_agreement(&bytes);
        check_agreement(&[&(bytes.len() as u64).to_le_bytes(), bytes.as_slice()].concat());
        let _ = Header::parse(&bytes, u64::MAX);
    }
}

const WORDS: [&str; 30] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"a\"",
    "\"b\"",
    "\"dtype\"",
    "\"shape\"",
    "\"data_offsets\"",
    "\"__metadata__\"",
    "\"U8\"",
    "\"F4\"",
    "0",
    "1",
    "2",
    "4",
    "null",
    "true",
    "-1",
    "1.0",
    " ",
    "{\"dtype\":",
    "\"shape\":[",
    "\"data_offsets\":[0,1]}",
    "{\"a\":",
    "}}",
    "18446744073709551615",
    "\"\\u0061\"",
];

const NAMES: [&str; 8] = [
    "\"a\"",
    "\"b\"",
    "\"\\u0061\"",
    "\"\"",
    "\"__metadata__\"",
    "\"__metadata\\u005f_\"",
    "\"\\ud83d\\ude00\"",
    "\"\\ud83d\"",
];

const ENTRIES: [&str; 22] = [
    r#"{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#,
    r#"{"dtype":"U8","shape":[1],"data_offsets":[1,2]}"#,
    r#"{"dtype":"U8","shape":[],"data_offsets":[2,3]}"#,
    r#"{"shape":[2],"data_offsets":[0,1],"dtype":"F4"}"#,
    r#"{"dtype":"F4","shape":[2,1],"data_offsets":[1,2]}"#,
    r#"{"dtype":"F4","shape":[3],"data_offsets":[1,2]}"#,
    r#"{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}"#,
    r#"{"dtype":"I16","shape":[2],"data_offsets":[0,4]}"#,
    r#"{"dtype":"U8","shape":[0],"data_offsets":[0,0]}"#,
    r#"{"dtype":"U8","shape":[0,18446744073709551615],"data_offsets":[1,1]}"#,
    r#"{"dtype":"U8","shape":[18446744073709551615,0],"data_offsets":[1,1]}"#,
    r#"{"dtype":"F64","shape":[18446744073709551615,0],"data_offsets":[1,1]}"#,
    r#"{"dtype":"F64","shape":[18446744073709551615,2,0],"data_offsets":[1,1]}"#,
    r#"{"dtyp\u0065":"U8","shape":[1],"data_offsets":[0,1]}"#,
    r#"{"dtype":"U8","shape":[1],"data_offsets":[0,1],"extra":[{"x":[1e5]}]}"#,
    r#"["U8",[1],[0,1]]"#,
    r#"{"dtype":{"U8":null},"shape":[1],"data_offsets":[0,1]}"#,
    r#"{"format":"pt"}"#,
    r#"{"format":"pt","format":"tf"}"#,
    r#"{}"#,
    r#"null"#,
    r#"{"dtype":"U8","shape":"x","data_offsets":"y"}"#,
];
