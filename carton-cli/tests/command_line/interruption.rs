//! Signals: interrupted commands leave nothing behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Output};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::runners::install_script;
use crate::sandbox::{Sandbox, names};

/// The timeout for everything in this file.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether the process has an open file in the folder, even an unnamed one.
pub(crate) fn has_open_file_in(child: &Child, folder: &Path) -> bool {
    let folder = fs::canonicalize(folder).unwrap();
    let open = fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap();
    open.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target.starts_with(&folder)))
}

pub(crate) fn interrupt(mut child: Child, signal: Signal) -> Output {
    assert!(child.try_wait().unwrap().is_none(), "it ended before it was interrupted");
    kill_process(Pid::from_child(&child), signal).unwrap();
    wait_until("the end", || child.try_wait().unwrap().is_some());
    child.wait_with_output().unwrap()
}

#[test]
fn an_interrupted_pack_leaves_nothing() {
    for signal in [Signal::INT, Signal::TERM] {
        let sandbox = Sandbox::new();
        let model = sandbox.write("model.bin", "");
        // Too large to be packed before the signal arrives, and sparse, so that it takes no disk space.
        fs::File::options().write(true).open(&model).unwrap().set_len(64 << 30).unwrap();
        fs::create_dir(sandbox.work().join("out")).unwrap();
        let arguments = ["pack", "model.bin", "--runner", "noop", "--compression", "deflate", "-o", "out/model.carton"];
        let child = sandbox.command(arguments).spawn().unwrap();
        let out = sandbox.work().join("out");
        wait_until("the unfinished carton", || has_open_file_in(&child, &out));
        let output = interrupt(child, signal);
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "error: interrupted\n");
        assert_eq!(names(&out), [""; 0]);
        assert_eq!(names(&sandbox.temporary()), [""; 0]);
    }
}

/// An unnamed file disappears with its process.
#[test]
fn a_killed_conversion_leaves_nothing() {
    let sandbox = Sandbox::new();
    let header = br#"{"x":{"dtype":"U8","shape":[536870912],"data_offsets":[0,536870912]}}"#;
    let source = sandbox.write("x.safetensors", [&(header.len() as u64).to_le_bytes(), header.as_slice()].concat());
    // The numbers are a hole, which takes no disk space.
    let length = 8 + header.len() as u64 + (512 << 20);
    fs::File::options().write(true).open(&source).unwrap().set_len(length).unwrap();
    let out = sandbox.work().join("out");
    fs::create_dir(&out).unwrap();
    let child = sandbox.command(["tensor", "convert", "x.safetensors", "out/x.zt"]).spawn().unwrap();
    wait_until("the unfinished file", || has_open_file_in(&child, &out));
    interrupt(child, Signal::KILL);
    assert_eq!(names(&out), [""; 0]);
}

/// The work ends by itself. Otherwise the command would wait for it, as long as it waits for anything.
#[test]
fn an_interrupted_validation_ends_at_once() {
    let sandbox = Sandbox::new();
    let header = br#"{"x":{"dtype":"F32","shape":[1073741824],"data_offsets":[0,4294967296]}}"#;
    let source = sandbox.write("x.safetensors", [&(header.len() as u64).to_le_bytes(), header.as_slice()].concat());
    // The numbers are a hole, which takes no disk space.
    let length = 8 + header.len() as u64 + (4 << 30);
    fs::File::options().write(true).open(&source).unwrap().set_len(length).unwrap();
    let model = "version = 1\nname = 'x'\ndtypes = ['float32']\ntensors = [{ name = 'x', shape = [1073741824] }]\n";
    sandbox.write("x.toml", model);
    let child = sandbox.command(["tensor", "validate", "x.safetensors", "--model", "x.toml"]).spawn().unwrap();
    wait_until("the open file", || has_open_file_in(&child, &sandbox.work()));
    std::thread::sleep(Duration::from_millis(200));
    let started = Instant::now();
    let output = interrupt(child, Signal::INT);
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
}

#[test]
fn a_pack_that_is_interrupted_in_a_self_test_leaves_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    sandbox.write(
        "metadata.toml",
        "input = []\noutput = []\n[[self_test]]\ninputs = {}\n[runner]\nrunner_name = 'noop'\n\
         [runner.opts]\ndelay_ms = 600000\nignore_cancel = true\nlog = 'started'\n",
    );
    fs::create_dir(sandbox.work().join("out")).unwrap();
    let mut child =
        sandbox.command("pack model.bin --metadata metadata.toml -o out/m.carton -v".split(' ')).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("started") {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "the self-test never started");
    }
    let output = interrupt(child, Signal::INT);
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(names(&sandbox.work().join("out")), [""; 0]);
    assert_eq!(names(&sandbox.temporary()), [""; 0]);
}

#[test]
fn a_running_call_is_interrupted_at_once() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    let arguments =
        "run model.bin --runner noop -i x=1 --opt delay_ms=600000 --opt ignore_cancel=true --opt log=started -v";
    let mut child = sandbox.command(arguments.split(' ')).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("started") {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "the call never started");
    }
    let start = Instant::now();
    let output = interrupt(child, Signal::INT);
    assert_eq!(output.status.code(), Some(130));
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
}

#[test]
fn an_interrupted_run_leaves_no_runner() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    install_script(&sandbox, "hanging", 2, "exec sleep 1000");
    for mode in ["on", "off"] {
        let arguments = ["run", "model.bin", "--runner", "hanging", "--json", "--sandbox", mode];
        let child = sandbox.command(arguments).spawn().unwrap();
        let mut runner = None;
        wait_until("the runner", || {
            runner = descendant(child.id(), b"sleep\x001000\x00");
            runner.is_some()
        });
        let output = interrupt(child, Signal::INT);
        assert_eq!(output.status.code(), Some(130));
        let error: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(error["error"]["kind"], "interrupted");
        wait_until("the end of the runner", || test_kill_process(runner.unwrap()).is_err());
        assert_eq!(names(&sandbox.temporary()), [""; 0], "{mode}");
    }
}

/// Finds a process with this command line among those that `process` has started, and those that these have started.
fn descendant(process: u32, command_line: &[u8]) -> Option<Pid> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<u32> =
        lists.collect::<String>().split_whitespace().map(|number| number.parse().unwrap()).collect();
    children.iter().find_map(|&child| {
        let is_it = fs::read(format!("/proc/{child}/cmdline")).is_ok_and(|found| found == command_line);
        if is_it { Pid::from_raw(child.try_into().unwrap()) } else { descendant(child, command_line) }
    })
}
