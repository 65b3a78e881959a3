//! Measures opening an archive of 100,000 entries against a raw read of its central directory, and against the `zip` crate.
//!
//! `cargo bench -p carton-format --bench open`; the kinds of runs alternate, so that all see the same noise.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::File;
use std::hint::black_box;
use std::io::BufReader;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

use carton_format::archive::{Archive, Compression, Content, Tail, write};
use carton_format::context::Context;
use carton_format::manifest::Manifest;
use carton_format::source::FileSource;

fn main() {
    // Only `cargo bench` passes this; `cargo test --benches` merely checks that the benchmark runs.
    let full = std::env::args().any(|argument| argument == "--bench");
    let (n_entries, runs) = if full { (100_000, 51) } else { (1_000, 3) };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.carton");
    let name = |index: usize| format!("model/block_{:02}/weights/part_{index:06}.bin", index % 40);
    let entries = (0..n_entries).map(|index| (name(index), Content::Bytes(vec![b'x'; index % 7]))).collect();
    let mut file = File::create_new(&path).unwrap();
    write(&mut file, entries, Tail::default(), Compression::Auto, &Context::default()).unwrap();

    let archive = Archive::open(Arc::new(FileSource::open(&path).unwrap())).unwrap();
    let manifest = archive.read(archive.get("MANIFEST").unwrap(), u64::MAX).unwrap();
    // The end record says where the directory is. It is a zip64 record if the number of entries exceeds 16 bits.
    let length = file.metadata().unwrap().len();
    let mut end = vec![0; 98];
    File::open(&path).unwrap().read_exact_at(&mut end, length - 98).unwrap();
    let number = |at: usize| u32::from_le_bytes(end[at..at + 4].try_into().unwrap());
    let zip64 = end.starts_with(b"PK\x06\x06");
    let (size, offset) = if zip64 { (number(40), number(48)) } else { (number(88), number(92)) };
    println!(
        "{n_entries} entries, central directory of {:.1} MB, MANIFEST of {:.1} MB",
        f64::from(size) / 1e6,
        manifest.len() as f64 / 1e6
    );

    let (mut opens, mut raws, mut parses, mut peers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        raws.push(time(|| {
            let file = File::open(&path).unwrap();
            let mut bytes = vec![0; size as usize];
            file.read_exact_at(&mut bytes, u64::from(offset)).unwrap();
            bytes.len()
        }));
        opens.push(time(|| {
            let archive = Archive::open(Arc::new(FileSource::open(&path).unwrap())).unwrap();
            archive.entries().len()
        }));
        parses.push(time(|| Manifest::parse(&manifest).unwrap().len()));
        peers.push(time(|| zip::ZipArchive::new(BufReader::new(File::open(&path).unwrap())).unwrap().len()));
    }
    let (raw, open, parse, peer) = (fastest(raws), fastest(opens), fastest(parses), fastest(peers));
    println!("raw read of the directory   {raw:8.3} ms");
    println!("open                        {open:8.3} ms, {:.1} of the raw read", open / raw);
    println!("MANIFEST parsed             {parse:8.3} ms");
    println!("`zip` crate                 {peer:8.3} ms, {:.1} of ours", peer / open);
}

fn time(run: impl FnOnce() -> usize) -> f64 {
    let start = Instant::now();
    black_box(run());
    start.elapsed().as_secs_f64() * 1e3
}

/// The fastest run. The others took longer because of other load on the machine.
fn fastest(values: Vec<f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}
