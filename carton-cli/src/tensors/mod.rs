//! Converts tensors from and to the forms of the command line: JSON, `.npy` and `.npz` files, text for people.

mod differences;
mod elements;
mod from_json;
mod inputs;
mod outputs;
mod summary;
mod to_json;

pub(crate) use differences::{differences, summary_of_differences};
pub(crate) use inputs::{DeclaredInput, ReadInputs};
pub(crate) use outputs::{Destinations, JsonOutput};
pub(crate) use summary::summary;
pub(crate) use to_json::{JsonTensor, json_rows};
