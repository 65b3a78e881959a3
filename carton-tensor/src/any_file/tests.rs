#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::files::{ElementType, RawTensor};
use crate::safetensors::{HeaderError, Metadata, SafetensorsError};
use crate::ztensor::{DigestAlgorithm, StoreAs};
use crate::{DataType, Tensor};

fn numbers() -> RawTensor {
    let bytes: Vec<u8> = [1.0_f32, -2.0].into_iter().flat_map(f32::to_le_bytes).collect();
    RawTensor::new(ElementType::Float32, vec![2], bytes.into()).unwrap()
}

/// A GGUF file with these pairs, and one tensor of type 0 or 2 with this data.
fn gguf(name: &str, pairs: &[(&str, &[u8])], (of, shape): (u32, &[u64]), data: &[u8]) -> Vec<u8> {
    let text = |text: &[u8]| [&(text.len() as u64).to_le_bytes(), text].concat();
    let mut bytes = [b"GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0".as_slice(), &(pairs.len() as u64).to_le_bytes()].concat();
    for (key, value) in pairs {
        bytes.extend([&text(key.as_bytes()), *value].concat());
    }
    bytes.extend([&text(name.as_bytes()), (shape.len() as u32).to_le_bytes().as_slice()].concat());
    bytes.extend(shape.iter().flat_map(|size| size.to_le_bytes()));
    bytes.extend([of.to_le_bytes().as_slice(), &[0; 8]].concat());
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes.extend(data);
    bytes
}

/// The same tensor in every format.
fn files() -> Vec<(TensorFileFormat, Vec<u8>)> {
    let tensor = numbers();
    let mut safetensors = Vec::new();
    crate::safetensors::write([("data", &tensor)], &Metadata::new([("k", "v")]).unwrap(), &mut safetensors).unwrap();
    let mut ztensor = ztensor::Writer::new(Vec::new()).unwrap();
    ztensor.add("data", &tensor, StoreAs::RAW.digest(DigestAlgorithm::Crc32c)).unwrap();
    ztensor.set_attributes(&[("k".to_owned(), "v".into())].into()).unwrap();
    let mut zstd = ztensor::Writer::new(Vec::new()).unwrap();
    zstd.add("data", &tensor, StoreAs::RAW.zstd(3)).unwrap();
    let mut two = crate::ztensor2::Writer::new(std::io::Cursor::new(Vec::new())).unwrap();
    let copy = |out: &mut dyn std::io::Write| out.write_all(tensor.bytes());
    two.add_with("data", tensor.dtype(), tensor.shape(), &Default::default(), copy).unwrap();
    let (two, _) = two.finish(&[("k".to_owned(), "v".into())].into()).unwrap();
    let carton: Tensor = tensor.to_numeric().unwrap().into();
    let (mut npy, mut npz) = (Vec::new(), std::io::Cursor::new(Vec::new()));
    npy::write(&mut npy, &carton).unwrap();
    npy::write_npz(&mut npz, [("data", &carton)]).unwrap();
    let text = [8_u32.to_le_bytes().as_slice(), &1_u64.to_le_bytes(), b"v"].concat();
    let gguf = gguf("data", &[("k", &text)], (0, &[2]), tensor.bytes());
    let field = |number: u8, content: &[u8]| [&[number << 3 | 2, content.len() as u8], content].concat();
    let onnx = [[0x08, 2, 0x10, 1].as_slice(), &field(8, b"data"), &field(9, tensor.bytes())].concat();
    let onnx = [[0x08, 10].as_slice(), &field(2, b"v"), &field(7, &field(5, &onnx))].concat();
    vec![
        (TensorFileFormat::Onnx, onnx),
        (TensorFileFormat::Gguf, gguf),
        (TensorFileFormat::Safetensors, safetensors),
        (TensorFileFormat::ZTensor, ztensor.finish().unwrap()),
        (TensorFileFormat::ZTensor, zstd.finish().unwrap()),
        (TensorFileFormat::ZTensor2, two.into_inner()),
        (TensorFileFormat::Npy, npy),
        (TensorFileFormat::Npz, npz.into_inner()),
    ]
}

/// An array of an unsupported type does not prevent the others in its archive from being read.
#[test]
fn arrays_of_unsupported_types_are_listed() {
    use std::io::Write;
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let header = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n";
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    zip.start_file("objects.npy", zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(&[b"\x93NUMPY\x01\x00", length.as_slice(), header.as_bytes(), b"pickled"].concat()).unwrap();
    zip.start_file("data.npy", zip::write::SimpleFileOptions::default()).unwrap();
    npy::write(&mut zip, &numbers().to_numeric().unwrap().into()).unwrap();
    let file = TensorFile::new(zip.finish().unwrap().into_inner(), "a.npz").unwrap();
    assert_eq!(file.read("data").unwrap(), numbers());
    let objects = file.entry("objects").unwrap();
    assert_eq!((objects.dtype(), objects.shape()), (None, [].as_slice()));
    let reason = objects.not_numbers().unwrap();
    assert!(reason.contains("Python objects"), "{reason}");
    let error = objects.read().unwrap_err();
    assert!(matches!(error, TensorFileError::Npy(NpyError::Unsupported { .. })), "{error}");
}

#[test]
fn every_format_gives_the_same_tensor() {
    let folder = tempfile::tempdir().unwrap();
    for (format, bytes) in files() {
        let path = folder.path().join("file");
        std::fs::write(&path, &bytes).unwrap();
        for file in [
            TensorFile::new(bytes.clone(), "memory").unwrap(),
            TensorFile::open(&path).unwrap(),
            TensorFile::map(&path).unwrap(),
        ] {
            assert_eq!(file.format(), format);
            let entries: Vec<Entry<'_>> = file.entries().collect();
            assert_eq!(entries.len(), 1);
            let entry = &entries[0];
            assert_eq!((entry.name(), entry.shape(), entry.layout()), ("data", [2].as_slice(), "dense"));
            assert_eq!(entry.dtype(), Some(ElementType::Float32));
            assert_eq!(entry.read().unwrap(), numbers());
            assert_eq!(file.read("data").unwrap(), numbers());
            let Tensor::Numeric(tensor) = entry.read_tensor().unwrap() else { panic!("{format:?}") };
            assert_eq!(tensor.dtype(), DataType::Float32);
            if let Some((bytes, range)) = entry.location() {
                assert_eq!(*bytes.read(range).unwrap(), **numbers().bytes());
            }
            assert_eq!(entry.verify().unwrap(), usize::from(entry.digest().is_some()));
            let error = file.read("da\u{1b}ta").unwrap_err();
            assert!(error.to_string().ends_with("has no tensor `da\\u{1b}ta`"), "{error}");
        }
    }
}

#[test]
fn metadata_is_text() {
    for (_, bytes) in files().into_iter().skip(1).take(2) {
        let metadata = TensorFile::new(bytes, "memory").unwrap().metadata().unwrap();
        assert_eq!(metadata, [("k".to_owned(), "v".to_owned())]);
    }
}

#[test]
fn numpy_strings_are_not_a_tensor_of_numbers() {
    let strings = Tensor::from_strings(["a", "b"], vec![2]).unwrap();
    let mut npy = Vec::new();
    npy::write(&mut npy, &strings).unwrap();
    let file = TensorFile::new(npy, "strings.npy").unwrap();
    let entry = file.entry("data").unwrap();
    assert_eq!((entry.dtype(), entry.read_tensor().unwrap()), (None, strings));
    assert!(matches!(entry.read(), Err(TensorFileError::NoTensor { .. })));
}

#[test]
fn plain_arrays_of_mapped_files_are_views() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let npy = |descr: &str, fortran_order: &str, shape: &str, elements: &[u8]| {
        let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran_order}, 'shape': {shape}}}\n");
        let length = u16::try_from(header.len()).unwrap().to_le_bytes();
        [b"\x93NUMPY\x01\x00".as_slice(), &length, header.as_bytes(), elements].concat()
    };
    let check = |array: &[u8], is_plain: bool| {
        let archive = |method| {
            let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
            let options = zip::write::SimpleFileOptions::default().compression_method(method);
            archive.start_file("first.npy", options).unwrap();
            std::io::Write::write_all(&mut archive, &npy("|u1", "False", "(3,)", b"abc")).unwrap();
            archive.start_file("data.npy", options).unwrap();
            std::io::Write::write_all(&mut archive, array).unwrap();
            archive.finish().unwrap().into_inner()
        };
        let files = [
            (array.to_vec(), is_plain),
            (archive(zip::CompressionMethod::Stored), is_plain),
            (archive(zip::CompressionMethod::Deflated), false),
        ];
        for (bytes, is_view) in files {
            std::fs::write(&path, &bytes).unwrap();
            let mapped = TensorFile::map(&path).unwrap();
            let entry = mapped.entry("data").unwrap();
            assert_eq!(entry.location().is_some(), is_view);
            let tensor = entry.read().unwrap();
            let whole = mapped.bytes().read(0..mapped.bytes().len()).unwrap();
            let is_inside = whole.as_ptr_range().contains(&tensor.bytes().as_ptr());
            assert_eq!(is_inside, is_view);
            let copied = TensorFile::open(&path).unwrap();
            assert!(copied.entry("data").unwrap().location().is_none());
            assert_eq!(copied.read("data").unwrap(), tensor);
        }
    };
    check(&npy("<f4", "False", "(2, 1)", &[1, 2, 3, 4, 5, 6, 7, 8]), true);
    check(&npy("<f4", "True", "(2, 1)", &[1, 2, 3, 4, 5, 6, 7, 8]), true);
    check(&npy("<f4", "True", "(1, 2, 2)", &[7; 16]), false);
    check(&npy(">f4", "False", "(2,)", &[1, 2, 3, 4, 5, 6, 7, 8]), false);
    check(&npy("|b1", "False", "()", &[1]), true);
    check(&npy("<c8", "False", "(1,)", &[1; 8]), true);
}

#[test]
fn unknown_and_invalid_files_are_reported() {
    let check = |bytes: &[u8], place: &str, expected: &str| {
        let error = TensorFile::new(bytes.to_vec(), place).unwrap_err();
        let mut message = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            message += &format!(": {error}");
            source = error.source();
        }
        assert!(message.contains(expected), "{message}");
    };
    check(
        b"",
        "a",
        "`a` is empty, expected a tensor file: safetensors, zTensor, a PyTorch checkpoint, GGUF, ONNX, .npy or .npz",
    );
    check(b"GGUF\x03\0\0\0", "a", "a number at byte 8 takes 8 bytes, and the file has 0 more");
    check(b"GGUF\0\0\0\x03", "a", "big-endian");
    check(b"\xfe\xff\0", "a", "found `\\xfe\\xff\\x00`");
    check(b"", "a.safetensors", "is empty, expected safetensors");
    check(b"\0", "a.safetensors", "expected at least the 8");
    check(b"ZTEN0001", "a", "0.1");
    check(b"\x89ZT2\r\n\x1a\n", "a", "at byte 8: the file has 8 bytes, expected at least 48");
    check(b"\x93NUMPY", "a", "a");
    check(b"PK\x05\x06", "a", "a");
    check(b"\xff\0\0\0\0\0\0\0{", "a", "255");
}

/// A header whose length begins like the magic bytes of another kind of file is judged as a header.
#[test]
fn damaged_headers_are_not_other_files() {
    for length in [b"\x1f\x8b\x08\0", b"BZh\0", b"\x80\x02}\0", b"\x80\x04N\0", b"\x80\x03c\0"] {
        let length = u32::from_le_bytes(*length);
        let bytes = [&u64::from(length).to_le_bytes(), b"{}".as_slice()].concat();
        for named in ["a", "a.safetensors", "a.npz"] {
            let error = TensorFile::new(bytes.clone(), named).unwrap_err();
            let TensorFileError::Safetensors(SafetensorsError::Header { source, .. }) = error else {
                panic!("{error}")
            };
            assert!(matches!(source, HeaderError::PastTheEnd { .. }), "{source}");
        }
        let whole = [bytes.as_slice(), &vec![b' '; length as usize - 2]].concat();
        crate::safetensors::Reader::new(whole.clone(), "a").unwrap();
        let damaged = [&whole[..whole.len() - 1], b"}"].concat();
        let error = crate::safetensors::Reader::new(damaged, "a").unwrap_err();
        assert!(matches!(error, SafetensorsError::Header { .. }), "{error}");
    }
}

#[test]
fn shards_are_opened_by_their_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors.index.json");
    for name in ["one", "two"] {
        let file = std::fs::File::create(folder.path().join(format!("{name}.safetensors"))).unwrap();
        crate::safetensors::write([(name, &numbers())], &Metadata::new([("k", name)]).unwrap(), file).unwrap();
    }
    std::fs::write(&path, r#"{"metadata":{},"weight_map":{"one":"one.safetensors","two":"two.safetensors"}}"#).unwrap();
    for file in [TensorFile::open(&path).unwrap(), TensorFile::map(&path).unwrap()] {
        assert_eq!(file.format(), TensorFileFormat::Sharded);
        let names: Vec<&str> = file.entries().map(|entry| entry.name()).collect();
        assert_eq!(names, ["one", "two"]);
        assert_eq!(file.read("two").unwrap(), numbers());
        assert!(file.entry("one").unwrap().location().is_some());
        assert_eq!(file.metadata().unwrap(), [("k".to_owned(), "one".to_owned())]);
    }
    let weights = crate::weights::load(&path, &crate::weights::LoadOptions::default()).unwrap();
    assert_eq!(weights.tensors.len(), 2);
    std::fs::remove_file(folder.path().join("two.safetensors")).unwrap();
    assert!(matches!(TensorFile::open(&path), Err(TensorFileError::Sharded(_))));
}

/// Reading piece by piece gives what reading the whole gives, and its statistics, for each format, encoding and order.
#[test]
fn pieces_are_the_whole() {
    use crate::weights::{LoadOptions, stats, stats_of_entry};
    let numbers: Vec<f32> = (0..30_000_u16).map(|n| f32::from(n).sin() * 100.0).collect();
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let big_endian: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    let tensor = RawTensor::new(ElementType::Float32, vec![100, 300], bytes.clone().into()).unwrap();
    let npy = |descr: &str, fortran_order: &str, elements: &[u8]| {
        let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran_order}, 'shape': (100, 300)}}\n");
        let length = u16::try_from(header.len()).unwrap().to_le_bytes();
        [b"\x93NUMPY\x01\x00".as_slice(), &length, header.as_bytes(), elements].concat()
    };
    let arrays = [npy("<f4", "False", &bytes), npy(">f4", "False", &big_endian), npy(">f4", "True", &big_endian)];
    let mut files: Vec<Vec<u8>> = arrays.to_vec();
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
        for (position, array) in arrays.iter().enumerate() {
            let options = zip::write::SimpleFileOptions::default().compression_method(method);
            archive.start_file(format!("{method}{position}.npy"), options).unwrap();
            std::io::Write::write_all(&mut archive, array).unwrap();
        }
    }
    files.push(archive.finish().unwrap().into_inner());
    let mut safetensors = Vec::new();
    crate::safetensors::write([("a", &tensor)], &Metadata::default(), &mut safetensors).unwrap();
    files.push(safetensors);
    let mut writer = ztensor::Writer::new(Vec::new()).unwrap();
    let digest = StoreAs::RAW.digest(DigestAlgorithm::Sha256);
    writer.add("raw", &tensor, digest).unwrap();
    writer.add("zstd", &tensor, digest.zstd(3)).unwrap();
    writer.csr("sparse", &ztensor::Csr::from_dense(&tensor).unwrap(), digest).unwrap();
    files.push(writer.finish().unwrap());
    let mut n_tensors = 0;
    for bytes in files {
        let file = TensorFile::new(bytes, "memory").unwrap().checking(Checks::ALL);
        for entry in file.entries() {
            let whole = entry.read().unwrap();
            for (order, n_elements) in [(ElementOrder::C, 8), (ElementOrder::C, 1 << 20), (ElementOrder::File, 4096)] {
                let (mut found, mut lengths) = (Vec::new(), Vec::new());
                let visited = entry.visit(order, n_elements, |piece| {
                    found.extend_from_slice(piece);
                    lengths.push(piece.len());
                    Ok::<_, TensorFileError>(())
                });
                visited.unwrap();
                let is_fortran = matches!(&file.inner, Inner::Npy(_) | Inner::Npz(..)) && found != **whole.bytes();
                assert!(!is_fortran || order == ElementOrder::File, "{}", entry.name());
                let (last, others) = lengths.split_last().unwrap();
                assert!(others.iter().all(|&length| length == n_elements * 4) && *last <= n_elements * 4);
                assert_eq!(found.len(), whole.bytes().len());
            }
            entry.check().unwrap();
            let (found, expected) = (stats_of_entry(&entry, &LoadOptions::default()).unwrap(), stats(&whole).unwrap());
            assert_eq!((found.min, found.max, found.n_elements), (expected.min, expected.max, expected.n_elements));
            // In another order, sums are rounded differently.
            assert!((found.mean.unwrap() - expected.mean.unwrap()).abs() < 1e-12, "{}", entry.name());
            // A visitor that fails ends the reading with its own error.
            let mut n_pieces = 0;
            let failed = entry.visit(ElementOrder::File, 8, |_| {
                n_pieces += 1;
                Err(TensorFileError::NoSuchTensor { place: "mine".to_owned(), name: String::new() })
            });
            assert!(failed.unwrap_err().to_string().contains("mine") && n_pieces == 1);
            n_tensors += 1;
        }
    }
    assert_eq!(n_tensors, 13);
}

/// What is damaged is found piece by piece as well, and is no panic wherever it is.
#[test]
fn damage_is_found_in_pieces_as_in_the_whole() {
    for (_, bytes) in files() {
        for position in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[position] ^= 0xff;
            let Ok(file) = TensorFile::new(bytes, "memory") else { continue };
            let file = file.checking(Checks::ALL);
            for entry in file.entries() {
                let whole = entry.dequantize();
                let mut found = Vec::new();
                let visited = entry.visit(ElementOrder::C, 8, |piece| {
                    found.extend_from_slice(piece);
                    Ok::<_, TensorFileError>(())
                });
                assert_eq!(whole.is_ok(), visited.is_ok(), "byte {position}: {whole:?} {visited:?}");
                assert!(whole.is_err() || found == **whole.unwrap().bytes());
            }
        }
    }
}

/// Pieces end where elements end, however many elements are asked for.
#[test]
fn pieces_are_whole_elements() {
    let mut files: Vec<Vec<u8>> = files().into_iter().map(|(_, bytes)| bytes).collect();
    let mut small = Vec::new();
    let dtypes = [ElementType::Float4E2m1, ElementType::Float6E3m2Fn, ElementType::Int8, ElementType::Complex64];
    let tensors = dtypes.map(|dtype| RawTensor::new(dtype, vec![24], vec![1_u8; 3 * dtype.bits()].into()).unwrap());
    let named = dtypes.iter().zip(&tensors).map(|(dtype, tensor)| (dtype.name(), tensor));
    crate::safetensors::write(named, &Metadata::default(), &mut small).unwrap();
    files.push(small);
    let mut sparse = ztensor::Writer::new(Vec::new()).unwrap();
    let matrix = RawTensor::new(ElementType::Float32, vec![1, 2], numbers().bytes().clone()).unwrap();
    sparse.csr("sparse", &ztensor::Csr::from_dense(&matrix).unwrap(), StoreAs::RAW).unwrap();
    files.push(sparse.finish().unwrap());
    for bytes in files {
        let file = TensorFile::new(bytes, "memory").unwrap();
        for entry in file.entries() {
            let dtype = entry.dtype().unwrap();
            let unit = dtype.n_bytes(1).unwrap_or(dtype.bits());
            for n_elements in [0, 1, 2, 3, 7, 9, usize::MAX - 1, usize::MAX] {
                let mut found = Vec::new();
                let visited = entry.visit(ElementOrder::C, n_elements, |piece| {
                    assert_eq!(piece.len() % unit, 0, "{dtype}, {n_elements} elements: {} bytes", piece.len());
                    found.extend_from_slice(piece);
                    Ok::<_, TensorFileError>(())
                });
                visited.unwrap();
                assert_eq!(found, **entry.read().unwrap().bytes());
            }
        }
    }
}

/// A visitor may read what else the file has, and other threads need not wait for it.
#[test]
fn a_visitor_reads_other_arrays_of_its_archive() {
    let carton: Tensor = numbers().to_numeric().unwrap().into();
    let mut npz = std::io::Cursor::new(Vec::new());
    npy::write_npz(&mut npz, [("a", &carton), ("b", &carton)]).unwrap();
    // In a thread of its own, because a visitor that waits for itself waits for ever.
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let file = TensorFile::new(npz.into_inner(), "a.npz").unwrap();
        let mut read = Vec::new();
        let visited = file.entry("a").unwrap().visit(ElementOrder::File, 1, |_| {
            assert!(file.other_entries().is_empty());
            read.push(file.read("b")?);
            Ok::<_, TensorFileError>(())
        });
        sender.send(visited.map(|()| read)).unwrap();
    });
    let read = receiver.recv_timeout(std::time::Duration::from_secs(20)).unwrap().unwrap();
    assert_eq!(read, [numbers(), numbers()]);
}

/// The readers of single formats recognize other files as well, and their errors become those of any format.
#[test]
fn errors_of_single_formats_tell_what_the_file_is() {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file("m/data.pkl", zip::write::SimpleFileOptions::default()).unwrap();
    let zip = zip.finish().unwrap();
    let error = Npz::from_reader(zip.clone(), "a").err().unwrap();
    assert_eq!(TensorFileError::from(error).content(), Some(Content::TorchArchive));
    let error = TensorFile::new(zip.into_inner(), "a").unwrap_err();
    assert!(matches!(error, TensorFileError::Torch(_)), "{error}");
    let error = crate::safetensors::Reader::new(b"GGUF\x03\0\0\0".to_vec(), "a").unwrap_err();
    assert_eq!(TensorFileError::from(error).content(), Some(Content::Gguf));
}

/// Blocks of GGUF are numbers where they are wanted, whole and in pieces.
#[test]
fn blocks_of_gguf_are_dequantized() {
    use crate::weights::{LoadOptions, stats, stats_of_entry};
    let blocks: Vec<u8> = (0..18 * 6000_u32).map(|n| if n % 18 == 1 { 0x2c } else { (n * 7 % 251) as u8 }).collect();
    let file = TensorFile::new(gguf("q", &[], (2, &[64, 3000]), &blocks), "a").unwrap();
    let entry = file.entry("q").unwrap();
    assert_eq!((entry.shape(), entry.dtype(), entry.layout()), ([3000, 64].as_slice(), None, "Q4_0"));
    assert!(entry.location().is_none() && entry.not_numbers().is_none());
    assert!(entry.read().unwrap_err().to_string().contains("is of blocks of Q4_0, expected a tensor of numbers"));
    let whole = entry.dequantize().unwrap();
    assert_eq!((whole.dtype(), whole.shape()), (ElementType::Float32, [3000, 64].as_slice()));
    for n_elements in [0, 1, 32, 33, 4096, 1 << 20, usize::MAX] {
        let (mut found, mut lengths) = (Vec::new(), Vec::new());
        let visited = entry.visit(ElementOrder::C, n_elements, |piece| {
            found.extend_from_slice(piece);
            lengths.push(piece.len());
            Ok::<_, TensorFileError>(())
        });
        visited.unwrap();
        assert_eq!(found, **whole.bytes(), "{n_elements}");
        let expected = n_elements.clamp(1, 1 << 20).next_multiple_of(32) * 4;
        let (_, others) = lengths.split_last().unwrap();
        assert!(others.iter().all(|length| *length == expected), "{n_elements}");
    }
    assert_eq!(stats_of_entry(&entry, &LoadOptions::default()).unwrap(), stats(&whole).unwrap());
    assert_eq!(crate::weights::load_file(&file, &LoadOptions::default()).unwrap().tensors["q"], whole);
}

/// The first of several files of GGUF opens all, which have to agree.
#[test]
fn split_files_are_opened_by_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = |number: u32| folder.path().join(format!("m-{number:05}-of-00003.gguf"));
    let part = |number: u16, name: &str, count: u16, stated: i32| {
        let small = |value: u16| [2_u32.to_le_bytes().as_slice(), &value.to_le_bytes()].concat();
        let stated = [5_u32.to_le_bytes().as_slice(), &stated.to_le_bytes()].concat();
        let pairs =
            [("split.no", small(number).as_slice()), ("split.count", &small(count)), ("split.tensors.count", &stated)]
                .map(|(key, value)| (key, value.to_vec()));
        let pairs: Vec<(&str, &[u8])> = pairs.iter().map(|(key, value)| (*key, value.as_slice())).collect();
        gguf(name, &pairs, (0, &[2]), &[number as u8; 8])
    };
    for number in 0..3_u16 {
        std::fs::write(path(u32::from(number) + 1), part(number, &format!("t{number}"), 3, 3)).unwrap();
    }
    for file in [TensorFile::open(path(1)).unwrap(), TensorFile::map(path(1)).unwrap()] {
        let names: Vec<&str> = file.entries().map(|entry| entry.name()).collect();
        assert_eq!(names, ["t0", "t1", "t2"]);
        assert_eq!(**file.read("t2").unwrap().bytes(), [2; 8]);
        assert_eq!(file.as_gguf().unwrap().file_names().count(), 3);
    }
    let told = || TensorFile::open(path(1)).unwrap_err().to_string();
    let error = TensorFile::open(path(2)).unwrap_err();
    assert!(error.is_malformed() && error.to_string().contains("it is file 2 of 3 of a model"), "{error}");
    let alone = TensorFile::new(std::fs::read(path(1)).unwrap(), "m-00001-of-00003.gguf").unwrap_err();
    assert!(alone.to_string().contains("opened without the others"), "{alone}");
    std::fs::write(path(2), part(1, "t0", 3, 3)).unwrap();
    assert!(told().contains("tensor `t0` of `m-00002-of-00003.gguf` is in another file too"), "{}", told());
    std::fs::write(path(2), part(2, "t1", 3, 3)).unwrap();
    assert!(told().contains("are 2 and 3, expected 1 and 3"), "{}", told());
    std::fs::write(path(2), part(1, "t1", 3, 3)).unwrap();
    std::fs::write(path(1), part(0, "t0", 3, 4)).unwrap();
    assert!(told().contains("`split.tensors.count` is 4, and the files have 3 tensors"), "{}", told());
    std::fs::write(path(1), part(0, "t0", 4, 3)).unwrap();
    assert!(told().contains("expected a name that ends in `-00001-of-00004.gguf`"), "{}", told());
    std::fs::write(path(1), part(0, "t0", 3, -1)).unwrap();
    assert!(told().contains("`split.tensors.count` is -1"), "{}", told());
    std::fs::write(path(1), part(0, "t0", 3, 3)).unwrap();
    let others: [(&[u8], Content, &str); 3] = [
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n",
            Content::GitLfsPointer,
            "git lfs pull",
        ),
        (b"<!DOCTYPE html><html>login</html>", Content::Html, "download the file again"),
        (b"PK\x03\x04\x14\0\0\0\0", Content::Zip, "unpack it"),
    ];
    for (bytes, content, hint) in others {
        std::fs::write(path(3), bytes).unwrap();
        let error = TensorFile::open(path(1)).unwrap_err();
        let expected = format!("m-00003-of-00003.gguf` is {content}, expected a GGUF file");
        assert!(error.to_string().contains(&expected), "{error}");
        assert_eq!((error.content(), error.is_malformed()), (Some(content), true));
        assert!(error.hint().unwrap().contains(hint), "{:?}", error.hint());
    }
    std::fs::remove_file(path(3)).unwrap();
    assert!(told().contains("`m-00003-of-00003.gguf` of the same model is missing"), "{}", told());
    // One file, as for llama.cpp.
    std::fs::write(path(1), part(7, "t0", 0, 9)).unwrap();
    assert_eq!(TensorFile::open(path(1)).unwrap().entries().count(), 1);
}

/// Links to the further files of GGUF are followed by the rule for those of an index.
#[cfg(unix)]
#[test]
fn links_to_split_files_are_followed_by_the_rule_of_indexes() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let part = |number: u16| {
        let small = |value: u16| [2_u32.to_le_bytes().as_slice(), &value.to_le_bytes()].concat();
        let (number_is, count) = (small(number), small(2));
        gguf(&format!("t{number}"), &[("split.no", &number_is), ("split.count", &count)], (0, &[2]), &[0; 8])
    };
    let first = folder.path().join("m-00001-of-00002.gguf");
    std::fs::write(&first, part(0)).unwrap();
    std::fs::write(elsewhere.path().join("blob"), part(1)).unwrap();
    std::os::unix::fs::symlink(elsewhere.path().join("blob"), folder.path().join("m-00002-of-00002.gguf")).unwrap();
    assert_eq!(TensorFile::open(&first).unwrap().entries().count(), 2);
    let error = TensorFile::open_following(&first, FollowLinks::Inside).unwrap_err();
    assert!(error.hint().unwrap().contains("--follow-links"), "{error}");
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("it is a link to") && source.contains("that is not followed"), "{source}");
    assert!(!error.is_malformed() && TensorFile::map_following(&first, FollowLinks::All).is_ok());
}

/// A checkpoint is opened by what it holds, and passed piece by piece like files of other formats.
#[test]
fn checkpoints_of_pytorch_are_tensor_files() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/torch");
    for name in ["views.pt", "views-4.stream.pt", "dtypes.pt"] {
        let bytes = std::fs::read(folder.join(name)).unwrap();
        let file = TensorFile::new(bytes, "a.bin").unwrap();
        assert_eq!(file.format(), TensorFileFormat::Torch);
        for entry in file.entries() {
            let whole = entry.read().unwrap();
            let mut visited = Vec::new();
            let done = entry.visit(ElementOrder::C, 3, |piece| {
                visited.extend_from_slice(piece);
                Ok::<_, TensorFileError>(())
            });
            done.unwrap();
            assert_eq!(visited, **whole.bytes(), "{}", entry.name());
            assert_eq!((entry.dtype(), entry.shape()), (Some(whole.dtype()), whole.shape()));
            assert_eq!(file.read(entry.name()).unwrap(), whole);
            entry.check().unwrap();
            if let Some((bytes, range)) = entry.location() {
                assert_eq!(*bytes.read(range).unwrap(), **whole.bytes());
            }
        }
    }
    let script = folder.join("../../../../tests/models/behaviour/torchscript.pt");
    let error = TensorFile::open(script).unwrap_err();
    assert_eq!(error.content(), Some(Content::TorchScript));
}
