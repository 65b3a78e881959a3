//! A parser of Thrift's compact protocol that finds where a struct ends. Pure.
//!
//! The crate `parquet` trusts its input. It does not compare the type of a known field with the type in the file, and it skips a list
//! element by element, even where the elements take no bytes: a list of two billion such elements fits into six bytes. This module
//! therefore checks two things before `parquet` reads: known fields have their types, and the elements of lists are really there.

/// The largest accepted nesting depth of structs.
const MAX_DEPTH: usize = 64;

pub(super) const TRUE: u8 = 1;
pub(super) const FALSE: u8 = 2;
pub(super) const BYTE: u8 = 3;
pub(super) const I16: u8 = 4;
pub(super) const I64: u8 = 6;
pub(super) const DOUBLE: u8 = 7;
pub(super) const BINARY: u8 = 8;
pub(super) const LIST: u8 = 9;
pub(super) const SET: u8 = 10;
pub(super) const MAP: u8 = 11;
pub(super) const STRUCT: u8 = 12;

/// The type of a field.
#[derive(Clone, Copy)]
pub(super) enum Layout {
    /// An integer of 16, 32 or 64 bits.
    Number,
    Byte,
    Bool,
    Double,
    Binary,
    List(&'static Layout),
    Struct(Fields),
}

/// The known fields of a struct, by id. If there are none, the struct must be empty.
pub(super) type Fields = &'static [(i64, Layout)];

/// Why bytes are not a valid struct.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ThriftError {
    /// The bytes end inside the struct.
    Ends,
    /// What is wrong, worded to follow the struct's name and `with`.
    Invalid(String),
}

/// A cursor over bytes in the compact protocol.
pub(super) struct Compact<'b> {
    pub(super) rest: &'b [u8],
}

impl Compact<'_> {
    /// Walks over a struct with these known fields, and calls `number` with id and value of each number among them. Skips other fields.
    pub(super) fn walk(
        &mut self,
        fields: Fields,
        depth: usize,
        number: &mut dyn FnMut(i64, i64),
    ) -> Result<(), ThriftError> {
        let mut id = 0;
        while let Some((kind, field)) = self.field(id)? {
            id = field;
            self.value(fields, field, kind, depth, number)?;
        }
        Ok(())
    }

    /// Walks over the value of one field of such a struct.
    pub(super) fn value(
        &mut self,
        fields: Fields,
        field: i64,
        kind: u8,
        depth: usize,
        number: &mut dyn FnMut(i64, i64),
    ) -> Result<(), ThriftError> {
        let known = fields.iter().find(|(known, _)| *known == field).map(|(_, layout)| *layout);
        match (known, kind) {
            (Some(Layout::Number), I16..=I64) => number(field, self.signed()?),
            (Some(layout), _) => self.known(layout, field, kind, depth + 1)?,
            (None, _) if !fields.is_empty() => self.skip(kind, depth + 1)?,
            (None, _) => return Err(wrong_type(field, kind)),
        }
        Ok(())
    }

    /// Walks over the value of a known field, or over an element of a list in one.
    fn known(&mut self, layout: Layout, field: i64, kind: u8, depth: usize) -> Result<(), ThriftError> {
        match (layout, kind) {
            (Layout::Struct(fields), STRUCT) if depth <= MAX_DEPTH => self.walk(fields, depth, &mut |_, _| {}),
            (Layout::List(element), LIST) => {
                let (kind, n_elements) = self.list()?;
                (0..n_elements).try_for_each(|_| self.known(*element, field, kind, depth + 1))
            }
            (Layout::Number, I16..=I64)
            | (Layout::Byte, BYTE)
            | (Layout::Bool, TRUE | FALSE)
            | (Layout::Double, DOUBLE)
            | (Layout::Binary, BINARY) => self.skip(kind, depth),
            _ => Err(wrong_type(field, kind)),
        }
    }

    /// Skips a value of any type.
    pub(super) fn skip(&mut self, kind: u8, depth: usize) -> Result<(), ThriftError> {
        if depth > MAX_DEPTH {
            return Err(ThriftError::Invalid(format!("more than {MAX_DEPTH} structs in each other")));
        }
        match kind {
            // The type of a boolean field is its value.
            TRUE | FALSE => {}
            BYTE => drop(self.byte()?),
            I16..=I64 => drop(self.varint()?),
            DOUBLE => self.bytes(8)?,
            BINARY => {
                let length = self.varint()?;
                self.bytes(length)?;
            }
            LIST | SET => {
                let (kind, n_elements) = self.list()?;
                for _ in 0..n_elements {
                    self.skip(element(kind)?, depth + 1)?;
                }
            }
            MAP => {
                let n_entries = self.varint()?;
                if n_entries > self.rest.len() as u64 {
                    return Err(ThriftError::Ends);
                }
                let kinds = if n_entries > 0 { self.byte()? } else { 0 };
                for _ in 0..n_entries {
                    self.skip(element(kinds >> 4)?, depth + 1)?;
                    self.skip(element(kinds & 0xf)?, depth + 1)?;
                }
            }
            STRUCT => {
                let mut id = 0;
                while let Some((kind, field)) = self.field(id)? {
                    id = field;
                    self.skip(kind, depth + 1)?;
                }
            }
            _ => return Err(ThriftError::Invalid(format!("a value of type {kind}"))),
        }
        Ok(())
    }

    /// Reads the type and id of the next field of a struct, whose last field was `previous`; `None` at the end of the struct.
    pub(super) fn field(&mut self, previous: i64) -> Result<Option<(u8, i64)>, ThriftError> {
        let header = self.byte()?;
        let (kind, id) = match (header & 0xf, header >> 4) {
            (0, _) => return Ok(None),
            (kind, 0) => (kind, self.signed()?),
            (kind, delta) => (kind, previous.saturating_add(delta.into())),
        };
        if !(1..=i64::from(i16::MAX)).contains(&id) {
            return Err(ThriftError::Invalid(format!("a field {id}")));
        }
        Ok(Some((kind, id)))
    }

    /// Reads the type and number of the elements of a list. Each element takes at least one byte.
    pub(super) fn list(&mut self) -> Result<(u8, u64), ThriftError> {
        let header = self.byte()?;
        let n_elements = match header >> 4 {
            15 => self.varint()?,
            n_elements => n_elements.into(),
        };
        if n_elements > self.rest.len() as u64 {
            return Err(ThriftError::Ends);
        }
        Ok((header & 0xf, n_elements))
    }

    fn signed(&mut self) -> Result<i64, ThriftError> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn varint(&mut self) -> Result<u64, ThriftError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ThriftError::Invalid("a number of more than 64 bits".to_owned()))
    }

    fn byte(&mut self) -> Result<u8, ThriftError> {
        let (first, rest) = self.rest.split_first().ok_or(ThriftError::Ends)?;
        self.rest = rest;
        Ok(*first)
    }

    fn bytes(&mut self, n_bytes: u64) -> Result<(), ThriftError> {
        let n_bytes = usize::try_from(n_bytes).map_err(|_| ThriftError::Ends)?;
        self.rest = self.rest.get(n_bytes..).ok_or(ThriftError::Ends)?;
        Ok(())
    }
}

/// Returns the type of the elements of a list. Refuses booleans, which take a byte each by the specification, but none in `parquet`; no
/// list in Parquet's metadata has any.
fn element(kind: u8) -> Result<u8, ThriftError> {
    match kind {
        TRUE | FALSE => Err(ThriftError::Invalid("a list of booleans".to_owned())),
        kind => Ok(kind),
    }
}

/// The error for a field, or the elements of the list in it, with a type that the field does not have.
pub(super) fn wrong_type(field: i64, kind: u8) -> ThriftError {
    ThriftError::Invalid(format!("a field {field} of type {kind}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const FIELDS: Fields = &[
        (1, Layout::Number),
        (2, Layout::List(&Layout::Binary)),
        (3, Layout::Struct(&[(1, Layout::Double), (2, Layout::Bool)])),
    ];

    /// Returns how many bytes are left after the struct, or the error.
    fn walk(bytes: &[u8]) -> Result<usize, ThriftError> {
        let mut compact = Compact { rest: bytes };
        compact.walk(FIELDS, 0, &mut |_, _| {}).map(|()| compact.rest.len())
    }

    #[track_caller]
    fn refused(bytes: &[u8], expected: &str) {
        assert_eq!(walk(bytes), Err(ThriftError::Invalid(expected.to_owned())));
    }

    #[test]
    fn a_struct_ends_where_it_should() {
        // Each known field, an unknown one, and a byte after the end.
        let whole =
            [0x15, 2, 0x19, 0x28, 1, b'a', 0, 0x1c, 0x17, 1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0, 0x1b, 1, 0x58, 4, 0, 0, 9];
        assert_eq!(walk(&whole), Ok(1));
        for end in 0..whole.len() - 1 {
            assert_eq!(walk(&whole[..end]), Err(ThriftError::Ends), "{end}");
        }
        // An empty list may have no type.
        assert_eq!(walk(&[0x29, 0, 0]), Ok(0));
    }

    #[test]
    fn fields_of_another_type_are_refused() {
        refused(&[0x18, 0, 0], "a field 1 of type 8");
        refused(&[0x29, 0x15, 0, 0], "a field 2 of type 5");
        refused(&[0x3c, 0x15, 0, 0, 0], "a field 1 of type 5");
        refused(&[0x4e, 0], "a value of type 14");
    }

    #[test]
    fn lists_have_no_more_elements_than_bytes() {
        let most = [0xff, 0xff, 0xff, 0xff, 7];
        for kind in [BYTE, I64, DOUBLE, BINARY, LIST, MAP, STRUCT] {
            let list = [&[0x59, 0xf0 | kind], &most[..], &[0; 100]].concat();
            assert_eq!(walk(&list), Err(ThriftError::Ends), "{kind}");
            let map = [&[0x5b], &most[..], &[kind << 4 | kind], &[0; 100]].concat();
            assert_eq!(walk(&map), Err(ThriftError::Ends), "{kind}");
        }
        // Some readers expect no byte for each of these elements.
        for kind in [TRUE, FALSE] {
            refused(&[0x59, 0x10 | kind, 1, 0], "a list of booleans");
            refused(&[0x5b, 1, 0x30 | kind, 1, 0], "a list of booleans");
        }
        refused(&[0x5c; 1000], "more than 64 structs in each other");
    }
}
