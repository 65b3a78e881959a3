//! Carton packs any machine-learning model, untouched, with its metadata, its signature and its own self-tests into one
//! verifiable file, and runs it from any program.
//!
//! The framework that runs the model lives in a *runner*: a process of its own, with tensors in shared memory. A runner
//! that crashes fails the calls it was working on and is started again by the next one.
//!
//! ```no_run
//! use carton_core::{Carton, LoadOptions};
//! use carton_tensor::NumericTensor;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Carton::load("digits.carton", LoadOptions::default()).await?;
//! let image = NumericTensor::from_vec(vec![0.0_f32; 64], vec![1, 1, 8, 8])?;
//! let outputs = model.infer([("image", image)]).await?;
//! # let _ = outputs;
//! # Ok(())
//! # }
//! ```
//!
//! [`Carton`] is the way in: [`load`](Carton::load) and [`load_unpacked`](Carton::load_unpacked) start a runner,
//! [`pack`](Carton::pack) writes a carton, [`open`](Carton::open) reads one without running anything. The modules below
//! are its layers, each usable alone; `spec/carton-format.md` is the format they implement.

pub mod archive;
mod blocking;
pub mod cache;
mod causes;
pub mod config;
pub mod contents;
pub mod digest;
pub mod download;
pub mod encoding;
mod error;
mod error_kind;
mod example;
mod inputs;
mod invalid_toml;
pub mod links;
mod location;
pub mod manifest;
pub mod metadata;
mod model;
pub mod name;
pub mod network;
mod open;
mod pack;
pub mod package;
mod process_lock;
mod progress;
pub mod runner;
mod self_test;
mod shrink;
pub mod signature;
pub mod source;
pub mod tensor_data;
mod unknown_keys;

pub use carton_runner_interface::host::CallTimings;
pub use carton_runner_interface::{Options, Tensors};

pub use error::{Error, RunnerMessage};
pub use error_kind::ErrorKind;
pub use example::{SampleComparison, SampleResult};
pub use inputs::Inputs;
pub use invalid_toml::InvalidToml;
pub use location::{Location, LocationError, Place};
pub use model::{Carton, InferOptions, LoadOptions, OutputStream, SealedInputs};
pub use open::OpenOptions;
pub use pack::{PackCheck, PackOptions, Packed, Packing, RecordSelfTest};
pub use progress::{ProgressCallback, ProgressEvent, Stage};
pub use runner::runner_main;
pub use self_test::{OutputResult, SelfTestCounts, SelfTestOptions, SelfTestOutcome, SelfTestReport, SelfTestResult};
pub use shrink::{DEFAULT_MIN_SIZE, LeaveOut, LeftOut, ResolveOptions, ShrinkError, ShrinkOptions, Shrunk};
pub use unknown_keys::UnknownKey;

/// The README's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
