//! CBOR as manifests have it (spec/ztensor.md §2.1), over `minicbor`: nothing is allocated from a claimed length, nesting is
//! limited, and errors say where in the file they are.

use std::borrow::Cow;

use minicbor::Decoder;
use minicbor::data::Type;

use super::ZTensorError;
use super::manifest::Span;
use super::name::Name;
use super::place::Place;

/// How deep values may be nested.
pub(super) const MAX_DEPTH: usize = 64;

/// The number of the tag in front of what is CBOR and says so.
const SELF_DESCRIBED: u64 = 55_799;

/// Walks over a manifest.
pub(super) struct Walker<'b> {
    decoder: Decoder<'b>,
    /// Where in the file the first byte is.
    base: u64,
    /// The keys of the maps that are being walked over, innermost last.
    keys: Vec<Span>,
}

/// What is left of a map or an array.
#[derive(Clone, Copy)]
pub(super) struct Items(Option<u64>);

impl<'b> Walker<'b> {
    pub(super) fn new(bytes: &'b [u8], base: u64) -> Self {
        Self { decoder: Decoder::new(bytes), base, keys: Vec::new() }
    }

    /// Where the next item is, counted from the first byte.
    pub(super) fn position(&self) -> usize {
        self.decoder.position()
    }

    /// The bytes from `start` up to the next item.
    pub(super) fn since(&self, start: usize) -> &'b [u8] {
        self.decoder.input().get(start..self.position()).unwrap_or_default()
    }

    /// The same as a range. A manifest has at most 1 GiB.
    pub(super) fn span_since(&self, start: usize) -> Span {
        Span { start: start as u32, end: self.position() as u32 }
    }

    /// Where the next item is in the file.
    pub(super) fn place(&self) -> u64 {
        self.place_of(self.position())
    }

    fn place_of(&self, position: usize) -> u64 {
        self.base.saturating_add(position as u64)
    }

    /// Skips the tag that says of what follows that it is CBOR (RFC 7049, section 2.4.5), if that is what comes next.
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

    /// Refuses more items than bytes: each takes at least `size` of them.
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

    /// Whether another item of a map or an array follows.
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

    /// What comes next.
    pub(super) fn peek(&self) -> Result<Type, ZTensorError> {
        let start = self.position();
        self.decoder.datatype().map_err(|error| self.wrong(start, "a value", &error))
    }

    /// Skips a null, if that is what comes next.
    pub(super) fn take_null(&mut self) -> bool {
        let is_null = self.decoder.input().get(self.position()) == Some(&0xf6);
        if is_null {
            self.decoder.set_position(self.position() + 1);
        }
        is_null
    }

    /// An unsigned integer.
    pub(super) fn unsigned(&mut self) -> Result<u64, ZTensorError> {
        let start = self.position();
        if let Some(number) = self.head(0) {
            return Ok(number);
        }
        self.decoder.u64().map_err(|error| self.wrong(start, "an unsigned integer", &error))
    }

    /// A text string, in one piece or several.
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

    /// A text in one piece. Where there is none, the position is anywhere.
    fn whole_text(&mut self) -> Option<&'b str> {
        let length = usize::try_from(self.head(3)?).ok()?;
        let start = self.position();
        let end = start.checked_add(length)?;
        let text = std::str::from_utf8(self.decoder.input().get(start..end)?).ok()?;
        self.decoder.set_position(end);
        Some(text)
    }

    /// The number in the head of an item of this major type; `None`, at the same position, for any that `minicbor` has to
    /// look at: of another type, without a length, or wrong. Manifests have millions of heads, and its calls cost more than
    /// the few instructions that most of them take.
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

    /// The decoder, for values that only attributes have.
    pub(super) fn decoder(&mut self) -> &mut Decoder<'b> {
        &mut self.decoder
    }

    /// Walks over a value of any kind. With `at`, keys that a map has twice are refused, and said to be there.
    pub(super) fn skip(&mut self, depth: usize, at: Option<&Place>) -> Result<(), ZTensorError> {
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
            // Two bytes for what one byte says, or nothing does.
            Type::Simple if matches!(self.decoder.input().get(start..start + 2), Some([0xf8, ..32])) => {
                Err(self.malformed(start, "a simple value below 32 in two bytes"))
            }
            // Numbers, bytes, and the values that are one or two bytes by themselves.
            _ => self.decoder.skip().map_err(|error| self.wrong(start, "a value", &error)),
        }
    }

    /// Walks over a map of attributes: its keys are text, its values may be anything.
    pub(super) fn skip_attributes(&mut self, depth: usize, at: &Place) -> Result<(), ZTensorError> {
        self.skip_map(depth, Some(at), true)
    }

    fn skip_map(&mut self, depth: usize, at: Option<&Place>, of_text: bool) -> Result<(), ZTensorError> {
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

    /// Refuses two equal keys. Only their bytes are compared: one that is written in two ways is found when it is decoded.
    pub(super) fn check_keys(&self, keys: &mut [Span], at: &Place) -> Result<(), ZTensorError> {
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

    /// What `minicbor` could not read at `start`.
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

/// The length that the head of a string claims, where the string is longer than what is there.
fn claimed_length(rest: &[u8]) -> Option<u64> {
    let first = *rest.first()?;
    if !matches!(first >> 5, 2 | 3) || first & 31 == 31 {
        return None;
    }
    // The head of a string is that of a number, but for the type.
    let mut head: [u8; 9] = [0; 9];
    let n_bytes = rest.len().min(9);
    head[..n_bytes].copy_from_slice(&rest[..n_bytes]);
    head[0] = first & 31;
    Decoder::new(head.get(..n_bytes)?).u64().ok()
}
