//! Signals, full disks, readers that are gone, and tables that are larger than the memory that they take.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use arrow_ipc::writer::StreamWriter;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::{pack_pairs, pairs, write_table};
use crate::interruption::{has_open_file_in, interrupt, wait_until};
use crate::sandbox::{Sandbox, names};

/// The processes that this process has started.
fn children(child: &Child) -> Vec<Pid> {
    let of = |task: std::io::Result<fs::DirEntry>| fs::read_to_string(task.ok()?.path().join("children")).ok();
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let lines: Vec<String> = tasks.filter_map(of).collect();
    lines
        .iter()
        .flat_map(|line| line.split_whitespace())
        .map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap())
        .collect()
}

#[test]
fn an_interrupted_run_leaves_neither_output_nor_process() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 130)] {
        let sandbox = Sandbox::new();
        pack_pairs(&sandbox, "delay_ms = 300\nmax_concurrency = 1\n");
        write_table(&sandbox, "x.parquet", &[pairs(0, 5000)]);
        let out = sandbox.work().join("out");
        fs::create_dir(&out).unwrap();
        let arguments = "run echo.carton --rows x.parquet -o out/y.parquet --batch-size 1 --workers 2";
        let child = sandbox.command(arguments.split(' ')).spawn().unwrap();
        wait_until("the unfinished output and the runners", || {
            has_open_file_in(&child, &out) && children(&child).len() >= 2
        });
        // Some calls are made meanwhile.
        std::thread::sleep(Duration::from_millis(700));
        let runners = children(&child);
        let output = interrupt(child, signal);
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "error: interrupted\n");
        assert_eq!(names(&out), [""; 0]);
        wait_until("the end of the runners", || runners.iter().all(|runner| test_kill_process(*runner).is_err()));
        assert_eq!(names(&sandbox.temporary()), [""; 0]);
    }
}

#[test]
fn a_wait_for_rows_is_interrupted() {
    let sandbox = Sandbox::new();
    pack_pairs(&sandbox, "");
    let rows = pairs(0, 10);
    let mut stream = StreamWriter::try_new(Vec::new(), &rows.schema()).unwrap();
    stream.write(&rows).unwrap();
    let out = sandbox.work().join("out");
    fs::create_dir(&out).unwrap();
    let mut command = sandbox.command("run echo.carton --rows - -o out/y.arrows --batch-size 5".split(' '));
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(stream.get_ref()).unwrap();
    stdin.flush().unwrap();
    wait_until("the unfinished output", || has_open_file_in(&child, &out) && !children(&child).is_empty());
    std::thread::sleep(Duration::from_millis(300));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    wait_until("the end", || child.try_wait().unwrap().is_some());
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "error: interrupted\n");
    assert_eq!(names(&out), [""; 0]);
}

/// A stream that ends early is no table: the reader of the result is told.
#[test]
fn a_stream_without_its_end_is_refused() {
    let sandbox = Sandbox::new();
    pack_pairs(&sandbox, "");
    write_table(&sandbox, "x.arrows", &[pairs(0, 10)]);
    let bytes = fs::read(sandbox.work().join("x.arrows")).unwrap();
    sandbox.write("cut.arrows", &bytes[..bytes.len() - 8]);
    let stdin = fs::File::open(sandbox.work().join("cut.arrows")).unwrap();
    let output = sandbox.command("run echo.carton --rows - -o -".split(' ')).stdin(stdin).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    let end = [0xff_u8, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    assert_ne!(output.stdout.get(output.stdout.len().saturating_sub(8)..), Some(end.as_slice()));
}

#[test]
fn a_reader_that_is_gone_is_no_failure() {
    let sandbox = Sandbox::new();
    pack_pairs(&sandbox, "");
    write_table(&sandbox, "x.parquet", &[pairs(0, 200_000)]);
    let mut child = sandbox.command("run echo.carton --rows x.parquet -o -".split(' ')).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 100]).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn a_reader_that_does_not_read_is_no_obstacle_to_a_signal() {
    let sandbox = Sandbox::new();
    pack_pairs(&sandbox, "");
    write_table(&sandbox, "x.parquet", &[pairs(0, 200_000)]);
    let child = sandbox.command("run echo.carton --rows x.parquet -o -".split(' ')).spawn().unwrap();
    wait_until("the runner", || !children(&child).is_empty());
    std::thread::sleep(Duration::from_millis(500));
    let runners = children(&child);
    let mut child = child;
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    wait_until("the end", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    wait_until("the end of the runners", || runners.iter().all(|runner| test_kill_process(*runner).is_err()));
}

/// The standard library opens `/dev/null` in place of a closed standard output, to which every write succeeds.
#[test]
fn a_closed_standard_output_is_an_error() {
    let sandbox = Sandbox::new();
    pack_pairs(&sandbox, "");
    write_table(&sandbox, "x.parquet", &[pairs(0, 5)]);
    let run = |arguments: &str, end: &str| {
        let carton = sandbox.command(arguments.split(' '));
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &format!("exec \"$@\" {end}"), "sh"]).arg(carton.get_program()).args(carton.get_args());
        shell.current_dir(sandbox.work());
        for (variable, value) in carton.get_envs() {
            shell.env(variable, value.unwrap());
        }
        let output = shell.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let expected = "error: cannot write to standard output\n\nCaused by:\n  Bad file descriptor (os error 9)\n";
    for arguments in [
        "run echo.carton --rows x.parquet -o -",
        "run echo.carton -i x=[[1,2]]",
        "run echo.carton -i x=[[1,2]] --json",
        "info echo.carton",
    ] {
        assert_eq!(run(arguments, ">&-"), (Some(1), expected.to_owned()), "{arguments}");
        assert_eq!(run(arguments, ">/dev/null").0, Some(0), "{arguments}");
        // As other programs open it for those that they start.
        assert_eq!(run(arguments, "1<>/dev/null").0, Some(0), "{arguments}");
    }
}

#[test]
fn a_full_disk_is_the_error() {
    if !Path::new("/dev/full").exists() {
        eprintln!("skipped: there is no /dev/full");
        return;
    }
    let sandbox = Sandbox::new();
    pack_pairs(&sandbox, "");
    write_table(&sandbox, "x.parquet", &[pairs(0, 2000)]);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = sandbox.command("run echo.carton --rows x.parquet -o -".split(' ')).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: cannot write the results\n\nCaused by:\n  No space left on device (os error 28)\n"
    );
    // A limit on the size of files has the same effect, and leaves nothing.
    let out = sandbox.work().join("out");
    fs::create_dir(&out).unwrap();
    write_table(&sandbox, "x.parquet", &[pairs(0, 200_000)]);
    for name in ["y.parquet", "y.arrow", "y.arrows"] {
        let run = sandbox.command(format!("run echo.carton --rows x.parquet -o out/{name}").split(' '));
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "ulimit -f 100; exec \"$@\"", "sh"]).arg(run.get_program()).args(run.get_args());
        shell.current_dir(sandbox.work());
        for (variable, value) in run.get_envs() {
            shell.env(variable, value.unwrap());
        }
        let output = shell.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {stderr}");
        let expected = format!("error: cannot write `out/{name}`\n\nCaused by:\n  File too large (os error 27)\n");
        assert_eq!(stderr, expected, "{name}");
        assert_eq!(names(&out), [""; 0], "{name}");
    }
}

/// `CARTON_TEST_LARGE_ROWS` sets another number of rows, each of 1 KiB.
#[test]
fn memory_does_not_grow_with_the_table() {
    let sandbox = Sandbox::new();
    let tensor = |side| format!("[[{side}]]\nname = 'x'\ndtype = 'float32'\nshape = ['n', 256]\n");
    super::pack_noop(&sandbox, &(tensor("input") + &tensor("output")));
    let n_rows: i64 = std::env::var("CARTON_TEST_LARGE_ROWS").map_or(400_000, |value| value.parse().unwrap());
    let batch = super::rows(0, 10_000, 256, "x");
    let batches: Vec<_> = std::iter::repeat_n(batch, (n_rows / 10_000) as usize).collect();
    write_table(&sandbox, "x.arrow", &batches);
    drop(batches);
    for options in ["-o y.parquet", "-o y.arrow --workers 2"] {
        let arguments = format!("run echo.carton --rows x.arrow {options} --keep id");
        let mut child = sandbox.command(arguments.split(' ')).spawn().unwrap();
        let mut peak = 0;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            peak = peak.max(peak_memory(&child).unwrap_or(0));
            std::thread::sleep(Duration::from_millis(2));
        };
        assert!(status.success());
        println!("{options}: at most {} MiB", peak >> 20);
        assert!(peak > 1 << 20 && peak < 320 << 20, "{options}: {} MiB", peak >> 20);
    }
}

/// The most memory that a process has had, with the shared memory that it maps.
fn peak_memory(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}
