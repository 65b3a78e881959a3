//! Finds what a pickle names, without loading it: its opcodes are followed with a stack of what matters, which is names, and the arrays that
//! joblib writes between the opcodes.
//!
//! The file may be hostile: opcodes, memo, stack, names and decompressed bytes are bounded, long values are skipped, and nothing nests. What is
//! not seen: names that a class makes when it is loaded, pickles inside of values, and what is behind a limit ([`Found::is_complete`]).

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

use flate2::bufread::{GzDecoder, ZlibDecoder};

use crate::version::Version;
use crate::xgboost::version_of_ubjson;

/// The greatest protocol.
const PROTOCOL: u8 = 5;
/// Half a second or so.
const MAX_OPCODES: u64 = 1 << 24;
/// Of values on the stack.
const MAX_STACK: usize = 1 << 20;
/// Of values that are kept for later opcodes.
const MAX_MEMO: usize = 1 << 19;
/// Longer texts are no names.
const MAX_NAME: u64 = 128;
const MAX_NAMES: usize = 1000;
/// Of what is decompressed.
const MAX_DECOMPRESSED: u64 = 512 << 20;
/// Tuples with more elements are neither shapes nor arguments of a dtype.
const MAX_TUPLE: usize = 64;
/// Of the end of a long value, where XGBoost has its version.
const END: u64 = 64;

/// What was found in a pickle.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Modules and the names in them.
    pub(crate) names: BTreeSet<(String, String)>,
    /// The version of scikit-learn that pickled the last of its estimators, which is the outermost.
    pub(crate) sklearn: Option<Version>,
    /// The version of XGBoost that pickled a booster.
    pub(crate) xgboost: Option<[u64; 3]>,
    /// Whether joblib's reader is needed: there are arrays between the opcodes, or all is compressed.
    pub(crate) is_of_joblib: bool,
    /// Whether all was read, and each name was understood.
    pub(crate) is_complete: bool,
}

/// Reads what the pickle in `file`, which begins with `start`, names. `None` if the file does not begin as a pickle does.
pub(crate) fn read(file: File, start: &[u8]) -> Option<Found> {
    let file = BufReader::new(file);
    let mut found = if is_start(start) {
        follow(file)
    } else {
        let decompressed: Box<dyn Read> = if start.starts_with(&[0x1f, 0x8b]) {
            Box::new(GzDecoder::new(file))
        } else if start.first() == Some(&0x78) {
            Box::new(ZlibDecoder::new(file))
        } else {
            return None;
        };
        let mut decompressed = BufReader::new(decompressed.take(MAX_DECOMPRESSED));
        let start = io::BufRead::fill_buf(&mut decompressed).ok()?;
        if !is_start(start) {
            return None;
        }
        let mut found = follow(Sequential(decompressed));
        found.is_of_joblib = true;
        found
    };
    found.is_complete &= !found.names.is_empty();
    Some(found)
}

/// Whether bytes are the first of a pickle: since protocol 2 its number, and before it an object of scikit-learn and the like.
fn is_start(start: &[u8]) -> bool {
    const OLD: [&[u8]; 6] = [
        b"ccopy_reg\n_reconstructor\n",
        b"ccopyreg\n_reconstructor\n",
        b"csklearn.",
        b"cxgboost.",
        b"clightgbm.",
        b"ccatboost.",
    ];
    match start {
        [0x80, protocol, ..] => (2..=PROTOCOL).contains(protocol),
        _ => OLD.iter().any(|old| start.starts_with(old)),
    }
}

fn follow<I: Input>(input: I) -> Found {
    let found = Found { is_complete: true, ..Found::default() };
    let mut reader = Reader { input, found, n_opcodes: 0 };
    if reader.one(true).is_err() {
        reader.found.is_complete = false;
    }
    reader.found
}

/// Bytes of which long values are skipped.
trait Input: Read {
    fn skip(&mut self, n_bytes: u64) -> io::Result<()>;
}

impl Input for BufReader<File> {
    fn skip(&mut self, n_bytes: u64) -> io::Result<()> {
        // A place behind the end of the file is noticed by the next byte that is read.
        self.seek_relative(i64::try_from(n_bytes).map_err(|_| io::ErrorKind::UnexpectedEof)?)
    }
}

struct Sequential<R>(R);

impl<R: Read> Read for Sequential<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<R: Read> Input for Sequential<R> {
    fn skip(&mut self, n_bytes: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.0.by_ref().take(n_bytes), &mut io::sink())?;
        if skipped == n_bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// The file ends, or is no pickle, or a limit is reached.
struct Stopped;

impl From<io::Error> for Stopped {
    fn from(_: io::Error) -> Self {
        Self
    }
}

type Name = (Rc<str>, Rc<str>);

/// A value on the stack, as far as it matters. A tuple has no tuples in it, so that nothing nests.
#[derive(Clone)]
enum Value {
    Mark,
    Other,
    None,
    Int(u64),
    Text(Rc<str>),
    Global(Rc<Name>),
    Tuple(Rc<[Value]>),
    /// A dtype of NumPy.
    Dtype(Element),
    /// What a dictionary says of an array.
    Dict(Rc<RefCell<Layout>>),
    /// joblib's note in front of an array.
    Wrapper,
}

/// The element of an array.
#[derive(Clone, Copy)]
enum Element {
    Bytes(u64),
    /// Python objects, which are a pickle of their own.
    Object,
}

/// How an array is written behind joblib's note.
#[derive(Default)]
struct Layout {
    /// The number of elements.
    count: Option<u64>,
    element: Option<Element>,
    /// Whether the array is aligned, with a byte that counts the bytes before it.
    is_aligned: bool,
}

struct Reader<I> {
    input: I,
    found: Found,
    n_opcodes: u64,
}

/// The stack of one pickle, and the values that it kept.
#[derive(Default)]
struct Machine {
    stack: Vec<Value>,
    memo: HashMap<u64, Value>,
    /// All numbers below this one were given to a value that was kept.
    n_memo: u64,
    /// The other numbers that were given.
    other_numbers: BTreeSet<u64>,
}

impl Machine {
    /// The number of a value that is kept without one: how many numbers were given.
    fn next_number(&self) -> u64 {
        self.n_memo + self.other_numbers.len() as u64
    }

    fn keep(&mut self, number: u64, value: Value) -> Result<(), Stopped> {
        if number > self.n_memo {
            self.other_numbers.insert(number);
        } else if number == self.n_memo {
            self.n_memo += 1;
            while self.other_numbers.remove(&self.n_memo) {
                self.n_memo += 1;
            }
        }
        // A value that is not followed replaces the one that had its number.
        match value {
            Value::Mark | Value::Other => drop(self.memo.remove(&number)),
            value => drop(self.memo.insert(number, value)),
        }
        if self.memo.len() > MAX_MEMO || self.other_numbers.len() > MAX_MEMO { Err(Stopped) } else { Ok(()) }
    }
}

impl<I: Input> Reader<I> {
    /// Follows one pickle. `is_outer`: whether joblib may have put arrays between its opcodes.
    fn one(&mut self, is_outer: bool) -> Result<(), Stopped> {
        let mut machine = Machine::default();
        loop {
            self.n_opcodes += 1;
            if self.n_opcodes > MAX_OPCODES || machine.stack.len() > MAX_STACK {
                return Err(Stopped);
            }
            let [opcode] = self.bytes()?;
            match opcode {
                b'.' => return Ok(()),
                b'b' => self.build(&mut machine, is_outer)?,
                _ => {
                    if let Some(value) = self.value(opcode)? {
                        machine.stack.push(value);
                    } else if !self.keep(opcode, &mut machine)? {
                        self.combine(opcode, &mut machine)?;
                    }
                }
            }
        }
    }

    /// Returns the value that an opcode makes of what follows it. `None` if it is no such opcode.
    fn value(&mut self, opcode: u8) -> Result<Option<Value>, Stopped> {
        Ok(Some(match opcode {
            b'(' => Value::Mark,
            b'N' => Value::None,
            // Booleans, a list, a set, a buffer.
            0x88 | 0x89 | b']' | 0x8f | 0x97 => Value::Other,
            b'}' => Value::Dict(Rc::default()),
            b')' => Value::Tuple(Rc::new([])),
            b'K' => Value::Int(self.number::<1>()?),
            b'M' => Value::Int(self.number::<2>()?),
            b'J' => match self.number::<4>()? {
                number if number >> 31 == 0 => Value::Int(number),
                _ => Value::Other,
            },
            0x8a => match self.number::<1>()? {
                length @ 1..=8 => self.long(length)?,
                length => self.long_value(length)?,
            },
            0x8b => {
                let length = self.number::<4>()?;
                self.long_value(length)?
            }
            b'G' => self.long_value(8)?,
            b'I' | b'L' => self.line()?.trim_end_matches('L').parse().map_or(Value::Other, Value::Int),
            b'F' | b'P' => {
                self.line()?;
                Value::Other
            }
            // An escape stands for another character.
            b'S' | b'V' => match self.line()? {
                text if text.contains('\\') => Value::Other,
                text if opcode == b'S' => short(text.trim_matches(['\'', '"'])),
                text => short(&text),
            },
            0x8c | b'U' => {
                let length = self.number::<1>()?;
                self.text(length)?
            }
            b'X' | b'T' => {
                let length = self.number::<4>()?;
                self.text(length)?
            }
            0x8d => {
                let length = self.number::<8>()?;
                self.text(length)?
            }
            b'C' => {
                let length = self.number::<1>()?;
                self.long_value(length)?
            }
            b'B' => {
                let length = self.number::<4>()?;
                self.long_value(length)?
            }
            0x8e | 0x96 => {
                let length = self.number::<8>()?;
                self.long_value(length)?
            }
            b'c' => {
                let name = (Rc::from(self.line()?), Rc::from(self.line()?));
                self.global(name)
            }
            // Names by numbers, which the system that unpickles has registered.
            0x82..=0x84 => {
                self.input.skip(1 << (opcode - 0x82))?;
                self.found.is_complete = false;
                Value::Other
            }
            _ => return Ok(None),
        }))
    }

    /// Follows an opcode of the memo, or one without an effect here. Returns whether it was one.
    fn keep(&mut self, opcode: u8, machine: &mut Machine) -> Result<bool, Stopped> {
        let number = match opcode {
            0x80 => return self.input.skip(1).map(|()| true).map_err(Stopped::from),
            0x95 => return self.input.skip(8).map(|()| true).map_err(Stopped::from),
            0x98 => return Ok(true),
            0x94 => machine.next_number(),
            b'p' | b'g' => self.line()?.parse().map_err(|_| Stopped)?,
            b'q' | b'h' => self.number::<1>()?,
            b'r' | b'j' => self.number::<4>()?,
            _ => return Ok(false),
        };
        if matches!(opcode, b'g' | b'h' | b'j') {
            machine.stack.push(machine.memo.get(&number).cloned().unwrap_or(Value::Other));
            return Ok(true);
        }
        let value = machine.stack.last().ok_or(Stopped)?.clone();
        machine.keep(number, value)?;
        Ok(true)
    }

    /// Follows an opcode that takes values from the stack.
    fn combine(&mut self, opcode: u8, machine: &mut Machine) -> Result<(), Stopped> {
        let stack = &mut machine.stack;
        let made = match opcode {
            b'0' | b'a' => {
                pop(stack)?;
                return Ok(());
            }
            b'1' | b'e' | 0x90 => {
                to_mark(stack)?;
                return Ok(());
            }
            b'2' => stack.last().ok_or(Stopped)?.clone(),
            b'Q' => {
                pop(stack)?;
                Value::Other
            }
            b'l' | 0x91 => {
                to_mark(stack)?;
                Value::Other
            }
            b't' => tuple(to_mark(stack)?),
            0x85..=0x87 => {
                let start = stack.len().checked_sub(usize::from(opcode - 0x84)).ok_or(Stopped)?;
                tuple(stack.split_off(start))
            }
            b'd' => {
                let layout = Rc::default();
                let items = to_mark(stack)?;
                self.set_items(&layout, &items);
                Value::Dict(layout)
            }
            b's' | b'u' => {
                let items = if opcode == b'u' {
                    to_mark(stack)?
                } else {
                    let start = stack.len().checked_sub(2).ok_or(Stopped)?;
                    stack.split_off(start)
                };
                if let Some(Value::Dict(layout)) = stack.last() {
                    self.set_items(layout, &items);
                }
                return Ok(());
            }
            0x93 => match (pop(stack)?, pop(stack)?) {
                (Value::Text(name), Value::Text(module)) => self.global((module, name)),
                _ => {
                    self.found.is_complete = false;
                    Value::Other
                }
            },
            b'R' | 0x81 => {
                let arguments = pop(stack)?;
                made_by(&pop(stack)?, &arguments)
            }
            0x92 => {
                pop(stack)?;
                let arguments = pop(stack)?;
                made_by(&pop(stack)?, &arguments)
            }
            b'o' => {
                let items = to_mark(stack)?;
                made_by(items.first().ok_or(Stopped)?, &Value::Other)
            }
            b'i' => {
                let name = (Rc::from(self.line()?), Rc::from(self.line()?));
                to_mark(stack)?;
                made_by(&self.global(name), &Value::Other)
            }
            _ => return Err(Stopped),
        };
        stack.push(made);
        Ok(())
    }

    /// Gives an object its state. Behind the state of joblib's note, the array follows.
    fn build(&mut self, machine: &mut Machine, is_outer: bool) -> Result<(), Stopped> {
        let state = pop(&mut machine.stack)?;
        let object = machine.stack.last_mut().ok_or(Stopped)?;
        if !is_outer || !matches!(object, Value::Wrapper) {
            return Ok(());
        }
        *object = Value::Other;
        let Value::Dict(layout) = state else {
            return Err(Stopped);
        };
        self.found.is_of_joblib = true;
        let layout = layout.borrow();
        match layout.element.ok_or(Stopped)? {
            Element::Object => self.one(false),
            Element::Bytes(size) => {
                let n_bytes = layout.count.and_then(|count| count.checked_mul(size)).ok_or(Stopped)?;
                if layout.is_aligned {
                    let padding = self.number::<1>()?;
                    self.input.skip(padding)?;
                }
                Ok(self.input.skip(n_bytes)?)
            }
        }
    }

    /// Keeps what items of a dictionary, keys and values in turn, say of an array, or of a version.
    fn set_items(&mut self, layout: &RefCell<Layout>, items: &[Value]) {
        let mut layout = layout.borrow_mut();
        for item in items.chunks_exact(2) {
            let [Value::Text(key), value] = item else {
                continue;
            };
            match (&**key, value) {
                ("shape", Value::Tuple(sizes)) => {
                    layout.count = sizes.iter().try_fold(1_u64, |count, size| match size {
                        Value::Int(size) => count.checked_mul(*size),
                        _ => None,
                    });
                }
                ("dtype", Value::Dtype(element)) => layout.element = Some(*element),
                ("numpy_array_alignment_bytes", Value::Int(_)) => layout.is_aligned = true,
                ("_sklearn_version", Value::Text(version)) => {
                    self.found.sklearn = Version::parse(version).or_else(|| self.found.sklearn.take());
                }
                _ => {}
            }
        }
    }

    fn global(&mut self, (module, name): Name) -> Value {
        let found = &mut self.found;
        if module.len().max(name.len()) as u64 > MAX_NAME {
            found.is_complete = false;
            return Value::Other;
        }
        if found.names.len() < MAX_NAMES {
            found.names.insert((module.to_string(), name.to_string()));
        } else if !found.names.contains(&(module.to_string(), name.to_string())) {
            found.is_complete = false;
        }
        Value::Global(Rc::new((module, name)))
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Stopped> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn number<const N: usize>(&mut self) -> Result<u64, Stopped> {
        let mut bytes = [0; 8];
        bytes[..N].copy_from_slice(&self.bytes::<N>()?);
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads an integer of at most 8 bytes.
    fn long(&mut self, length: u64) -> Result<Value, Stopped> {
        let mut bytes = Vec::new();
        for _ in 0..length {
            bytes.push(self.bytes::<1>()?[0]);
        }
        let is_negative = bytes.last().is_some_and(|byte| byte >> 7 == 1);
        bytes.resize(8, 0);
        let number = bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        Ok(if is_negative { Value::Other } else { Value::Int(number) })
    }

    fn text(&mut self, length: u64) -> Result<Value, Stopped> {
        if length > MAX_NAME {
            self.input.skip(length)?;
            return Ok(Value::Other);
        }
        let mut text = Vec::new();
        self.input.by_ref().take(length).read_to_end(&mut text)?;
        if text.len() as u64 != length {
            return Err(Stopped);
        }
        Ok(String::from_utf8(text).map_or(Value::Other, |text| Value::Text(Rc::from(text))))
    }

    /// Skips a value. It may be a booster of XGBoost, whose version is at its end.
    fn long_value(&mut self, length: u64) -> Result<Value, Stopped> {
        if let Some(skipped) = length.checked_sub(END) {
            self.input.skip(skipped)?;
            let end = self.bytes::<{ END as usize }>()?;
            self.found.xgboost = version_of_ubjson(&end).or(self.found.xgboost);
        } else {
            self.input.skip(length)?;
        }
        Ok(Value::Other)
    }

    fn line(&mut self) -> Result<String, Stopped> {
        let mut line = Vec::new();
        loop {
            match self.bytes()? {
                // Protocol 0 writes texts in Latin-1.
                [b'\n'] => return Ok(String::from_utf8_lossy(&line).into_owned()),
                [byte] => line.push(byte),
            }
            if line.len() > 1 << 16 {
                return Err(Stopped);
            }
        }
    }
}

fn short(text: &str) -> Value {
    if text.len() as u64 > MAX_NAME { Value::Other } else { Value::Text(Rc::from(text)) }
}

fn pop(stack: &mut Vec<Value>) -> Result<Value, Stopped> {
    stack.pop().ok_or(Stopped)
}

/// Takes the values above the last mark, and the mark.
fn to_mark(stack: &mut Vec<Value>) -> Result<Vec<Value>, Stopped> {
    let place = stack.iter().rposition(|value| matches!(value, Value::Mark)).ok_or(Stopped)?;
    let values = stack.split_off(place + 1);
    stack.pop();
    Ok(values)
}

fn tuple(mut values: Vec<Value>) -> Value {
    if values.len() > MAX_TUPLE {
        return Value::Other;
    }
    for value in &mut values {
        if matches!(value, Value::Tuple(_) | Value::Dict(_)) {
            *value = Value::Other;
        }
    }
    Value::Tuple(Rc::from(values))
}

/// Returns what calling a class or function with arguments makes.
fn made_by(callable: &Value, arguments: &Value) -> Value {
    let Value::Global(name) = callable else {
        return Value::Other;
    };
    match (&*name.0, &*name.1) {
        ("numpy", "dtype") => dtype(arguments).map_or(Value::Other, Value::Dtype),
        (module, "NumpyArrayWrapper") if module.ends_with("numpy_pickle") => Value::Wrapper,
        _ => Value::Other,
    }
}

/// Returns the element that arguments of `numpy.dtype` describe, such as `("f8", False, True)`.
fn dtype(arguments: &Value) -> Option<Element> {
    let Value::Tuple(arguments) = arguments else {
        return None;
    };
    let Some(Value::Text(code)) = arguments.first() else {
        return None;
    };
    let (kind, size) = code.split_at_checked(1)?;
    let size: u64 = size.parse().ok()?;
    match kind {
        "O" => Some(Element::Object),
        "U" => Some(Element::Bytes(size.checked_mul(4)?)),
        _ => Some(Element::Bytes(size)),
    }
}
