//! `carton tensor`: tensors of files and cartons, with a module for each command.

mod cartons;
mod cat;
mod convert;
mod convert_options;
mod diff;
mod elsewhere;
mod full_size;
mod gguf;
mod ls;
mod memory;
mod merge;
mod onnx;
mod other_files;
mod packed;
mod peers;
mod quantize;
mod quantize_validate;
mod sparse;
mod stats;
mod validate;
mod verify;
mod ztensor2;
mod ztensor_options;

use std::fs;

use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::safetensors::{self, Metadata};
use carton_tensor::ztensor::{self, Attribute, Attributes, DigestAlgorithm, StoreAs, Writer};

use crate::sandbox::Sandbox;

fn tensor(dtype: ElementType, shape: &[usize], bytes: impl Into<Vec<u8>>) -> RawTensor {
    RawTensor::new(dtype, shape.to_vec(), bytes.into().into()).unwrap()
}

fn floats(numbers: &[f32], shape: &[usize]) -> RawTensor {
    tensor(ElementType::Float32, shape, numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>())
}

/// The example of the quantization rules, two halves, and integers.
fn example() -> Vec<(&'static str, RawTensor)> {
    vec![
        ("layer.0.weight", floats(&[-2.0, -1.0, 0.5, 1.5], &[2, 2])),
        ("layer.0.bias", tensor(ElementType::BFloat16, &[2], [0x80, 0x3f, 0x00, 0xc0])),
        ("ids", tensor(ElementType::Int64, &[1], 7_i64.to_le_bytes())),
    ]
}

fn write_safetensors(sandbox: &Sandbox, path: &str, tensors: &[(&str, RawTensor)]) {
    let metadata = Metadata::new([("format", "pt")]).unwrap();
    let mut bytes = Vec::new();
    safetensors::write(tensors.iter().map(|(name, tensor)| (*name, tensor)), &metadata, &mut bytes).unwrap();
    sandbox.write(path, bytes);
}

/// A zTensor file with an object of every format, attributes and digests.
fn write_ztensor(sandbox: &Sandbox, path: &str) {
    let store_as = StoreAs::RAW.digest(DigestAlgorithm::Crc32c);
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.set_attributes(&Attributes::from([("format".to_owned(), Attribute::Text("pt".to_owned()))])).unwrap();
    // Sorted by name, like manifests.
    for (name, tensor) in example().iter().rev() {
        writer.add(name, tensor, store_as).unwrap();
    }
    let part = tensor(ElementType::Uint8, &[3], [1, 2, 3]);
    let attributes = Attributes::from([("answer".to_owned(), Attribute::Integer(42))]);
    writer.object("other", &[3], "my_format", &attributes, &[("part", &part, store_as)]).unwrap();
    let sparse = floats(&[0.0, 0.0, 3.0, 0.0], &[2, 2]);
    writer.csr("sparse", &ztensor::Csr::from_dense(&sparse).unwrap(), store_as).unwrap();
    sandbox.write(path, writer.finish().unwrap());
}

fn read(sandbox: &Sandbox, path: &str) -> Vec<u8> {
    fs::read(sandbox.work().join(path)).unwrap()
}
