//! Where a model runs: the device that the carton's user asked for, as CUDA is told and libtorch has it.

use std::sync::OnceLock;

use carton_runner_interface::runner::RunnerError;

use crate::LIBTORCH_VERSION;
use crate::module::Device;

/// The variable that says which GPUs CUDA shows.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// What to do with a device that was asked for, before CUDA is touched.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The first GPU, else the CPU.
    Any,
    Cpu,
    /// The one GPU that `CUDA_VISIBLE_DEVICES` shows when it has this value.
    Gpu {
        visible: String,
    },
}

/// Reads a device: `cpu`, an index, `GPU-…`, `MIG-…`. An index counts the GPUs that `visible`, the value of
/// `CUDA_VISIBLE_DEVICES` in our environment, lists.
///
/// # Errors
/// Something else, or an index that the list does not have.
pub(crate) fn read(device: Option<&str>, visible: Option<&str>) -> Result<Wish, RunnerError> {
    let Some(device) = device else { return Ok(Wish::Any) };
    if device == "cpu" {
        return Ok(Wish::Cpu);
    }
    if device.starts_with("GPU-") || device.starts_with("MIG-") {
        return Ok(Wish::Gpu { visible: device.to_owned() });
    }
    let Ok(index) = device.parse::<usize>() else {
        return Err(RunnerError::new(format!(
            "device `{device}` is none; expected `cpu`, the index of a GPU, or its name `GPU-…` or `MIG-…`"
        )));
    };
    let shown =
        visible.filter(|list| !list.trim().is_empty()).map(|list| list.split(',').map(str::trim).collect::<Vec<_>>());
    match shown {
        None => Ok(Wish::Gpu { visible: index.to_string() }),
        Some(list) => match list.get(index) {
            Some(gpu) => Ok(Wish::Gpu { visible: (*gpu).to_owned() }),
            None => Err(RunnerError::new(format!(
                "device `{device}` is not there: {VISIBLE} shows {} GPUs, counted from 0",
                list.len()
            ))),
        },
    }
}

/// Shows CUDA the device that was asked for, and finds it.
///
/// # Errors
/// A device that cannot be, or a GPU where libtorch cannot use it.
pub(crate) fn choose(device: Option<&str>) -> Result<Device, RunnerError> {
    // As the host gave it: a load that failed after this may have set it.
    static GIVEN: OnceLock<Option<String>> = OnceLock::new();
    let given = GIVEN.get_or_init(|| std::env::var(VISIBLE).ok());
    match read(device, given.as_deref())? {
        Wish::Cpu => Ok(Device::Cpu),
        Wish::Any if tch::Cuda::is_available() => Ok(Device::Cuda(0)),
        Wish::Any => Ok(Device::Cpu),
        Wish::Gpu { visible } => {
            // SAFETY: no other thread uses the environment now. The one that serves the host only reads its socket, one load runs at
            // a time, and threads of libtorch exist, if an earlier load failed, but wait for work.
            unsafe { std::env::set_var(VISIBLE, &visible) };
            if tch::Cuda::is_available() {
                return Ok(Device::Cuda(0));
            }
            let device = device.unwrap_or_default();
            Err(RunnerError::unavailable(
                format!(
                    "device `{device}` was asked for, but libtorch {LIBTORCH_VERSION} as it is installed here cannot use it"
                ),
                "use the device `cpu`, or build the runner with a libtorch that has CUDA: \
                 LIBTORCH=/path/to/libtorch runners/torchscript/install",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices() {
        let gpu = |visible: &str| Ok(Wish::Gpu { visible: visible.to_owned() });
        let check = |device: Option<&str>, visible: Option<&str>, expected: Result<Wish, &str>| {
            let found = read(device, visible).map_err(|error| error.message);
            assert_eq!(found, expected.map_err(str::to_owned), "{device:?} {visible:?}");
        };
        check(None, Some("3"), Ok(Wish::Any));
        check(Some("cpu"), Some("3"), Ok(Wish::Cpu));
        check(Some("1"), None, gpu("1"));
        check(Some("1"), Some(""), gpu("1"));
        check(Some("1"), Some("2, GPU-5a"), gpu("GPU-5a"));
        check(
            Some("2"),
            Some("2,3"),
            Err("device `2` is not there: CUDA_VISIBLE_DEVICES shows 2 GPUs, counted from 0"),
        );
        check(Some("GPU-1b"), Some("2"), gpu("GPU-1b"));
        check(Some("MIG-1b"), None, gpu("MIG-1b"));
        for none in ["", "cuda:0", "-1", "gpu"] {
            assert!(read(Some(none), None).is_err(), "{none}");
        }
    }
}
