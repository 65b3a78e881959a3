//! The container before PyTorch 1.6, which `_use_new_zipfile_serialization=False` still writes: five pickles, and behind them the storages
//! (spec/torch.md §1.2).

use std::collections::HashSet;

use super::archive::MAX_PICKLE;
use super::contents::{Contents, Place, Storage};
use super::error::{Problem, malformed, quoted, refused};
use super::interpreter::{Interpreter, PersistentIds};
use super::names::name_tensors;
use super::values::{Made, Value};
use crate::files::FileBytes;

/// The end of the first pickle: 0x1950a86a20f9469cfc6c, and its last opcode.
const MAGIC: &[u8] = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
/// The only version of the format.
const VERSION: i64 = 1001;
/// As much is read first; pickles that are longer are read again.
const FIRST: u64 = 1 << 20;

/// Reads what a stream has.
pub(super) fn open(bytes: &FileBytes) -> Result<Contents, Problem> {
    let most = bytes.len().min(MAX_PICKLE);
    let mut length = if bytes.is_in_memory() { most } else { most.min(FIRST) };
    loop {
        match open_pickles(&bytes.read(0..length)?, bytes) {
            Err(Problem::Truncated) if length < most => length = length.saturating_mul(4).min(most),
            Err(Problem::Truncated) if length < bytes.len() => {
                return refused(format!("pickles of more than {MAX_PICKLE} bytes"));
            }
            result => return result,
        }
    }
}

fn open_pickles(pickles: &[u8], bytes: &FileBytes) -> Result<Contents, Problem> {
    let mut interpreter = Interpreter::new();
    let (_, end) = interpreter.follow(pickles, 0, PersistentIds::None)?;
    if !pickles.get(..end).is_some_and(|first| first.ends_with(MAGIC)) {
        return malformed("its first pickle is not the number by which PyTorch knows its files");
    }
    let (version, end) = interpreter.follow(pickles, end, PersistentIds::None)?;
    if version != Value::Int(VERSION) {
        return malformed(format!("another version of the format, expected {VERSION}"));
    }
    let (system, end) = interpreter.follow(pickles, end, PersistentIds::None)?;
    match interpreter.made.dict(system).and_then(|system| system.get("little_endian")) {
        Some(Value::Bool(true)) => {}
        Some(Value::Bool(false)) => return refused("its numbers are big-endian, expected little-endian"),
        _ => return malformed("its third pickle does not say the order of bytes"),
    }
    let (root, end) = interpreter.follow(pickles, end, PersistentIds::Stream)?;
    let (keys, end) = interpreter.follow(pickles, end, PersistentIds::None)?;
    let made = interpreter.made;
    let (names, left_out) = name_tensors(&made, root)?;
    let storages = find_storages(&made, keys, end as u64, bytes)?;
    Ok(Contents::new(names, made.tensors, storages, left_out))
}

/// Finds the storages, which follow the pickles in the order of `keys`, each with the number of its elements before it.
fn find_storages(made: &Made<'_>, keys: Value<'_>, start: u64, bytes: &FileBytes) -> Result<Vec<Storage>, Problem> {
    const NUMBER: u64 = 8;
    let Some(keys) = made.list(keys) else { return malformed("its last pickle is no list of storages") };
    let mut places = vec![None; made.storages.len()];
    let mut seen = HashSet::new();
    let mut position = start;
    for key in keys {
        let Value::Text(key) = key else { return malformed("its last pickle names a storage by no string") };
        let storage = made.storage_of.get(key).copied();
        let Some((storage, info)) = storage.and_then(|at| Some((at, made.storages.get(at)?))) else {
            return malformed(format!("its last pickle names storage {}, which no tensor has", quoted(key)));
        };
        if !seen.insert(storage) {
            return malformed(format!("its last pickle names storage {} twice", quoted(key)));
        }
        let data = position.checked_add(NUMBER);
        let end = data.and_then(|data| data.checked_add(info.n_bytes)).filter(|end| *end <= bytes.len());
        let (Some(data), Some(end)) = (data, end) else {
            return malformed(format!("storage {} of {} bytes is not inside of the file", quoted(key), info.n_bytes));
        };
        let mut number = [0; NUMBER as usize];
        bytes.read_into(position, &mut number)?;
        let found = i64::from_le_bytes(number);
        if u64::try_from(found) != Ok(info.n_elements) {
            return malformed(format!("storage {} has {found} elements, expected {}", quoted(key), info.n_elements));
        }
        if let Some(place) = places.get_mut(storage) {
            *place = Some(Storage::new(info.n_bytes, Place::At(data)));
        }
        position = end;
    }
    if position != bytes.len() {
        return malformed(format!("{} bytes follow its last storage", bytes.len().saturating_sub(position)));
    }
    let missing = places.iter().position(Option::is_none).and_then(|at| made.storages.get(at));
    if let Some(missing) = missing {
        return malformed(format!("its last pickle does not name storage {}", quoted(&missing.key)));
    }
    Ok(places.into_iter().flatten().collect())
}
