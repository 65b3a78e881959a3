//! Loads, quantizes and validates the built-in descriptions at their full size.
//!
//! Runs only with `CARTON_TEST_FULL_SIZE` set, because the largest description is 27 GB of numbers: the command needs optimized code
//! (`cargo test --release`), and 7 GB of disk for its output. Prints what each command takes.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::thread;
use std::time::{Duration, Instant};

use carton_tensor::files::ElementType;
use carton_tensor::safetensors::{Layout, Metadata};
use carton_tensor::weights::{Description, ExpectedTensor};

use crate::sandbox::Sandbox;

/// Tensors up to this size in bytes have numbers. Larger ones are holes in the file, which read as zeros and take no disk.
const LARGEST_WITH_NUMBERS: usize = 64 << 10;

/// Writes a float32 tensor for each one of the description.
fn write_with_holes(sandbox: &Sandbox, file: &str, description: &Description) {
    let tensors: Vec<(&str, &ExpectedTensor)> = description.tensors().collect();
    let listed = tensors.iter().map(|(name, expected)| (*name, ElementType::Float32, expected.shape()));
    let layout = Layout::new(listed, &Metadata::default()).unwrap();
    let output = File::create(sandbox.work().join(file)).unwrap();
    output.write_all_at(layout.header_bytes(), 0).unwrap();
    output.set_len(layout.file_length()).unwrap();
    for tensor in layout.header().iter() {
        let n_numbers: usize = tensor.shape.iter().product();
        if n_numbers * 4 <= LARGEST_WITH_NUMBERS {
            let numbers = (0..n_numbers).map(|i| (i * 37 % 1000) as f32 / 1000.0 - 0.5);
            let bytes: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
            output.write_all_at(&bytes, tensor.range.start).unwrap();
        }
    }
}

/// Runs the command, and prints its time and its peak memory without the files that it maps. Returns the object that it prints.
fn measured(sandbox: &Sandbox, arguments: &str) -> serde_json::Value {
    let start = Instant::now();
    let stdout = sandbox.work().join("stdout.json");
    let mut command = sandbox.command(arguments.split(' '));
    let mut child = command.stdout(File::create(&stdout).unwrap()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let ended = loop {
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        let text = fs::read_to_string(&status).unwrap_or_default();
        let kilobytes =
            text.lines().find_map(|line| line.strip_prefix("RssAnon:")?.strip_suffix("kB")?.trim().parse().ok());
        peak = peak.max(kilobytes.unwrap_or(0_u64));
        thread::sleep(Duration::from_millis(20));
    };
    let seconds = start.elapsed().as_secs_f64();
    println!("carton {arguments}: {seconds:.1} s, {} MB of memory at most", peak >> 10);
    let output = child.wait_with_output().unwrap();
    assert!(ended.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&fs::read(stdout).unwrap()).unwrap()
}

#[test]
fn full_size_files_are_quantized_and_validated() {
    if std::env::var_os("CARTON_TEST_FULL_SIZE").is_none() {
        eprintln!("skipped: it takes minutes and 7 GB of disk; CARTON_TEST_FULL_SIZE=1 runs it");
        return;
    }
    for name in Description::BUILT_IN {
        let sandbox = Sandbox::new();
        let description = Description::built_in(name).unwrap();
        write_with_holes(&sandbox, "w.safetensors", &description);
        let disk_of = |file: &str| fs::metadata(sandbox.work().join(file)).unwrap().blocks() * 512;
        assert!(
            disk_of("w.safetensors") < 64 << 20,
            "the file system has no holes: {} bytes",
            disk_of("w.safetensors")
        );
        let validate = |file: &str, n_scales: usize| {
            let json = measured(&sandbox, &format!("tensor validate {file} --model {name} --json"));
            let nothing = serde_json::json!([]);
            assert_eq!((&json["errors"], &json["warnings"]), (&nothing, &nothing), "{file}");
            assert_eq!(json["n_parameters"], description.n_parameters());
            assert_eq!((&json["n_tensors"], &json["n_scales"]), (&description.n_tensors().into(), &n_scales.into()));
        };
        validate("w.safetensors", 0);
        for (file, options) in [("q.safetensors", ""), ("c.zt", " --per-channel --zstd 1")] {
            let quantize = format!("tensor quantize w.safetensors {file}{options} --report --json");
            let json = measured(&sandbox, &quantize);
            assert_eq!(json["quantized"].as_array().unwrap().len(), description.n_tensors());
            assert!(json["total"]["relative"].as_f64().unwrap() < 0.01, "{}", json["total"]);
            println!("{file}: {} MB, {} MB of disk", json["size"].as_u64().unwrap() >> 20, disk_of(file) >> 20);
            validate(file, description.n_tensors());
            fs::remove_file(sandbox.work().join(file)).unwrap();
        }
    }
}
