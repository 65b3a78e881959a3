//! Cartons whose tensors are in one file.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::*;
use crate::cache::Scope;
use crate::contents::MappableFile;
use crate::links::Links;
use crate::package::rewrite;
use crate::tensor_data::{FileFormat, TensorFormat};

const FORMATS: [FileFormat; 2] = [FileFormat::Safetensors, FileFormat::Ztensor];

fn input(folder: &Folder, format: FileFormat) -> PackageInput {
    let model = folder.file("m", "a model");
    let list = NestedTensor::new(vec![numbers(&[7.0]), numbers(&[])]).unwrap().into();
    let tensors = [("x", numbers(&[1.0, 2.0])), ("words", strings(&["a", "b"])), ("list", list)];
    PackageInput {
        tensors: tensors.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect(),
        tensor_format: match format {
            FileFormat::Safetensors => TensorFormat::Safetensors,
            FileFormat::Ztensor => TensorFormat::Ztensor,
        },
        ..PackageInput::new(metadata("[[self_test]]\ninputs = { a = '@tensor_data/x' }"), model)
    }
}

fn check_tensors(package: &Package) {
    let found: Vec<String> = ["x", "words", "list"].map(|name| elements(&package.tensor(name).unwrap())).into();
    assert_eq!(found, ["[2] [1.0, 2.0]", "[2] [\"a\", \"b\"]", "[\"[1] [7.0]\", \"[0] []\"]"]);
    for test in package.self_tests() {
        assert_eq!(elements(&test.inputs().unwrap()["a"]), "[2] [1.0, 2.0]");
    }
    package.fetch_self_tests(&contents::silent).unwrap();
}

/// The file begins a page of the archive, and the tensor is in it where its header says.
fn check_in_place(package: &Package, carton: &Path, path: &str) {
    let MappableFile { file, range } = package.contents().mappable(path).unwrap().unwrap();
    assert_eq!(range.start % 4096, 0, "{path}");
    let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap()];
    file.read_exact_at(&mut bytes, range.start).unwrap();
    let mut same = vec![0; bytes.len()];
    std::fs::File::open(carton).unwrap().read_exact_at(&mut same, range.start).unwrap();
    assert_eq!(bytes, same, "it is used in the carton itself");
    let x = [1.0_f32, 2.0].map(f32::to_le_bytes).concat();
    let at = bytes.windows(8).position(|window| window == x).unwrap();
    assert_eq!(at % if path.ends_with(".zt") { 64 } else { 4 }, 0);
}

#[test]
fn tensors_in_one_file_wherever_the_carton_is() {
    for format in FORMATS {
        let folder = Folder::new();
        let path = format!("tensor_data/tensors{}", format.extension());
        let input = input(&folder, format);
        let carton = pack(&folder, "out.carton", &input).unwrap();
        let cache = Arc::new(Cache::open(&folder.path("cache")).unwrap());
        let with_cache = || OpenOptions { cache: Some(Arc::clone(&cache)), ..OpenOptions::default() };
        let package = open(&carton).unwrap();
        check_tensors(&package);
        check_in_place(&package, &carton, &path);
        assert!(package.contents().verify(&contents::silent).unwrap().is_good());
        check_tensors(&Package::open(&carton, with_cache()).unwrap());
        let unpacked = folder.path("unpacked");
        package.contents().unpack(&unpacked, &contents::silent).unwrap();
        check_tensors(&open(&unpacked).unwrap());
        check_tensors(&Package::open(&unpacked, with_cache()).unwrap());
        // However the other files are compressed.
        for compression in [Compression::Stored, Compression::Zstd, Compression::Deflate] {
            let other = folder.path("other.carton");
            write(&input, &other, compression, &silent).unwrap();
            check_in_place(&open(&other).unwrap(), &other, &path);
        }
        // Written again, from a carton and from a folder, it is the same.
        for source in [&carton, &unpacked] {
            let again = folder.path("again.carton");
            let (none, links) = (std::collections::BTreeSet::new(), Links::default());
            let source = open(source).unwrap();
            rewrite(source.contents(), &none, &links, &again, Compression::Auto, &silent).unwrap();
            assert_eq!(std::fs::read(&again).unwrap(), std::fs::read(&carton).unwrap());
        }
    }
}

#[test]
fn a_damaged_file_of_tensors_gives_none_of_them() {
    for format in FORMATS {
        let folder = Folder::new();
        let path = format!("tensor_data/tensors{}", format.extension());
        let carton = pack(&folder, "out.carton", &input(&folder, format)).unwrap();
        let MappableFile { range, .. } = open(&carton).unwrap().contents().mappable(&path).unwrap().unwrap();
        // Its last byte, which no tensor has in a zTensor file.
        let file = std::fs::File::options().write(true).open(&carton).unwrap();
        file.write_all_at(b"?", range.end - 1).unwrap();
        let package = open(&carton).unwrap();
        let error = package.tensor("x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Integrity, "{}", chain(&error));
        assert_eq!(elements(&package.tensor("words").unwrap()), "[2] [\"a\", \"b\"]");
    }
}

#[test]
fn verification_is_remembered() {
    for format in FORMATS {
        let folder = Folder::new();
        let carton = pack(&folder, "out.carton", &input(&folder, format)).unwrap();
        let cache = Arc::new(Cache::open(&folder.path("cache")).unwrap());
        // Past the tick of the clock in which the carton was written.
        std::thread::sleep(std::time::Duration::from_millis(30));
        let package =
            Package::open(&carton, OpenOptions { cache: Some(Arc::clone(&cache)), ..OpenOptions::default() }).unwrap();
        package.tensor("x").unwrap();
        let identity = crate::source::FileIdentity::of(&std::fs::metadata(&carton).unwrap());
        let hash = package.contents().manifest_hash().unwrap();
        assert!(cache.is_carton_verified(&identity, &hash, Scope::StoredTensorFiles));
        assert!(!cache.is_carton_verified(&identity, &hash, Scope::StoredModelFiles));
    }
}
