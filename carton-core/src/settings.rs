//! The settings that all operations share, and one definition of their setters.

use std::fmt;

use carton_format::manifest::ManifestHash;
use carton_format::progress::ProgressCallback;

use crate::Error;
use crate::config::Config;
use crate::trust::TrustSettings;

/// Settings of every operation: the configuration to use, and the callback for progress.
#[derive(Clone, Default)]
pub(crate) struct OperationSettings {
    config: Option<Config>,
    pub(crate) progress: Option<ProgressCallback>,
}

impl OperationSettings {
    /// Returns the configuration that the caller gave, or else the one of the configuration file and the environment.
    pub(crate) fn config(&self) -> Result<Config, Error> {
        Ok(match &self.config {
            Some(config) => config.clone(),
            None => Config::load(None)?,
        })
    }

    pub(crate) fn progress(&self) -> Option<&ProgressCallback> {
        self.progress.as_ref()
    }

    pub(crate) fn set_config(&mut self, config: Config) {
        self.config = Some(config);
    }
}

impl fmt::Debug for OperationSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperationSettings").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Settings of every operation that reads an existing carton.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenSettings {
    /// The SHA-256 that MANIFEST must have.
    pub(crate) expect: Option<ManifestHash>,
    /// Whether LINKS of a local carton may name local files. LINKS of a carton on a server never may.
    pub(crate) allow_file_links: bool,
    pub(crate) trust: TrustSettings,
    pub(crate) operation: OperationSettings,
}

/// Defines the setters of an operation that keeps its [`OperationSettings`] in the field `$field`.
macro_rules! operation_setters {
    ($($field:ident).+) => {
        /// Uses the folders, permissions and credentials of `config`, instead of those of the configuration file and the
        /// environment.
        pub fn config(mut self, config: $crate::config::Config) -> Self {
            self.$($field).+.set_config(config);
            self
        }

        $crate::settings::progress_setter!($($field).+.progress);
    };
}

/// The setter of an operation whose field of this name is an `Option<ProgressCallback>`.
macro_rules! progress_setter {
    ($($field:ident).+) => {
        /// Calls `on_progress` to report progress. The call may come from any thread and must not block.
        pub fn progress(mut self, on_progress: impl Fn(&$crate::ProgressEvent) + Send + Sync + 'static) -> Self {
            self.$($field).+ = Some(std::sync::Arc::new(on_progress));
            self
        }
    };
}

/// Defines the setters of an operation that keeps its [`OpenSettings`] in the field `$field`.
macro_rules! open_setters {
    ($field:ident) => {
        /// Requires that the SHA-256 of MANIFEST is `hash`. Any other carton is refused.
        pub fn expect_hash(mut self, hash: $crate::ManifestHash) -> Self {
            self.$field.expect = Some(hash);
            self
        }

        /// Whether LINKS of a local carton may name local files. Off by default. LINKS of a carton on a server never may.
        pub fn allow_file_links(mut self, allow: bool) -> Self {
            self.$field.allow_file_links = allow;
            self
        }

        /// Refuses a carton that is not signed by `key`, or by another key that is passed like this. The trust rules of the
        /// configuration do not apply then.
        pub fn trust_key(mut self, key: $crate::trust::PublicKey) -> Self {
            self.$field.trust.keys.push(key);
            self
        }

        /// Where the bundle that signs the carton is: a path or a URL. By default it is beside the carton, under its name and `.sig`.
        pub fn bundle(mut self, location: impl Into<$crate::Location>) -> Self {
            self.$field.trust.bundle = Some(location.into());
            self
        }

        /// Whether a carton without a trusted signer is refused. By default that is so where a rule of the configuration requires
        /// it, and with [`trust_key`](Self::trust_key).
        pub fn require_signed(mut self, required: bool) -> Self {
            self.$field.trust.required = Some(required);
            self
        }

        $crate::settings::operation_setters!($field.operation);
    };
}

pub(crate) use {open_setters, operation_setters, progress_setter};
