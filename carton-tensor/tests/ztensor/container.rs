//! Round trips from memory, maps and files, and the exact bytes that the format requires.

use std::io::{self, Write};

use carton_tensor::files::{ElementType, FileBytes, RawTensor};
use carton_tensor::ztensor::{
    Attribute, Attributes, Checks, DigestAlgorithm, Encoding, Format, Manifest, Reader, StoreAs, Version, VersionRule,
    Writer, ZTensorError,
};

/// A tensor of this type whose bytes count up from 0, or alternate between 0 and 1 for bools.
pub(crate) fn tensor(dtype: ElementType, shape: &[usize]) -> RawTensor {
    let n_bytes = dtype.n_bytes(shape.iter().product()).unwrap();
    let modulus = if dtype == ElementType::Bool { 2 } else { 251 };
    let bytes: Vec<u8> = (0..n_bytes).map(|index| (index % modulus) as u8).collect();
    RawTensor::new(dtype, shape.to_vec(), bytes.into()).unwrap()
}

/// All ways in which a component can be stored.
pub(crate) fn all_storages() -> Vec<StoreAs> {
    let digests = [None, Some(DigestAlgorithm::Sha256), Some(DigestAlgorithm::Crc32c)];
    let zstd = [None, Some(1), Some(9)];
    digests.into_iter().flat_map(|digest| zstd.map(|zstd| StoreAs { zstd, digest })).collect()
}

/// Runs `check` on the same file in memory, opened and mapped.
fn everywhere(bytes: &[u8], check: impl Fn(&Reader)) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file.zt");
    std::fs::write(&path, bytes).unwrap();
    check(&Reader::new(bytes.to_vec().into()).unwrap());
    check(&Reader::open(&path).unwrap());
    check(&Reader::map(&path).unwrap());
}

#[test]
fn every_type_is_read_as_it_was_written_in_both_versions_and_every_storage() {
    for version in [Version::V1_1, Version::V1_2] {
        let mut writer = Writer::with_version(Vec::new(), version).unwrap();
        let mut written = Vec::new();
        for dtype in ElementType::ALL {
            for (index, store_as) in all_storages().into_iter().enumerate() {
                for shape in [&[][..], &[0, 3], &[2, 4, 3], &[5000]] {
                    // Elements smaller than a byte must fill whole bytes, which a single element does not.
                    let Some(_) = dtype.n_bytes(shape.iter().product()) else { continue };
                    let name = format!("{dtype}/{index}/{shape:?}");
                    let tensor = tensor(dtype, shape);
                    match writer.add(&name, &tensor, store_as) {
                        Ok(()) => written.push((name, tensor, store_as)),
                        Err(ZTensorError::NotInVersion { .. }) if version == Version::V1_1 => {}
                        Err(error) => panic!("{name}: {error}"),
                    }
                }
            }
        }
        let bytes = writer.finish().unwrap();
        assert!(written.len() > 500, "{}", written.len());
        everywhere(&bytes, |reader| {
            let reader = reader.clone().checking(Checks::ALL);
            assert_eq!(reader.manifest().version(), version.name());
            assert_eq!(reader.objects().len(), written.len());
            for (name, tensor, store_as) in &written {
                assert_eq!(reader.read(name).unwrap(), *tensor, "{name}");
                let component = reader.object(name).unwrap().component("data").unwrap();
                assert_eq!(component.encoding() == Encoding::Zstd, store_as.zstd.is_some());
                assert_eq!(component.digest().unwrap().map(|digest| digest.algorithm()), store_as.digest);
                assert_eq!(component.stored().start % 64, 0);
            }
            let verified = reader.verify_all();
            assert!(verified.failures.is_empty(), "{:?}", verified.failures);
            let with_digest = written.iter().filter(|(_, _, store_as)| store_as.digest.is_some()).count();
            assert_eq!((verified.n_verified, verified.n_without), (with_digest, written.len() - with_digest));
        });
    }
}

#[test]
fn every_gap_is_zero_and_the_same_calls_make_the_same_bytes() {
    let write = || {
        let mut writer = Writer::new(Vec::new()).unwrap();
        for (index, store_as) in all_storages().into_iter().enumerate() {
            writer.add(&format!("{index}"), &tensor(ElementType::Uint8, &[index * 37 + 1]), store_as).unwrap();
        }
        writer.finish().unwrap()
    };
    let bytes = write();
    assert_eq!(bytes, write());
    let reader = Reader::new(bytes.clone().into()).unwrap();
    let mut blobs: Vec<_> = reader.objects().flat_map(|object| object.components()).map(|it| it.stored()).collect();
    blobs.sort_by_key(|blob| blob.start);
    let mut end = 8;
    for blob in blobs {
        let gap = &bytes[end..blob.start as usize];
        assert!(gap.len() < 64 && gap.iter().all(|&byte| byte == 0), "{gap:?}");
        end = blob.end as usize;
    }
    assert_eq!(bytes[end], 0xa2, "the manifest follows the last blob at once");
    // The digest of the whole file must never change, because other programs store it.
    assert_eq!(
        DigestAlgorithm::Sha256.digest(&raw_file()).to_string(),
        "sha256:96b626a3b0f7af78e26fa39e3556de0c015bbe6a829f51008e32b68d855fb63f"
    );
}

/// A small file without zstd, because the output of its library could change.
fn raw_file() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for dtype in ElementType::ALL {
        writer.add(dtype.name(), &tensor(dtype, &[3, 8]), StoreAs::RAW.digest(DigestAlgorithm::Crc32c)).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn raw_components_are_views_of_mapped_files_and_of_memory() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file.zt");
    std::fs::write(&path, raw_file()).unwrap();
    for reader in [Reader::map(&path).unwrap(), Reader::new(raw_file().into()).unwrap()] {
        let (one, other) = (reader.read("float32").unwrap(), reader.read("float32").unwrap());
        assert_eq!(one.bytes().as_ptr(), other.bytes().as_ptr());
    }
    let reader = Reader::map(&path).unwrap();
    let tensor = reader.read("float64").unwrap();
    // Pages and blobs are aligned, so mapped bytes can be viewed as numbers.
    assert_eq!(tensor.view::<f64>().unwrap().shape(), [3, 8]);
    // The map lives as long as the tensor, even after the reader is dropped.
    drop(reader);
    assert_eq!(tensor.view::<f64>().unwrap()[[0, 0]].to_bits(), 0x0706_0504_0302_0100);
}

#[test]
fn attributes_come_back_as_they_were() {
    let value = Attribute::Map(vec![
        (Attribute::Integer(-1), Attribute::Array(vec![Attribute::Null, true.into(), Attribute::Simple(23)])),
        ("bytes".into(), Attribute::Bytes(vec![0, 255])),
        ("tagged".into(), Attribute::Tagged(1, Box::new(1.5.into()))),
        (
            "floats".into(),
            Attribute::Array([0.1, 1e300, -0.0, f64::INFINITY, 65504.0, 1e-8].map(Attribute::Float).into()),
        ),
        ("limits".into(), Attribute::Array(vec![Attribute::Integer((1 << 64) - 1), Attribute::Integer(-(1 << 64))])),
        ("simple".into(), Attribute::Simple(200)),
    ]);
    let attributes = Attributes::from([("a".to_owned(), value), ("ä".to_owned(), "ö".into())]);
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.set_attributes(&attributes).unwrap();
    let data = tensor(ElementType::Int16, &[2]);
    writer.object("x", &[2], "dense", &attributes, &[("data", &data, StoreAs::RAW)]).unwrap();
    writer.add("y", &data, StoreAs::RAW).unwrap();
    let reader = Reader::new(writer.finish().unwrap().into()).unwrap();
    assert_eq!(reader.manifest().attributes().unwrap(), attributes);
    assert_eq!(reader.object("x").unwrap().attributes().unwrap(), attributes);
    assert!(reader.object("y").unwrap().attributes().unwrap().is_empty());

    let refused = |value: Attribute| {
        let attributes = Attributes::from([("a".to_owned(), value)]);
        Writer::new(Vec::new()).unwrap().set_attributes(&attributes).unwrap_err()
    };
    assert!(matches!(refused(Attribute::Integer(1 << 64)), ZTensorError::Attributes { .. }));
    for reserved in [20, 22, 24, 31] {
        assert!(matches!(refused(Attribute::Simple(reserved)), ZTensorError::Attributes { .. }));
    }
    let deep = |n: usize| (0..n).fold(Attribute::Null, |value, _| Attribute::Array(vec![value]));
    assert!(matches!(refused(deep(62)), ZTensorError::Depth { .. }));
    assert!(matches!(refused(deep(1000)), ZTensorError::Attributes { .. }));
    let twice = Attribute::Map(vec![(1.into(), Attribute::Null), (1.into(), Attribute::Null)]);
    assert!(matches!(refused(twice), ZTensorError::DuplicateKey { .. }));
    assert!(matches!(
        refused(Attribute::Array(vec![Attribute::Null; 1 << 20])),
        ZTensorError::TooManyAttributes { .. }
    ));
}

#[test]
fn unknown_formats_types_and_fields_are_kept() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    let (one, two) = (tensor(ElementType::Uint8, &[5]), tensor(ElementType::Float32, &[2]));
    let parts = [("codes", &one, StoreAs::RAW), ("book", &two, StoreAs::RAW.zstd(3))];
    writer.object("x", &[7, 9], "vq_3", &Attributes::new(), &parts).unwrap();
    let reader = Reader::new(writer.finish().unwrap().into()).unwrap();
    let object = reader.object("x").unwrap();
    assert_eq!((object.format(), object.shape()), (Format::Other("vq_3"), &[7, 9][..]));
    // Sorted by role, whatever the order of the parts.
    assert_eq!(object.components().map(|component| component.role()).collect::<Vec<_>>(), ["book", "codes"]);
    assert_eq!(&*reader.component("x", "codes").unwrap(), &one.bytes()[..]);
    assert_eq!(&*reader.component("x", "book").unwrap(), &two.bytes()[..]);
    assert!(matches!(reader.read("x"), Err(ZTensorError::WrongFormat { .. })));
}

#[test]
fn a_writer_needs_nothing_but_write() {
    /// Accepts a few bytes per call, like a pipe.
    struct Trickle(Vec<u8>);
    impl Write for Trickle {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n_bytes = bytes.len().min(7);
            self.0.extend_from_slice(&bytes[..n_bytes]);
            Ok(n_bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let data = tensor(ElementType::Int32, &[1000]);
    for store_as in all_storages() {
        let mut writer = Writer::new(Trickle(Vec::new())).unwrap();
        let mut source = &data.bytes()[..];
        writer.add_from("x", data.dtype(), data.shape(), &mut source, store_as).unwrap();
        let mut whole = Writer::new(Vec::new()).unwrap();
        whole.add("x", &data, store_as).unwrap();
        assert_eq!(writer.finish().unwrap().0, whole.finish().unwrap());
    }
}

#[test]
fn a_writer_refuses_what_a_reader_refuses() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    let data = tensor(ElementType::Uint8, &[4]);
    writer.add("x", &data, StoreAs::RAW).unwrap();
    assert!(matches!(writer.add("x", &data, StoreAs::RAW), Err(ZTensorError::DuplicateName { .. })));
    let mut object = |format: &str, shape: &[usize], roles: &[&str]| {
        let parts: Vec<_> = roles.iter().map(|role| (*role, &data, StoreAs::RAW)).collect();
        writer.object("y", shape, format, &Attributes::new(), &parts).unwrap_err()
    };
    assert!(matches!(object("dense", &[4], &["values"]), ZTensorError::MissingComponent { role: "data", .. }));
    assert!(matches!(object("sparse_csr", &[4], &["values"]), ZTensorError::MissingComponent { .. }));
    assert!(matches!(object("dense", &[5], &["data"]), ZTensorError::Size { expected: 5, found: 4, .. }));
    assert!(matches!(object("new", &[4], &["a", "a"]), ZTensorError::DuplicateKey { .. }));
    assert!(matches!(object("new", &[1; 65], &["a"]), ZTensorError::Rank { .. }));
    assert!(matches!(object("new", &[1 << 32, 1 << 32], &["a"]), ZTensorError::TooLarge { .. }));
    // A source that ends too early leaves an incomplete blob, after which nothing can be written.
    let error = writer.add_from("z", ElementType::Uint8, &[4], &mut &[1, 2, 3][..], StoreAs::RAW).unwrap_err();
    assert!(matches!(error, ZTensorError::Io(_)), "{error}");
    assert!(matches!(writer.add("z", &data, StoreAs::RAW), Err(ZTensorError::Unfinished)));
    assert!(matches!(writer.finish(), Err(ZTensorError::Unfinished)));
}

#[test]
fn digests_are_verified_raw_and_compressed_mapped_and_not() {
    let data = tensor(ElementType::Float32, &[100]);
    for store_as in all_storages().into_iter().filter(|store_as| store_as.digest.is_some()) {
        let mut writer = Writer::new(Vec::new()).unwrap();
        writer.add("x", &data, store_as).unwrap();
        let mut bytes = writer.finish().unwrap();
        // The last byte of the blob. Changing it leaves zstd frames complete; without a checksum, the library does not detect it.
        let end =
            Reader::new(bytes.clone().into()).unwrap().object("x").unwrap().component("data").unwrap().stored().end;
        bytes[end as usize - 1] ^= 1;
        everywhere(&bytes, |reader| {
            let component = reader.object("x").unwrap().component("data").unwrap();
            let mismatch = |error| matches!(error, ZTensorError::DigestMismatch { .. });
            assert!(reader.read("x").is_ok_and(|found| found != data) || store_as.zstd.is_some());
            assert!(mismatch(reader.verify(&component).unwrap_err()));
            assert!(mismatch(reader.read_component(&component, Checks::ALL).unwrap_err()));
            assert!(mismatch(reader.clone().checking(Checks::ALL).read("x").unwrap_err()));
            let verified = reader.verify_all();
            assert_eq!((verified.n_verified, verified.n_bytes, verified.failures.len()), (0, 0, 1));
        });
    }
}

#[test]
fn appending_keeps_existing_objects() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file.zt");
    let mut writer = Writer::with_version(Vec::new(), Version::V1_1).unwrap();
    let attributes = Attributes::from([("framework".to_owned(), "none".into())]);
    writer.set_attributes(&attributes).unwrap();
    let (old, new) = (tensor(ElementType::Int64, &[3]), tensor(ElementType::Float8E5m2, &[70]));
    writer.add("old", &old, StoreAs::RAW).unwrap();
    let bytes = writer.finish().unwrap();
    std::fs::write(&path, &bytes).unwrap();

    // Dropping the writer restores the file.
    let mut writer = Writer::append(&path).unwrap();
    assert!(matches!(Writer::append(&path), Err(ZTensorError::Locked { .. })));
    writer.add("new", &new, StoreAs::RAW).unwrap();
    assert!(matches!(writer.add("old", &new, StoreAs::RAW), Err(ZTensorError::DuplicateName { .. })));
    drop(writer);
    assert_eq!(std::fs::read(&path).unwrap(), bytes);

    // Without additions, the file stays the same.
    Writer::append(&path).unwrap().finish().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes);

    // Content that 1.1 can express does not change the version.
    let mut writer = Writer::append_as(&path, Version::V1_1).unwrap();
    writer.add("also old", &new, StoreAs::RAW.zstd(1)).unwrap();
    writer.finish().unwrap();
    assert_eq!(Reader::open(&path).unwrap().manifest().version(), "1.1.0");

    let mut writer = Writer::append(&path).unwrap();
    writer.add("new", &new, StoreAs::RAW).unwrap();
    writer.finish().unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.manifest().version(), "1.2.0");
    assert_eq!(reader.manifest().attributes().unwrap(), attributes);
    assert_eq!(reader.read("old").unwrap(), old);
    assert_eq!(reader.read("also old").unwrap(), new);
    assert_eq!(reader.read("new").unwrap(), new);
    // The new version does not have what 1.1 has.
    let rules: Vec<VersionRule> = reader.findings().unwrap().iter().map(|finding| finding.rule()).collect();
    assert_eq!(rules, [VersionRule::StorageType, VersionRule::UncompressedLength]);
    let error = Writer::append_as(&path, Version::V1_1).err().unwrap();
    assert!(matches!(error, ZTensorError::StatedVersion { .. }), "{error}");

    // A version below 1.1 is raised too.
    let oldest = path.with_file_name("old.zt");
    let position = bytes.windows(5).position(|text| text == b"1.1.0").unwrap();
    std::fs::write(&oldest, [&bytes[..position], b"1.0.0", &bytes[position + 5..]].concat()).unwrap();
    let mut writer = Writer::append(&oldest).unwrap();
    writer.add("new", &new, StoreAs::RAW).unwrap();
    writer.finish().unwrap();
    let reader = Reader::open(&oldest).unwrap();
    assert_eq!((reader.manifest().version(), reader.findings().unwrap().len()), ("1.2.0", 0));
    std::fs::remove_file(&oldest).unwrap();

    // Appending in one go or in several steps gives the same file.
    let whole = {
        let mut writer = Writer::new(Vec::new()).unwrap();
        writer.set_attributes(&attributes).unwrap();
        writer.add("a", &old, StoreAs::RAW).unwrap();
        writer.add("b", &new, StoreAs::RAW).unwrap();
        writer.finish().unwrap()
    };
    let before = std::fs::read(&path).unwrap();
    let mut writer = Writer::create(&path).unwrap();
    writer.add("a", &old, StoreAs::RAW).unwrap();
    drop(writer);
    // The existing file is unchanged, and no other file is left beside it.
    assert_eq!((std::fs::read(&path).unwrap(), std::fs::read_dir(place.path()).unwrap().count()), (before, 1));
    let mut writer = Writer::create(&path).unwrap();
    writer.set_attributes(&attributes).unwrap();
    writer.add("a", &old, StoreAs::RAW).unwrap();
    writer.finish().unwrap();
    let mut writer = Writer::append(&path).unwrap();
    writer.add("b", &new, StoreAs::RAW).unwrap();
    writer.finish().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), whole);
}

#[test]
fn unknown_fields_survive_appending_and_reading() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file.zt");
    let manifest = [
        &b"\xa3gversione1.9.0gobjects\xa1ax\xa4eshape\x81\x01fformatedensefextra1\x82\x01\x02jcomponents"[..],
        b"\xa1ddata\xa4edtypebu8foffset\x18@flength\x01cnew\xf6fextra2\xa1aa\x01",
    ]
    .concat();
    std::fs::write(&path, container(&[7], &manifest)).unwrap();
    let mut writer = Writer::append(&path).unwrap();
    writer.add("y", &tensor(ElementType::Uint8, &[1]), StoreAs::RAW).unwrap();
    writer.finish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    for field in [&b"fextra1\x82\x01\x02"[..], b"cnew\xf6", b"fextra2\xa1aa\x01", b"e1.9.0"] {
        assert!(bytes.windows(field.len()).any(|window| window == field), "{}", field.escape_ascii());
    }
    let reader = Reader::open(&path).unwrap();
    assert_eq!(&*reader.component("x", "data").unwrap(), [7]);
    assert_eq!(&*reader.component("y", "data").unwrap(), [0]);
}

/// A file with one blob at byte 64.
pub(crate) fn container(blob: &[u8], manifest: &[u8]) -> Vec<u8> {
    let mut bytes = b"ZTEN1000".to_vec();
    bytes.resize(64, 0);
    bytes.extend_from_slice(blob);
    bytes.extend_from_slice(manifest);
    bytes.extend_from_slice(&(manifest.len() as u64).to_le_bytes());
    bytes.extend_from_slice(b"ZTEN1000");
    bytes
}

#[test]
fn a_hundred_thousand_objects_in_any_order_are_found() {
    let n_objects = 100_000;
    let names: Vec<String> = (0..n_objects).map(|index| format!("layer.{index}")).collect();
    let mut manifest = vec![0xa2];
    manifest.extend_from_slice(b"gversione1.2.0gobjects\xba");
    manifest.extend_from_slice(&(n_objects as u32).to_be_bytes());
    for (index, name) in names.iter().enumerate() {
        manifest.push(0x78);
        manifest.push(name.len() as u8);
        manifest.extend_from_slice(name.as_bytes());
        manifest.extend_from_slice(b"\xa3eshape\x81\x01fformatedensejcomponents\xa1ddata\xa3edtypebu8foffset\x1a");
        manifest.extend_from_slice(&((n_objects - index) as u32 * 64).to_be_bytes());
        manifest.extend_from_slice(b"flength\x01");
    }
    let manifest = Manifest::parse(&manifest, n_objects as u64 * 64 + 1).unwrap();
    assert!(manifest.objects().map(|object| object.name()).eq(names.iter()));
    for (index, name) in names.iter().enumerate() {
        let component = manifest.object(name).unwrap().component("data").unwrap();
        assert_eq!(component.stored().start, (n_objects - index) as u64 * 64);
    }
    assert!(manifest.object("layer.100000").is_none());
}

#[test]
fn a_file_that_shrinks_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file.zt");
    std::fs::write(&path, raw_file()).unwrap();
    let reader = Reader::open(&path).unwrap();
    std::fs::write(&path, b"ZTEN1000").unwrap();
    assert!(matches!(reader.read("float32"), Err(ZTensorError::Io(_))));
    assert!(Reader::new(FileBytes::open(&path).unwrap()).is_err());
    assert!(matches!(Reader::open(place.path()), Err(ZTensorError::Open { .. })));
}
