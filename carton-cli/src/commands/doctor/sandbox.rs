//! Whether this machine can confine models (spec/sandbox.md).

use std::path::Path;

use carton_core::Config;
use carton_core::machine::{SandboxGap, SandboxSupport, sandbox_support};
use carton_core::sandbox::SandboxMode;

use super::finding::Finding;
use crate::failure::causes_in_one_line;

const CHECK: &str = "sandbox";

/// What can be enforced. `config` is `None` if there is no valid one; then the default mode counts.
pub(super) fn findings(config: Option<&Config>) -> Vec<Finding> {
    if !cfg!(target_os = "linux") {
        return vec![Finding::warning(CHECK, "this system has none: a model may do all that you may")];
    }
    let mode = config.map_or_else(SandboxMode::default, |config| config.sandbox.mode);
    if mode == SandboxMode::Off {
        let finding = Finding::warning(CHECK, "the configuration switches it off: a model may do all that you may");
        return vec![finding.advice("remove `sandbox = \"off\"`")];
    }
    // This program is a launcher itself, so that no folder of the configuration is searched for one.
    let support = match config {
        Some(config) => sandbox_support(config),
        None => sandbox_support(&Config::in_folder(Path::new("/"))),
    };
    match support {
        Ok(Some(support)) => of_support(&support, mode),
        Ok(None) => vec![Finding::bad(CHECK, "no program was found that confines runners").advice("mount /proc")],
        Err(error) => vec![Finding::bad(CHECK, causes_in_one_line(&error))],
    }
}

fn of_support(support: &SandboxSupport, mode: SandboxMode) -> Vec<Finding> {
    let landlock = match support.landlock_version {
        Some(version) => format!("Landlock {version}"),
        None => "no Landlock".to_owned(),
    };
    if support.gaps.is_empty() {
        return vec![Finding::ok(CHECK, format!("complete, mode {mode} ({landlock}, seccomp, namespaces)"))];
    }
    support.gaps.iter().map(|gap| of_gap(*gap, mode)).collect()
}

fn of_gap(gap: SandboxGap, mode: SandboxMode) -> Finding {
    let finding = match mode {
        SandboxMode::Strict if gap.is_unsafe() => {
            Finding::bad(CHECK, format!("{gap}, and the mode `strict` refuses to run models without it"))
        }
        _ => Finding::warning(CHECK, gap.to_string()),
    };
    match gap {
        SandboxGap::Files => finding.advice(
            "boot a kernel with Landlock (Linux 5.13), and with `landlock` in the list that `cat /sys/kernel/security/lsm` shows; \
             a container's seccomp profile may hide it",
        ),
        SandboxGap::Signals => finding.advice("boot Linux 6.12 or later"),
        SandboxGap::Proc => finding.advice("in a container, uncover it: `--security-opt systempaths=unconfined`"),
        SandboxGap::SystemCalls => finding.advice("boot a kernel with CONFIG_SECCOMP_FILTER"),
        SandboxGap::Namespaces => match std::fs::read_to_string(APPARMOR).is_ok_and(|value| value.trim() == "1") {
            true => finding.command("sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
            false => finding.command("sysctl -w user.max_user_namespaces=10000"),
        },
        _ => finding,
    }
}

/// Where Ubuntu says that user namespaces of users have no rights.
const APPARMOR: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
