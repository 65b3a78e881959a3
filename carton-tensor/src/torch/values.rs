//! What the interpreter of pickles makes: plain data, and descriptions of tensors and storages. Collections are in one list and refer to each
//! other by their positions there, so that one that holds itself is no problem.

use std::collections::HashMap;

use super::error::{Problem, quoted, refused};
use super::globals::Global;
use crate::files::ElementType;

/// A value of a pickle. Copying it copies no elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'p> {
    None,
    Bool(bool),
    Int(i64),
    /// An integer of more than 64 bits.
    LongInt,
    Float,
    Text(&'p str),
    Bytes,
    /// Plain data that is not followed: what it is, in words.
    Other(&'static str),
    Global(Global),
    /// The position of a collection.
    Collection(usize),
    /// The position of a storage, and the type of its elements as this mention has it.
    Storage(usize, ElementType),
    /// The position of a tensor.
    Tensor(usize),
}

impl Value<'_> {
    /// What it is, in words.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Bool(_) => "a bool",
            Self::Int(_) | Self::LongInt => "an integer",
            Self::Float => "a float",
            Self::Text(_) => "a string",
            Self::Bytes => "bytes",
            Self::Other(kind) => kind,
            Self::Global(Global::Dtype(_)) => "a dtype",
            Self::Global(_) => "a class or function",
            Self::Collection(_) => "a collection",
            Self::Storage(..) => "a storage",
            Self::Tensor(_) => "a tensor",
        }
    }
}

/// As many characters take as long as an opcode.
pub(super) const CHARACTERS: usize = 8;

/// Takes the work on as many items from what a file may cause.
pub(super) fn spend(budget: &mut u64, n_items: usize) -> Result<(), Problem> {
    match budget.checked_sub(n_items as u64) {
        Some(rest) => {
            *budget = rest;
            Ok(())
        }
        None => refused("its pickle has more opcodes, or copies more, than is followed"),
    }
}

/// A key of a dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key<'p> {
    Text(&'p str),
    Int(i64),
}

/// Values in a tuple, list or dictionary.
#[derive(Debug)]
pub(super) enum Collection<'p> {
    Tuple(Vec<Value<'p>>),
    List(Vec<Value<'p>>),
    Dict(Dict<'p>),
}

/// A dictionary, in the order of its keys.
#[derive(Debug, Default)]
pub(super) struct Dict<'p> {
    pub(super) entries: Vec<(Key<'p>, Value<'p>)>,
    positions: HashMap<Key<'p>, usize>,
    /// Whether it may have attributes.
    pub(super) is_ordered_dict: bool,
}

impl<'p> Dict<'p> {
    /// An `OrderedDict` of nothing.
    pub(super) fn ordered() -> Self {
        Self { is_ordered_dict: true, ..Self::default() }
    }

    /// Sets an item as Python does: a key keeps its place. What it takes to look at a long key is taken from `budget`.
    pub(super) fn set(
        &mut self,
        key: Value<'p>,
        value: Value<'p>,
        offset: usize,
        budget: &mut u64,
    ) -> Result<(), Problem> {
        if let Value::Text(text) = key {
            spend(budget, text.len() / CHARACTERS)?;
        }
        let key = match key {
            Value::Text(text) => Key::Text(text),
            Value::Int(number) => Key::Int(number),
            other => {
                return refused(format!(
                    "a dictionary in its pickle has {} as a key (byte {offset}), expected strings and integers",
                    other.kind()
                ));
            }
        };
        match self.positions.get(&key) {
            Some(&position) => {
                if let Some(entry) = self.entries.get_mut(position) {
                    entry.1 = value;
                }
            }
            None => {
                self.positions.insert(key, self.entries.len());
                self.entries.push((key, value));
            }
        }
        Ok(())
    }

    /// Returns the value of a key that is a text.
    pub(super) fn get(&self, key: &str) -> Option<Value<'p>> {
        let position = self.positions.get(&Key::Text(key))?;
        self.entries.get(*position).map(|entry| entry.1)
    }
}

/// A storage, as a pickle mentions it.
#[derive(Clone, Debug)]
pub(super) struct StorageInfo {
    pub(super) key: String,
    pub(super) element_type: ElementType,
    pub(super) n_elements: u64,
    pub(super) n_bytes: u64,
}

/// A tensor: elements of a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TensorParts {
    pub(super) dtype: ElementType,
    /// The position of the storage.
    pub(super) storage: usize,
    /// The first element, in elements.
    pub(super) offset: u64,
    pub(super) shape: Vec<usize>,
    /// The distances between elements along each dimension, in elements.
    pub(super) strides: Vec<u64>,
}

/// All that one or several pickles have made.
#[derive(Debug, Default)]
pub(super) struct Made<'p> {
    pub(super) collections: Vec<Collection<'p>>,
    pub(super) storages: Vec<StorageInfo>,
    pub(super) storage_of: HashMap<&'p str, usize>,
    pub(super) tensors: Vec<TensorParts>,
}

/// The most tuples, lists, dictionaries and tensors of a file.
const MAX_COLLECTIONS: usize = 1 << 21;

impl<'p> Made<'p> {
    /// Adds a collection, and returns it as a value.
    pub(super) fn add(&mut self, collection: Collection<'p>) -> Result<Value<'p>, Problem> {
        if self.collections.len() >= MAX_COLLECTIONS {
            return refused(format!("its pickle has more than {MAX_COLLECTIONS} collections"));
        }
        self.collections.push(collection);
        Ok(Value::Collection(self.collections.len() - 1))
    }

    /// Adds a tensor, and returns it as a value.
    pub(super) fn add_tensor(&mut self, tensor: TensorParts) -> Result<Value<'p>, Problem> {
        if self.tensors.len() >= MAX_COLLECTIONS {
            return refused(format!("its pickle has more than {MAX_COLLECTIONS} tensors"));
        }
        self.tensors.push(tensor);
        Ok(Value::Tensor(self.tensors.len() - 1))
    }

    /// The elements, if the value is a tuple.
    pub(super) fn tuple(&self, value: Value<'p>) -> Option<&[Value<'p>]> {
        match self.collection(value)? {
            Collection::Tuple(values) => Some(values),
            _ => None,
        }
    }

    /// The elements, if the value is a list.
    pub(super) fn list(&self, value: Value<'p>) -> Option<&[Value<'p>]> {
        match self.collection(value)? {
            Collection::List(values) => Some(values),
            _ => None,
        }
    }

    /// The dictionary, if the value is one.
    pub(super) fn dict(&self, value: Value<'p>) -> Option<&Dict<'p>> {
        match self.collection(value)? {
            Collection::Dict(dict) => Some(dict),
            _ => None,
        }
    }

    pub(super) fn collection(&self, value: Value<'p>) -> Option<&Collection<'p>> {
        match value {
            Value::Collection(position) => self.collections.get(position),
            _ => None,
        }
    }

    /// Mentions a storage: the same one where the key is known.
    pub(super) fn mention(&mut self, key: &'p str, found: StorageInfo) -> Result<Value<'p>, Problem> {
        let element_type = found.element_type;
        let position = match self.storage_of.get(key) {
            Some(&position) => {
                let Some(known) = self.storages.get(position) else { return refused("a storage is lost") };
                // PyTorch reads a storage of no elements as any type.
                let is_same =
                    known.n_bytes == found.n_bytes && (known.element_type == found.element_type || known.n_bytes == 0);
                if !is_same {
                    return refused(format!(
                        "storage {} is once {} elements of {}, and once {} of {}",
                        quoted(key),
                        known.n_elements,
                        known.element_type,
                        found.n_elements,
                        found.element_type
                    ));
                }
                position
            }
            None => {
                self.storages.push(found);
                self.storage_of.insert(key, self.storages.len() - 1);
                self.storages.len() - 1
            }
        };
        Ok(Value::Storage(position, element_type))
    }
}

impl<'p> From<Key<'p>> for Value<'p> {
    fn from(key: Key<'p>) -> Self {
        match key {
            Key::Text(text) => Self::Text(text),
            Key::Int(number) => Self::Int(number),
        }
    }
}

impl std::fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Int(number) => write!(f, "{number}"),
        }
    }
}
