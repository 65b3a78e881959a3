//! Decodes the opcodes of pickles: those that `torch.save` writes, of protocols 2 to 5 (spec/torch.md §2). Pure: bytes in, opcodes out.

use super::error::{Problem, malformed, quoted, refused};

/// The longest name of a module, class or function.
const MAX_NAME: usize = 1024;

/// An opcode with its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode<'p> {
    Protocol(u8),
    Stop,
    Mark,
    None,
    Bool(bool),
    Int(i64),
    /// An integer of more than 64 bits.
    LongInt,
    Float,
    Text(&'p str),
    Bytes,
    EmptyTuple,
    EmptyList,
    EmptyDict,
    EmptySet,
    /// A tuple of what is above the mark.
    Tuple,
    /// A tuple of as many values.
    TupleOf(usize),
    FrozenSet,
    Append,
    Appends,
    SetItem,
    SetItems,
    AddItems,
    Global(&'p str, &'p str),
    StackGlobal,
    Reduce,
    NewObject,
    Build,
    PersistentId,
    Get(u32),
    Put(u32),
    Memoize,
}

/// Reads opcodes from the bytes of one pickle.
pub(super) struct Opcodes<'p> {
    bytes: &'p [u8],
    position: usize,
    /// Where the present frame ends.
    frame_end: Option<usize>,
}

impl<'p> Opcodes<'p> {
    /// Reads from `position` on.
    pub(super) fn new(bytes: &'p [u8], position: usize) -> Self {
        Self { bytes, position, frame_end: None }
    }

    /// Where the next opcode is.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// Reads the next opcode. Frames (protocol 4) are checked: none is in another, and each ends where an opcode ends.
    pub(super) fn next(&mut self) -> Result<Opcode<'p>, Problem> {
        loop {
            if self.frame_end == Some(self.position) {
                self.frame_end = None;
            }
            let start = self.position;
            let [code] = self.array()?;
            let opcode = if code == 0x95 {
                let length = u64::from_le_bytes(self.array()?);
                let length = self.length(length)?;
                if self.frame_end.is_some() {
                    return malformed(format!("a frame of the pickle begins inside of another, at byte {start}"));
                }
                let end = self.position + length;
                if self.bytes.len() < end {
                    return Err(Problem::Truncated);
                }
                self.frame_end = Some(end);
                None
            } else {
                Some(self.decode(code, start)?)
            };
            if self.frame_end.is_some_and(|end| end < self.position) {
                return malformed(format!("the opcode at byte {start} of the pickle goes on behind its frame"));
            }
            match opcode {
                Some(Opcode::Stop) if self.frame_end.is_some_and(|end| end != self.position) => {
                    return malformed(format!("the pickle stops inside of a frame, at byte {start}"));
                }
                Some(opcode) => return Ok(opcode),
                None => {}
            }
        }
    }

    fn decode(&mut self, code: u8, start: usize) -> Result<Opcode<'p>, Problem> {
        Ok(match code {
            0x80 => Opcode::Protocol(self.byte()?),
            b'.' => Opcode::Stop,
            b'(' => Opcode::Mark,
            b'N' => Opcode::None,
            0x88 => Opcode::Bool(true),
            0x89 => Opcode::Bool(false),
            b'J' => Opcode::Int(i64::from(i32::from_le_bytes(self.array()?))),
            b'K' => Opcode::Int(i64::from(self.byte()?)),
            b'M' => Opcode::Int(i64::from(u16::from_le_bytes(self.array()?))),
            0x8a => {
                let length = usize::from(self.byte()?);
                long(self.take(length)?)
            }
            0x8b => {
                let length = i32::from_le_bytes(self.array()?);
                let Ok(length) = u64::try_from(length) else {
                    return malformed(format!("an integer of {length} bytes at byte {start} of the pickle"));
                };
                let length = self.length(length)?;
                long(self.take(length)?)
            }
            b'G' => {
                self.take(8)?;
                Opcode::Float
            }
            b'U' | 0x8c => {
                let length = u64::from(self.byte()?);
                self.text(length, start)?
            }
            b'X' => {
                let length = u64::from(u32::from_le_bytes(self.array()?));
                self.text(length, start)?
            }
            0x8d => {
                let length = u64::from_le_bytes(self.array()?);
                self.text(length, start)?
            }
            b'C' => {
                let length = u64::from(self.byte()?);
                self.skip(length)?
            }
            b'B' => {
                let length = u64::from(u32::from_le_bytes(self.array()?));
                self.skip(length)?
            }
            0x8e | 0x96 => {
                let length = u64::from_le_bytes(self.array()?);
                self.skip(length)?
            }
            b')' => Opcode::EmptyTuple,
            b']' => Opcode::EmptyList,
            b'}' => Opcode::EmptyDict,
            0x8f => Opcode::EmptySet,
            b't' => Opcode::Tuple,
            0x85 => Opcode::TupleOf(1),
            0x86 => Opcode::TupleOf(2),
            0x87 => Opcode::TupleOf(3),
            0x91 => Opcode::FrozenSet,
            b'a' => Opcode::Append,
            b'e' => Opcode::Appends,
            b's' => Opcode::SetItem,
            b'u' => Opcode::SetItems,
            0x90 => Opcode::AddItems,
            b'c' => Opcode::Global(self.line(start)?, self.line(start)?),
            0x93 => Opcode::StackGlobal,
            b'R' => Opcode::Reduce,
            0x81 => Opcode::NewObject,
            b'b' => Opcode::Build,
            b'Q' => Opcode::PersistentId,
            b'h' => Opcode::Get(u32::from(self.byte()?)),
            b'j' => Opcode::Get(u32::from_le_bytes(self.array()?)),
            b'q' => Opcode::Put(u32::from(self.byte()?)),
            b'r' => Opcode::Put(u32::from_le_bytes(self.array()?)),
            0x94 => Opcode::Memoize,
            _ => {
                let what = match code {
                    0x82..=0x84 => "a class by its number (extension registry)".to_owned(),
                    _ => format!("opcode {:#04x} (`{}`)", code, code.escape_ascii()),
                };
                return refused(format!(
                    "{what} at byte {start} of its pickle, which `torch.save` does not write for tensors"
                ));
            }
        })
    }

    fn byte(&mut self) -> Result<u8, Problem> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| Problem::Truncated)
    }

    fn take(&mut self, n_bytes: usize) -> Result<&'p [u8], Problem> {
        let end = self.position.checked_add(n_bytes).ok_or(Problem::Truncated)?;
        let bytes = self.bytes.get(self.position..end).ok_or(Problem::Truncated)?;
        self.position = end;
        Ok(bytes)
    }

    /// Checks a length against what is left, so that it can be added to positions.
    fn length(&self, length: u64) -> Result<usize, Problem> {
        let left = self.bytes.len().saturating_sub(self.position);
        usize::try_from(length).ok().filter(|length| *length <= left).ok_or(Problem::Truncated)
    }

    fn text(&mut self, length: u64, start: usize) -> Result<Opcode<'p>, Problem> {
        let length = self.length(length)?;
        match std::str::from_utf8(self.take(length)?) {
            Ok(text) => Ok(Opcode::Text(text)),
            Err(_) => malformed(format!("a text at byte {start} of the pickle is not UTF-8")),
        }
    }

    fn skip(&mut self, length: u64) -> Result<Opcode<'p>, Problem> {
        let length = self.length(length)?;
        self.take(length)?;
        Ok(Opcode::Bytes)
    }

    /// Reads a name, which a line feed ends.
    fn line(&mut self, start: usize) -> Result<&'p str, Problem> {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        let rest = rest.get(..MAX_NAME + 1).unwrap_or(rest);
        let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
            if rest.len() <= MAX_NAME {
                return Err(Problem::Truncated);
            }
            return malformed(format!("a name of more than {MAX_NAME} bytes at byte {start} of the pickle"));
        };
        let line = self.take(length)?;
        self.take(1)?;
        match std::str::from_utf8(line) {
            Ok(name) => Ok(name),
            Err(_) => malformed(format!(
                "{} at byte {start} of the pickle is no name",
                quoted(&line.escape_ascii().to_string())
            )),
        }
    }
}

/// An integer as little-endian bytes of two's complement.
fn long<'p>(bytes: &[u8]) -> Opcode<'p> {
    if bytes.len() > 8 {
        return Opcode::LongInt;
    }
    let fill = if bytes.last().is_some_and(|byte| byte >> 7 == 1) { 0xff } else { 0 };
    let mut all = [fill; 8];
    for (to, from) in all.iter_mut().zip(bytes) {
        *to = *from;
    }
    Opcode::Int(i64::from_le_bytes(all))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn operands() {
        let check = |bytes: &[u8], expected: Opcode<'_>| {
            let mut opcodes = Opcodes::new(bytes, 0);
            assert_eq!(opcodes.next().unwrap(), expected, "{}", bytes.escape_ascii());
            assert_eq!(opcodes.position(), bytes.len(), "{}", bytes.escape_ascii());
        };
        // As pickletools describes them.
        check(b"J\xff\xff\xff\xff", Opcode::Int(-1));
        check(b"\x8a\x00", Opcode::Int(0));
        check(b"\x8a\x02\xff\x00", Opcode::Int(255));
        check(b"\x8a\x02\xff\x7f", Opcode::Int(32767));
        check(b"\x8a\x02\x00\xff", Opcode::Int(-256));
        check(b"\x8a\x01\x80", Opcode::Int(-128));
        check(b"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80", Opcode::Int(i64::MIN));
        check(b"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00", Opcode::LongInt);
        check(b"\x8b\x01\x00\x00\x00\x05", Opcode::Int(5));
        check(b"X\x02\x00\x00\x00\xc3\xa9", Opcode::Text("é"));
        check(b"\x95\x02\x00\x00\x00\x00\x00\x00\x00K\x07", Opcode::Int(7));
        check(b"cos\nsystem\n", Opcode::Global("os", "system"));
        check(b"r\x00\x00\x00\x80", Opcode::Put(1 << 31));
    }

    #[test]
    fn what_is_no_opcode_or_not_whole() {
        let check = |bytes: &[u8], expected: &str| {
            let mut opcodes = Opcodes::new(bytes, 0);
            let error = std::iter::repeat_with(|| opcodes.next()).find_map(Result::err).unwrap();
            let error = error.at("f").to_string();
            assert!(error.contains(expected), "{}: {error}", bytes.escape_ascii());
        };
        check(b"", "truncated");
        check(b"X\xff\xff\xff\xff", "truncated");
        check(b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff", "truncated");
        check(b"\x8b\xff\xff\xff\x7f\x00", "truncated");
        check(b"\x8b\xff\xff\xff\xff", "an integer of -1 bytes at byte 0");
        check(b"N\x82\x01", "extension registry) at byte 1");
        check(b"iposix\nsystem\n", "opcode 0x69 (`i`) at byte 0");
        check(b"X\x01\x00\x00\x00\xff", "not UTF-8");
        check(b"cos", "truncated");
        check(&[b'c'; 2000], "a name of more than 1024 bytes at byte 0");
        check(b"\x95\x03\x00\x00\x00\x00\x00\x00\x00N.N", "stops inside of a frame");
        check(b"\x95\x01\x00\x00\x00\x00\x00\x00\x00K\x01", "goes on behind its frame");
        check(b"\x95\x0a\x00\x00\x00\x00\x00\x00\x00\x95\x00\x00\x00\x00\x00\x00\x00\x00N", "inside of another");
    }
}
