//! Comparison with PyPI's ztensor 2.1.2: random files of it are read as it reads them, and so are changed ones, as far as it reads them.
//!
//! Needs the environment that `tests/python/setup.sh` makes, named by `CARTON_TEST_PYTHON`, and is skipped without it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::ztensor::Checks;
use carton_tensor::ztensor2::{Layout, Object, Reader, has};
use serde_json::Value;
use twox_hash::XxHash3_64;

use crate::fixtures::{described, dtype_name, folder};
use crate::writer::{attributes, written};

/// Returns the Python interpreter of an environment that has the library. Without one, prints that the test is skipped and returns `None`.
fn python() -> Option<OsString> {
    let python = std::env::var_os("CARTON_TEST_PYTHON");
    let has_library = |python: &OsString| {
        Path::new(python).ancestors().nth(2).is_some_and(|prefix| prefix.join("ztensor-2").is_dir())
    };
    let python = python.filter(has_library);
    if python.is_none() {
        eprintln!("skipped: CARTON_TEST_PYTHON names no python3 that has ztensor 2 (tests/python/setup.sh makes one)");
    }
    python
}

fn run(python: &OsString, command: &str, folder: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ztensor2_peers.py");
    let output = Command::new(python).arg(script).arg(command).arg(folder).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|it| it == "zt")).collect();
    paths.sort();
    paths
}

/// What the library says of a file.
fn said(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path.with_extension("json")).unwrap()).unwrap()
}

/// Compares an object with what the library reads.
fn compare(reader: &Reader, object: &Object<'_>, expected: &Value, path: &Path) {
    assert_eq!(serde_json::to_value(object.shape()).unwrap(), expected["shape"], "{}", path.display());
    assert_eq!(object.layout().name(), expected["layout"].as_str().unwrap());
    for part in object.parts() {
        let expected = &expected["parts"][part.name()];
        assert_eq!(
            (dtype_name(part.dtype()), part.logical()),
            (expected["dtype"].as_str().unwrap(), expected["type"].as_str())
        );
        let bytes = reader.read_part(&part, Checks::ALL).unwrap();
        assert_eq!(described(&bytes), expected["bytes"].as_str().unwrap(), "{}, {}", path.display(), object.name());
    }
}

#[test]
fn random_files_of_the_library_are_read_as_it_reads_them() {
    let Some(python) = python() else { return };
    let place = tempfile::tempdir().unwrap();
    run(&python, "make", place.path());
    run(&python, "read", place.path());
    let mut n_tensors = 0;
    for path in files(place.path()) {
        let (reader, said) = (Reader::open(&path).unwrap(), said(&path));
        let objects = said["objects"].as_object().unwrap();
        assert_eq!(
            reader.objects().map(|object| object.name()).collect::<Vec<_>>(),
            objects.keys().collect::<Vec<_>>()
        );
        for object in reader.objects() {
            compare(&reader, &object, &objects[object.name()], &path);
            if object.layout() == Layout::Dense && object.unreadable().is_none() {
                assert_eq!(reader.read(&object, 0).unwrap().shape(), object.shape());
            }
            n_tensors += 1;
        }
    }
    assert!(n_tensors >= 24 * 8, "{n_tensors}");
}

/// What we read of a changed file, the library reads in the same way: no file means two things.
#[test]
fn changed_files_mean_what_they_mean_to_the_library() {
    let Some(python) = python() else { return };
    let place = tempfile::tempdir().unwrap();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut below = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % limit as u64) as usize
    };
    for name in ["types.zt", "sparse.zt", "others.zt", "compressed.zt"] {
        let bytes = fs::read(folder().join(name)).unwrap();
        let footer = bytes.len() - 40;
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        let manifest = number(footer)..number(footer) + number(footer + 8);
        for round in 0..250 {
            let mut bytes = bytes.clone();
            let at = manifest.start + below(manifest.len());
            bytes[at] = match below(2) {
                0 => bytes[at] ^ 1 << below(8),
                _ => bytes[manifest.start + below(manifest.len())],
            };
            let hash = XxHash3_64::oneshot(&bytes[manifest.clone()]);
            bytes[footer + 16..footer + 24].copy_from_slice(&hash.to_le_bytes());
            fs::write(place.path().join(format!("{round:03}-{name}")), bytes).unwrap();
        }
    }
    run(&python, "read", place.path());
    let (mut n_both, mut n_neither, mut only_library) = (0, 0, Vec::new());
    for path in files(place.path()) {
        let said = said(&path);
        let read = Reader::open(&path).and_then(|reader| {
            for part in reader.objects().flat_map(|object| object.parts()) {
                reader.read_part(&part, Checks::ALL)?;
            }
            Ok(reader)
        });
        match (read, said.get("error")) {
            (Ok(reader), None) => {
                let objects = said["objects"].as_object().unwrap();
                assert_eq!(reader.objects().len(), objects.len());
                reader.objects().for_each(|object| compare(&reader, &object, &objects[object.name()], &path));
                n_both += 1;
            }
            // It compares no digest of an algorithm that it does not know, as we do, but reports that as an error.
            (Ok(_), Some(error)) if error.as_str().is_some_and(|it| it.contains("digest algorithm")) => {}
            (Ok(_), Some(error)) => panic!("only the library refuses {}: {error}", path.display()),
            (Err(error), None) => only_library.push(format!("{}: {error}", path.display())),
            (Err(_), Some(_)) => n_neither += 1,
        }
    }
    println!("{n_both} are read by both, {n_neither} by neither; the library reads {only_library:#?}");
    assert!(n_both > 50 && n_neither > 50, "{n_both}, {n_neither}");
    assert!(only_library.len() < 20, "{only_library:#?}");
}

/// The library reads our files, and writes the same bytes for what is in them.
#[test]
fn our_files_are_those_of_the_library() {
    let Some(python) = python() else { return };
    let place = tempfile::tempdir().unwrap();
    let bytes = |n_bytes: usize| (0..n_bytes).map(|at| (at * 7 + 1) as u8 & 1).collect::<Vec<u8>>();
    let tensor = |dtype: ElementType, shape: &[usize]| {
        let n_bytes = dtype.n_bytes(shape.iter().product()).unwrap();
        RawTensor::new(dtype, shape.to_vec(), bytes(n_bytes).into()).unwrap()
    };
    let all = ElementType::ALL.into_iter().filter(|dtype| has(*dtype));
    let mut every: Vec<(String, RawTensor)> =
        all.clone().map(|dtype| (format!("é {dtype}"), tensor(dtype, &[2, 3, 4]))).collect();
    // Empty tensors, and further ones that have the same bytes, between others.
    every.extend(all.map(|dtype| (format!("{dtype}.again"), tensor(dtype, &[24]))));
    every.extend([1, 5, 9].map(|at| (format!("{at}.nothing"), tensor(ElementType::Float32, &[0, at]))));
    every.push(("scalar".to_owned(), tensor(ElementType::Int64, &[])));
    every.push(("long".to_owned(), tensor(ElementType::Uint8, &[200_000])));
    let files = [
        ("ours-every", every),
        ("ours-none", Vec::new()),
        ("ours-one", vec![("z".to_owned(), tensor(ElementType::Uint8, &[65_536]))]),
    ];
    for (name, tensors) in &files {
        fs::write(place.path().join(format!("{name}.zt")), written(tensors, &attributes())).unwrap();
    }
    run(&python, "again", place.path());
    run(&python, "read", place.path());
    for (name, tensors) in files {
        let path = place.path().join(format!("{name}.zt"));
        let (reader, said) = (Reader::open(&path).unwrap(), said(&path));
        let objects = said["objects"].as_object().unwrap();
        assert_eq!(objects.len(), tensors.len());
        for (name, tensor) in tensors {
            let object = reader.object(&name).unwrap();
            compare(&reader, &object, &objects[name.as_str()], &path);
            assert_eq!(reader.read(&object, 0).unwrap(), tensor);
        }
        let again = place.path().join(format!("{}.zt", name.replace("ours", "again")));
        assert!(fs::read(&path).unwrap() == fs::read(again).unwrap(), "{name}");
    }
}
