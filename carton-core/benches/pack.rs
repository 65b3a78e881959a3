//! Measures packing 1 GiB in 301 files, one of them 700 MiB, against the bound: the same bytes are read, hashed and written with
//! the work spread evenly over all cores, which no archive of whole files can quite reach.
//!
//! `cargo bench -p carton-core --bench pack`; the two kinds of runs alternate, so that both see the same noise. Set `TMPDIR` to
//! choose the file system.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use carton_format::archive::{Compression, Content, Tail, write};
use carton_format::context::Context;
use carton_format::digest::Hasher;

const PIECE: usize = 512 << 10;

fn main() {
    // Only `cargo bench` passes this; `cargo test --benches` merely checks that the benchmark runs.
    let full = std::env::args().any(|argument| argument == "--bench");
    let (scale, runs) = if full { (1 << 20, 7) } else { (1 << 12, 1) };
    let folder = tempfile::tempdir().unwrap();
    let files = make_files(folder.path(), scale);
    let n_bytes: u64 = files.iter().map(|(_, length)| length).sum();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{} files, {:.2} GB, {threads} threads", files.len(), n_bytes as f64 / 1e9);

    let (mut packs, mut bounds) = (Vec::new(), Vec::new());
    // The first run of each warms the page cache and is not counted.
    for run in 0..=runs {
        let output = folder.path().join("output.carton");
        let pack = time(|| pack(&files, &output));
        std::fs::remove_file(&output).unwrap();
        let bound = time(|| hash_and_write(&files, threads, folder.path()));
        for thread in 0..threads {
            std::fs::remove_file(bound_output(folder.path(), thread)).unwrap();
        }
        if run != 0 || runs == 1 {
            packs.push(pack);
            bounds.push(bound);
        }
    }
    let ratios: Vec<_> = packs.iter().zip(&bounds).map(|(pack, bound)| bound / pack).collect();
    println!("pack             {:.3} s (median of {runs})", median(&packs));
    println!("hash and write   {:.3} s", median(&bounds));
    println!("pack reaches     {:.2} of the bound (target: at least 0.5)", median(&ratios));
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn time(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64()
}

/// Makes one file of 700 units of `scale` bytes, and 300 others with 324 units in total, of random bytes.
fn make_files(folder: &Path, scale: u64) -> Vec<(PathBuf, u64)> {
    let mut random = File::open("/dev/urandom").unwrap();
    let mut make = |name: String, length: u64| {
        let path = folder.join(name);
        let mut file = File::create(&path).unwrap();
        std::io::copy(&mut (&mut random).take(length), &mut file).unwrap();
        (path, length)
    };
    let mut files: Vec<_> = (0..300).map(|index| make(format!("{index:03}.bin"), 324 * scale / 300)).collect();
    files.push(make("large.bin".to_owned(), 700 * scale));
    files
}

fn pack(files: &[(PathBuf, u64)], output: &Path) {
    let mut file = File::create_new(output).unwrap();
    let name = |path: &Path| format!("model/{}", path.file_name().unwrap().to_str().unwrap());
    let entries = files.iter().map(|(path, _)| (name(path), Content::File(path.clone()))).collect();
    write(&mut file, entries, Tail::default(), Compression::Auto, &Context::default()).unwrap();
}

fn bound_output(folder: &Path, thread: usize) -> PathBuf {
    folder.join(format!("bound{thread}"))
}

/// Each thread reads, hashes and writes an equal share of the bytes, from whichever files they are in, to its own file.
fn hash_and_write(files: &[(PathBuf, u64)], threads: usize, folder: &Path) {
    let total: u64 = files.iter().map(|(_, length)| length).sum();
    let share = total.div_ceil(threads as u64);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (start, end) = (thread as u64 * share, total.min((thread as u64 + 1) * share));
            let path = bound_output(folder, thread);
            scope.spawn(move || {
                let output = File::create_new(path).unwrap();
                let mut hasher = Hasher::new();
                let mut buffer = vec![0; PIECE];
                let mut file_start = 0;
                for (input, length) in files {
                    let from = start.clamp(file_start, file_start + length);
                    let to = end.clamp(file_start, file_start + length);
                    if from < to {
                        let input = File::open(input).unwrap();
                        let mut position = from;
                        while position < to {
                            let piece = &mut buffer[..PIECE.min((to - position) as usize)];
                            input.read_exact_at(piece, position - file_start).unwrap();
                            hasher.update(piece);
                            output.write_all_at(piece, position - start).unwrap();
                            position += piece.len() as u64;
                        }
                    }
                    file_start += length;
                }
                std::hint::black_box(hasher.finish());
            });
        }
    });
}
