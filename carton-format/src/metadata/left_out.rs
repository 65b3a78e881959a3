//! Which inputs a carton's own calls leave out (spec/carton-format-extensions.md, "Optional inputs"). Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Example, Reference, SelfTest};

/// The calls of the model that a carton records: its self-tests, and those of its examples that can be run. An input that one of them
/// leaves out is optional unless the carton states it.
pub(super) struct Calls<'a> {
    calls: Vec<(Call<'a>, BTreeSet<&'a str>)>,
    /// The first call without each input that was asked for. It is cached because a file may declare one name many times.
    known: BTreeMap<String, Option<usize>>,
}

/// A self-test, or an example that can be run. The text form names it as reports do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call<'a> {
    kind: &'static str,
    name: Option<&'a str>,
    index: usize,
}

impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) => write!(f, "{} `{name}`", self.kind),
            None => write!(f, "{} `{}_{}`", self.kind, self.kind.replace('-', "_"), self.index),
        }
    }
}

impl<'a> Calls<'a> {
    pub(super) fn of(self_tests: &'a [SelfTest], examples: &'a [Example]) -> Self {
        let call = |kind, name: &'a Option<String>, index| Call { kind, name: name.as_deref(), index };
        let tests = self_tests.iter().enumerate().map(|(index, test)| {
            (call("self-test", &test.name, index), test.inputs.keys().map(String::as_str).collect())
        });
        let examples = examples.iter().enumerate().filter(|(_, example)| is_call(example));
        let examples = examples.map(|(index, example)| {
            (call("example", &example.name, index), example.inputs.keys().map(String::as_str).collect())
        });
        Self { calls: tests.chain(examples).collect(), known: BTreeMap::new() }
    }

    /// Returns the first call without this input.
    pub(super) fn without(&mut self, input: &str) -> Option<Call<'a>> {
        let position = match self.known.get(input) {
            Some(known) => *known,
            None => {
                let position = self.calls.iter().position(|(_, given)| !given.contains(input));
                self.known.insert(input.to_owned(), position);
                position
            }
        };
        position.and_then(|position| self.calls.get(position)).map(|(call, _)| *call)
    }
}

/// Whether an example has all the data of a call: inputs, all of which are tensors, and an output. Others are for people to look at, and
/// leave out what has no picture.
fn is_call(example: &Example) -> bool {
    let is_tensor = |reference: &Reference| matches!(reference, Reference::TensorData(_));
    !example.inputs.is_empty() && example.inputs.values().all(is_tensor) && !example.sample_out.is_empty()
}
