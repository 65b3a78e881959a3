//! Settings of a model's runner and calls, given before the model is loaded.

use std::time::Duration;

use carton_format::signature::SignatureMode;
use semver::VersionReq;

use crate::Options;
use crate::runner::launch::LaunchPolicy;

/// Settings of the runner and of the calls of a model.
#[derive(Clone)]
pub(crate) struct LoadSettings {
    pub(super) device: Option<String>,
    pub(super) options: Options,
    pub(super) runner: Option<String>,
    pub(super) framework_version: Option<VersionReq>,
    pub(super) install_runners: bool,
    pub(super) signature: SignatureMode,
    pub(super) copy_outputs: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) start_timeout: Duration,
    pub(super) load_timeout: Option<Duration>,
    pub(super) restart: bool,
    pub(super) pool_bytes: u64,
    pub(super) output_bytes: Option<u64>,
    pub(super) pool_wait: Duration,
    pub(super) max_waiting_calls: usize,
    pub(super) policy: LaunchPolicy,
}

impl Default for LoadSettings {
    fn default() -> Self {
        Self {
            device: None,
            options: Options::new(),
            runner: None,
            framework_version: None,
            install_runners: false,
            signature: SignatureMode::default(),
            copy_outputs: false,
            timeout: None,
            start_timeout: Duration::from_secs(30),
            load_timeout: None,
            restart: true,
            pool_bytes: 4 << 30,
            output_bytes: None,
            pool_wait: Duration::from_secs(30),
            max_waiting_calls: 1024,
            policy: LaunchPolicy::default(),
        }
    }
}
