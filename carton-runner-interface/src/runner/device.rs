//! The device on which a model runs, as `load` names it (spec/runner-protocol.md, "`load`, `loaded`"). Pure.

use super::error::RunnerError;

/// A device that a user may ask for.
///
/// ```
/// use carton_runner_interface::runner::Device;
/// assert_eq!(Device::parse("cpu").unwrap(), Device::Cpu);
/// assert_eq!(Device::parse("1").unwrap(), Device::Index(1));
/// assert_eq!(Device::parse("GPU-8932f937").unwrap(), Device::Id("GPU-8932f937".to_owned()));
/// assert!(Device::parse("foo").unwrap_err().is_unavailable());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// `cpu`.
    Cpu,
    /// The index of a GPU.
    Index(u32),
    /// The name of a GPU or of a part of one, `GPU-…` or `MIG-…`, as `CUDA_VISIBLE_DEVICES` takes it: one name, of ASCII letters, digits,
    /// `-` and `/`.
    Id(String),
}

impl Device {
    /// Reads a device.
    ///
    /// # Errors
    /// A text that names no device. The error is [unavailable](super::RunnerErrorKind::Unavailable), like that of a device that this
    /// machine lacks.
    pub fn parse(text: &str) -> Result<Self, RunnerError> {
        let is_id = |text: &str| {
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'/'))
                && ["GPU-", "MIG-"].iter().any(|prefix| text.len() > prefix.len() && text.starts_with(prefix))
        };
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let unknown = || {
            RunnerError::unavailable(
                format!("there is no device `{}`", text.escape_debug()),
                "a device is `cpu`, the index of a GPU, or its name `GPU-…` or `MIG-…`",
            )
        };
        match text {
            "cpu" => Ok(Self::Cpu),
            _ if is_number => text.parse().map(Self::Index).map_err(|_| unknown()),
            _ if is_id(text) => Ok(Self::Id(text.to_owned())),
            _ => Err(unknown()),
        }
    }

    /// Refuses every device but the CPU, for runners and engines that run on the CPU alone. `what` names the runner or engine.
    ///
    /// # Errors
    /// A GPU, or a text that names no device. Both are unavailable.
    pub fn require_cpu(device: Option<&str>, what: &str) -> Result<(), RunnerError> {
        match device.map(Self::parse).transpose()? {
            None | Some(Self::Cpu) => Ok(()),
            Some(gpu) => Err(gpu.unavailable(&format!("{what} runs on the CPU alone"), "use the device `cpu`")),
        }
    }

    /// Creates the error of a device that cannot be used because of `reason`.
    #[must_use]
    pub fn unavailable(&self, reason: &str, hint: &str) -> RunnerError {
        RunnerError::unavailable(format!("device `{self}` cannot be used: {reason}"), hint)
    }
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Index(index) => index.fmt(f),
            Self::Id(id) => f.write_str(id),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn devices() {
        let id = |text: &str| Device::Id(text.to_owned());
        for (text, expected) in [
            ("cpu", Device::Cpu),
            ("0", Device::Index(0)),
            ("4294967295", Device::Index(u32::MAX)),
            ("GPU-1b", id("GPU-1b")),
            ("MIG-GPU-1b/3/0", id("MIG-GPU-1b/3/0")),
        ] {
            let device = Device::parse(text).unwrap();
            assert_eq!(device, expected);
            assert_eq!(device.to_string(), text);
        }
        let none = [
            "",
            "foo",
            "CPU",
            "cuda:0",
            "-1",
            "+1",
            " 1",
            "1.0",
            "4294967296",
            "GPU-",
            "GPU-1,GPU-2",
            "GPU-1\0",
            "gpu-1",
        ];
        for none in none {
            let error = Device::parse(none).unwrap_err();
            assert!(error.is_unavailable() && error.hint.is_some(), "{none}");
            assert_eq!(error.message, format!("there is no device `{}`", none.escape_debug()));
        }
    }

    #[test]
    fn what_runs_on_the_cpu_alone() {
        let check = |device: Option<&str>, expected: Result<(), &str>| {
            let found = Device::require_cpu(device, "this runner");
            assert!(found.as_ref().err().is_none_or(RunnerError::is_unavailable), "{device:?}");
            assert_eq!(found.map_err(|error| error.message), expected.map_err(str::to_owned));
        };
        check(None, Ok(()));
        check(Some("cpu"), Ok(()));
        check(Some("0"), Err("device `0` cannot be used: this runner runs on the CPU alone"));
        check(Some("MIG-2c"), Err("device `MIG-2c` cannot be used: this runner runs on the CPU alone"));
        check(Some("foo"), Err("there is no device `foo`"));
    }
}
