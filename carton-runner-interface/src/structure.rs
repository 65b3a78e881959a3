//! Values of models that are tuples, records and lists of tensors, by the names of their leaves (spec/structured-values.md). Pure.

use std::collections::{BTreeMap, HashMap};

use carton_tensor::{NestedTensor, Tensor, TensorError, Tensors};

/// The most levels of a value.
pub const MAX_LEVELS: usize = 64;
/// The most leaves of a value.
pub const MAX_LEAVES: usize = 100_000;

/// What stands for the elements of a list in a name.
const ELEMENTS: &str = "[]";
/// What stands for the lengths of lists in lists, at the end of a name.
const LENGTHS: &str = ".#";

/// A value that a model takes or returns.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing: no leaf.
    None,
    /// A tensor; a nested one is a list of tensors.
    Tensor(Tensor),
    /// Values by their positions.
    Tuple(Vec<Value>),
    /// Any number of values with the same leaves.
    List(Vec<Value>),
    /// Values by names: a dictionary, a named tuple, an object with fields.
    Record(Vec<(String, Value)>),
}

/// The reason that a value has no leaves, or that leaves are no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StructureError {
    /// A key cannot be part of a name.
    #[error(
        "`{name}` has the key {key:?}, which no name of a tensor can have: a key is not empty, not `#`, and has no `[` and `]`"
    )]
    Key {
        /// The name of the record.
        name: String,
        /// The key.
        key: String,
    },
    /// Elements of a list have different leaves.
    #[error("the elements of the list `{name}` differ: element {index} {problem}")]
    Elements {
        /// The name of the list.
        name: String,
        /// The first element that differs from those before it.
        index: usize,
        /// How it differs.
        problem: String,
    },
    /// The elements of a list have no leaves, so that nothing says how many there are.
    #[error("the list `{name}` has {count} elements, and no tensor in any of them")]
    NoLeaves {
        /// The name of the list.
        name: String,
        /// The number of its elements.
        count: usize,
    },
    /// Two leaves would have one name.
    #[error("two tensors of the value would be `{name}`")]
    Twice {
        /// The name.
        name: String,
    },
    /// More levels than [`MAX_LEVELS`].
    #[error("`{name}` has more than {MAX_LEVELS} levels")]
    Levels {
        /// The beginning of the name.
        name: String,
    },
    /// More leaves than [`MAX_LEAVES`].
    #[error("`{name}` has more than {MAX_LEAVES} tensors")]
    Leaves {
        /// The name of the value.
        name: String,
    },
    /// Tensors with these names are no value.
    #[error("`{name}` {problem}")]
    Names {
        /// The name of a tensor, or the beginning of several.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// A list of tensors that cannot be one nested tensor.
    #[error("the list `{name}`: {source}")]
    Tensors {
        /// The name of the list.
        name: String,
        /// Why they cannot.
        source: TensorError,
    },
}

/// Returns the leaves of the value of the input or output `name`, in the order of the value.
///
/// ```
/// use carton_runner_interface::structure::{Value, flatten};
/// use carton_tensor::Tensor;
///
/// let value = |number: i64| Value::Tensor(Tensor::scalar(number));
/// let leaves = flatten("y", Value::Tuple(vec![value(1), Value::Tuple(vec![value(2), value(3)])]))?;
/// assert_eq!(leaves.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["y.0", "y.1.0", "y.1.1"]);
/// # Ok::<(), carton_runner_interface::structure::StructureError>(())
/// ```
///
/// # Errors
/// The value has no leaves by the rules.
pub fn flatten(name: &str, value: Value) -> Result<Vec<(String, Tensor)>, StructureError> {
    flatten_declared(name, value, &[])
}

/// As [`flatten`], with the names that a carton declares: they say what leaves the elements of an empty list would have.
///
/// # Errors
/// As [`flatten`].
pub fn flatten_declared(name: &str, value: Value, declared: &[&str]) -> Result<Vec<(String, Tensor)>, StructureError> {
    let declared: Vec<String> = declared.iter().map(|&name| name.to_owned()).collect();
    let mut leaves = Leaves::default();
    leaves.add(name.to_owned(), value, &declared, 0)?;
    Ok(leaves.list)
}

/// The leaves of a value so far.
#[derive(Default)]
struct Leaves {
    list: Vec<(String, Tensor)>,
    positions: HashMap<String, usize>,
}

/// A leaf of all elements of a list so far.
enum Joined {
    Tensors(Vec<Tensor>),
    Lists { elements: Vec<Tensor>, lengths: Vec<i64> },
}

impl Leaves {
    fn push(&mut self, name: String, tensor: Tensor) -> Result<(), StructureError> {
        if self.list.len() == MAX_LEAVES {
            return Err(StructureError::Leaves { name });
        }
        if self.positions.insert(name.clone(), self.list.len()).is_some() {
            return Err(StructureError::Twice { name });
        }
        self.list.push((name, tensor));
        Ok(())
    }

    /// Adds the leaves of a value. `declared` are the names of leaves as they are at this level.
    fn add(&mut self, name: String, value: Value, declared: &[String], level: usize) -> Result<(), StructureError> {
        if level > MAX_LEVELS {
            return Err(StructureError::Levels { name });
        }
        match value {
            Value::None => Ok(()),
            Value::Tensor(tensor) => match &tensor {
                Tensor::Nested(list) if list.elements().is_empty() => self.add_empty_list(name, declared),
                _ => self.push(name, tensor),
            },
            Value::Tuple(elements) => elements
                .into_iter()
                .enumerate()
                .try_for_each(|(index, element)| self.add(format!("{name}.{index}"), element, declared, level + 1)),
            Value::Record(fields) => fields.into_iter().try_for_each(|(key, field)| {
                if !is_key(&key) {
                    return Err(StructureError::Key { name: name.clone(), key });
                }
                self.add(format!("{name}.{key}"), field, declared, level + 1)
            }),
            Value::List(elements) if elements.is_empty() => self.add_empty_list(name, declared),
            Value::List(elements) if elements.iter().all(is_single_tensor) => {
                let tensors = elements.into_iter().filter_map(|element| match element {
                    Value::Tensor(tensor) => Some(tensor),
                    _ => None,
                });
                let list = nested(&name, tensors.collect())?;
                self.push(name, list)
            }
            Value::List(elements) => self.add_list(name, elements, declared, level),
        }
    }

    fn add_empty_list(&mut self, name: String, declared: &[String]) -> Result<(), StructureError> {
        let prefix = format!("{name}{ELEMENTS}");
        let mut below = declared.iter().filter(|leaf| leaf.starts_with(&prefix)).peekable();
        if below.peek().is_none() {
            let list = nested(&name, Vec::new())?;
            return self.push(name, list);
        }
        below.try_for_each(|leaf| {
            let is_lengths = leaf.ends_with(LENGTHS);
            let empty = if is_lengths { lengths_tensor(leaf, Vec::new()) } else { nested(leaf, Vec::new()) };
            self.push(leaf.clone(), empty?)
        })
    }

    /// Joins the leaves of the elements of a list that are not all tensors.
    fn add_list(
        &mut self,
        name: String,
        elements: Vec<Value>,
        declared: &[String],
        level: usize,
    ) -> Result<(), StructureError> {
        let (count, below) = (elements.len(), format!("{name}{ELEMENTS}"));
        let declared = declared_in_elements(declared, &below);
        let mut names: Vec<String> = Vec::new();
        let mut positions: HashMap<String, usize> = HashMap::new();
        let mut joined: Vec<Joined> = Vec::new();
        let elements = elements.into_iter().map(|element| {
            let mut leaves = Self::default();
            leaves.add(below.clone(), element, &declared, level + 1)?;
            Ok(leaves)
        });
        let elements = filled(elements.collect::<Result<_, StructureError>>()?)?;
        for (index, mut leaves) in elements.into_iter().enumerate() {
            let differs = |problem: String| StructureError::Elements { name: name.clone(), index, problem };
            if index == 0 {
                names = leaves.list.iter().map(|(leaf, _)| leaf.clone()).collect();
                positions = std::mem::take(&mut leaves.positions);
                joined = leaves.list.iter().map(|(_, tensor)| Joined::of(tensor)).collect();
            } else if let Some(missing) = names.iter().find(|leaf| !leaves.positions.contains_key(*leaf)) {
                return Err(differs(format!("has no `{missing}`")));
            }
            for (leaf, tensor) in leaves.list {
                let joined = positions.get(&leaf).and_then(|&position| joined.get_mut(position));
                let Some(joined) = joined else { return Err(differs(format!("has `{leaf}` too"))) };
                joined.push(tensor).map_err(|what| differs(format!("has {what} as `{leaf}`")))?;
            }
        }
        if names.is_empty() {
            return Err(StructureError::NoLeaves { name, count });
        }
        for (leaf, joined) in names.into_iter().zip(joined) {
            match joined {
                Joined::Tensors(tensors) => {
                    let list = nested(&leaf, tensors)?;
                    self.push(leaf, list)?;
                }
                Joined::Lists { elements, lengths } => {
                    let all = format!("{leaf}{ELEMENTS}");
                    let list = nested(&all, elements)?;
                    self.push(all, list)?;
                    let name = format!("{leaf}{LENGTHS}");
                    let lengths = lengths_tensor(&name, lengths)?;
                    self.push(name, lengths)?;
                }
            }
        }
        Ok(())
    }
}

/// The leaves of the elements of a list, where empty lists have the leaves that other lists in their place have.
fn filled(elements: Vec<Leaves>) -> Result<Vec<Leaves>, StructureError> {
    let is_empty = |tensor: &Tensor| matches!(tensor, Tensor::Nested(list) if list.elements().is_empty());
    let has_empty = |leaves: &Leaves| leaves.list.iter().any(|(_, tensor)| is_empty(tensor));
    if !elements.iter().any(has_empty) {
        return Ok(elements);
    }
    let is_list = |(name, tensor): &(String, Tensor)| (name.clone(), matches!(tensor, Tensor::Nested(_)));
    let names: BTreeMap<String, bool> = elements.iter().flat_map(|leaves| &leaves.list).map(is_list).collect();
    let fill = |leaves: Leaves| {
        if !has_empty(&leaves) {
            return Ok(leaves);
        }
        let mut filled = Leaves::default();
        for (name, tensor) in leaves.list {
            let prefix = format!("{name}{ELEMENTS}");
            let below = names.range(prefix.clone()..).take_while(|(leaf, _)| leaf.starts_with(&prefix));
            let mut below = below.filter(|_| is_empty(&tensor)).peekable();
            if below.peek().is_none() {
                filled.push(name, tensor)?;
                continue;
            }
            for (leaf, is_list) in below {
                let empty = if *is_list { nested(leaf, Vec::new()) } else { lengths_tensor(leaf, Vec::new()) };
                filled.push(leaf.clone(), empty?)?;
            }
        }
        Ok(filled)
    };
    elements.into_iter().map(fill).collect()
}

impl Joined {
    /// An empty one for tensors of the kind of this one.
    fn of(tensor: &Tensor) -> Self {
        match tensor {
            Tensor::Nested(_) => Self::Lists { elements: Vec::new(), lengths: Vec::new() },
            _ => Self::Tensors(Vec::new()),
        }
    }

    /// Adds the leaf of the next element. The error says what it is, if those before it were something else.
    fn push(&mut self, tensor: Tensor) -> Result<(), &'static str> {
        match (self, tensor) {
            (Self::Lists { elements, lengths }, Tensor::Nested(list)) => {
                elements.extend_from_slice(list.elements());
                lengths.push(i64::try_from(list.elements().len()).unwrap_or(i64::MAX));
                Ok(())
            }
            (Self::Lists { .. }, _) => Err("a tensor"),
            (Self::Tensors(_), Tensor::Nested(_)) => Err("a list"),
            (Self::Tensors(tensors), tensor) => {
                tensors.push(tensor);
                Ok(())
            }
        }
    }
}

/// The declared leaves of a list as they are in each of its elements, whose name is `below`.
fn declared_in_elements(declared: &[String], below: &str) -> Vec<String> {
    let inside: Vec<&String> = declared.iter().filter(|leaf| leaf.starts_with(below)).collect();
    let is_joined = |list: &str| inside.iter().any(|other| other.strip_suffix(ELEMENTS) == Some(list));
    inside
        .iter()
        .filter(|leaf| !leaf.strip_suffix(LENGTHS).is_some_and(is_joined))
        .map(|leaf| leaf.strip_suffix(ELEMENTS).unwrap_or(leaf).to_owned())
        .collect()
}

fn is_single_tensor(value: &Value) -> bool {
    matches!(value, Value::Tensor(tensor) if !matches!(tensor, Tensor::Nested(_)))
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && !key.contains(['[', ']']) && !key.split('.').any(|part| part.starts_with('#'))
}

fn nested(name: &str, tensors: Vec<Tensor>) -> Result<Tensor, StructureError> {
    Tensor::nested(tensors).map_err(|source| StructureError::Tensors { name: name.to_owned(), source })
}

fn lengths_tensor(name: &str, lengths: Vec<i64>) -> Result<Tensor, StructureError> {
    let shape = vec![lengths.len()];
    Tensor::from_vec(lengths, shape).map_err(|source| StructureError::Tensors { name: name.to_owned(), source })
}

/// Returns the value of the input `name` that these tensors are the leaves of; `None` if none of them is a leaf of it. The tensors may have
/// other inputs among them.
///
/// ```
/// use carton_runner_interface::Tensors;
/// use carton_runner_interface::structure::{Value, gather};
/// use carton_tensor::Tensor;
///
/// let leaf = |name: &str, number: i64| (name.to_owned(), Tensor::scalar(number));
/// let tensors = Tensors::from([leaf("x", 1), leaf("state.h", 2), leaf("state.c", 3)]);
/// let Some(Value::Record(state)) = gather("state", &tensors)? else { panic!() };
/// assert_eq!(state[0], ("c".to_owned(), Value::Tensor(Tensor::scalar(3_i64))));
/// # Ok::<(), carton_runner_interface::structure::StructureError>(())
/// ```
///
/// # Errors
/// Tensors whose names continue `name` are no value by the rules.
pub fn gather(name: &str, tensors: &Tensors) -> Result<Option<Value>, StructureError> {
    let leaves: Vec<(&str, Tensor)> = tensors
        .range(name.to_owned()..)
        .take_while(|(leaf, _)| leaf.starts_with(name))
        .filter_map(|(leaf, tensor)| Some((is_below(name, leaf)?, tensor.clone())))
        .collect();
    if leaves.is_empty() {
        return Ok(None);
    }
    if leaves.len() > MAX_LEAVES {
        return Err(StructureError::Leaves { name: name.to_owned() });
    }
    value_of(name, leaves, 0).map(Some)
}

/// Whether a tensor is a leaf of the input `name`: then the rest of its name, which is empty for the input itself.
#[must_use]
pub fn is_below<'a>(name: &str, leaf: &'a str) -> Option<&'a str> {
    leaf.strip_prefix(name).filter(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with(ELEMENTS))
}

/// The beginning of a name, up to what says the place inside a value: the name of the input or output that the tensor is a leaf of, unless that
/// has such a name itself.
///
/// ```
/// use carton_runner_interface::structure::top;
///
/// assert_eq!((top("state.0"), top("found[].boxes"), top("x[0]")), ("state", "found", "x[0]"));
/// ```
#[must_use]
pub fn top(name: &str) -> &str {
    // A name begins with at least one character of its own.
    let first = name.chars().next().map_or(0, char::len_utf8);
    let (_, rest) = name.split_at(first);
    let end = [".", ELEMENTS].iter().filter_map(|mark| rest.find(mark)).min();
    end.map_or(name, |end| name.split_at(first + end).0)
}

/// Makes the value whose leaves have these names behind `name`. There is at least one.
fn value_of(name: &str, leaves: Vec<(&str, Tensor)>, level: usize) -> Result<Value, StructureError> {
    let wrong = |problem: &str| Err(StructureError::Names { name: name.to_owned(), problem: problem.to_owned() });
    if level > MAX_LEVELS {
        return Err(StructureError::Levels { name: name.to_owned() });
    }
    if leaves.iter().any(|(rest, _)| rest.is_empty()) {
        return match <[_; 1]>::try_from(leaves) {
            Ok([(_, Tensor::Nested(list))]) => {
                Ok(Value::List(list.elements().iter().cloned().map(Value::Tensor).collect()))
            }
            Ok([(_, tensor)]) => Ok(Value::Tensor(tensor)),
            Err(_) => wrong("is a tensor, and the beginning of names of others"),
        };
    }
    let n_lists = leaves.iter().filter(|(rest, _)| rest.starts_with(ELEMENTS)).count();
    match n_lists {
        0 => record_of(name, leaves, level),
        _ if n_lists == leaves.len() => list_of(name, leaves, level),
        _ => wrong("is the beginning of names of a list, and of something else"),
    }
}

fn record_of(name: &str, leaves: Vec<(&str, Tensor)>, level: usize) -> Result<Value, StructureError> {
    let mut fields: BTreeMap<&str, Vec<(&str, Tensor)>> = BTreeMap::new();
    for (rest, tensor) in leaves {
        let rest = rest.strip_prefix('.').unwrap_or(rest);
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (key, rest) = rest.split_at(end);
        if !is_key(key) || !(rest.is_empty() || rest.starts_with('.') || rest.starts_with(ELEMENTS)) {
            let (name, problem) = (format!("{name}.{key}{rest}"), "is not the name of part of a value".to_owned());
            return Err(StructureError::Names { name, problem });
        }
        fields.entry(key).or_default().push((rest, tensor));
    }
    let is_tuple = (0..fields.len()).all(|position| fields.contains_key(position.to_string().as_str()));
    let mut fields: Vec<(&str, Vec<(&str, Tensor)>)> = fields.into_iter().collect();
    if is_tuple {
        // As numbers, of which none has leading zeros: 2 before 10.
        fields.sort_by_key(|(key, _)| (key.len(), *key));
    }
    let fields = fields.into_iter().map(|(key, leaves)| {
        let value = value_of(&format!("{name}.{key}"), leaves, level + 1)?;
        Ok((key.to_owned(), value))
    });
    let fields: Vec<(String, Value)> = fields.collect::<Result<_, StructureError>>()?;
    Ok(match is_tuple {
        true => Value::Tuple(fields.into_iter().map(|(_, value)| value).collect()),
        false => Value::Record(fields),
    })
}

/// A leaf of a list, from which each element takes its part in turn.
enum Parts {
    /// One tensor for each element.
    Single(std::vec::IntoIter<Tensor>),
    /// As many tensors for each element as its length says, as a nested tensor.
    Several { tensors: std::vec::IntoIter<Tensor>, lengths: std::vec::IntoIter<usize> },
}

fn list_of(name: &str, leaves: Vec<(&str, Tensor)>, level: usize) -> Result<Value, StructureError> {
    let wrong = |rest: &str, problem: String| StructureError::Names { name: format!("{name}{rest}"), problem };
    let mut lengths: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut lists = Vec::new();
    let names: Vec<&str> = leaves.iter().map(|(rest, _)| *rest).collect();
    let has_elements = |list: &str| {
        let mut inside = names.iter().filter_map(|rest| rest.strip_prefix(list));
        inside.any(|rest| rest.starts_with(ELEMENTS))
    };
    let no_list = |list: &str| {
        wrong(&format!("{list}{LENGTHS}"), format!("are lengths, and there is no `{name}{list}{ELEMENTS}`"))
    };
    for (rest, tensor) in leaves {
        match (rest.strip_suffix(LENGTHS), tensor) {
            (Some(list), Tensor::Numeric(numbers)) => {
                let numbers = numbers.to_vec::<i64>().ok().filter(|_| numbers.shape().len() == 1);
                let numbers = numbers.map(|numbers| numbers.into_iter().map(usize::try_from).collect());
                let Some(Ok(numbers)) = numbers else {
                    return Err(wrong(rest, "should be lengths: int64 of one dimension, none below 0".to_owned()));
                };
                lengths.insert(list, numbers);
            }
            // Lengths of lists inside each element.
            (Some(inner), Tensor::Nested(_)) if !has_elements(inner) => return Err(no_list(inner)),
            _ if rest == ELEMENTS => {
                return Err(wrong(rest, format!("is no tensor of its own: a list of tensors is `{name}`")));
            }
            (_, Tensor::Nested(list)) => lists.push((rest, list)),
            // A tensor stands for the list of its parts.
            (_, tensor) => match NestedTensor::of_parts(&tensor) {
                Ok(Some(list)) => lists.push((rest, list)),
                Err(error) => return Err(wrong(rest, format!("cannot be a list: {error}"))),
                Ok(None) => {
                    return Err(wrong(rest, "should be a nested tensor, which has the elements of a list".to_owned()));
                }
            },
        }
    }
    let mut count = None;
    let mut parts = Vec::with_capacity(lists.len());
    for (rest, list) in lists {
        // Each part keeps its name without what the list itself adds to it.
        let (n_elements, part) = match rest.strip_suffix(ELEMENTS) {
            None => (list.elements().len(), (rest, Parts::Single(list.elements().to_vec().into_iter()))),
            Some(inner) => {
                let Some(lengths) = lengths.remove(inner) else {
                    return Err(wrong(rest, format!("needs the lengths of its lists, `{name}{inner}{LENGTHS}`")));
                };
                let n_tensors = lengths.iter().try_fold(0_usize, |sum, &length| sum.checked_add(length));
                if n_tensors != Some(list.elements().len()) {
                    let n_found = list.elements().len();
                    return Err(wrong(rest, format!("has {n_found} elements, and its lengths make another number")));
                }
                let (tensors, n_elements) = (list.elements().to_vec().into_iter(), lengths.len());
                (n_elements, (inner, Parts::Several { tensors, lengths: lengths.into_iter() }))
            }
        };
        let expected = *count.get_or_insert(n_elements);
        if n_elements != expected {
            return Err(wrong(rest, format!("has {n_elements} elements, other leaves of the list have {expected}")));
        }
        parts.push(part);
    }
    // Of an empty list, those that would be a tensor in each element are none at all.
    lengths.retain(|list, lengths| !(count == Some(0) && lengths.is_empty() && has_elements(list)));
    if let Some(list) = lengths.keys().min() {
        return Err(no_list(list));
    }
    let below = format!("{name}{ELEMENTS}");
    let elements = (0..count.unwrap_or_default()).map(|_| {
        let mut leaves = Vec::with_capacity(parts.len());
        for (rest, part) in &mut parts {
            let rest = rest.strip_prefix(ELEMENTS).unwrap_or(rest);
            leaves.push((rest, part.next(&below)?));
        }
        value_of(&below, leaves, level + 1)
    });
    elements.collect::<Result<_, _>>().map(Value::List)
}

impl Parts {
    fn next(&mut self, name: &str) -> Result<Tensor, StructureError> {
        let failed = |source| StructureError::Tensors { name: name.to_owned(), source };
        match self {
            Self::Single(tensors) => match tensors.next() {
                Some(tensor) => Ok(tensor),
                None => NestedTensor::new(Vec::new()).map(Tensor::from).map_err(failed),
            },
            Self::Several { tensors, lengths } => {
                let length = lengths.next().unwrap_or_default();
                NestedTensor::new(tensors.take(length).collect()).map(Tensor::from).map_err(failed)
            }
        }
    }
}

#[cfg(test)]
mod tests;
