//! Names of files and repositories on the Hugging Face Hub, or on a server that answers as it does, and what they stand for
//! (spec/registries.md, "The Hugging Face Hub").

mod error;
mod name;
mod resolve;
mod tree;

pub use error::HubError;
pub use name::{HubName, InvalidHubName, SCHEME};
pub use resolve::carton_url;
pub use tree::{Server, TreeFile};

/// The server of the Hub, unless the configuration names another.
pub const ENDPOINT: &str = "https://huggingface.co";
