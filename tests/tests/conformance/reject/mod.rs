//! Cartons that must be refused, by what is wrong with them.

mod archive;
mod data;
mod links;
mod manifest;
mod metadata;
mod names;
mod tensors;
