//! Reads CBOR as manifests have it (spec/ztensor.md §2.1), based on `minicbor`. Claimed lengths never determine an allocation, nesting
//! is limited, and errors name the position in the file.

use std::borrow::Cow;

use minicbor::Decoder;
use minicbor::data::Type;

use super::ZTensorError;
use super::name::Name;
use super::place::FilePart;
use super::span::Span;

/// The deepest nesting of values.
pub(super) const MAX_DEPTH: usize = 64;

/// The nesting depth of values in the fields of an object of a manifest.
pub(super) const OBJECT_DEPTH: usize = 4;

/// The number of the tag that marks the following bytes as CBOR.
const SELF_DESCRIBED: u64 = 55_799;

/// Walks over the items of a manifest.
pub(super) struct Walker<'b> {
    decoder: Decoder<'b>,
    /// The position of the first byte in the file.
    base: u64,
    /// The keys of all open maps, with those of the innermost map last.
    keys: Vec<Span>,
}

/// The remaining items of a map or an array; `None` inside if the length is indefinite.
#[derive(Clone, Copy)]
pub(super) struct Items(Option<u64>);

impl<'b> Walker<'b> {
    pub(super) fn new(bytes: &'b [u8], base: u64) -> Self {
        Self { decoder: Decoder::new(bytes), base, keys: Vec::new() }
    }

    /// Returns the position of the next item, relative to the first byte.
    pub(super) fn position(&self) -> usize {
        self.decoder.position()
    }

    /// Returns the bytes from `start` up to the next item.
    pub(super) fn since(&self, start: usize) -> &'b [u8] {
        self.decoder.input().get(start..self.position()).unwrap_or_default()
    }

    /// Returns the span from `start` up to the next item. A manifest has at most 1 GiB, so 32 bits are enough.
    pub(super) fn span_since(&self, start: usize) -> Span {
        Span { start: start as u32, end: self.position() as u32 }
    }

    /// Returns the position of the next item in the file.
    pub(super) fn place(&self) -> u64 {
        self.place_of(self.position())
    }

    fn place_of(&self, position: usize) -> u64 {
        self.base.saturating_add(position as u64)
    }

    /// Skips the self-described tag, which marks the following item as CBOR (RFC 7049, section 2.4.5), if it comes next.
    pub(super) fn take_self_described(&mut self) {
        let start = self.position();
        if self.head(6) != Some(SELF_DESCRIBED) {
            self.decoder.set_position(start);
        }
    }

    /// Starts a map.
    pub(super) fn map(&mut self) -> Result<Items, ZTensorError> {
        let start = self.position();
        if let Some(claimed) = self.head(5) {
            return self.items(start, Some(claimed), 2);
        }
        match self.decoder.map() {
            Ok(items) => self.items(start, items, 2),
            Err(error) => Err(self.wrong(start, "a map", &error)),
        }
    }

    /// Starts an array.
    pub(super) fn array(&mut self) -> Result<Items, ZTensorError> {
        let start = self.position();
        if let Some(claimed) = self.head(4) {
            return self.items(start, Some(claimed), 1);
        }
        match self.decoder.array() {
            Ok(items) => self.items(start, items, 1),
            Err(error) => Err(self.wrong(start, "an array", &error)),
        }
    }

    /// Refuses a claimed number of items that does not fit into the remaining bytes. Each item takes at least `size` bytes.
    fn items(&self, start: usize, claimed: Option<u64>, size: u64) -> Result<Items, ZTensorError> {
        let available = self.available();
        match claimed {
            Some(claimed) if claimed > available / size => {
                Err(ZTensorError::ClaimedLength { position: self.place_of(start), claimed, available })
            }
            _ => Ok(Items(claimed)),
        }
    }

    fn available(&self) -> u64 {
        self.decoder.input().len().saturating_sub(self.position()) as u64
    }

    /// Returns whether another item of a map or an array follows, and counts it.
    pub(super) fn more(&mut self, items: &mut Items) -> Result<bool, ZTensorError> {
        match &mut items.0 {
            Some(0) => Ok(false),
            Some(left) => {
                *left -= 1;
                Ok(true)
            }
            None if self.peek()? == Type::Break => {
                self.decoder.set_position(self.position() + 1);
                Ok(false)
            }
            None => Ok(true),
        }
    }

    /// Returns the type of the next item.
    pub(super) fn peek(&self) -> Result<Type, ZTensorError> {
        let start = self.position();
        self.decoder.datatype().map_err(|error| self.wrong(start, "a value", &error))
    }

    /// Skips a null if it comes next. Returns whether it did.
    pub(super) fn take_null(&mut self) -> bool {
        let is_null = self.decoder.input().get(self.position()) == Some(&0xf6);
        if is_null {
            self.decoder.set_position(self.position() + 1);
        }
        is_null
    }

    /// Reads an unsigned integer.
    pub(super) fn unsigned(&mut self) -> Result<u64, ZTensorError> {
        let start = self.position();
        if let Some(number) = self.head(0) {
            return Ok(number);
        }
        self.decoder.u64().map_err(|error| self.wrong(start, "an unsigned integer", &error))
    }

    /// Reads a text string, in one piece or in several.
    pub(super) fn text(&mut self) -> Result<Cow<'b, str>, ZTensorError> {
        let start = self.position();
        if let Some(text) = self.whole_text() {
            return Ok(Cow::Borrowed(text));
        }
        self.decoder.set_position(start);
        match self.decoder.str() {
            Ok(text) => Ok(Cow::Borrowed(text)),
            Err(_) if self.decoder.input().get(start) == Some(&0x7f) => {
                self.decoder.set_position(start);
                let mut text = String::new();
                let pieces = self.decoder.str_iter().map_err(|error| (error, start));
                let read = pieces.and_then(|pieces| {
                    for piece in pieces {
                        text.push_str(piece.map_err(|error| (error, start))?);
                    }
                    Ok(())
                });
                read.map_err(|(error, start)| self.wrong(start, "text", &error))?;
                Ok(Cow::Owned(text))
            }
            Err(error) => Err(self.wrong(start, "text", &error)),
        }
    }

    /// Reads a text in one piece. If this fails, the position is undefined.
    fn whole_text(&mut self) -> Option<&'b str> {
        let length = usize::try_from(self.head(3)?).ok()?;
        let start = self.position();
        let end = start.checked_add(length)?;
        let text = std::str::from_utf8(self.decoder.input().get(start..end)?).ok()?;
        self.decoder.set_position(end);
        Some(text)
    }

    /// Reads the number in the head of an item of this major type. Returns `None`, without moving, if the item has another type or no
    /// definite length, or is invalid; `minicbor` must then handle it. Manifests have millions of heads, and a call of `minicbor` costs
    /// more than the few instructions that most of them need.
    #[inline]
    fn head(&mut self, major: u8) -> Option<u64> {
        let start = self.position();
        let rest = self.decoder.input().get(start..)?;
        let (&first, rest) = rest.split_first()?;
        if first >> 5 != major {
            return None;
        }
        let (number, n_bytes) = match first & 31 {
            small @ ..24 => (u64::from(small), 1),
            24 => (u64::from(*rest.first()?), 2),
            25 => (u64::from(u16::from_be_bytes(*rest.first_chunk()?)), 3),
            26 => (u64::from(u32::from_be_bytes(*rest.first_chunk()?)), 5),
            27 => (u64::from_be_bytes(*rest.first_chunk()?), 9),
            _ => return None,
        };
        self.decoder.set_position(start + n_bytes);
        Some(number)
    }

    /// Returns the decoder, for values that only occur in attributes.
    pub(super) fn decoder(&mut self) -> &mut Decoder<'b> {
        &mut self.decoder
    }

    /// Skips a value of any type. If `at` is given, refuses maps with equal keys, and names `at` in the error.
    pub(super) fn skip(&mut self, depth: usize, at: Option<&FilePart>) -> Result<(), ZTensorError> {
        let start = self.position();
        if depth > MAX_DEPTH {
            return Err(ZTensorError::Depth { position: self.place(), limit: MAX_DEPTH });
        }
        match self.peek()? {
            Type::Map | Type::MapIndef => self.skip_map(depth, at, false),
            Type::Array | Type::ArrayIndef => {
                let mut items = self.array()?;
                while self.more(&mut items)? {
                    self.skip(depth + 1, at)?;
                }
                Ok(())
            }
            Type::Tag => {
                self.decoder.tag().map_err(|error| self.wrong(start, "a tag", &error))?;
                self.skip(depth + 1, at)
            }
            Type::String | Type::StringIndef => self.text().map(drop),
            Type::Break => Err(self.malformed(start, "a break where no item is left open")),
            Type::Unknown(byte) => Err(self.malformed(start, &format!("{byte:#04x} starts no value"))),
            // Two bytes for a value that takes one byte or does not exist.
            Type::Simple if matches!(self.decoder.input().get(start..start + 2), Some([0xf8, ..32])) => {
                Err(self.malformed(start, "a simple value below 32 in two bytes"))
            }
            // Numbers, byte strings, and the simple values.
            _ => self.decoder.skip().map_err(|error| self.wrong(start, "a value", &error)),
        }
    }

    /// Skips a map of attributes. Its keys must be text; its values may be of any type.
    pub(super) fn skip_attributes(&mut self, depth: usize, at: &FilePart) -> Result<(), ZTensorError> {
        self.skip_map(depth, Some(at), true)
    }

    fn skip_map(&mut self, depth: usize, at: Option<&FilePart>, of_text: bool) -> Result<(), ZTensorError> {
        let mut items = self.map()?;
        let first = self.keys.len();
        while self.more(&mut items)? {
            let start = self.position();
            if of_text {
                self.text()?;
            } else {
                self.skip(depth + 1, at)?;
            }
            if at.is_some() {
                self.keys.push(self.span_since(start));
            }
            self.skip(depth + 1, at)?;
        }
        let mut keys = self.keys.split_off(first);
        at.map_or(Ok(()), |at| self.check_keys(&mut keys, at))
    }

    /// Refuses two equal keys. Only compares their bytes; keys that are equal but encoded differently are found when they are decoded.
    pub(super) fn check_keys(&self, keys: &mut [Span], at: &FilePart) -> Result<(), ZTensorError> {
        let input = self.decoder.input();
        let bytes = |key: &Span| input.get(key.range()).unwrap_or_default();
        keys.sort_by(|one, other| bytes(one).cmp(bytes(other)));
        match keys.windows(2).find(|pair| bytes(&pair[0]) == bytes(&pair[1])) {
            None => Ok(()),
            Some(pair) => {
                let key = bytes(&pair[0]);
                let key =
                    Decoder::new(key).str().map_or_else(|_| Name::new(&key.escape_ascii().to_string()), Name::new);
                Err(ZTensorError::DuplicateKey { at: Box::new(at.clone()), key })
            }
        }
    }

    fn malformed(&self, position: usize, problem: &str) -> ZTensorError {
        ZTensorError::Cbor { position: self.place_of(position), problem: problem.to_owned() }
    }

    /// Returns the error for an item at `start` that `minicbor` could not read.
    pub(super) fn wrong(&self, start: usize, expected: &'static str, error: &minicbor::decode::Error) -> ZTensorError {
        let position = self.place_of(start);
        let rest = self.decoder.input().get(start..).unwrap_or_default();
        if error.is_type_mismatch()
            && let Ok(found) = Decoder::new(rest).datatype()
            && !matches!(found, Type::Unknown(_) | Type::Break)
        {
            return ZTensorError::WrongType { position, expected, found: found.to_string() };
        }
        if error.is_end_of_input()
            && let Some(claimed) = claimed_length(rest)
        {
            return ZTensorError::ClaimedLength { position, claimed, available: rest.len() as u64 };
        }
        let problem = if error.is_end_of_input() {
            format!("it ends where {expected} should be")
        } else {
            format!("expected {expected}: {error}")
        };
        ZTensorError::Cbor { position, problem }
    }
}

/// Returns the length that the head of a string claims, if there is such a head. The caller knows that the input ended.
fn claimed_length(rest: &[u8]) -> Option<u64> {
    let first = *rest.first()?;
    if !matches!(first >> 5, 2 | 3) || first & 31 == 31 {
        return None;
    }
    // Apart from the major type, the head of a string has the form of a number.
    let mut head: [u8; 9] = [0; 9];
    let n_bytes = rest.len().min(9);
    head[..n_bytes].copy_from_slice(&rest[..n_bytes]);
    head[0] = first & 31;
    Decoder::new(head.get(..n_bytes)?).u64().ok()
}
