//! The format of cartons (spec/carton-format.md): bytes in, cartons out, and back.
//!
//! A carton is a zip file ([`archive`]) with a [`manifest`] of the SHA-256 of each file, carton.toml ([`metadata`]), tensors ([`tensor_data`]), and
//! perhaps [`links`] to files that are elsewhere. This crate reads and writes them, and asks no server, starts no process and knows no cache:
//! the bytes come from a [`source`]. Programs use `carton-core`, which has all of this behind one type.
//!
//! Whatever is read is hostile: no size that it states is allocated before it was compared with the bytes that there are.
//!
//! # Modules
//!
//! Each uses only those before it.
//!
//! - `name`, `source`: the valid paths in a carton, and which of them collide; bytes at offsets, from a file or memory.
//! - `progress`, `context`: the stages of all work, and the context of `carton-tensor` with these stages.
//! - `digest`, `causes`, `error_kind`: SHA-256; an error and its causes in one line; the kinds of failures, from which exit codes and
//!   statuses follow.
//! - `invalid_toml`, `unknown_keys`: errors in a TOML file, described without its values; its unknown keys.
//! - `url`: URLs, and the form in which they may be shown.
//! - `links`, `manifest`: LINKS and MANIFEST.
//! - `archive`: parses and writes zip records itself, because it must refuse archives (duplicate names, disagreeing headers,
//!   overlapping entries) that a general zip library accepts, or whose faults it hides.
//! - `elements`: the dtypes that version 1 names, and those that it carries.
//! - `variables`, `side`: the environment variables that a carton may set; input or output.
//! - `model_card`: what a model is for and was made of, in a table of carton.toml and in a README.
//! - `metadata`: carton.toml.
//! - `signature`: the checks of the tensors of a call.
//! - `tensor_data`: the tensors of self-tests and examples, in one file each or in one safetensors or zTensor file for all. Of such a
//!   shared file it reads the header, and then single tensors.

pub mod archive;
pub mod causes;
pub mod context;
pub mod digest;
mod elements;
pub mod error_kind;
pub mod invalid_toml;
pub mod links;
pub mod manifest;
pub mod metadata;
pub mod model_card;
pub mod name;
pub mod progress;
pub mod side;
pub mod signature;
pub mod source;
pub mod tensor_data;
pub mod unknown_keys;
pub mod url;
pub mod variables;
