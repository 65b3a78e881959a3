//! The format of cartons (spec/carton-format.md): bytes in, cartons out, and back.
//!
//! A carton is a zip file ([`archive`]) with a [`manifest`] of the SHA-256 of each file, carton.toml ([`metadata`]), tensors ([`tensor_data`]), and
//! perhaps [`links`] to files that are elsewhere. This crate reads and writes them, and asks no server, starts no process and knows no cache:
//! the bytes come from a [`source`]. Programs use `carton-core`, which has all of this behind one type.
//!
//! Whatever is read is hostile: no size that it states is allocated before it was compared with the bytes that there are.

pub mod archive;
pub mod causes;
pub mod context;
pub mod digest;
pub mod error_kind;
pub mod invalid_toml;
pub mod links;
pub mod manifest;
pub mod metadata;
pub mod name;
pub mod progress;
pub mod side;
pub mod signature;
pub mod source;
pub mod tensor_data;
pub mod unknown_keys;
pub mod url;
pub mod variables;
