//! A network that refuses every request, for builds without the feature `remote`.

use std::convert::Infallible;
use std::sync::Arc;

use super::{Extent, NetworkError, NetworkOptions, Request, Url, Version};

/// Stands for access to servers, and refuses all of it.
#[derive(Clone, Debug)]
pub struct Network {
    options: Arc<NetworkOptions>,
}

impl Network {
    /// A network under these options.
    pub fn new(options: NetworkOptions) -> Network {
        Network { options: Arc::new(options) }
    }

    /// Returns the same network.
    #[must_use]
    pub fn public_only(&self, _carton: &Url) -> Network {
        self.clone()
    }

    /// The options.
    pub fn options(&self) -> &NetworkOptions {
        &self.options
    }

    /// Refuses a request.
    ///
    /// # Errors
    /// [`NetworkError::Offline`], [`NetworkError::NotBuilt`].
    pub async fn send(&self, request: &Request<'_>) -> Result<Reply, NetworkError> {
        let url = request.url.shown();
        Err(if self.options.offline { NetworkError::Offline { url } } else { NetworkError::NotBuilt { url } })
    }
}

/// The answer to a request. It has no values, because every request is refused.
#[derive(Debug)]
pub struct Reply {
    pub(super) accepts_ranges: bool,
    none: Infallible,
}

impl Reply {
    /// The part of the file that the answer holds.
    pub fn extent(&self) -> &Extent {
        match self.none {}
    }

    /// The version of the file.
    pub fn version(&self) -> &Version {
        match self.none {}
    }

    /// The content encodings of the body.
    pub fn encodings(&self) -> &[String] {
        match self.none {}
    }

    /// The number of bytes of the body still to come.
    pub fn remaining(&self) -> Option<u64> {
        match self.none {}
    }

    /// The next piece of the body.
    ///
    /// # Errors
    /// It cannot be called.
    pub async fn chunk(&mut self) -> Result<Option<bytes::Bytes>, NetworkError> {
        match self.none {}
    }
}
