//! Systems that lack what others take for granted: `/proc` and `/dev`. Manual pages, for packages.

use std::process::Command;

use insta::assert_snapshot;

use crate::sandbox::{Outcome, Sandbox, names, outcome};

/// Runs the command where nothing is at `hidden`, a folder of the system; `None` if this system does not allow that.
fn carton_without(sandbox: &Sandbox, hidden: &str, arguments: &[&str]) -> Option<Outcome> {
    let mount = format!("mount -t tmpfs none {hidden} && exec \"$@\"");
    let prefix = ["--mount", "--map-root-user", "sh", "-c", &mount, "sh"];
    if !Command::new("unshare").args(prefix).arg("true").output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: `unshare` cannot hide {hidden} on this system");
        return None;
    }
    let carton = sandbox.command(arguments);
    let mut command = Command::new("unshare");
    command.args(prefix).arg(carton.get_program()).args(carton.get_args()).env_clear();
    for (name, value) in carton.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.env("PATH", "/usr/bin:/bin").current_dir(sandbox.work());
    Some(outcome(&mut command))
}

#[test]
fn what_is_not_mounted_is_named() {
    let sandbox = Sandbox::new();
    sandbox.write("model.bin", "weights");
    let pack = ["pack", "model.bin", "--runner", "noop", "-o", "m.carton"];
    let Some(said) = carton_without(&sandbox, "/proc", &pack) else { return };
    assert_snapshot!(said, @r"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot start runner noop 0.1.0: `/proc/self` is missing

    hint: mount `/proc`: `mount -t proc proc /proc`
    ");
    let Some(said) = carton_without(&sandbox, "/dev", &pack) else { return };
    assert_snapshot!(said, @r"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot start runner noop 0.1.0: `/dev/null` is missing

    hint: mount `/dev`, or make the device: `mknod -m 666 /dev/null c 1 3`
    ");
    let said = carton_without(&sandbox, "/proc", &["runner", "install", "noop"]).unwrap();
    assert_snapshot!(said, @r"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot read `/proc/self/exe`

    Caused by:
      No such file or directory (os error 2)
    ");
}

#[test]
fn every_command_has_a_manual_page() {
    let sandbox = Sandbox::new();
    sandbox.carton("man pages").expect_code(0);
    let pages = names(&sandbox.work().join("pages"));
    for page in ["carton.1", "carton-run.1", "carton-runner.1", "carton-runner-install.1"] {
        assert!(pages.iter().any(|name| name == page), "{page} in {pages:?}");
    }
    assert!(!pages.iter().any(|name| name.contains("help") || name == "carton-man.1"), "{pages:?}");
    let text = std::fs::read_to_string(sandbox.work().join("pages/carton-run.1")).unwrap();
    assert!(text.contains(r"\-\-self\-test"), "{text}");
    sandbox.write("file", "");
    assert_snapshot!(sandbox.carton("man file"), @r"
    exit code: 1
    ----- stdout -----

    ----- stderr -----
    error: cannot write into `file`

    Caused by:
      File exists (os error 17)
    ");
}
