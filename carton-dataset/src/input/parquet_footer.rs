//! The schema of a Parquet file, looked at before `parquet` reads it, which walks it by recursion and takes memory for as many children
//! as a group claims: a hostile one would end the process. Pure.
//!
//! The metadata is a Thrift struct in the compact protocol. Of all of it only the numbers of children are read.

use super::InputError;
use super::ipc_message::invalid;

/// The groups in groups in a schema; also how deep what is skipped may be.
const MAX_DEPTH: usize = 64;
/// `FileMetaData.schema`.
const SCHEMA_FIELD: i64 = 2;
/// `SchemaElement.num_children`.
const CHILDREN_FIELD: i64 = 5;

/// Whether the schema in the metadata of a file is a tree of bounded depth that has as many nodes as it claims.
pub(super) fn check(metadata: &[u8]) -> Result<(), InputError> {
    let mut thrift = Compact { rest: metadata };
    let mut children = None;
    let mut id = 0;
    while let Some((kind, field)) = thrift.field(id)? {
        id = field;
        if field != SCHEMA_FIELD || kind != LIST {
            thrift.skip(kind, 0)?;
        } else if children.replace(thrift.children()?).is_some() {
            return Err(invalid("metadata with two schemas"));
        }
    }
    check_tree(&children.unwrap_or_default())
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

const BYTE: u8 = 3;
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
        match (header & 0xf, header >> 4) {
            (0, _) => Ok(None),
            (kind, 0) => Ok(Some((kind, self.signed()?))),
            (kind, delta) => Ok(Some((kind, previous.saturating_add(delta.into())))),
        }
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
            let (mut n_children, mut id) = (0, 0);
            while let Some((kind, field)) = self.field(id)? {
                id = field;
                match field {
                    CHILDREN_FIELD => n_children = self.signed()?,
                    _ => self.skip(kind, 1)?,
                }
            }
            children.push(n_children);
        }
        Ok(children)
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Result<(), InputError> {
        if depth > MAX_DEPTH {
            return Err(invalid(format!("metadata of more than {MAX_DEPTH} structs in each other")));
        }
        match kind {
            // The values of fields that are true or false are their types.
            1 | 2 => {}
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
            1 | 2 => self.byte().map(drop),
            kind => self.skip(kind, depth),
        }
    }
}

fn ends() -> InputError {
    invalid("metadata that ends inside a value")
}

#[cfg(test)]
mod tests {
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
        // A schema of two nodes, `num_children` of the first 1, and a field of each kind that is skipped.
        let metadata =
            [0x29, 0x2c, 0x55, 2, 0, 0, 0x18, 1, b'a', 0x11, 0x1b, 1, 0x33, 1, 2, 0x17, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(check(&metadata).is_ok());
        for end in 0..metadata.len() {
            assert!(check(&metadata[..end]).is_err(), "{end}");
        }
        let deep = vec![0x1c; 1_000_000];
        assert!(check(&deep).is_err());
    }
}
