//! Checks the metadata at the end of a Parquet file before `parquet` reads it. `parquet` walks the schema by recursion and allocates
//! memory for as many children as a group claims, and it can take years to skip lists whose elements take no bytes
//! ([`thrift`](super::thrift)). Pure.

use super::InputError;
use super::ipc_message::invalid;
use super::parquet_layout::{CHILDREN_FIELD, FILE_METADATA, NODE, SCHEMA_FIELD};
use super::thrift::{Compact, LIST, STRUCT, ThriftError, wrong_type};

/// The largest accepted nesting depth of groups in a schema.
const MAX_DEPTH: usize = 64;

/// Checks that the metadata of a file is well-formed, and that its schema is a tree of bounded depth with as many nodes as it claims.
pub(super) fn check(metadata: &[u8]) -> Result<(), InputError> {
    let thrift = &mut Compact { rest: metadata };
    let mut children = None;
    read(thrift, &mut children).map_err(|error| match error {
        ThriftError::Ends => invalid("metadata that ends inside a value"),
        ThriftError::Invalid(problem) => invalid(format!("metadata with {problem}")),
    })?;
    check_tree(&children.ok_or_else(|| invalid("metadata without a schema"))?)
}

/// Walks all metadata, and collects the number of children of each node of the schema. Skips a second schema.
fn read(thrift: &mut Compact<'_>, children: &mut Option<Vec<i64>>) -> Result<(), ThriftError> {
    let mut id = 0;
    while let Some((kind, field)) = thrift.field(id)? {
        id = field;
        match (field, kind) {
            (SCHEMA_FIELD, LIST) if children.is_none() => *children = Some(read_children(thrift)?),
            (SCHEMA_FIELD, _) if children.is_none() => return Err(wrong_type(field, kind)),
            (SCHEMA_FIELD, _) => thrift.skip(kind, 0)?,
            _ => thrift.value(FILE_METADATA, field, kind, 0, &mut |_, _| {})?,
        }
    }
    Ok(())
}

/// Reads the number of children of each node of a schema.
fn read_children(thrift: &mut Compact<'_>) -> Result<Vec<i64>, ThriftError> {
    let (kind, n_elements) = thrift.list()?;
    if kind != STRUCT {
        return Err(wrong_type(SCHEMA_FIELD, kind));
    }
    let mut children = Vec::new();
    for _ in 0..n_elements {
        let mut n_children = 0;
        thrift.walk(NODE, 0, &mut |field, value| {
            if field == CHILDREN_FIELD {
                n_children = value;
            }
        })?;
        children.push(n_children);
    }
    Ok(children)
}

/// Checks that nodes in depth-first order, with these numbers of children, form one tree.
fn check_tree(children: &[i64]) -> Result<(), InputError> {
    // The number of children still to come, for each of the groups that contain the next node.
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
        // A version, and a schema of two nodes: `num_children` of the first is 1, the second is a decimal and has an unknown field. Then a
        // row group of one column.
        let leaf = [0x18, 1, b'a', 0x6c, 0x5c, 0x15, 2, 0x15, 2, 0, 0, 0x1b, 1, 0x33, 1, 2, 0];
        let schema = [[0x15, 2, 0x19, 0x2c, 0x55, 2, 0].as_slice(), &[0x48], &leaf[1..]].concat();
        let row_group = [0x19, 0x1c, 0x26, 8, 0x1c, 0x15, 2, 0x19, 0x15, 0, 0, 0, 0x16, 2, 0];
        let metadata = [schema.as_slice(), &[0x16, 2, 0x19, 0x1c], &row_group, &[0]].concat();
        check(&metadata).unwrap();
        for end in 0..metadata.len() {
            assert!(check(&metadata[..end]).is_err(), "{end}");
        }
        let refused = |metadata: &[u8], expected: &str| {
            assert_eq!(check(metadata).unwrap_err().to_string(), expected);
        };
        refused(&[0], "metadata without a schema");
        refused(&[0x28, 0, 0], "metadata with a field 2 of type 8");
        refused(&[0x15, 2, 0x1c], "metadata with a field 2 of type 12");
        refused(&vec![0x9c; 1_000_000], "metadata with more than 64 structs in each other");
        // Two billion booleans in a few bytes, after the schema and in a row group.
        let booleans = [0x09, 40, 0xf1, 0xff, 0xff, 0xff, 0xff, 7];
        let endless = [schema.as_slice(), &booleans, &[0; 1000]].concat();
        refused(&endless, "metadata that ends inside a value");
        let short = [schema.as_slice(), &[0x09, 40, 0x11, 1, 0]].concat();
        refused(&short, "metadata with a list of booleans");
    }
}
