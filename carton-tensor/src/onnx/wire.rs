//! Reads the wire format of protocol buffers, in place and from untrusted bytes: those of memory, or of a file of which only a part is read.
//!
//! ONNX Runtime has its own reader, which allocates what a file asks for and recurses as deep as it says. This reader
//! runs before it. It copies nothing, and counts messages and nesting, so that a hostile file is refused before ONNX Runtime
//! gets a single byte of it.

use std::cell::Cell;
use std::ops::Range;

/// The greatest nesting of messages. A graph inside an operator inside a graph adds three levels.
const MAX_DEPTH: usize = 64;

/// The greatest number of messages in one file. Each costs ONNX Runtime some 200 bytes, and the file as few as two.
const MAX_MESSAGES: u64 = 4_000_000;

/// Why bytes are not a well-formed message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A field begins or claims to end past the end of the message it is in.
    #[error("the message ends in the middle of a field at byte {offset}: the file is truncated, or not an ONNX model")]
    Truncated {
        /// The position in the file.
        offset: u64,
    },
    /// A number of more than ten bytes or 64 bits.
    #[error("a number at byte {offset} is longer than 64 bits")]
    LongNumber {
        /// The position in the file.
        offset: u64,
    },
    /// A field number or kind of value that no message has.
    #[error("byte {offset} is not the start of a field")]
    InvalidTag {
        /// The position in the file.
        offset: u64,
    },
    /// A field has another kind of value than its definition requires.
    #[error("field {number} at byte {offset} should hold {expected}")]
    WrongKind {
        /// The number of the field.
        number: u64,
        /// The position in the file.
        offset: u64,
        /// The kind of value.
        expected: &'static str,
    },
    /// Text that is not UTF-8.
    #[error("field {number} at byte {offset} is not valid UTF-8")]
    InvalidText {
        /// The number of the field.
        number: u64,
        /// The position in the file.
        offset: u64,
    },
    /// More nesting than any model needs.
    #[error("messages are nested more than {MAX_DEPTH} deep at byte {offset}")]
    TooDeep {
        /// The position in the file.
        offset: u64,
    },
    /// More messages than any model needs.
    #[error("more than {MAX_MESSAGES} messages in one file")]
    TooMany,
}

/// Bytes that are read by position.
pub trait Source {
    /// Why a message cannot be read.
    type Error: From<WireError>;

    /// Returns the byte at `position`; `None` past the end.
    ///
    /// # Errors
    /// The byte cannot be read.
    fn byte(&self, position: u64) -> Result<Option<u8>, Self::Error>;
}

impl Source for [u8] {
    type Error = WireError;

    fn byte(&self, position: u64) -> Result<Option<u8>, WireError> {
        Ok(usize::try_from(position).ok().and_then(|position| self.get(position)).copied())
    }
}

/// Counts messages over a whole file.
#[derive(Default)]
pub struct Budget {
    messages: Cell<u64>,
}

/// A message: an iterator over its fields.
pub struct Message<'a, S: ?Sized = [u8]> {
    source: &'a S,
    position: u64,
    end: u64,
    depth: usize,
    budget: &'a Budget,
}

/// One field of a message.
pub struct Field<'a, S: ?Sized = [u8]> {
    number: u64,
    value: Value,
    offset: u64,
    depth: usize,
    source: &'a S,
    budget: &'a Budget,
}

enum Value {
    Varint(u64),
    Fixed(Range<u64>),
    Bytes(Range<u64>),
}

impl<'a> Message<'a> {
    /// The outermost message of a file in memory.
    #[must_use]
    pub fn of_file(bytes: &'a [u8], budget: &'a Budget) -> Self {
        Self::new(bytes, 0..bytes.len() as u64, budget)
    }
}

// Derived, this would need a source that can be cloned.
impl<S: ?Sized> Clone for Message<'_, S> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<'a, S: Source + ?Sized> Message<'a, S> {
    /// The message that a source has in this range.
    pub fn new(source: &'a S, range: Range<u64>, budget: &'a Budget) -> Self {
        Self { source, position: range.start, end: range.end, depth: 0, budget }
    }

    /// Reads to the end, so that a malformed message is found even if its fields are not used.
    ///
    /// # Errors
    /// The message is malformed.
    pub fn check(mut self) -> Result<(), S::Error> {
        self.try_for_each(|field| field.map(drop))
    }

    fn varint(&mut self) -> Result<u64, S::Error> {
        let offset = self.position;
        let mut number = 0_u64;
        for index in 0..10 {
            let byte = if self.position < self.end { self.source.byte(self.position)? } else { None };
            let byte = byte.ok_or(WireError::Truncated { offset })?;
            self.position += 1;
            // Nine bytes hold 63 bits; the tenth holds the last one.
            if index == 9 && byte > 1 {
                return Err(WireError::LongNumber { offset }.into());
            }
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(WireError::LongNumber { offset }.into())
    }

    fn take(&mut self, n_bytes: u64) -> Result<Range<u64>, WireError> {
        let start = self.position;
        let end = start.checked_add(n_bytes).filter(|end| *end <= self.end);
        self.position = end.ok_or(WireError::Truncated { offset: start })?;
        Ok(start..self.position)
    }

    fn field(&mut self) -> Result<Field<'a, S>, S::Error> {
        let offset = self.position;
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed(self.take(8)?),
            2 => {
                let n_bytes = self.varint()?;
                Value::Bytes(self.take(n_bytes)?)
            }
            5 => Value::Fixed(self.take(4)?),
            // 3 and 4 are groups, which ONNX never had; 6 and 7 do not exist.
            _ => return Err(WireError::InvalidTag { offset }.into()),
        };
        let number = tag >> 3;
        if number == 0 || number > 0x1fff_ffff {
            return Err(WireError::InvalidTag { offset }.into());
        }
        Ok(Field { number, value, offset, depth: self.depth, source: self.source, budget: self.budget })
    }
}

impl<'a, S: Source + ?Sized> Iterator for Message<'a, S> {
    type Item = Result<Field<'a, S>, S::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.position == self.end {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.position = self.end;
        }
        Some(field)
    }
}

impl<'a, S: Source + ?Sized> Field<'a, S> {
    /// The number that the message's definition gives this field.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The position of the field in the file.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes that the field is of.
    #[must_use]
    pub fn source(&self) -> &'a S {
        self.source
    }

    /// An integer of any width; negative ones come sign-extended.
    ///
    /// # Errors
    /// The field has another kind of value.
    pub fn integer(&self) -> Result<i64, WireError> {
        match self.value {
            Value::Varint(number) => Ok(number.cast_signed()),
            _ => Err(self.wrong_kind("a number")),
        }
    }

    /// Calls `each` for every integer of the field, which holds one integer or a packed list.
    ///
    /// # Errors
    /// The field has another kind of value, or is malformed; the errors of `each`.
    pub fn integers<E: From<S::Error>>(&self, mut each: impl FnMut(i64) -> Result<(), E>) -> Result<(), E> {
        match &self.value {
            Value::Varint(number) => each(number.cast_signed()),
            Value::Bytes(range) => {
                let mut packed = Message::new(self.source, range.clone(), self.budget);
                while packed.position < packed.end {
                    each(packed.varint()?.cast_signed())?;
                }
                Ok(())
            }
            Value::Fixed(_) => Err(S::Error::from(self.wrong_kind("numbers")).into()),
        }
    }

    /// Where the source has the numbers of `size` bytes each that the field holds: one number or a packed list.
    ///
    /// # Errors
    /// The field has another kind of value, or the last number is not whole.
    pub fn fixed(&self, size: u64) -> Result<Range<u64>, WireError> {
        match &self.value {
            Value::Bytes(range) if (range.end - range.start).is_multiple_of(size) => Ok(range.clone()),
            Value::Fixed(range) if range.end - range.start == size => Ok(range.clone()),
            _ => Err(self.wrong_kind("numbers of a fixed size, the last one whole")),
        }
    }

    /// Where the source has the bytes of the field.
    ///
    /// # Errors
    /// The field has another kind of value.
    pub fn range(&self) -> Result<Range<u64>, WireError> {
        match &self.value {
            Value::Bytes(range) => Ok(range.clone()),
            _ => Err(self.wrong_kind("bytes")),
        }
    }

    /// The field's value as a message. Counts it, and checks its depth.
    ///
    /// # Errors
    /// The field has another kind of value; there are too many messages, or they are too deep in each other.
    pub fn message(&self) -> Result<Message<'a, S>, WireError> {
        let Value::Bytes(range) = &self.value else {
            return Err(self.wrong_kind("a message"));
        };
        let depth = self.depth + 1;
        if depth > MAX_DEPTH {
            return Err(WireError::TooDeep { offset: self.offset });
        }
        let messages = self.budget.messages.get() + 1;
        if messages > MAX_MESSAGES {
            return Err(WireError::TooMany);
        }
        self.budget.messages.set(messages);
        Ok(Message { depth, ..Message::new(self.source, range.clone(), self.budget) })
    }

    /// The error of text that is not UTF-8.
    #[must_use]
    pub fn invalid_text(&self) -> WireError {
        WireError::InvalidText { number: self.number, offset: self.offset }
    }

    fn wrong_kind(&self, expected: &'static str) -> WireError {
        WireError::WrongKind { number: self.number, offset: self.offset, expected }
    }
}

impl<'a> Field<'a> {
    /// The field's value as bytes.
    ///
    /// # Errors
    /// The field has another kind of value.
    pub fn bytes(&self) -> Result<&'a [u8], WireError> {
        let range = self.range()?;
        let slice = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let bytes = slice.and_then(|(start, end)| self.source.get(start..end));
        bytes.ok_or(WireError::Truncated { offset: range.start })
    }

    /// The field's value as text.
    ///
    /// # Errors
    /// The field has another kind of value, or it is not UTF-8.
    pub fn text(&self) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| self.invalid_text())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;

    fn numbers(bytes: &[u8]) -> Result<Vec<u64>, WireError> {
        Message::of_file(bytes, &Budget::default()).map(|field| field.map(|field| field.number())).collect()
    }

    #[test]
    fn fields() {
        let check = |bytes: &[u8], expected: Result<&[u64], WireError>| {
            assert_eq!(numbers(bytes), expected.map(<[u64]>::to_vec), "{bytes:?}");
        };
        check(&[], Ok(&[]));
        check(&[0x08, 0x07], Ok(&[1]));
        check(&[0x0a, 0x02, 1, 2, 0x15, 1, 2, 3, 4, 0x19, 1, 2, 3, 4, 5, 6, 7, 8], Ok(&[1, 2, 3]));
        check(&[0x08], Err(WireError::Truncated { offset: 1 }));
        check(&[0x08, 0x80], Err(WireError::Truncated { offset: 1 }));
        check(&[0x0a, 0x03, 1, 2], Err(WireError::Truncated { offset: 2 }));
        check(&[0x15, 1, 2, 3], Err(WireError::Truncated { offset: 1 }));
        check(&[0x0b], Err(WireError::InvalidTag { offset: 0 }));
        check(&[0x00, 0x00], Err(WireError::InvalidTag { offset: 0 }));
        let longest = [&[0x08][..], &[0xff; 9], &[0x01]].concat();
        check(&longest, Ok(&[1]));
        let too_long = [&[0x08][..], &[0xff; 9], &[0x02]].concat();
        check(&too_long, Err(WireError::LongNumber { offset: 1 }));
        // A length of 2^64 - 1 must not wrap around.
        let huge = [&[0x0a][..], &[0xff; 9], &[0x01, 7]].concat();
        check(&huge, Err(WireError::Truncated { offset: 11 }));
    }

    #[test]
    fn depth_is_capped() {
        let mut bytes = Vec::new();
        for _ in 0..30 {
            let mut outer = vec![0x0a, u8::try_from(bytes.len()).unwrap()];
            outer.append(&mut bytes);
            bytes = outer;
        }
        let budget = Budget::default();
        fn descend(message: Message<'_>, depth: usize) -> Result<usize, WireError> {
            let mut deepest = depth;
            for field in message {
                deepest = deepest.max(descend(field?.message()?, depth + 1)?);
            }
            Ok(deepest)
        }
        assert_eq!(descend(Message::of_file(&bytes, &budget), 0), Ok(30));
        let mut message = Message::of_file(&bytes, &budget);
        message.depth = MAX_DEPTH - 29;
        assert!(matches!(descend(message, 0), Err(WireError::TooDeep { .. })));
    }

    #[test]
    fn messages_are_counted() {
        let budget = Budget::default();
        budget.messages.set(MAX_MESSAGES);
        let field = Message::of_file(&[0x0a, 0x00], &budget).next().unwrap().unwrap();
        assert_eq!(field.message().err(), Some(WireError::TooMany));
    }

    #[test]
    fn packed_numbers() {
        let read = |bytes: &[u8]| {
            let mut numbers = Vec::new();
            for field in Message::of_file(bytes, &Budget::default()) {
                field?.integers(|number| {
                    numbers.push(number);
                    Ok::<_, WireError>(())
                })?;
            }
            Ok::<_, WireError>(numbers)
        };
        let minus_one = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(read(&[0x08, 5, 0x0a, 3, 1, 0x80, 0x01]), Ok(vec![5, 1, 128]));
        assert_eq!(read(&[&[0x0a, 10][..], &minus_one].concat()), Ok(vec![-1]));
        assert_eq!(read(&[0x0a, 2, 1, 0x80]), Err(WireError::Truncated { offset: 3 }));
    }
}
