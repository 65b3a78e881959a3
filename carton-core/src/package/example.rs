//! Finding an example by its name, and its inputs as tensors.

use std::collections::BTreeMap;

use carton_tensor::Tensor;

use super::{ExampleData, Package, PackageError};
use crate::metadata::Reference;

impl Package {
    /// The example of this name: the first one that has it, or the one whose label it is, `example_N`.
    ///
    /// # Errors
    /// [`PackageError::NoExample`], which names those there are.
    pub fn example(&self, name: &str) -> Result<ExampleData<'_>, PackageError> {
        let named = self.examples().find(|example| example.example.name.as_deref() == Some(name));
        named.or_else(|| self.examples().find(|example| example.index_label() == name)).ok_or_else(|| {
            PackageError::NoExample {
                name: name.to_owned(),
                examples: self.examples().map(|example| example.label()).collect(),
            }
        })
    }
}

impl<'package> ExampleData<'package> {
    /// The carton that it is of.
    #[must_use]
    pub fn package(&self) -> &'package Package {
        self.package
    }

    /// The example's name; `example_N`, counted from 0, where it has none.
    #[must_use]
    pub fn label(&self) -> String {
        self.example.name.clone().unwrap_or_else(|| self.index_label())
    }

    fn index_label(&self) -> String {
        format!("example_{}", self.index)
    }

    /// Says whether all that goes in is tensors, without reading one.
    ///
    /// # Errors
    /// [`PackageError::ExampleInput`] for an input that is a file of `misc/`, such as an image: which tensor a model makes of it is for
    /// people to know.
    pub fn check_inputs(&self) -> Result<(), PackageError> {
        let files = self.example.inputs.iter().find_map(|(input, reference)| match reference {
            Reference::Misc(path) => Some((input, path)),
            Reference::TensorData(_) => None,
        });
        match files {
            Some((input, path)) => Err(PackageError::ExampleInput {
                example: self.label(),
                input: input.clone(),
                file: format!("misc/{path}"),
            }),
            None => Ok(()),
        }
    }

    /// Reads what goes in, where all of it is tensors: the inputs of a call.
    ///
    /// # Errors
    /// As [`check_inputs`](Self::check_inputs) and [`Package::tensor`].
    pub fn input_tensors(&self) -> Result<BTreeMap<String, Tensor>, PackageError> {
        self.check_inputs()?;
        let tensors = self.example.inputs.iter().filter_map(|(input, reference)| match reference {
            Reference::TensorData(name) => Some((input, name)),
            Reference::Misc(_) => None,
        });
        tensors.map(|(input, name)| Ok((input.clone(), self.package.tensor(name)?))).collect()
    }
}
