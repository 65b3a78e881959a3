//! Cartons that store all tensors in one file.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use carton_format::links::Links;
use carton_format::tensor_data::{FileFormat, TensorFormat};
use carton_tensor::{safetensors, ztensor};

use super::*;
use crate::cache::Scope;
use crate::package::rewrite;

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
    package.fetch_self_tests(&Context::default()).unwrap();
}

/// Checks that the file begins at a page boundary of the archive, and that the tensor is where its header says.
fn check_in_place(package: &Package, carton: &Path, path: &str) {
    let (file, range) = package.contents().mappable(path).unwrap();
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
        assert!(package.contents().verify(&Context::default()).unwrap().is_good());
        check_tensors(&Package::open(&carton, with_cache()).unwrap());
        let unpacked = folder.path("unpacked");
        package.contents().unpack(&unpacked, &Context::default()).unwrap();
        check_tensors(&open(&unpacked).unwrap());
        check_tensors(&Package::open(&unpacked, with_cache()).unwrap());
        // This holds for any compression of the other files.
        for compression in [Compression::Stored, Compression::Zstd, Compression::Deflate] {
            let other = folder.path("other.carton");
            write(&input, &other, compression, &Context::default()).unwrap();
            check_in_place(&open(&other).unwrap(), &other, &path);
        }
        // Rewritten from a carton or from a folder, the carton is the same.
        for source in [&carton, &unpacked] {
            let again = folder.path("again.carton");
            let (none, links) = (std::collections::BTreeSet::new(), Links::default());
            let source = open(source).unwrap();
            rewrite(source.contents(), &none, &links, &again, Compression::Auto, &Context::default()).unwrap();
            assert_eq!(std::fs::read(&again).unwrap(), std::fs::read(&carton).unwrap());
        }
    }
}

/// Whether all elements of a tensor are in memory that the file at `path` is mapped to.
fn is_view_of(tensor: &Tensor, path: &Path) -> bool {
    let Tensor::Numeric(tensor) = tensor else { return false };
    let address = tensor.bytes().as_ptr().addr()..tensor.bytes().as_ptr().addr() + tensor.bytes().len();
    let path = path.canonicalize().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut of_file = maps.lines().filter(|line| line.ends_with(path.to_str().unwrap()));
    of_file.any(|line| {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [start, end] = [start, end].map(|end| usize::from_str_radix(end, 16).unwrap());
        start <= address.start && address.end <= end
    })
}

#[test]
fn tensors_are_views_of_the_mapped_carton_where_that_is_asked_for() {
    for format in FORMATS {
        let folder = Folder::new();
        let path = format!("tensor_data/tensors{}", format.extension());
        let input = input(&folder, format);
        let carton = pack(&folder, "out.carton", &input).unwrap();
        let package = open(&carton).unwrap();
        let unpacked = folder.path("unpacked");
        package.contents().unpack(&unpacked, &Context::default()).unwrap();
        for (package, place) in [(package, carton.clone()), (open(&unpacked).unwrap(), unpacked.join(&path))] {
            let x = package.mapped_tensor("x").unwrap();
            assert!(is_view_of(&x, &place), "{format:?} is copied");
            assert_eq!(elements(&x), "[2] [1.0, 2.0]");
            let test = package.self_tests().next().unwrap();
            assert!(is_view_of(&test.mapped().inputs().unwrap()["a"], &place));
            // Tensors are views only on request.
            assert!(!is_view_of(&test.inputs().unwrap()["a"], &place));
            assert!(!is_view_of(&package.tensor("x").unwrap(), &place));
            // A tensor in its own file is read as usual.
            assert_eq!(elements(&package.mapped_tensor("words").unwrap()), "[2] [\"a\", \"b\"]");
            // The whole file can be mapped, for callers that parse the format themselves. Tensors outlive the package.
            let bytes = package.contents().map(&path, &Context::default()).unwrap().unwrap();
            drop(package);
            let view = match format {
                FileFormat::Safetensors => safetensors::Reader::new(bytes, path.as_str()).unwrap().read("x").unwrap(),
                FileFormat::Ztensor => ztensor::Reader::new(bytes.into()).unwrap().read("x").unwrap(),
            };
            let view: Tensor = view.to_numeric().unwrap().into();
            assert!(is_view_of(&view, &place), "{format:?} is copied");
            assert_eq!((elements(&view), elements(&x)), ("[2] [1.0, 2.0]".to_owned(), "[2] [1.0, 2.0]".to_owned()));
        }
        // If the file is compressed in the carton, its decompressed copy in the cache is mapped.
        let compressed = compressed_by_another_writer(&carton, &path, &folder.path("compressed.carton"));
        let cache = Arc::new(Cache::open(&folder.path("cache")).unwrap());
        let options = OpenOptions { cache: Some(cache), ..OpenOptions::default() };
        let package = Package::open(&compressed, options).unwrap();
        assert_eq!(elements(&package.mapped_tensor("x").unwrap()), "[2] [1.0, 2.0]");
        assert!(!is_view_of(&package.mapped_tensor("x").unwrap(), &compressed));
    }
}

/// Makes the same carton with this entry compressed.
fn compressed_by_another_writer(carton: &Path, path: &str, output: &Path) -> PathBuf {
    let mut archive = zip::ZipArchive::new(std::fs::File::open(carton).unwrap()).unwrap();
    let mut writer = zip::ZipWriter::new(std::fs::File::create(output).unwrap());
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).unwrap();
        let name = entry.name().unwrap().into_owned();
        let method = if name == path { zip::CompressionMethod::Deflated } else { zip::CompressionMethod::Stored };
        writer.start_file(&name, zip::write::SimpleFileOptions::default().compression_method(method)).unwrap();
        std::io::copy(&mut entry, &mut writer).unwrap();
    }
    writer.finish().unwrap();
    output.to_path_buf()
}

#[test]
fn a_carton_that_changed_is_not_mapped_again() {
    let folder = Folder::new();
    let carton = pack(&folder, "out.carton", &input(&folder, FileFormat::Ztensor)).unwrap();
    let package = open(&carton).unwrap();
    package.mapped_tensor("x").unwrap();
    // Waits for the tick of the clock in which the carton was written to pass.
    std::thread::sleep(std::time::Duration::from_millis(30));
    std::fs::File::options().append(true).open(&carton).unwrap().write_all_at(b"?", 0).unwrap();
    let error = package.mapped_tensor("x").unwrap_err();
    assert!(chain(&error).contains("changed"), "{}", chain(&error));
}

#[test]
fn a_damaged_file_of_tensors_gives_none_of_them() {
    for format in FORMATS {
        let folder = Folder::new();
        let path = format!("tensor_data/tensors{}", format.extension());
        let carton = pack(&folder, "out.carton", &input(&folder, format)).unwrap();
        let (_, range) = open(&carton).unwrap().contents().mappable(&path).unwrap();
        // Changes the last byte, which belongs to no tensor in a zTensor file.
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
        // Waits for the tick of the clock in which the carton was written to pass.
        std::thread::sleep(std::time::Duration::from_millis(30));
        let package =
            Package::open(&carton, OpenOptions { cache: Some(Arc::clone(&cache)), ..OpenOptions::default() }).unwrap();
        package.tensor("x").unwrap();
        let identity = carton_format::source::FileIdentity::of(&std::fs::metadata(&carton).unwrap());
        let hash = package.contents().manifest_hash().unwrap();
        assert!(cache.verifications().is_carton_verified(&identity, &hash, Scope::StoredTensorFiles));
        assert!(!cache.verifications().is_carton_verified(&identity, &hash, Scope::StoredModelFiles));
    }
}

#[test]
fn reading_can_be_cancelled() {
    let folder = Folder::new();
    for format in FORMATS {
        let carton = pack(&folder, "m.carton", &input(&folder, format)).unwrap();
        let package = open(&carton).unwrap();
        let token = crate::CancelToken::default();
        token.cancel();
        let cancelled = package.clone().cancel_token(token);
        let check = |what: &str, result: Result<(), crate::Error>| {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Interrupted, "{what} {format:?}");
        };
        check("tensor", cancelled.tensor("x").map(drop));
        check("mapped tensor", cancelled.mapped_tensor("x").map(drop));
        check("file", cancelled.read_file("carton.toml", 1 << 20).map(drop));
        check("part of a file", cancelled.read_file_range("carton.toml", 0, &mut [0; 4]));
        check("map of a file", cancelled.map_file("model/m").map(drop));
        let test = cancelled.self_tests().next().unwrap();
        check("self-test", test.inputs().map(drop));
        // Another clone is not cancelled.
        check_tensors(&package);
    }
}
