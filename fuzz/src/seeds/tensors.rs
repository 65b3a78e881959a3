//! Seeds of tensor files, and of the indexes of sharded checkpoints.

use std::io::Cursor;

use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::gguf::GgmlType;
use carton_tensor::npy::{NpzWriter, write as write_npy};
use carton_tensor::safetensors::{Metadata, write as write_safetensors};
use carton_tensor::ztensor::{Attribute, Coo, Csr, DigestAlgorithm, StoreAs, Writer};
use carton_tensor::{NumericTensor, StringTensor, Tensor};

use super::Seed;

/// A GGUF file with a key of each type, and a tensor of each type.
fn gguf() -> Vec<u8> {
    let text = |text: &[u8]| [&(text.len() as u64).to_le_bytes(), text].concat();
    let strings = [8_u32.to_le_bytes().as_slice(), &2_u64.to_le_bytes(), &text(b"a"), &text(b"")].concat();
    let values: Vec<Vec<u8>> = (0..13_u32)
        .map(|of| match of {
            8 => text(b"text"),
            9 => strings.clone(),
            of => vec![1; [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8][of as usize]],
        })
        .collect();
    let n_tensors = GgmlType::ALL.len() as u64;
    let mut file = [b"GGUF\x03\0\0\0".as_slice(), &n_tensors.to_le_bytes(), &13_u64.to_le_bytes()].concat();
    for (of, value) in (0..13_u32).zip(values) {
        file.extend([text(of.to_string().as_bytes()), of.to_le_bytes().to_vec(), value].concat());
    }
    let mut data = Vec::new();
    for of in GgmlType::ALL {
        let (elements, bytes) = of.block();
        file.extend([text(of.name().as_bytes()), 1_u32.to_le_bytes().to_vec()].concat());
        file.extend([(elements as u64).to_le_bytes(), (u64::from(of.id())).to_le_bytes()].concat());
        // The type has four bytes.
        file.truncate(file.len() - 4);
        file.extend((data.len() as u64).to_le_bytes());
        data.extend((0..bytes).map(|byte| byte as u8));
        data.resize(data.len().next_multiple_of(32), 0);
    }
    file.resize(file.len().next_multiple_of(32), 0);
    [file, data].concat()
}

pub(super) fn seeds() -> Vec<Seed> {
    let index = r#"{"metadata": {"total_size": 16}, "weight_map": {"a": "model-00001-of-00002.safetensors",
        "b.\u0063": "model-00002-of-00002.safetensors"}}"#;
    let mut seeds = vec![
        Seed::new("ztensor", "ztensor", ztensor()),
        Seed::new("safetensors", "safetensors", safetensors()),
        Seed::new("safetensors_index", "index.json", index),
        Seed::new("npy", "npz", npz()),
        Seed::new("gguf", "gguf", gguf()),
    ];
    for (position, tensor) in tensors().iter().enumerate() {
        let mut npy = Vec::new();
        write_npy(&mut npy, tensor).expect("it can be written");
        seeds.push(Seed::new("npy", format!("{position}.npy"), npy));
    }
    // Each is a tensor file too, under the name of its format.
    let files = seeds.iter().filter(|seed| seed.target != "safetensors_index");
    let files: Vec<Seed> = files.map(|seed| Seed { target: "tensor_file", ..seed.clone() }).collect();
    seeds.extend(files);
    seeds.extend(others().map(|(name, bytes)| Seed::new("tensor_file", name, bytes)));
    seeds
}

/// The first bytes of other kinds of files.
fn others() -> [(&'static str, &'static [u8]); 6] {
    [
        ("pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345678\n"),
        ("page", b"<!DOCTYPE html><html>login</html>"),
        ("pickle", b"\x80\x04\x95\x06\0\0\0\0\0\0\0]\x94K\x01a."),
        ("onnx", b"\x08\x08\x12\x07pytorch\x1a\x05"),
        ("zip", b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x0a\0\0\0m/data.pkl"),
        ("text", b"Entry not found"),
    ]
}

fn tensors() -> [Tensor; 4] {
    let texts = StringTensor::new(["a", "gr\u{f6}\u{df}e"].map(str::to_owned).to_vec(), vec![2]);
    [
        NumericTensor::from_vec(vec![1.5_f32, -2.0, f32::NAN, 0.0], vec![2, 2]).expect("the shape fits").into(),
        NumericTensor::from_vec(vec![i64::MIN], vec![]).expect("the shape fits").into(),
        NumericTensor::from_vec(Vec::<u8>::new(), vec![0, 3]).expect("the shape fits").into(),
        texts.expect("the shape fits").into(),
    ]
}

fn raw(dtype: ElementType, shape: &[usize], bytes: &[u8]) -> RawTensor {
    RawTensor::new(dtype, shape.to_vec(), bytes.to_vec().into()).expect("the shape fits")
}

fn safetensors() -> Vec<u8> {
    let tensors = [
        ("a", raw(ElementType::Float32, &[2, 1], &[1; 8])),
        ("b.c", raw(ElementType::BFloat16, &[3], &[2; 6])),
        ("empty", raw(ElementType::Uint8, &[0, 4], &[])),
        ("scalar", raw(ElementType::Int64, &[], &[3; 8])),
    ];
    let metadata = Metadata::new([("format", "pt")]).expect("no key is there twice");
    let mut file = Vec::new();
    write_safetensors(tensors.iter().map(|(name, tensor)| (*name, tensor)), &metadata, &mut file).expect("it is valid");
    file
}

fn ztensor() -> Vec<u8> {
    let matrix = raw(ElementType::Float32, &[2, 2], &[0, 0, 0, 0, 0, 0, 128, 63, 0, 0, 0, 0, 0, 0, 0, 64]);
    let mut writer = Writer::new(Vec::new()).expect("there is memory");
    let attributes = [("note".to_owned(), Attribute::Text("made by a seed".to_owned()))].into_iter().collect();
    writer.set_attributes(&attributes).expect("they are valid");
    writer.add("dense", &matrix, StoreAs::RAW.digest(DigestAlgorithm::Crc32c)).expect("it is valid");
    let compressed = StoreAs::RAW.zstd(3).digest(DigestAlgorithm::Sha256);
    writer.add("compressed", &raw(ElementType::Uint8, &[300], &[7; 300]), compressed).expect("it is valid");
    let csr = Csr::from_dense(&matrix).expect("it is a matrix");
    writer.csr("csr", &csr, StoreAs::RAW).expect("it is valid");
    let coo = Coo::from_dense(&matrix).expect("it is a matrix");
    writer.coo("coo", &coo, StoreAs::RAW).expect("it is valid");
    writer.finish().expect("there is memory")
}

fn npz() -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = NpzWriter::new(Cursor::new(&mut file));
    for (position, tensor) in tensors().iter().enumerate() {
        writer.add(&format!("array {position}"), tensor).expect("it can be written");
    }
    writer.finish().expect("there is memory");
    file
}
