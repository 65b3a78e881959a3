//! Execution providers: the backends that a model runs on, as far as the library was built for them.
//!
//! An explicitly chosen provider or device that is not available is an error. Without a choice a model runs on the CPU, or with CUDA on the
//! GPU that the user names as `device`.

use std::ffi::{CStr, CString};
use std::ptr;

use carton_runner_interface::runner::{Device, RunnerError};
use ort::AsPointer;
use ort::ep;
use ort::session::builder::SessionBuilder;

use super::value::check;
use crate::options::ModelOptions;

/// The hint for a library without the requested provider.
const ANOTHER_LIBRARY: &str = "ORT_DYLIB_PATH names a library that was built with it, such as that of onnxruntime-gpu";

/// The suffix of the names of all execution providers.
const ENDING: &str = "ExecutionProvider";

/// An execution provider of the library, by the runtime's own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    name: String,
    /// The index of the GPU, for providers that run on one.
    device: Option<i32>,
}

/// Returns the names of the providers that the library was built with, in the runtime's order of preference.
pub(super) fn available() -> Result<Vec<String>, RunnerError> {
    let (mut names, mut count) = (ptr::null_mut(), 0);
    // SAFETY: the runtime makes a list of `count` strings, which is released below.
    check(unsafe { (ort::api().GetAvailableProviders)(&raw mut names, &raw mut count) })?;
    let found = (0..usize::try_from(count).unwrap_or(0))
        // SAFETY: as above; strings end with a NUL.
        .map(|index| unsafe { CStr::from_ptr(*names.add(index)) }.to_string_lossy().into_owned())
        .collect();
    // SAFETY: the list is not used any more.
    check(unsafe { (ort::api().ReleaseAvailableProviders)(names, count) })?;
    Ok(found)
}

/// Chooses the providers for a model, in order of preference; an empty list means the CPU.
///
/// # Errors
/// The library does not have a requested provider, or no provider runs on the device.
pub(super) fn choose(
    options: &ModelOptions,
    device: Option<&str>,
    available: &[String],
) -> Result<Vec<Choice>, RunnerError> {
    let gpu = device.map(Device::parse).transpose()?.filter(|device| *device != Device::Cpu);
    let index = match &gpu {
        None => None,
        Some(Device::Index(index)) if let Ok(index) = i32::try_from(*index) => Some(index),
        Some(gpu) => {
            return Err(gpu.unavailable(
                "the onnx runner takes a GPU by its index",
                "use the index of the GPU, or the device `cpu`",
            ));
        }
    };
    let find = |wanted: &str| {
        available.iter().find(|name| short(name).eq_ignore_ascii_case(short(wanted)) && !short(wanted).is_empty())
    };
    if options.execution_providers.is_empty() {
        return match (gpu, find("CUDA")) {
            (None, _) => Ok(Vec::new()),
            (Some(_), Some(name)) => Ok(vec![Choice { name: name.clone(), device: index }]),
            (Some(gpu), None) => {
                let reason = format!("this library of ONNX Runtime was built without CUDA; it has {}", list(available));
                Err(gpu.unavailable(&reason, &format!("{ANOTHER_LIBRARY}; or use the device `cpu`")))
            }
        };
    }
    let choose = |wanted: &String| match find(wanted) {
        Some(name) => Ok(Choice { name: name.clone(), device: index.filter(|_| is_gpu(name)) }),
        None => Err(RunnerError::unavailable(
            format!("this library of ONNX Runtime has no execution provider `{wanted}`; it has {}", list(available)),
            format!("{ANOTHER_LIBRARY}; or leave the option execution_provider out, or name another one"),
        )),
    };
    let chosen = options.execution_providers.iter().map(choose).collect::<Result<Vec<Choice>, _>>()?;
    match gpu {
        Some(gpu) if chosen.iter().all(|choice| choice.device.is_none()) => Err(gpu.unavailable(
            "none of the execution providers asked for runs on a GPU",
            "use the device `cpu`, or name CUDA in the option execution_provider",
        )),
        _ => Ok(chosen),
    }
}

fn list(available: &[String]) -> String {
    available.iter().map(|name| format!("`{}`", short(name))).collect::<Vec<_>>().join(", ")
}

/// The providers of a session as text, to follow the runtime's version.
pub(super) fn in_words(chosen: &[Choice]) -> String {
    match chosen {
        [] => String::new(),
        chosen => format!(" on {}", chosen.iter().map(|choice| short(&choice.name)).collect::<Vec<_>>().join(", ")),
    }
}

/// The name as users write it.
fn short(name: &str) -> &str {
    name.strip_suffix(ENDING).unwrap_or(name)
}

fn is_gpu(name: &str) -> bool {
    matches!(short(name), "CUDA" | "Tensorrt")
}

impl Choice {
    /// Registers the provider with a session.
    ///
    /// # Errors
    /// The provider cannot be used, because a library that it needs, a driver, or the GPU with its index is missing.
    pub(super) fn register(&self, builder: SessionBuilder) -> Result<SessionBuilder, RunnerError> {
        let failed = |error: &dyn std::fmt::Display| {
            RunnerError::unavailable(
                format!("execution provider `{}`: {error}", short(&self.name)),
                "install what the execution provider needs, or use the device `cpu`",
            )
        };
        let device = self.device.unwrap_or(0);
        let dispatch = match short(&self.name) {
            // The CPU is always available, and the runtime itself puts it after all others.
            "CPU" => return Ok(builder),
            "CUDA" => ep::CUDA::default().with_device_id(device).build(),
            "Tensorrt" => ep::TensorRT::default().with_device_id(device).build(),
            _ => return self.register_by_name(builder).map_err(|error| failed(&error.message)),
        };
        builder.with_execution_providers([dispatch.error_on_failure()]).map_err(|error| failed(&error))
    }

    /// Registers a provider that takes its options as text. No options are passed.
    fn register_by_name(&self, mut builder: SessionBuilder) -> Result<SessionBuilder, RunnerError> {
        let name = CString::new(self.name.as_str()).map_err(|error| RunnerError::new(error.to_string()))?;
        // SAFETY: the builder's options live, the name until the call is over; there are no keys and values.
        check(unsafe {
            (ort::api().SessionOptionsAppendExecutionProvider)(
                builder.ptr_mut(),
                name.as_ptr(),
                ptr::null(),
                ptr::null(),
                0,
            )
        })?;
        Ok(builder)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn choices() {
        let check = |wanted: &[&str], device: Option<&str>, available: &[&str], expected: Result<&str, &str>| {
            let options = ModelOptions {
                execution_providers: wanted.iter().map(|name| (*name).to_owned()).collect(),
                ..ModelOptions::default()
            };
            let available: Vec<String> = available.iter().map(|name| format!("{name}{ENDING}")).collect();
            let chosen = choose(&options, device, &available);
            let is_unavailable =
                chosen.as_ref().err().is_none_or(|error| error.is_unavailable() && error.hint.is_some());
            assert!(is_unavailable, "{chosen:?}");
            let found = chosen.map(|chosen| {
                let names = chosen.iter().map(|choice| match choice.device {
                    Some(device) => format!("{} {device}", short(&choice.name)),
                    None => short(&choice.name).to_owned(),
                });
                names.collect::<Vec<_>>().join(", ")
            });
            assert_eq!(found.map_err(|error| error.message), expected.map(str::to_owned).map_err(str::to_owned));
        };
        let (cpu, gpu) = (&["Azure", "CPU"], &["Tensorrt", "CUDA", "CPU"]);
        check(&[], None, gpu, Ok(""));
        check(&[], Some("cpu"), gpu, Ok(""));
        check(&[], Some("1"), gpu, Ok("CUDA 1"));
        let no_cuda = "this library of ONNX Runtime was built without CUDA; it has `Azure`, `CPU`";
        check(&[], Some("1"), cpu, Err(&format!("device `1` cannot be used: {no_cuda}")));
        check(&[], Some("foo"), gpu, Err("there is no device `foo`"));
        check(&["CUDA"], Some("foo"), gpu, Err("there is no device `foo`"));
        check(
            &[],
            Some("GPU-8932f937"),
            gpu,
            Err("device `GPU-8932f937` cannot be used: the onnx runner takes a GPU by its index"),
        );
        check(&["tensorRT", "CUDAExecutionProvider", "cpu"], Some("2"), gpu, Ok("Tensorrt 2, CUDA 2, CPU"));
        check(&["CUDA"], None, gpu, Ok("CUDA"));
        check(
            &["cpu"],
            Some("0"),
            cpu,
            Err("device `0` cannot be used: none of the execution providers asked for runs on a GPU"),
        );
        check(
            &["CUDA"],
            None,
            cpu,
            Err("this library of ONNX Runtime has no execution provider `CUDA`; it has `Azure`, `CPU`"),
        );
        check(
            &["ExecutionProvider"],
            None,
            cpu,
            Err("this library of ONNX Runtime has no execution provider `ExecutionProvider`; it has `Azure`, `CPU`"),
        );
    }
}
