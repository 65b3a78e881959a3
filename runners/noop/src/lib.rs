//! A runner that returns its inputs, for tests and benchmarks.
//!
//! It returns the tensors that it was given, so that a tensor in shared memory is not copied on its way through. It does
//! not use GPUs, and loading fails if one is requested. Options
//! of the model (`[runner.opts]`) change its behaviour:
//!
//! | option | what it does |
//! |---|---|
//! | `copy = true` | reads every byte of the numeric inputs and writes fresh outputs |
//! | `delay_ms = N` | each call takes that long, unless it is cancelled |
//! | `ignore_cancel = true` | cancelling does not shorten the delay |
//! | `fail = "text"` | each call fails with this message |
//! | `fail_load = "text"` | loading fails with this message |
//! | `unavailable = "text"` | loading fails with this message, as if something were missing on this machine |
//! | `panic = true` | each call panics |
//! | `crash = true` | each call ends the process with a signal |
//! | `exit = N` | each call ends the process with this status |
//! | `max_concurrency = N` | calls that may run at once (default 64) |
//! | `stream_items = N` | items of a stream (default 1) |
//! | `fail_after_items = N` | a stream fails only after that many items |
//! | `last_words = "text"` | this text is written to standard error before a crash |
//! | `log = "text"` | each call logs this text |
//! | `only_with = "name"` | only calls with an input of this name misbehave |
//! | `only_above = X` | only calls misbehave that have an element of float32 above X |

use std::process::ExitCode;
use std::time::{Duration, Instant};

use carton_runner_interface::Tensors;
use carton_runner_interface::runner::{
    self, Call, Description, Device, EmbeddedRunner, LoadRequest, Options, OutputStream, Runner, RunnerError,
};
use carton_tensor::{DataType, NestedTensor, NumericTensor, Tensor};
use serde::Deserialize;

/// The no-op runner.
pub struct Noop {
    behaviour: Behaviour,
}

#[derive(Deserialize)]
#[serde(default)]
struct Behaviour {
    copy: bool,
    delay_ms: u64,
    ignore_cancel: bool,
    fail: Option<String>,
    fail_load: Option<String>,
    unavailable: Option<String>,
    panic: bool,
    crash: bool,
    exit: Option<i32>,
    max_concurrency: usize,
    stream_items: usize,
    fail_after_items: usize,
    last_words: Option<String>,
    log: Option<String>,
    only_with: Option<String>,
    only_above: Option<f32>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            copy: false,
            delay_ms: 0,
            ignore_cancel: false,
            fail: None,
            fail_load: None,
            unavailable: None,
            panic: false,
            crash: false,
            exit: None,
            max_concurrency: 64,
            stream_items: 1,
            fail_after_items: 0,
            last_words: None,
            log: None,
            only_with: None,
            only_above: None,
        }
    }
}

const OPTIONS: [&str; 16] = [
    "copy",
    "delay_ms",
    "ignore_cancel",
    "fail",
    "fail_load",
    "unavailable",
    "panic",
    "crash",
    "exit",
    "max_concurrency",
    "stream_items",
    "fail_after_items",
    "last_words",
    "log",
    "only_with",
    "only_above",
];

impl Runner for Noop {
    const DTYPES: &'static [DataType] = &DataType::ALL;

    fn describe() -> Description {
        Description { name: "noop".to_owned(), framework_version: env!("CARGO_PKG_VERSION").to_owned() }
    }

    fn load(request: LoadRequest, call: &Call) -> Result<Self, RunnerError> {
        Device::require_cpu(request.device.as_deref(), "the noop runner")?;
        let behaviour = behaviour(request.options, call)?;
        if let Some(message) = behaviour.unavailable {
            return Err(RunnerError::unavailable(message, "install it"));
        }
        match behaviour.fail_load {
            Some(message) => Err(RunnerError::new(message)),
            None => Ok(Self { behaviour }),
        }
    }

    fn max_concurrency(&self) -> usize {
        self.behaviour.max_concurrency
    }

    fn infer(&self, inputs: Tensors, call: &Call) -> Result<Tensors, RunnerError> {
        self.misbehave(&inputs, call)?;
        self.echo(inputs, call)
    }

    fn infer_stream(&self, inputs: Tensors, call: &Call, outputs: &mut OutputStream<'_>) -> Result<(), RunnerError> {
        for number in 0..self.behaviour.stream_items {
            if number >= self.behaviour.fail_after_items {
                self.misbehave(&inputs, call)?;
            }
            outputs.send(self.echo(inputs.clone(), call)?)?;
        }
        Ok(())
    }
}

impl Noop {
    fn echo(&self, inputs: Tensors, call: &Call) -> Result<Tensors, RunnerError> {
        if !self.behaviour.copy {
            return Ok(inputs);
        }
        inputs.into_iter().map(|(name, tensor)| Ok((name, copy(tensor, call)?))).collect()
    }
}

fn behaviour(options: Options, call: &Call) -> Result<Behaviour, RunnerError> {
    for name in options.keys().filter(|name| !OPTIONS.contains(&name.as_str())) {
        call.warn(&format!("the noop runner has no option `{name}`"));
    }
    let options = serde_json::Value::Object(options.into_iter().collect());
    serde_json::from_value(options).map_err(|error| RunnerError::new(format!("options of the noop runner: {error}")))
}

impl Noop {
    /// Misbehaves as the options request, before the answer or instead of it.
    fn misbehave(&self, inputs: &Tensors, call: &Call) -> Result<(), RunnerError> {
        let behaviour = &self.behaviour;
        if behaviour.only_with.as_ref().is_some_and(|name| !inputs.contains_key(name)) {
            return Ok(());
        }
        if behaviour.only_above.is_some_and(|bound| !has_element_above(inputs, bound)) {
            return Ok(());
        }
        if let Some(text) = &behaviour.log {
            call.info(text);
        }
        let end = Instant::now() + Duration::from_millis(behaviour.delay_ms);
        while Instant::now() < end {
            if call.is_cancelled() && !behaviour.ignore_cancel {
                return Err(RunnerError::new("the call was cancelled"));
            }
            let left = end.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(Duration::from_millis(1)));
        }
        if let Some(text) = &behaviour.last_words {
            eprintln!("{text}");
        }
        if behaviour.crash {
            std::process::abort();
        }
        if let Some(status) = behaviour.exit {
            std::process::exit(status);
        }
        #[allow(clippy::panic, reason = "asked for by an option, to test that a panic costs one call only")]
        if behaviour.panic {
            panic!("the option `panic` is set");
        }
        match &behaviour.fail {
            Some(message) => Err(RunnerError::new(message.clone())),
            None => Ok(()),
        }
    }
}

fn has_element_above(inputs: &Tensors, bound: f32) -> bool {
    let is_above =
        |tensor: &NumericTensor| tensor.as_slice::<f32>().is_ok_and(|values| values.iter().any(|value| *value > bound));
    inputs.values().filter_map(Tensor::as_numeric).any(is_above)
}

/// Returns a new tensor with the same contents, for which every byte is read and written. String tensors are returned as they
/// are, because decoding them has already made a copy.
fn copy(tensor: Tensor, call: &Call) -> Result<Tensor, RunnerError> {
    Ok(match tensor {
        Tensor::Numeric(numeric) => copy_numeric(&numeric, call)?.into(),
        Tensor::Nested(nested) => {
            let elements: Result<Vec<_>, _> =
                nested.elements().iter().cloned().map(|element| copy(element, call)).collect();
            NestedTensor::new(elements?)?.into()
        }
        other => other,
    })
}

fn copy_numeric(tensor: &NumericTensor, call: &Call) -> Result<NumericTensor, RunnerError> {
    let mut output = call.alloc(tensor.dtype(), tensor.shape())?;
    let target = output.bytes_mut().ok_or_else(|| RunnerError::new("a new tensor cannot be written to"))?;
    target.copy_from_slice(tensor.bytes());
    Ok(output)
}

/// This runner, for programs that it is linked into.
pub const RUNNER: EmbeddedRunner = EmbeddedRunner::new("noop", env!("CARGO_PKG_VERSION"), run);

/// Serves the protocol over standard input until the host is gone.
#[must_use]
pub fn run() -> ExitCode {
    runner::run::<Noop>()
}
