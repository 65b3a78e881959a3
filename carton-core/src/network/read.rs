//! Small parts of files, whole in memory.

use std::sync::Arc;

use super::{Activity, Extent, Network, NetworkError, Part, Reply, Url, Version};

/// A part of a file in memory.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Its bytes; none when the known version is still the server's.
    pub bytes: Vec<u8>,
    /// Which part they are.
    pub extent: Extent,
    /// The version of the file they are from.
    pub version: Version,
}

/// What [`Network::read`] is to read.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The file.
    pub url: Url,
    /// The part of it.
    pub part: Part,
    /// The version it must have, if one is known.
    pub version: Option<Version>,
    /// The version that need not be sent again.
    pub known: Option<Version>,
    /// The most bytes that are accepted.
    pub limit: u64,
}

impl Network {
    /// Reads a part of a file into memory, trying again where that may help. Blocks.
    ///
    /// A server without ranges answers with the whole file; then only as much is read as `limit` allows, and more is an error.
    ///
    /// # Errors
    /// As [`Network::send`], after the retries; [`NetworkError::TooLarge`]; [`NetworkError::Interrupted`] when `activity` stops.
    pub fn read(&self, wanted: Wanted, activity: &Arc<Activity>) -> Result<Fetched, NetworkError> {
        let (network, shared) = (self.clone(), activity.clone());
        self.wait(&|| activity.control(), async move {
            let mut retries = network.retries();
            loop {
                match network.read_once(&wanted, &shared).await {
                    Ok(fetched) => return Ok(fetched),
                    Err(error) => retries.pause(error).await?,
                }
            }
        })
    }

    async fn read_once(&self, wanted: &Wanted, activity: &Activity) -> Result<Fetched, NetworkError> {
        let request = super::Request {
            url: &wanted.url,
            part: wanted.part.clone(),
            version: wanted.version.as_ref(),
            known: wanted.known.as_ref(),
            accept_encoded: false,
        };
        let mut reply: Reply = self.send(&request).await?;
        let too_large = || NetworkError::TooLarge { url: super::address(&wanted.url), limit: wanted.limit };
        if reply.remaining().is_some_and(|remaining| remaining > wanted.limit) {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = reply.chunk().await? {
            if bytes.len() as u64 + chunk.len() as u64 > wanted.limit {
                return Err(too_large());
            }
            activity.add_received(chunk.len() as u64);
            bytes.extend_from_slice(&chunk);
        }
        Ok(Fetched { bytes, extent: reply.extent().clone(), version: reply.version().clone() })
    }
}
