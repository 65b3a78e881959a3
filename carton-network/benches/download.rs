//! Measures a download of 1 GiB into a file, hashed while it arrives, against the bound: four ranges at a time into memory,
//! unverified.
//!
//! `cargo bench -p carton-network --bench download`; needs nginx. The two kinds of runs alternate, so that both see the same noise.
//! Set `TMPDIR` to choose the file system.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use carton_format::digest::{Hasher, Sha256Digest};
use carton_format::url::Url;
use carton_network::download::{Download, Target};
use carton_network::http::{Activity, Network, NetworkOptions};
use carton_test_server::nginx::Nginx;

const N_RANGES: u64 = 4;
const RANGE: u64 = 8 << 20;

fn main() {
    // Only `cargo bench` passes this; `cargo test --benches` merely checks that the benchmark runs.
    let full = std::env::args().any(|argument| argument == "--bench");
    let (length, n_runs) = if full { (1 << 30, 9) } else { (20 << 20, 1) };
    let folder = tempfile::tempdir().unwrap();
    let Some(nginx) = Nginx::start("") else { return };
    let digest = make_file(&nginx.root().join("file"), length);
    let url = nginx.url("file").parse().unwrap();
    let network = Network::new(NetworkOptions::default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (mut downloads, mut bounds) = (Vec::new(), Vec::new());
    // The first run of each warms up and is not counted.
    for run in 0..=n_runs {
        let output = folder.path().join("output");
        std::fs::create_dir(&output).unwrap();
        let download = time(|| assert_eq!(download(&network, &url, &output), digest));
        std::fs::remove_dir_all(&output).unwrap();
        let bound = time(|| runtime.block_on(into_memory(&url, length)));
        if run != 0 || n_runs == 1 {
            downloads.push(download);
            bounds.push(bound);
        }
    }
    let median_of = |times: &[Times], get: fn(&Times) -> f64| median(times.iter().map(get).collect());
    let print = |name: &str, times: &[Times]| {
        let (wall, cpu) = (median_of(times, |times| times.wall), median_of(times, |times| times.cpu));
        println!("{name} {wall:.3} s, {cpu:.3} s of this process's CPU time (medians of {n_runs})");
    };
    print("download and hash", &downloads);
    print("into memory      ", &bounds);
    let ratios = downloads.iter().zip(&bounds).map(|(download, bound)| bound.wall / download.wall).collect();
    println!("download reaches  {:.2} of the bound (target: at least 0.8)", median(ratios));
}

struct Times {
    wall: f64,
    cpu: f64,
}

fn download(network: &Network, url: &Url, folder: &Path) -> Sha256Digest {
    let target = Target { url, version: None, range: None, folder, accept_encoded: false, limit: u64::MAX };
    let download = Download::start(network, &target, &Arc::new(Activity::default())).unwrap();
    let (mut hasher, mut reader, mut buffer) = (Hasher::new(), download.reader(), vec![0; 256 << 10]);
    loop {
        match reader.read(&mut buffer).unwrap() {
            0 => return hasher.finish(),
            n_bytes => hasher.update(&buffer[..n_bytes]),
        };
    }
}

async fn into_memory(url: &Url, length: u64) {
    let client = reqwest::Client::builder().build().unwrap();
    let next = Arc::new(AtomicU64::new(0));
    let tasks = (0..N_RANGES).map(|_| {
        let (client, url, next) = (client.clone(), url.clone(), next.clone());
        tokio::spawn(async move {
            let mut parts = Vec::new();
            loop {
                let start = next.fetch_add(RANGE, Ordering::Relaxed);
                if start >= length {
                    return parts;
                }
                let range = format!("bytes={start}-{}", (start + RANGE).min(length) - 1);
                let mut response = client.get(url.expose_str()).header("range", range).send().await.unwrap();
                let mut part = Vec::with_capacity(RANGE as usize);
                while let Some(bytes) = response.chunk().await.unwrap() {
                    part.extend_from_slice(&bytes);
                }
                parts.push(part);
            }
        })
    });
    let mut n_bytes = 0;
    for task in tasks.collect::<Vec<_>>() {
        n_bytes += task.await.unwrap().iter().map(Vec::len).sum::<usize>();
    }
    assert_eq!(n_bytes as u64, length);
}

fn make_file(path: &Path, length: u64) -> Sha256Digest {
    let mut file = std::fs::File::create(path).unwrap();
    let (mut hasher, mut state) = (Hasher::new(), 0x9E37_79B9_7F4A_7C15_u64);
    let mut block = vec![0; 1 << 20];
    for _ in 0..length / block.len() as u64 {
        for word in block.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        hasher.update(&block);
        file.write_all(&block).unwrap();
    }
    hasher.finish()
}

fn time(run: impl FnOnce()) -> Times {
    let cpu_time = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let (start, cpu) = (Instant::now(), cpu_time());
    run();
    Times { wall: start.elapsed().as_secs_f64(), cpu: cpu_time() - cpu }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
