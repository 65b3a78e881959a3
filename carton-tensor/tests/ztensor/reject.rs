//! Files that break one rule each, with the error that each must cause. They are built here and stored in `tests/reject/ztensor`.
//!
//! `CARTON_WRITE_REJECTS=1 cargo test -p carton-tensor --features ztensor reject` writes the files again. They are seeds of the fuzz
//! target. Files that crashed it once belong there too, under any name.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use carton_tensor::ztensor::{Checks, Reader, ZTensorError};

use crate::builders::*;
use crate::container::container;

/// Returns the name of the error's variant.
fn variant(error: &ZTensorError) -> String {
    let text = match error {
        ZTensorError::Sparse(error) => format!("{error:?}"),
        ZTensorError::QuantizedGroup(error) => format!("Quantized{error:?}"),
        error => format!("{error:?}"),
    };
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Opens a file and reads all its content with all checks. Returns the first error.
pub(crate) fn read_all(bytes: &[u8]) -> Result<(), ZTensorError> {
    let reader = Reader::new(bytes.to_vec().into())?.checking(Checks::ALL);
    reader.manifest().attributes()?;
    for object in reader.objects() {
        object.attributes()?;
        for component in object.components() {
            let whole = reader.read_component(&component, Checks::ALL);
            let mut pieces = Vec::new();
            let visited = reader.visit_component(&component, Checks::ALL, 7, &mut |piece| {
                pieces.extend_from_slice(piece);
                ControlFlow::Continue(())
            });
            match (&whole, &visited) {
                (Ok(whole), Ok(())) => assert!(pieces == **whole),
                (Err(whole), Err(visited)) => assert_eq!(whole.to_string(), visited.to_string()),
                _ => panic!("{whole:?} {visited:?}"),
            }
            whole?;
        }
        match object.format().name() {
            "dense" => drop(reader.read(object.name())?),
            "sparse_csr" => drop(reader.csr(object.name())?.to_dense()?),
            "sparse_coo" => drop(reader.coo(object.name())?.to_dense()?),
            "quantized_group" => drop(reader.quantized_group(object.name())?.dequantize()?),
            _ => {}
        }
    }
    Ok(())
}

/// Every file and its error.
fn cases() -> BTreeMap<&'static str, (Vec<u8>, &'static str)> {
    let mut cases = BTreeMap::new();
    let mut add = |name, bytes, error| assert!(cases.insert(name, (bytes, error)).is_none(), "{name} twice");
    container_cases(&mut add);
    manifest_cases(&mut add);
    type_cases(&mut add);
    stored_cases(&mut add);
    format_cases(&mut add);
    cases
}

type Add<'a> = &'a mut dyn FnMut(&'static str, Vec<u8>, &'static str);

fn container_cases(add: Add<'_>) {
    let patched = |at: usize, new: &[u8]| {
        let mut bytes = file(&good());
        let at = if at > 1000 { bytes.len() - (usize::MAX - at) - 1 } else { at };
        bytes[at..at + new.len()].copy_from_slice(new);
        bytes
    };
    // A position relative to the end of the file.
    let end = |distance: usize| usize::MAX - distance;
    add("empty", Vec::new(), "TooShort");
    add("only_magic", b"ZTEN1000".to_vec(), "TooShort");
    add("both_magics_and_no_manifest", b"ZTEN1000\0\0\0\0\0\0\0\0ZTEN1000".to_vec(), "TooShort");
    add("empty_manifest", [&b"ZTEN1000"[..], &[0; 57], &[0; 8], b"ZTEN1000"].concat(), "Cbor");
    add("magic_at_start", patched(0, b"ZTEN1001"), "Magic");
    add("magic_at_end", patched(end(7), b"ZTEN1001"), "Magic");
    add(
        "truncated",
        {
            let mut bytes = file(&good());
            bytes.pop();
            bytes
        },
        "Magic",
    );
    add("a_zip", patched(0, b"PK\x03\x04\0\0\0\0"), "Magic");
    add("version_0_1", patched(0, b"ZTEN0001"), "OtherVersion");
    add("version_0_1_at_end", patched(end(7), b"ZTEN0001"), "OtherVersion");
    add("version_2", patched(0, b"\x89ZT2\r\n\x1a\n"), "OtherVersion");
    add("manifest_over_1_gib", patched(end(15), &((1_u64 << 30) + 1).to_le_bytes()), "ManifestSize");
    add("manifest_of_2_to_the_64", patched(end(15), &u64::MAX.to_le_bytes()), "ManifestSize");
    add(
        "manifest_over_the_magic",
        patched(end(15), &(file(&good()).len() as u64 - 23).to_le_bytes()),
        "ManifestBounds",
    );
    add("manifest_of_1_gib", patched(end(15), &(1_u64 << 30).to_le_bytes()), "ManifestBounds");
    add("unaligned", changed_component(|data| *data.field("offset") = Number(65)), "Unaligned");
    add(
        "unaligned_and_empty",
        changed_component(|data| {
            *data.field("offset") = Number(3);
            *data.field("length") = Number(0)
        }),
        "Unaligned",
    );
    add("over_the_magic", changed_component(|data| *data.field("offset") = Number(0)), "BeforeBlobs");
    add("into_the_manifest", changed_component(|data| *data.field("length") = Number(3)), "OutOfBounds");
    add("past_the_end", changed_component(|data| *data.field("offset") = Number(1 << 20)), "OutOfBounds");
    add(
        "end_beyond_64_bits",
        changed_component(|data| {
            *data.field("offset") = Number(64);
            *data.field("length") = Number(u64::MAX)
        }),
        "OutOfBounds",
    );
    add(
        "offset_beyond_64_bits",
        changed_component(|data| *data.field("offset") = Number(u64::MAX - 63)),
        "OutOfBounds",
    );
    let data =
        |(offset, length): (u64, u64)| object(&[length], "dense", vec![("data", component("u8", offset, length))]);
    let overlapping = |one, other| file_with(&[0; 300], &root(vec![("x", data(one)), ("y", data(other))]));
    add("overlap", overlapping((64, 70), (128, 70)), "Overlap");
    add("overlap_backwards", overlapping((192, 70), (128, 70)), "Overlap");
    add("a_blob_and_its_start", overlapping((64, 70), (64, 69)), "Overlap");
    add("a_blob_and_its_end", overlapping((128, 6), (64, 70)), "Overlap");
    let blobs = [(64, 70), (64, 70), (128, 70)];
    let three = blobs.into_iter().zip(["x", "y", "z"]).map(|(blob, name)| (name, data(blob)));
    add("the_same_blob_twice_and_an_overlap", file_with(&[0; 300], &root(three.collect())), "Overlap");
}

fn manifest_cases(add: Add<'_>) {
    let raw = |cbor: &[u8]| container(&[1, 2], cbor);
    let good_cbor = || {
        let mut cbor = Vec::new();
        good().write(&mut cbor);
        cbor
    };
    add("trailing_cbor", raw(&[&good_cbor()[..], &[0]].concat()), "TrailingCbor");
    add("two_tags_of_cbor", raw(&[&b"\xd9\xd9\xf7\xd9\xd9\xf7"[..], &good_cbor()].concat()), "WrongType");
    add("another_tag", raw(&[&b"\xd9\xd9\xf6"[..], &good_cbor()].concat()), "WrongType");
    add("a_tag_and_nothing", raw(b"\xd9\xd9\xf7"), "Cbor");
    add("cut_cbor", raw(&good_cbor()[..good_cbor().len() - 1]), "Cbor");
    add("no_map", raw(&[0x80]), "WrongType");
    add("reserved_head", raw(&[0x1c]), "Cbor");
    add("a_break", raw(&[0xff]), "Cbor");
    add("a_break_as_a_value", raw(b"\xbfgversion\xff"), "Cbor");
    add("endless_map", raw(b"\xbfgversione1.2.0"), "Cbor");
    add("map_bomb", raw(b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff"), "ClaimedLength");
    add(
        "array_bomb",
        changed_object(|object| *object.field("shape") = Cbor(b"\x9b\0\0\0\x10\0\0\0\0".to_vec())),
        "ClaimedLength",
    );
    add(
        "text_bomb",
        changed(|root| *root.field("version") = Cbor(b"\x7b\x7f\xff\xff\xff\xff\xff\xff\xff".to_vec())),
        "ClaimedLength",
    );
    add(
        "bytes_bomb",
        changed(|root| root.push("more", Cbor(b"\x5b\xff\xff\xff\xff\xff\xff\xff\xff".to_vec()))),
        "ClaimedLength",
    );
    add("depth_bomb", changed(|root| root.push("more", Cbor(vec![0x81; 100_000]))), "Depth");
    add("depth_bomb_of_maps", changed(|root| root.push("more", Cbor([0xa1, 0x00].repeat(100_000)))), "Depth");
    add("depth_bomb_of_tags", changed(|root| root.push("more", Cbor(vec![0xc6; 100_000]))), "Depth");
    add("depth_bomb_without_lengths", with_attributes([&b"\xa1ax"[..], &[0x9f; 100_000]].concat()), "Depth");
    add("name_without_utf_8", raw(b"\xa2gversione1.2.0gobjects\xa1b\xff\xfe\xa0"), "Cbor");
    add("name_of_a_number", raw(b"\xa2gversione1.2.0gobjects\xa1\x05\xa0"), "WrongType");
    add("version_of_a_number", changed(|root| *root.field("version") = Number(1)), "WrongType");
    add("objects_in_an_array", changed(|root| *root.field("objects") = Numbers(vec![])), "WrongType");
    add("object_is_null", changed(|root| *root.field("objects").field("x") = Cbor(vec![0xf6])), "WrongType");
    add("shape_of_text", changed_object(|object| *object.field("shape") = Text("2")), "WrongType");
    add("negative_dimension", changed_object(|object| *object.field("shape") = Cbor(vec![0x81, 0x20])), "WrongType");
    add(
        "dimension_of_a_float",
        changed_object(|object| *object.field("shape") = Cbor(vec![0x81, 0xf9, 0x40, 0])),
        "WrongType",
    );
    add("negative_offset", changed_component(|data| *data.field("offset") = Cbor(vec![0x38, 0x3f])), "WrongType");
    add("digest_of_bytes", changed_component(|data| data.push("digest", Cbor(vec![0x41, 0]))), "WrongType");
    add("attributes_in_an_array", changed(|root| root.push("attributes", Numbers(vec![]))), "WrongType");
    add("attribute_by_number", changed(|root| root.push("attributes", Cbor(vec![0xa1, 1, 1]))), "WrongType");
    add("reserved_simple_value", changed(|root| root.push("attributes", Cbor(b"\xa1aa\xf8\x10".to_vec()))), "Cbor");

    let twice = |value: Value, key| changed(move |root| root.push(key, value));
    add("two_versions", twice(Text("1.2.0"), "version"), "DuplicateKey");
    add("two_maps_of_objects", twice(Map(vec![]), "objects"), "DuplicateKey");
    add(
        "two_unknown_fields",
        changed(|root| {
            root.push("new", Number(1));
            root.push("new", Number(2))
        }),
        "DuplicateKey",
    );
    let x = || object(&[0], "dense", vec![("data", component("u8", 64, 0))]);
    add("two_objects", file(&root(vec![("x", x()), ("y", x()), ("x", x())])), "DuplicateKey");
    add("two_objects_in_a_row", file(&root(vec![("x", x()), ("x", x())])), "DuplicateKey");
    add("two_shapes", changed_object(|object| object.push("shape", Numbers(vec![2]))), "DuplicateKey");
    add(
        "two_components",
        changed_object(|object| object.field("components").push("data", component("u8", 64, 0))),
        "DuplicateKey",
    );
    add("two_dtypes", changed_component(|data| data.push("dtype", Text("u8"))), "DuplicateKey");
    add(
        "two_digests",
        changed_component(|data| {
            data.push("digest", Cbor(vec![0xf6]));
            data.push("digest", Cbor(vec![0xf6]))
        }),
        "DuplicateKey",
    );
    add("two_attributes", with_attributes(b"\xa2aa\x01aa\x02".to_vec()), "DuplicateKey");
    add("two_attributes_spelt_apart", with_attributes(b"\xa2aa\x01\x78\x01a\x02".to_vec()), "DuplicateKey");
    add("two_keys_in_an_attribute", with_attributes(b"\xa1aa\xa3\x01\x01\x02\x02\x01\x03".to_vec()), "DuplicateKey");
    add(
        "too_many_attributes",
        with_attributes([&b"\xa1aa\x9a\x00\x10\x00\x01"[..], &vec![0xf6; (1 << 20) + 1]].concat()),
        "TooManyAttributes",
    );

    for (name, key) in [("no_version", "version"), ("no_objects", "objects")] {
        add(name, changed(|root| root.remove(key)), "MissingField");
    }
    for (name, key) in [("no_shape", "shape"), ("no_format", "format"), ("no_components", "components")] {
        add(name, changed_object(|object| object.remove(key)), "MissingField");
    }
    for (name, key) in [("no_dtype", "dtype"), ("no_offset", "offset"), ("no_length", "length")] {
        add(name, changed_component(|data| data.remove(key)), "MissingField");
    }
    for (name, version) in [
        ("manifest_2", "2.0.0"),
        ("manifest_0", "0.1.0"),
        ("manifest_10", "10.0"),
        ("manifest_v1", "v1.2"),
        ("manifest_none", ""),
    ] {
        add(name, changed(|root| *root.field("version") = Text(version)), "ManifestVersion");
    }
    add("too_many_dimensions", changed_object(|object| *object.field("shape") = Numbers(vec![1; 65])), "Rank");
    add("dense_without_data", changed_object(|object| *object.field("components") = Map(vec![])), "MissingComponent");
    add(
        "csr_without_indptr",
        file_with(
            &[0; 64],
            &root(vec![(
                "x",
                object(
                    &[0, 0],
                    "sparse_csr",
                    vec![("values", component("u8", 64, 0)), ("indices", component("u8", 64, 0))],
                ),
            )]),
        ),
        "MissingComponent",
    );
    add(
        "coo_without_coords",
        file_with(
            &[0; 64],
            &root(vec![("x", object(&[0, 0], "sparse_coo", vec![("values", component("u8", 64, 0))]))]),
        ),
        "MissingComponent",
    );
    add(
        "quantized_without_zeros",
        quantized(|_, _, parts| {
            parts.pop();
        }),
        "MissingComponent",
    );
}

fn type_cases(add: Add<'_>) {
    let dtype = |name: &'static str| changed_component(|data| *data.field("dtype") = Text(name));
    let logical = |dtype: &'static str, name: &'static str| {
        changed_component(|data| {
            *data.field("dtype") = Text(dtype);
            data.push("type", Text(name));
        })
    };
    add("unknown_dtype", dtype("f128"), "UnknownDtype");
    add("dtype_in_capitals", dtype("U8"), "UnknownDtype");
    add("dtype_of_1_2_as_storage", dtype("f8_e4m3fnuz"), "UnknownDtype");
    add("dtype_with_a_control_character", dtype("\u{1b}[2J"), "UnknownDtype");
    add("complex_over_bytes", logical("u8", "complex64"), "LogicalType");
    add("complex128_over_f32", logical("f32", "complex128"), "LogicalType");
    add("fp8_over_i8", logical("i8", "f8_e4m3fn"), "LogicalType");
    add("bool_of_2", file(&root(vec![("x", object(&[2], "dense", vec![("data", component("bool", 64, 2))]))])), "Bool");
    let shape = |shape: Vec<u64>| changed_object(|object| *object.field("shape") = Numbers(shape));
    add("size_overflow", shape(vec![1 << 32, 1 << 32]), "TooLarge");
    add(
        "size_overflow_in_bytes",
        file(&root(vec![("x", object(&[1 << 62], "dense", vec![("data", component("f64", 64, 0))]))])),
        "TooLarge",
    );
    add("size_overflow_to_the_right_size", shape(vec![1 << 63, 2, 2]), "TooLarge");
    add("too_few_bytes", shape(vec![3]), "Size");
    add("too_many_bytes", shape(vec![1]), "Size");
    add("a_scalar_of_two_bytes", shape(vec![]), "Size");
    add("nothing_of_two_bytes", shape(vec![0]), "Size");
    add("complex_of_half_the_bytes", logical("f32", "complex64"), "Size");
    add(
        "half_an_element",
        file(&root(vec![("x", object(&[1], "new", vec![("data", component("f32", 64, 2))]))])),
        "PartialElement",
    );
    add("half_an_element_of_an_unknown_type", logical("f32", "f32x2"), "PartialElement");
    add(
        "half_a_byte",
        changed_object(|object| {
            *object.field("shape") = Numbers(vec![3]);
            object.field("components").field("data").push("type", Text("f4_e2m1fn"))
        }),
        "PartialElement",
    );
}

fn stored_cases(add: Add<'_>) {
    add("unknown_encoding", changed_component(|data| data.push("encoding", Text("lz4"))), "UnknownEncoding");
    add(
        "raw_with_another_size",
        changed_component(|data| data.push("uncompressed_length", Number(3))),
        "UncompressedLength",
    );
    add("no_zstd", compressed(b"no zstd at all", &[2], Some(2)), "Zstd");
    add("no_zstd_at_all", compressed(b"", &[0], Some(0)), "Zstd");
    add("cut_zstd", compressed(&zstd(1000)[..8], &[1000], Some(1000)), "Zstd");
    add("zstd_and_more", compressed(&[&zstd(1000)[..], b"more"].concat(), &[1000], Some(1000)), "Zstd");
    add("zstd_of_fewer", compressed(&zstd(999), &[1000], Some(1000)), "DecompressedSize");
    add("zstd_of_more", compressed(&zstd(1001), &[1000], Some(1000)), "DecompressedSize");
    add("zstd_of_two_frames", compressed(&[zstd(1000), zstd(1)].concat(), &[1000], Some(1000)), "DecompressedSize");
    add("zstd_of_fewer_without_a_size", compressed(&zstd(999), &[1000], None), "DecompressedSize");
    add("zstd_of_more_without_a_size", compressed(&zstd(1 << 20), &[1000], None), "DecompressedSize");
    add("zstd_that_claims_another_shape", compressed(&zstd(999), &[1000], Some(999)), "Size");
    add("zstd_bomb", compressed(&zstd(1 << 26), &[1 << 40], Some(1 << 40)), "CompressionRatio");
    add("zstd_bomb_without_a_size", compressed(&zstd(1 << 26), &[1 << 40], None), "CompressionRatio");
    add(
        "wrong_sha256",
        with_digest("sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        "DigestMismatch",
    );
    add("wrong_crc32c", with_digest("crc32c:0x00000000"), "DigestMismatch");
    add("empty_digest", with_digest(""), "UnknownDigest");
    add("digest_without_an_algorithm", with_digest("e3069283"), "UnknownDigest");
    add("short_sha256", with_digest("sha256:e3b0c442"), "MalformedDigest");
    add(
        "sha256_of_other_letters",
        with_digest("sha256:g3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        "MalformedDigest",
    );
    add("short_crc32c", with_digest("crc32c:0x12"), "MalformedDigest");
    add("signed_crc32c", with_digest("crc32c:+1234567"), "MalformedDigest");
}

fn format_cases(add: Add<'_>) {
    add("csr_of_three_dimensions", csr(&[2, 3, 1], &[0, 1, 2], &[0, 2, 3]), "CsrRank");
    add("csr_of_other_rows", csr(&[3, 3], &[0, 1, 2], &[0, 2, 3]), "RowPointerCount");
    add("csr_of_2_to_the_64_rows", csr(&[u64::MAX, 1], &[0, 0, 0], &[0, 2, 3]), "RowPointerCount");
    add("csr_that_starts_late", csr(&[2, 3], &[0, 1, 2], &[1, 2, 3]), "RowPointer");
    add("csr_that_falls", csr(&[3, 3], &[0, 1, 2], &[0, 3, 2, 3]), "RowPointer");
    add("csr_that_ends_late", csr(&[2, 3], &[0, 1, 2], &[0, 2, 4]), "RowPointer");
    add("csr_that_ends_early", csr(&[2, 3], &[0, 1, 2], &[0, 2, 2]), "RowPointer");
    add("csr_with_a_column_too_many", csr(&[2, 3], &[0, 1, 3], &[0, 2, 3]), "IndexRange");
    add("csr_with_an_index_too_few", csr(&[2, 3], &[0, 1], &[0, 2, 3]), "IndexCount");
    add("csr_without_columns", csr(&[2, 0], &[0, 0, 0], &[0, 2, 3]), "IndexRange");
    add("csr_dense_beyond_64_bits", csr(&[3, u64::MAX / 2], &[0, 1, 2], &[0, 1, 2, 3]), "TooLarge");
    let fp8 = parts("sparse_coo", &[2], None, &[("values", "f8_e5m2", vec![1; 2]), ("coords", "u8", vec![1, 1])]);
    add("fp8_twice_at_one_place", fp8, "DuplicateEntry");
    add("coo_past_the_shape", coo("u64", u64s(&[0, 2, 0, 0])), "IndexRange");
    add("coo_past_the_second_dimension", coo("u8", vec![0, 1, 0, 3]), "IndexRange");
    add("coo_below_zero", coo("i8", vec![0, 0xff, 0, 0]), "IndexRange");
    add("coo_of_2_to_the_64", coo("u64", u64s(&[0, u64::MAX, 0, 0])), "IndexRange");
    add("coo_of_floats", coo("f32", vec![0; 16]), "IndexType");
    add("coo_of_bools", coo("bool", vec![0; 4]), "IndexType");
    add("coo_with_a_coordinate_too_few", coo("u64", u64s(&[0, 1, 0])), "IndexCount");

    let attribute = |key: &'static str, value: Value| quantized(move |attributes, _, _| *attributes.field(key) = value);
    add("three_bits", attribute("bits", Number(3)), "QuantizedAttribute");
    add("bits_of_text", attribute("bits", Text("4")), "QuantizedAttribute");
    add("no_bits", quantized(|attributes, _, _| attributes.remove("bits")), "QuantizedAttribute");
    add("packing_of_other_bits", attribute("packing", Text("4_per_i32")), "QuantizedAttribute");
    add("packing_of_another_kind", attribute("packing", Text("awq")), "QuantizedAttribute");
    add("groups_of_nothing", attribute("group_size", Number(0)), "QuantizedAttribute");
    add("groups_below_nothing", attribute("group_size", Cbor(vec![0x21])), "QuantizedAttribute");
    add("quantized_vector", quantized(|_, shape, _| *shape = vec![16]), "QuantizedShape");
    add("quantized_rows_that_fill_no_words", quantized(|_, shape, _| *shape = vec![4, 4]), "QuantizedShape");
    add("quantized_of_another_size", quantized(|_, shape, _| *shape = vec![8, 3]), "QuantizedSize");
    add("too_few_scales", attribute("group_size", Number(4)), "QuantizedSize");
    add("too_many_zeros", quantized(|_, _, parts| parts[2].2 = vec![0; 6]), "QuantizedSize");
    add("packed_into_floats", quantized(|_, _, parts| parts[0].1 = "f32"), "QuantizedType");
    add("scales_of_integers", quantized(|_, _, parts| parts[1].1 = "i16"), "QuantizedType");
    add(
        "zeros_of_bools",
        quantized(|_, _, parts| {
            parts[2].1 = "bool";
            parts[2].2 = vec![0; 2]
        }),
        "QuantizedType",
    );
    add(
        "group_of_no_scale",
        quantized(|_, _, parts| parts.push(("g_idx", "u8", vec![0, 0, 0, 0, 0, 0, 0, 1]))),
        "IndexRange",
    );
    add("dense_of_terabytes", csr(&[1, 1 << 40], &[0, 1, 2], &[0, 3]), "DenseSize");
    add("groups_of_fewer_rows", quantized(|_, _, parts| parts.push(("g_idx", "u8", vec![0; 7]))), "QuantizedSize");
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reject/ztensor")
}

#[test]
fn the_base_of_the_cases_is_accepted() {
    for (name, bytes) in [
        ("dense", file(&good())),
        ("csr", csr(&[2, 3], &[0, 1, 2], &[0, 2, 3])),
        ("csr with a place twice", csr(&[2, 3], &[1, 1, 2], &[0, 2, 3])),
        ("coo", coo("i8", vec![0, 1, 0, 2])),
        ("quantized", quantized(|_, _, _| {})),
        ("zstd", compressed(&zstd(1000), &[1000], Some(1000))),
        ("zstd without a size", compressed(&zstd(1000), &[1000], None)),
        ("zstd of two frames", compressed(&[zstd(400), zstd(600)].concat(), &[10, 100], None)),
        ("attributes", with_attributes(b"\xa1aa\xa2\x01\x01\x02\x02".to_vec())),
        ("unknown type", changed_component(|data| data.push("type", Text("i4x2")))),
        ("unknown digest", with_digest("md5:d41d8cd98f00b204e9800998ecf8427e")),
        (
            "nulls",
            changed_component(|data| {
                ["type", "digest", "encoding", "uncompressed_length"]
                    .map(|key| data.push(key, Cbor(vec![0xf6])))
                    .into_iter()
                    .collect()
            }),
        ),
    ] {
        read_all(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn each_file_gets_its_error_which_cites_a_section() {
    let folder = folder();
    if std::env::var_os("CARTON_WRITE_REJECTS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        for (name, (bytes, _)) in cases() {
            // Decompression bombs are large and not stored.
            if bytes.len() < 100_000 {
                std::fs::write(folder.join(name).with_extension("zt"), bytes).unwrap();
            }
        }
    }
    for (name, (bytes, expected)) in cases() {
        let error = read_all(&bytes).expect_err(name);
        assert_eq!(variant(&error), expected, "{name}: {error}");
        let text = error.to_string();
        assert!(text.ends_with(']') && text.contains("[spec/ztensor.md §"), "{name}: {text}");
        assert!(text.len() < 500 && !text.contains(|c: char| c.is_control()), "{name}: {text}");
        let path = folder.join(name).with_extension("zt");
        if bytes.len() < 100_000 {
            assert!(std::fs::read(&path).is_ok_and(|found| found == bytes), "{} is not what is made", path.display());
        }
    }
    // Further files, such as those that fuzzing found, may cause any error.
    let names = cases();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        if !names.contains_key(stem) {
            let bytes = std::fs::read(&path).unwrap();
            assert!(read_all(&bytes).is_err(), "{} is accepted", path.display());
        }
    }
}

#[test]
fn every_prefix_and_every_flipped_byte_is_an_answer() {
    for bytes in [
        file(&good()),
        csr(&[2, 3], &[0, 1, 2], &[0, 2, 3]),
        quantized(|_, _, _| {}),
        compressed(&zstd(100), &[100], Some(100)),
    ] {
        for end in 0..bytes.len() {
            assert!(read_all(&bytes[..end]).is_err());
        }
        for position in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[position] ^= flip;
                // Any result is allowed, but neither a panic nor an endless loop.
                let _ = read_all(&bytes);
            }
        }
    }
}
