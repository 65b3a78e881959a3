//! Names the tensors of nested dictionaries and lists: keys and positions, joined by `.` (spec/torch.md §4).

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use super::error::{Problem, malformed, quoted, refused};
use super::values::{Collection, Made, Value};

/// How deep collections may be in each other.
const MAX_DEPTH: usize = 64;
/// The most values that are looked at, however often collections refer to each other.
const MAX_VISITS: u64 = 1 << 23;
/// The most bytes of all names.
const MAX_BYTES: usize = 1 << 26;
/// The most names of tensors: one tensor can have many.
const MAX_TENSORS: usize = 1 << 20;
/// As many values that are no tensors are named.
const LISTED: usize = 1000;
/// The name of a tensor that is the whole file.
const ONLY: &str = "data";

/// A value of a checkpoint that is no tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Omitted {
    /// Its name, made as those of tensors are.
    pub name: String,
    /// What it is, in words.
    pub kind: &'static str,
}

/// The values of a checkpoint that are no tensors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// How many there are.
    pub count: u64,
    /// The first of them.
    pub first: Vec<Omitted>,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 10;
        let shown: Vec<String> =
            self.first.iter().take(SHOWN).map(|one| format!("{} ({})", quoted(&one.name), one.kind)).collect();
        f.write_str(&shown.join(", "))?;
        match self.count.saturating_sub(shown.len() as u64) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Names of tensors, each with the position of its tensor.
pub(super) type Named = Vec<(Arc<str>, usize)>;

/// The tensors below `root`, by their names, in the order of the pickle.
pub(super) fn name_tensors(made: &Made<'_>, root: Value<'_>) -> Result<(Named, LeftOut), Problem> {
    let mut walk =
        Walk { made, n_visits: 0, n_bytes: 0, tensors: Vec::new(), seen: HashSet::new(), left_out: LeftOut::default() };
    walk.visit(root, "", 0)?;
    Ok((walk.tensors, walk.left_out))
}

struct Walk<'m, 'p> {
    made: &'m Made<'p>,
    n_visits: u64,
    n_bytes: usize,
    tensors: Named,
    seen: HashSet<Arc<str>>,
    left_out: LeftOut,
}

impl<'p> Walk<'_, 'p> {
    /// Visits a value. It recurs no deeper than [`MAX_DEPTH`].
    fn visit(&mut self, value: Value<'p>, name: &str, depth: usize) -> Result<(), Problem> {
        self.n_visits += 1;
        if self.n_visits > MAX_VISITS {
            return refused(format!("its collections have more than {MAX_VISITS} values"));
        }
        let Some(collection) = self.made.collection(value) else { return self.leaf(value, name, depth) };
        if depth == MAX_DEPTH {
            return refused(format!(
                "its collections are in each other more than {MAX_DEPTH} deep, at {}",
                quoted(name)
            ));
        }
        match collection {
            Collection::Tuple(values) | Collection::List(values) => {
                for (position, value) in values.iter().enumerate() {
                    let name = self.join(name, &position.to_string(), depth)?;
                    self.visit(*value, &name, depth + 1)?;
                }
            }
            Collection::Dict(dict) => {
                for (key, value) in &dict.entries {
                    let name = self.join(name, &key.to_string(), depth)?;
                    self.visit(*value, &name, depth + 1)?;
                }
            }
        }
        Ok(())
    }

    fn join(&mut self, name: &str, key: &str, depth: usize) -> Result<String, Problem> {
        let joined = if depth == 0 { key.to_owned() } else { format!("{name}.{key}") };
        // Names of values that are no tensors also take time.
        self.n_bytes += joined.len();
        if self.n_bytes > MAX_BYTES { refused("the names of its values are too long") } else { Ok(joined) }
    }

    fn leaf(&mut self, value: Value<'p>, name: &str, depth: usize) -> Result<(), Problem> {
        let name = if depth == 0 { ONLY } else { name };
        let Value::Tensor(tensor) = value else {
            self.left_out.count += 1;
            if self.left_out.first.len() < LISTED {
                self.left_out.first.push(Omitted { name: name.to_owned(), kind: value.kind() });
            }
            return Ok(());
        };
        if self.tensors.len() == MAX_TENSORS {
            return refused(format!("it has more than {MAX_TENSORS} names of tensors"));
        }
        let shared: Arc<str> = name.into();
        if !self.seen.insert(Arc::clone(&shared)) {
            return malformed(format!(
                "two of its tensors have the name {}, once their keys are joined by `.`",
                quoted(name)
            ));
        }
        self.tensors.push((shared, tensor));
        Ok(())
    }
}
