//! Gathers the schema of a dataset from its shards, and checks that the shards go together (spec/dataset.md §3.5, §4.3 and §4.4). Pure.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use carton_tensor::files::ElementType;
use carton_tensor::safetensors::{Header, dtype_name};

use crate::manifest::TensorSchema;
use crate::shard_metadata::ShardMode;

/// What the shards of one dataset must have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// The columns, and dtype and shape of their samples: batch mode.
    Columns,
    /// No tensor name: key-value mode, where names must not repeat.
    NoNames,
    /// Nothing is required.
    Anything,
}

impl Sharing {
    /// Returns what the shards of tasks must have in common.
    pub(super) fn of(mode: ShardMode, has_unique_names: bool) -> Self {
        match mode {
            ShardMode::Batch => Self::Columns,
            ShardMode::KeyValue if has_unique_names => Self::NoNames,
            ShardMode::KeyValue => Self::Anything,
        }
    }
}

/// The names of all tensors, each with the dtype and shape of the first shard that has it.
#[derive(Debug, Default)]
pub(super) struct GatheredSchema {
    entries: BTreeMap<String, Entry>,
    /// The sources of tensors, as errors call them.
    sources: Vec<String>,
    /// The first source with columns, by position, and its columns.
    columns: Option<(usize, BTreeSet<String>)>,
}

/// The first tensor of a name.
#[derive(Debug)]
struct Entry {
    /// The position of its source.
    source: usize,
    schema: TensorSchema,
}

impl GatheredSchema {
    /// Adds the tensors of a source, such as a shard or all shards of a task, which errors call `source`.
    ///
    /// # Errors
    /// Returns how it differs from the sources before, as text that follows its name: `has …`.
    pub(super) fn add<'t>(
        &mut self,
        source: impl Display,
        sharing: Sharing,
        tensors: impl Iterator<Item = (&'t str, Cow<'t, TensorSchema>)>,
    ) -> Result<(), String> {
        let position = self.sources.len();
        self.sources.push(source.to_string());
        if sharing != Sharing::Columns {
            return tensors.into_iter().try_for_each(|(name, schema)| self.insert(position, sharing, name, schema));
        }
        let tensors: Vec<_> = tensors.collect();
        // Every batch must have a tensor of every column, because its rows would otherwise lack a value that others have.
        let found: BTreeSet<&str> = tensors.iter().map(|(name, _)| *name).collect();
        match &self.columns {
            None => self.columns = Some((position, found.into_iter().map(str::to_owned).collect())),
            Some((first, expected)) if !found.iter().eq(expected) => {
                let (found, expected) = (list(found.iter().copied()), list(expected.iter().map(String::as_str)));
                return Err(format!("has the columns {found}, and {} {expected}", self.source(*first)));
            }
            Some(_) => {}
        }
        tensors.into_iter().try_for_each(|(name, schema)| self.insert(position, sharing, name, schema))
    }

    /// Adds the tensors of a shard.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub(super) fn add_shard(&mut self, source: impl Display, sharing: Sharing, header: &Header) -> Result<(), String> {
        let tensors = header.iter().map(|tensor| (tensor.name, Cow::Owned(described(tensor.dtype, tensor.shape))));
        self.add(source, sharing, tensors)
    }

    /// Returns that a tensor of this name exists already, as text that follows the name of the source that repeats it; `None` if it does
    /// not exist yet.
    pub(super) fn repeated(&self, name: &str) -> Option<String> {
        let first = self.entries.get(name)?;
        Some(format!("has `{}`, as {} has", name.escape_debug(), self.source(first.source)))
    }

    /// Returns the schema for the manifest.
    pub(super) fn into_entries(self) -> BTreeMap<String, TensorSchema> {
        self.entries.into_iter().map(|(name, entry)| (name, entry.schema)).collect()
    }

    fn insert(
        &mut self,
        source: usize,
        sharing: Sharing,
        name: &str,
        schema: Cow<'_, TensorSchema>,
    ) -> Result<(), String> {
        if sharing == Sharing::NoNames
            && let Some(problem) = self.repeated(name)
        {
            return Err(problem);
        }
        let Some(first) = self.entries.get(name) else {
            self.entries.insert(name.to_owned(), Entry { source, schema: schema.into_owned() });
            return Ok(());
        };
        let (name, other, expected) = (name.escape_debug(), self.source(first.source), &first.schema);
        match sharing {
            Sharing::Columns if !are_alike(expected, &schema) => Err(format!(
                "has `{name}` as {} of shape {:?}, and {other} as {} of shape {:?}",
                schema.dtype.escape_debug(),
                schema.shape,
                expected.dtype.escape_debug(),
                expected.shape
            )),
            _ => Ok(()),
        }
    }

    fn source(&self, position: usize) -> &str {
        self.sources.get(position).map_or("another one", String::as_str)
    }
}

/// A tensor as the manifest describes it.
fn described(dtype: ElementType, shape: &[usize]) -> TensorSchema {
    // Every element type in a header has a name in the format.
    let dtype = dtype_name(dtype).unwrap_or_default().to_owned();
    TensorSchema { dtype, shape: shape.iter().map(|size| *size as u64).collect() }
}

/// Whether two shards of one dataset may have these tensors: they differ only in the number of rows.
fn are_alike(a: &TensorSchema, b: &TensorSchema) -> bool {
    a.dtype == b.dtype && a.shape.get(1..) == b.shape.get(1..)
}

fn list<'c>(columns: impl Iterator<Item = &'c str>) -> String {
    columns.map(|name| format!("`{}`", name.escape_debug())).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_go_together_as_they_should() {
        type Tensors<'t> = &'t [(&'t str, &'t [u64])];
        let check = |sharing: Sharing, second: Tensors<'_>, expected: Result<&[&str], &str>| {
            let mut gathered = GatheredSchema::default();
            let mut add = |source: &str, tensors: Tensors<'_>| {
                let tensors = tensors.iter().map(|(name, shape)| {
                    (*name, Cow::Owned(TensorSchema { dtype: "F32".to_owned(), shape: shape.to_vec() }))
                });
                gathered.add(source, sharing, tensors)
            };
            let added = add("a", &[("x", &[4, 2]), ("y", &[4])]).and_then(|()| add("b", second));
            let found = added.map(|()| gathered.into_entries());
            match (&found, expected) {
                (Ok(entries), Ok(expected)) => {
                    assert!(entries.keys().eq(expected), "{entries:?}");
                    assert_eq!(entries.get("x").map(|x| x.shape.as_slice()), Some([4, 2].as_slice()));
                }
                (found, expected) => assert_eq!(found.as_ref().err().map(String::as_str), expected.err()),
            }
        };
        check(Sharing::Columns, &[("y", &[3]), ("x", &[3, 2])], Ok(&["x", "y"]));
        check(Sharing::Columns, &[("x", &[3, 2])], Err("has the columns `x`, and a `x`, `y`"));
        let shapes = "has `x` as F32 of shape [4, 3], and a as F32 of shape [4, 2]";
        check(Sharing::Columns, &[("y", &[4]), ("x", &[4, 3])], Err(shapes));
        check(Sharing::NoNames, &[("z", &[1])], Ok(&["x", "y", "z"]));
        check(Sharing::NoNames, &[("z", &[1]), ("x", &[1])], Err("has `x`, as a has"));
        check(Sharing::Anything, &[("x", &[1])], Ok(&["x", "y"]));
    }
}
