//! Compares self-tests, examples, and the defaults of inputs, with the tensors and files that they refer to.

use std::collections::BTreeMap;

use carton_format::metadata::{Reference, TensorSpec};
use carton_format::tensor_data::{Entry, FOLDER};
use carton_tensor::difference::{
    Compared, TensorForm, TensorsDifference, compare_lists, compare_pair, compare_tensors,
};
use serde_json::Value;

use super::report::{CaseChange, Change, FieldChange, SpecChange};
use super::tensors::{ELSEWHERE, TensorSettings};
use crate::error::Error;
use crate::package::Package;

/// What a name of a self-test or example stands for.
#[derive(Clone, Debug)]
enum CaseValue<'a> {
    Tensor(&'a str),
    File(&'a str),
}

impl<'a> From<&'a Reference> for CaseValue<'a> {
    fn from(reference: &'a Reference) -> Self {
        match reference {
            Reference::TensorData(tensor) => Self::Tensor(tensor),
            Reference::Misc(path) => Self::File(path),
        }
    }
}

/// A self-test or example.
struct Case<'a> {
    name: String,
    description: Option<&'a str>,
    inputs: BTreeMap<&'a str, CaseValue<'a>>,
    outputs: BTreeMap<&'a str, CaseValue<'a>>,
}

/// Compares tensors of two cartons.
pub(super) struct Cases<'a> {
    pub(super) a: &'a Package,
    pub(super) b: &'a Package,
    pub(super) settings: &'a TensorSettings,
}

impl Cases<'_> {
    /// The self-tests that differ.
    ///
    /// # Errors
    /// A tensor cannot be read, or is not what MANIFEST lists.
    pub(super) fn self_tests(&self) -> Result<Vec<CaseChange>, Error> {
        fn cases(package: &Package) -> Vec<Case<'_>> {
            fn values(tensors: &BTreeMap<String, String>) -> BTreeMap<&str, CaseValue<'_>> {
                tensors.iter().map(|(name, tensor)| (name.as_str(), CaseValue::Tensor(tensor))).collect()
            }
            package
                .self_tests()
                .zip(package.metadata().self_tests())
                .map(|(data, test)| Case {
                    name: data.label(),
                    description: test.description.as_deref(),
                    inputs: values(&test.inputs),
                    outputs: test.expected_out.as_ref().map(values).unwrap_or_default(),
                })
                .collect()
        }
        self.compare(cases(self.a), cases(self.b))
    }

    /// The examples that differ.
    ///
    /// # Errors
    /// As [`self_tests`](Self::self_tests).
    pub(super) fn examples(&self) -> Result<Vec<CaseChange>, Error> {
        fn cases(package: &Package) -> Vec<Case<'_>> {
            fn values(references: &BTreeMap<String, Reference>) -> BTreeMap<&str, CaseValue<'_>> {
                references.iter().map(|(name, reference)| (name.as_str(), reference.into())).collect()
            }
            let declared = package.metadata().examples();
            package
                .examples()
                .zip(declared)
                .map(|(data, example)| Case {
                    name: data.label(),
                    description: example.description.as_deref(),
                    inputs: values(&example.inputs),
                    outputs: values(&example.sample_out),
                })
                .collect()
        }
        self.compare(cases(self.a), cases(self.b))
    }

    /// Adds to the changes of inputs what differs between the tensors of their defaults.
    ///
    /// # Errors
    /// As [`self_tests`](Self::self_tests).
    pub(super) fn defaults(&self, changes: &mut Vec<SpecChange>) -> Result<(), Error> {
        let default = |inputs: &[TensorSpec], name: &str| -> Option<String> {
            inputs.iter().find(|input| input.name == name)?.default_tensor().map(str::to_owned)
        };
        let inputs_b = self.b.metadata().inputs();
        for input in self.a.metadata().inputs() {
            let Some(in_a) = input.default_tensor() else { continue };
            let Some(in_b) = default(inputs_b, &input.name) else { continue };
            let (of_a, of_b) = (CaseValue::Tensor(in_a), CaseValue::Tensor(&in_b));
            let forms = (self.form(self.a, &input.name, &of_a), self.form(self.b, &input.name, &of_b));
            let found = compare_pair(&forms.0, &forms.1, |_, _| self.compare_values(&of_a, &of_b))?;
            if found.is_same() {
                continue;
            }
            match changes.iter_mut().find(|change| change.name == input.name) {
                Some(change) => change.default = Some(found),
                None => changes.push(SpecChange {
                    name: input.name.clone(),
                    change: Change::Changed,
                    fields: Vec::new(),
                    default: Some(found),
                }),
            }
        }
        Ok(())
    }

    fn compare(&self, a: Vec<Case<'_>>, b: Vec<Case<'_>>) -> Result<Vec<CaseChange>, Error> {
        let mut changes = Vec::new();
        // Several of one name, which other writers make, are compared in their order.
        let mut rest_b: Vec<Option<Case<'_>>> = b.into_iter().map(Some).collect();
        let nothing =
            || Case { name: String::new(), description: None, inputs: BTreeMap::new(), outputs: BTreeMap::new() };
        for case in a {
            let other = rest_b.iter_mut().find(|other| other.as_ref().is_some_and(|other| other.name == case.name));
            let other = other.and_then(Option::take);
            let change = if other.is_some() { Change::Changed } else { Change::Removed };
            let name = case.name.clone();
            let found = self.change(name, change, &case, &other.unwrap_or_else(nothing))?;
            let is_same = found.description.is_none() && found.inputs.is_same() && found.outputs.is_same();
            if change == Change::Removed || !is_same {
                changes.push(found);
            }
        }
        for case in rest_b.into_iter().flatten() {
            changes.push(self.change(case.name.clone(), Change::Added, &nothing(), &case)?);
        }
        Ok(changes)
    }

    fn change(&self, name: String, change: Change, a: &Case<'_>, b: &Case<'_>) -> Result<CaseChange, Error> {
        let text = |text: Option<&str>| text.map(|text| Value::String(text.to_owned()));
        let description = (a.description != b.description).then(|| FieldChange {
            field: "description".to_owned(),
            a: text(a.description),
            b: text(b.description),
        });
        let inputs = self.compare_maps(&a.inputs, &b.inputs)?;
        let outputs = self.compare_maps(&a.outputs, &b.outputs)?;
        Ok(CaseChange { name, change, description, inputs, outputs })
    }

    fn compare_maps(
        &self,
        a: &BTreeMap<&str, CaseValue<'_>>,
        b: &BTreeMap<&str, CaseValue<'_>>,
    ) -> Result<TensorsDifference, Error> {
        let forms = |package: &Package, values: &BTreeMap<&str, CaseValue<'_>>| -> Vec<TensorForm> {
            values.iter().map(|(name, value)| self.form(package, name, value)).collect()
        };
        compare_lists(&forms(self.a, a), &forms(self.b, b), |of_a, of_b| {
            match (a.get(of_a.name.as_str()), b.get(of_b.name.as_str())) {
                (Some(of_a), Some(of_b)) => self.compare_values(of_a, of_b),
                _ => Ok(Compared::No("it is in one of the two only".to_owned())),
            }
        })
    }

    /// What is known of a tensor without reading it. A file is one of the type `file`.
    fn form(&self, package: &Package, name: &str, value: &CaseValue<'_>) -> TensorForm {
        let (dtype, shape) = match value {
            CaseValue::File(_) => (Some("file".to_owned()), None),
            CaseValue::Tensor(tensor) => match package.tensors().get(tensor) {
                Some(Entry::Plain { dtype, shape, .. } | Entry::Member { dtype, shape, .. }) => {
                    (Some(dtype.name().to_owned()), Some(shape.clone()))
                }
                _ => (Some("nested".to_owned()), None),
            },
        };
        TensorForm::new(name, dtype, shape)
    }

    fn compare_values(&self, a: &CaseValue<'_>, b: &CaseValue<'_>) -> Result<Compared, Error> {
        let digest =
            |package: &Package, path: &str| package.contents().manifest().and_then(|manifest| manifest.get(path));
        match (a, b) {
            (CaseValue::File(a), CaseValue::File(b)) => {
                let (in_a, in_b) = (digest(self.a, &format!("misc/{a}")), digest(self.b, &format!("misc/{b}")));
                Ok(match in_a.is_some() && in_a == in_b {
                    true => Compared::Same { by_digest: false },
                    false => Compared::Otherwise("another file".to_owned()),
                })
            }
            (CaseValue::Tensor(a), CaseValue::Tensor(b)) => {
                let files = |package: &Package, tensor: &str| -> Vec<_> {
                    let files = package.tensors().files_of([tensor]);
                    files
                        .into_iter()
                        .map(|file| (file.to_owned(), digest(package, &format!("{FOLDER}{file}"))))
                        .collect()
                };
                let is_same_entry = self.a.tensors().get(a) == self.b.tensors().get(b);
                let are_plain = !matches!(self.a.tensors().get(a), Some(Entry::Nested { .. }) | None);
                if is_same_entry && are_plain && files(self.a, a) == files(self.b, b) {
                    return Ok(Compared::Same { by_digest: false });
                }
                if !(self.settings.fetch || is_here(self.a, a) && is_here(self.b, b)) {
                    return Ok(Compared::No(ELSEWHERE.to_owned()));
                }
                Ok(compare_tensors(&self.a.tensor(a)?, &self.b.tensor(b)?, &self.settings.elements))
            }
            _ => Ok(Compared::Otherwise("a tensor and a file".to_owned())),
        }
    }
}

/// Whether a tensor can be read without fetching anything.
fn is_here(package: &Package, tensor: &str) -> bool {
    let files = package.tensors().files_of([tensor]);
    package.contents().has_locally(|path| path.strip_prefix(FOLDER).is_some_and(|file| files.contains(file)))
}
