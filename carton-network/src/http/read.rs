//! Reads small parts of files into memory.

use std::fmt;
use std::io::Read;
use std::sync::Arc;

use carton_format::url::Url;

use super::{Activity, Extent, Network, NetworkError, Part, Request, Version};
use crate::encoding::{self, Limit};

/// A part of a file in memory.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The bytes, decoded if the server encodes the whole file; empty if the server still has the known version.
    pub bytes: Vec<u8>,
    /// The part of the file that they are.
    pub extent: Extent,
    /// The version of the file that they belong to.
    pub version: Version,
}

/// The arguments of [`Network::read`].
#[derive(Clone)]
pub struct Wanted {
    /// The file.
    pub url: Url,
    /// The requested part.
    pub part: Part,
    /// The version that the file must have, if one is known.
    pub version: Option<Version>,
    /// A version that the server need not send again.
    pub known: Option<Version>,
    /// The largest number of bytes that is accepted.
    pub limit: u64,
}

impl fmt::Debug for Wanted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("Wanted");
        fields.field("url", &self.url.shown()).field("part", &self.part).field("version", &self.version);
        fields.field("known", &self.known).field("limit", &self.limit).finish()
    }
}

impl Network {
    /// Reads a part of a file into memory, with retries where they may help. Blocks.
    ///
    /// The end of a file is requested as a suffix, or by its position from servers that do not support suffixes. A server without ranges
    /// sends the whole file; it is read if it is within the limit.
    ///
    /// # Errors
    /// As [`Network::send`], after the retries; [`NetworkError::NoRanges`] if a part was requested and the server offers only a whole
    /// file beyond the limit; [`NetworkError::TooLarge`]; [`NetworkError::Interrupted`] when `activity` is cancelled.
    pub fn read(&self, wanted: Wanted, activity: &Arc<Activity>) -> Result<Fetched, NetworkError> {
        let (network, shared) = (self.clone(), activity.clone());
        self.wait(activity, async move {
            let part = wanted.part.clone();
            let refused = match network.read_part(&wanted, &part, &shared).await {
                Err(error) if matches!(part, Part::Suffix(_)) && is_about_suffixes(&error) => error,
                result => return result,
            };
            let Part::Suffix(n_bytes) = part else { return Err(refused) };
            network.read_end(&wanted, n_bytes, &shared, refused).await
        })
    }

    /// Reads the end of a file from a server that supports only ranges with a start, as some object stores do.
    async fn read_end(
        &self,
        wanted: &Wanted,
        n_bytes: u64,
        activity: &Activity,
        refused: NetworkError,
    ) -> Result<Fetched, NetworkError> {
        tracing::debug!("{refused}; asking for the first byte instead, to learn the length");
        let first = match self.read_part(wanted, &Part::Range(0..1), activity).await {
            // The whole file if it is small, or the answer that it was not modified.
            Ok(fetched) if !matches!(fetched.extent, Extent::Part { .. }) => return Ok(fetched),
            Ok(fetched) => fetched,
            // So the first refusal was not about the suffix.
            Err(NetworkError::Status { .. }) => return Err(refused),
            Err(error) => return Err(error),
        };
        let Extent::Part { total, .. } = first.extent else { return Err(refused) };
        if total == 0 {
            return Ok(first);
        }
        let wanted = Wanted { version: Some(first.version), ..wanted.clone() };
        self.read_part(&wanted, &Part::Range(total.saturating_sub(n_bytes)..total), activity).await
    }

    async fn read_part(&self, wanted: &Wanted, part: &Part, activity: &Activity) -> Result<Fetched, NetworkError> {
        let mut retries = self.retries();
        loop {
            match self.read_once(wanted, part, activity).await {
                Ok(fetched) => return Ok(fetched),
                Err(error) => retries.pause(error).await?,
            }
        }
    }

    async fn read_once(&self, wanted: &Wanted, part: &Part, activity: &Activity) -> Result<Fetched, NetworkError> {
        let request = Request {
            part: part.clone(),
            version: wanted.version.as_ref(),
            known: wanted.known.as_ref(),
            ..Request::new(&wanted.url, Part::Whole)
        };
        let mut reply = self.send(&request).await?;
        let is_unasked = *reply.extent() == Extent::Whole && *part != Part::Whole;
        let length = reply.remaining();
        let accepts_ranges = reply.accepts_ranges;
        let too_large = || {
            let url = wanted.url.shown();
            match part {
                // The server may support ranges with a start.
                Part::Suffix(n_bytes) if is_unasked && accepts_ranges => NetworkError::Answer {
                    url,
                    expected: format!("the last {n_bytes} bytes"),
                    found: "the whole file".to_owned(),
                },
                _ if is_unasked => NetworkError::NoRanges { url, length },
                _ => NetworkError::TooLarge { url, limit: wanted.limit },
            }
        };
        if length.is_some_and(|length| length > wanted.limit) {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = reply.chunk().await? {
            activity.add_received(chunk.len() as u64);
            if bytes.len() as u64 + chunk.len() as u64 > wanted.limit {
                return Err(too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        let (extent, version) = (reply.extent().clone(), reply.version().clone());
        let bytes = decoded(&wanted.url, bytes, reply.encodings(), wanted.limit)?;
        Ok(Fetched { bytes, extent, version })
    }
}

/// The bytes of a whole answer without its content encodings. Some servers encode what they send, whatever the request says.
pub(super) fn decoded(url: &Url, bytes: Vec<u8>, encodings: &[String], limit: u64) -> Result<Vec<u8>, NetworkError> {
    // A server may repeat the header where it has nothing to send.
    if encodings.is_empty() || bytes.is_empty() {
        return Ok(bytes);
    }
    let answer = |found: String| NetworkError::Answer {
        url: url.shown(),
        expected: format!("at most {limit} bytes, encoded as {}", encodings.join(", ")),
        found,
    };
    let most = Limit { declared: None, allowance: limit, ratio: 0, absolute: limit };
    let mut reader = encoding::decode(&bytes[..], encodings, most).map_err(|error| answer(error.to_string()))?;
    let mut decoded = Vec::new();
    reader.read_to_end(&mut decoded).map_err(|error| answer(error.to_string()))?;
    Ok(decoded)
}

/// Whether an error may come from a server that does not support suffixes.
fn is_about_suffixes(error: &NetworkError) -> bool {
    match error {
        NetworkError::Status { status, .. } => matches!(status.code(), 400 | 416 | 501),
        NetworkError::Answer { .. } => true,
        _ => false,
    }
}
