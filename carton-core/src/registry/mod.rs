//! Cartons in registries, which container images made common (spec/registries.md).
//!
//! A carton is an artifact in a repository, under a tag. Its large files are blobs of their own, which all artifacts of a registry share:
//! models that have a file in common store and transfer it once. The name of an artifact stands wherever the URL of a carton does:
//! `Carton::load("oci://registry.example.com/team/digits:1.0")`.
//!
//! `Carton::push` sends a carton to a registry, and `Carton::pull` writes one as a file. `list` and `tag` work on the names in a repository.

#[cfg(feature = "remote")]
mod list;
#[cfg(feature = "remote")]
mod pull;
#[cfg(feature = "remote")]
mod push;
#[cfg(feature = "remote")]
mod tag;
#[cfg(feature = "remote")]
mod upload;

#[cfg(feature = "remote")]
pub use list::{List, Listed, list};
#[cfg(feature = "remote")]
pub use pull::{Pull, Pulled};
#[cfg(feature = "remote")]
pub use push::{Push, Pushed};
#[cfg(feature = "remote")]
pub use tag::{Tag, Tagged, tag};

pub use crate::oci::Reference;
