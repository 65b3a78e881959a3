//! Reading and verifying datasets.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex};

use carton_dataset::index::{self, INDEX_NAME, IndexLayout, IndexRow};
use carton_dataset::{
    Assignment, Category, Checks, Dataset, DatasetError, MANIFEST_NAME, Manifest, Shard, TensorSchema, Verification,
    verify,
};
use carton_tensor::context::{Context, ProgressEvent};
use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::safetensors::{self, Header, Metadata, Reader};
use proptest::prelude::*;

const A: &str = "part-00000-0000-550e8400-e29b-41d4-a716-446655440000.safetensors";
const B: &str = "part-00001-0000-6ba7b810-9dad-41d1-80b4-00c04fd430c8.safetensors";

fn f32s(shape: &[usize], first: f32) -> RawTensor {
    let n_values: usize = shape.iter().product();
    let values: Vec<u8> = (0..n_values).flat_map(|i| (first + i as f32).to_le_bytes()).collect();
    RawTensor::new(ElementType::Float32, shape.to_vec(), values.into()).unwrap()
}

fn i64s(values: &[i64]) -> RawTensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    RawTensor::new(ElementType::Int64, vec![values.len()], bytes.into()).unwrap()
}

type Tensors<'t> = Vec<(&'t str, RawTensor)>;

/// Writes a dataset as the connector does: without metadata in the shards.
fn write(place: &Path, shards: &[(&str, u64, Tensors<'_>)]) -> Manifest {
    let mut listed = Vec::new();
    let mut schema = BTreeMap::new();
    for (name, samples_count, tensors) in shards {
        let mut file = Vec::new();
        let pairs = tensors.iter().map(|(name, tensor)| (*name, tensor));
        safetensors::write(pairs, &Metadata::default(), &mut file).unwrap();
        fs::write(place.join(name), &file).unwrap();
        listed.push(Shard { shard_path: (*name).to_owned(), samples_count: *samples_count, bytes: file.len() as u64 });
        for (name, tensor) in tensors {
            let dtype = safetensors::dtype_name(tensor.dtype()).unwrap().to_owned();
            let shape = tensor.shape().iter().map(|&size| size as u64).collect();
            schema.entry((*name).to_owned()).or_insert(TensorSchema { dtype, shape });
        }
    }
    let manifest = Manifest::new(listed, schema).unwrap();
    fs::write(place.join(MANIFEST_NAME), manifest.to_json().unwrap()).unwrap();
    manifest
}

/// A dataset of two batches, the second of them a tail.
fn batches(place: &Path) -> Manifest {
    let a = vec![("x", f32s(&[2, 3], 0.0)), ("id", i64s(&[10, 11]))];
    let b = vec![("x", f32s(&[1, 3], 6.0)), ("id", i64s(&[12]))];
    write(place, &[(A, 2, a), (B, 1, b)])
}

/// A dataset of three named samples with two columns.
fn named(place: &Path) -> Manifest {
    let a = vec![
        ("cat__x", f32s(&[2, 2], 0.0)),
        ("cat__id", i64s(&[7])),
        ("dog__x", f32s(&[1], 4.0)),
        ("dog__id", i64s(&[8])),
    ];
    write(place, &[(A, 2, a), (B, 1, vec![("e__l__k__x", f32s(&[], 9.0)), ("e__l__k__id", i64s(&[9]))])])
}

fn write_index(place: &Path) -> Vec<IndexRow> {
    let mut rows = Vec::new();
    for name in [A, B] {
        let reader = Reader::open(place.join(name)).unwrap();
        rows.extend(index::rows_of(name, reader.header()));
    }
    index::write(&place.join(INDEX_NAME), rows.clone(), IndexLayout::File).unwrap();
    rows
}

fn found(place: &Path) -> Verification {
    verify(place, Checks::Headers, &Context::default()).unwrap()
}

#[test]
fn rows_of_batches_are_views_of_the_file() {
    let place = tempfile::tempdir().unwrap();
    batches(place.path());
    for dataset in [Dataset::open(place.path()).unwrap(), Dataset::open_copying(place.path()).unwrap()] {
        let samples: Vec<_> = dataset.samples().map(Result::unwrap).collect();
        assert_eq!(samples.len(), 3);
        for (row, sample) in samples.iter().enumerate() {
            assert_eq!(sample.name(), None);
            assert_eq!(*sample.get("x").unwrap(), f32s(&[3], row as f32 * 3.0));
            let id = sample.get("id").unwrap();
            assert_eq!((id.shape(), id.to_f64().unwrap()), (&[][..], vec![10.0 + row as f64]));
        }
    }
    let dataset = Dataset::open(place.path()).unwrap();
    let batch = dataset.batch(0).unwrap();
    let whole = batch.get("x").unwrap().unwrap();
    let second = batch.samples().unwrap().nth(1).unwrap();
    assert_eq!(whole.bytes()[12..].as_ptr(), second.get("x").unwrap().bytes().as_ptr());
    assert!(batch.get("y").unwrap().is_none());
    let error = dataset.batch(2).unwrap_err();
    assert!(matches!(error, DatasetError::NoSuchShard { position: 2, n_shards: 2 }), "{error}");
}

#[test]
fn named_samples_have_their_columns() {
    let place = tempfile::tempdir().unwrap();
    named(place.path());
    let dataset = Dataset::open(place.path()).unwrap();
    let names: Vec<_> = dataset.samples().map(|sample| sample.unwrap().name().unwrap().to_owned()).collect();
    assert_eq!(names, ["cat", "dog", "e__l__k"]);
    let cat = dataset.samples().next().unwrap().unwrap();
    assert_eq!(cat.get("x"), Some(&f32s(&[2, 2], 0.0)));
    assert_eq!(cat.iter().len(), 2);
}

/// The Spark connector records neither the separator nor the columns.
#[test]
fn named_samples_of_the_connector_are_whole_whatever_their_separator_is() {
    /// `shards` has for each shard the names of its samples and the number of rows that had these names. `dimension` is the first
    /// dimension of every tensor.
    #[track_caller]
    fn check(separator: &str, columns: &[&str], shards: &[(&[&str], u64)], dimension: usize) {
        let place = tempfile::tempdir().unwrap();
        let keys: Vec<Vec<String>> = shards
            .iter()
            .map(|(rows, _)| {
                let keys = |row| columns.iter().map(move |column| format!("{row}{separator}{column}"));
                rows.iter().flat_map(keys).collect()
            })
            .collect();
        let tensors = shards.iter().zip(&keys).zip([A, B]).map(|(((_, n_rows), keys), name)| {
            (name, *n_rows, keys.iter().map(|key| (key.as_str(), f32s(&[dimension], 1.0))).collect())
        });
        write(place.path(), &tensors.collect::<Vec<_>>());
        assert!(found(place.path()).is_sound(), "{:?}", found(place.path()).findings);
        let samples: Vec<_> = Dataset::open(place.path()).unwrap().samples().map(Result::unwrap).collect();
        let names: Vec<&str> = samples.iter().map(|sample| sample.name().unwrap()).collect();
        let expected: Vec<&str> = shards.iter().flat_map(|(rows, _)| rows.iter().copied()).collect();
        assert_eq!(names, expected);
        for sample in &samples {
            assert!(sample.iter().map(|(column, _)| column).eq(columns.iter().copied()), "{sample:?}");
        }
    }
    for separator in ["__", "/", "::", ""] {
        check(separator, &["emb"], &[(&["Xa", "Yb"], 2), (&["Zc"], 1)], 768);
        check(separator, &["id", "x"], &[(&["Xa", "Yb"], 2), (&["Zc"], 1)], 768);
        // One row per shard; then as many rows as the tensors' first dimension.
        check(separator, &["emb"], &[(&["Xa"], 1), (&["Yb"], 1)], 768);
        check(separator, &["emb"], &[(&["Xa", "Yb"], 2), (&["Zc"], 1)], 2);
        // Several rows of one name, of which the last one counts.
        check(separator, &["emb"], &[(&["Xa", "Yb"], 9), (&["Zc"], 2)], 768);
        check(separator, &["emb"], &[(&["Xa", "Yb"], 9)], 768);
    }
    for separator in ["__", "/", "::"] {
        check(separator, &["input__ids", "label"], &[(&["a", "b"], 2), (&["c"], 1)], 768);
        check(separator, &["input__ids", "input__mask"], &[(&["a", "b"], 2), (&["c"], 1)], 768);
        check(separator, &["input__ids"], &[(&["a", "b"], 2)], 768);
        check(separator, &["emb"], &[(&["a", "b", "c"], 3)], 3);
        check(separator, &["emb"], &[(&["a"], 1)], 768);
    }
    // All rows have one name.
    for separator in ["__", "/", "::", " - "] {
        check(separator, &["emb"], &[(&["a"], 9)], 768);
        check(separator, &["id", "x"], &[(&["a"], 9), (&["a"], 3)], 768);
    }
    check("__", &["x"], &[(&["a", "a__b"], 2)], 768);
    check("/", &["x"], &[(&["d/1", "d/2"], 2), (&["e/1"], 1)], 768);
}

#[test]
fn tensors_are_found_with_and_without_an_index() {
    let place = tempfile::tempdir().unwrap();
    named(place.path());
    for has_index in [false, true] {
        if has_index {
            write_index(place.path());
        }
        let dataset = Dataset::open(place.path()).unwrap();
        assert_eq!(dataset.get("dog__x").unwrap(), Some(f32s(&[1], 4.0)));
        assert_eq!(dataset.get("e__l__k__id").unwrap(), Some(i64s(&[9])));
        assert_eq!(dataset.get("dog").unwrap(), None);
        assert_eq!(dataset.index().unwrap().rows().len(), 6);
    }
    let place = tempfile::tempdir().unwrap();
    batches(place.path());
    let error = Dataset::open(place.path()).unwrap().get("x").unwrap_err();
    assert_eq!(error.to_string(), format!("2 shards have a tensor `x`, `{A}` among them"));
}

#[test]
fn an_index_that_contradicts_the_shards_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    named(place.path());
    let mut rows = write_index(place.path());
    let position = rows.iter().position(|row| &*row.tensor_key == "dog__x").unwrap();
    let check = |row: IndexRow, name: &str, expected: &str| {
        let mut rows = rows.clone();
        rows[position] = row;
        index::write(&place.path().join(INDEX_NAME), rows, IndexLayout::File).unwrap();
        let error = Dataset::open(place.path()).unwrap().get(name).unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
        let findings = found(place.path()).findings;
        assert!(!findings.is_empty());
        assert!(findings.iter().all(|finding| finding.category == Category::Index), "{findings:?}");
    };
    let row = rows[position].clone();
    let with_file = |file: &str| IndexRow { file_name: file.into(), ..row.clone() };
    check(with_file(B), "dog__x", "the shard does not have it");
    check(with_file("none.safetensors"), "dog__x", "the manifest has no such shard");
    check(IndexRow { shape: [2].into(), ..row.clone() }, "dog__x", "the index says shape [2], the shard [1]");
    check(IndexRow { dtype: "F16".into(), ..row.clone() }, "dog__x", "the index says F16, the shard F32");
    let added = IndexRow { tensor_key: "bird__x".into(), ..row.clone() };
    check(added, "bird__x", "the shard does not have it");
    rows.remove(position);
    index::write(&place.path().join(INDEX_NAME), rows, IndexLayout::File).unwrap();
    let findings = found(place.path()).findings;
    let problem = format!("tensor `dog__x` of `{A}`: the index does not have it");
    assert_eq!(findings.iter().map(|finding| finding.problem.as_str()).collect::<Vec<_>>(), [problem]);
    fs::write(place.path().join(INDEX_NAME), "PAR1 and then nothing").unwrap();
    assert_eq!(found(place.path()).findings[0].category, Category::Index);
}

#[test]
fn workers_share_the_shards() {
    let place = tempfile::tempdir().unwrap();
    batches(place.path());
    let dataset = Dataset::open(place.path()).unwrap();
    let three = NonZeroUsize::new(3).unwrap();
    for assignment in [Assignment::RoundRobin, Assignment::Balanced] {
        let workers: Vec<_> = (0..3).map(|worker| dataset.worker(worker, three, assignment).unwrap()).collect();
        assert_eq!(workers.iter().map(|shards| shards.n_samples()).collect::<Vec<_>>(), [2, 1, 0]);
        assert_eq!(workers[1].samples().count(), 1);
        assert_eq!(workers[1].iter().next().unwrap().shard_path, B);
        assert!(workers[2].is_empty());
    }
    assert!(dataset.worker(3, three, Assignment::RoundRobin).is_err());
}

/// Damages a dataset and compares the findings.
fn check_damage(make: fn(&Path) -> Manifest, damage: impl Fn(&Path), expected: &[(Category, &str, &str)]) {
    let place = tempfile::tempdir().unwrap();
    make(place.path());
    assert!(found(place.path()).is_sound(), "{:?}", found(place.path()));
    damage(place.path());
    let verification = found(place.path());
    let findings: Vec<_> = verification
        .findings
        .iter()
        .map(|finding| (finding.category, finding.file.as_str(), finding.problem.as_str()))
        .collect();
    assert_eq!(findings, expected);
}

fn edit_manifest(place: &Path, from: &str, to: &str) {
    let path = place.join(MANIFEST_NAME);
    let json = fs::read_to_string(&path).unwrap();
    assert!(json.contains(from), "{json}");
    fs::write(path, json.replacen(from, to, 1)).unwrap();
}

#[test]
fn every_damage_is_named() {
    use Category::*;
    let cut = |place: &Path, n_bytes: i64| {
        let file = fs::File::options().write(true).open(place.join(A)).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length.saturating_add_signed(n_bytes)).unwrap();
    };
    check_damage(batches, |place| fs::remove_file(place.join(B)).unwrap(), &[(Missing, B, "is not there")]);
    check_damage(
        batches,
        |place| {
            fs::remove_file(place.join(B)).unwrap();
            fs::create_dir(place.join(B)).unwrap();
        },
        &[(Missing, B, "is no file")],
    );
    check_damage(batches, |place| cut(place, -1), &[(Truncated, A, "167 bytes, expected 168")]);
    check_damage(batches, |place| cut(place, 1), &[(Altered, A, "169 bytes, expected 168")]);
    check_damage(
        batches,
        |place| fs::write(place.join("more.safetensors"), "").unwrap(),
        &[(Extra, "more.safetensors", "the manifest does not name it")],
    );
    check_damage(
        batches,
        |place| fs::create_dir(place.join("_tasks")).unwrap(),
        &[(Unfinished, "_tasks", "a writer was stopped here, or is not done yet")],
    );
    check_damage(
        batches,
        |place| {
            let mut bytes = fs::read(place.join(A)).unwrap();
            bytes[8] = b'[';
            fs::write(place.join(A), bytes).unwrap();
        },
        &[(Unreadable, A, "the header begins with byte 0x5b, expected `{` (spec/safetensors.md §2.2)")],
    );
    check_damage(
        batches,
        |place| edit_manifest(place, "\"I64\"", "\"U64\""),
        &[(Schema, A, "tensor `id` is I64, expected U64"), (Schema, B, "tensor `id` is I64, expected U64")],
    );
    check_damage(
        batches,
        |place| edit_manifest(place, "\"id\": {", "\"ID\": {"),
        &[
            (Schema, A, "tensor `id` is not in the manifest's schema"),
            (Schema, B, "tensor `id` is not in the manifest's schema"),
            (Schema, MANIFEST_NAME, "its schema has tensor `ID`, which no shard has"),
        ],
    );
    check_damage(
        batches,
        |place| edit_manifest(place, "2,\n        3\n", "2,\n        4\n"),
        &[
            (Schema, A, "tensor `x` has shape [2, 3], expected [2, 4]"),
            (Schema, B, "tensor `x` has shape [1, 3], expected [2, 4]"),
        ],
    );
    check_damage(
        named,
        |place| edit_manifest(place, "\"shape\": [\n        2,\n        2\n", "\"shape\": [\n        2,\n        4\n"),
        &[(Schema, A, "tensor `cat__x` has shape [2, 2], expected [2, 4]")],
    );
    let more_samples = |place: &Path| {
        edit_manifest(place, "\"samples_count\": 2", "\"samples_count\": 3");
        edit_manifest(place, "\"total_samples\": 3", "\"total_samples\": 4");
    };
    let neither = "its tensors are neither of 3 rows nor of 3 names";
    check_damage(batches, more_samples, &[(Samples, A, neither)]);
    let dataset = tempfile::tempdir().unwrap();
    batches(dataset.path());
    more_samples(dataset.path());
    assert!(Dataset::open(dataset.path()).unwrap().samples().next().unwrap().is_err());
}

#[test]
fn a_batch_without_a_column_is_found() {
    let place = tempfile::tempdir().unwrap();
    let said = Metadata::new([("dataset.mode", "batch"), ("dataset.samples", "2")]).unwrap();
    let (x, y) = (f32s(&[2], 0.0), f32s(&[2], 1.0));
    let mut shards = Vec::new();
    for (name, tensors) in [(A, vec![("x", &x), ("y", &y)]), (B, vec![("x", &x)])] {
        let mut file = Vec::new();
        safetensors::write(tensors, &said, &mut file).unwrap();
        fs::write(place.path().join(name), &file).unwrap();
        shards.push(Shard { shard_path: name.to_owned(), samples_count: 2, bytes: file.len() as u64 });
    }
    let entry = || TensorSchema { dtype: "F32".to_owned(), shape: vec![2] };
    let schema = ["x", "y"].map(|name| (name.to_owned(), entry())).into();
    let manifest = Manifest::new(shards, schema).unwrap();
    fs::write(place.path().join(MANIFEST_NAME), manifest.to_json().unwrap()).unwrap();
    let findings = found(place.path()).findings;
    let told: Vec<_> = findings.iter().map(|finding| (finding.category, &*finding.file, &*finding.problem)).collect();
    assert_eq!(told, [(Category::Schema, B, "tensor `y` of the manifest's schema is missing")]);
}

#[test]
fn a_batch_without_a_column_is_found_without_hints() {
    let place = tempfile::tempdir().unwrap();
    let a = vec![("x", f32s(&[2, 3], 0.0)), ("id", i64s(&[10, 11]))];
    write(place.path(), &[(A, 2, a), (B, 2, vec![("x", f32s(&[2, 3], 6.0))])]);
    let findings = found(place.path()).findings;
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((finding.category, finding.file.as_str()), (Category::Samples, B));
    assert_eq!(finding.problem, "it has not all tensors, so they are not 2 rows, and not 2 names");
}

#[test]
fn too_many_samples_without_bytes_are_refused() {
    let check = |shape: Option<&[usize]>, samples_count: u64, expected: Option<&str>| {
        let place = tempfile::tempdir().unwrap();
        let tensors = shape.map(|shape| ("x", f32s(shape, 0.0)));
        write(place.path(), &[(A, samples_count, tensors.into_iter().collect())]);
        let findings = found(place.path()).findings;
        assert_eq!(findings.first().map(|finding| finding.category), expected.map(|_| Category::Samples));
        let first = Dataset::open(place.path()).unwrap().samples().next();
        let error = first.and_then(Result::err).map(|error| error.to_string());
        assert!(error.as_deref().unwrap_or_default().ends_with(expected.unwrap_or_default()), "{error:?}");
    };
    check(None, 0, None);
    check(None, u64::MAX, Some("neither of 18446744073709551615 rows nor of 18446744073709551615 names"));
    check(Some(&[1 << 20, 0]), 1 << 20, None);
    check(Some(&[1 << 40, 0]), 1 << 40, Some("neither of 1099511627776 rows nor of 1099511627776 names"));
}

#[cfg(unix)]
#[test]
fn links_stay_inside() {
    let place = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    batches(place.path());
    fs::rename(place.path().join(A), elsewhere.path().join("a")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path().join("a"), place.path().join(A)).unwrap();
    let findings = found(place.path()).findings;
    assert_eq!((findings.len(), findings[0].category), (1, Category::Link));
    let error = Dataset::open(place.path()).unwrap().batch(0).unwrap_err();
    assert!(matches!(error, DatasetError::ShardOutside { .. }), "{error}");
    // As caches keep files: all of them are links to one other folder.
    fs::rename(place.path().join(B), elsewhere.path().join("b")).unwrap();
    fs::rename(place.path().join(MANIFEST_NAME), elsewhere.path().join("m")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path().join("b"), place.path().join(B)).unwrap();
    std::os::unix::fs::symlink(elsewhere.path().join("m"), place.path().join(MANIFEST_NAME)).unwrap();
    assert!(found(place.path()).is_sound());
    assert_eq!(Dataset::open(place.path()).unwrap().samples().count(), 3);
}

#[test]
fn missing_and_truncated_shards_are_errors_when_they_are_read() {
    let place = tempfile::tempdir().unwrap();
    let missing = Dataset::open(place.path().join("none")).unwrap_err();
    assert!(matches!(missing, DatasetError::NoFolder { .. }), "{missing}");
    let no_manifest = Dataset::open(place.path()).unwrap_err();
    assert!(matches!(no_manifest, DatasetError::NoManifest { .. }), "{no_manifest}");

    batches(place.path());
    let dataset = Dataset::open(place.path()).unwrap();
    fs::write(place.path().join(B), "").unwrap();
    let results: Vec<_> = dataset.samples().collect();
    assert_eq!(results.len(), 3);
    let path = place.path().join(B).display().to_string();
    let error = results[2].as_ref().unwrap_err().to_string();
    assert_eq!(error, format!("shard `{path}` has 0 bytes, expected 140"));
    fs::remove_file(place.path().join(B)).unwrap();
    assert_eq!(dataset.batch(1).unwrap_err().to_string(), format!("shard `{path}` is not there"));
    fs::create_dir(place.path().join(B)).unwrap();
    assert_eq!(dataset.batch(1).unwrap_err().to_string(), format!("shard `{path}` is no regular file"));
}

#[test]
fn a_verification_can_be_interrupted() {
    let place = tempfile::tempdir().unwrap();
    batches(place.path());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&seen);
    let context = Context::watched(move |event: &ProgressEvent, cancel_token| {
        tell.lock().unwrap().push((event.stage, event.done, event.total, event.unit));
        if event.done == 1 {
            cancel_token.cancel();
        }
    });
    let result = verify(place.path(), Checks::Sizes, &context);
    assert!(matches!(result, Err(DatasetError::Interrupted)));
    assert_eq!(*seen.lock().unwrap(), [0, 1].map(|done| ("verifying", done, Some(2), "shards")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Reading a damaged dataset gives samples or an error, and `verify` finds missing files.
    #[test]
    fn damaged_files_are_errors(
        file in 0..4_usize, position in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let place = tempfile::tempdir().unwrap();
        named(place.path());
        write_index(place.path());
        let name = [A, B, MANIFEST_NAME, INDEX_NAME][file];
        let path = place.path().join(name);
        let mut bytes = fs::read(&path).unwrap();
        let position = position.index(bytes.len());
        // A manifest without its last line feed is complete.
        let cut = cut && !(name == MANIFEST_NAME && bytes[position..].iter().all(u8::is_ascii_whitespace));
        if cut {
            bytes.truncate(position);
        } else {
            bytes[position] = byte;
        }
        fs::write(&path, &bytes).unwrap();
        let verification = verify(place.path(), Checks::Headers, &Context::default());
        if cut {
            prop_assert!(verification.is_err() || !verification.unwrap().is_sound());
        }
        if let Ok(dataset) = Dataset::open_copying(place.path()) {
            if verify(place.path(), Checks::Headers, &Context::default()).is_ok_and(|found| found.is_sound()) {
                prop_assert!(dataset.samples().all(|sample| sample.is_ok()));
            }
            let n_samples = dataset.samples().filter(Result::is_ok).count() as u64;
            prop_assert!(n_samples <= dataset.manifest().total_samples());
            let _ = (dataset.get("dog__x").is_ok(), Header::parse(&bytes, bytes.len() as u64).is_ok());
        }
    }
}
