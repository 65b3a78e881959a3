//! Builds files that no writer would write.

use minicbor::Encoder;

use crate::container::container;

/// A value of the manifest.
#[derive(Clone)]
pub(crate) enum Value {
    Number(u64),
    Text(&'static str),
    Numbers(Vec<u64>),
    Map(Vec<(&'static str, Value)>),
    /// Any bytes, whether they are valid CBOR or not.
    Cbor(Vec<u8>),
}

pub(crate) use Value::{Cbor, Map, Number, Numbers, Text};

impl Value {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Number(number) => drop(Encoder::new(out).u64(*number)),
            Text(text) => drop(Encoder::new(out).str(text)),
            Numbers(numbers) => {
                Encoder::new(&mut *out).array(numbers.len() as u64).unwrap();
                numbers.iter().for_each(|number| Number(*number).write(out));
            }
            Map(fields) => {
                Encoder::new(&mut *out).map(fields.len() as u64).unwrap();
                for (key, value) in fields {
                    Text(key).write(out);
                    value.write(out);
                }
            }
            Cbor(bytes) => out.extend_from_slice(bytes),
        }
    }

    /// Returns the value of `key` in a map.
    pub(crate) fn field(&mut self, key: &str) -> &mut Value {
        let Map(fields) = self else { panic!("no map") };
        &mut fields.iter_mut().find(|field| field.0 == key).unwrap().1
    }

    pub(crate) fn push(&mut self, key: &'static str, value: Value) {
        let Map(fields) = self else { panic!("no map") };
        fields.push((key, value));
    }

    pub(crate) fn remove(&mut self, key: &str) {
        let Map(fields) = self else { panic!("no map") };
        fields.retain(|field| field.0 != key);
    }
}

pub(crate) fn component(dtype: &'static str, offset: u64, length: u64) -> Value {
    Map(vec![("dtype", Text(dtype)), ("offset", Number(offset)), ("length", Number(length))])
}

pub(crate) fn object(shape: &[u64], format: &'static str, components: Vec<(&'static str, Value)>) -> Value {
    Map(vec![("shape", Numbers(shape.to_vec())), ("format", Text(format)), ("components", Map(components))])
}

pub(crate) fn root(objects: Vec<(&'static str, Value)>) -> Value {
    Map(vec![("version", Text("1.2.0")), ("objects", Map(objects))])
}

/// A manifest with two bytes as a dense tensor named `x`.
pub(crate) fn good() -> Value {
    root(vec![("x", object(&[2], "dense", vec![("data", component("u8", 64, 2))]))])
}

pub(crate) fn file(manifest: &Value) -> Vec<u8> {
    file_with(&[1, 2], manifest)
}

pub(crate) fn file_with(blob: &[u8], manifest: &Value) -> Vec<u8> {
    let mut cbor = Vec::new();
    manifest.write(&mut cbor);
    container(blob, &cbor)
}

/// A file with the manifest `good` after a change to the root.
pub(crate) fn changed(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut manifest = good();
    change(&mut manifest);
    file(&manifest)
}

/// A file with the manifest `good` after a change to its object.
pub(crate) fn changed_object(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    changed(|root| change(root.field("objects").field("x")))
}

/// A file with the manifest `good` after a change to its component.
pub(crate) fn changed_component(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    changed_object(|object| change(object.field("components").field("data")))
}

pub(crate) fn with_attributes(attributes: Vec<u8>) -> Vec<u8> {
    changed_object(|object| object.push("attributes", Cbor(attributes)))
}

/// A zstd frame of `n_bytes` zeros.
pub(crate) fn zstd(n_bytes: usize) -> Vec<u8> {
    zstd::stream::encode_all(&vec![0; n_bytes][..], 19).unwrap()
}

pub(crate) fn zstd_component(dtype: &'static str, blob: &[u8], uncompressed: Option<u64>) -> Value {
    let mut component = component(dtype, 64, blob.len() as u64);
    component.push("encoding", Text("zstd"));
    if let Some(uncompressed) = uncompressed {
        component.push("uncompressed_length", Number(uncompressed));
    }
    component
}

/// A file with a compressed dense tensor of bytes.
pub(crate) fn compressed(blob: &[u8], shape: &[u64], uncompressed: Option<u64>) -> Vec<u8> {
    let data = zstd_component("u8", blob, uncompressed);
    file_with(blob, &root(vec![("x", object(shape, "dense", vec![("data", data)]))]))
}

pub(crate) fn with_digest(digest: &'static str) -> Vec<u8> {
    changed_component(|component| component.push("digest", Text(digest)))
}

/// Components of one dtype each, in order from byte 64 on, at multiples of 64.
pub(crate) fn parts(
    format: &'static str,
    shape: &[u64],
    attributes: Option<Value>,
    parts: &[(&'static str, &'static str, Vec<u8>)],
) -> Vec<u8> {
    let (mut blobs, mut components) = (Vec::new(), Vec::new());
    for (role, dtype, bytes) in parts {
        components.push((*role, component(dtype, 64 + blobs.len() as u64, bytes.len() as u64)));
        blobs.extend_from_slice(bytes);
        blobs.resize(blobs.len().next_multiple_of(64), 0);
    }
    let mut object = object(shape, format, components);
    if let Some(attributes) = attributes {
        object.push("attributes", attributes);
    }
    file_with(&blobs, &root(vec![("x", object)]))
}

pub(crate) fn u64s(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

pub(crate) fn csr(shape: &[u64], indices: &[u64], indptr: &[u64]) -> Vec<u8> {
    let values = vec![1; 3];
    parts(
        "sparse_csr",
        shape,
        None,
        &[("values", "u8", values), ("indices", "u64", u64s(indices)), ("indptr", "u64", u64s(indptr))],
    )
}

pub(crate) fn coo(dtype: &'static str, coords: Vec<u8>) -> Vec<u8> {
    parts("sparse_coo", &[2, 3], None, &[("values", "u8", vec![1; 2]), ("coords", dtype, coords)])
}

/// Four bits, eight rows and two columns in one group.
pub(crate) fn quantized(
    change: impl FnOnce(&mut Value, &mut Vec<u64>, &mut Vec<(&'static str, &'static str, Vec<u8>)>),
) -> Vec<u8> {
    let mut attributes = Map(vec![("bits", Number(4)), ("group_size", Number(8)), ("packing", Text("8_per_i32"))]);
    let mut shape = vec![8, 2];
    let mut components =
        vec![("packed_weight", "i32", vec![0; 8]), ("scales", "f16", vec![0; 4]), ("zeros", "f16", vec![0; 4])];
    change(&mut attributes, &mut shape, &mut components);
    parts("quantized_group", &shape, Some(attributes), &components)
}
