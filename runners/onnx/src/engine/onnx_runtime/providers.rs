//! Execution providers: what a model is run on, as far as the library was built for it.
//!
//! An explicit choice that cannot be had is an error. Without one a model runs on the CPU, or on the GPU that the user names
//! as `device`, where the library has CUDA.

use std::ffi::{CStr, CString};
use std::ptr;

use carton_runner_interface::runner::RunnerError;
use ort::AsPointer;
use ort::ep;
use ort::session::builder::SessionBuilder;

use super::value::check;
use crate::options::ModelOptions;

/// What the names of all of them end with.
const ENDING: &str = "ExecutionProvider";

/// An execution provider of the library, by the runtime's own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    name: String,
    /// The GPU, for those that run on one.
    device: Option<i32>,
}

/// The names of those that the library was built with, the runtime's favourites first.
pub(super) fn available() -> Result<Vec<String>, RunnerError> {
    let (mut names, mut count) = (ptr::null_mut(), 0);
    // SAFETY: the runtime makes a list of as many strings as it says, which is given back below.
    check(unsafe { (ort::api().GetAvailableProviders)(&raw mut names, &raw mut count) })?;
    let found = (0..usize::try_from(count).unwrap_or(0))
        // SAFETY: as above; strings end with a NUL.
        .map(|index| unsafe { CStr::from_ptr(*names.add(index)) }.to_string_lossy().into_owned())
        .collect();
    // SAFETY: the list is not used any more.
    check(unsafe { (ort::api().ReleaseAvailableProviders)(names, count) })?;
    Ok(found)
}

/// Those that a model shall run on, in order of preference; none means the CPU.
///
/// # Errors
/// One that is asked for and that the library does not have; a device that is none.
pub(super) fn choose(
    options: &ModelOptions,
    device: Option<&str>,
    available: &[String],
    warn: &mut dyn FnMut(String),
) -> Result<Vec<Choice>, RunnerError> {
    let device = device.filter(|device| *device != "cpu");
    let index = device.and_then(|device| device.parse::<i32>().ok()).filter(|index| *index >= 0);
    let find = |wanted: &str| {
        available.iter().find(|name| short(name).eq_ignore_ascii_case(short(wanted)) && !short(wanted).is_empty())
    };
    if options.execution_providers.is_empty() {
        return match (device, find("CUDA")) {
            (None, _) => Ok(Vec::new()),
            (Some(_), Some(name)) if index.is_some() => Ok(vec![Choice { name: name.clone(), device: index }]),
            (Some(device), Some(_)) => {
                Err(RunnerError::new(format!("the onnx runner takes a GPU by its index, found device `{device}`")))
            }
            (Some(device), None) => {
                warn(format!("this library of ONNX Runtime runs on the CPU; device `{device}` is ignored"));
                Ok(Vec::new())
            }
        };
    }
    if let (Some(device), None) = (device, index) {
        return Err(RunnerError::new(format!("the onnx runner takes a GPU by its index, found device `{device}`")));
    }
    let choose = |wanted: &String| match find(wanted) {
        Some(name) => Ok(Choice { name: name.clone(), device: index.filter(|_| is_gpu(name)) }),
        None => Err(RunnerError::new(format!(
            "this library of ONNX Runtime has no execution provider `{wanted}`; it has {}",
            available.iter().map(|name| format!("`{}`", short(name))).collect::<Vec<_>>().join(", ")
        ))
        .with_hint("ORT_DYLIB_PATH names a library that has it, or the option execution_provider another one")),
    };
    let chosen = options.execution_providers.iter().map(choose).collect::<Result<Vec<Choice>, _>>()?;
    if let (Some(device), false) = (device, chosen.iter().any(|choice| choice.device.is_some())) {
        warn(format!("none of the execution providers asked for runs on a GPU; device `{device}` is ignored"));
    }
    Ok(chosen)
}

/// What a session runs on, to follow the runtime's version.
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
    /// Makes a session use it.
    pub(super) fn register(&self, builder: SessionBuilder) -> Result<SessionBuilder, String> {
        let failed = |error: &dyn std::fmt::Display| format!("execution provider `{}`: {error}", short(&self.name));
        let device = self.device.unwrap_or(0);
        let dispatch = match short(&self.name) {
            // It is there always, and comes after all others by itself.
            "CPU" => return Ok(builder),
            "CUDA" => ep::CUDA::default().with_device_id(device).build(),
            "Tensorrt" => ep::TensorRT::default().with_device_id(device).build(),
            _ => return self.register_by_name(builder).map_err(|error| failed(&error.message)),
        };
        builder.with_execution_providers([dispatch.error_on_failure()]).map_err(|error| failed(&error))
    }

    /// The way of those that take their options, of which there are none here, as text.
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
            let mut words = Vec::new();
            let chosen = choose(&options, device, &available, &mut |warning| words.push(warning));
            let found = chosen.map(|chosen| {
                let names = chosen.iter().map(|choice| match choice.device {
                    Some(device) => format!("{} {device}", short(&choice.name)),
                    None => short(&choice.name).to_owned(),
                });
                names.chain(words).collect::<Vec<_>>().join(", ")
            });
            assert_eq!(found.map_err(|error| error.message), expected.map(str::to_owned).map_err(str::to_owned));
        };
        let (cpu, gpu) = (&["Azure", "CPU"], &["Tensorrt", "CUDA", "CPU"]);
        check(&[], None, gpu, Ok(""));
        check(&[], Some("cpu"), gpu, Ok(""));
        check(&[], Some("1"), gpu, Ok("CUDA 1"));
        check(&[], Some("1"), cpu, Ok("this library of ONNX Runtime runs on the CPU; device `1` is ignored"));
        check(
            &[],
            Some("GPU-8932f937"),
            gpu,
            Err("the onnx runner takes a GPU by its index, found device `GPU-8932f937`"),
        );
        check(&["tensorRT", "CUDAExecutionProvider", "cpu"], Some("2"), gpu, Ok("Tensorrt 2, CUDA 2, CPU"));
        check(&["CUDA"], None, gpu, Ok("CUDA"));
        check(
            &["cpu"],
            Some("0"),
            cpu,
            Ok("CPU, none of the execution providers asked for runs on a GPU; device `0` is ignored"),
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
