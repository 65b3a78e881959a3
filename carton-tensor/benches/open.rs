//! Times opening files with very many tensors, relative to tokenizing the same header and discarding the result.
//!
//! `cargo bench -p carton-tensor --features safetensors,ztensor --bench open`. The contestants take turns, so that all meet the same
//! noise. Only the ratios are meaningful.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::hint::black_box;
use std::time::{Duration, Instant};

use carton_tensor::files::ElementType;
use carton_tensor::safetensors::{Header, Layout, Metadata, Reader};
use serde::de::IgnoredAny;

fn main() {
    // Only `cargo bench` passes `--bench`; `cargo test --benches` only checks that the code runs.
    let full = std::env::args().any(|argument| argument == "--bench");
    let sizes: &[usize] = if full { &[1, 1_000, 100_000] } else { &[1, 100] };
    for &n_tensors in sizes {
        let n_rounds = if full { (3_000_000 / (n_tensors + 1_000)).max(30) } else { 1 };
        safetensors(n_tensors, n_rounds);
        #[cfg(feature = "ztensor")]
        ztensor(n_tensors, n_rounds);
    }
}

/// A name, the code to time, and, where there is a target, the most time that it may take relative to the first contestant.
type Contestant<'c> = (&'c str, Box<dyn FnMut() + 'c>, Option<f64>);

/// Times the contestants in turns and prints each beside the first.
fn race(title: &str, n_rounds: usize, contestants: &mut [Contestant<'_>]) {
    println!("{title}");
    let mut times = vec![Vec::new(); contestants.len()];
    // The first round warms up and is not counted.
    for round in 0..=n_rounds {
        for ((_, run, _), times) in contestants.iter_mut().zip(&mut times) {
            let start = Instant::now();
            run();
            if round > 0 {
                times.push(start.elapsed());
            }
        }
    }
    let medians: Vec<Duration> = times.into_iter().map(median).collect();
    for ((name, _, target), time) in contestants.iter().zip(&medians) {
        let ratio = time.as_secs_f64() / medians[0].as_secs_f64();
        let target = target.map(|target| format!(" (target: at most {target})")).unwrap_or_default();
        println!("  {name:44} {:10.1} us  {ratio:6.2}{target}", time.as_secs_f64() * 1e6);
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Names, shapes and dtypes like those of language models.
fn tensors(n_tensors: usize) -> impl Iterator<Item = (String, ElementType, [usize; 2])> {
    let parts = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.up_proj", "mlp.down_proj"];
    (0..n_tensors).map(move |n| {
        let name = format!("model.layers.{}.{}.weight", n / parts.len(), parts[n % parts.len()]);
        (name, if n % 7 == 0 { ElementType::Float32 } else { ElementType::BFloat16 }, [4 + n % 3, 64])
    })
}

#[cfg(feature = "ztensor")]
fn ztensor(n_tensors: usize, n_rounds: usize) {
    use carton_tensor::files::RawTensor;
    use carton_tensor::ztensor::{Footer, Manifest, Reader, StoreAs, Writer};
    use minicbor::decode::{Decoder, Tokenizer};

    let mut writer = Writer::new(Vec::new()).unwrap();
    for (name, dtype, _) in tensors(n_tensors) {
        let tensor = RawTensor::new(dtype, vec![2, 2], vec![0_u8; dtype.bits() / 2].into()).unwrap();
        writer.add(&name, &tensor, StoreAs::RAW).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, &bytes).unwrap();
    let range = Footer::parse(bytes.last_chunk().unwrap(), bytes.len() as u64).unwrap().manifest();
    let cbor = &bytes[range.start as usize..range.end as usize];
    let target = (n_tensors >= 100_000).then_some(3.0);
    race(
        &format!("zTensor: {n_tensors} tensors, a manifest of {} bytes", cbor.len()),
        n_rounds,
        &mut [
            (
                "the CBOR read to nothing by minicbor",
                Box::new(|| assert!(black_box(Tokenizer::new(cbor).all(|token| token.is_ok())))),
                None,
            ),
            ("the CBOR skipped, texts not looked at", Box::new(|| black_box(Decoder::new(cbor)).skip().unwrap()), None),
            ("manifest in memory", Box::new(|| drop(black_box(Manifest::parse(cbor, range.start).unwrap()))), target),
            ("file opened", Box::new(|| drop(black_box(Reader::open(file.path()).unwrap()))), target),
            ("file mapped", Box::new(|| drop(black_box(Reader::map(file.path()).unwrap()))), target),
        ],
    );
}

fn safetensors(n_tensors: usize, n_rounds: usize) {
    let layout = Layout::new(tensors(n_tensors), &Metadata::new([("format", "pt")]).unwrap()).unwrap();
    // The data is a hole in the file, because nothing here reads it.
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, layout.header_bytes()).unwrap();
    file.as_file().set_len(layout.file_length()).unwrap();
    let json = &layout.header_bytes()[Header::PREFIX..];
    let title = format!("safetensors: {n_tensors} tensors, a header of {} bytes", json.len());
    // With few tensors, opening the file dominates the time.
    let target = (n_tensors >= 100_000).then_some(3.0);
    race(
        &title,
        n_rounds,
        &mut [
            (
                "the JSON read to nothing by serde_json",
                Box::new(|| {
                    black_box(serde_json::from_slice::<IgnoredAny>(json).unwrap());
                }),
                None,
            ),
            (
                "header in memory",
                Box::new(|| drop(black_box(Header::parse(layout.header_bytes(), layout.file_length()).unwrap()))),
                target,
            ),
            ("file opened", Box::new(|| drop(black_box(Reader::open(file.path()).unwrap()))), target),
            ("file mapped", Box::new(|| drop(black_box(Reader::map(file.path()).unwrap()))), target),
            (
                "file mapped, by the safetensors library",
                Box::new(|| {
                    // SAFETY: no other process or thread knows the temporary file, so it does not change while it is mapped.
                    let map = unsafe { memmap2::Mmap::map(&File::open(file.path()).unwrap()).unwrap() };
                    drop(black_box(safetensors::SafeTensors::deserialize(&map).unwrap()));
                }),
                None,
            ),
        ],
    );

    // White space, as some other writers put it, selects the parser for arbitrary JSON.
    let spaced = String::from_utf8(json.to_vec()).unwrap().replace("\":", "\": ").replace(",\"", ", \"");
    let header = [&(spaced.len() as u64).to_le_bytes(), spaced.as_bytes()].concat();
    let file_length = layout.file_length() - layout.header_bytes().len() as u64 + header.len() as u64;
    race(
        &format!("safetensors: {n_tensors} tensors, a header with white space of {} bytes", spaced.len()),
        n_rounds,
        &mut [
            (
                "the JSON read to nothing by serde_json",
                Box::new(|| {
                    black_box(serde_json::from_slice::<IgnoredAny>(spaced.as_bytes()).unwrap());
                }),
                None,
            ),
            ("header in memory", Box::new(|| drop(black_box(Header::parse(&header, file_length).unwrap()))), target),
        ],
    );
}
