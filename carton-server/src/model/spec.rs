//! What to serve, and how.

use std::num::NonZeroUsize;
use std::time::Duration;

use carton_core::{Carton, Load, Location};

/// A model to be served: its name, its carton, and how its calls are run. Setters configure it.
///
/// ```
/// use carton_core::Carton;
/// use carton_server::ModelSpec;
///
/// let digits = ModelSpec::new("digits", "digits.carton").instances(2.try_into()?);
/// let on_gpu = ModelSpec::of_load("large", Carton::load("large.carton").device("0"));
/// # Ok::<(), std::num::TryFromIntError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ModelSpec {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) load: Load,
    pub(crate) instances: NonZeroUsize,
    pub(crate) batching: Batching,
    pub(crate) max_queue: usize,
    pub(crate) self_test: bool,
    /// A text that changes when anything about the model does. A reload keeps a model whose text is the same.
    pub(crate) identity: Option<String>,
}

/// How calls are joined to batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batching {
    /// The most elements of the batch dimension in one run. 1 joins no calls.
    pub(crate) max_batch: NonZeroUsize,
    /// How long a call waits for others to join.
    pub(crate) max_delay: Duration,
}

/// The most elements of a batch by default.
const MAX_BATCH: NonZeroUsize = NonZeroUsize::new(32).unwrap();
/// The most calls that a model has at once by default.
const MAX_QUEUE: usize = 1024;

impl ModelSpec {
    /// Serves the carton at `location` as `name`, version 1.
    pub fn new(name: impl Into<String>, location: impl Into<Location>) -> Self {
        Self::of_load(name, Carton::load(location))
    }

    /// Serves what `load` loads. Its settings, such as the device, the options of the runner and the sandbox, are those of every instance.
    pub fn of_load(name: impl Into<String>, load: Load) -> Self {
        Self {
            name: name.into(),
            version: "1".to_owned(),
            load,
            instances: NonZeroUsize::MIN,
            batching: Batching { max_batch: MAX_BATCH, max_delay: Duration::ZERO },
            max_queue: MAX_QUEUE,
            self_test: false,
            identity: None,
        }
    }

    /// Sets the version. Several versions of one name are served side by side; a request that names none gets the highest, where numbers
    /// are compared as numbers.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Sets the number of runners, each a process with the model in memory; 1 by default.
    #[must_use]
    pub fn instances(mut self, instances: NonZeroUsize) -> Self {
        self.instances = instances;
        self
    }

    /// Sets the most elements of the batch dimension that are run together; 32 by default, 1 joins no calls. Calls are joined only if the
    /// carton declares a batch dimension: a symbol that is the first dimension of every input and output, and no other.
    #[must_use]
    pub fn max_batch(mut self, elements: NonZeroUsize) -> Self {
        self.batching.max_batch = elements;
        self
    }

    /// Sets how long a call waits for others to join it; not at all by default. Calls that arrive while the runners are busy are joined in
    /// any case.
    #[must_use]
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.batching.max_delay = delay;
        self
    }

    /// Sets the most calls that the model has at once, those that run included; 1024 by default. Any further call is refused.
    #[must_use]
    pub fn max_queue(mut self, calls: usize) -> Self {
        self.max_queue = calls;
        self
    }

    /// Whether the model must pass its self-tests before it is ready. Off by default.
    #[must_use]
    pub fn self_test(mut self, required: bool) -> Self {
        self.self_test = required;
        self
    }

    /// Sets a text that changes whenever the model should be loaded again by a reload. By default a reload loads it again always.
    #[must_use]
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }
}

/// The longest name of a model or version.
const MAX_NAME: usize = 128;

/// Names are parts of URLs and labels of metrics.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_allowed = |character: char| character.is_ascii_alphanumeric() || "-_.+".contains(character);
    // A model of this name would have the URL of the statistics.
    if name == "stats" {
        return Err("the name `stats` is taken by the statistics of all models".to_owned());
    }
    match !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_allowed) && !name.starts_with('.') {
        true => Ok(()),
        false => Err(format!(
            "a name has 1 to {MAX_NAME} letters, digits and `-_.+`, and begins with no `.`; found `{}`",
            name.escape_debug()
        )),
    }
}
