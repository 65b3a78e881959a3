//! Round trips through the no-op runner in another process, beside what they cannot be faster than.
//!
//! `cargo bench -p carton-runner-interface` prints one line a case: its median, and its ratio to the case it is compared
//! with. Cases are measured in turns within one run, because the machine's speed changes from minute to minute.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use carton_runner_interface::Tensors;
use carton_runner_interface::host::{CallOptions, Connection, ConnectionOptions, Files, LoadRequest};
use carton_tensor::{DataType, NumericTensor, Tensor};
use serde_json::json;
use tokio::runtime::Runtime;

const RAW_ECHO: &str = "--raw-echo";
const RUNNER: &str = "--runner";
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// Bytes of the message that the raw echo sends back and forth, about as long as an empty call.
const ECHO_LENGTH: usize = 64;
const ROUNDS: usize = 15;

fn main() {
    let argument = std::env::args().nth(1);
    match argument.as_deref() {
        Some(RAW_ECHO) => return raw_echo(),
        Some(RUNNER) => {
            // It ends with the process; there is no status to be passed on.
            let _ = carton_noop_runner::run();
            return;
        }
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let mut bench = Bench { runtime, samples: BTreeMap::new(), order: Vec::new() };
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    bench.run(&filter);
}

/// The other end of the raw echo: the fastest thing a socket can do.
fn raw_echo() {
    let mut socket = UnixStream::from(std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned().unwrap());
    let mut buffer = [0; ECHO_LENGTH];
    while socket.read_exact(&mut buffer).is_ok() {
        socket.write_all(&buffer).unwrap();
    }
}

fn start(argument: &str) -> (Child, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .arg(argument)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .unwrap();
    (child, ours)
}

struct Bench {
    runtime: Runtime,
    samples: BTreeMap<String, Vec<Duration>>,
    order: Vec<String>,
}

impl Bench {
    fn record(&mut self, name: &str, calls: usize, mut call: impl FnMut(&Runtime)) {
        if !self.samples.contains_key(name) {
            self.order.push(name.to_owned());
        }
        let samples = self.samples.entry(name.to_owned()).or_default();
        for _ in 0..calls {
            let started = Instant::now();
            call(&self.runtime);
            samples.push(started.elapsed());
        }
    }

    fn median(&mut self, name: &str) -> Duration {
        let samples = self.samples.get_mut(name).unwrap();
        samples.sort();
        samples[samples.len() / 2]
    }

    fn connect(&self, options: serde_json::Value, host: ConnectionOptions) -> (Child, Connection) {
        let (child, socket) = start(RUNNER);
        let connection = self.runtime.block_on(async {
            let connection = Connection::open(socket.into(), host).await.unwrap();
            let request = LoadRequest {
                files: Files::Directory(PathBuf::from("/nowhere")),
                options: serde_json::from_value(options).unwrap(),
                device: None,
                inputs: Vec::new(),
                outputs: Vec::new(),
            };
            connection.load(request, CallOptions::default()).await.unwrap();
            connection
        });
        (child, connection)
    }

    fn run(&mut self, filter: &str) {
        let (mut echo_child, mut echo) = start(RAW_ECHO);
        let (mut noop_child, noop) = self.connect(json!({}), ConnectionOptions::default());
        let (mut copy_child, copy) = self.connect(json!({"copy": true}), ConnectionOptions::default());
        let frames_only = ConnectionOptions { shared_memory: false, ..ConnectionOptions::default() };
        let (mut frames_child, frames) = self.connect(json!({}), frames_only);

        let sizes = [("1 KB", KIB, 200), ("1 MB", MIB, 50), ("64 MB", 64 * MIB, 3), ("512 MB", 512 * MIB, 1)];
        let sizes: Vec<_> = sizes.into_iter().filter(|(name, ..)| name.contains(filter) || filter.is_empty()).collect();
        let pooled: Vec<Tensors> = sizes
            .iter()
            .map(|&(_, size, _)| {
                let tensor = self.runtime.block_on(noop.alloc(DataType::Uint8, &[size])).unwrap();
                named(filled(tensor))
            })
            .collect();
        let heap: Vec<Tensors> = sizes
            .iter()
            .map(|&(_, size, _)| named(NumericTensor::from_vec(vec![1_u8; size], vec![size]).unwrap()))
            .collect();
        // Elements of a dtype that format version 1 lacks travel as they are.
        let halves = self.runtime.block_on(noop.alloc(DataType::Float16, &[32 * MIB])).unwrap();
        let halves = named(filled(halves));
        let no_halves = named(NumericTensor::zeroed(DataType::Float16, vec![0]).unwrap());
        let to_copy = self.runtime.block_on(copy.alloc(DataType::Uint8, &[64 * MIB])).unwrap();
        let to_copy = named(filled(to_copy));
        for _ in 0..ROUNDS {
            self.record("raw socket echo", 1000, |_| {
                let mut buffer = [7; ECHO_LENGTH];
                echo.write_all(&buffer).unwrap();
                echo.read_exact(&mut buffer).unwrap();
            });
            self.record("empty call", 1000, |runtime| infer(runtime, &noop, &Tensors::new()));
            self.record("no float16", 1000, |runtime| infer(runtime, &noop, &no_halves));
            self.record("64 MB of float16 from the pool", 1000, |runtime| infer(runtime, &noop, &halves));
            for (index, &(name, _, calls)) in sizes.iter().enumerate() {
                self.record(&format!("{name} from the pool"), calls.max(50), |runtime| {
                    infer(runtime, &noop, &pooled[index]);
                });
                self.record(&format!("{name} copied in"), calls, |runtime| infer(runtime, &noop, &heap[index]));
                if name != "512 MB" {
                    self.record(&format!("{name} in frames"), calls, |runtime| infer(runtime, &frames, &heap[index]));
                }
            }
            self.record("64 MB read and written", 4, |runtime| infer(runtime, &copy, &to_copy));
            self.record("64 MB read and written in-process", 4, |_| {
                let input = to_copy["x"].as_numeric().unwrap().bytes();
                black_box(input.to_vec());
            });
        }
        self.throughput(&noop);
        let mut target = vec![0_u8; 64 * MIB];
        self.record("64 MB read and written in-process, memory reused", 40, |_| {
            target.copy_from_slice(to_copy["x"].as_numeric().unwrap().bytes());
            black_box(&target);
        });
        self.report();
        drop((noop, copy, frames, echo));
        for child in [&mut echo_child, &mut noop_child, &mut copy_child, &mut frames_child] {
            child.wait().unwrap();
        }
    }

    /// Empty calls a second with many of them in flight.
    fn throughput(&self, connection: &Connection) {
        const TASKS: usize = 64;
        const CALLS: usize = 1000;
        let started = Instant::now();
        self.runtime.block_on(async {
            let tasks: Vec<_> = (0..TASKS)
                .map(|_| {
                    let connection = connection.clone();
                    tokio::spawn(async move {
                        for _ in 0..CALLS {
                            connection.infer(Tensors::new(), CallOptions::default()).await.unwrap();
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        let rate = (TASKS * CALLS) as f64 / started.elapsed().as_secs_f64();
        println!("{TASKS} calls in flight: {rate:.0} empty calls a second");
    }

    fn report(&mut self) {
        let echo = self.median("raw socket echo");
        let empty = self.median("empty call");
        for name in self.order.clone() {
            let median = self.median(&name);
            let ratio = |base: Duration| median.as_secs_f64() / base.as_secs_f64();
            println!(
                "{name:<50} {:>12.1} us   {:>8.2} x echo   {:>8.2} x empty call",
                median.as_secs_f64() * 1e6,
                ratio(echo),
                ratio(empty)
            );
        }
        let copied = self.median("64 MB read and written");
        for name in ["64 MB read and written in-process", "64 MB read and written in-process, memory reused"] {
            let bound = self.median(name) + empty;
            println!(
                "64 MB read and written: {:.2} x ({name} + an empty call)",
                copied.as_secs_f64() / bound.as_secs_f64()
            );
        }
    }
}

fn infer(runtime: &Runtime, connection: &Connection, inputs: &Tensors) {
    let outputs = runtime.block_on(connection.infer(inputs.clone(), CallOptions::default())).unwrap();
    black_box(&outputs);
}

fn filled(mut tensor: NumericTensor) -> NumericTensor {
    tensor.bytes_mut().unwrap().fill(3);
    tensor
}

fn named(tensor: NumericTensor) -> Tensors {
    Tensors::from([("x".to_owned(), Tensor::from(tensor))])
}
