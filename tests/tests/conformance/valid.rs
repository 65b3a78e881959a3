//! Cartons that must load: everything that the format allows and that other tools write.

use carton_tensor::{NestedTensor, NumericTensor, StringTensor, Tensor};

use crate::builder::{CARTON_TOML, CartonBuilder, DEFLATE, Entry, Manifest, NUMBERS, STORED, UTF8, ZSTD, hex_sha256};
use crate::judge::{Court, Everything, Verdict};
use crate::records::{Descriptor, extra_field};

/// Builds the carton and checks that everything can be read back unchanged, and that the carton can be shrunk.
pub(crate) fn check_valid(name: &str, carton: &CartonBuilder) -> Everything {
    crate::shrunk::check(name, &carton.build());
    let everything = match Court::new().judge(&carton.build()) {
        Verdict::Good(everything) => everything,
        Verdict::Bad(failure) => panic!("{name}: {failure:?}"),
    };
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let expected = carton.files().into_iter().map(|(path, data)| (text(path), data)).collect();
    assert_eq!(everything.files, expected, "{name}");
    let manifest_hash = carton.manifest_bytes().map(|bytes| hex_sha256(&bytes));
    assert_eq!(Some(&everything.manifest_hash), manifest_hash.as_ref(), "{name}");
    *everything
}

/// A change to the good little carton that leaves it good.
type Change = fn(&mut CartonBuilder);

fn check_all(cases: &[(&str, Change)]) {
    for (name, change) in cases {
        let mut carton = CartonBuilder::little();
        change(&mut carton);
        let everything = check_valid(name, &carton);
        assert_eq!(everything.tensors.len(), 3, "{name}");
    }
}

#[test]
fn the_little_carton_has_what_was_put_in() {
    let everything = check_valid("little", &CartonBuilder::little());
    assert_eq!(everything.model_name.as_deref(), Some("little"));
    assert!(everything.warnings.is_empty(), "{:?}", everything.warnings);
    let numbers = NumericTensor::from_vec(NUMBERS.to_vec(), vec![2, 3]).unwrap();
    let words = StringTensor::new(vec!["a".to_owned(), "b ü".to_owned()], vec![2]).unwrap();
    let ragged = NestedTensor::new(vec![numbers.clone().into(), numbers.clone().into()]).unwrap();
    for (name, expected) in [("numbers", Tensor::from(numbers)), ("words", words.into()), ("ragged", ragged.into())] {
        let found = &everything.tensors[name];
        assert!(carton_tensor::allclose(found, &expected, Default::default()).passed, "{name}: {found:?}");
    }
}

#[test]
fn compression() {
    check_all(&[
        ("stored", |c| c.entries.iter_mut().for_each(|entry| entry.method = STORED)),
        ("deflate", |c| c.entries.iter_mut().for_each(|entry| entry.method = DEFLATE)),
        ("zstd", |c| c.entries.iter_mut().for_each(|entry| entry.method = ZSTD)),
        ("MANIFEST in zstd", |c| c.manifest_method = ZSTD),
        ("MANIFEST stored", |c| c.manifest_method = STORED),
        ("deflate, ten million zeros", |c| c.add(Entry::new("model/zeros", vec![0; 10_000_000]))),
        ("zstd, ten million zeros", |c| c.add(Entry::new("model/zeros", vec![0; 10_000_000]).zstd())),
        ("zstd without checksum, two frames", |c| {
            let frames = [b"first, ".as_slice(), b"second"].map(|part| zstd::encode_all(part, 1).unwrap());
            let entry = Entry::new("model/frames", "first, second").zstd();
            c.add(Entry { compressed: Some(frames.concat()), ..entry });
        }),
        ("zstd with a skippable frame", |c| {
            let skipped = [0x184d_2a50_u32.to_le_bytes(), 4_u32.to_le_bytes(), *b"skip"].concat();
            let frame = zstd::encode_all(b"data".as_slice(), 1).unwrap();
            c.add(Entry { compressed: Some([skipped, frame].concat()), ..Entry::new("model/a", "data").zstd() });
        }),
        ("zstd that tells its size and a checksum", |c| {
            let mut encoder = zstd::stream::Encoder::new(Vec::new(), 19).unwrap();
            encoder.include_checksum(true).unwrap();
            encoder.set_pledged_src_size(Some(4)).unwrap();
            std::io::Write::write_all(&mut encoder, b"data").unwrap();
            let compressed = Some(encoder.finish().unwrap());
            c.add(Entry { compressed, ..Entry::new("model/a", "data").zstd() });
        }),
        ("deflate in stored blocks", |c| {
            let compressed = Some(b"\x01\x04\x00\xfb\xffdata".to_vec());
            c.add(Entry { compressed, ..Entry::new("model/a", "data") });
        }),
        ("empty files", |c| {
            c.add(Entry::new("model/empty_stored", "").stored());
            c.add(Entry::new("model/empty_deflate", ""));
            c.add(Entry::new("model/empty_zstd", "").zstd());
        }),
    ]);
}

#[test]
fn records() {
    check_all(&[
        ("archive comment", |c| c.comment = b"made by hand".to_vec()),
        ("the longest comment", |c| c.comment = vec![b'c'; 65535]),
        ("a comment of zeros", |c| c.comment = vec![0; 40]),
        ("entry comments", |c| {
            for entry in &mut c.entries {
                entry.change_directory = Some(|header| header.comment = b"about this file".to_vec());
            }
        }),
        ("something before the first entry", |c| c.prefix = b"#!/bin/sh\nexit 0\n".to_vec()),
        ("gaps between entries", |c| c.entries.iter_mut().for_each(|entry| entry.gap = vec![0; 17])),
        ("streamed", |c| c.entries.iter_mut().for_each(|entry| entry.descriptor = Descriptor::Signed)),
        ("streamed, descriptors without signature", |c| {
            c.entries.iter_mut().for_each(|entry| entry.descriptor = Descriptor::Unsigned);
        }),
        ("streamed, local headers with sizes all the same", |c| {
            let entry = c.entry("model/config.json");
            entry.descriptor = Descriptor::Signed;
            entry.change_local = Some(|header| (header.crc32, header.size) = (1, 2));
        }),
        ("zip64 entries", |c| c.entries.iter_mut().for_each(|entry| entry.zip64 = true)),
        ("zip64 entries, streamed", |c| {
            for entry in &mut c.entries {
                (entry.zip64, entry.descriptor) = (true, Descriptor::Signed);
            }
        }),
        ("zip64 in the local header alone", |c| {
            c.entry("model/weights.bin").change_local = Some(|header| {
                header.extra = crate::records::zip64_field(&[u64::from(header.size), u64::from(header.size)]);
                (header.size, header.compressed_size) = (u32::MAX, u32::MAX);
            });
        }),
        ("zip64 end", |c| c.zip64 = true),
        ("zip64 end with extensible data", |c| {
            c.zip64 = true;
            c.damage = Some(|bytes| {
                // Bytes between the record and its locator, which the record's length includes.
                let locator = bytes.len() - 22 - 20;
                bytes.splice(locator..locator, *b"more");
                let record = locator - 56;
                bytes[record + 4..record + 12].copy_from_slice(&48_u64.to_le_bytes());
            });
        }),
        ("everything zip64", |c| {
            c.zip64 = true;
            c.entries.iter_mut().for_each(|entry| entry.zip64 = true);
        }),
        ("zip64 end that repeats what fits", |c| {
            c.zip64 = true;
            c.change_end = Some(|end| {
                let zip64 = end.zip64.as_ref().unwrap();
                (end.entries, end.entries_on_disk) = (zip64.entries as u16, zip64.entries as u16);
                end.directory_size = zip64.directory_size as u32;
                end.directory_offset = zip64.directory_offset as u32;
            });
        }),
        ("aligned by an extra field", |c| {
            c.entry("model/weights.bin").local_extra = extra_field(0xa11e, &[0, 16, 0, 0, 0]);
        }),
        ("extra fields of others", |c| {
            for entry in &mut c.entries {
                entry.local_extra = extra_field(0x5455, &[3, 0, 0, 0, 0, 0, 0, 0, 0]);
                entry.change_directory =
                    Some(|header| header.extra = extra_field(0x7875, &[1, 4, 0, 0, 0, 0, 4, 0, 0, 0, 0]));
            }
        }),
        ("padding behind the extra fields", |c| c.entry("model/weights.bin").local_extra = vec![0; 3]),
        ("a Unicode path that says the same", |c| {
            c.entry("model/config.json").change_directory = Some(|header| {
                let crc = crc32fast::hash(&header.name).to_le_bytes();
                header.extra = extra_field(0x7075, &[[1].as_slice(), &crc, &header.name].concat());
            });
        }),
        ("times that differ", |c| {
            c.entry("model/config.json").change_local = Some(|header| (header.time, header.date) = (77, 0x5a21));
        }),
        ("dates of no day", |c| c.entries.iter_mut().for_each(|entry| entry.date = 0)),
        ("names without the UTF-8 flag", |c| {
            c.add(Entry { flags: 0, ..Entry::new("model/ünï", "x") });
        }),
        ("flags that say how deflate was done", |c| c.entry("model/config.json").flags = UTF8 | 0b110),
        ("made on DOS", |c| {
            c.remove("model/link");
            for entry in &mut c.entries {
                entry.change_directory = Some(|header| (header.version_made_by, header.external_attributes) = (20, 32));
            }
        }),
        ("made by Python, without a file type", |c| {
            c.entry("model/config.json").change_directory = Some(|header| header.external_attributes = 0o600 << 16);
        }),
    ]);
}

#[test]
fn layout() {
    check_all(&[
        ("unsorted entries", |c| c.entries.reverse()),
        ("MANIFEST first", |c| c.manifest_position = Some(0)),
        ("folders", |c| {
            c.entries.insert(0, Entry::folder("model/"));
            c.entries.insert(1, Entry::folder("misc/"));
            c.add(Entry::folder("tensor_data/"));
            c.add(Entry::folder("model/empty/"));
        }),
        ("folders in deflate", |c| {
            c.add(Entry { method: DEFLATE, compressed: Some(vec![3, 0]), ..Entry::folder("model/") });
        }),
        ("folders without a file type", |c| {
            c.add(Entry::folder("model/"));
            c.entry("model/").change_directory = Some(|header| header.external_attributes = 0x10);
        }),
        ("files elsewhere", |c| {
            c.add(Entry::new("README.md", "what this is"));
            c.add(Entry::new("docs/more.txt", "and more"));
        }),
        ("names that can be mistaken", |c| {
            for name in
                ["model/a=b", "model/=", "model/a b", "model/...", "model/.hidden", "model/ünï/ cödé", "model/a:b"]
            {
                c.add(Entry::new(name, name));
            }
            c.add(Entry::new(["model/", &"long".repeat(60)].concat(), ""));
            c.add(Entry::new("misc/MANIFEST", "mine"));
            c.add(Entry::new("model/LINKS", "mine"));
            c.add(Entry::new("model/carton.toml", "mine"));
        }),
        ("a deep folder", |c| c.add(Entry::new(["model/", &"d/".repeat(200), "x"].concat(), "deep"))),
        ("links", |c| {
            c.add(Entry::symlink("model/again", "link"));
            c.add(Entry::symlink("model/folder/up", "../weights.bin"));
            c.add(Entry::symlink("model/roundabout", "./folder/../folder/.././notes.txt"));
            c.add(Entry::symlink("misc/to_model", "../model/config.json"));
            c.add(Entry::symlink("misc/alias", "picture"));
        }),
        ("a compressed link", |c| {
            c.add(Entry { method: DEFLATE, ..Entry::symlink("model/again", "link") });
            c.add(Entry { method: ZSTD, ..Entry::symlink("model/and_again", "again") });
        }),
        ("other permissions", |c| {
            c.entry("model/config.json").mode = 0o100_000;
            c.entry("model/notes.txt").mode = 0o100_755;
            c.entry("model/link").mode = 0o120_000;
        }),
        ("MANIFEST not sorted", |c| {
            c.manifest = Manifest::Edited(|text| {
                text.lines().rev().flat_map(|line| [line, "\n"]).collect::<String>().into_bytes()
            });
        }),
        ("MANIFEST without the last newline", |c| {
            c.manifest = Manifest::Edited(|text| text.trim_end().as_bytes().to_vec());
        }),
    ]);
}

#[test]
fn metadata() {
    check_all(&[
        ("unknown fields and tables", |c| {
            c.edit("carton.toml", "model_name", "later_field = [1, { a = 2 }]\nmodel_name");
            c.edit("carton.toml", "[runner]", "[runner]\nlater = true");
            c.edit("carton.toml", "[[self_test]]", "[later.table]\nx = 1979-05-27\n\n[[self_test]]\ntags = []");
            c.edit("tensor_data/index.toml", "name = \"numbers\"", "name = \"numbers\"\nlater = {}");
        }),
        ("no inputs", |c| {
            c.edit("carton.toml", "[[input]]\nname = \"x\"\ndtype = \"float32\"\nshape = [\"n\", 3]\n", "");
        }),
        ("a list of no inputs", |c| {
            c.edit("carton.toml", "[[input]]\nname = \"x\"\ndtype = \"float32\"\nshape = [\"n\", 3]\n", "");
            c.edit("carton.toml", "model_name", "input = []\nmodel_name");
        }),
        ("empty model_name and description", |c| {
            c.edit("carton.toml", "\"little\"", "\"\"\nmodel_description = \"\"");
        }),
        ("no compat version", |c| c.edit("carton.toml", "runner_compat_version = 1\n", "")),
        ("Windows line ends", |c| {
            let entry = c.entry("carton.toml");
            entry.data = String::from_utf8(entry.data.clone()).unwrap().replace('\n', "\r\n").into_bytes();
        }),
        ("a self-test against its signature", |c| c.edit("carton.toml", "dtype = \"float32\"", "dtype = \"float64\"")),
        ("all sorts of shapes", |c| {
            let input = |shape: &str| format!("[[input]]\nname = \"{shape}\"\ndtype = 'int8'\nshape = {shape}\n\n");
            let shapes = ["[]", "'*'", "'sym'", "['a', '*', 3]", "[0]"].map(input).concat();
            c.edit("carton.toml", "[[output]]", &format!("{shapes}[[output]]"));
        }),
        ("self-test without outputs, example without anything", |c| {
            c.edit("carton.toml", "expected_out = { y = \"@tensor_data/numbers\" }\n", "");
            c.edit(
                "carton.toml",
                "inputs = { x = \"@misc/picture\" }\nsample_out = { y = \"@tensor_data/numbers\" }\n",
                "",
            );
        }),
        ("inner for plain tensors", |c| {
            c.edit("tensor_data/index.toml", "file = \"tensor_0.bin\"", "file = \"tensor_0.bin\"\ninner = []");
            c.edit("tensor_data/index.toml", "dtype = \"nested\"", "dtype = \"nested\"\nshape = []\nfile = ''");
        }),
    ]);
}

#[test]
fn the_least_there_can_be() {
    let metadata = "spec_version = 1\n[runner]\nrunner_name = 'x'\nrequired_framework_version = '*'\n";
    let everything = check_valid("only carton.toml", &CartonBuilder::with([Entry::new("carton.toml", metadata)]));
    assert!(everything.tensors.is_empty());
    assert_eq!(everything.model_name, None);
    let empty_index = [Entry::new("carton.toml", metadata), Entry::new("tensor_data/index.toml", "")];
    check_valid("an index of nothing", &CartonBuilder::with(empty_index));
}

#[test]
fn every_dtype_and_shape() {
    let sizes = [("float32", 4), ("float64", 8), ("int8", 1), ("int16", 2), ("int32", 4), ("int64", 8)];
    let unsigned = [("uint8", 1), ("uint16", 2), ("uint32", 4), ("uint64", 8)];
    let mut carton = CartonBuilder::with([Entry::new("carton.toml", CARTON_TOML), Entry::new("misc/picture", "")]);
    let mut index = String::new();
    for (dtype, size) in sizes.into_iter().chain(unsigned) {
        for (shape, n_elements) in [("[]", 1), ("[0]", 0), ("[3, 0, 7]", 0), ("[2, 1, 3]", 6)] {
            let name = format!("{dtype}{shape}");
            let file = format!("{}.bin", name.replace(['[', ']', ' ', ','], "_"));
            index += &format!("[[tensor]]\nname = '{name}'\ndtype = '{dtype}'\nshape = {shape}\nfile = '{file}'\n");
            let data: Vec<u8> = (0..size * n_elements).map(|byte| byte as u8).collect();
            carton.add(Entry::new(format!("tensor_data/{file}"), data));
        }
    }
    index += "[[tensor]]\nname = 'numbers'\ndtype = 'nested'\ninner = ['int8[]', 'int8[0]']\n";
    index += "[[tensor]]\nname = 'nothing'\ndtype = 'nested'\ninner = []\n";
    index += "[[tensor]]\nname = 'no words'\ndtype = 'string'\nshape = [0, 4]\nfile = 'words.toml'\n";
    carton.add(Entry::new("tensor_data/words.toml", "data = []\n"));
    carton.add(Entry::new("tensor_data/index.toml", index));
    let everything = check_valid("dtypes", &carton);
    assert_eq!(everything.tensors.len(), 43);
    let Tensor::Numeric(tensor) = &everything.tensors["int16[2, 1, 3]"] else { panic!("not numeric") };
    assert_eq!(tensor.as_slice::<i16>().unwrap(), [0x0100, 0x0302, 0x0504, 0x0706, 0x0908, 0x0b0a]);
}

#[test]
fn names_that_differ_only_by_case_are_warned_of() {
    let mut carton = CartonBuilder::little();
    carton.add(Entry::new("model/CONFIG.json", "another file"));
    let everything = check_valid("case", &carton);
    assert!(everything.warnings.iter().any(|warning| warning.contains("CONFIG.json")), "{:?}", everything.warnings);
}

#[test]
fn linked_files_are_listed_and_the_rest_is_read() {
    const WEIGHTS: &str = "model/weights.bin";
    let mut carton = CartonBuilder::little();
    let right = String::from_utf8(carton.manifest_bytes().unwrap()).unwrap();
    let removed = carton.remove(WEIGHTS);
    carton.manifest = Manifest::Edited(|text| {
        let line = format!("{WEIGHTS}={}\n", hex_sha256(&crate::builder::noise(300, 1)));
        format!("{text}{line}").into_bytes()
    });
    let links = format!("version = 1\nlater = 1\n[urls]\n{} = [\"https://host/x\"]\n", hex_sha256(&removed.data));
    carton.add(Entry::new("LINKS", links));
    assert!(right.contains(&hex_sha256(&removed.data)));

    let court = Court::new();
    let Verdict::Bad(failure) = court.judge(&carton.build()) else { panic!("a linked file was read") };
    assert_eq!(failure.kind, carton_core::ErrorKind::Network, "{failure:?}");
    assert!(failure.text.contains(WEIGHTS), "{failure:?}");

    let path = court.config().cache_dir.with_file_name("judged.carton");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let package = runtime.block_on(carton_core::Carton::open(path).config(court.config()).into_future()).unwrap();
    let files = package.files();
    let linked: Vec<_> = files.iter().filter(|file| file.linked).collect();
    assert_eq!(linked.len(), 1);
    assert_eq!((linked[0].path.as_str(), linked[0].size, linked[0].stored), (WEIGHTS, None, None));
    assert_eq!(package.read_file("model/config.json", 100).unwrap(), br#"{"layers": 2}"#);
    let report = runtime.block_on(package.verify().into_future()).unwrap();
    assert!(report.is_good());
    assert_eq!(report.not_fetched, [WEIGHTS]);
    assert!(package.tensor("numbers").is_ok());

    // LINKS may have links for files that are not missing.
    let mut carton = CartonBuilder::little();
    carton.add(Entry::new("LINKS", format!("version = 1\n[urls]\n{} = [\"http://host/x\"]\n", "ab".repeat(32))));
    check_valid("LINKS for nothing", &carton);
}
