//! The network of Carton: what is fetched from servers, and sent to them.
//!
//! [`http`] makes requests, and everything else here goes through it, but for the library that finds the credentials of object stores. [`download`] fetches a file, or a range of it, into a local file, by several
//! requests at once; [`remote_source`] reads the small parts of a file that describe the rest. [`oci`] speaks with registries, [`hub`] with the Hugging
//! Face Hub, [`object_stores`] signs the names of objects, and a [`place`] is the name of a file in any of them. This crate opens no carton and
//! knows no cache.
//!
//! No server is trusted: each answer is compared with its request, and no size that a server states is allocated.
//!
//! # Modules
//!
//! Each uses only those before it.
//!
//! - `encoding`: decodes content encodings while reading.
//! - `http`: one ranged request and its answer, retries, credentials, private addresses, logins at registries.
//! - `download`: fetches a file, or a range of it, into a local file, with several requests at once, resumable.
//! - `hub`: names on the Hugging Face Hub, and the files of its repositories.
//! - `object_stores`: turns names of objects into signed web URLs.
//! - `oci`: registries of artifacts. `reference` and `manifest` are pure; `client` makes the requests of the protocol.
//! - `place`: a path or a URL.
//! - `remote_source`: the small parts of a file on a server that describe the rest.

pub mod download;
pub mod encoding;
pub mod http;
pub mod hub;
pub mod object_stores;
pub mod oci;
pub mod place;
pub mod remote_source;
