//! Follows the opcodes of one pickle with a stack, as Python's `pickle` and the restricted reader of `torch.load(weights_only=True)` do, and
//! executes nothing: what a pickle would import is a name, and what it would call is described (spec/torch.md §2).
//!
//! Opcodes, values and copies are bounded, and nothing recurs, so that time and memory have a limit: some gigabytes for the longest pickle,
//! and for those of models little more than the pickle.

use std::collections::HashMap;

use super::error::{Problem, malformed, quoted, refused};
use super::globals::{self, Global};
use super::opcodes::{Opcode, Opcodes};
use super::rebuild;
use super::values::{Collection, Made, StorageInfo, Value};

/// The greatest protocol.
const PROTOCOL: u8 = 5;
/// The most opcodes of a file, and items that they copy.
const MAX_OPCODES: u64 = 1 << 25;
/// The most values on the stack, and marks among them.
const MAX_STACK: usize = 1 << 22;
/// The most values that are kept for later opcodes.
const MAX_MEMO: usize = 1 << 22;

/// The longest key of a storage, in bytes. PyTorch counts storages.
const MAX_KEY: usize = 1 << 10;

/// The form of a storage's persistent id, which depends on the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PersistentIds {
    /// There are none.
    None,
    /// `("storage", CLASS, KEY, LOCATION, N)`.
    Archive,
    /// The same, with None or a part of the storage behind it.
    Stream,
}

/// Follows pickles, one after another, whose values refer to each other.
pub(super) struct Interpreter<'p> {
    pub(super) made: Made<'p>,
    /// How many opcodes may follow.
    budget: u64,
}

impl<'p> Interpreter<'p> {
    pub(super) fn new() -> Self {
        Self { made: Made::default(), budget: MAX_OPCODES }
    }

    /// Follows the pickle that begins at `start`, to its end. Returns what it has made, and where its end is.
    pub(super) fn follow(
        &mut self,
        bytes: &'p [u8],
        start: usize,
        persistent_ids: PersistentIds,
    ) -> Result<(Value<'p>, usize), Problem> {
        let opcodes = Opcodes::new(bytes, start);
        let mut one = OnePickle {
            made: &mut self.made,
            budget: &mut self.budget,
            opcodes,
            persistent_ids,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
            offset: start,
        };
        one.run(start)
    }
}

struct OnePickle<'m, 'p> {
    made: &'m mut Made<'p>,
    budget: &'m mut u64,
    opcodes: Opcodes<'p>,
    persistent_ids: PersistentIds,
    stack: Vec<Value<'p>>,
    /// The heights of the stack at each mark. What is below the last one is out of reach.
    marks: Vec<usize>,
    memo: HashMap<u32, Value<'p>>,
    /// Where the present opcode is.
    offset: usize,
}

impl<'p> OnePickle<'_, 'p> {
    fn run(&mut self, start: usize) -> Result<(Value<'p>, usize), Problem> {
        loop {
            *self.budget = match self.budget.checked_sub(1) {
                Some(rest) if self.stack.len() < MAX_STACK && self.marks.len() < MAX_STACK => rest,
                _ => return refused("its pickle has more opcodes, or copies more, than is followed"),
            };
            self.offset = self.opcodes.position();
            let opcode = self.opcodes.next()?;
            let is_first = self.offset == start;
            match opcode {
                Opcode::Protocol(protocol) if is_first && (2..=PROTOCOL).contains(&protocol) => {}
                Opcode::Protocol(protocol) => {
                    return malformed(format!(
                        "protocol {protocol} at byte {} of the pickle, expected one of 2 to {PROTOCOL} at its start",
                        self.offset
                    ));
                }
                _ if is_first => return malformed(format!("no pickle of protocol 2 or later at byte {start}")),
                Opcode::Stop => {
                    let value = self.pop()?;
                    if !self.stack.is_empty() || !self.marks.is_empty() {
                        return malformed(format!("the pickle stops at byte {} with values left", self.offset));
                    }
                    return Ok((value, self.opcodes.position()));
                }
                opcode => self.follow(opcode)?,
            }
        }
    }

    fn follow(&mut self, opcode: Opcode<'p>) -> Result<(), Problem> {
        let value = match opcode {
            Opcode::None => Value::None,
            Opcode::Bool(value) => Value::Bool(value),
            Opcode::Int(number) => Value::Int(number),
            Opcode::LongInt => Value::LongInt,
            Opcode::Float => Value::Float,
            Opcode::Text(text) => Value::Text(text),
            Opcode::Bytes => Value::Bytes,
            Opcode::EmptySet => Value::Other("a set"),
            Opcode::EmptyTuple => self.made.add(Collection::Tuple(Vec::new()))?,
            Opcode::EmptyList => self.made.add(Collection::List(Vec::new()))?,
            Opcode::EmptyDict => self.made.add(Collection::Dict(Default::default()))?,
            Opcode::Tuple => {
                let values = self.pop_to_mark()?;
                self.made.add(Collection::Tuple(values))?
            }
            Opcode::TupleOf(n_values) => {
                let start = self.stack.len().checked_sub(n_values).filter(|start| *start >= self.floor());
                let Some(start) = start else { return self.underflow() };
                let values = self.stack.split_off(start);
                self.made.add(Collection::Tuple(values))?
            }
            Opcode::FrozenSet => {
                let items = self.pop_to_mark()?;
                self.check_set_items(&items)?;
                Value::Other("a set")
            }
            Opcode::Global(module, name) => Value::Global(globals::global(module, name, self.offset)?),
            Opcode::StackGlobal => match (self.pop()?, self.pop()?) {
                (Value::Text(name), Value::Text(module)) => Value::Global(globals::global(module, name, self.offset)?),
                _ => return malformed(format!("a name at byte {} of the pickle that is no text", self.offset)),
            },
            Opcode::Reduce => self.reduce()?,
            Opcode::NewObject => {
                let (arguments, class) = (self.pop()?, self.pop()?);
                if class != Value::Global(Global::OrderedDict) || self.made.tuple(arguments) != Some(&[]) {
                    return refused(format!(
                        "an object of a class at byte {} of its pickle, which is not made",
                        self.offset
                    ));
                }
                rebuild::call(self.made, Global::OrderedDict, &[], self.offset, self.budget)?
            }
            Opcode::PersistentId => self.storage()?,
            Opcode::Get(number) => match self.memo.get(&number) {
                Some(value) => *value,
                None => {
                    return malformed(format!(
                        "no value has the number {number}, which byte {} of the pickle names",
                        self.offset
                    ));
                }
            },
            other => return self.change(other),
        };
        self.stack.push(value);
        Ok(())
    }

    /// Follows an opcode that makes no value.
    fn change(&mut self, opcode: Opcode<'p>) -> Result<(), Problem> {
        match opcode {
            Opcode::Mark => {
                self.marks.push(self.stack.len());
                Ok(())
            }
            Opcode::Put(number) => self.keep(number),
            Opcode::Memoize => match u32::try_from(self.memo.len()) {
                Ok(number) => self.keep(number),
                Err(_) => refused("its pickle keeps too many values"),
            },
            Opcode::Append => {
                let item = self.pop()?;
                self.extend(vec![item])
            }
            Opcode::Appends => {
                let items = self.pop_to_mark()?;
                self.extend(items)
            }
            Opcode::SetItem => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set_items(&[key, value])
            }
            Opcode::SetItems => {
                let items = self.pop_to_mark()?;
                self.set_items(&items)
            }
            Opcode::AddItems => {
                let items = self.pop_to_mark()?;
                self.check_set_items(&items)?;
                match self.top()? {
                    Value::Other("a set") => Ok(()),
                    other => self.wrong_target("a set", other),
                }
            }
            Opcode::Build => self.build(),
            // `run` follows these, and `follow` those that make values.
            _ => malformed(format!("an opcode out of place at byte {} of the pickle", self.offset)),
        }
    }

    /// The height of the stack at the last mark.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn underflow<T>(&self) -> Result<T, Problem> {
        malformed(format!("the opcode at byte {} of the pickle needs a value that is not there", self.offset))
    }

    fn wrong_target<T>(&self, expected: &str, found: Value<'_>) -> Result<T, Problem> {
        malformed(format!("the opcode at byte {} of the pickle needs {expected}, found {}", self.offset, found.kind()))
    }

    fn pop(&mut self) -> Result<Value<'p>, Problem> {
        if self.stack.len() > self.floor()
            && let Some(value) = self.stack.pop()
        {
            return Ok(value);
        }
        self.underflow()
    }

    fn top(&self) -> Result<Value<'p>, Problem> {
        match self.stack.last() {
            Some(value) if self.stack.len() > self.floor() => Ok(*value),
            _ => self.underflow(),
        }
    }

    /// Takes the values above the last mark, and the mark.
    fn pop_to_mark(&mut self) -> Result<Vec<Value<'p>>, Problem> {
        match self.marks.pop() {
            Some(mark) => Ok(self.stack.split_off(mark)),
            None => {
                malformed(format!("the opcode at byte {} of the pickle needs a mark, and there is none", self.offset))
            }
        }
    }

    fn keep(&mut self, number: u32) -> Result<(), Problem> {
        let value = self.top()?;
        self.memo.insert(number, value);
        if self.memo.len() > MAX_MEMO { refused("its pickle keeps too many values") } else { Ok(()) }
    }

    fn extend(&mut self, items: Vec<Value<'p>>) -> Result<(), Problem> {
        let target = self.top()?;
        match target {
            Value::Collection(position) => match self.made.collections.get_mut(position) {
                Some(Collection::List(values)) => {
                    values.extend(items);
                    Ok(())
                }
                _ => self.wrong_target("a list", target),
            },
            _ => self.wrong_target("a list", target),
        }
    }

    fn set_items(&mut self, items: &[Value<'p>]) -> Result<(), Problem> {
        let target = self.top()?;
        let Value::Collection(position) = target else { return self.wrong_target("a dictionary", target) };
        let Some(Collection::Dict(dict)) = self.made.collections.get_mut(position) else {
            return self.wrong_target("a dictionary", target);
        };
        let (pairs, []) = items.as_chunks() else {
            return malformed(format!("a key without a value at byte {} of the pickle", self.offset));
        };
        for &[key, value] in pairs {
            dict.set(key, value, self.offset, self.budget)?;
        }
        Ok(())
    }

    fn check_set_items(&self, items: &[Value<'p>]) -> Result<(), Problem> {
        let is_changeable = |item: &&Value<'p>| matches!(item, Value::Collection(_) | Value::Other("a set"));
        match items.iter().find(is_changeable) {
            Some(item) => refused(format!("a set with {} in it at byte {} of its pickle", item.kind(), self.offset)),
            None => Ok(()),
        }
    }

    fn reduce(&mut self) -> Result<Value<'p>, Problem> {
        /// More than any function takes.
        const MAX_ARGUMENTS: usize = 16;
        let (arguments, function) = (self.pop()?, self.pop()?);
        let Value::Global(function) = function else { return self.wrong_target("a class or function", function) };
        let Some(arguments) = self.made.tuple(arguments).filter(|arguments| arguments.len() <= MAX_ARGUMENTS) else {
            return self.wrong_target("a tuple of arguments", arguments);
        };
        let arguments = arguments.to_vec();
        rebuild::call(self.made, function, &arguments, self.offset, self.budget)
    }

    /// Follows attributes of a dictionary, such as the versions of a module's parts (`_metadata`), which are left out.
    fn build(&mut self) -> Result<(), Problem> {
        let state = self.pop()?;
        let target = self.top()?;
        let is_ordered_dict = self.made.dict(target).is_some_and(|dict| dict.is_ordered_dict);
        let has_names = self.made.dict(state).is_some();
        match is_ordered_dict && has_names {
            true => Ok(()),
            false => refused(format!(
                "the state of {} at byte {} of its pickle, which is not set",
                target.kind(),
                self.offset
            )),
        }
    }

    /// Follows the mention of a storage.
    fn storage(&mut self) -> Result<Value<'p>, Problem> {
        let id = self.pop()?;
        let offset = self.offset;
        let Some(parts) = self.made.tuple(id) else { return self.wrong_target("the description of a storage", id) };
        let (class, key, location, n_elements) = match (self.persistent_ids, parts) {
            (PersistentIds::Archive, &[Value::Text("storage"), class, key, location, n_elements])
            | (PersistentIds::Stream, &[Value::Text("storage"), class, key, location, n_elements, Value::None]) => {
                (class, key, location, n_elements)
            }
            (PersistentIds::Stream, &[Value::Text("storage"), _, _, _, _, _]) => {
                return refused(format!("a part of a storage that is a storage at byte {offset} of its pickle"));
            }
            (_, [Value::Text(kind), ..]) if *kind != "storage" => {
                return refused(format!("a persistent id of the kind {} at byte {offset} of its pickle", quoted(kind)));
            }
            _ => return malformed(format!("the description of a storage at byte {offset} of the pickle is none")),
        };
        let (Value::Global(Global::Storage(class)), Value::Text(key), Value::Text(location), Value::Int(n_elements)) =
            (class, key, location, n_elements)
        else {
            return malformed(format!("the description of a storage at byte {offset} of the pickle is none"));
        };
        if key.len() > MAX_KEY {
            return malformed(format!("a storage whose key has {} bytes at byte {offset} of the pickle", key.len()));
        }
        if location == "meta" {
            return refused(format!("a storage without bytes (meta) at byte {offset} of its pickle"));
        }
        let Some(element_type) = class.element_type else {
            let name = class.name;
            return refused(format!("it has quantized numbers (`torch.{name}` at byte {offset} of its pickle)"));
        };
        // PyTorch knows storages without a type in archives only.
        if self.persistent_ids == PersistentIds::Stream && class.name == "UntypedStorage" {
            return refused(format!("a storage without a type in a stream, at byte {offset} of its pickle"));
        }
        let sizes = u64::try_from(n_elements).ok().and_then(|n_elements| {
            let n_bytes = n_elements.checked_mul(element_type.bits() as u64 / 8)?;
            i64::try_from(n_bytes).is_ok().then_some((n_elements, n_bytes))
        });
        let Some((n_elements, n_bytes)) = sizes else {
            return malformed(format!("a storage of {n_elements} elements at byte {offset} of the pickle"));
        };
        self.made.mention(key, StorageInfo { key: key.to_owned(), element_type, n_elements, n_bytes })
    }
}
