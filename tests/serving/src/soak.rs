//! A long run of `carton serve` under full load, while clients leave in the middle of calls and runners are killed.
//!
//! Every answer must be right, or one that says the model is not available at the moment (503, UNAVAILABLE). Every request must be
//! answered in time, and the server must need as much memory and as many descriptors at the end as it does at the beginning.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use parking_lot::Mutex;
use rustix::process::Signal;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::Result;
use crate::case::{self, Case, Encoding, HEADER_LENGTH};
use crate::client::{Client, Outcome};
use crate::server::{self, Server};
use crate::subject::{self, Carton};

const N_CLIENTS: usize = 16;
/// How long an answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Time between the deaths of runners.
const KILL_INTERVAL: Duration = Duration::from_secs(10);
/// Time between samples of memory and descriptors.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);
/// One request in so many is left by its client.
const LEAVE_ONE_IN: u32 = 50;
/// How long a client waits after it was told that the model is not available.
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// What the server may grow by from the first samples to the last. An allocator keeps what it once needed, and a sample may find
/// connections that clients have just left.
const MEMORY_ALLOWANCE_MIB: u64 = 32;
const DESCRIPTOR_ALLOWANCE: u64 = N_CLIENTS as u64;
const PROCESS_ALLOWANCE: u64 = 2;

#[derive(Args)]
pub(crate) struct Options {
    /// How long
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// The program `carton` [default: the one beside this program]
    #[arg(long, env = "CARTON_PROGRAM")]
    carton: Option<PathBuf>,
    /// Further options of `carton serve`
    #[arg(last = true)]
    serve_options: Vec<String>,
}

/// Runs it, prints what was counted, and fails if anything was wrong.
pub(crate) async fn run(options: Options) -> Result<()> {
    let duration = Duration::from_secs_f64(60.0 * options.minutes);
    subject::make_models()?;
    let serve_options: Vec<&str> =
        ["--max-batch", "16"].into_iter().chain(options.serve_options.iter().map(String::as_str)).collect();
    let mut server = Carton::new(options.carton)?.start("soak", &["digits", "pixels"], &serve_options)?;
    let soak = Arc::new(Soak::default());
    let cases = [
        case::digits(Encoding::Json)?,
        case::digits(Encoding::Grpc)?,
        case::digits(Encoding::Binary)?,
        case::pixels(Encoding::Binary),
    ]
    .map(Arc::new);
    let addresses = server.addresses;
    let clients: Vec<_> = (0..N_CLIENTS)
        .map(|index| {
            let (soak, case) = (Arc::clone(&soak), Arc::clone(&cases[index % cases.len()]));
            tokio::spawn(async move { soak.client(addresses, &case).await })
        })
        .collect();

    let samples = soak.watch(&mut server, duration).await?;
    soak.is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await?;
    }
    let problems = soak.problems(&samples);
    for problem in &problems {
        println!("PROBLEM: {problem}");
    }
    if problems.is_empty() { Ok(()) } else { Err(format!("{} problems", problems.len()).into()) }
}

#[derive(Default)]
struct Soak {
    is_over: AtomicBool,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    n_right: u64,
    n_left: u64,
    /// Connections that the server closed between requests.
    n_closed: u64,
    n_killed: u64,
    /// Answers that the model is not available, by status.
    unavailable: BTreeMap<String, u64>,
    /// Everything that must not happen, with how often it did.
    wrong: BTreeMap<String, u64>,
    /// The longest time in which no client got a right answer.
    longest_outage: Duration,
    last_right: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Sample {
    /// Of the server's process, without its runners.
    memory: u64,
    n_descriptors: u64,
    /// Of the server and all that it started.
    n_processes: u64,
}

impl Soak {
    /// One client after the other, until the run is over.
    async fn client(&self, addresses: crate::client::Addresses, case: &Arc<Case>) {
        let mut client = None;
        while !self.is_over.load(Ordering::Relaxed) {
            if fastrand::u32(0..LEAVE_ONE_IN) == 0 {
                client = None;
                if let Err(error) = leave(addresses, case).await {
                    self.counts.lock().wrong(format!("no connection: {error}"));
                }
                self.counts.lock().n_left += 1;
            }
            let connected = match &mut client {
                Some(connected) => connected,
                empty => match Client::connect(addresses, case).await {
                    Ok(connected) => empty.insert(connected),
                    Err(error) => {
                        self.counts.lock().wrong(format!("no connection: {error}"));
                        tokio::time::sleep(RETRY_AFTER).await;
                        continue;
                    }
                },
            };
            match tokio::time::timeout(ANSWER_LIMIT, connected.call()).await {
                Ok(Outcome::Right(_)) => self.counts.lock().right(),
                Ok(Outcome::Status(status, _)) if status == "503" || status == "Unavailable" => {
                    *self.counts.lock().unavailable.entry(status).or_default() += 1;
                    tokio::time::sleep(RETRY_AFTER).await;
                }
                Ok(Outcome::Status(status, text)) => self.counts.lock().wrong(format!("{status}: {text}")),
                Ok(Outcome::Wrong(text)) => self.counts.lock().wrong(text),
                Ok(Outcome::Closed) => {
                    // Allowed between requests, such as after an answer to a request that was not read to its end.
                    self.counts.lock().n_closed += 1;
                    client = None;
                }
                Ok(Outcome::Broken(text)) => {
                    self.counts.lock().wrong(format!("the connection broke: {text}"));
                    client = None;
                }
                Err(_) => {
                    self.counts.lock().wrong(format!("no answer in {ANSWER_LIMIT:?}"));
                    client = None;
                }
            }
        }
    }

    /// Kills runners and takes samples until `duration` has passed.
    async fn watch(&self, server: &mut Server, duration: Duration) -> Result<Vec<Sample>> {
        let start = Instant::now();
        let mut next_kill = start + KILL_INTERVAL;
        let mut samples = Vec::new();
        while start.elapsed() < duration {
            tokio::time::sleep(SAMPLE_INTERVAL).await;
            if server.has_ended() {
                return Err("the server has ended".into());
            }
            samples.push(Sample::take(server)?);
            if Instant::now() >= next_kill {
                next_kill += KILL_INTERVAL;
                let leaves = server::leaves(server.id())?;
                match leaves.get(fastrand::usize(0..leaves.len().max(1))) {
                    Some(runner) => {
                        server::signal(runner.id, Signal::KILL);
                        self.counts.lock().n_killed += 1;
                    }
                    None => self.counts.lock().wrong("the server has no runner to kill".to_owned()),
                }
            }
        }
        Ok(samples)
    }

    /// Prints what was counted. Returns what must not be.
    fn problems(&self, samples: &[Sample]) -> Vec<String> {
        let counts = self.counts.lock();
        println!(
            "{} right answers, {} requests left, {} connections closed between requests, {} runners killed; longest time without a right answer {:.1?}",
            counts.n_right, counts.n_left, counts.n_closed, counts.n_killed, counts.longest_outage
        );
        for (status, count) in &counts.unavailable {
            println!("{status}: {count}");
        }
        let mut problems: Vec<String> = counts.wrong.iter().map(|(what, count)| format!("{count} x {what}")).collect();
        if counts.n_right == 0 {
            problems.push("no right answer at all".to_owned());
        }
        if counts.longest_outage > ANSWER_LIMIT {
            problems.push(format!("no right answer for {:.1?}", counts.longest_outage));
        }

        // The first tenth is warming up; the next one is compared with the last.
        let tenth = (samples.len() / 10).max(1);
        let first = &samples[tenth.min(samples.len())..(2 * tenth).min(samples.len())];
        let last = &samples[samples.len().saturating_sub(tenth)..];
        let mut compare = |name: &str, value: fn(&Sample) -> u64, limit: fn(u64) -> u64| {
            let (first, last) = (median(first, value), median(last, value));
            println!("{name}: first {first}, last {last}");
            if last > limit(first) {
                problems.push(format!("{name} grew from {first} to {last}"));
            }
        };
        compare("memory of the server in MiB", |sample| sample.memory >> 20, |first| first + MEMORY_ALLOWANCE_MIB);
        compare("descriptors of the server", |sample| sample.n_descriptors, |first| first + DESCRIPTOR_ALLOWANCE);
        compare("processes", |sample| sample.n_processes, |first| first + PROCESS_ALLOWANCE);
        problems
    }
}

impl Counts {
    fn right(&mut self) {
        let now = Instant::now();
        if let Some(last) = self.last_right.replace(now) {
            self.longest_outage = self.longest_outage.max(now - last);
        }
        self.n_right += 1;
    }

    fn wrong(&mut self, what: String) {
        // Texts with numbers in them could be as many as there are requests.
        if self.wrong.len() < 20 || self.wrong.contains_key(&what) {
            *self.wrong.entry(what).or_default() += 1;
        } else {
            *self.wrong.entry("others".to_owned()).or_default() += 1;
        }
    }
}

impl Sample {
    fn take(server: &Server) -> Result<Self> {
        Ok(Self {
            memory: server::memory(server.id()),
            n_descriptors: fs::read_dir(format!("/proc/{}/fd", server.id()))?.count() as u64,
            n_processes: server::tree(server.id())?.len() as u64,
        })
    }
}

fn median(samples: &[Sample], value: fn(&Sample) -> u64) -> u64 {
    let mut values: Vec<u64> = samples.iter().map(value).collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// Sends a request, or a part of it, and leaves without the answer.
async fn leave(addresses: crate::client::Addresses, case: &Arc<Case>) -> Result<()> {
    let pause = Duration::from_micros(fastrand::u64(0..3000));
    if case.encoding == Encoding::Grpc {
        let mut client = Client::connect(addresses, case).await?;
        // The call is cancelled, and the connection closed.
        let _ = tokio::time::timeout(pause, client.call()).await;
        return Ok(());
    }
    let request = case.http_request()?;
    let header = request.header_length.map(|length| format!("{HEADER_LENGTH}: {length}\r\n")).unwrap_or_default();
    let head = format!(
        "POST /v2/models/{}/infer HTTP/1.1\r\nhost: localhost\r\n{header}content-length: {}\r\n\r\n",
        case.model,
        request.body.len()
    );
    let mut bytes = [head.as_bytes(), &request.body].concat();
    if fastrand::bool() {
        bytes.truncate(fastrand::usize(0..bytes.len()));
    }
    let mut stream = TcpStream::connect(addresses.of(case.encoding)?).await?;
    // The server may refuse a request that is not whole before all of it is sent.
    let _ = tokio::time::timeout(ANSWER_LIMIT, stream.write_all(&bytes)).await?;
    tokio::time::sleep(pause).await;
    Ok(())
}
