//! Reads the wire format of protocol buffers, in place and from untrusted bytes.
//!
//! ONNX Runtime has its own reader, which allocates what a file asks for and recurses as deep as it says. This reader
//! runs before it. It copies nothing, and counts messages and nesting, so that a hostile file is refused before ONNX Runtime
//! gets a single byte of it.

use std::cell::Cell;

/// The greatest nesting of messages. A graph inside an operator inside a graph adds three levels.
const MAX_DEPTH: usize = 64;

/// The greatest number of messages in one file. Each costs ONNX Runtime some 200 bytes, and the file as few as two.
const MAX_MESSAGES: u64 = 4_000_000;

/// Why bytes are not a well-formed message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    /// A field begins or claims to end past the end of the message it is in.
    #[error("the message ends in the middle of a field at byte {offset}: the file is truncated, or not an ONNX model")]
    Truncated { offset: usize },
    /// A number of more than ten bytes or 64 bits.
    #[error("a number at byte {offset} is longer than 64 bits")]
    LongNumber { offset: usize },
    /// A field number or kind of value that no message has.
    #[error("byte {offset} is not the start of a field")]
    InvalidTag { offset: usize },
    /// A field has another kind of value than its definition requires.
    #[error("field {number} at byte {offset} should hold {expected}")]
    WrongKind { number: u64, offset: usize, expected: &'static str },
    /// Text that is not UTF-8.
    #[error("field {number} at byte {offset} is not valid UTF-8")]
    InvalidText { number: u64, offset: usize },
    /// More nesting than any model needs.
    #[error("messages are nested more than {MAX_DEPTH} deep at byte {offset}")]
    TooDeep { offset: usize },
    /// More messages than any model needs.
    #[error("more than {MAX_MESSAGES} messages in one file")]
    TooMany,
}

/// Counts messages over a whole file.
#[derive(Default)]
pub(crate) struct Budget {
    messages: Cell<u64>,
}

/// A message: an iterator over its fields.
pub(crate) struct Message<'a> {
    bytes: &'a [u8],
    position: usize,
    /// The offset of the message in the file, for error texts.
    start: usize,
    depth: usize,
    budget: &'a Budget,
}

/// One field of a message.
pub(crate) struct Field<'a> {
    number: u64,
    value: Value<'a>,
    offset: usize,
    depth: usize,
    budget: &'a Budget,
}

enum Value<'a> {
    Varint(u64),
    Fixed,
    Bytes { bytes: &'a [u8], start: usize },
}

impl<'a> Message<'a> {
    /// The outermost message of a file.
    pub(crate) fn of_file(bytes: &'a [u8], budget: &'a Budget) -> Self {
        Self { bytes, position: 0, start: 0, depth: 0, budget }
    }

    /// Reads to the end, so that a malformed message is found even if its fields are not used.
    pub(crate) fn check(mut self) -> Result<(), WireError> {
        self.try_for_each(|field| field.map(drop))
    }

    fn varint(&mut self) -> Result<u64, WireError> {
        let offset = self.start + self.position;
        let mut number = 0_u64;
        for index in 0..10 {
            let byte = *self.bytes.get(self.position).ok_or(WireError::Truncated { offset })?;
            self.position += 1;
            // Nine bytes hold 63 bits; the tenth holds the last one.
            if index == 9 && byte > 1 {
                return Err(WireError::LongNumber { offset });
            }
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(WireError::LongNumber { offset })
    }

    fn take(&mut self, n_bytes: u64) -> Result<&'a [u8], WireError> {
        let offset = self.start + self.position;
        let taken = usize::try_from(n_bytes)
            .ok()
            .and_then(|n_bytes| self.position.checked_add(n_bytes))
            .and_then(|end| self.bytes.get(self.position..end))
            .ok_or(WireError::Truncated { offset })?;
        self.position += taken.len();
        Ok(taken)
    }

    fn field(&mut self) -> Result<Field<'a>, WireError> {
        let offset = self.start + self.position;
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => {
                self.take(8)?;
                Value::Fixed
            }
            2 => {
                let n_bytes = self.varint()?;
                let start = self.start + self.position;
                Value::Bytes { bytes: self.take(n_bytes)?, start }
            }
            5 => {
                self.take(4)?;
                Value::Fixed
            }
            // 3 and 4 are groups, which ONNX never had; 6 and 7 do not exist.
            _ => return Err(WireError::InvalidTag { offset }),
        };
        let number = tag >> 3;
        if number == 0 || number > 0x1fff_ffff {
            return Err(WireError::InvalidTag { offset });
        }
        Ok(Field { number, value, offset, depth: self.depth, budget: self.budget })
    }
}

impl<'a> Iterator for Message<'a> {
    type Item = Result<Field<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.position == self.bytes.len() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.position = self.bytes.len();
        }
        Some(field)
    }
}

impl<'a> Field<'a> {
    /// The number that the message's definition gives this field.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// An integer of any width; negative ones come sign-extended.
    pub(crate) fn integer(&self) -> Result<i64, WireError> {
        match self.value {
            Value::Varint(number) => Ok(number.cast_signed()),
            _ => Err(self.wrong_kind("a number")),
        }
    }

    /// Calls `each` for every integer of the field, which holds one integer or a packed list.
    pub(crate) fn integers(&self, mut each: impl FnMut(i64)) -> Result<(), WireError> {
        match self.value {
            Value::Varint(number) => each(number.cast_signed()),
            Value::Bytes { bytes, start } => {
                let mut packed = Message { bytes, position: 0, start, depth: self.depth, budget: self.budget };
                while packed.position < bytes.len() {
                    each(packed.varint()?.cast_signed());
                }
            }
            Value::Fixed => return Err(self.wrong_kind("numbers")),
        }
        Ok(())
    }

    /// Checks a field of numbers of `size` bytes each, which holds one number or a packed list.
    pub(crate) fn check_fixed(&self, size: usize) -> Result<(), WireError> {
        match self.value {
            Value::Bytes { bytes, .. } if bytes.len().is_multiple_of(size) => Ok(()),
            Value::Fixed => Ok(()),
            _ => Err(self.wrong_kind("numbers of a fixed size, the last one whole")),
        }
    }

    /// The field's value as bytes.
    pub(crate) fn bytes(&self) -> Result<&'a [u8], WireError> {
        match self.value {
            Value::Bytes { bytes, .. } => Ok(bytes),
            _ => Err(self.wrong_kind("bytes")),
        }
    }

    /// The field's value as text.
    pub(crate) fn text(&self) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.bytes()?)
            .map_err(|_| WireError::InvalidText { number: self.number, offset: self.offset })
    }

    /// The field's value as a message. Counts it, and checks its depth.
    pub(crate) fn message(&self) -> Result<Message<'a>, WireError> {
        let Value::Bytes { bytes, start } = self.value else {
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
        Ok(Message { bytes, position: 0, start, depth, budget: self.budget })
    }

    fn wrong_kind(&self, expected: &'static str) -> WireError {
        WireError::WrongKind { number: self.number, offset: self.offset, expected }
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
                field?.integers(|number| numbers.push(number))?;
            }
            Ok::<_, WireError>(numbers)
        };
        let minus_one = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(read(&[0x08, 5, 0x0a, 3, 1, 0x80, 0x01]), Ok(vec![5, 1, 128]));
        assert_eq!(read(&[&[0x0a, 10][..], &minus_one].concat()), Ok(vec![-1]));
        assert_eq!(read(&[0x0a, 2, 1, 0x80]), Err(WireError::Truncated { offset: 3 }));
    }
}
