//! The costs of the library's calls, beside a bound measured in the same run: an empty call beside a raw echo over a
//! Unix socket, and a load with its first inference beside a start of the same executable up to its first byte. And the costs of the
//! sandbox: the same calls and loads with it and without it, by turns.

#![allow(clippy::unwrap_used, missing_docs)]

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use carton_core::Inputs;
use carton_core::sandbox::SandboxMode;
use carton_tests::place::TestPlace;

const RUNNER: &str = env!("CARGO_BIN_EXE_carton-test-runner");

fn main() {
    for workers in [1, 2] {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap();
        runtime.block_on(empty_calls(workers));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(empty_calls(0));
    runtime.block_on(launches());
    runtime.block_on(confined_calls());
    runtime.block_on(confined_launches());
}

async fn empty_calls(workers: usize) {
    let place = TestPlace::new(RUNNER);
    let carton = place.pack_noop("").await;
    let model = place.load(&carton).await.unwrap();
    let mut echo = RawEcho::start();
    let (mut ours, mut bound) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        for _ in 0..200 {
            let start = Instant::now();
            model.infer(Inputs::none()).await.unwrap();
            ours.push(start.elapsed());
        }
        for _ in 0..200 {
            bound.push(echo.round_trip());
        }
    }
    let runtime = if workers == 0 { "current-thread".to_owned() } else { format!("{workers} workers") };
    report(&format!("empty infer ({runtime}) / raw echo"), &mut ours, &mut bound);
}

async fn launches() {
    let place = TestPlace::new(RUNNER);
    let carton = place.pack_noop("").await;
    let (mut ours, mut bound) = (Vec::new(), Vec::new());
    for _ in 0..50 {
        let start = Instant::now();
        let model = place.load(&carton).await.unwrap();
        model.infer(Inputs::none()).await.unwrap();
        ours.push(start.elapsed());
        drop(model);
        let start = Instant::now();
        RawEcho::start().round_trip();
        bound.push(start.elapsed());
    }
    report("load to first inference / start of a process to its first byte", &mut ours, &mut bound);
}

/// Calls of a confined model, beside those of one that is not.
async fn confined_calls() {
    let place = TestPlace::new(RUNNER);
    let carton = place.pack_noop("").await;
    let confined = place.load(&carton).sandbox(SandboxMode::On).await.unwrap();
    let free = place.load(&carton).sandbox(SandboxMode::Off).await.unwrap();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        for (model, times) in [(&confined, &mut with), (&free, &mut without)] {
            for _ in 0..200 {
                let start = Instant::now();
                model.infer(Inputs::none()).await.unwrap();
                times.push(start.elapsed());
            }
        }
    }
    report("empty infer: confined / not confined", &mut with, &mut without);
}

/// Loads of a confined model, beside those of one that is not.
async fn confined_launches() {
    let place = TestPlace::new(RUNNER);
    let carton = place.pack_noop("").await;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..50 {
        for (mode, times) in [(SandboxMode::On, &mut with), (SandboxMode::Off, &mut without)] {
            let start = Instant::now();
            let model = place.load(&carton).sandbox(mode).await.unwrap();
            model.infer(Inputs::none()).await.unwrap();
            times.push(start.elapsed());
        }
    }
    report("load to first inference: confined / not confined", &mut with, &mut without);
}

/// A child process that returns every byte.
struct RawEcho {
    socket: UnixStream,
    child: std::process::Child,
}

impl RawEcho {
    fn start() -> Self {
        let (socket, theirs) = UnixStream::pair().unwrap();
        let child = Command::new(RUNNER).arg("raw-echo").stdin(Stdio::from(OwnedFd::from(theirs))).spawn().unwrap();
        Self { socket, child }
    }

    fn round_trip(&mut self) -> Duration {
        let start = Instant::now();
        self.socket.write_all(&[1; 64]).unwrap();
        self.socket.read_exact(&mut [0; 64]).unwrap();
        start.elapsed()
    }
}

impl Drop for RawEcho {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let _ = self.child.wait();
    }
}

fn report(name: &str, ours: &mut [Duration], bound: &mut [Duration]) {
    let median = |times: &mut [Duration]| {
        times.sort();
        times[times.len() / 2]
    };
    let (ours, bound) = (median(ours), median(bound));
    println!("{name}: {ours:?} / {bound:?} = {:.2}", ours.as_secs_f64() / bound.as_secs_f64());
}
