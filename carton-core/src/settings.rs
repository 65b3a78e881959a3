//! What callers say of every operation, and the setters that say it: one definition for all of them.

use std::fmt;

use crate::Error;
use crate::config::Config;
use crate::digest::Sha256Digest;
use crate::progress::ProgressCallback;

/// What every operation is told: the configuration that it works under, and who is told of its progress.
#[derive(Clone, Default)]
pub(crate) struct OperationSettings {
    config: Option<Config>,
    pub(crate) progress: Option<ProgressCallback>,
}

impl OperationSettings {
    /// The configuration that was given, else that of the file and the environment.
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

/// What every operation on a carton that exists is told.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenSettings {
    /// The SHA-256 that MANIFEST must have.
    pub(crate) expect: Option<Sha256Digest>,
    /// Whether LINKS of a local carton may name local files. LINKS of one on a server never may.
    pub(crate) allow_file_links: bool,
    pub(crate) operation: OperationSettings,
}

/// The setters of an operation whose field of this name is an [`OperationSettings`].
macro_rules! operation_setters {
    ($($field:ident).+) => {
        /// Uses these folders, permissions and credentials, instead of those of the configuration file and the environment.
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
        /// Calls `on_progress` to report how far the work has come. It is called from any thread and must not block.
        pub fn progress(mut self, on_progress: impl Fn(&$crate::ProgressEvent) + Send + Sync + 'static) -> Self {
            self.$($field).+ = Some(std::sync::Arc::new(on_progress));
            self
        }
    };
}

/// The setters of an operation whose field of this name is an [`OpenSettings`].
macro_rules! open_setters {
    ($field:ident) => {
        /// Requires that the SHA-256 of MANIFEST is this one: the carton is exactly the one that is meant, or it is refused.
        pub fn expect_hash(mut self, hash: $crate::digest::Sha256Digest) -> Self {
            self.$field.expect = Some(hash);
            self
        }

        /// Whether LINKS of a local carton may name local files. Off by default. LINKS of a carton on a server never may.
        pub fn allow_file_links(mut self, allow: bool) -> Self {
            self.$field.allow_file_links = allow;
            self
        }

        $crate::settings::operation_setters!($field.operation);
    };
}

pub(crate) use {open_setters, operation_setters, progress_setter};
