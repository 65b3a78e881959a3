//! Cartons that must be refused, by their faults.

mod archive;
mod data;
mod links;
mod manifest;
mod metadata;
mod names;
mod tensors;
