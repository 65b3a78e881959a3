//! `carton --version -v`: what was built into this program.

use std::ffi::OsString;

use carton_core::metadata::SPEC_VERSION;
use carton_core::runner::{INTERFACE_VERSION, PLATFORM};
use carton_tensor::any_file::TensorFileFormat;
use serde::Serialize;

use crate::EMBEDDED_RUNNERS;
use crate::failure::Failure;
use crate::output::Output;
use crate::python;

/// The optional parts, by the names of Cargo's features.
const FEATURES: [(&str, bool); 5] = [
    ("card", cfg!(feature = "card")),
    ("object-store", cfg!(feature = "object-store")),
    ("server", cfg!(feature = "server")),
    ("sigstore", cfg!(feature = "sigstore")),
    ("tables", cfg!(feature = "tables")),
];

#[cfg(feature = "tables")]
const DATASET_FORMAT: Option<&str> = Some(carton_dataset::FORMAT_VERSION);
#[cfg(not(feature = "tables"))]
const DATASET_FORMAT: Option<&str> = None;

#[derive(Serialize)]
struct BuildInfo {
    version: &'static str,
    /// The commit of the source, if the build knew it.
    commit: Option<&'static str>,
    target: &'static str,
    /// The optional parts of the program.
    features: Vec<&'static str>,
    runners: Vec<BuiltInRunner>,
    tensor_formats: Vec<&'static str>,
    /// The version of cartons that are read and written.
    carton_format: u64,
    /// `None` if datasets were left out.
    dataset_format: Option<&'static str>,
    /// The version of the runner protocol.
    runner_protocol: u64,
}

#[derive(Serialize)]
struct BuiltInRunner {
    name: &'static str,
    /// The version of its framework; `None` if that is the version of an interpreter on the machine.
    version: Option<&'static str>,
}

impl BuildInfo {
    fn new() -> Self {
        let embedded = EMBEDDED_RUNNERS
            .iter()
            .map(|runner| BuiltInRunner { name: runner.name, version: Some(runner.framework_version) });
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("CARTON_BUILD_COMMIT").filter(|commit| !commit.is_empty()),
            target: PLATFORM,
            features: FEATURES.iter().filter(|(_, is_built)| *is_built).map(|(name, _)| *name).collect(),
            runners: embedded.chain([BuiltInRunner { name: python::RUNNER_NAME, version: None }]).collect(),
            tensor_formats: TensorFileFormat::ALL.iter().map(|format| format.name()).collect(),
            carton_format: SPEC_VERSION,
            dataset_format: DATASET_FORMAT,
            runner_protocol: INTERFACE_VERSION,
        }
    }

    fn text(&self) -> String {
        let runner = |runner: &BuiltInRunner| match runner.version {
            Some(version) => format!("{} {version}", runner.name),
            None => format!("{} (to be installed)", runner.name),
        };
        let runners: Vec<String> = self.runners.iter().map(runner).collect();
        format!(
            "carton {}\n\
             commit           {}\n\
             target           {}\n\
             features         {}\n\
             runners          {}\n\
             tensor formats   {}\n\
             carton format    {}\n\
             dataset format   {}\n\
             runner protocol  {}\n",
            self.version,
            self.commit.unwrap_or("unknown"),
            self.target,
            if self.features.is_empty() { "none".to_owned() } else { self.features.join(", ") },
            runners.join(", "),
            self.tensor_formats.join(", "),
            self.carton_format,
            self.dataset_format.unwrap_or("none"),
            self.runner_protocol,
        )
    }
}

/// Prints what was built in, if the arguments that ask for the version ask for that too. Otherwise returns `false`.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn print_if_asked(arguments: &[OsString]) -> Result<bool, Failure> {
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let (json, verbose) = (has("--json"), has("--verbose") || arguments.iter().skip(1).any(is_verbose));
    let info = BuildInfo::new();
    match (json, verbose) {
        (true, _) => Output::json_only().json(&info)?,
        (false, true) => Output::plain().text(&info.text())?,
        (false, false) => return Ok(false),
    }
    Ok(true)
}

/// Whether an argument is `-v`, `-vv`, or `-v` together with `-V`.
fn is_verbose(argument: &OsString) -> bool {
    argument
        .to_str()
        .and_then(|text| text.strip_prefix('-'))
        .is_some_and(|letters| letters.contains('v') && letters.chars().all(|letter| matches!(letter, 'v' | 'V')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn being_verbose_is_told_from_other_arguments() {
        for (argument, expected) in
            [("-v", true), ("-vv", true), ("-Vv", true), ("-V", false), ("v", false), ("--version", false)]
        {
            assert_eq!(is_verbose(&argument.into()), expected, "{argument}");
        }
    }
}
