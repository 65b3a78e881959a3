//! Resources under limits: memory, processes, descriptors, the size of files, processor time. And core dumps, which need none.

use std::fs;

use carton_core::sandbox::{Limits, SandboxMode};
use serde_json::{Value, json};

use crate::attempt::{Attempt, Scene, check_all};
use crate::setting::{Setting, is_root};

/// What limits do about an attempt that succeeds without them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limited {
    /// It fails with an error that begins with one of these.
    By(&'static [&'static str]),
    /// Root is not bound by it.
    UnlessRoot(&'static [&'static str]),
    /// Nothing: spec/sandbox.md says which limits need a cgroup.
    Not,
}

const MIB: u64 = 1 << 20;

/// Makes an attempt without the sandbox and without limits, and in it with `limits`.
async fn check(name: &str, arguments: Value, limits: impl FnOnce(&mut Limits), limited: Limited) {
    let Some(setting) = Setting::new().await else { return };
    let model = setting.load(SandboxMode::Off).await;
    let answer = model.call(name, &arguments).await.unwrap();
    assert!(answer.starts_with("escaped: "), "without limits: {name}: {answer}");
    drop(model);

    let mut some = Limits::default();
    limits(&mut some);
    let model = setting.load_with(SandboxMode::On, some, |load| load).await.unwrap();
    let answer = model.call(name, &arguments).await.unwrap();
    let errors = match limited {
        Limited::By(errors) => errors,
        Limited::UnlessRoot(errors) if !is_root() => errors,
        Limited::UnlessRoot(_) | Limited::Not => {
            assert!(answer.starts_with("escaped: "), "with limits, which do nothing here: {name}: {answer}");
            return;
        }
    };
    let reason = answer.strip_prefix("contained: ").unwrap_or_default();
    assert!(errors.iter().any(|error| reason.starts_with(error)), "with limits: {name}: {answer}");
    // The model goes on after it.
    let answer = model.call("take_nothing", &json!({})).await.unwrap();
    assert!(answer.starts_with("contained: "), "{answer}");
}

#[tokio::test]
async fn memory_is_limited() {
    let limits = |limits: &mut Limits| limits.memory = Some(1024 * MIB);
    let errors = Limited::By(&["ENOMEM"]);
    check("take_memory", json!({"mib": 1152}), limits, errors).await;
    check("child", json!({"attempt": "take_memory", "mib": 1152}), limits, errors).await;
    // Other users may lock a few megabytes anyway.
    if is_root() {
        check("lock_memory", json!({"mib": 1100}), limits, Limited::By(&["ENOMEM", "EPERM", "EAGAIN"])).await;
    }
}

/// The address space of each process is limited, and neither their number nor files in memory.
#[tokio::test]
async fn memory_of_several_processes_is_not_limited_without_a_cgroup() {
    let limits = |limits: &mut Limits| limits.memory = Some(1024 * MIB);
    check("take_memory_by_children", json!({"mib": 1280}), limits, Limited::Not).await;
    check("take_memory_by_files", json!({"mib": 1280}), limits, Limited::Not).await;
}

/// The private folder is as large as the limit of memory.
#[tokio::test]
async fn shared_memory_is_limited() {
    let limits = |limits: &mut Limits| limits.memory = Some(1024 * MIB);
    check("take_shared_memory", json!({"mib": 1280}), limits, Limited::By(&["ENOSPC", "EACCES"])).await;
}

#[tokio::test]
async fn processes_are_limited() {
    let limits = |limits: &mut Limits| limits.processes = Some(200);
    check("start_many_processes", json!({"count": 300}), limits, Limited::UnlessRoot(&["EAGAIN"])).await;
    check("start_many_threads", json!({"count": 300}), limits, Limited::UnlessRoot(&["EAGAIN"])).await;
}

#[tokio::test]
async fn files_are_limited() {
    let limits = |limits: &mut Limits| limits.file_size = Some(64 * MIB);
    let errors = Limited::By(&["EFBIG", "EINVAL"]);
    check("write_large_file", json!({"mib": 100}), limits, errors).await;
    check("take_memory_by_files", json!({"mib": 100}), limits, errors).await;
    // The size of each file is limited, and not their number.
    check("write_many_files", json!({"mib": 100}), limits, Limited::Not).await;
}

#[tokio::test]
async fn descriptors_are_limited() {
    let limits = |limits: &mut Limits| limits.open_files = Some(256);
    check("open_many_files", json!({"count": 1000}), limits, Limited::By(&["EMFILE"])).await;
    check("hide_many_files", json!({"count": 2000}), limits, Limited::By(&["ETOOMANYREFS"])).await;
}

#[tokio::test]
async fn processor_time_is_limited() {
    let limits = |limits: &mut Limits| limits.cpu_seconds = Some(3);
    check("use_processor_in_child", json!({"seconds": 4}), limits, Limited::By(&["EAGAIN"])).await;
}

#[tokio::test]
async fn limits_are_not_raised() {
    let limits = |limits: &mut Limits| {
        limits.memory = Some(2048 * MIB);
        limits.processes = Some(500);
        limits.open_files = Some(500);
        limits.file_size = Some(1024 * MIB);
        limits.cpu_seconds = Some(100);
    };
    // Those of processes and descriptors have a value on most systems, also without ours.
    for name in ["RLIMIT_AS", "RLIMIT_FSIZE", "RLIMIT_CPU"] {
        check("raise_limit", json!({"name": name}), limits, Limited::By(&["EPERM"])).await;
    }
}

fn cores(scene: &Scene<'_>) -> Vec<Attempt> {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    // Elsewhere a program of the system takes the core, or it is in another folder.
    let is_in_folder = pattern.starts_with("core") && scene.model.places["core"] != json!(0);
    let mut attempts = Vec::new();
    for folder in
        [scene.setting.new_path(), scene.model.path("scratch").join(format!("cores-{}", scene.setting.number()))]
    {
        let _ = fs::create_dir(&folder);
        let cores = folder.clone();
        let attempt =
            Attempt::new("dump_core", json!({"path": folder})).or_fails_with(&["no core was dumped"]).seen(move || {
                let has_core = |entry: std::io::Result<fs::DirEntry>| {
                    entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("core"))
                };
                fs::read_dir(&cores).is_ok_and(|mut entries| entries.any(has_core))
            });
        attempts.push(attempt.never_works_if(!is_in_folder).apart());
    }
    attempts.push(Attempt::new("mark_own_memory", json!({})).never_works());
    attempts
}

/// A core has the inputs of calls in it, and is written where the settings of the system say.
#[tokio::test]
async fn no_core_is_dumped() {
    check_all(cores).await;
}
