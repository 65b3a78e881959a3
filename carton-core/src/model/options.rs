//! How a model is to be loaded and called.

use std::fmt;
use std::time::Duration;

use semver::VersionReq;

use crate::Options;
use crate::config::Config;
use crate::digest::Sha256Digest;
use crate::progress::ProgressCallback;
use crate::runner::launch::LaunchPolicy;
use crate::signature::SignatureMode;

/// How [`Carton::load`](crate::Carton::load) loads. Build it from the default:
///
/// ```
/// use carton_core::LoadOptions;
/// let options = LoadOptions { device: Some("cpu".to_owned()), ..LoadOptions::default() };
/// # let _ = options;
/// ```
#[derive(Clone)]
pub struct LoadOptions {
    /// The SHA-256 that MANIFEST must have: the carton is exactly the one that is meant, or it is not loaded.
    pub expect: Option<Sha256Digest>,
    /// Where the model runs: `cpu`, a GPU index, `GPU-…`, `MIG-…`; `None` lets the runner choose.
    pub device: Option<String>,
    /// Options for the runner, over those of the carton.
    pub options: Options,
    /// Another runner than the one the carton names.
    pub runner: Option<String>,
    /// Another requirement on the framework version than the carton's.
    pub framework_version: Option<VersionReq>,
    /// Installs a missing runner from the configured index ([`Config::runner_index`]); [`Config::auto_install`] does so too.
    pub install_runners: bool,
    /// How inputs and outputs are checked against the carton's signature.
    pub signature: SignatureMode,
    /// Copies what the runner returns out of the memory it shares, so that the runner cannot change it afterwards.
    pub untrusted: bool,
    /// How long an inference may take, waiting included. A runner that exceeds it is killed: nothing else stops a
    /// framework for certain.
    pub timeout: Option<Duration>,
    /// How long a runner may take from its start to its first message.
    pub start_timeout: Duration,
    /// Whether a call after the runner died starts a fresh one.
    pub restart: bool,
    /// The most shared memory kept for inputs, in bytes.
    pub pool_bytes: u64,
    /// The most calls that wait for the runner; the next one fails at once.
    pub max_waiting_calls: usize,
    /// What the runner process may see and use.
    pub policy: LaunchPolicy,
    /// Whether LINKS of a local carton may name local files. LINKS of one on a server never may.
    pub allow_file_links: bool,
    /// Directories; `None` reads the configuration file and the environment.
    pub config: Option<Config>,
    /// Told how far verification and loading have come.
    pub progress: Option<ProgressCallback>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            expect: None,
            device: None,
            options: Options::new(),
            runner: None,
            framework_version: None,
            install_runners: false,
            signature: SignatureMode::default(),
            untrusted: false,
            timeout: None,
            start_timeout: Duration::from_secs(30),
            restart: true,
            pool_bytes: 4 << 30,
            max_waiting_calls: 1024,
            policy: LaunchPolicy::default(),
            allow_file_links: false,
            config: None,
            progress: None,
        }
    }
}

impl fmt::Debug for LoadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadOptions")
            .field("expect", &self.expect)
            .field("device", &self.device)
            .field("options", &self.options)
            .field("runner", &self.runner)
            .field("framework_version", &self.framework_version)
            .field("install_runners", &self.install_runners)
            .field("signature", &self.signature)
            .field("untrusted", &self.untrusted)
            .field("timeout", &self.timeout)
            .field("restart", &self.restart)
            .finish_non_exhaustive()
    }
}

/// How one inference differs from what [`LoadOptions`] say.
#[derive(Clone, Debug, Default)]
pub struct InferOptions {
    /// Instead of [`LoadOptions::timeout`].
    pub timeout: Option<Duration>,
}
