//! Concurrent processes, and processes that are killed.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::time::{Duration, Instant};

use carton_test_server::nginx::Nginx;
use carton_tests::weights;

use super::{Random, cache, files_below, publish, room, sent};
use crate::sandbox::{Sandbox, outcome};

const LENGTH: u64 = 128 << 20;

fn published(nginx: &Nginx) -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.work().join("model")).unwrap();
    weights::write_file(&sandbox.work().join("model/a.bin"), LENGTH * 3 / 4, 1);
    weights::write_file(&sandbox.work().join("model/b.bin"), LENGTH / 4, 2);
    let url = publish(&sandbox, nginx, &sandbox.work().join("model"), "model.carton");
    (sandbox, url)
}

fn start(sandbox: &Sandbox, url: &str) -> Child {
    sandbox.command(["run", url, "--progress", "none"]).spawn().unwrap()
}

#[track_caller]
fn must_succeed(child: Child) {
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn processes_at_once_fetch_once() {
    let Some(nginx) = Nginx::start("") else { return };
    let (sandbox, url) = published(&nginx);
    for n_processes in [2, 8] {
        let _ = std::fs::remove_dir_all(cache(&sandbox));
        nginx.forget_requests();
        let children: Vec<Child> = (0..n_processes).map(|_| start(&sandbox, &url)).collect();
        children.into_iter().for_each(must_succeed);
        let bytes = sent(&nginx.requests());
        // Each process may request the metadata.
        assert!(
            bytes <= LENGTH + n_processes * (128 << 10),
            "{n_processes} processes fetched {bytes} of {LENGTH} bytes"
        );
        println!("{n_processes} processes fetched {bytes} bytes of {LENGTH}");
    }
}

#[test]
fn a_waiting_process_takes_over_from_a_killed_one() {
    let Some(nginx) = Nginx::start("limit_rate 8m;") else { return };
    let (sandbox, url) = published(&nginx);
    let _ = std::fs::remove_dir_all(cache(&sandbox));
    let mut first = start(&sandbox, &url);
    let deadline = Instant::now() + Duration::from_secs(30);
    while room(&cache(&sandbox)) < LENGTH / 8 {
        assert!(Instant::now() < deadline && first.try_wait().unwrap().is_none(), "nothing was fetched");
        std::thread::sleep(Duration::from_millis(2));
    }
    let others: Vec<Child> = (0..2).map(|_| start(&sandbox, &url)).collect();
    std::thread::sleep(Duration::from_millis(300));
    first.kill().unwrap();
    first.wait().unwrap();
    others.into_iter().for_each(must_succeed);
    let bytes = sent(&nginx.requests());
    assert!(bytes < LENGTH * 3 / 2, "{bytes} bytes were fetched for {LENGTH}");
}

#[test]
fn a_cache_survives_kills_at_any_moment() {
    let Some(nginx) = Nginx::start("") else { return };
    let (sandbox, url) = published(&nginx);
    let _ = std::fs::remove_dir_all(cache(&sandbox));
    let mut random = Random(2026);
    // From before the cache is created until after the model is loaded. Two processes at a time, so that locks are left behind, too.
    for _ in 0..30 {
        let mut children = [start(&sandbox, &url), start(&sandbox, &url)];
        for child in &mut children {
            std::thread::sleep(Duration::from_micros(random.below(120_000)));
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
    outcome(&mut sandbox.command(["run", &url])).expect_code(0);
    sandbox.run(["run", &url, "--offline"]).expect_code(0);
    sandbox.run(["cache", "verify"]).expect_code(0);
    let left: Vec<_> = files_below(&cache(&sandbox)).into_iter().filter(|(_, bytes)| *bytes > 1 << 20).collect();
    let room: u64 = left.iter().map(|(_, bytes)| bytes).sum();
    // Only the files themselves are left, nothing incomplete.
    assert!(room <= LENGTH + (2 << 20), "{left:#?}");
}

#[test]
fn what_a_loaded_model_uses_is_not_pruned() {
    let Some(nginx) = Nginx::start("") else { return };
    let (sandbox, url) = published(&nginx);
    let mut arguments = vec!["run", &url, "-i", "x=1", "--opt", "delay_ms=600000", "--opt", "ignore_cancel=true"];
    arguments.extend(["--opt", "log=started", "-v"]);
    let mut running = sandbox.command(arguments).spawn().unwrap();
    let mut stderr = BufReader::new(running.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("started") {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "the call never started");
    }
    sandbox.run(["cache", "prune"]).expect_code(0);
    assert!(room(&cache(&sandbox)) >= LENGTH, "what a loaded model uses was deleted");
    nginx.forget_requests();
    sandbox.run(["run", &url]).expect_code(0);
    assert_eq!(sent(&nginx.requests()), 0);
    running.kill().unwrap();
    running.wait().unwrap();
    sandbox.run(["cache", "prune"]).expect_code(0);
    assert!(room(&cache(&sandbox)) < LENGTH / 4, "{:#?}", files_below(&cache(&sandbox)));
}
