//! The schema of a Parquet file, looked at before `parquet` reads it, which walks it by recursion and takes memory for as many children
//! as a group claims: a hostile one would end the process. Pure.
//!
//! The metadata is a Thrift struct in the compact protocol. Of all of it only the numbers of children are read.

use super::InputError;
use super::ipc_message::invalid;

/// The groups in groups in a schema; also how deep what is skipped may be.
const MAX_DEPTH: usize = 64;
/// `FileMetaData.version`, and `FileMetaData.schema`.
const VERSION_FIELD: i64 = 1;
const SCHEMA_FIELD: i64 = 2;
/// `SchemaElement.num_children`.
const CHILDREN_FIELD: i64 = 5;

/// What a field is. `parquet` takes a known field for what it should be, whatever type stands before it, and would read on elsewhere
/// than we do; so each must have the right one.
#[derive(Clone, Copy)]
enum Layout {
    Number,
    Byte,
    Bool,
    Binary,
    Struct(&'static [(i64, Layout)]),
}

const EMPTY: Layout = Layout::Struct(&[]);
const TIME: Layout = Layout::Struct(&[(1, Layout::Bool), (2, Layout::Struct(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)]))]);

/// `SchemaElement`, whose field 10 is the union `LogicalType`.
const NODE: &[(i64, Layout)] = &[
    (1, Layout::Number),
    (2, Layout::Number),
    (3, Layout::Number),
    (4, Layout::Binary),
    (CHILDREN_FIELD, Layout::Number),
    (6, Layout::Number),
    (7, Layout::Number),
    (8, Layout::Number),
    (9, Layout::Number),
    (10, Layout::Struct(LOGICAL_TYPE)),
];
const LOGICAL_TYPE: &[(i64, Layout)] = &[
    (1, EMPTY),
    (2, EMPTY),
    (3, EMPTY),
    (4, EMPTY),
    (5, Layout::Struct(&[(1, Layout::Number), (2, Layout::Number)])),
    (6, EMPTY),
    (7, TIME),
    (8, TIME),
    (10, Layout::Struct(&[(1, Layout::Byte), (2, Layout::Bool)])),
    (11, EMPTY),
    (12, EMPTY),
    (13, EMPTY),
    (14, EMPTY),
    (15, EMPTY),
    (16, Layout::Struct(&[(1, Layout::Byte)])),
    (17, Layout::Struct(&[(1, Layout::Binary)])),
    (18, Layout::Struct(&[(1, Layout::Binary), (2, Layout::Number)])),
    (19, EMPTY),
];

/// Whether the schema in the metadata of a file is a tree of bounded depth that has as many nodes as it claims. What comes after it
/// does not matter: a second one is not read.
pub(super) fn check(metadata: &[u8]) -> Result<(), InputError> {
    let mut thrift = Compact { rest: metadata };
    let mut id = 0;
    while let Some((kind, field)) = thrift.field(id)? {
        id = field;
        match (field, kind) {
            (VERSION_FIELD, NUMBER) => drop(thrift.varint()?),
            (SCHEMA_FIELD, LIST) => return check_tree(&thrift.children()?),
            _ => return Err(invalid(format!("metadata with field {field} of type {kind} before its schema"))),
        }
    }
    Err(invalid("metadata without a schema"))
}

/// Whether nodes in the order of a walk, with so many children each, are one tree.
fn check_tree(children: &[i64]) -> Result<(), InputError> {
    // How many children are still to come, of the groups that the next node is in.
    let mut open: Vec<i64> = Vec::new();
    for (position, &n_children) in children.iter().enumerate() {
        let n_left = (children.len() - position - 1) as i64;
        if !(0..=n_left).contains(&n_children) {
            return Err(invalid(format!("a schema in which a group of {n_children} has room for {n_left}")));
        }
        if let Some(to_come) = open.last_mut() {
            *to_come -= 1;
        } else if position > 0 {
            return Err(invalid("a schema of more than one tree"));
        }
        open.push(n_children);
        if open.len() > MAX_DEPTH {
            return Err(invalid(format!("a schema of more than {MAX_DEPTH} groups in each other")));
        }
        while open.pop_if(|to_come| *to_come == 0).is_some() {}
    }
    if open.is_empty() { Ok(()) } else { Err(invalid("a schema that ends inside a group")) }
}

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const NUMBER: u8 = 5;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// Thrift's compact protocol.
struct Compact<'b> {
    rest: &'b [u8],
}

impl Compact<'_> {
    fn byte(&mut self) -> Result<u8, InputError> {
        let (first, rest) = self.rest.split_first().ok_or_else(ends)?;
        self.rest = rest;
        Ok(*first)
    }

    fn varint(&mut self) -> Result<u64, InputError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(invalid("metadata with a number of more than 64 bits"))
    }

    fn signed(&mut self) -> Result<i64, InputError> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// The type and id of the next field of a struct, whose last field was `previous`; `None` at its end.
    fn field(&mut self, previous: i64) -> Result<Option<(u8, i64)>, InputError> {
        let header = self.byte()?;
        let (kind, id) = match (header & 0xf, header >> 4) {
            (0, _) => return Ok(None),
            (kind, 0) => (kind, self.signed()?),
            (kind, delta) => (kind, previous.saturating_add(delta.into())),
        };
        if !(1..=i64::from(i16::MAX)).contains(&id) {
            return Err(invalid(format!("metadata with a field {id}")));
        }
        Ok(Some((kind, id)))
    }

    /// The type and number of the elements of a list, of which each takes a byte at least.
    fn list(&mut self) -> Result<(u8, u64), InputError> {
        let header = self.byte()?;
        let n_elements = match header >> 4 {
            15 => self.varint()?,
            n_elements => n_elements.into(),
        };
        if n_elements > self.rest.len() as u64 {
            return Err(ends());
        }
        Ok((header & 0xf, n_elements))
    }

    /// The numbers of children of all nodes of a schema.
    fn children(&mut self) -> Result<Vec<i64>, InputError> {
        let (kind, n_elements) = self.list()?;
        if kind != STRUCT {
            return Err(invalid("metadata whose schema is no list of nodes"));
        }
        let mut children = Vec::new();
        for _ in 0..n_elements {
            let mut n_children = 0;
            self.walk(NODE, 0, &mut |field, value| {
                if field == CHILDREN_FIELD {
                    n_children = value;
                }
            })?;
            children.push(n_children);
        }
        Ok(children)
    }

    /// A struct of known fields, and the numbers among them. Others are skipped.
    fn walk(
        &mut self,
        layout: &[(i64, Layout)],
        depth: usize,
        number: &mut dyn FnMut(i64, i64),
    ) -> Result<(), InputError> {
        let mut id = 0;
        while let Some((kind, field)) = self.field(id)? {
            id = field;
            let known = layout.iter().find(|(known, _)| *known == field).map(|(_, layout)| *layout);
            match (known, kind) {
                (Some(Layout::Number), NUMBER) => number(field, self.signed()?),
                (Some(Layout::Byte), BYTE) | (Some(Layout::Bool), TRUE | FALSE) | (Some(Layout::Binary), BINARY) => {
                    self.skip(kind, depth + 1)?;
                }
                (Some(Layout::Struct(fields)), STRUCT) => self.walk(fields, depth + 1, &mut |_, _| {})?,
                (None, _) if !layout.is_empty() => self.skip(kind, depth + 1)?,
                _ => return Err(invalid(format!("a schema with a field {field} of type {kind}"))),
            }
        }
        Ok(())
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Result<(), InputError> {
        if depth > MAX_DEPTH {
            return Err(invalid(format!("metadata of more than {MAX_DEPTH} structs in each other")));
        }
        match kind {
            // The values of fields that are true or false are their types.
            TRUE | FALSE => {}
            BYTE => drop(self.byte()?),
            4..=6 => drop(self.varint()?),
            DOUBLE => self.rest = self.rest.get(8..).ok_or_else(ends)?,
            BINARY => {
                let length = usize::try_from(self.varint()?).map_err(|_| ends())?;
                self.rest = self.rest.get(length..).ok_or_else(ends)?;
            }
            LIST | SET => {
                let (kind, n_elements) = self.list()?;
                for _ in 0..n_elements {
                    self.skip_element(kind, depth + 1)?;
                }
            }
            MAP => {
                let n_entries = self.varint()?;
                if n_entries > self.rest.len() as u64 {
                    return Err(ends());
                }
                let kinds = if n_entries > 0 { self.byte()? } else { 0 };
                for _ in 0..n_entries {
                    self.skip_element(kinds >> 4, depth + 1)?;
                    self.skip_element(kinds & 0xf, depth + 1)?;
                }
            }
            STRUCT => {
                let mut id = 0;
                while let Some((kind, field)) = self.field(id)? {
                    id = field;
                    self.skip(kind, depth + 1)?;
                }
            }
            _ => return Err(invalid(format!("metadata with a value of type {kind}"))),
        }
        Ok(())
    }

    fn skip_element(&mut self, kind: u8, depth: usize) -> Result<(), InputError> {
        match kind {
            // In lists they take a byte.
            TRUE | FALSE => self.byte().map(drop),
            kind => self.skip(kind, depth),
        }
    }
}

fn ends() -> InputError {
    invalid("metadata that ends inside a value")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_schema_is_one_tree() {
        let check = |children: &[i64], is_tree: bool| assert_eq!(check_tree(children).is_ok(), is_tree, "{children:?}");
        check(&[], true);
        check(&[0], true);
        check(&[2, 0, 1, 0], true);
        check(&[2, 0], false);
        check(&[1, 0, 0], false);
        check(&[-1], false);
        check(&[1 << 31, 0], false);
        let chain = |n: usize| [vec![1; n], vec![0]].concat();
        check(&chain(63), true);
        check(&chain(64), false);
        check(&chain(1_000_000), false);
    }

    #[test]
    fn metadata_ends_where_it_should() {
        // A version, and a schema of two nodes: `num_children` of the first is 1, the second is a decimal and has an unknown field.
        let leaf = [0x18, 1, b'a', 0x6c, 0x5c, 0x15, 2, 0x15, 2, 0, 0, 0x1b, 1, 0x33, 1, 2, 0];
        let metadata = [[0x15, 2, 0x19, 0x2c, 0x55, 2, 0].as_slice(), &[0x48], &leaf[1..]].concat();
        check(&metadata).unwrap();
        for end in 0..metadata.len() {
            assert!(check(&metadata[..end]).is_err(), "{end}");
        }
        let deep = vec![0x1c; 1_000_000];
        assert!(check(&deep).is_err());
    }
}
