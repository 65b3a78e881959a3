//! PyTorch checkpoints: what PyTorch has written is read as PyTorch reads it, and what it does not write is refused. `torch_files.py` made the
//! files and what is expected of them.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use std::path::Path;

use carton_tensor::files::RawTensor;
use carton_tensor::torch::{Reader, TorchError};
use serde_json::Value;
use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/torch")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The same form as in the files of what is expected.
fn described(name: &str, tensor: &RawTensor) -> Value {
    serde_json::json!([name, tensor.dtype().name(), tensor.shape(), hex(tensor.bytes())])
}

#[test]
fn what_pytorch_wrote_is_read_as_it_reads_it() {
    let mut n_files = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "pt") {
            continue;
        }
        n_files += 1;
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let stem = stem.trim_end_matches(".stream").trim_end_matches(['3', '4', '5']).trim_end_matches('-');
        let expected = std::fs::read_to_string(folder().join(format!("{stem}.json"))).unwrap();
        let expected: Value = serde_json::from_str(&expected).unwrap();
        for reader in [Reader::open(&path).unwrap(), Reader::map(&path).unwrap()] {
            let found: Vec<Value> = reader
                .tensors()
                .iter()
                .map(|info| {
                    let tensor = reader.read(info.name()).unwrap();
                    assert_eq!((info.dtype(), info.shape()), (tensor.dtype(), tensor.shape()));
                    assert_eq!(info.n_bytes(), tensor.bytes().len() as u64);
                    reader.check(info).unwrap();
                    described(info.name(), &tensor)
                })
                .collect();
            assert_eq!(Value::from(found), expected, "{}", path.display());
        }
    }
    assert_eq!(n_files, 31);
}

#[test]
fn values_that_are_no_tensors_are_named() {
    let reader = Reader::open(folder().join("nested.pt")).unwrap();
    let found: BTreeMap<&str, &str> = reader.left_out().first.iter().map(|one| (one.name.as_str(), one.kind)).collect();
    for (name, kind) in [
        ("epoch", "an integer"),
        ("lr", "a float"),
        ("name", "a string"),
        ("nothing", "None"),
        ("is_best", "a bool"),
        ("bytes", "bytes"),
        ("large", "an integer"),
        ("set", "a set"),
        ("counts.a", "an integer"),
        ("device", "a device"),
        ("dtype", "a dtype"),
        ("size.1", "an integer"),
        ("complex", "a complex number"),
        ("array", "bytes"),
    ] {
        assert_eq!(found.get(name), Some(&kind), "{name}");
    }
    assert_eq!((found.len(), reader.left_out().count), (17, 17));
    let shown = reader.left_out().to_string();
    assert!(shown.starts_with("`epoch` (an integer), `lr` (a float)"), "{shown}");
    assert!(shown.ends_with(" and 7 more"), "{shown}");
}

#[test]
fn tied_weights_and_views_share_memory_where_they_are_contiguous() {
    let reader = Reader::map(folder().join("state-dict.pt")).unwrap();
    let (one, other) = (reader.read("embedding.weight").unwrap(), reader.read("head.weight").unwrap());
    assert_eq!(one.bytes().as_ptr(), other.bytes().as_ptr());
    let reader = Reader::map(folder().join("views.pt")).unwrap();
    let base = reader.read("base").unwrap();
    // Row 2 of 4 by 6 numbers of 2 bytes.
    assert_eq!(reader.read("row").unwrap().bytes().as_ptr(), base.bytes()[24..].as_ptr());
    assert!(reader.location(reader.get("transposed").unwrap()).unwrap().is_none());
}

/// An archive with these entries, in the folder `m`.
fn archive(entries: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        let options = SimpleFileOptions::default().compression_method(method);
        archive.start_file(*name, options).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// An archive of a pickle and one storage of 8 bytes.
fn with_pickle(pickle: &[u8]) -> Vec<u8> {
    let entries: [(&str, &[u8]); 3] =
        [("m/data.pkl", pickle), ("m/version", b"3\n"), ("m/data/0", &[1, 2, 3, 4, 5, 6, 7, 8])];
    archive(&entries, CompressionMethod::Stored)
}

fn refusal(bytes: Vec<u8>) -> String {
    let reader = Reader::new(bytes, "f");
    let read =
        reader.and_then(|reader| reader.tensors().iter().try_for_each(|info| reader.read(info.name()).map(drop)));
    match read {
        Ok(()) => panic!("it is read"),
        Err(error) => {
            assert!(error.is_about_content(), "{error}");
            error.to_string()
        }
    }
}

/// The mention of storage 0: 8 elements of a byte.
const STORAGE: &[u8] = b"(X\x07\x00\x00\x00storagectorch\nByteStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x08tQ";
const BEFORE: &[u8] = b"ctorch._utils\n_rebuild_tensor_v2\n(";
/// No gradient, no hooks.
const BEHIND: &[u8] = b"\x89NtR";

/// A pickle of a tensor of this storage with this offset, shape and strides.
fn tensor_of(storage: &[u8], place: &[u8]) -> Vec<u8> {
    [b"\x80\x02", BEFORE, storage, place, BEHIND, b"."].concat()
}

#[test]
fn pickles_of_programs_are_refused() {
    let check = |pickle: &[u8], expected: &str| {
        let found = refusal(with_pickle(pickle));
        assert!(found.contains(expected), "{}: {found}", pickle.escape_ascii());
    };
    // What pickle.dumps gives for an object whose __reduce__ is (os.system, ("id",)), by protocol.
    check(b"\x80\x02cposix\nsystem\nX\x02\x00\x00\x00id\x85R.", "names `posix.system` at byte 2");
    check(
        b"\x80\x04\x95\x1b\0\0\0\0\0\0\0\x8c\x05posix\x94\x8c\x06system\x94\x93\x8c\x02id\x94\x85\x94R\x94.",
        "names `posix.system` at byte ",
    );
    check(b"\x80\x02c__builtin__\neval\nX\x01\x00\x00\x001\x85R.", "names `builtins.eval` at byte 2");
    check(b"\x80\x02cos\nsystem\n.", "names `os.system`");
    check(b"\x80\x02]cnt\nsystem\na.", "names `nt.system`");
    check(b"\x80\x02ctorch\nload\n.", "names `torch.load`");
    check(b"\x80\x02ctorch.hub\nload\n.", "names `torch.hub.load`");
    check(b"\x80\x02ctorch\nByteStorage\nK\x01\x85R.", "calls Storage");
    check(b"\x80\x02ctorch.storage\n_load_from_bytes\n.", "a checkpoint in a checkpoint");
    check(b"\x80\x02c\xff\nsystem\n.", "is no name");
    check(b"\x80\x02(iposix\nsystem\n.", "opcode 0x69");
    check(b"\x80\x02(X\x02\x00\x00\x00idcposix\nsystem\no.", "names `posix.system`");
    check(b"\x80\x02\x82\x01.", "extension registry) at byte 2");
    check(b"\x80\x02\x83\x01\x00.", "extension registry");
    check(b"\x80\x02\x84\x01\x00\x00\x00.", "extension registry");
    // Names that are made, not written.
    check(b"\x80\x04]\x8c\x06system\x93.", "that is no text");
    check(b"\x80\x04\x8c\x05posixq\x00h\x00\x8c\x06system\x93.", "names `posix.system`");
    // What is called is no global.
    check(b"\x80\x02K\x01)R.", "needs a class or function, found an integer");
    check(b"\x80\x02ctorch\nSize\nK\x01R.", "needs a tuple of arguments");
    check(b"\x80\x02ccollections\nOrderedDict\nN\x81.", "which is not made");
    check(b"\x80\x02ctorch\nTensor\n)\x81.", "which is not made");
    check(b"\x80\x02]}b.", "the state of a collection");
    check(b"\x80\x02ccollections\nOrderedDict\n)RNb.", "the state of a collection");
    // Attributes that would change a tensor.
    let state = b"}X\x04\x00\x00\x00dataK\x01s";
    let tensor = tensor_of(STORAGE, b"K\x00K\x02\x85K\x01\x85");
    let with_state = |state: &[u8]| {
        let tensor = &tensor[2..tensor.len() - 1];
        [b"\x80\x02ctorch._utils\n_rebuild_parameter_with_state\n(", tensor, b"\x89N", state, b"tR."].concat()
    };
    check(&with_state(state), "the attribute `data` of a tensor");
    check(&with_state(b"N}X\x09\x00\x00\x00__class__K\x01s\x86"), "the attribute `__class__` of a tensor");
    assert!(Reader::new(with_pickle(&with_state(b"}X\x04\x00\x00\x00noteK\x01s")), "f").is_ok());
}

#[test]
fn pickles_that_are_none_are_refused() {
    let check = |pickle: &[u8], expected: &str| {
        let found = refusal(with_pickle(pickle));
        assert!(found.contains(expected), "{}: {found}", pickle.escape_ascii());
    };
    check(b"", "truncated");
    check(b"\x80\x02", "truncated");
    check(b"\x80\x02}", "truncated");
    check(b"}.", "no pickle of protocol 2 or later");
    check(b"\x80\x01}.", "protocol 1 at byte 0");
    check(b"\x80\x06}.", "protocol 6 at byte 0");
    check(b"\x80\x02\x80\x02}.", "protocol 2 at byte 2");
    check(b"\x80\x02.", "needs a value that is not there");
    check(b"\x80\x02}}.", "with values left");
    check(b"\x80\x02(}.", "with values left");
    check(b"\x80\x02}..", "1 bytes follow the end of its pickle");
    check(b"\x80\x02}.\x80\x02cposix\nsystem\n.", "bytes follow the end of its pickle");
    check(b"\x80\x02h\x07.", "no value has the number 7");
    check(b"\x80\x02j\x00\x00\x00\x80.", "no value has the number 2147483648");
    check(b"\x80\x02q\x00.", "needs a value that is not there");
    check(b"\x80\x02N(q\x00.", "needs a value that is not there");
    check(b"\x80\x02N(\x85.", "needs a value that is not there");
    check(b"\x80\x02N(a.", "needs a value that is not there");
    check(b"\x80\x02NNa.", "needs a list");
    check(b"\x80\x02]NNs.", "needs a dictionary");
    check(b"\x80\x02t.", "needs a mark");
    check(b"\x80\x02}(K\x01u.", "a key without a value");
    check(b"\x80\x02}]K\x01s.", "a collection as a key");
    check(b"\x80\x02}NK\x01s.", "None as a key");
    check(b"\x80\x02\x8b\x00\x00\x00\x40.", "truncated");
    check(b"\x80\x020.", "opcode 0x30");
    // The memo may have any numbers.
    assert!(
        Reader::new(with_pickle(b"\x80\x02}r\x00\x00\x00\x80j\x00\x00\x00\x80X\x01\x00\x00\x00aNs."), "f").is_err()
    );
    assert!(Reader::new(with_pickle(b"\x80\x02}r\x00\x00\x00\x80X\x01\x00\x00\x00aNs."), "f").is_ok());
}

#[test]
fn structures_that_grow_are_bounded() {
    // A list that holds itself, and one with itself twice.
    assert!(refusal(with_pickle(b"\x80\x02]q\x00h\x00a.")).contains("more than 64 deep"));
    assert!(refusal(with_pickle(b"\x80\x02]q\x00(h\x00h\x00e.")).contains("more than 64 deep"));
    // Lists of two times the list before, 60 times.
    let mut laughs = b"\x80\x02(]q\x00".to_vec();
    for number in 1..60_u8 {
        laughs.extend([b']', b'q', number, b'(', b'h', number - 1, b'h', number - 1, b'e']);
    }
    laughs.extend(b"t.");
    assert!(refusal(with_pickle(&laughs)).contains("names of its values are too long"));
    // Two names that are one.
    let tensor = tensor_of(STORAGE, b"K\x00K\x02\x85K\x01\x85");
    let tensor = &tensor[2..tensor.len() - 1];
    let twice =
        [b"\x80\x02}(X\x03\x00\x00\x00a.b", tensor, b"X\x01\x00\x00\x00a}X\x01\x00\x00\x00b", tensor, b"su."].concat();
    assert!(refusal(with_pickle(&twice)).contains("two of its tensors have the name `a.b`"));
}

#[test]
fn tensors_stay_in_their_storages() {
    let check = |place: &[u8], expected: Result<&[u8], &str>| {
        let bytes = with_pickle(&tensor_of(STORAGE, place));
        match expected {
            Ok(expected) => {
                let tensor = Reader::new(bytes, "f").unwrap().read("data").unwrap();
                assert_eq!(&**tensor.bytes(), expected, "{}", place.escape_ascii());
            }
            Err(expected) => {
                let found = refusal(bytes);
                assert!(found.contains(expected), "{}: {found}", place.escape_ascii());
            }
        }
    };
    // Offset, shape, strides.
    check(b"K\x00K\x08\x85K\x01\x85", Ok(&[1, 2, 3, 4, 5, 6, 7, 8]));
    check(b"K\x07K\x01\x85K\x09\x85", Ok(&[8]));
    check(b"K\x01K\x02K\x02\x86K\x04K\x02\x86", Ok(&[2, 4, 6, 8]));
    check(b"K\x03K\x02\x85K\x00\x85", Ok(&[4, 4]));
    check(b"K\x02))", Ok(&[3]));
    check(b"K\x63K\x00\x85K\x01\x85", Ok(&[]));
    check(b"K\x00K\x09\x85K\x01\x85", Err("is not inside of storage `0` of 8 bytes"));
    check(b"K\x01K\x08\x85K\x01\x85", Err("is not inside of storage"));
    check(b"K\x08))", Err("is not inside of storage"));
    check(b"K\x00K\x02\x85K\x08\x85", Err("is not inside of storage"));
    check(b"J\xff\xff\xff\xffK\x02\x85K\x01\x85", Err("no number or below 0"));
    check(b"K\x00J\xff\xff\xff\xff\x85K\x01\x85", Err("no number or below 0"));
    check(b"K\x00K\x02\x85J\xff\xff\xff\xff\x85", Err("no number or below 0"));
    check(b"K\x00K\x02\x85)", Err("1 dimensions and 0 strides"));
    check(b"K\x00NK\x01\x85", Err("other arguments"));
    check(b"K\x00\x88\x85K\x01\x85", Err("no number or below 0"));
    // 2^62 times 2^62 elements, and strides that lead around.
    let one = b"K\x01".as_slice();
    let large = b"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x40".as_slice();
    let sizes = |sizes: &[&[u8]], strides: &[&[u8]]| {
        [b"K\x00(", sizes.concat().as_slice(), b"t(", strides.concat().as_slice(), b"t"].concat()
    };
    check(&sizes(&[large, large], &[b"K\x00", b"K\x00"]), Err("larger than any memory"));
    check(&sizes(&[large, b"K\x00", large], &[b"K\x00", b"K\x00", b"K\x00"]), Err("larger than any memory"));
    check(&sizes(&[b"K\x05"], &[large]), Err("is not inside of storage"));
    check(&sizes(&[b"K\x03", b"K\x03"], &[large, large]), Err("is not inside of storage"));
    check(&sizes(&[one; 65], &[one; 65]), Err("a tensor of 65 dimensions"));
    check(&sizes(&[one; 64], &[large; 64]), Ok(&[1]));
    // 2^40 times the same byte is not made.
    check(&sizes(&[b"\x8a\x06\x00\x00\x00\x00\x00\x01"], &[b"K\x00"]), Err("at most 4294967296 are allowed"));
}

#[test]
fn mentions_of_storages_are_checked() {
    let check = |storage: &[u8], expected: &str| {
        let found = refusal(with_pickle(&tensor_of(storage, b"K\x00K\x02\x85K\x01\x85")));
        assert!(found.contains(expected), "{}: {found}", storage.escape_ascii());
    };
    let with = |from: &[u8], to: &[u8]| {
        let start = STORAGE.windows(from.len()).position(|window| window == from).unwrap();
        [&STORAGE[..start], to, &STORAGE[start + from.len()..]].concat()
    };
    check(&with(b"K\x08", b"K\x07"), "storage `0` has 8 bytes, expected 7");
    check(&with(b"K\x08", b"J\xff\xff\xff\xff"), "a storage of -1 elements");
    check(&with(b"K\x08", b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"), "storage `0` has 8 bytes");
    check(&with(b"ByteS", b"LongS"), "storage `0` has 8 bytes, expected 64");
    check(&with(b"ByteS", b"QInt8S"), "quantized numbers (`torch.QInt8Storage`");
    check(&with(b"\x00\x00\x000", b"\x00\x00\x001"), "no entry `m/data/1`");
    check(&with(b"\x01\x00\x00\x000", b"\x0b\x00\x00\x00../data.pkl"), "no entry `m/data/../data.pkl`");
    check(&with(b"\x03\x00\x00\x00cpu", b"\x04\x00\x00\x00meta"), "a storage without bytes (meta)");
    check(&with(b"storage", b"modules"), "a persistent id of the kind `modules`");
    check(&with(b"tQ", b"NtQ"), "the description of a storage at byte");
    check(b"K\x07Q", "needs the description of a storage, found an integer");
    check(b"N", "a tensor at byte");
    // The bytes of a storage on another device are read as any.
    let pickle = tensor_of(&with(b"\x03\x00\x00\x00cpu", b"\x06\x00\x00\x00cuda:0"), b"K\x00K\x02\x85K\x01\x85");
    assert_eq!(&**Reader::new(with_pickle(&pickle), "f").unwrap().read("data").unwrap().bytes(), [1, 2]);
    // A gradient of bytes, bits to conjugate, hooks.
    for behind in [b"\x88NtR".as_slice(), b"\x89N}X\x04\x00\x00\x00conj\x88stR", b"\x89}K\x01NstR", b"\x89NNNtR"] {
        let pickle = [b"\x80\x02", BEFORE, STORAGE, b"K\x00K\x02\x85K\x01\x85", behind, b"."].concat();
        refusal(with_pickle(&pickle));
    }
    // One key, two types.
    let other = with(b"ByteS", b"CharS");
    let tensor = |storage: &[u8]| {
        let pickle = tensor_of(storage, b"K\x00K\x02\x85K\x01\x85");
        pickle[2..pickle.len() - 1].to_vec()
    };
    let both = [b"\x80\x02]", tensor(STORAGE).as_slice(), b"a", &tensor(&other), b"a."].concat();
    assert!(refusal(with_pickle(&both)).contains("is once 8 elements of uint8, and once 8 of int8"));
}

/// An archive of stored entries, each with the name in its list, that in its own header, and the extra fields in the list.
fn raw_archive(entries: &[(&str, &str, &[u8], &[u8])]) -> Vec<u8> {
    let (mut file, mut list) = (Vec::new(), Vec::new());
    let short = |number: usize| u16::try_from(number).unwrap().to_le_bytes();
    let long = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
    for (name, own_name, data, extra) in entries {
        let start = file.len();
        let sizes = [long(data.len()), long(data.len())].concat();
        // The version, flags, method, time and date; then the checksum, which opening does not compare.
        let common = [[20, 0, 0, 0, 0, 0, 0, 0, 0, 0].as_slice(), &[0; 4], &sizes].concat();
        file.extend(
            [b"PK\x03\x04".as_slice(), &common, &short(own_name.len()), &[0; 2], own_name.as_bytes(), data].concat(),
        );
        let lengths = [short(name.len()), short(extra.len()), [0; 2]].concat();
        list.extend(
            [b"PK\x01\x02\x14\0".as_slice(), &common, &lengths, &[0; 8], &long(start), name.as_bytes(), extra].concat(),
        );
    }
    let n_entries = short(entries.len());
    let end = [b"PK\x05\x06\0\0\0\0".as_slice(), &n_entries, &n_entries, &long(list.len()), &long(file.len()), &[0; 2]]
        .concat();
    [file, list, end].concat()
}

/// What says where an entry is or what it is called is said once: of two, PyTorch takes the first, and other readers the last.
#[test]
fn entries_are_named_and_placed_once() {
    let pickle = tensor_of(STORAGE, b"K\x00K\x02\x85K\x01\x85");
    let of = |data: (&str, &str, &[u8], &[u8])| {
        raw_archive(&[("m/data.pkl", "m/data.pkl", &pickle, &[]), ("m/version", "m/version", b"3\n", &[]), data])
    };
    let plain = of(("m/data/0", "m/data/0", &[7; 8], &[]));
    assert_eq!(**Reader::new(plain, "f").unwrap().read("data").unwrap().bytes(), [7, 7]);
    // Another name, with the checksum of the one in the list: CRC-32 of `m/data/1`.
    let crc = [b"m/data/1".as_slice()].iter().fold(!0_u32, |crc, bytes| {
        bytes.iter().fold(crc, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
        })
    });
    let unicode = [b"\x75\x70\x0d\x00\x01".as_slice(), &(!crc).to_le_bytes(), b"m/data/0"].concat();
    let twice = [b"\x01\x00\x00\x00".as_slice(), b"\x01\x00\x00\x00"].concat();
    for data in [
        ("m/data/1", "m/data/0", [7; 8].as_slice(), unicode.as_slice()),
        ("m/data/0", "m/data/0", &[7; 8], &twice),
        ("m/data/0", "m/data/0", &[7; 8], b"\x01"),
    ] {
        let found = refusal(of(data));
        assert!(found.contains("the list of entries of its archive is not one that PyTorch writes"), "{found}");
    }
    let constants = of(("m/constants.pkl", "m/constants.pkl", b"", &[]));
    let Err(TorchError::OtherContent { content, .. }) = Reader::new(constants, "f") else { panic!("it was opened") };
    assert_eq!(content, carton_tensor::content::Content::TorchScript);
}

/// What small files could have repeated without end.
#[test]
fn work_is_bounded_by_the_file() {
    let long = "x".repeat(1 << 20);
    let length = u32::try_from(long.len()).unwrap().to_le_bytes();
    let text = [b"X".as_slice(), &length, long.as_bytes()].concat();
    let check = |pickle: &[u8], expected: &str| {
        let started = std::time::Instant::now();
        let found = refusal(with_pickle(&[b"\x80\x02", pickle, b"."].concat()));
        assert!(found.contains(expected), "{found}");
        // Without a bound these take hours.
        assert!(started.elapsed() < std::time::Duration::from_secs(120), "{expected}");
    };
    const SPENT: &str = "has more opcodes, or copies more, than is followed";
    // A long key, set again and again; long texts that are encoded; a long tuple as a size.
    check(&[b"}", text.as_slice(), b"q\x00Ns", &b"h\x00Ns".repeat(3000)].concat(), SPENT);
    let encodes = b"h\x01h\x00X\x06\x00\x00\x00latin1\x86R".repeat(3000);
    check(&[b"(", text.as_slice(), b"q\x00c_codecs\nencode\nq\x01", &encodes, b"t"].concat(), SPENT);
    let sizes = [b"((".as_slice(), &b"K\x01".repeat(100_000), b"tq\x00ctorch\nSize\nq\x01"].concat();
    check(&[sizes.as_slice(), &b"h\x01h\x00\x85R".repeat(1000), b"t"].concat(), SPENT);
    // Attributes of many parameters, in one dictionary.
    let attributes = (0..50_000_u32).map(|n| format!("X\x05\0\0\0{n:05}N")).collect::<String>();
    let tensor = tensor_of(STORAGE, b"K\x00K\x02\x85K\x01\x85");
    let tensor = &tensor[2..tensor.len() - 1];
    let state = [b"(}(".as_slice(), attributes.as_bytes(), b"uq\x00"].concat();
    let parameter = b"ctorch._utils\n_rebuild_parameter_with_state\nq\x02(h\x01\x89}h\x00tq\x03";
    check(&[&state, tensor, b"q\x01", parameter, &b"h\x02h\x03R".repeat(2000), b"t"].concat(), SPENT);
    // A storage with a long key, and a tensor with millions of names.
    let key = [b"X".as_slice(), &2000_u32.to_le_bytes(), &[b'0'; 2000]].concat();
    let storage = [b"(X\x07\0\0\0storagectorch\nByteStorage\n".as_slice(), &key, b"X\x03\0\0\0cpuK\x08tQ"].concat();
    check(&storage, "a storage whose key has 2000 bytes");
    let names = [b"](".as_slice(), &b"h\x01".repeat(1100), b"eq\x02"].concat();
    check(
        &[b"(", tensor, b"q\x01", &names, b"](", &b"h\x02".repeat(1100), b"et"].concat(),
        "more than 1048576 names of tensors",
    );
}

#[test]
fn archives_that_pytorch_does_not_write_are_refused() {
    let pickle = tensor_of(STORAGE, b"K\x00K\x02\x85K\x01\x85");
    let check = |entries: &[(&str, &[u8])], expected: &str| {
        let found = refusal(archive(entries, CompressionMethod::Stored));
        assert!(found.contains(expected), "{found}");
    };
    let (version, data) = (b"3\n".as_slice(), [0; 8].as_slice());
    let p = ("m/data.pkl", pickle.as_slice());
    check(&[p, ("m/data/0", data)], "no entry `m/version`");
    check(&[p, ("m/version", b"11"), ("m/data/0", data)], "version `11` of the archive");
    check(&[p, ("m/version", b"x"), ("m/data/0", data)], "version `x` of the archive");
    check(&[p, ("m/version", version)], "no entry `m/data/0`");
    check(&[p, ("m/version", version), ("m/byteorder", b"big"), ("m/data/0", data)], "big-endian");
    check(&[p, ("m/version", version), ("m/byteorder", b"Little"), ("m/data/0", data)], "byte order `Little`");
    check(&[p, ("m/version", version), ("n/data/0", data)], "entry `n/data/0` of its archive is not in the folder `m`");
    check(&[p, ("m/version", version), ("m/Data/0", data), ("m/data/0", data)], "but for case");
    check(&[p, ("m/version", version), ("m/data/0", &data[..7])], "storage `0` has 7 bytes, expected 8");
    check(&[p, ("m/version", version), (".x/y", b""), ("m/data/0", data)], "is not in the folder");
    check(
        &[p, ("m/version", version), ("m/.storage_alignment", b"64\0"), ("m/data/0", data)],
        "an alignment of `64\\x00`",
    );
    check(&[p, ("m/version", version), ("m/code/a.py", b""), ("m/data/0", data)], "is a TorchScript model");
    let entries = [p, ("m/version", version), ("m/data/0", data)];
    let deflated = refusal(archive(&entries, CompressionMethod::Deflated));
    assert!(deflated.contains("is compressed or encrypted"), "{deflated}");
    // An entry of another part of the archive, and one that is a folder: PyTorch refuses one, and finds nothing in the other.
    for at in [34, 38] {
        let mut bytes = archive(&entries, CompressionMethod::Stored);
        let place = bytes.windows(4).rposition(|window| window == b"PK\x01\x02").unwrap();
        bytes[place + at] = 0x10;
        assert!(refusal(bytes).contains("the list of entries"));
    }
    // A header whose name is another than the list has.
    let mut bytes = archive(&entries, CompressionMethod::Stored);
    let place = bytes.windows(8).position(|window| window == b"m/data/0").unwrap();
    bytes[place + 7] = b'1';
    assert!(refusal(bytes).contains("no header of this name"));
    // A damaged storage is found by its checksum alone.
    let mut bytes = archive(&entries, CompressionMethod::Stored);
    let place = bytes.windows(8).position(|window| window == b"m/data/0").unwrap();
    bytes[place + 8] = 1;
    let reader = Reader::new(bytes, "f").unwrap();
    assert_eq!(&**reader.read("data").unwrap().bytes(), [1, 0]);
    let error = reader.check(reader.get("data").unwrap()).unwrap_err();
    assert!(matches!(error, TorchError::Format { .. }), "{error}");
    assert!(error.to_string().contains("entry `m/data/0` does not match its checksum"), "{error}");
}

#[test]
fn streams_that_pytorch_does_not_write_are_refused() {
    let whole = std::fs::read(folder().join("tensor.stream.pt")).unwrap();
    // Every start of the file, and what is behind its end.
    for length in 0..whole.len() {
        assert!(Reader::new(whole[..length].to_vec(), "f").is_err(), "{length}");
    }
    assert!(refusal([whole.as_slice(), b"."].concat()).contains("1 bytes follow its last storage"));
    let check = |from: &[u8], to: &[u8], expected: &str| {
        let place = whole.windows(from.len()).position(|window| window == from).unwrap();
        let changed = [&whole[..place], to, &whole[place + from.len()..]].concat();
        let found = refusal(changed);
        assert!(found.contains(expected), "{found}");
    };
    check(b"M\xe9\x03.", b"M\xea\x03.", "another version of the format");
    check(b"little_endianq\x02\x88", b"little_endianq\x02\x89", "big-endian");
    check(b"FloatStorage", b"UntypedStorage", "names `torch.UntypedStorage`");
    check(b"ctorch\nFloatStorage", b"ctorch.storage\nUntypedStorage", "a storage without a type in a stream");
    check(
        b"\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\x80\x3f",
        b"\x05\0\0\0\0\0\0\0\0\0\0\0\0\0\x80\x3f",
        "has 5 elements, expected 4",
    );
}

/// Files that were changed at random: what PyTorch refuses is refused, and what both read is the same. Needs the Python interpreter named by
/// `CARTON_TEST_TORCH`, which has PyTorch; `CARTON_TEST_TORCH_FILES` files are made, by `torch_peers.py`.
#[test]
fn changed_files_are_read_as_pytorch_reads_them() {
    let Some(python) = std::env::var_os("CARTON_TEST_TORCH") else {
        eprintln!("skipped: CARTON_TEST_TORCH names no python3 that has PyTorch");
        return;
    };
    let count = std::env::var("CARTON_TEST_TORCH_FILES").unwrap_or_else(|_| "300".to_owned());
    let seed = std::env::var("CARTON_TEST_TORCH_SEED").unwrap_or_else(|_| "1".to_owned());
    let place = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torch_peers.py");
    let status = std::process::Command::new(python)
        .arg(script)
        .args([folder().as_path(), place.path()])
        .args([count, seed])
        .status()
        .unwrap();
    assert!(status.success());
    let expected = std::fs::read_to_string(place.path().join("expected.txt")).unwrap();
    let (mut n_same, mut n_refused, mut n_stricter, mut wrong) = (0, 0, Vec::new(), Vec::new());
    for (number, expected) in expected.lines().enumerate() {
        let bytes = std::fs::read(place.path().join(format!("{number}.pt"))).unwrap();
        let found = Reader::new(bytes, "f").and_then(|reader| {
            let read = |info: &carton_tensor::torch::TensorInfo| {
                reader.read_within(info, 1 << 24).map(|tensor| described(info.name(), &tensor))
            };
            reader.tensors().iter().map(read).collect::<Result<Vec<Value>, TorchError>>()
        });
        match (found, expected) {
            (Err(_), "refused") => n_refused += 1,
            (Err(error), _) => n_stricter.push(error.to_string()),
            (Ok(_), "large") => {}
            (Ok(_), "refused") => wrong.push(format!("{number}: read, and PyTorch refuses it")),
            (Ok(found), expected) => match Value::from(found) == serde_json::from_str::<Value>(expected).unwrap() {
                true => n_same += 1,
                false => wrong.push(format!("{number}: other tensors")),
            },
        }
    }
    println!("{n_same} read alike, {n_refused} refused by both, {} only here", n_stricter.len());
    for error in n_stricter.iter().take(40) {
        println!("  {error}");
    }
    if !wrong.is_empty() {
        let kept = place.keep();
        panic!("in {}:\n{}", kept.display(), wrong.join("\n"));
    }
    assert!(n_same > 0);
}
