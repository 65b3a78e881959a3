//! The network of Carton: what is fetched from servers, and sent to them.
//!
//! [`http`] makes requests, and everything else here goes through it. [`download`] fetches a file, or a range of it, into a local file, by several
//! requests at once; [`remote_source`] reads the small parts of a file that describe the rest. [`oci`] speaks with registries, [`hub`] with the Hugging
//! Face Hub, [`object_stores`] signs the names of objects, and a [`place`] is the name of a file in any of them. This crate opens no carton and
//! knows no cache.
//!
//! No server is trusted: each answer is compared with its request, and no size that a server states is allocated.

pub mod download;
pub mod encoding;
pub mod http;
pub mod hub;
pub mod object_stores;
pub mod oci;
pub mod place;
pub mod remote_source;
