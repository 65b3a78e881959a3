//! The properties of a runner that the suite needs to test it.

use std::path::PathBuf;
use std::time::Duration;

use carton_core::Options;
use carton_core::config::Config;
use carton_tensor::{DataType, Tensor};

use crate::place::TestPlace;

/// A runner under test.
pub trait Subject: Sync {
    /// The name in messages.
    fn name(&self) -> &'static str;

    /// The name of the runner that its models are packed for.
    fn runner(&self) -> &'static str;

    /// The reason why it cannot be tested on this machine, if there is one.
    fn unavailable(&self) -> Option<String> {
        None
    }

    /// Memory in MiB by which its process may grow over a thousand calls without a leak, because its allocator keeps it.
    fn kept_memory(&self) -> u64 {
        8
    }

    /// The framework version, if several releases of the runner are installed.
    fn framework_version(&self) -> Option<String> {
        None
    }

    /// The configuration with which its runner is found.
    fn config(&self, place: &TestPlace) -> Config {
        place.config()
    }

    /// Further environment variables that it needs.
    fn variables(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// A model that returns its input `x` of this dtype.
    fn echo(&self, dtype: DataType) -> Model;

    /// A model that causes `trouble` with one input and echoes another; `None` if no model can.
    fn troubled(&self, trouble: Trouble) -> Option<Troubled>;

    /// A model whose stream returns its input repeatedly.
    fn stream(&self) -> Stream {
        Stream { model: self.echo(DataType::Float32), n_items: 1, is_numbered: false }
    }

    /// Whether the runner takes and gives tensors of this dtype as they are. Others it may refuse, or know as what carries them.
    fn takes(&self, dtype: DataType) -> bool {
        dtype.carrier() == dtype
    }

    /// The words with which the runner refuses something that not every runner can do; `None` if it can do it.
    fn refuses(&self, unusual: Unusual) -> Option<String>;

    /// The words with which the echo of float32 refuses inputs that do not fit; `None` if it accepts them.
    fn complains_about(&self, misfit: Misfit) -> Option<&'static str>;

    /// The number of copies of a large tensor in the runner's own memory while it is echoed.
    fn n_copies(&self) -> u64;

    /// Whether tensors travel in shared memory.
    fn shares_memory(&self) -> bool {
        true
    }
}

/// A model, the options to load it, and the output with its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Files by their names, or an existing file or folder.
    pub files: ModelFiles,
    /// A draft of `carton.toml`.
    pub metadata: String,
    /// Options for loading it.
    pub options: Options,
    /// The output that contains the echo.
    pub output: &'static str,
}

/// The files of a model.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelFiles {
    /// Contents by their names in the packed folder.
    Made(Vec<(&'static str, Vec<u8>)>),
    /// A file or folder of the repository.
    Kept(PathBuf),
}

/// A model that can be made to fail or to be slow.
#[derive(Clone, Debug)]
pub struct Troubled {
    pub model: Model,
    /// Inputs with which it echoes `x`.
    pub good: Vec<(&'static str, Tensor)>,
    /// Inputs that cause the trouble.
    pub bad: Vec<(&'static str, Tensor)>,
    /// Words of the error that the bad inputs cause.
    pub words: &'static str,
}

/// A model that streams.
#[derive(Clone, Debug)]
pub struct Stream {
    pub model: Model,
    pub n_items: usize,
    /// Whether each item has an int64 output `number`, counted from 0.
    pub is_numbered: bool,
}

/// The ways in which a call may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The call takes about this long.
    Slow(Duration),
    /// The model reports an error.
    Fail,
    /// The process dies.
    Crash,
    /// A stream fails after three items.
    FailInStream,
}

/// The abilities that not every runner has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusual {
    /// Tensors of this dtype.
    Dtype(DataType),
    /// An int64 that int32 cannot hold.
    WideInt64,
    /// Tensors of this rank.
    Rank(usize),
    /// Strings of this rank.
    StringRank(usize),
    /// A string that contains a NUL.
    Nul,
    /// Nested tensors.
    Nested,
}

/// Inputs that an echo of float32 `x` does not expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// No `x`.
    Missing,
    /// Also `surplus`.
    Surplus,
    /// `x` is int32.
    Dtype,
}

impl Model {
    /// Makes a model of these files, whose answer is in `output`.
    #[must_use]
    pub fn of(files: Vec<(&'static str, Vec<u8>)>, output: &'static str) -> Self {
        Self { files: ModelFiles::Made(files), metadata: String::new(), options: Options::new(), output }
    }

    /// Returns the same model with one more option.
    #[must_use]
    pub fn with(mut self, option: &str, value: impl Into<serde_json::Value>) -> Self {
        self.options.insert(option.to_owned(), value.into());
        self
    }
}
