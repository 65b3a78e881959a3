//! Carton packs any machine-learning model, untouched, with its metadata, its signature and its own self-tests into one
//! verifiable file, and runs it from any program.
//!
//! The framework that runs the model lives in a *runner*: a separate process, which shares memory with the program to exchange
//! tensors. If a runner crashes, the calls that it was working on fail, and the next call starts it again.
//!
//! ```no_run
//! use carton_core::{Carton, NumericTensor};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Carton::load("digits.carton").await?;
//! let image = NumericTensor::from_vec(vec![0.0_f32; 64], vec![1, 1, 8, 8])?;
//! let outputs = model.infer([("image", image)]).await?;
//! let probabilities = outputs.get::<f32>("probabilities")?;
//! println!("{:?} {:?}", probabilities.shape(), probabilities.as_slice());
//! # Ok(())
//! # }
//! ```
//!
//! [`Carton`] is the entry point. Each operation takes its required arguments, has setters for the optional ones, and is awaited:
//!
//! - [`Carton::load`] starts a runner with the model; [`Carton::infer`] calls the model, and [`Carton::self_test`] runs its
//!   self-tests;
//! - [`Carton::open`] returns a [`Package`] without starting a runner: metadata, files and tensors, [`Package::verify`] and
//!   [`Package::unpack`];
//! - [`file_bytes`] reads one file by ranges, such as a tensor file on a server;
//! - [`Carton::pack`] writes a carton, [`Carton::shrink`] replaces files by links to where they can be fetched,
//!   [`Carton::resolve`] puts such files back;
//! - [`Carton::diff`] says what differs between two cartons;
//! - [`hub`] fetches models from the Hugging Face Hub;
//! - [`registry`] pushes cartons to registries of container images, and lists and tags them there;
//! - [`trust`] says who may sign which cartons, and makes keys and signing bundles;
//! - [`config`] holds the folders, permissions and credentials, [`runner`] lists and installs runners, [`cache`] manages
//!   downloaded files, [`metadata`] is the content of carton.toml, [`model_card`] that of its `[card]`;
//! - [`machine`] tells what this machine has and lacks;
//! - [`sandbox`], [`signature`], [`self_test`], [`packing`], [`package`], [`shrink`], [`diff`] and [`tensor`] have the types that go with these, and
//!   [`prelude`] the names that most programs use.
//!
//! An [`Error`] has a [kind](Error::kind), by which a program decides how to react, and often a [hint](Error::hint) for the user. It is the one
//! error of the operations of this library. Making a small value, such as a [`Url`], a [`Sha256Digest`] or a [`Tensor`], has an error of its own.
//!
//! What takes long is awaited: it reads a carton, starts a process, calls a model or uses the network. In a program without an async runtime,
//! [`block_on`] waits for it. What works on an open [`Package`], a [`Cache`](cache::Cache) or an [`Installer`](runner::Installer) blocks, and
//! is cancelled by the token that they are given; a program on tokio calls it by `spawn_blocking`. A method of a [`Package`] that reads all of
//! it ([`verify`](Package::verify), [`unpack`](Package::unpack)) is an operation, and awaited.
//!
//! The file format is specified in `spec/carton-format.md`.
//!
//! # Modules
//!
//! Each uses only those before it.
//!
//! - `sandbox`: what the user allows and limits; `suspicion` guesses which limit a failure comes from, `denial` what the sandbox has
//!   refused. Pure.
//! - `error`: the one error of the public API, of which the error of each layer is a `Failure`, and what the user can do
//!   about it.
//! - `program`: runs a program that may hang, print much, or leave processes behind.
//! - `private_folder`, `process_lock`, `held_folder`: whether another user can write to a folder, or move it; locks between processes;
//!   temporary folders outside of the cache, and what killed processes have left of them.
//! - `location`, `memory`, `inputs`, `outputs`, `context_setters`: the place of a carton, and the hash that it must have; the memory of
//!   this machine; what callers pass as inputs, and get as outputs; the setters of types whose calls block.
//! - `variables`: the environment variables that options set, and that users pass; `runner/launch/variables` brings them past the
//!   programs that start and confine a runner.
//! - `cache`: files by hash, model folders by manifest hash, downloads, stored facts about cartons on servers, records of verified
//!   files, locks and leases. It also knows which cartons use which files, and deletes files that none needs. It opens no carton and
//!   fetches nothing. `Cache` has the calls for people, and a handle for each other part (`files`, `verifications`, `carton`, `remotes`,
//!   `blob_places`); `cache/layout` has the paths.
//! - `fetch_verified`: fetches a file of known SHA-256 into its download folder in the cache, and compares the digest.
//! - `contents`: a path in, verified bytes out; from an archive, an unpacked folder, or the cache. A file is *elsewhere* if its carton
//!   is on a server, or if the carton only links to it: `contents/fetch` fetches such files into the cache. `contents/locate` alone
//!   decides where the bytes of a file are. `contents/state` lists the parts of an open carton, each with state of its own.
//! - `trust`: the rules of the configuration, and what was found out about who signed a carton.
//! - `package`: an open carton: contents, metadata and tensors as one unit, read and written.
//! - `config`: the configuration file and the environment.
//! - `runner_message`, `runner_failure`: what a runner said; what goes wrong with a runner that was started.
//! - `runner`: descriptors, the runners that are available, the index, selection (pure); install, which downloads archives into the cache (`fetch`)
//!   and unpacks them under stricter rules (`unpack`) into a hidden folder that is renamed when it is complete (`workspace`); launch (a
//!   process and its supervisor, confined by `runner/launch/confinement`), session (process and connection).
//! - `self_test_report`, `shrink_error`, `packed`: the results of self-tests; why files cannot be
//!   left out; the result of packing, with all that it warns of.
//! - `blocking`: async operations on tokio for work that blocks.
//! - `settings`: the settings that operations share.
//! - `contents_work`: unpacking and verifying as operations.
//! - `open`: opens a carton without a runner. `open/signing` looks for the signing bundle and applies the rules of trust: whatever opens a
//!   carton passes there. `open/remote` opens one on a server, `open/registry` one in a registry: it gives `contents` the small layer as
//!   an archive, and the digests of the other layers as `Blobs`, which are fetched as linked files are.
//! - `model`: package and runner joined: load and infer. A call waits for its turn before it gives its inputs away (`model/live`), so
//!   that it can wait again for a fresh runner. `model/preparation` remembers what a runner has prepared for a model.
//! - `self_test`, `example`, `shrink`, `hub`: runs self-tests; runs examples and compares their outputs; leaves files out of a carton,
//!   and puts them back; fetches the files of a repository.
//! - `pack`: `pack/fetch` brings a model from a server, `pack/mlflow` from one of MLflow, `pack/pointers` finds Git LFS pointers in place of files, `pack/secrets` what must not be given
//!   away, `pack/selected` lists what is packed and searches it, `pack/recognize` determines the runner and the template, `pack/packing` is
//!   packing in two steps, `pack/check` loads and tests a carton that does not have its final name yet, `pack/outputs` compares what the
//!   model returns with what it declares, on `pack/zeros` where there is no self-test.
//! - `diff`: what differs between two cartons. `diff/report` is the result; `diff/files`, `diff/metadata` and `diff/packages` are pure.
//! - `registry`, `machine`: pushes, pulls, lists and tags cartons in registries; what this machine has and lacks, for `carton doctor`.
//! - `internals`: what benchmarks and tests of this workspace use below the public API.

mod blocking;
pub mod cache;
pub mod config;
mod contents;
mod contents_work;
mod context_setters;
pub mod diff;
mod error;
mod example;
mod fetch_verified;
mod held_folder;
pub mod hub;
mod inputs;
#[doc(hidden)]
pub mod internals;
mod location;
pub mod machine;
mod memory;
mod model;
mod open;
mod outputs;
mod pack;
pub mod package;
mod packed;
mod private_folder;
mod process_lock;
#[doc(hidden)]
pub mod program;
pub mod registry;
pub mod runner;
mod runner_failure;
mod runner_message;
pub mod sandbox;
pub mod self_test;
mod self_test_report;
mod settings;
pub mod shrink;
mod shrink_error;
pub mod trust;
mod variables;

pub use carton_runner_interface::host::CallTimings;
pub use carton_runner_interface::{OptionValue, Options, Tensors};
pub use carton_tensor::{
    DataType, Dimension, NestedTensor, NumericTensor, StringTensor, SymbolicShape, Tensor, TensorError,
};
pub use semver::{Version, VersionReq};

pub use carton_format::context::{CancelGuard, CancelToken, Context};
pub use carton_format::digest::{DigestError, Sha256Digest};
pub use carton_format::error_kind::ErrorKind;
pub use carton_format::invalid_toml::InvalidToml;
pub use carton_format::links::Links;
pub use carton_format::manifest::ManifestHash;
pub use carton_format::metadata;
pub use carton_format::model_card;
pub use carton_format::progress::{ProgressCallback, ProgressEvent, Stage};
pub use carton_format::unknown_keys::UnknownKey;
pub use carton_format::url::{InvalidUrl, ShownUrl, Url};
pub use carton_network::place::{Place, PlaceError};

pub use blocking::{Awaited, block_on};
pub use config::Config;
pub use contents::{BadFile, VerifyReport};
pub use contents_work::{Unpack, Verify};
pub use error::{Advice, Error};
pub use example::{SampleComparison, SampleResult};
pub use inputs::Inputs;
pub use location::Location;
pub use model::{CallInputs, Carton, Infer, Load, OutputStream, SealedInputs};
pub use open::{FilesBeside, Open, OpenBytes, file_bytes};
pub use outputs::{Outputs, Values};
pub use pack::Pack;
pub use package::Package;
pub use packed::Packed;
pub use runner::runner_main;

/// The names that most programs use.
///
/// ```no_run
/// use carton_core::prelude::*;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Carton::load("digits.carton").await?;
/// let image = NumericTensor::from_vec(vec![0.0_f32; 64], vec![1, 1, 8, 8])?;
/// let outputs: Outputs = model.infer([("image", image)]).await?;
/// # let _ = outputs;
/// # Ok(())
/// # }
/// ```
pub mod prelude {
    pub use crate::{
        Carton, Config, DataType, Error, ErrorKind, Inputs, Location, NumericTensor, Outputs, Package, StringTensor,
        Tensor, block_on, runner_main,
    };
}

/// The declared inputs and outputs of a model, and how a call may differ from them.
pub mod signature {
    pub use crate::inputs::cast_inputs;
    pub use carton_format::side::Side;
    pub use carton_format::signature::{
        SignatureMode, UnknownSignatureMode, Violation, ViolationKind, how_to_declare_bools,
    };
}

/// What tensors consist of, and where cartons keep them.
pub mod tensor {
    pub use carton_format::tensor_data::{Entry as TensorEntry, FileFormat as SharedFileFormat, TensorIndex};
    pub use carton_runner_interface::PrivateBytes;
    pub use carton_tensor::files::{FileBytes, SharedBytes};
    pub use carton_tensor::{
        AlignedBytes, BARE_NUMBER, BoolByte, BytesTensor, CastError, Complex, Element, Float8E4m3Fn, Float8E4m3Fnuz,
        Float8E5m2, Float8E5m2Fnuz, Number, NumberValue, Storage, Tolerance, VariableElement, VariableTensor, bf16,
        carried, cast, f16, mark_bare_numbers, restored, with_element, with_number,
    };
}

/// What packing takes and returns.
pub mod packing {
    pub use crate::pack::{FetchModel, FetchedModel, Packing, Recognized, RecordSelfTest, fetch_model};
    pub use crate::package::NotPacked;
    pub use crate::packed::{PackCheck, PackWarning, ZeroRun};
    pub use carton_format::archive::{Compression, Method};
    pub use carton_format::tensor_data::TensorFormat;
    pub use carton_templates::Template;
}

/// The optional parts that this library was built with, by the names of Cargo's features.
pub const FEATURES: &[&str] = match (cfg!(feature = "object-store"), cfg!(feature = "sigstore")) {
    (true, true) => &["object-store", "sigstore"],
    (true, false) => &["object-store"],
    (false, true) => &["sigstore"],
    (false, false) => &[],
};

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
