//! Arbitrary bytes as a PyTorch checkpoint, and as the pickle of one. Opening gives an error or tensors, each of which is the same when it is
//! read again, where its file holds it, and in a safetensors file that is made of all.

use std::io::{Cursor, Write};

use carton_tensor::safetensors::{self, Metadata};
use carton_tensor::torch::Reader;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// The most bytes of tensors that are read. A tensor can repeat elements.
const MAX_TENSORS: u64 = 1 << 20;

/// Checks these bytes. Returns whether they are accepted.
pub fn check(bytes: &[u8]) -> bool {
    // An archive with the bytes as its pickle, because changes of a whole archive hardly ever reach it.
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, content) in [("m/data.pkl", bytes), ("m/version", b"3\n"), ("m/data/0", &[1; 24])] {
        archive.start_file(name, stored).expect("the name is valid");
        archive.write_all(content).expect("memory can be written");
    }
    let archive = archive.finish().expect("memory can be written").into_inner();
    check_file(archive) | check_file(bytes.to_vec())
}

fn check_file(bytes: Vec<u8>) -> bool {
    let reader = match Reader::new(bytes.clone(), "input") {
        Ok(reader) => reader,
        Err(error) => {
            let text = error.to_string();
            assert!(error.is_about_content(), "{text}");
            assert!(!text.contains(|char: char| char.is_control()), "{text}");
            return false;
        }
    };
    let mut read = Vec::new();
    let mut total = 0_u64;
    for info in reader.tensors() {
        assert_eq!(reader.get(info.name()), Some(info));
        total = total.saturating_add(info.n_bytes());
        if total > MAX_TENSORS {
            break;
        }
        let Ok(tensor) = reader.read_within(info, 0).or_else(|_| reader.read_within(info, MAX_TENSORS)) else {
            continue;
        };
        assert_eq!((tensor.dtype(), tensor.shape()), (info.dtype(), info.shape()));
        assert_eq!(tensor.bytes().len() as u64, info.n_bytes());
        assert_eq!(reader.read_within(info, MAX_TENSORS).expect("it was read"), tensor);
        if let Some(range) = reader.location(info).expect("it was read") {
            assert_eq!(bytes.get(range.start as usize..range.end as usize), Some(&**tensor.bytes()));
        }
        let _ = reader.check(info);
        read.push((info.name(), tensor));
    }
    let mut written = Vec::new();
    let tensors = read.iter().map(|(name, tensor)| (*name, tensor));
    if safetensors::write(tensors, &Metadata::default(), &mut written).is_ok() {
        let again = safetensors::Reader::new(written, "written").expect("it was written");
        for (name, tensor) in &read {
            assert_eq!(again.read(name).expect("it was written"), *tensor);
        }
    }
    true
}
