//! Cartons in registries, which container images made common (spec/registries.md).
//!
//! A carton is an artifact in a repository, under a tag. Its large files are blobs of their own, which all artifacts of a registry share:
//! models that have a file in common store and transfer it once. The name of an artifact stands wherever the URL of a carton does:
//! `Carton::load("oci://registry.example.com/team/digits:1.0")`.
//!
//! `Carton::push` sends a carton to a registry, and `Carton::pull` writes one as a file. `list` and `tag` work on the names in a repository.

mod list;
mod pull;
mod push;
mod tag;
mod upload;

pub use list::{List, TagInfo, list};
pub use pull::{Pull, Pulled};
pub use push::{Push, Pushed};
pub use tag::{Tag, Tagged, tag};

pub use carton_network::oci::{InvalidArtifactName, Reference};
