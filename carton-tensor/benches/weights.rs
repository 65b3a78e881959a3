//! Times loading, statistics, quantization and opening, relative to what bounds each of them and to the libraries in common use.
//!
//! `CARTON_TEST_PYTHON=… cargo bench -p carton-tensor --features weights --bench weights`. The Python interpreter needs `safetensors`,
//! `numpy` and `ztensor` 1.2.3; without the variable, the comparison with these libraries is skipped. The input is 1 GB in 200 tensors,
//! in the page cache. Contestants run in turn, so that all meet the same noise. The best time of each counts, because noise only adds
//! time. An argument such as `-- numbers` selects one part; `ROUNDS` sets the number of runs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cell::RefCell;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use carton_tensor::AlignedBytes;
use carton_tensor::any_file::TensorFile;
use carton_tensor::difference::{Compared, DifferenceOptions, compare_entries};
use carton_tensor::files::{ElementType, RawTensor};
use carton_tensor::safetensors::{self, Header, Layout, Metadata};
use carton_tensor::weights::{self, LoadOptions, QuantizeOptions, WeightsError};
use carton_tensor::ztensor::{self, DigestAlgorithm, Footer, Manifest, StoreAs};
use sha2::{Digest as _, Sha256};

/// The sizes of the inputs and the number of rounds.
struct Scale {
    n_tensors: usize,
    n_elements: usize,
    n_names: usize,
    rounds: usize,
}

fn main() {
    // Only `cargo bench` passes `--bench`; `cargo test --benches` only checks that the code runs.
    let full = std::env::args().any(|argument| argument == "--bench");
    let scale = if full {
        let rounds = std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(7);
        Scale { n_tensors: 200, n_elements: 1_250_000, n_names: 100_000, rounds }
    } else {
        Scale { n_tensors: 3, n_elements: 1000, n_names: 100, rounds: 1 }
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(folder).unwrap();
    let folder = tempfile::tempdir_in(folder).unwrap();
    let files = Files::make(folder.path(), &scale);
    let threads = threads();
    println!("{} tensors, {:.2} GB, {threads} threads, {} rounds", scale.n_tensors, files.gigabytes, scale.rounds);

    let parts: [(&str, &dyn Fn()); 6] = [
        ("loading", &|| loading(&files, scale.rounds)),
        ("mapped", &|| opening_mapped(&files, scale.rounds)),
        ("verified", &|| verified(&files, scale.rounds)),
        ("numbers", &|| numbers(&files, scale.rounds)),
        ("differences", &|| differences(&files, scale.rounds)),
        ("opening", &|| opening_many(scale.n_names, scale.rounds)),
    ];
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            part();
        }
    }
}

fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The same tensors in three files, and others in a fourth.
struct Files {
    safetensors: std::path::PathBuf,
    others: std::path::PathBuf,
    ztensor: std::path::PathBuf,
    hashed: std::path::PathBuf,
    gigabytes: f64,
}

impl Files {
    fn make(folder: &Path, scale: &Scale) -> Self {
        let mut state = 1_u64;
        let tensors: Vec<(String, RawTensor)> = (0..scale.n_tensors)
            .map(|index| {
                let mut bytes = AlignedBytes::zeroed(scale.n_elements * 4);
                for element in bytes.as_mut_slice().chunks_exact_mut(4) {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let number = (state >> 40) as f32 / 16_777_216.0 - 0.5;
                    element.copy_from_slice(&number.to_le_bytes());
                }
                let tensor = RawTensor::new(ElementType::Float32, vec![scale.n_elements], bytes.into()).unwrap();
                (format!("model.layers.{index}.weight"), tensor)
            })
            .collect();
        let files = Self {
            safetensors: folder.join("weights.safetensors"),
            others: folder.join("others.safetensors"),
            ztensor: folder.join("weights.zt"),
            hashed: folder.join("hashed.zt"),
            gigabytes: (scale.n_tensors * scale.n_elements * 4) as f64 / 1e9,
        };
        let output = BufWriter::new(File::create(&files.safetensors).unwrap());
        safetensors::write(tensors.iter().map(|(name, tensor)| (name, tensor)), &Metadata::default(), output).unwrap();
        // Each tensor is the next one of the first file, so all elements differ.
        let names = tensors.iter().cycle().skip(1).map(|(name, _)| name);
        let others = tensors.iter().map(|(_, tensor)| tensor);
        let output = BufWriter::new(File::create(&files.others).unwrap());
        safetensors::write(names.zip(others), &Metadata::default(), output).unwrap();
        for (path, store_as) in
            [(&files.ztensor, StoreAs::RAW), (&files.hashed, StoreAs::RAW.digest(DigestAlgorithm::Sha256))]
        {
            let mut writer = ztensor::Writer::create(path).unwrap();
            for (name, tensor) in &tensors {
                writer.add(name, tensor, store_as).unwrap();
            }
            writer.finish().unwrap();
        }
        files
    }
}

/// Contestants that are timed in turn.
struct Race<'a> {
    names: Vec<&'static str>,
    runs: Vec<Box<dyn FnMut() -> f64 + 'a>>,
    best: Vec<f64>,
}

impl<'a> Race<'a> {
    fn new() -> Self {
        Self { names: Vec::new(), runs: Vec::new(), best: Vec::new() }
    }

    /// Adds a contestant whose result is dropped outside the measured time.
    fn run<R>(self, name: &'static str, mut run: impl FnMut() -> R + 'a) -> Self {
        self.timed(name, move || {
            let start = Instant::now();
            let result = black_box(run());
            let seconds = start.elapsed().as_secs_f64();
            drop(result);
            seconds
        })
    }

    /// Adds a contestant that measures its own time.
    fn timed(mut self, name: &'static str, run: impl FnMut() -> f64 + 'a) -> Self {
        self.names.push(name);
        self.runs.push(Box::new(run));
        self
    }

    /// Runs all contestants `rounds` times, after one round to warm up.
    fn go(mut self, rounds: usize) -> Self {
        self.best = vec![f64::INFINITY; self.runs.len()];
        for round in 0..=rounds {
            for (run, best) in self.runs.iter_mut().zip(&mut self.best) {
                let seconds = run();
                if round > 0 {
                    *best = best.min(seconds);
                }
            }
        }
        self
    }

    fn best(&self, name: &str) -> Option<f64> {
        self.names.iter().position(|other| *other == name).map(|index| self.best[index])
    }

    fn print(&self, title: &str, gigabytes: Option<f64>) {
        println!("\n{title}");
        for (name, best) in self.names.iter().zip(&self.best) {
            match gigabytes {
                Some(gigabytes) => println!("  {name:<44} {:8.2} ms  {:6.2} GB/s", best * 1e3, gigabytes / best),
                None => println!("  {name:<44} {:8.2} ms", best * 1e3),
            }
        }
    }

    /// Prints how many times as fast `name` is as `other`, which should be at least `goal`.
    fn at_least(&self, name: &str, other: &str, goal: f64) {
        let (Some(ours), Some(theirs)) = (self.best(name), self.best(other)) else { return };
        let ratio = theirs / ours;
        let verdict = if ratio >= goal { "within" } else { "MISSES" };
        println!("  -> {name}: {ratio:.2} of the speed of {other}, goal at least {goal}: {verdict}");
    }

    /// Prints how many times as long `name` takes as `other`, which should be at most `goal`.
    fn at_most(&self, name: &str, other: &str, goal: f64) {
        let (Some(ours), Some(theirs)) = (self.best(name), self.best(other)) else { return };
        let ratio = ours / theirs;
        let verdict = if ratio <= goal { "within" } else { "MISSES" };
        println!("  -> {name}: {ratio:.2} times as long as {other}, goal at most {goal}: {verdict}");
    }
}

fn loading(files: &Files, rounds: usize) {
    let n_bytes = std::fs::metadata(&files.safetensors).unwrap().len() as usize;
    let mut source = AlignedBytes::zeroed(n_bytes);
    source.as_mut_slice().fill(1);
    let (mut target, mut parallel_target) = (AlignedBytes::zeroed(n_bytes), AlignedBytes::zeroed(n_bytes));
    target.as_mut_slice().fill(2);
    parallel_target.as_mut_slice().fill(2);
    let source = &source;
    let python = RefCell::new(Python::start(files));
    let options = LoadOptions::default();
    let mut race = Race::new()
        .run("memcpy into prefaulted memory", || target.as_mut_slice().copy_from_slice(source.as_slice()))
        .run("the same on all cores", || {
            let piece = n_bytes.div_ceil(threads());
            let pieces = source.as_slice().chunks(piece).zip(parallel_target.as_mut_slice().chunks_mut(piece));
            thread::scope(|scope| {
                for (source, target) in pieces {
                    scope.spawn(|| target.copy_from_slice(source));
                }
            });
        })
        .run("load safetensors", || weights::load(&files.safetensors, &options).unwrap())
        .run("load zTensor", || weights::load(&files.ztensor, &options).unwrap());
    if python.borrow().is_some() {
        race = race
            .timed("safetensors' load_file (Python)", || time(&python, "safetensors"))
            .timed("ztensor 1.2.3's read with a copy (Python)", || time(&python, "ztensor"));
    } else {
        println!("\nskipped: the libraries in Python, for CARTON_TEST_PYTHON is not set");
    }
    let race = race.go(rounds);
    race.print("Loading by copy", Some(files.gigabytes));
    for ours in ["load safetensors", "load zTensor"] {
        race.at_least(ours, "memcpy into prefaulted memory", 0.5);
        race.at_least(ours, "the same on all cores", 0.5);
        race.at_least(ours, "safetensors' load_file (Python)", 3.0);
        race.at_least(ours, "ztensor 1.2.3's read with a copy (Python)", 1.0);
    }
}

fn time(python: &RefCell<Option<Python>>, what: &str) -> f64 {
    python.borrow_mut().as_mut().unwrap().time(what)
}

/// Reads a byte of each page.
fn touch(bytes: &[u8]) -> u64 {
    bytes.iter().step_by(4096).map(|&byte| u64::from(byte)).sum()
}

fn touch_mapped(path: &Path) -> u64 {
    let file = TensorFile::map(path).unwrap();
    file.entries().map(|entry| touch(entry.read().unwrap().bytes())).sum()
}

fn opening_mapped(files: &Files, rounds: usize) {
    let python = RefCell::new(Python::start(files));
    let mut race = Race::new()
        .run("map and touch, safetensors crate", || {
            let file = File::open(&files.safetensors).unwrap();
            // SAFETY: no other process or thread writes to the temporary file, so it does not change while it is mapped.
            let map = unsafe { memmap2::Mmap::map(&file).unwrap() };
            let tensors = ::safetensors::SafeTensors::deserialize(&map).unwrap();
            tensors.iter().map(|(_, tensor)| touch(tensor.data())).sum::<u64>()
        })
        .run("map and touch safetensors", || touch_mapped(&files.safetensors))
        .run("map and touch zTensor", || touch_mapped(&files.ztensor));
    if python.borrow().is_some() {
        race = race.timed("map and touch, ztensor 1.2.3 (Python)", || time(&python, "touch"));
    }
    let race = race.go(rounds);
    race.print("Mapped, a byte of each page read", Some(files.gigabytes));
    for ours in ["map and touch safetensors", "map and touch zTensor"] {
        race.at_most(ours, "map and touch, safetensors crate", 1.1);
        race.at_most(ours, "map and touch, ztensor 1.2.3 (Python)", 1.1);
    }
}

fn verified(files: &Files, rounds: usize) {
    let loaded = weights::load(&files.hashed, &LoadOptions::default()).unwrap();
    let tensors: Vec<&RawTensor> = loaded.tensors.values().collect();
    let options = LoadOptions::default().verified();
    let race = Race::new()
        .run("SHA-256 of the same tensors on all cores", || {
            on_all_cores(tensors.len(), |index| Sha256::digest(&**tensors[index].bytes())[0].into());
        })
        .run("load zTensor and verify SHA-256", || {
            let weights = weights::load(&files.hashed, &options).unwrap();
            assert_eq!(weights.statistics.n_verified, tensors.len());
            weights
        })
        .run("map zTensor and verify SHA-256", || {
            let weights = weights::load(&files.hashed, &options.clone().mapped()).unwrap();
            assert_eq!(weights.statistics.n_verified, tensors.len());
            weights
        })
        .go(rounds);
    race.print("Verified", Some(files.gigabytes));
    // A copy also takes time on the cores that hash.
    race.at_least("map zTensor and verify SHA-256", "SHA-256 of the same tensors on all cores", 0.9);
    race.at_least("load zTensor and verify SHA-256", "SHA-256 of the same tensors on all cores", 0.9);
}

/// Reads files as `cat` does.
fn read_files(paths: [&Path; 2]) -> u64 {
    let mut buffer = vec![0; 128 << 10];
    let mut n_bytes = 0;
    for path in paths {
        let mut file = File::open(path).unwrap();
        while let Ok(read @ 1..) = file.read(&mut buffer) {
            n_bytes += read as u64;
        }
    }
    n_bytes
}

/// Compares the tensors of two files, and returns how many differ.
fn compare(a: &Path, b: &Path) -> usize {
    let (a, b) = (TensorFile::open(a).unwrap(), TensorFile::open(b).unwrap());
    let options = DifferenceOptions::default();
    let differs = |name: &str| {
        let (a, b) = (a.entry(name).unwrap(), b.entry(name).unwrap());
        let compared = compare_entries::<WeightsError>(&a, &b, &options, &|_| Ok(())).unwrap();
        !matches!(compared, Compared::Same { .. })
    };
    a.entries().filter(|entry| differs(entry.name())).count()
}

fn differences(files: &Files, rounds: usize) {
    let race = Race::new()
        .run("read both files", || read_files([&files.safetensors, &files.ztensor]))
        .run("compare equal tensors", || assert_eq!(compare(&files.safetensors, &files.ztensor), 0))
        .run("compare other tensors", || assert_ne!(compare(&files.safetensors, &files.others), 0))
        .go(rounds);
    race.print("Differences", Some(2.0 * files.gigabytes));
    for ours in ["compare equal tensors", "compare other tensors"] {
        race.at_most(ours, "read both files", 1.3);
    }
}

/// Runs `work` for each of `n_items` indices on all cores.
fn on_all_cores(n_items: usize, work: impl Fn(usize) -> u64 + Sync) {
    let next = AtomicUsize::new(0);
    let run = || loop {
        let item = next.fetch_add(1, Ordering::Relaxed);
        if item >= n_items {
            break;
        }
        black_box(work(item));
    };
    thread::scope(|scope| {
        for _ in 1..threads() {
            scope.spawn(run);
        }
        run();
    });
}

/// Reads the bytes once.
fn read_once(bytes: &[u8]) -> u64 {
    let mut lanes = [0_u64; 16];
    for chunk in bytes.as_chunks::<128>().0 {
        for (lane, word) in lanes.iter_mut().zip(chunk.as_chunks::<8>().0) {
            *lane = lane.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    lanes.into_iter().fold(0, u64::wrapping_add)
}

fn numbers(files: &Files, rounds: usize) {
    let loaded = weights::load(&files.safetensors, &LoadOptions::default()).unwrap();
    let tensors: Vec<&RawTensor> = loaded.tensors.values().collect();
    // The same bytes as another type. Any bit pattern is valid: a number, a NaN or an infinity.
    let seen_as = |dtype: ElementType| -> Vec<RawTensor> {
        let seen = |tensor: &&RawTensor| {
            let n_elements = tensor.bytes().len() * 8 / dtype.bits();
            RawTensor::new(dtype, vec![n_elements], tensor.bytes().clone()).unwrap()
        };
        tensors.iter().map(seen).collect()
    };
    let halves: Vec<RawTensor> = tensors
        .iter()
        .map(|tensor| narrowed(tensor, ElementType::Float16, |number| half::f16::from_f32(number).to_bits()))
        .collect();
    let brains: Vec<RawTensor> = tensors
        .iter()
        .map(|tensor| narrowed(tensor, ElementType::BFloat16, |number| half::bf16::from_f32(number).to_bits()))
        .collect();
    let bytes: Vec<RawTensor> = seen_as(ElementType::Int8);
    let plain = QuantizeOptions::default();
    // Matrices whose rows are as long as those of a small layer.
    let matrices: Vec<RawTensor> = tensors
        .iter()
        .map(|tensor| {
            let n_rows = tensor.n_elements() / 1000;
            RawTensor::new(ElementType::Float32, vec![n_rows, 1000], tensor.bytes().clone()).unwrap()
        })
        .collect();
    let reading = "reading the bytes once on all cores";
    let race = Race::new()
        .run(reading, || on_all_cores(tensors.len(), |index| read_once(tensors[index].bytes())))
        .run("statistics of float32", || weights::stats_of_all(tensors.iter().copied()).unwrap())
        .run("int8 quantization of float32", || weights::quantize_all(tensors.iter().copied(), &plain).unwrap())
        .run("the same, with errors measured", || {
            weights::quantize_all(tensors.iter().copied(), &plain.measured()).unwrap()
        })
        .run("the same, a scale for each channel of 1000", || {
            weights::quantize_all(&matrices, &plain.per_channel()).unwrap()
        })
        .run("both", || weights::quantize_all(&matrices, &plain.per_channel().measured()).unwrap())
        .run("statistics of int8 (4 times the numbers)", || weights::stats_of_all(&bytes).unwrap())
        .go(rounds);
    race.print("Numbers", Some(files.gigabytes));
    race.at_least("statistics of float32", reading, 0.8);
    race.at_least("int8 quantization of float32", reading, 0.45);
    let race = Race::new()
        .run(reading, || on_all_cores(halves.len(), |index| read_once(halves[index].bytes())))
        .run("statistics of float16", || weights::stats_of_all(&halves).unwrap())
        .run("statistics of bfloat16", || weights::stats_of_all(&brains).unwrap())
        .run("int8 quantization of float16", || weights::quantize_all(&halves, &plain).unwrap())
        .run("int8 quantization of bfloat16", || weights::quantize_all(&brains, &plain).unwrap())
        .go(rounds);
    race.print("Numbers of 16 bits, half the bytes", Some(files.gigabytes / 2.0));
    for name in ["statistics of float16", "statistics of bfloat16"] {
        race.at_least(name, reading, 0.8);
    }
    for name in ["int8 quantization of float16", "int8 quantization of bfloat16"] {
        race.at_least(name, reading, 0.45);
    }
}

fn narrowed(tensor: &RawTensor, dtype: ElementType, narrow: impl Fn(f32) -> u16) -> RawTensor {
    let mut bytes = AlignedBytes::zeroed(tensor.bytes().len() / 2);
    let numbers = tensor.bytes().as_chunks::<4>().0;
    for (narrowed, number) in bytes.as_mut_slice().as_chunks_mut::<2>().0.iter_mut().zip(numbers) {
        *narrowed = narrow(f32::from_le_bytes(*number)).to_le_bytes();
    }
    RawTensor::new(dtype, tensor.shape().to_vec(), bytes.into()).unwrap()
}

fn opening_many(n_names: usize, rounds: usize) {
    let names: Vec<String> =
        (0..n_names).map(|index| format!("model.layers.{index}.self_attn.q_proj.weight")).collect();
    let tensors = names.iter().map(|name| (name.as_str(), ElementType::Float32, [2, 2]));
    let layout = Layout::new(tensors, &Metadata::default()).unwrap();
    let (header, length) = (layout.header_bytes().to_vec(), layout.file_length());
    let json = header[8..].trim_ascii_end();
    let mut file = header.clone();
    file.resize(length as usize, 0);
    let race = Race::new()
        .run("tokenising the JSON", || serde_json::from_slice::<serde::de::IgnoredAny>(json).unwrap())
        .run("safetensors crate", || ::safetensors::SafeTensors::read_metadata(&file).unwrap())
        .run("open safetensors", || Header::parse(&header, length).unwrap())
        .go(rounds.max(1) * 3);
    race.print(&format!("Opening {n_names} tensors of safetensors"), None);
    race.at_most("open safetensors", "tokenising the JSON", 3.0);

    let mut writer = ztensor::Writer::new(Vec::new()).unwrap();
    let tensor = RawTensor::new(ElementType::Float32, vec![2, 2], vec![0_u8; 16].into()).unwrap();
    for name in &names {
        writer.add(name, &tensor, StoreAs::RAW).unwrap();
    }
    let file = writer.finish().unwrap();
    let footer = Footer::parse(file.last_chunk().unwrap(), file.len() as u64).unwrap();
    let start = footer.manifest().start;
    let cbor = &file[start as usize..footer.manifest().end as usize];
    let race = Race::new()
        .run("decoding the CBOR to nothing", || minicbor::Decoder::new(cbor).skip().unwrap())
        .run("open zTensor", || Manifest::parse(cbor, start).unwrap())
        .go(rounds.max(1) * 3);
    race.print(&format!("Opening {n_names} tensors of zTensor"), None);
    race.at_most("open zTensor", "decoding the CBOR to nothing", 3.0);
}

/// A Python process with the libraries. It loads a file on request and replies with the time that took.
struct Python {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

const SCRIPT: &str = r#"
import sys, time
import numpy, safetensors.numpy, ztensor
safe, zt = sys.argv[1:]
def touch():
    reader = ztensor.Reader(zt)
    arrays = reader.read_numpy(list(reader.keys()))
    return [int(array.view(numpy.uint8)[::4096].sum()) for array in arrays.values()]
def read():
    reader = ztensor.Reader(zt)
    return reader.read_numpy(list(reader.keys()), copy=True)
TASKS = {"safetensors": lambda: safetensors.numpy.load_file(safe), "ztensor": read, "touch": touch}
for line in sys.stdin:
    task = TASKS[line.strip()]
    start = time.perf_counter()
    result = task()
    seconds = time.perf_counter() - start
    assert len(result) > 0
    del result
    print(seconds, flush=True)
"#;

impl Python {
    fn start(files: &Files) -> Option<Self> {
        let python = std::env::var_os("CARTON_TEST_PYTHON")?;
        let mut child = Command::new(python)
            .args(["-c", SCRIPT])
            .args([&files.safetensors, &files.ztensor])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Some(Self { child, input, output })
    }

    fn time(&mut self, what: &str) -> f64 {
        writeln!(self.input, "{what}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().parse().expect("the libraries can load the files")
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
