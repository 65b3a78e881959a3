//! Tests with real processes: the shell plays runners that end in various ways.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::*;
use crate::runner::ModelFilesMode;

/// How long the end of a process may take to be reported on a busy machine. A hang takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

fn descriptor(path: &str, args: &[&str]) -> Descriptor {
    Descriptor {
        runner_name: "shell".to_owned(),
        framework_version: semver::Version::new(1, 0, 0),
        runner_compat_version: 1,
        runner_interface_version: 2,
        runner_release_date: crate::runner::ReleaseDate::default(),
        runner_path: path.into(),
        args: args.iter().map(|&arg| arg.to_owned()).collect(),
        platform: String::new(),
        files: ModelFilesMode::Directory,
        environment: Vec::new(),
        sandbox: crate::runner::SandboxNeeds::default(),
        prepare: None,
        library: None,
        folder: None,
    }
}

/// The tests of this crate have no launcher.
fn unconfined() -> LaunchPolicy {
    LaunchPolicy { sandbox: Some(SandboxMode::Off), ..LaunchPolicy::default() }
}

fn shell(script: &str) -> (UnixStream, Process, mpsc::Receiver<Exit>) {
    let (send, receive) = mpsc::channel();
    let (socket, process) =
        launch(&descriptor("/bin/sh", &["-c", script]), &unconfined(), &Access::default(), move |exit| {
            let _ = send.send(exit);
        })
        .unwrap();
    (socket.into(), process, receive)
}

#[test]
fn the_end_of_a_runner_is_reported_with_its_last_words() {
    let check = |script: &str, status: &str, stderr: &[&str]| {
        let (_socket, _process, exit) = shell(script);
        let exit = exit.recv_timeout(PATIENCE).unwrap();
        assert_eq!(exit.status, status);
        assert_eq!(exit.stderr, stderr);
    };
    check("exit 3", "exit status 3", &[]);
    check(
        "echo one >&2; echo two >&2; echo to stdout; printf three >&2; exit 1",
        "exit status 1",
        &["one", "two", "three"],
    );
    check("kill -9 $$", "killed by signal 9", &[]);
    check("printf 'a\\033[2Jb\\n' >&2", "exit status 0", &["a\\u{1b}[2Jb"]);
}

#[test]
fn only_the_end_of_long_output_is_kept() {
    let (_socket, _process, exit) = shell("i=0; while [ $i -lt 1000 ]; do echo line $i >&2; i=$((i+1)); done");
    let stderr = exit.recv_timeout(PATIENCE).unwrap().stderr;
    assert_eq!(stderr.len(), 20);
    assert_eq!(stderr.last().map(String::as_str), Some("line 999"));
}

/// A child that outlives its parent keeps the socket and the pipes open. The death of the parent must still be noticed.
#[test]
fn a_runner_that_forked_and_died_leaves_nothing_behind() {
    let (mut socket, _process, exit) = shell("sleep 1000 & echo $! >&2; exit 0");
    let exit = exit.recv_timeout(PATIENCE).unwrap();
    let child = Path::new("/proc").join(&exit.stderr[0]);
    let deadline = Instant::now() + PATIENCE;
    // A killed orphan stays a zombie until init reaps it. An empty command line therefore counts as dead too.
    while std::fs::read(child.join("cmdline")).is_ok_and(|line| !line.is_empty()) {
        assert!(Instant::now() < deadline, "the child lives on");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(socket.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_dropped_process_ends() {
    let (socket, process, exit) = shell("trap '' TERM; sleep 1000");
    let start = Instant::now();
    drop(process);
    let exit = exit.recv_timeout(PATIENCE).unwrap();
    assert_eq!(exit.status, "killed by signal 9");
    assert!(start.elapsed() >= STOP_GRACE);
    drop(socket);
}

#[test]
fn a_runner_may_end_by_itself_when_its_host_is_done() {
    let (socket, process, exit) = shell("cat >/dev/null; exit 7");
    drop(socket);
    drop(process);
    assert_eq!(exit.recv_timeout(PATIENCE).unwrap().status, "exit status 7");
}

#[test]
fn killing_twice_or_late_is_harmless() {
    let (_socket, process, exit) = shell("sleep 1000");
    process.kill();
    process.kill();
    assert_eq!(exit.recv_timeout(PATIENCE).unwrap().status, "killed by signal 9");
    process.kill();
}

#[test]
fn what_cannot_be_started_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for path in ["/does/not/exist", file.path().to_str().unwrap()] {
        let Err(error) = launch(&descriptor(path, &[]), &unconfined(), &Access::default(), |_| {}) else {
            panic!("{path} was started");
        };
        assert!(error.to_string().contains(path), "{error}");
    }
}

/// Returns whether a runner is seen as stuck within `limit`, if half a second without progress is.
async fn is_stuck(script: &str, limit: Duration) -> bool {
    let (_socket, process, exit) = shell(script);
    let is_stuck = tokio::time::timeout(limit, process.until_stuck(Duration::from_millis(500))).await.is_ok();
    // Or the scripts that work would do so for as long as the machine is up, if the tests end before the grace of a runner.
    process.kill();
    exit.recv_timeout(PATIENCE).unwrap();
    is_stuck
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn only_a_runner_without_progress_is_stuck() {
    assert!(is_stuck("sleep 1000", PATIENCE).await);
    assert!(is_stuck("kill -STOP $$", PATIENCE).await);
    assert!(!is_stuck("while :; do :; done", Duration::from_secs(2)).await);
    // A process below it that does something is enough.
    assert!(!is_stuck("(while :; do :; done) & wait", Duration::from_secs(2)).await);
}
