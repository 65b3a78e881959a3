//! Models on the Hugging Face Hub, or on a server that answers as it does (spec/registries.md, "The Hugging Face Hub").
//!
//! A name `hf://OWNER/REPOSITORY[@REVISION][/FILE]` that leads to a carton stands wherever the URL of a carton does. A repository that holds a bare
//! model can be packed: [`snapshot`] fetches its files.

mod error;
mod name;
#[cfg(feature = "remote")]
mod resolve;
#[cfg(feature = "remote")]
mod snapshot;
#[cfg(feature = "remote")]
mod tree;

pub use error::HubError;
pub(crate) use name::SCHEME;
pub use name::{HubName, InvalidHubName};
#[cfg(feature = "remote")]
pub(crate) use resolve::carton_url;
#[cfg(feature = "remote")]
pub use snapshot::{FetchSnapshot, Snapshot, snapshot};

/// The server of the Hub, unless the configuration names another.
pub(crate) const ENDPOINT: &str = "https://huggingface.co";
