//! Namespaces, mounts, parts of the kernel that no model needs, and the rights of root.

use carton_core::sandbox::SandboxMode;
use serde_json::json;

use crate::attempt::{Attempt, Scene, check_all};
use crate::setting::Setting;

fn kernel(scene: &Scene<'_>) -> Vec<Attempt> {
    let pid = scene.setting.victim.pid();
    let with_namespaces = has_user_namespaces();
    let mut attempts: Vec<Attempt> = [
        "enter_user_namespace",
        "enter_mount_namespace",
        "enter_network_namespace",
        "clone_into_namespace",
        "clone_into_namespace_by_newer_call",
    ]
    .iter()
    .map(|name| Attempt::new(name, json!({})).never_works_if(!with_namespaces).apart())
    .collect();
    for name in [
        "mount_file_system",
        "mount_by_newer_calls",
        "copy_mount",
        "change_mount",
        "change_root",
        "exchange_root",
        "load_kernel_program",
        "restart_machine",
        "count_programs",
        "swap_to_file",
        "set_clock",
        "set_time_of_day",
        "tune_clock",
        "set_host_name",
        "set_domain_name",
        "become_real_time",
        "raise_priority",
        "handle_page_faults_by_device",
        "read_kernel_log",
    ] {
        attempts.push(Attempt::new(name, json!({})).of_root().apart().or_fails_with(&["ENOENT"]));
    }
    // Kernels without modules, or without a second kernel, do not have the calls.
    for name in ["load_kernel_module", "load_another_kernel", "use_ports"] {
        attempts.push(Attempt::new(name, json!({})).never_works().apart().or_fails_with(&["this processor has none"]));
    }
    attempts
        .push(Attempt::new("become_other_user", json!({"user": 65533})).of_root().apart().or_fails_with(&["EINVAL"]));
    attempts.push(Attempt::new("count_events", json!({"pid": pid})).of_root());
    // Whether users may do these is a setting of the system.
    for name in ["count_own_events", "handle_page_faults", "open_ring", "change_segments"] {
        attempts.push(Attempt::new(name, json!({})).of_root().or_fails_with(&["this processor has none"]));
    }
    attempts.push(Attempt::new("use_up_watches", json!({})));
    attempts.push(Attempt::new("use_up_timers", json!({})).or_fails_with(&["EAGAIN"]));
    attempts.push(Attempt::new("change_personality", json!({})).apart());
    // The kernel tells the mounts of this machine to everybody since Linux 6.8. They show names of folders, and nothing in them.
    attempts.push(Attempt::new("list_mounts", json!({})).of_root().remains());
    // Root has what a program could give, and a user gets nothing by the capabilities that a program keeps.
    attempts.push(
        Attempt::new("gain_rights_by_program", json!({"name": user_name()}))
            .of_user()
            .never_works_if(!has_rights_by_program()),
    );
    attempts.push(Attempt::new("keep_rights_for_programs", json!({})).of_root().or_fails_with(&["no rights"]));
    attempts.push(Attempt::new("open_new_terminal", json!({})));
    attempts
}

fn user_name() -> String {
    let output = std::process::Command::new("id").arg("-un").output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Whether the program exists that shows the state of a password, and has the rights of root.
fn has_rights_by_program() -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata("/usr/bin/passwd").is_ok_and(|metadata| metadata.permissions().mode() & 0o4000 != 0)
}

/// Whether this user may make namespaces, which some systems allow root alone.
fn has_user_namespaces() -> bool {
    std::process::Command::new("unshare").args(["-U", "true"]).output().is_ok_and(|output| output.status.success())
}

/// No program that the runner starts can have more rights than it, whatever its file says.
#[tokio::test]
async fn programs_gain_no_rights() {
    let Some(setting) = Setting::new().await else { return };
    for mode in [SandboxMode::Off, SandboxMode::On] {
        let model = setting.load(mode).await;
        assert_eq!(model.places["no_new_privileges"], json!(i32::from(mode == SandboxMode::On)), "sandbox {mode}");
    }
}

#[tokio::test]
async fn the_kernel_does_nothing_for_a_model_that_frameworks_do_not_need() {
    check_all(kernel).await;
}
