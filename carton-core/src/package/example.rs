//! Finds examples and self-tests by their names, and reads the inputs of an example as tensors.

use std::collections::BTreeMap;

use carton_format::metadata::Reference;
use carton_tensor::Tensor;

use super::{ExampleData, Package, PackageError, SelfTestData};
use crate::error::Error;

impl Package {
    /// Returns the first example with this name, or else the one with this label, `example_N`.
    ///
    /// # Errors
    /// There is none. The message lists the existing names.
    pub fn example(&self, name: &str) -> Result<ExampleData<'_>, Error> {
        let named = self.examples().find(|example| example.example.name.as_deref() == Some(name));
        Ok(named.or_else(|| self.examples().find(|example| example.index_label() == name)).ok_or_else(|| {
            PackageError::NoExample {
                name: name.to_owned(),
                examples: self.examples().map(|example| example.label()).collect(),
            }
        })?)
    }

    /// Returns the first self-test with this name, or else the one with this label, `self_test_N`.
    ///
    /// # Errors
    /// There is none. The message lists the existing names.
    pub fn self_test(&self, name: &str) -> Result<SelfTestData<'_>, Error> {
        let named = self.self_tests().find(|test| test.test.name.as_deref() == Some(name));
        Ok(named.or_else(|| self.self_tests().find(|test| test.index_label() == name)).ok_or_else(|| {
            PackageError::NoSelfTest {
                name: name.to_owned(),
                self_tests: self.self_tests().map(|test| test.label()).collect(),
            }
        })?)
    }
}

impl<'package> ExampleData<'package> {
    /// Returns the carton that the example belongs to.
    #[must_use]
    pub fn package(&self) -> &'package Package {
        self.package
    }

    /// Returns the example's name; `example_N`, counted from 0, if it has none.
    #[must_use]
    pub fn label(&self) -> String {
        self.example.name.clone().unwrap_or_else(|| self.index_label())
    }

    fn index_label(&self) -> String {
        format!("example_{}", self.index)
    }

    /// Checks that all inputs are tensors, without reading any.
    ///
    /// # Errors
    /// An input is a file of `misc/`, such as an image: only people know which tensor the
    /// model needs for it.
    pub fn check_inputs(&self) -> Result<(), Error> {
        let files = self.example.inputs.iter().find_map(|(input, reference)| match reference {
            Reference::Misc(path) => Some((input, path)),
            Reference::TensorData(_) => None,
        });
        match files {
            Some((input, path)) => Err(PackageError::ExampleInput {
                example: self.label(),
                input: input.clone(),
                file: format!("misc/{path}"),
            }
            .into()),
            None => Ok(()),
        }
    }

    /// Reads the inputs as tensors, for a call of the model.
    ///
    /// # Errors
    /// As [`check_inputs`](Self::check_inputs) and [`Package::tensor`].
    pub fn input_tensors(&self) -> Result<BTreeMap<String, Tensor>, Error> {
        self.check_inputs()?;
        let tensors = self.example.inputs.iter().filter_map(|(input, reference)| match reference {
            Reference::TensorData(name) => Some((input, name)),
            Reference::Misc(_) => None,
        });
        tensors.map(|(input, name)| Ok((input.clone(), self.package.tensor(name)?))).collect()
    }
}
