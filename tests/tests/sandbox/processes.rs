//! Other processes of the user: a victim, the host, the launcher, and the process of another model.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use carton_core::sandbox::SandboxMode;
use serde_json::{Value, json};

use crate::attempt::{Attempt, Scene, check_all};
use crate::setting::{Confinement, Setting};
use crate::victim::SECRET_VARIABLE;

/// Nothing is done for this signal by processes that do not ask for it.
const SIGNAL_WITHOUT_EFFECT: u32 = 23;
const SIGUSR1: u32 = 10;

fn inspections(scene: &Scene<'_>) -> Vec<Attempt> {
    let setting = scene.setting;
    let (victim, secret) = (&setting.victim, &setting.secret);
    let pid = victim.pid();
    let places = &victim.places;
    let file = setting.new_file();
    let file_name = file.file_name().unwrap().to_str().unwrap();
    // Without a right to /proc, no process has a folder there.
    let mut attempts = vec![
        Attempt::new("read_process_file", json!({"pid": pid, "name": "environ"}))
            .tells(&format!("{SECRET_VARIABLE}={secret}")),
        Attempt::new("read_process_file", json!({"pid": pid, "name": "cmdline"})).tells(secret),
        Attempt::new("read_process_file", json!({"pid": pid, "name": "maps"})).tells("r-xp"),
        Attempt::new("read_process_file", json!({"pid": pid, "name": "status"})).tells("VmRSS"),
        Attempt::new("list_processes", json!({"pid": pid})).tells(secret),
        Attempt::new("read_by_root_of_process", json!({"pid": pid, "path": file})).tells(secret),
        Attempt::new("read_by_working_folder_of_process", json!({"pid": pid, "name": file_name})).tells(secret),
        Attempt::new("read_descriptor_of_process", json!({"pid": pid, "number": places["descriptor"]})).tells(secret),
        Attempt::new("take_descriptor", json!({"pid": pid, "number": places["descriptor"]})).tells(secret),
        Attempt::new("compare_resources", json!({"pid": pid})),
        Attempt::new("find_locks", json!({"pid": pid})),
        Attempt::new("enter_namespaces_of_process", json!({"pid": pid})).of_root().apart(),
        // Numbers of processes and of their groups are told to everybody.
        Attempt::new("find_process", json!({"pid": pid})).remains_without_namespaces(),
    ];
    for name in ["exe", "cwd", "root"] {
        attempts.push(Attempt::new("read_process_link", json!({"pid": pid, "name": name})));
    }
    let memory = json!({"pid": pid, "address": places["secret_address"], "n_bytes": places["secret_bytes"]});
    attempts.push(Attempt::new("read_memory_file", memory.clone()).tells(secret));
    attempts.push(Attempt::new("read_memory", memory).tells(secret));
    for name in ["trace", "trace_quietly"] {
        attempts.push(Attempt::new(name, json!({"pid": pid, "address": places["secret_address"]})).tells("secret-"));
    }
    for (name, text) in [("write_memory_file", "one"), ("write_memory", "two")] {
        attempts.push(
            Attempt::new(name, json!({"pid": pid, "address": places["target_address"], "text": text}))
                .changes("/memory"),
        );
    }
    attempts
}

#[tokio::test]
async fn other_processes_are_not_inspected() {
    check_all(inspections).await;
}

/// Text in the memory of this process, the host, and bytes that nothing has written to yet.
fn own_memory() -> (&'static str, &'static [AtomicU8; 8]) {
    static SECRET: OnceLock<String> = OnceLock::new();
    let secret = SECRET.get_or_init(|| format!("host-secret-{}", std::process::id()));
    (secret, Box::leak(Box::new([const { AtomicU8::new(0) }; 8])))
}

fn attacks_on_the_host(scene: &Scene<'_>) -> Vec<Attempt> {
    let pid = std::process::id();
    let (secret, target) = own_memory();
    let memory = json!({"pid": pid, "address": secret.as_ptr().addr(), "n_bytes": secret.len()});
    let is_changed = |text: &'static str| {
        move || target.iter().zip(text.bytes()).all(|(found, byte)| found.load(Ordering::SeqCst) == byte)
    };
    let writing = |text: &str| json!({"pid": pid, "address": target.as_ptr().addr(), "text": text});
    let file = std::os::fd::AsRawFd::as_raw_fd(&std::io::stderr());
    let mut attempts = vec![
        Attempt::new("read_memory", memory.clone()).tells(secret),
        Attempt::new("read_memory_file", memory).tells(secret),
        Attempt::new("write_memory", writing("first!!")).seen(is_changed("first!!")),
        Attempt::new("write_memory_file", writing("second!")).seen(is_changed("second!")),
        Attempt::new("read_process_file", json!({"pid": pid, "name": "environ"})),
        Attempt::new("read_process_file", json!({"pid": pid, "name": "cmdline"})),
        Attempt::new("send_signal", json!({"pid": pid, "number": SIGNAL_WITHOUT_EFFECT})),
        Attempt::new("send_signal_by_descriptor", json!({"pid": pid, "number": SIGNAL_WITHOUT_EFFECT})),
        Attempt::new("send_signal_to_peer", json!({"number": SIGNAL_WITHOUT_EFFECT}))
            .by_runner()
            .never_works_if(!kernel_has_descriptors_of_peers())
            .or_fails_with(&["ENOPROTOOPT", "EINVAL"]),
        Attempt::new("ask_whether_process_can_be_signalled", json!({"pid": pid})),
    ];
    // What the descriptor is does not matter: that it is readable shows the way.
    attempts.push(Attempt::new("read_process_link", json!({"pid": pid, "name": format!("fd/{file}")})));
    let _ = scene;
    attempts
}

/// Whether the kernel is Linux 6.5 or later.
fn kernel_has_descriptors_of_peers() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 5)
}

#[tokio::test]
async fn the_host_is_not_attacked() {
    check_all(attacks_on_the_host).await;
}

fn attacks_on_the_launcher(scene: &Scene<'_>) -> Vec<Attempt> {
    // Without the sandbox this is the host.
    let pid = scene.model.places["parent"].as_u64().unwrap();
    vec![
        Attempt::new("read_process_file", json!({"pid": pid, "name": "environ"})).tells("PATH="),
        Attempt::new("read_process_file", json!({"pid": pid, "name": "maps"})).tells("r-xp"),
        Attempt::new("read_by_root_of_process", json!({"pid": pid, "path": scene.setting.new_file()}))
            .tells(&scene.setting.secret),
        Attempt::new("send_signal", json!({"pid": pid, "number": SIGNAL_WITHOUT_EFFECT})),
        Attempt::new("send_signal_to_thread", json!({"pid": pid, "number": SIGNAL_WITHOUT_EFFECT})),
        Attempt::new("stop_waiting_parent", json!({"number": SIGNAL_WITHOUT_EFFECT})).by_runner(),
        Attempt::new("hold_other_end_of_output", json!({})).by_runner().or_fails_with(&["ENXIO"]),
    ]
}

#[tokio::test]
async fn the_launcher_is_not_attacked() {
    check_all(attacks_on_the_launcher).await;
}

/// A launcher that a signal to the group ended would leave the scratch folder, and processes, when the host is killed.
#[tokio::test]
async fn the_launcher_survives_a_signal_to_its_group() {
    let Some(setting) = Setting::of(Confinement::Plain).await else { return };
    let model = setting.load(SandboxMode::On).await;
    for number in [1, 2, 3, 10, 15] {
        let answer = model.call("send_signal_to_own_group", &json!({"number": number})).await;
        assert!(answer.is_ok(), "signal {number}: {answer:?}");
    }
    let launcher = model.places["parent"].as_u64().unwrap();
    assert_ne!(launcher, u64::from(std::process::id()));
    let line = std::fs::read(format!("/proc/{launcher}/cmdline")).unwrap();
    assert!(!line.is_empty(), "the launcher has ended");
}

fn settings_of_the_victim(scene: &Scene<'_>) -> Vec<Attempt> {
    let pid = json!({"pid": scene.setting.victim.pid()});
    vec![
        // This one can be made any number of times.
        Attempt::new("read_process_file", json!({"pid": scene.setting.victim.pid(), "name": "status"})),
        Attempt::new("slow_process_down", pid.clone()).changes("/priority"),
        Attempt::new("batch_process", pid.clone()).changes("/scheduler").silent(),
        Attempt::new("idle_process", pid.clone()).changes("/scheduler").silent(),
        Attempt::new("pin_process", pid.clone()).changes("/cores").silent().never_works_if(n_cores() < 2),
        Attempt::new("slow_files_of_process", pid.clone()).changes("/disk"),
        Attempt::new("limit_process", pid.clone()).changes("/descriptors"),
        Attempt::new("offer_process_for_killing", pid.clone()).changes("/offered"),
        // A machine with one node of memory has nowhere to move it.
        Attempt::new("move_pages_of_process", pid),
    ]
}

fn n_cores() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

#[tokio::test]
async fn settings_of_other_processes_are_not_changed() {
    check_all(settings_of_the_victim).await;
}

fn signals(scene: &Scene<'_>) -> Vec<Attempt> {
    let pid = scene.setting.victim.pid();
    let names = [
        "send_signal",
        "send_signal_to_thread",
        "send_signal_to_any_thread",
        "send_signal_with_data",
        "send_signal_with_data_to_thread",
        "send_signal_by_descriptor",
        "send_signal_to_group",
    ];
    let arguments = json!({"pid": pid, "number": SIGUSR1});
    let attempt = |name: &&'static str| Attempt::new(name, arguments.clone()).changes("/signals/10");
    let mut attempts: Vec<Attempt> = names.iter().map(attempt).collect();
    // The kernel sends it, or does not, when there is something to read. A signal to all is sent to those to whom it may be sent.
    attempts.push(attempt(&"send_signal_by_pipe").silent());
    // As root it would reach every process of the machine. The number differs, because it reaches the victims of other tests.
    attempts.push(
        Attempt::new("send_signal_to_all", json!({"number": 28})).changes("/signals/28").of_user().by_runner().silent(),
    );
    attempts
}

#[tokio::test]
async fn signals_do_not_leave() {
    check_all(signals).await;
}

/// Two models of one host.
#[tokio::test]
async fn a_model_does_not_reach_another_model() {
    for confinement in Confinement::ALL {
        let Some(setting) = Setting::of(confinement).await else { return };
        let mode = confinement.mode();
        let (attacker, other) = (setting.load(mode).await, setting.load(mode).await);
        let pid = other.outer_pid();
        // A file in the scratch folder of the other one.
        let scratch = other.path("scratch").join(format!("from-the-other-{mode}"));
        let answer = other.call("make_file", &json!({"path": scratch})).await.unwrap();
        assert!(answer.starts_with("escaped: "), "{answer}");
        let attempts: [(&str, Value); 7] = [
            ("read_file", json!({"path": scratch})),
            ("overwrite_file", json!({"path": scratch})),
            ("read_process_file", json!({"pid": pid, "name": "environ"})),
            ("read_process_file", json!({"pid": pid, "name": "maps"})),
            ("trace_quietly", json!({"pid": pid, "address": 0})),
            ("send_signal", json!({"pid": pid, "number": SIGNAL_WITHOUT_EFFECT})),
            ("read_by_root_of_process", json!({"pid": pid, "path": "/etc/passwd"})),
        ];
        for (name, arguments) in attempts {
            let answer = attacker.call(name, &arguments).await.unwrap();
            // There is nothing at the address 0, which shows that tracing has begun.
            let escaped = answer.starts_with("escaped: ") || answer.starts_with("contained: EIO");
            assert_eq!(escaped, mode == SandboxMode::Off, "sandbox {confinement:?}: {name} {arguments}: {answer}");
        }
    }
}
