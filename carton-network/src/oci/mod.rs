//! Registries of artifacts, as container images have them (OCI Distribution Spec 1.1): the names of artifacts, their manifests, and the
//! requests of the protocol (spec/registries.md). Knows manifests of cartons, but opens none.

mod blobs;
mod client;
mod endpoint;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod manifest;
mod reference;
mod server;

pub use blobs::UploadStart;
pub use client::Client;
pub use endpoint::{Endpoint, RegistryAccess};
pub use error::OciError;
pub use reference::{InvalidArtifactName, Reference, SCHEME, is_repository, oci_digest};
pub use server::RegistryConfig;
