//! Registries of artifacts, as container images have them (OCI Distribution Spec 1.1): the names of artifacts, their manifests, and the
//! requests of the protocol (spec/registries.md). Knows manifests of cartons, but opens none.

#[cfg(feature = "remote")]
mod blobs;
#[cfg(feature = "remote")]
mod client;
#[cfg(feature = "remote")]
mod endpoint;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
#[cfg(feature = "remote")]
pub(crate) mod manifest;
mod reference;
mod server;

#[cfg(feature = "remote")]
pub(crate) use blobs::UploadStart;
#[cfg(feature = "remote")]
pub(crate) use client::Client;
#[cfg(feature = "remote")]
pub(crate) use endpoint::{Endpoint, RegistryAccess};
pub use error::OciError;
pub(crate) use reference::SCHEME;
pub use reference::{InvalidArtifactName, Reference};
#[cfg(feature = "remote")]
pub(crate) use reference::{is_repository, oci_digest};
pub use server::RegistryConfig;
