//! Seeds of cartons and their files.

use std::collections::BTreeMap;
use std::fs::File;

use carton_core::Context;
use carton_core::packing::{Compression, TensorFormat};
use carton_core::{Links, Sha256Digest};
use carton_format::archive::{Content, Tail, write};
use carton_format::tensor_data::entries;
use carton_tensor::{NestedTensor, NumericTensor, StringTensor, Tensor};

use super::Seed;
use super::text::CARTON_TOML;
use crate::generate::file::MemoryFile;
use crate::generate::pieces::SEPARATOR;

pub(super) fn seeds() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for compression in [Compression::Auto, Compression::Stored, Compression::Zstd, Compression::Deflate] {
        let name = format!("{compression:?}").to_lowercase();
        let (archive, manifest) = carton(compression);
        seeds.push(Seed::new("manifest", name.clone(), manifest));
        // The installer of runners also reads zip files.
        seeds.push(Seed::new("runner_archive", format!("{name}.zip"), archive.clone()));
        seeds.push(Seed::new("archive", name, archive));
    }
    seeds.push(Seed::new("archive", "empty", [&b"PK\x05\x06"[..], &[0; 18]].concat()));
    seeds.push(Seed::new("links", "links", links().to_bytes()));
    seeds.extend(tensor_data());
    seeds
}

fn links() -> Links {
    let urls = |name: &str| vec![format!("https://example.com/{name}?version=2"), format!("file:///models/{name}")];
    let files = ["one", "two"].map(|name| (Sha256Digest::of(name.as_bytes()), urls(name)));
    let sizes = files.clone().map(|(digest, _)| (digest, 3));
    Links::from_urls(files.into()).expect("they are URLs").with_sizes(sizes)
}

/// Makes a carton and its MANIFEST.
fn carton(compression: Compression) -> (Vec<u8>, Vec<u8>) {
    let text = b"what compresses well ".repeat(20);
    let bytes = |bytes: &[u8]| Content::Bytes(bytes.to_vec());
    let entries = vec![
        ("model/empty".to_owned(), bytes(b"")),
        ("model/sub/short".to_owned(), bytes(b"short")),
        ("model/sub/text".to_owned(), bytes(&text)),
        ("model/link".to_owned(), Content::Symlink("sub/text".to_owned(), Sha256Digest::of(&text))),
        ("misc/gr\u{f6}\u{df}e".to_owned(), Content::InPlace(Box::new(bytes(b"in place")))),
    ];
    let linked = BTreeMap::from([("model/elsewhere".to_owned(), Sha256Digest::of(b"one"))]);
    let tail = Tail { carton_toml: CARTON_TOML.into(), links: Some(links().to_bytes()), linked, manifest: None };
    let output = MemoryFile::new(b"");
    let mut file = File::options().read(true).write(true).open(output.path()).expect("it is there");
    let manifest = write(&mut file, entries, tail, compression, &Context::default()).expect("it is valid");
    (std::fs::read(output.path()).expect("it is there"), manifest.to_bytes().to_vec())
}

/// Each index with one of its files.
fn tensor_data() -> Vec<Seed> {
    let numbers: Tensor =
        NumericTensor::from_vec(vec![1.5_f32, -2.0, f32::NAN], vec![3, 1]).expect("the shape fits").into();
    let texts = ["a", "\"'\\\n\u{1F600}"].map(str::to_owned).to_vec();
    let texts: Tensor = StringTensor::new(texts, vec![2]).expect("the shape fits").into();
    let nested = NestedTensor::new(vec![numbers.clone(), numbers.clone()]).expect("they are alike");
    let tensors: BTreeMap<String, Tensor> =
        [("x".to_owned(), numbers), ("y".to_owned(), texts), ("z".to_owned(), nested.into())].into();
    let mut seeds = Vec::new();
    for format in [TensorFormat::Bin, TensorFormat::Safetensors, TensorFormat::Ztensor] {
        let files = entries(&tensors, format).expect("they can be written");
        let bytes = |content: &Content| match content {
            Content::InPlace(content) => match &**content {
                Content::Bytes(bytes) => bytes.clone(),
                other => panic!("expected bytes, found {other:?}"),
            },
            Content::Bytes(bytes) => bytes.clone(),
            other => panic!("expected bytes, found {other:?}"),
        };
        let is_index = |path: &str| path.ends_with("index.toml");
        let index = files.iter().find(|(path, _)| is_index(path)).map(|(_, content)| bytes(content));
        let index = index.expect("there is an index");
        for (path, content) in files.iter().filter(|(path, _)| !is_index(path)) {
            let name = format!("{format:?}-{}", path.replace('/', "-"));
            let input = [&index[..], &[SEPARATOR], &bytes(content)].concat();
            seeds.push(Seed::new("tensor_data", name, input));
        }
    }
    seeds
}
