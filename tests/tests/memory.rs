//! Memory use is bounded: packing and loading keep no file in memory, however large or numerous the files are.
//!
//! A child process does the work: this test program, started again. Its anonymous memory is read from `/proc`
//! every few milliseconds. `CARTON_TEST_LARGE_BYTES` and `CARTON_TEST_MANY_FILES` set other sizes.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs::File;
use std::io::{BufWriter, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use carton_core::config::Config;
use carton_core::internals::model;
use carton_core::{Carton, Inputs};
use carton_tests::place::TestPlace;

const RUNNER: &str = env!("CARGO_BIN_EXE_carton-test-runner");

/// The limit for the anonymous memory of each task, in bytes.
const LIMIT: u64 = 200 << 20;

/// The variable that names the child's task.
const WORK: &str = "CARTON_TEST_MEMORY_WORK";

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// Not a separate test: performs the child's task. Does nothing without the variable.
#[test]
fn work() {
    let Ok(work) = std::env::var(WORK) else { return };
    let home = PathBuf::from(std::env::var_os("CARTON_TEST_MEMORY_HOME").unwrap());
    let (model, carton) = (home.join("model"), home.join("model.carton"));
    let config = Config::in_folder(&home);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if work == "pack" {
        let pack = Carton::pack(model, &carton).runner("noop").config(config).check(false);
        runtime.block_on(pack.into_future()).unwrap();
        return;
    }
    if work == "load" {
        let model = runtime.block_on(Carton::load(&carton).config(config).into_future()).unwrap();
        assert!(runtime.block_on(model.infer(Inputs::none()).into_future()).unwrap().is_empty());
        return;
    }
    let package = runtime.block_on(Carton::open(&carton).config(config).into_future()).unwrap();
    match work.as_str() {
        "open" => assert!(package.metadata().signature().is_none()),
        "verify" => assert!(runtime.block_on(package.verify().into_future()).unwrap().is_good()),
        "model_ranges" => drop(model::ranges(&package).unwrap()),
        "model_directory" => assert!(model::directory(&package).unwrap().path().is_dir()),
        other => panic!("no such work: {other}"),
    }
}

/// Lets a child do the work and checks the peak of its anonymous memory.
fn check(home: &Path, work: &str) {
    let start = Instant::now();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["work", "--exact", "--nocapture", "--test-threads=1"])
        .env(WORK, work)
        .env("CARTON_TEST_MEMORY_HOME", home)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (mut peak, mut samples) = (0, 0);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if let Some(bytes) = anonymous_memory(child.id()) {
            peak = peak.max(bytes);
            samples += 1;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    assert!(status.success(), "{work}: {status}");
    assert!(samples > 0, "{work}: over before it was measured");
    println!(
        "{work}: at most {:.1} MiB in {:.2?} ({samples} samples)",
        peak as f64 / (1 << 20) as f64,
        start.elapsed()
    );
    assert!(peak < LIMIT, "{work}: {peak} bytes of anonymous memory");
}

/// Returns RssAnon of a process; `None` if it has ended.
fn anonymous_memory(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().unwrap() << 10)
}

fn check_all(home: &Path) {
    check(home, "pack");
    std::fs::remove_dir_all(home.join("model")).unwrap();
    // The ranges come before any file is recorded as verified, so that they are hashed; the folder for the runner comes last.
    for work in ["open", "model_ranges", "verify", "model_directory", "load"] {
        check(home, work);
    }
}

/// Packs and loads a model of one file with the contents of `bytes`.
fn check_large(mut bytes: impl Read) {
    let place = TestPlace::new(RUNNER);
    let model = place.path().join("model");
    std::fs::create_dir(&model).unwrap();
    let mut file = BufWriter::with_capacity(1 << 20, File::create(model.join("weights.bin")).unwrap());
    std::io::copy(&mut bytes, &mut file).unwrap();
    drop(file);
    check_all(place.path());
}

#[test]
fn one_large_file_of_random_bytes() {
    let n_bytes = setting("CARTON_TEST_LARGE_BYTES", 1 << 30);
    check_large(File::open("/dev/urandom").unwrap().take(n_bytes));
}

#[test]
fn one_large_file_that_compresses() {
    let n_bytes = setting("CARTON_TEST_LARGE_BYTES", 1 << 30) / 4;
    check_large(std::io::repeat(b'.').take(n_bytes));
}

#[test]
fn many_small_files() {
    let place = TestPlace::new(RUNNER);
    let n_files = setting("CARTON_TEST_MANY_FILES", 20_000);
    let mut data = vec![0; 300];
    File::open("/dev/urandom").unwrap().read_exact(&mut data).unwrap();
    for number in 0..n_files {
        let folder = place.path().join(format!("model/part_{:03}", number / 1000));
        if number % 1000 == 0 {
            std::fs::create_dir_all(&folder).unwrap();
        }
        data[..8].copy_from_slice(&number.to_le_bytes());
        std::fs::write(folder.join(format!("file_{number:06}.bin")), &data[..(number % 300) as usize]).unwrap();
    }
    check_all(place.path());
}
