//! Memory, descriptors and processor time: how much is used, and that it is given back. Linux only: all of it is read from `/proc`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use carton_core::Carton;
use carton_tensor::{DataType, Tensor};
use rustix::process::{Pid, Signal, kill_process};

use super::stage::{chain, check_echo, check_same, floats};
use super::{Model, Stage};
use crate::census::Census;

const MIB: u64 = 1 << 20;

/// Returns a field of `/proc/…/status`, in bytes; 0 if the process has ended.
fn memory(process: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10)
}

fn n_descriptors(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

/// Returns the processor time of a process in clock ticks, in user mode and in the kernel.
fn ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// The peak of the processes' anonymous memory while they are watched.
struct Peak {
    peak: Arc<[AtomicU64; 2]>,
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Peak {
    fn watch(processes: [u32; 2]) -> Self {
        let (peak, stop) = (Arc::new([AtomicU64::new(0), AtomicU64::new(0)]), Arc::new(AtomicBool::new(false)));
        let thread = std::thread::spawn({
            let (peak, stop) = (Arc::clone(&peak), Arc::clone(&stop));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    for (peak, process) in peak.iter().zip(processes) {
                        peak.fetch_max(memory(process, "RssAnon"), Ordering::Relaxed);
                    }
                    std::thread::sleep(Duration::from_millis(3));
                }
            }
        });
        Self { peak, stop, thread }
    }

    fn end(self) -> [u64; 2] {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        [0, 1].map(|index| self.peak[index].load(Ordering::Relaxed))
    }
}

pub async fn a_gibibyte(stage: &Stage) {
    const N_BYTES: usize = 1 << 30;
    if !stage.subject.shares_memory() {
        return stage.skip("a gibibyte: it takes no shared memory, and frames are smaller");
    }
    let model = stage.subject.echo(DataType::Float32);
    let carton = stage.load(&model).await;
    check_echo(&carton, &model, floats(10, 0)).await;
    let process = stage.process();
    let before = [std::process::id(), process].map(|process| memory(process, "RssAnon"));
    let peak = Peak::watch([std::process::id(), process]);
    let mut tensor = carton.alloc_dtype(DataType::Float32, &[N_BYTES / 4]).await.unwrap();
    // Each mebibyte differs from the others.
    let block: Vec<u8> = (0..1 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (number, part) in tensor.bytes_mut().unwrap().chunks_mut(block.len()).enumerate() {
        part.copy_from_slice(&block);
        part[..4].copy_from_slice(&(number as u32).to_le_bytes());
    }
    let start = Instant::now();
    let outputs = match carton.infer([("x", tensor.clone())]).await {
        Ok(outputs) => outputs,
        Err(error) => panic!("{}", chain(&error)),
    };
    let elapsed = start.elapsed();
    check_same(&outputs.as_tensors()[model.output], &Tensor::Numeric(tensor.clone()));
    drop(outputs);
    let peak = peak.end();
    let grown = [0, 1].map(|side| peak[side].saturating_sub(before[side]) / MIB);
    println!(
        "{}: a gibibyte in {elapsed:.2?}; host {} MiB, runner {} MiB more",
        stage.subject.name(),
        grown[0],
        grown[1]
    );
    assert!(grown[0] < 100, "the host took {} MiB of its own", grown[0]);
    assert!(grown[1] < stage.subject.n_copies() * 1024 + 100, "the runner took {} MiB of its own", grown[1]);
    drop(tensor);
    // Afterwards tensors as large as before can be sent.
    check_echo(&carton, &model, floats(1_000_000, 1)).await;
}

/// The resources that the runner and this process hold.
#[derive(Debug)]
struct Held {
    n_descriptors: [usize; 2],
    n_maps: usize,
    anonymous: u64,
}

impl Held {
    fn now(stage: &Stage) -> Self {
        let process = stage.process();
        let host = Census::take();
        Self {
            n_descriptors: [host.descriptors.len(), n_descriptors(process)],
            n_maps: host.maps.len(),
            anonymous: memory(process, "RssAnon") + memory(std::process::id(), "RssAnon"),
        }
    }

    /// Checks that both hold the same as before. Once, a connection may get a second descriptor for its writer, or a pool another
    /// region; allocators keep some mebibytes.
    fn check(&self, stage: &Stage) {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let now = Self::now(stage);
            let grown = now.anonymous.saturating_sub(self.anonymous) / MIB;
            let is_restored = (0..2).all(|side| now.n_descriptors[side] <= self.n_descriptors[side] + 2);
            if is_restored && now.n_maps <= self.n_maps + 2 && grown <= stage.subject.kept_memory() {
                return;
            }
            assert!(Instant::now() < deadline, "{}: held {self:?}, holds {now:?}", stage.subject.name());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Loads a model with room for only a few large inputs, so that every buffer has to be given back.
async fn narrow(stage: &Stage, model: &Model) -> Carton {
    let loading = stage.loading(model).await.pool_bytes(8 << 20);
    loading.await.unwrap_or_else(|error| panic!("{}", chain(&error)))
}

pub async fn many_calls_leave_nothing(stage: &Stage) {
    let model = stage.subject.echo(DataType::Float32);
    let carton = narrow(stage, &model).await;
    let (small, large) = (floats(100, 0), floats(50_000, 1));
    let mut held = None;
    for number in 0..1500 {
        check_echo(&carton, &model, if number % 4 == 0 { large.clone() } else { small.clone() }).await;
        if number == 500 {
            held = Some(Held::now(stage));
        }
    }
    held.unwrap().check(stage);
}

/// Yields to other tasks `n_turns` times.
async fn turns(n_turns: usize) {
    for _ in 0..n_turns {
        tokio::task::yield_now().await;
    }
}

fn pid(process: u32) -> Pid {
    Pid::from_raw(process.try_into().unwrap()).unwrap()
}

/// Stops a process, and waits until each of its threads has stopped.
async fn stop(process: u32) {
    let is_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
        // A thread may end meanwhile.
        let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with('T'))
    };
    kill_process(pid(process), Signal::STOP).unwrap();
    let start = Instant::now();
    while !std::fs::read_dir(format!("/proc/{process}/task")).unwrap().all(is_stopped) {
        assert!(start.elapsed() < Duration::from_secs(60), "process {process} does not stop");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub async fn a_thousand_dropped_calls_leave_nothing(stage: &Stage) {
    let model = stage.subject.echo(DataType::Float32);
    let carton = narrow(stage, &model).await;
    let (small, large) = (floats(100, 0), floats(250_000, 1));
    for _ in 0..50 {
        check_echo(&carton, &model, large.clone()).await;
    }
    let process = stage.process();
    let held = Held::now(stage);
    let input = |number: usize| if number.is_multiple_of(4) { large.clone() } else { small.clone() };
    // Some of these are dropped while the runner works on them. One that answers at once leaves few.
    for number in 0..1000 {
        let expected = input(number);
        tokio::select! {
            biased;
            outputs = carton.infer([("x", expected.clone())]) => check_same(&outputs.unwrap().as_tensors()[model.output], &expected),
            () = turns(number % 3) => {}
        }
    }
    // All of these are dropped before their answer, because the runner does not run meanwhile.
    for _ in 0..100 {
        stop(process).await;
        for number in 0..10 {
            tokio::select! {
                biased;
                _ = carton.infer([("x", input(number))]) => panic!("a stopped runner has answered"),
                () = turns(number % 3) => {}
            }
        }
        kill_process(pid(process), Signal::CONT).unwrap();
        check_echo(&carton, &model, large.clone()).await;
    }
    assert_eq!(stage.process(), process, "nothing is killed because calls are dropped");
    held.check(stage);
}

pub async fn an_idle_runner_rests(stage: &Stage) {
    let model = stage.subject.echo(DataType::Float32);
    let carton = stage.load(&model).await;
    for _ in 0..3 {
        check_echo(&carton, &model, floats(50_000, 0)).await;
    }
    let process = stage.process();
    // A thread of the framework may end in any one second. A runner that polls is busy in all three, so one quiet second is enough.
    let mut worked = Vec::new();
    for _ in 0..3 {
        let before = ticks(process);
        tokio::time::sleep(Duration::from_secs(1)).await;
        worked.push(ticks(process) - before);
    }
    // A tick is 10 ms.
    assert!(worked.iter().any(|&ticks| ticks <= 1), "an idle runner worked for {worked:?} ticks in three seconds");
    drop(carton);
}
