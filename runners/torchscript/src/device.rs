//! Selects the device that a model runs on: the one that the user requested, as CUDA and libtorch number it.

use std::sync::OnceLock;

use carton_runner_interface::runner::{self, RunnerError};

use crate::identity::LIBTORCH_VERSION;
use crate::libtorch::{Device, process};

/// The variable that lists the GPUs that CUDA shows.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// The parsed request for a device, before CUDA is initialised.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The first GPU if there is one, otherwise the CPU.
    Any,
    Cpu,
    /// The one GPU that `CUDA_VISIBLE_DEVICES` shows when it has this value.
    Gpu {
        visible: String,
    },
}

/// Reads a device: `cpu`, an index, `GPU-…`, `MIG-…`. An index counts the GPUs that `visible`, the value of
/// `CUDA_VISIBLE_DEVICES` in our environment, lists. An empty list hides all of them.
///
/// # Errors
/// The device is anything else, or the list does not have the index: both are unavailable.
pub(crate) fn read(device: Option<&str>, visible: Option<&str>) -> Result<Wish, RunnerError> {
    let Some(device) = device.map(runner::Device::parse).transpose()? else { return Ok(Wish::Any) };
    let index = match &device {
        runner::Device::Cpu => return Ok(Wish::Cpu),
        runner::Device::Id(id) => return Ok(Wish::Gpu { visible: id.clone() }),
        runner::Device::Index(index) => *index,
    };
    let shown = visible.map(|list| list.split(',').map(str::trim).filter(|gpu| !gpu.is_empty()).collect::<Vec<_>>());
    match shown {
        None => Ok(Wish::Gpu { visible: index.to_string() }),
        Some(list) => match usize::try_from(index).ok().and_then(|index| list.get(index)) {
            Some(gpu) => Ok(Wish::Gpu { visible: (*gpu).to_owned() }),
            None => {
                let reason = format!("{VISIBLE} shows {} GPUs, counted from 0", list.len());
                Err(device.unavailable(&reason, "use the index of a GPU that is shown, or the device `cpu`"))
            }
        },
    }
}

/// Makes the requested device the only one that CUDA shows, and returns it.
///
/// # Errors
/// The request names no device, or a GPU that libtorch cannot use.
pub(crate) fn choose(device: Option<&str>) -> Result<Device, RunnerError> {
    // The value that the host passed: an earlier load that failed may have changed the variable.
    static GIVEN: OnceLock<Option<String>> = OnceLock::new();
    let given = GIVEN.get_or_init(|| std::env::var(VISIBLE).ok());
    match read(device, given.as_deref())? {
        Wish::Cpu => Ok(Device::Cpu),
        Wish::Any if process::finds_gpu()? => Ok(Device::Cuda(0)),
        Wish::Any => Ok(Device::Cpu),
        Wish::Gpu { visible } => {
            #[allow(unsafe_code, reason = "the environment is what CUDA reads")]
            // SAFETY: no other thread uses the environment now. The thread that serves the host only reads its socket, one load runs
            // at a time, and threads of libtorch, which exist if an earlier load failed, wait for work.
            unsafe {
                std::env::set_var(VISIBLE, &visible)
            };
            if process::finds_gpu()? {
                return Ok(Device::Cuda(0));
            }
            let device = device.unwrap_or_default();
            Err(RunnerError::unavailable(
                format!(
                    "device `{device}` cannot be used: libtorch {LIBTORCH_VERSION}, as it is installed here, finds no such GPU"
                ),
                "use the device `cpu`, or install the runner with a libtorch that has CUDA, such as that of a Python environment: \
                 `carton runner install torchscript --torch PATH`",
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
        for none in ["", " ", ","] {
            let reason = "device `0` cannot be used: CUDA_VISIBLE_DEVICES shows 0 GPUs, counted from 0";
            check(Some("0"), Some(none), Err(reason));
        }
        check(Some("1"), Some("2, GPU-5a"), gpu("GPU-5a"));
        check(
            Some("2"),
            Some("2,3"),
            Err("device `2` cannot be used: CUDA_VISIBLE_DEVICES shows 2 GPUs, counted from 0"),
        );
        check(Some("GPU-1b"), Some("2"), gpu("GPU-1b"));
        check(Some("MIG-1b"), None, gpu("MIG-1b"));
        for (none, visible) in [("", None), ("cuda:0", None), ("-1", None), ("gpu", None), ("2", Some("2,3"))] {
            assert!(read(Some(none), visible).is_err_and(|error| error.is_unavailable()), "{none}");
        }
    }
}
