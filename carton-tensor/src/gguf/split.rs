//! Reads a model in several files as one (spec/gguf.md §5). The first file says how many there are; their names count them.

use std::collections::HashMap;
use std::io;

use super::{GgufError, Reader, TensorInfo, Value};
use crate::files::{Beside, quoted};
use crate::parallel::par_map;

/// The keys of a file that is one of several.
const NUMBER: &str = "split.no";
const COUNT: &str = "split.count";
const TENSORS: &str = "split.tensors.count";

/// The most files of a model: their numbers have five digits.
const MAX_PARTS: u64 = 99_999;
/// How many files are opened at a time: elsewhere than in a folder, each waits for an answer of its server.
const AT_ONCE: usize = 8;

/// The files of a model: one, or all of several.
#[derive(Clone, Debug)]
pub struct Split {
    /// Each with its file name, if there are several.
    parts: Vec<(String, Reader)>,
    /// The part that has each tensor.
    names: HashMap<String, usize>,
}

impl Split {
    /// Takes a file, and opens the others of its model if it says that there are any. Without `beside`, a file that is one of several is refused.
    ///
    /// # Errors
    /// [`GgufError::Split`]; [`GgufError::Header`] and [`GgufError::Io`] of another file.
    pub fn new(first: Reader, beside: Option<Beside<'_>>) -> Result<Self, GgufError> {
        let refused = |problem: String| GgufError::Split { place: first.place().to_owned(), problem };
        let (number, count) = (integer(&first, NUMBER)?.unwrap_or(0), integer(&first, COUNT)?.unwrap_or(1));
        if count <= 1 {
            return Ok(Self { parts: vec![(String::new(), first)], names: HashMap::new() });
        }
        if number != 0 {
            return Err(refused(format!(
                "it is file {} of {count} of a model, and the first one opens all",
                number + 1
            )));
        }
        let Some(beside) = beside else {
            return Err(refused(format!(
                "it is the first of {count} files of a model, and is opened without the others"
            )));
        };
        let folder_end = first.place().rfind('/').map_or(0, |slash| slash + 1);
        // A URL may have a query.
        let (folder, name) = first.place().split_at(folder_end);
        let name = name.split('?').next().unwrap_or_default();
        let numbered = |number: u64| format!("-{number:05}-of-{count:05}.gguf");
        let Some(stem) = name.strip_suffix(numbered(1).as_str()).filter(|_| count <= MAX_PARTS) else {
            return Err(refused(format!(
                "it is the first of {count} files of a model, expected a name that ends in `{}`",
                numbered(1)
            )));
        };
        let others: Vec<String> = (2..=count).map(|number| format!("{stem}{}", numbered(number))).collect();
        let opened = par_map(
            others.len(),
            AT_ONCE,
            || (),
            |(), position| {
                let name = others.get(position).map_or("", String::as_str);
                let place = format!("{folder}{name}");
                let bytes = beside(name).map_err(|source| match source.kind() {
                    io::ErrorKind::NotFound => refused(format!("{} of the same model is missing", quoted(name))),
                    _ => GgufError::Io { place: place.clone(), source },
                })?;
                let part = Reader::new(bytes, place)?;
                let said = (integer(&part, NUMBER)?, integer(&part, COUNT)?);
                if said != (Some(position as u64 + 1), Some(count)) {
                    return Err(refused(format!(
                        "`{NUMBER}` and `{COUNT}` of {} are {}, expected {} and {count}",
                        quoted(name),
                        [said.0, said.1]
                            .map(|number| number.map_or("missing".to_owned(), |it| it.to_string()))
                            .join(" and "),
                        position + 1
                    )));
                }
                Ok(part)
            },
        )?;
        let stated = integer(&first, TENSORS)?;
        let place = first.place().to_owned();
        let mut parts = vec![(name.to_owned(), first)];
        parts.extend(others.into_iter().zip(opened));
        Self::joined(parts, stated).map_err(|problem| GgufError::Split { place, problem })
    }

    /// Checks that the files have as many tensors as is stated, and none twice.
    fn joined(parts: Vec<(String, Reader)>, stated: Option<u64>) -> Result<Self, String> {
        let mut names = HashMap::new();
        for (position, (file, part)) in parts.iter().enumerate() {
            for tensor in part.header().tensors() {
                if names.insert(tensor.name.clone(), position).is_some() {
                    return Err(format!("tensor {} of {} is in another file too", quoted(&tensor.name), quoted(file)));
                }
            }
        }
        match stated.filter(|stated| *stated != names.len() as u64) {
            Some(stated) => Err(format!("`{TENSORS}` is {stated}, and the files have {} tensors", names.len())),
            None => Ok(Self { parts, names }),
        }
    }

    /// The first file, which has the metadata of the model.
    #[must_use]
    pub fn first(&self) -> Option<&Reader> {
        self.parts.first().map(|(_, reader)| reader)
    }

    /// The files, in their order.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = &Reader> {
        self.parts.iter().map(|(_, reader)| reader)
    }

    /// The names of the files in their folder, if there are several.
    pub fn file_names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|(name, _)| name.as_str()).filter(|name| !name.is_empty())
    }

    /// Returns the tensor of this name, and the file that has it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<(&Reader, &TensorInfo)> {
        // A single file needs no names of its own.
        let position = if self.parts.len() == 1 { 0 } else { *self.names.get(name)? };
        let (_, reader) = self.parts.get(position)?;
        Some((reader, reader.header().get(name)?))
    }
}

/// The value of a key that counts.
fn integer(reader: &Reader, key: &'static str) -> Result<Option<u64>, GgufError> {
    let found = match reader.header().value(key) {
        None => return Ok(None),
        Some(Value::Unsigned(number)) => return Ok(Some(*number)),
        Some(Value::Signed(number)) => match u64::try_from(*number) {
            Ok(number) => return Ok(Some(number)),
            Err(_) => number.to_string(),
        },
        Some(_) => "no integer".to_owned(),
    };
    let problem = format!("`{key}` is {found}, expected an integer that is not negative");
    Err(GgufError::Split { place: reader.place().to_owned(), problem })
}
