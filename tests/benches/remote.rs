//! The costs of fetching, beside a bound measured in the same run: a carton of a gigabyte until it is verified in the cache
//! beside four concurrent ranges of it into memory, and its second load beside that of the same carton from disk.
//!
//! The server is nginx on the loopback interface, with `tcp_nopush off`: with it on, small ranges wait for 45 ms.

#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::time::{Duration, Instant};

use carton_core::Packed;
use carton_core::packing::Compression;
use carton_test_server::nginx::Nginx;
use carton_tests::place::TestPlace;
use carton_tests::weights;
use reqwest::Client;
use reqwest::header::RANGE;

const RUNNER: &str = env!("CARGO_BIN_EXE_carton-test-runner");
const N_FILES: u64 = 4;
const FILE_LENGTH: u64 = 256 << 20;
const N_RANGES: u64 = 4;
const N_DOWNLOADS: usize = 7;
const N_LOADS: usize = 40;

fn main() {
    let Some(nginx) = Nginx::start("") else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let place = TestPlace::new(RUNNER);
        let packed = pack(&place, &nginx).await;
        downloads(&place, &nginx).await;
        second_loads(&place, &nginx, &packed).await;
    });
}

/// Packs files of random bytes into a carton that nginx serves.
async fn pack(place: &TestPlace, nginx: &Nginx) -> Packed {
    let model = place.path().join("model");
    fs::create_dir(&model).unwrap();
    for n in 0..N_FILES {
        weights::write_file(&model.join(format!("weights-{n}.bin")), FILE_LENGTH, n);
    }
    let pack = place.pack(&model, "noop", nginx.root().join("large.carton"));
    let packed = pack.compression(Compression::Stored).check(false).await.unwrap();
    fs::remove_dir_all(model).unwrap();
    packed
}

async fn downloads(place: &TestPlace, nginx: &Nginx) {
    // No provider is built in, so that a program may choose one; the library chooses its own when it first needs one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::new();
    let url = nginx.url("large.carton");
    let length = fs::metadata(nginx.root().join("large.carton")).unwrap().len();
    let (mut ours, mut bound) = (Vec::new(), Vec::new());
    for round in 0..=N_DOWNLOADS {
        let start = Instant::now();
        four_ranges(&client, &url, length).await;
        let bound_took = start.elapsed();
        let _ = fs::remove_dir_all(place.config().cache_dir);
        let start = Instant::now();
        drop(place.load(&url).await.unwrap());
        // The first round warms the page cache.
        if round > 0 {
            bound.push(bound_took);
            ours.push(start.elapsed());
            println!("  {:?} to verified in the cache, {bound_took:?} into memory", ours[round - 1]);
        }
    }
    let ratio = |time: fn(&mut [Duration]) -> Duration, ours: &mut [Duration], bound: &mut [Duration]| {
        time(bound).as_secs_f64() / time(ours).as_secs_f64()
    };
    let gigabytes = length as f64 / 1e9;
    println!(
        "{:.2} GB to verified in the cache: {:.2} GB/s, {N_RANGES} ranges into memory: {:.2} GB/s; \
         ratio of the medians {:.2}, of the best {:.2} (goal: at least 0.8)",
        gigabytes,
        gigabytes / median(&mut ours).as_secs_f64(),
        gigabytes / median(&mut bound).as_secs_f64(),
        ratio(median, &mut ours, &mut bound),
        ratio(best, &mut ours, &mut bound),
    );
}

/// Fetches as many bytes as the carton has, in [`N_RANGES`] concurrent requests, each into its part of the memory.
async fn four_ranges(client: &Client, url: &str, length: u64) {
    let share = length.div_ceil(N_RANGES);
    let tasks: Vec<_> = (0..N_RANGES)
        .map(|n| {
            let (first, end) = (n * share, length.min((n + 1) * share));
            let request = client.get(url).header(RANGE, format!("bytes={first}-{}", end - 1));
            tokio::spawn(async move {
                let mut response = request.send().await.unwrap();
                let mut bytes = Vec::with_capacity(usize::try_from(end - first).unwrap());
                while let Some(chunk) = response.chunk().await.unwrap() {
                    bytes.extend_from_slice(&chunk);
                }
                assert_eq!(bytes.len() as u64, end - first);
                bytes
            })
        })
        .collect();
    let mut parts = Vec::new();
    for task in tasks {
        parts.push(task.await.unwrap());
    }
    std::hint::black_box(parts);
}

async fn second_loads(place: &TestPlace, nginx: &Nginx, packed: &Packed) {
    let url = nginx.url("large.carton");
    let pinned = format!("{url}#sha256={}", packed.manifest_sha256);
    let path = packed.path.to_str().unwrap();
    let load = async |location: &str| {
        let load = place.load(location);
        let start = Instant::now();
        let model = load.await.unwrap();
        let took = start.elapsed();
        drop(model);
        took
    };
    for location in [path, &url] {
        load(location).await;
    }
    nginx.forget_requests();
    let (mut disk, mut asking, mut silent) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..N_LOADS {
        disk.push(load(path).await);
        asking.push(load(&url).await);
        silent.push(load(&pinned).await);
    }
    let requests = nginx.requests();
    let model_requests = requests.iter().filter(|request| request.body_bytes > 0).count();
    println!(
        "{N_LOADS} second loads by URL and {N_LOADS} by pinned URL: {} requests, {model_requests} of them with a body (goal: 0)",
        requests.len()
    );
    let disk = median(&mut disk);
    for (name, times) in [("URL", &mut asking), ("pinned URL", &mut silent)] {
        let time = median(times);
        let ratio = time.as_secs_f64() / disk.as_secs_f64();
        println!("second load by {name}: {time:?}, from disk {disk:?}; ratio {ratio:.2} (goal: at most 1.2)");
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn best(times: &mut [Duration]) -> Duration {
    times.iter().copied().min().unwrap()
}
