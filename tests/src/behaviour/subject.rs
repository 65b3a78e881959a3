//! What the suite has to know of a runner to test it.

use std::path::PathBuf;
use std::time::Duration;

use carton_core::Options;
use carton_core::config::Config;
use carton_tensor::{DataType, Tensor};

use crate::place::Place;

/// A runner under test.
pub trait Subject: Sync {
    /// What it is called in messages.
    fn name(&self) -> &'static str;

    /// The runner that its models are packed for.
    fn runner(&self) -> &'static str;

    /// Why it cannot be tested on this machine.
    fn unavailable(&self) -> Option<String> {
        None
    }

    /// Memory in MiB by which its process may grow over a thousand calls without leaking: what its allocator keeps.
    fn kept_memory(&self) -> u64 {
        8
    }

    /// Which of several installed releases of the runner is meant.
    fn framework_version(&self) -> Option<String> {
        None
    }

    /// Where its runner is installed.
    fn config(&self, place: &Place) -> Config {
        place.config()
    }

    /// What its environment needs beyond the usual.
    fn variables(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// A model that returns its input `x` of this dtype.
    fn echo(&self, dtype: DataType) -> Model;

    /// A model that does `trouble` with one input and echoes another; `None` when no model can.
    fn troubled(&self, trouble: Trouble) -> Option<Troubled>;

    /// A model whose stream returns its input again and again.
    fn stream(&self) -> Stream {
        Stream { model: self.echo(DataType::Float32), n_items: 1, is_numbered: false }
    }

    /// The words with which the runner refuses something that not every runner can do; `None` when it does it.
    fn refuses(&self, unusual: Unusual) -> Option<String>;

    /// The words with which the echo of float32 refuses other inputs than its own; `None` when it takes them.
    fn complains_about(&self, misfit: Misfit) -> Option<&'static str>;

    /// How often a large tensor is held in the runner's own memory while it is echoed.
    fn n_copies(&self) -> u64;

    /// Whether tensors travel in shared memory.
    fn shares_memory(&self) -> bool {
        true
    }
}

/// A model, the way to load it, and where its answer is.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Files by their names, or a file or folder that is there already.
    pub files: ModelFiles,
    /// A draft of `carton.toml`.
    pub metadata: String,
    /// Options for loading it.
    pub options: Options,
    /// The output that the echo is in.
    pub output: &'static str,
}

/// The files of a model.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelFiles {
    /// By their names in the folder that is packed.
    Made(Vec<(&'static str, Vec<u8>)>),
    /// A file or folder of the repository.
    Kept(PathBuf),
}

/// A model that can be brought into trouble.
#[derive(Clone, Debug)]
pub struct Troubled {
    pub model: Model,
    /// Inputs with which it echoes `x`.
    pub good: Vec<(&'static str, Tensor)>,
    /// Inputs with which it does not.
    pub bad: Vec<(&'static str, Tensor)>,
    /// Words of the error that follows.
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

/// What may go wrong in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It takes about this long.
    Slow(Duration),
    /// The model reports an error.
    Fail,
    /// The process dies.
    Crash,
    /// A stream fails after three items.
    FailInStream,
}

/// What not every runner can do.
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
    /// A string that holds a NUL.
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
    /// A model of files that are written for it, whose answer is in `output`.
    #[must_use]
    pub fn of(files: Vec<(&'static str, Vec<u8>)>, output: &'static str) -> Self {
        Self { files: ModelFiles::Made(files), metadata: String::new(), options: Options::new(), output }
    }

    /// The same model with one more option.
    #[must_use]
    pub fn with(mut self, option: &str, value: impl Into<serde_json::Value>) -> Self {
        self.options.insert(option.to_owned(), value.into());
        self
    }
}
