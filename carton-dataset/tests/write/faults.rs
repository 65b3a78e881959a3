//! Killed processes and full disks.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use carton_dataset::index::IndexLayout;
use carton_dataset::{CommitOptions, Manifest, TailStrategy, TaskWriter, WriteOptions, commit};

use crate::support::{batch_mode, dataset, files, labels, rows, told};

const JOB: &str = "CARTON_DATASET_TEST_JOB";
const ROWS: usize = 300;

fn options() -> WriteOptions {
    let job = Some(uuid::Uuid::from_u128(1));
    WriteOptions { index: Some(IndexLayout::Folder), job, ..batch_mode(1, TailStrategy::Write) }
}

/// Writes the rows `ROWS * task..` as one shard.
fn write_task(folder: &Path, task: u32) -> uuid::Uuid {
    let mut writer = TaskWriter::create(folder, &rows(0, 0).schema(), &options(), task).unwrap();
    for row in 0..ROWS {
        writer.write(&rows(ROWS * task as usize + row, 1)).unwrap();
    }
    writer.finish().unwrap().attempt
}

/// The job of a child process of the tests below. Not a test itself.
#[test]
fn child() {
    let Ok(job) = std::env::var(JOB) else { return };
    let (kind, argument) = job.split_once(':').unwrap();
    let wait = || {
        println!("ready");
        std::io::stdin().read_line(&mut String::new()).unwrap();
    };
    match kind {
        "write" => {
            let (task, folder) = argument.split_once(':').unwrap();
            wait();
            write_task(Path::new(folder), task.parse().unwrap());
        }
        "commit" => {
            let (overwrite, folder) = argument.split_once(':').unwrap();
            wait();
            commit(Path::new(folder), &commit_options(overwrite == "true")).unwrap();
        }
        "full" => {
            let folder = Path::new(argument).join("dataset");
            let batches = (0..1000).map(|batch| rows(batch * 1000, 1000));
            let error = dataset(&folder, &batch_mode(10_000, TailStrategy::Write), batches).unwrap_err();
            assert_eq!(files(&folder), [] as [&str; 0]);
            println!("error {}", told(&error));
        }
        _ => panic!("{job}"),
    }
}

fn job(job: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["faults::child", "--exact", "--nocapture"]).env(JOB, job);
    command
}

/// Starts a job in a child process, and lets it continue when it is ready.
fn start(kind_and_argument: &str) -> Child {
    let mut child = job(kind_and_argument).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("ready") {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "the child has ended");
    }
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    // Reads the rest of its output, so that the child never blocks on it.
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    child
}

/// Fractions of a duration, from zero to a little more than all of it.
fn moments(n_rounds: u32) -> impl Iterator<Item = f64> {
    (0..n_rounds).map(move |round| 1.3 * f64::from(round) / f64::from(n_rounds))
}

fn commit_options(overwrite: bool) -> CommitOptions {
    CommitOptions { index: Some(IndexLayout::Folder), overwrite, ..CommitOptions::default() }
}

#[test]
fn a_writer_killed_at_any_moment_leaves_nothing_that_looks_whole() {
    let whole = tempfile::tempdir().unwrap();
    let started = Instant::now();
    write_task(whole.path(), 0);
    let most = started.elapsed();
    let mut n_killed_before_the_end = 0;
    for moment in moments(10) {
        let folder = tempfile::tempdir().unwrap();
        let mut child = start(&format!("write:0:{}", folder.path().display()));
        let mut other = start(&format!("write:1:{}", folder.path().display()));
        std::thread::sleep(most.mul_f64(moment));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(files(folder.path()).is_empty() || files(folder.path()) == ["_tasks"]);
        let attempts = || files(&folder.path().join("_tasks")).into_iter().filter(|name| name.starts_with("00000-"));
        let is_complete = |name: &String| folder.path().join("_tasks").join(name).join("task.json").exists();
        n_killed_before_the_end += u32::from(!attempts().any(|name| is_complete(&name)));
        assert!(other.wait().unwrap().success());
        write_task(folder.path(), 0);
        commit(folder.path(), &CommitOptions::default()).unwrap();
        assert_eq!(labels(folder.path()), (0..2 * ROWS as i64).collect::<Vec<_>>());
    }
    assert!(n_killed_before_the_end > 0);
}

#[test]
fn a_commit_killed_at_any_moment_is_finished_by_the_next() {
    let (mut n_without, mut n_whole) = (0, 0);
    for overwrite in [false, true] {
        let mut most = Duration::ZERO;
        for moment in moments(16) {
            let folder = tempfile::tempdir().unwrap();
            if overwrite {
                dataset(folder.path(), &options(), [rows(5000, 3)]).unwrap();
            }
            let options = WriteOptions { overwrite, ..options() };
            let mut attempts = Vec::new();
            for task in 0..2 {
                let mut writer = TaskWriter::create(folder.path(), &rows(0, 0).schema(), &options, task).unwrap();
                writer.write(&rows(ROWS * task as usize, ROWS)).unwrap();
                attempts.push(writer.finish().unwrap().attempt);
            }
            let mut child = start(&format!("commit:{overwrite}:{}", folder.path().display()));
            let started = Instant::now();
            // The first one runs undisturbed, to measure how long it takes.
            if most > Duration::ZERO {
                std::thread::sleep(most.mul_f64(moment));
                child.kill().unwrap();
            }
            child.wait().unwrap();
            if most == Duration::ZERO {
                most = started.elapsed();
            }
            let old = |shard: &str| {
                overwrite && shard.starts_with("part-") && attempts.iter().all(|id| !shard.contains(&id.to_string()))
            };
            match std::fs::read(folder.path().join("dataset_manifest.json")) {
                Ok(json) => {
                    for shard in Manifest::parse(&json).unwrap().shards() {
                        n_whole += u32::from(!old(&shard.shard_path));
                        let found = folder.path().join(&shard.shard_path).metadata().unwrap().len();
                        assert_eq!(found, shard.bytes);
                    }
                }
                Err(_) => n_without += 1,
            }
            let again = CommitOptions { attempts: Some(attempts.clone()), ..commit_options(overwrite) };
            commit(folder.path(), &again).unwrap();
            assert_eq!(labels(folder.path()), (0..2 * ROWS as i64).collect::<Vec<_>>());
            let index = carton_dataset::index::read(&folder.path().join("_tensor_index.parquet")).unwrap();
            assert_eq!(index.rows().len(), 4 * ROWS);
        }
    }
    assert!(
        n_without > 0 && n_whole > 0,
        "killed before the manifest {n_without} times, {n_whole} shards of whole ones"
    );
}

/// Runs a job under another command, and returns the job's error; `None` if that command does not work here.
fn error_under(command: &[&str], folder: &Path) -> Option<String> {
    let (program, arguments) = command.split_first().unwrap();
    let executable: PathBuf = std::env::current_exe().unwrap();
    let output = Command::new(program)
        .args(arguments)
        .arg(executable)
        .args(["faults::child", "--exact", "--nocapture"])
        .env(JOB, format!("full:{}", folder.display()))
        .output()
        .ok()?;
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let error = out.lines().find_map(|line| line.split_once("error ").map(|(_, error)| error.to_owned()));
    if error.is_none() {
        eprintln!("skipped: `{}` ended with {}, saying: {out}{errors}", command.join(" "), output.status);
    }
    error
}

#[test]
fn a_full_disk_is_reported_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display().to_string();
    let mount = format!("mount -t tmpfs -o size=1m none {place} && exec \"$@\"");
    // A file system of its own, which disappears with the process.
    if let Some(error) =
        error_under(&["unshare", "--mount", "--map-root-user", "sh", "-c", &mount, "sh"], folder.path())
    {
        assert!(error.contains(".safetensors.partial`: No space left on device"), "{error}");
    }
    // The system's limit on file sizes, with its signal ignored.
    let limit = "trap '' XFSZ; ulimit -f 100; exec \"$@\"";
    let error = error_under(&["sh", "-c", limit, "sh"], folder.path()).unwrap();
    assert!(error.contains(".safetensors.partial`: File too large"), "{error}");
    assert!(error.contains(&place), "{error}");
}
