//! A network that refuses every request: for builds without the feature `remote`.

use std::convert::Infallible;
use std::sync::Arc;

use super::{Extent, NetworkError, NetworkOptions, Request, Url, Version, address};

/// The refusal of all access to servers.
#[derive(Clone, Debug)]
pub struct Network {
    options: Arc<NetworkOptions>,
}

impl Network {
    /// A network under these options.
    pub fn new(options: NetworkOptions) -> Network {
        Network { options: Arc::new(options) }
    }

    /// The same.
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
        let url = address(request.url);
        Err(if self.options.offline { NetworkError::Offline { url } } else { NetworkError::NotBuilt { url } })
    }
}

/// The answer to a request: there is none.
#[derive(Debug)]
pub struct Reply {
    pub(super) accepts_ranges: bool,
    none: Infallible,
}

impl Reply {
    /// Which part of the file it has.
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

    /// How many bytes of the body are still to come.
    pub fn remaining(&self) -> Option<u64> {
        match self.none {}
    }

    /// The next piece of the body.
    ///
    /// # Errors
    /// None.
    pub async fn chunk(&mut self) -> Result<Option<bytes::Bytes>, NetworkError> {
        match self.none {}
    }
}
