//! Loads, quantizes and merges whole files, of both formats.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use carton_tensor::any_file::{TensorFile, TensorFileError, TensorFileFormat};
use carton_tensor::context::Context;
use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::safetensors::{self, Metadata};
use carton_tensor::weights::{self, Description, Filter, LoadOptions, QuantizeOptions, WeightsError};
use carton_tensor::ztensor::{self, DigestAlgorithm, StoreAs};
use carton_tensor::{Tensor, npy};

/// A description of one of the tensors.
const DESCRIPTION: &str = "
version = 1
name = 'half'
dtypes = ['float16']
tensors = [{ name = 'half', shape = [7, 11] }]
";

/// Tensors of several types. One is large enough to be divided among threads, one has no elements.
fn tensors() -> Vec<(String, RawTensor)> {
    let tensor = |dtype: ElementType, shape: &[usize], seed: u8| {
        let n_bytes = dtype.n_bytes(shape.iter().product()).unwrap();
        let bytes: Vec<u8> =
            (0..n_bytes).map(|index| (index as u8).wrapping_mul(31).wrapping_add(seed) & 0xbf).collect();
        RawTensor::new(dtype, shape.to_vec(), bytes.into()).unwrap()
    };
    vec![
        ("big".to_owned(), tensor(ElementType::Float32, &[4_200_000], 1)),
        ("empty".to_owned(), tensor(ElementType::Float32, &[0, 3], 2)),
        ("half".to_owned(), tensor(ElementType::Float16, &[7, 11], 3)),
        ("integers".to_owned(), tensor(ElementType::Int64, &[5], 4)),
        ("scalar".to_owned(), tensor(ElementType::Float64, &[], 5)),
    ]
}

fn write_safetensors(path: &Path, tensors: &[(String, RawTensor)], metadata: &[(&str, &str)]) {
    let metadata =
        if metadata.is_empty() { Metadata::default() } else { Metadata::new(metadata.iter().copied()).unwrap() };
    let file = std::fs::File::create(path).unwrap();
    safetensors::write(tensors.iter().map(|(name, tensor)| (name, tensor)), &metadata, file).unwrap();
}

fn write_ztensor(path: &Path, tensors: &[(String, RawTensor)], store_as: StoreAs) {
    let mut writer = ztensor::Writer::create(path).unwrap();
    for (name, tensor) in tensors {
        writer.add(name, tensor, store_as).unwrap();
    }
    writer.finish().unwrap();
}

/// The same tensors in several files.
fn files(folder: &Path) -> Vec<PathBuf> {
    let path = |name: &str| folder.join(name);
    write_safetensors(&path("a.safetensors"), &tensors(), &[]);
    write_ztensor(&path("raw.zt"), &tensors(), StoreAs::RAW);
    write_ztensor(&path("sha256.zt"), &tensors(), StoreAs::RAW.digest(DigestAlgorithm::Sha256));
    write_ztensor(&path("zstd.zt"), &tensors(), StoreAs::RAW.zstd(1).digest(DigestAlgorithm::Crc32c));
    ["a.safetensors", "raw.zt", "sha256.zt", "zstd.zt"].map(path).into()
}

#[test]
fn files_load_the_same_in_every_way() {
    let folder = tempfile::tempdir().unwrap();
    for path in files(folder.path()) {
        let has_digests = path.ends_with("sha256.zt") || path.ends_with("zstd.zt");
        for options in [
            LoadOptions::default(),
            LoadOptions::default().mapped(),
            LoadOptions::default().verified(),
            LoadOptions::default().mapped().verified(),
        ] {
            let weights = weights::load(&path, &options).unwrap();
            assert_eq!(weights.tensors, tensors().into_iter().collect(), "{}", path.display());
            let statistics = weights.statistics;
            assert_eq!(statistics.n_tensors, 5);
            assert_eq!(statistics.n_verified, if options.verify && has_digests { 5 } else { 0 });
            assert!(statistics.seconds > 0.0 && statistics.gb_per_second() > 0.0);
        }
        let metadata = weights::load_metadata(&path).unwrap();
        assert_eq!(metadata["half"].dtype, Some(ElementType::Float16));
        assert_eq!(metadata["half"].shape, [7, 11]);
        assert_eq!(weights::file_size(&path).unwrap(), std::fs::metadata(&path).unwrap().len());
    }
}

#[test]
fn a_filter_selects_and_progress_tells() {
    let folder = tempfile::tempdir().unwrap();
    for path in files(folder.path()) {
        let told = std::sync::Arc::new(Mutex::new(Vec::new()));
        let told_to = told.clone();
        let options = LoadOptions::default().filter(Filter::any_glob(["h*f", "sca?ar"]).unwrap()).context(
            Context::watched(move |event, _| told_to.lock().unwrap().push((event.stage, event.done, event.total))),
        );
        let weights = weights::load(&path, &options).unwrap();
        assert_eq!(weights.tensors.keys().collect::<Vec<_>>(), ["half", "scalar"]);
        let mut told = told.lock().unwrap().clone();
        told.sort();
        let n_bytes = weights.statistics.n_bytes;
        assert!(
            matches!(*told, [("loading", 1.., Some(_)), ("loading", done, Some(total))] if done == total && total == n_bytes),
            "{told:?}"
        );

        let none = LoadOptions::default().filter(Filter::prefix("nothing"));
        assert!(matches!(weights::load(&path, &none), Err(WeightsError::NoneSelected { n_tensors: 5, .. })));
    }
    let path = folder.path().join("none.safetensors");
    write_safetensors(&path, &[], &[]);
    assert!(matches!(weights::load(&path, &LoadOptions::default()), Err(WeightsError::NoTensors { .. })));
    assert!(matches!(Filter::glob("a***"), Err(WeightsError::Pattern { .. })));
}

/// A cancelled load, merge or validation ends with an error of its own, and a merge leaves no file.
#[test]
fn work_ends_when_it_is_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("merged.zt");
    let description: Description = DESCRIPTION.parse().unwrap();
    for path in files(folder.path()) {
        let check =
            |result: Result<(), WeightsError>| assert!(matches!(result, Err(WeightsError::Interrupted)), "{result:?}");
        let options =
            || LoadOptions::default().context(Context::watched(|_, cancel_token| assert!(cancel_token.cancel())));
        check(weights::load(&path, &options()).map(drop));
        check(weights::load_quantized(&path, &options(), &QuantizeOptions::default()).map(drop));
        check(weights::join([&path], &output, &options()).map(drop));
        check(weights::validate(&TensorFile::open(&path).unwrap(), &description, &options()).map(drop));
        assert!(!output.exists());
    }
}

#[test]
fn loads_run_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    std::thread::scope(|scope| {
        for path in files.iter().chain(&files) {
            scope.spawn(move || {
                let weights = weights::load(path, &LoadOptions::default()).unwrap();
                assert_eq!(weights.tensors, tensors().into_iter().collect());
            });
        }
    });
}

#[test]
fn damage_is_found_where_verification_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zt");
    write_ztensor(&path, &tensors(), StoreAs::RAW.digest(DigestAlgorithm::Sha256));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[12_345_678] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    weights::load(&path, &LoadOptions::default()).unwrap();
    for options in [LoadOptions::default().verified(), LoadOptions::default().mapped().verified()] {
        for error in [
            weights::load(&path, &options).unwrap_err(),
            weights::load_quantized(&path, &options, &QuantizeOptions::default()).unwrap_err(),
        ] {
            let source = std::error::Error::source(&error).unwrap().to_string();
            assert!(source.contains("digest mismatch for component `data` of object `big`"), "{source}");
        }
    }
}

/// Entries that are not tensors of numbers are skipped with a reason, and tensors that are already quantized are not quantized again.
#[test]
fn tensors_that_cannot_be_quantized_do_not_prevent_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mixed.zt");
    let tensor = |dtype, shape: &[usize], n_bytes| RawTensor::new(dtype, shape.to_vec(), vec![0_u8; n_bytes].into());
    let (floats, codes) = (tensor(ElementType::Float32, &[2], 8), tensor(ElementType::Int8, &[4], 4));
    let (scale, scales) = (tensor(ElementType::Float64, &[], 8), tensor(ElementType::Float64, &[4], 32));
    let [floats, codes, scale, scales] = [floats, codes, scale, scales].map(Result::unwrap);
    let mut writer = ztensor::Writer::create(&path).unwrap();
    for (name, tensor) in
        [("w", &floats), ("w.scale", &scale), ("q", &codes), ("q.scale", &scale), ("p", &codes), ("p.scale", &scales)]
    {
        writer.add(name, tensor, StoreAs::RAW).unwrap();
    }
    for (name, format) in [("odd", "none_that_is_known"), ("group", "quantized_group")] {
        let parts = ["packed_weight", "scales", "zeros"].map(|role| (role, &floats, StoreAs::RAW));
        writer.object(name, &[2], format, &[].into(), &parts).unwrap();
    }
    writer.finish().unwrap();

    let loaded = weights::load_quantized(&path, &LoadOptions::default(), &QuantizeOptions::default()).unwrap();
    // Beside int8 numbers, a tensor of this name has scales, also as many as only other libraries write.
    assert_eq!(loaded.quantized.keys().collect::<Vec<_>>(), ["w", "w.scale"]);
    assert_eq!(loaded.unchanged.keys().collect::<Vec<_>>(), ["p", "p.scale", "q", "q.scale"]);
    assert_eq!(loaded.unchanged["q.scale"], scale);
    let skipped: Vec<(&str, &str)> = loaded.skipped.iter().map(|(name, why)| (name.as_str(), why.as_str())).collect();
    assert_eq!(skipped, [("group", "quantized already, in groups"), ("odd", "of the format `none_that_is_known`")]);

    let (words, numbers) = (Tensor::from_strings(["a"], vec![1]).unwrap(), Tensor::from_vec(vec![1.0_f32], vec![1]));
    let path = folder.path().join("mixed.npz");
    let file = std::fs::File::create(&path).unwrap();
    npy::write_npz(file, [("words", &words), ("numbers", &numbers.unwrap())]).unwrap();
    let loaded = weights::load_quantized(&path, &LoadOptions::default(), &QuantizeOptions::default()).unwrap();
    assert_eq!((loaded.quantized.len(), loaded.skipped["words"].as_str()), (1, "an array of strings"));
}

#[test]
fn floats_are_quantized_while_loading() {
    let folder = tempfile::tempdir().unwrap();
    for path in files(folder.path()) {
        for options in [LoadOptions::default(), LoadOptions::default().mapped()] {
            let loaded = weights::load_quantized(&path, &options, &QuantizeOptions::default()).unwrap();
            assert_eq!(loaded.unchanged.keys().collect::<Vec<_>>(), ["integers"]);
            assert_eq!((loaded.quantized.len(), loaded.statistics.n_tensors), (4, 5));
            for (name, tensor) in tensors().iter().filter(|(_, tensor)| tensor.dtype().is_float()) {
                let (found, expected) = (&loaded.quantized[name], weights::quantize(tensor).unwrap());
                assert_eq!((&found.tensor, &found.scales), (&expected.tensor, &expected.scales), "{name}");
                assert_eq!(found.n_non_finite, expected.n_non_finite);
                assert_eq!(found.tensor.shape(), tensor.shape());
            }
        }
    }
}

#[test]
fn shards_merge_into_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let all = tensors();
    write_safetensors(&path("1.safetensors"), &all[..2], &[("format", "pt"), ("part", "1")]);
    write_ztensor(&path("2.zt"), &all[2..], StoreAs::RAW.zstd(1));
    let inputs = [path("1.safetensors"), path("2.zt")];
    for (output, format) in [("all.safetensors", TensorFileFormat::Safetensors), ("all.zt", TensorFileFormat::ZTensor)]
    {
        let statistics = weights::join(&inputs, path(output), &LoadOptions::default()).unwrap();
        assert_eq!(statistics.n_tensors, 5);
        let file = TensorFile::open(path(output)).unwrap();
        assert_eq!(file.format(), format);
        assert_eq!(file.metadata().unwrap().len(), 2);
        let weights = weights::load(path(output), &LoadOptions::default()).unwrap();
        assert_eq!(weights.tensors, all.iter().cloned().collect());
    }
    // Byte-identical to writing all tensors at once.
    write_safetensors(&path("at-once.safetensors"), &all, &[("format", "pt"), ("part", "1")]);
    assert!(std::fs::read(path("all.safetensors")).unwrap() == std::fs::read(path("at-once.safetensors")).unwrap());

    write_safetensors(&path("3.safetensors"), &all[1..2], &[]);
    write_safetensors(&path("4.safetensors"), &all[2..3], &[("part", "4")]);
    let merge =
        |other: &str| weights::join([path("1.safetensors"), path(other)], path("bad.zt"), &LoadOptions::default());
    let error = merge("3.safetensors").unwrap_err();
    assert!(matches!(error, WeightsError::Duplicate { .. }) && error.to_string().contains("`empty`"), "{error}");
    assert!(matches!(merge("4.safetensors"), Err(WeightsError::Metadata { .. })));

    // Objects are copied completely, or not at all.
    let mut writer = ztensor::Writer::create(path("5.zt")).unwrap();
    let tensor = &all[3].1;
    let attributes = [("bits".to_owned(), 4.into())].into();
    let parts = [("data", tensor, StoreAs::RAW.digest(DigestAlgorithm::Sha256)), ("extra", tensor, StoreAs::RAW)];
    writer.object("whole", tensor.shape(), "dense", &attributes, &parts).unwrap();
    writer.set_attributes(&[("number".to_owned(), 7.into())].into()).unwrap();
    writer.finish().unwrap();
    let options = LoadOptions::default().verified();
    let statistics = weights::join([path("5.zt"), path("3.safetensors")], path("whole.zt"), &options).unwrap();
    assert_eq!((statistics.n_tensors, statistics.n_verified), (2, 1));
    let reader = ztensor::Reader::open(path("whole.zt")).unwrap();
    let object = reader.object("whole").unwrap();
    assert_eq!((object.attributes().unwrap(), object.components().len()), (attributes, 2));
    assert!(object.component("data").unwrap().digest().unwrap().is_some());
    assert_eq!(reader.manifest().attributes().unwrap()["number"], 7.into());
    let error = weights::join([path("5.zt")], path("bad.safetensors"), &LoadOptions::default()).unwrap_err();
    assert!(format!("{error:?}").contains("not text, which safetensors cannot hold"), "{error:?}");
    // A digest of an unknown kind cannot be computed again. This is an error with and without verification.
    let rejected = Path::new(env!("CARGO_MANIFEST_DIR")).join("../spec/conformance/ztensor/digest-unknown.zt");
    let error = weights::join([rejected], path("bad.zt"), &LoadOptions::default()).unwrap_err();
    assert!(format!("{error:?}").contains("UnknownDigest"), "{error:?}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 9, "nothing unfinished is left: {left:?}");
}

#[test]
fn a_logical_type_that_is_not_known_is_merged_into_ztensor_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let tensor = RawTensor::new(ElementType::Float8E4m3Fn, vec![2], vec![1_u8, 2].into()).unwrap();
    let mut writer = ztensor::Writer::new(Vec::new()).unwrap();
    writer.add("odd", &tensor, StoreAs::RAW).unwrap();
    let file = writer.finish().unwrap();
    let known = b"f8_e4m3fn";
    let position = file.windows(known.len()).position(|bytes| bytes == known).unwrap();
    let odd = [&file[..position], b"f8_mine_1", &file[position + known.len()..]].concat();
    std::fs::write(path("odd.zt"), &odd).unwrap();
    weights::join([path("odd.zt")], path("merged.zt"), &LoadOptions::default()).unwrap();
    assert!(std::fs::read(path("merged.zt")).unwrap() == odd);
    let error = weights::join([path("odd.zt")], path("bad.safetensors"), &LoadOptions::default()).unwrap_err();
    assert!(format!("{error:?}").contains("the unknown type `f8_mine_1`"), "{error:?}");
}

/// An error says which file is at fault, and the output is not blamed for what an input has.
#[test]
fn errors_of_merging_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let tensor = RawTensor::new(ElementType::Uint8, vec![2], vec![7_u8, 8].into()).unwrap();
    for store_as in [StoreAs::RAW, StoreAs::RAW.zstd(1)] {
        let mut writer = ztensor::Writer::new(Vec::new()).unwrap();
        writer.add("x", &tensor, store_as.digest(DigestAlgorithm::Sha256)).unwrap();
        let mut damaged = writer.finish().unwrap();
        damaged[64] ^= 1;
        std::fs::write(path("damaged.zt"), damaged).unwrap();
        for output in ["merged.zt", "merged.safetensors"] {
            let options = LoadOptions::default().verified();
            let error = weights::join([path("damaged.zt")], path(output), &options).unwrap_err();
            assert!(matches!(error, WeightsError::File(TensorFileError::ZTensor { .. })), "{error:?}");
            assert!(error.to_string().contains(path("damaged.zt").to_str().unwrap()), "{error}");
        }
    }
    // What the output cannot hold is no fault of the input.
    let mut writer = ztensor::Writer::create(path("csr.zt")).unwrap();
    let matrix = RawTensor::new(ElementType::Uint8, vec![1, 2], vec![0_u8, 8].into()).unwrap();
    let csr = ztensor::Csr::from_dense(&matrix).unwrap();
    writer.csr("x", &csr, StoreAs::RAW).unwrap();
    writer.finish().unwrap();
    let join = || weights::join([path("csr.zt")], path("merged.safetensors"), &LoadOptions::default());
    assert_eq!(join().unwrap().n_tensors, 1);
    let mut writer = ztensor::Writer::create(path("csr.zt")).unwrap();
    let [values, index, ends] = [
        RawTensor::new(ElementType::Uint8, vec![1], vec![8_u8].into()).unwrap(),
        RawTensor::new(ElementType::Uint64, vec![1], vec![0_u8; 8].into()).unwrap(),
        RawTensor::new(ElementType::Uint64, vec![2], [[0_u8; 8], 1_u64.to_le_bytes()].concat().into()).unwrap(),
    ];
    let parts = [("values", &values), ("indices", &index), ("indptr", &ends), ("more", &values)];
    let parts = parts.map(|(role, tensor)| (role, tensor, StoreAs::RAW));
    writer.object("x", &[1, 2], "sparse_csr", &ztensor::Attributes::new(), &parts).unwrap();
    writer.finish().unwrap();
    let error = join().unwrap_err();
    assert!(matches!(&error, WeightsError::Write { place, .. } if place.ends_with("merged.safetensors")), "{error:?}");
    assert!(format!("{error:?}").contains("has further components"), "{error:?}");
}
