//! The runners: each is started once, without a model, so that a missing interpreter or library shows.

use std::path::Path;

use carton_core::Config;
use carton_core::machine::try_runner;
use carton_core::runner::{AvailableRunners, Descriptor};
use carton_runner_onnx::onnx_runtime_library;

use super::finding::Finding;
use crate::commands::runner::why_not;
use crate::failure::causes_in_one_line;
use crate::hints::hint;
use crate::python;

/// The runner of TorchScript models, which an index of releases has, and how it is made without one.
const TORCHSCRIPT: &str = "torchscript";
const TORCHSCRIPT_COMMAND: &str = "carton runner install torchscript";
const TORCHSCRIPT_ADVICE: &str = "from the index of a release (`--index URL`, or `runner_index`); `runners/torchscript/install` in Carton's source builds it";

pub(super) async fn findings(config: &Config) -> Vec<Finding> {
    let runners = match AvailableRunners::read(config) {
        Ok(runners) => runners,
        Err(error) => return vec![Finding::bad("runners", causes_in_one_line(&error))],
    };
    let mut findings = Vec::new();
    for descriptor in runners.embedded() {
        findings.push(of_runner(descriptor, None, config).await);
    }
    findings.push(onnx_runtime(config));
    let mut last: Option<(&Path, &Path)> = None;
    for (descriptor, folder) in runners.installed() {
        // A runner that understands several versions of the contents of `model/` has a descriptor for each.
        let program = (descriptor.runner_path.as_path(), folder);
        if last.replace(program) != Some(program) {
            findings.push(of_runner(descriptor, Some(folder), config).await);
        }
    }
    for broken in runners.broken() {
        let folder = broken.path.parent().unwrap_or(&broken.path);
        let finding = Finding::bad("runner", causes_in_one_line(&broken.error));
        findings.push(finding.advice(format!("install it again, or delete `{}`", folder.display())));
    }
    let is_there = |name: &str| runners.runners().iter().any(|runner| runner.runner_name == name);
    if !is_there(python::RUNNER_NAME) {
        findings
            .push(Finding::missing("runner python", "Python models need it").command("carton runner install python"));
    }
    if !is_there(TORCHSCRIPT) {
        let finding = Finding::missing("runner torchscript", "TorchScript models need it, and libtorch");
        findings.push(finding.command(TORCHSCRIPT_COMMAND).advice(TORCHSCRIPT_ADVICE));
    }
    findings
}

/// Starts the runner, which is in `folder`, or in this program.
async fn of_runner(descriptor: &Descriptor, folder: Option<&Path>, config: &Config) -> Finding {
    let place = folder.map_or_else(|| "in this program".to_owned(), |folder| folder.display().to_string());
    let check = format!("runner {}", descriptor.runner_name);
    let version = &descriptor.framework_version;
    if let Some(reason) = why_not(descriptor, carton_core::runner::PLATFORM) {
        return Finding::warning(check, format!("{version}, {place}: not used, because {reason}"))
            .command(format!("carton runner rm {}@{version}", descriptor.runner_name));
    }
    match try_runner(descriptor, config).await {
        Ok(()) => Finding::ok(check, format!("{version}, {place}")),
        Err(error) => {
            let text = format!("{version}, {place}: {}", causes_in_one_line(&error));
            let finding = Finding::bad(check, text);
            match (folder, hint(&error)) {
                (Some(_), _) => mended(finding, descriptor),
                // What is part of this program cannot be installed again.
                (None, Some(hint)) => finding.advice(hint),
                (None, None) => finding,
            }
        }
    }
}

/// Adds the command that installs the runner again.
fn mended(finding: Finding, descriptor: &Descriptor) -> Finding {
    let version = &descriptor.framework_version;
    match descriptor.runner_name.as_str() {
        python::RUNNER_NAME => {
            finding.command(format!("carton runner install python --python {}.{}", version.major, version.minor))
        }
        TORCHSCRIPT => finding.command(TORCHSCRIPT_COMMAND).advice(TORCHSCRIPT_ADVICE),
        _ => finding.advice("install it again"),
    }
}

/// The library of ONNX Runtime, without which no ONNX model runs.
fn onnx_runtime(config: &Config) -> Finding {
    const CHECK: &str = "ONNX Runtime";
    let named = carton_runner_onnx::LIBRARY_VARIABLES.iter().find_map(std::env::var_os);
    match named.map(Into::into).or_else(|| onnx_runtime_library::installed(&config.runner_data_dir)) {
        Some(path) if path.is_file() => Finding::ok(CHECK, path.display().to_string()),
        Some(path) => {
            Finding::warning(CHECK, format!("`{}` is named by ORT_DYLIB_PATH, and is not there", path.display()))
                .command("unset ORT_DYLIB_PATH")
        }
        None => Finding::missing(CHECK, "ONNX models need it").command("carton runner install onnx"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::commands::doctor::finding::Status;

    #[test]
    fn a_broken_runner_comes_with_its_command() {
        let check = |name: &str, expected: &str| {
            let descriptor = Descriptor::new(name, "3.11.7".parse().unwrap(), "run").unwrap();
            let finding = mended(Finding::bad("x", "y"), &descriptor);
            assert_eq!((finding.line().as_str(), finding.status), (expected, Status::Bad), "{name}");
        };
        check("python", "y; `carton runner install python --python 3.11`");
        check("torchscript", &format!("y; `{TORCHSCRIPT_COMMAND}`; {TORCHSCRIPT_ADVICE}"));
        check("node", "y; install it again");
    }
}
