//! The header of an `.npy` file: its framing, the Python dictionary in it, and the dtypes that it may name.
//!
//! NumPy evaluates the dictionary as a Python literal. This parser accepts only what a header needs: the three keys `descr`,
//! `fortran_order` and `shape`, each exactly once and in any order, with a string, a boolean and a tuple of integers.

use std::io::Read;

use super::error::Problem;
use crate::content::Content;
use crate::fill::fill;
use crate::{DataType, MAX_RANK, element_count};

/// The longest header that is read. Version 1 cannot hold more, and no array that a carton can hold needs more.
const MAX_HEADER: usize = 65_535;
const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// NumPy pads headers so that the elements start at a multiple of this number of bytes.
const ALIGNMENT: usize = 64;
/// NumPy leaves room to rewrite the first dimension with this many digits.
const GROWTH_DIGITS: usize = 21;

/// The content of a header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) dtype: StoredType,
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<usize>,
}

/// The type of the elements and how they are stored.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StoredType {
    /// The dtype as the header spells it, for messages.
    pub(super) descr: String,
    pub(super) kind: DtypeKind,
    pub(super) big_endian: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DtypeKind {
    Number(DataType),
    /// `U`: this many code points of 4 bytes each, padded with zeros at the end.
    Unicode(usize),
    /// `S`: this many bytes, padded with zeros at the end.
    Bytes(usize),
}

impl DtypeKind {
    /// Returns the bytes of an element in the file; `None` if the number overflows.
    pub(super) fn size(self) -> Option<usize> {
        match self {
            Self::Number(dtype) => dtype.size(),
            Self::Unicode(length) => length.checked_mul(4),
            Self::Bytes(length) => Some(length),
        }
    }
}

impl Header {
    /// Returns the bytes of all elements in the file.
    pub(super) fn n_bytes(&self) -> Result<u64, Problem> {
        if self.shape.len() > MAX_RANK {
            let found = self.shape.len();
            return Err(Problem::Format(format!("expected at most {MAX_RANK} dimensions, found {found}")));
        }
        let count = element_count(&self.shape);
        if self.dtype.kind.size() == Some(0) && count != Some(0) {
            // NumPy never writes these. A few bytes of header could otherwise ask for any number of empty strings.
            return Err(Problem::Unsupported(format!(
                "dtype `{}` stores no bytes for the elements of shape {:?}",
                self.dtype.descr, self.shape
            )));
        }
        count
            .zip(self.dtype.kind.size())
            .and_then(|(count, size)| count.checked_mul(size))
            .filter(|&n_bytes| isize::try_from(n_bytes).is_ok())
            .and_then(|n_bytes| u64::try_from(n_bytes).ok())
            .ok_or_else(|| {
                Problem::Format(format!("shape {:?} of dtype `{}` is too large", self.shape, self.dtype.descr))
            })
    }
}

/// Reads the header. Also returns the number of bytes before the elements.
pub(super) fn read(reader: &mut impl Read) -> Result<(Header, u64), Problem> {
    let mut start = [0; 8];
    let found = fill(reader, &mut start)?;
    if found < start.len() || !start.starts_with(MAGIC) {
        let begin = start.get(..found.min(MAGIC.len())).unwrap_or_default();
        if begin.is_empty() {
            return Err(Problem::Format("it is empty".to_owned()));
        }
        let mut rest = vec![0; Content::START];
        let n_rest = fill(reader, &mut rest).unwrap_or_default();
        rest.truncate(n_rest);
        let content = Content::of_start(&[start.get(..found).unwrap_or_default(), &rest].concat());
        let what = match content {
            _ if MAGIC.starts_with(begin) => "it is truncated: ".to_owned(),
            // That it is text, its first bytes say.
            None | Some(Content::Text) => String::new(),
            Some(content) => format!("it is {content}: "),
        };
        let found = begin.escape_ascii();
        return Err(Problem::Format(format!("{what}expected it to start with `\\x93NUMPY`, found `{found}`")));
    }
    let mut length = [0; 4];
    let length_size = match (start[6], start[7]) {
        (1, 0) => 2,
        (2 | 3, 0) => 4,
        (major, minor) => {
            return Err(Problem::Unsupported(format!(
                "it has version {major}.{minor} of the format, expected 1.0, 2.0 or 3.0"
            )));
        }
    };
    if fill(reader, &mut length[..length_size])? < length_size {
        return Err(Problem::Format("it is truncated: it ends before the length of its header".to_owned()));
    }
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > MAX_HEADER {
        return Err(Problem::Unsupported(format!("its header has {length} bytes, at most {MAX_HEADER} are read")));
    }
    let mut text = vec![0; length];
    let found = fill(reader, &mut text)?;
    if found < length {
        return Err(Problem::Format(format!("it is truncated: its header should have {length} bytes, found {found}")));
    }
    let header = parse(&text)?;
    Ok((header, (start.len() + length_size + length) as u64))
}

/// Returns the bytes before the elements of an array in C order, as NumPy writes them.
pub(super) fn format(descr: &str, shape: &[usize]) -> Result<Vec<u8>, Problem> {
    let dimensions: Vec<String> = shape.iter().map(usize::to_string).collect();
    let (comma, growth) = match dimensions.as_slice() {
        [] => ("", 0),
        [only] => (",", GROWTH_DIGITS.saturating_sub(only.len())),
        [first, ..] => ("", GROWTH_DIGITS.saturating_sub(first.len())),
    };
    let text = format!(
        "{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}{comma}), }}{:growth$}",
        dimensions.join(", "),
        ""
    );
    let frame = |version: u8, length_size: usize| {
        let fixed = MAGIC.len() + 2 + length_size;
        let padding = ALIGNMENT - (fixed + text.len() + 1) % ALIGNMENT;
        let length = text.len() + padding + 1;
        let mut bytes = Vec::with_capacity(fixed + length);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&[version, 0]);
        bytes.extend_from_slice(&length.to_le_bytes()[..length_size]);
        bytes.extend_from_slice(text.as_bytes());
        bytes.resize(bytes.len() + padding, b' ');
        bytes.push(b'\n');
        (bytes, length)
    };
    let (bytes, length) = frame(1, 2);
    if length <= MAX_HEADER {
        return Ok(bytes);
    }
    // Version 2 could hold the header, but neither NumPy nor this reader accepts thousands of dimensions.
    Err(Problem::Unsupported(format!("{} dimensions do not fit in the header of an .npy file", shape.len())))
}

/// Parses the dictionary.
pub(super) fn parse(text: &[u8]) -> Result<Header, Problem> {
    let mut parser = Parser { text, position: 0 };
    let (mut dtype, mut fortran_order, mut shape) = (None, None, None);
    parser.expect(b'{')?;
    while !parser.take(b'}') {
        let key = parser.string()?;
        parser.expect(b':')?;
        let again = match key.as_slice() {
            b"descr" => dtype.replace(parser.dtype()?).is_some(),
            b"fortran_order" => fortran_order.replace(parser.boolean()?).is_some(),
            b"shape" => shape.replace(parser.shape()?).is_some(),
            _ => return Err(Problem::Format(format!("its header has an unknown key `{}`", key.escape_ascii()))),
        };
        if again {
            return Err(Problem::Format(format!("its header has the key `{}` twice", key.escape_ascii())));
        }
        if !parser.take(b',') {
            parser.expect(b'}')?;
            break;
        }
    }
    parser.skip_space();
    if parser.peek().is_some() {
        return Err(parser.unexpected("nothing after the dictionary"));
    }
    let missing = |key: &str| Problem::Format(format!("its header has no key `{key}`"));
    Ok(Header {
        dtype: dtype.ok_or_else(|| missing("descr"))?,
        fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
        shape: shape.ok_or_else(|| missing("shape"))?,
    })
}

struct Parser<'a> {
    text: &'a [u8],
    position: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.position).copied()
    }

    fn rest(&self) -> &[u8] {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')) {
            self.position += 1;
        }
    }

    /// Skips white space, and then `byte` if it comes next. Returns whether it did.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), Problem> {
        if self.take(byte) { Ok(()) } else { Err(self.unexpected(&format!("`{}`", char::from(byte)))) }
    }

    fn unexpected(&self, expected: &str) -> Problem {
        let rest = self.rest();
        let found = if rest.is_empty() {
            "its end".to_owned()
        } else {
            format!("`{}`", rest[..rest.len().min(20)].escape_ascii())
        };
        Problem::Format(format!("at byte {} of its header: expected {expected}, found {found}", self.position))
    }

    /// Parses a string in single or double quotes. Refuses escapes, because no known key or dtype has one.
    fn string(&mut self) -> Result<Vec<u8>, Problem> {
        self.skip_space();
        let quote = match self.peek() {
            Some(quote @ (b'\'' | b'"')) => quote,
            _ => return Err(self.unexpected("a string")),
        };
        let content = &self.rest()[1..];
        match content.iter().position(|&byte| byte == quote || byte == b'\\' || byte == b'\n') {
            Some(end) if content[end] == quote => {
                let string = content[..end].to_vec();
                self.position += end + 2;
                Ok(string)
            }
            _ => Err(self.unexpected("a string without escapes")),
        }
    }

    fn boolean(&mut self) -> Result<bool, Problem> {
        self.skip_space();
        for (word, value) in [(b"True".as_slice(), true), (b"False", false)] {
            let rest = self.rest();
            if rest.starts_with(word) && !rest.get(word.len()).is_some_and(u8::is_ascii_alphanumeric) {
                self.position += word.len();
                return Ok(value);
            }
        }
        Err(self.unexpected("`True` or `False`"))
    }

    /// Parses a tuple of integers: `()`, `(3,)`, `(2, 3)`, `(2, 3,)`.
    fn shape(&mut self) -> Result<Vec<usize>, Problem> {
        self.skip_space();
        let start = self.position;
        self.expect(b'(')?;
        let mut shape = Vec::new();
        let mut comma = true;
        while !self.take(b')') {
            if !comma {
                return Err(self.unexpected("`,` or `)`"));
            }
            shape.push(self.integer()?);
            comma = self.take(b',');
        }
        if shape.len() == 1 && !comma {
            self.position = start;
            return Err(self.unexpected("a tuple"));
        }
        Ok(shape)
    }

    fn integer(&mut self) -> Result<usize, Problem> {
        self.skip_space();
        let rest = self.rest();
        let digits = &rest[..rest.iter().take_while(|byte| byte.is_ascii_digit()).count()];
        let size = std::str::from_utf8(digits)
            .ok()
            .filter(|digits| !digits.is_empty() && (digits.len() == 1 || !digits.starts_with('0')))
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| self.unexpected("a dimension"))?;
        // Python 2 wrote long integers as `3L`.
        let suffix = rest.get(digits.len()) == Some(&b'L');
        self.position += digits.len() + usize::from(suffix);
        Ok(size)
    }

    fn dtype(&mut self) -> Result<StoredType, Problem> {
        self.skip_space();
        if matches!(self.peek(), Some(b'[' | b'(' | b'{')) {
            let rest = self.rest();
            let end = rest.iter().position(|&byte| byte == b']').map_or(rest.len(), |end| end + 1).min(60);
            return Err(Problem::Unsupported(format!(
                "structured dtype `{}` has several fields; save each field as an array of its own",
                String::from_utf8_lossy(&rest[..end])
            )));
        }
        let descr = self.string()?;
        StoredType::parse(&String::from_utf8_lossy(&descr))
    }
}

impl StoredType {
    /// Parses a dtype string: a byte order, a letter for the kind, and a size.
    fn parse(descr: &str) -> Result<Self, Problem> {
        let (order, name) = match descr.as_bytes().first() {
            Some(order @ (b'<' | b'>' | b'=' | b'|')) => (*order, &descr[1..]),
            _ => (b'=', descr),
        };
        let kind = match name {
            "f4" => DtypeKind::Number(DataType::Float32),
            "f8" => DtypeKind::Number(DataType::Float64),
            "i1" => DtypeKind::Number(DataType::Int8),
            "i2" => DtypeKind::Number(DataType::Int16),
            "i4" => DtypeKind::Number(DataType::Int32),
            "i8" => DtypeKind::Number(DataType::Int64),
            "u1" => DtypeKind::Number(DataType::Uint8),
            "u2" => DtypeKind::Number(DataType::Uint16),
            "u4" => DtypeKind::Number(DataType::Uint32),
            "u8" => DtypeKind::Number(DataType::Uint64),
            "b1" | "?" => DtypeKind::Number(DataType::Bool),
            "f2" => DtypeKind::Number(DataType::Float16),
            "c8" => DtypeKind::Number(DataType::Complex64),
            "c16" => DtypeKind::Number(DataType::Complex128),
            _ => match (name.get(..1), name.get(1..).and_then(string_length)) {
                (Some("U"), Some(length)) => DtypeKind::Unicode(length),
                (Some("S" | "a"), Some(length)) => DtypeKind::Bytes(length),
                _ => return Err(Self::not_ours(descr, name)),
            },
        };
        // `=` and `|` mean the byte order of the machine, which is little-endian here.
        Ok(Self { descr: descr.to_owned(), kind, big_endian: order == b'>' })
    }

    /// Returns the error for a dtype that NumPy has and cartons lack, or for an unknown one.
    fn not_ours(descr: &str, name: &str) -> Problem {
        let (what, advice) = match name {
            "f12" | "f16" => ("long double", "round it with `.astype(\"float64\")`"),
            "c24" | "c32" => ("complex", "save `.real` and `.imag` as arrays of their own"),
            "O" => ("Python objects", "cast it with `.astype(str)` if it holds strings, else to a numeric dtype"),
            _ if name.starts_with('O') => ("Python objects", "cast it to a numeric dtype or with `.astype(str)`"),
            _ if name.starts_with('T') => ("variable-width strings", "cast it with `.astype(\"U\")`"),
            _ if name.starts_with("M8") || name.starts_with("m8") => ("dates", "cast it with `.astype(\"int64\")`"),
            _ if name.starts_with('V') => {
                ("raw bytes or a type of another library", "cast it, to float32 for bfloat16")
            }
            _ => return Problem::Format(format!("unknown dtype `{}`", descr.escape_default())),
        };
        Problem::Unsupported(format!("dtype `{descr}` ({what}) is not one that a carton can hold; {advice}"))
    }
}

/// Parses the length in `U12`: digits without a sign.
fn string_length(digits: &str) -> Option<usize> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}
