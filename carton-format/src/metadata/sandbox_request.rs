//! What a carton asks the sandbox for. Pure.

use std::fmt;

use serde::Serialize;

/// What a carton asks for (spec/carton-format-extensions.md, "Sandbox").
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SandboxRequest {
    /// The network.
    pub network: bool,
    /// Files and folders to be read. Absolute paths.
    pub read: Vec<String>,
}

impl SandboxRequest {
    /// The most paths that a carton asks for. Further ones are ignored.
    pub const MAX_PATHS: usize = 64;

    /// Asks for this.
    #[must_use]
    pub fn new(network: bool, mut read: Vec<String>) -> Self {
        read.truncate(Self::MAX_PATHS);
        Self { network, read }
    }

    /// Whether it asks for nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.network && self.read.is_empty()
    }

    /// Returns the permissions that it asks for, as the configuration takes them.
    pub fn permissions(&self) -> Vec<String> {
        let network = self.network.then(|| "network".to_owned());
        network.into_iter().chain(self.read.iter().map(|path| format!("read={path}"))).collect()
    }
}

impl fmt::Display for SandboxRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let network = self.network.then(|| "the network".to_owned());
        let read = self.read.iter().map(|path| format!("reading `{}`", path.escape_debug()));
        f.write_str(&network.into_iter().chain(read).collect::<Vec<_>>().join(", "))
    }
}
