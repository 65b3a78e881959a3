"""Parquet files by hand: one row group, a page for each column, PLAIN values, no compression (parquet-format 2.x: `README.md`, `parquet.thrift`,
`Encodings.md`, `LogicalTypes.md`)."""

import struct
from dataclasses import dataclass

MAGIC = b"PAR1"

# Types of Thrift's compact protocol.
I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
# The physical types and the converted types of parquet.thrift.
PHYSICAL = {"int32": 1, "int64": 2, "string": 6}
UTF8, LIST_OF = 0, 3
REQUIRED, OPTIONAL, REPEATED = 0, 1, 2
PLAIN, RLE = 0, 3


@dataclass
class Column:
    """A column of `int32`, `int64` or `string`, or of lists of them. Where it is not optional, no value and no element may be None."""

    name: str
    type: str
    is_list: bool = False
    optional: bool = True


def parquet(columns, rows):
    """A file of columns, and of rows with a value for each column."""
    body, chunks = MAGIC, []
    for position, column in enumerate(columns):
        page, n_values = page_of(column, [row[position] for row in rows])
        path = [column.name, "list", "element"] if column.is_list else [column.name]
        metadata = {
            1: (I32, PHYSICAL[column.type]),
            2: (LIST, I32, [PLAIN, RLE]),
            3: (LIST, BINARY, [name.encode() for name in path]),
            4: (I32, 0),
            5: (I64, n_values),
            6: (I64, len(page)),
            7: (I64, len(page)),
            9: (I64, len(body)),
        }
        chunks.append({2: (I64, len(body)), 3: (STRUCT, metadata)})
        body += page
    group = {1: (LIST, STRUCT, chunks), 2: (I64, len(body) - len(MAGIC)), 3: (I64, len(rows))}
    root = {4: (BINARY, b"schema"), 5: (I32, len(columns))}
    schema = [root, *(element for column in columns for element in elements_of(column))]
    footer = thrift({1: (I32, 1), 2: (LIST, STRUCT, schema), 3: (I64, len(rows)), 4: (LIST, STRUCT, [group])})
    return body + footer + struct.pack("<L", len(footer)) + MAGIC


def elements_of(column):
    """The elements of the schema that a column is."""
    repetition = (I32, OPTIONAL if column.optional else REQUIRED)

    def leaf(name):
        converted = {6: (I32, UTF8)} if column.type == "string" else {}
        return {1: (I32, PHYSICAL[column.type]), 3: repetition, 4: (BINARY, name.encode()), **converted}

    if not column.is_list:
        return [leaf(column.name)]
    return [
        {3: repetition, 4: (BINARY, column.name.encode()), 5: (I32, 1), 6: (I32, LIST_OF)},
        {3: (I32, REPEATED), 4: (BINARY, b"list"), 5: (I32, 1)},
        leaf("element"),
    ]


def page_of(column, values):
    """The page of a column with its header, and how many values it says it has."""
    optional = int(column.optional)
    triples = [triple for value in values for triple in levels_of(column, value)]
    repetition_levels = levels([repetition for repetition, _, _ in triples], 1) if column.is_list else b""
    deepest = 2 * optional + 1 if column.is_list else optional
    definition_levels = levels([definition for _, definition, _ in triples], deepest) if deepest else b""
    present = [value for _, definition, value in triples if definition == deepest]
    content = repetition_levels + definition_levels + b"".join(plain(column.type, value) for value in present)
    data = {1: (I32, len(triples)), 2: (I32, PLAIN), 3: (I32, RLE), 4: (I32, RLE)}
    header = thrift({1: (I32, 0), 2: (I32, len(content)), 3: (I32, len(content)), 5: (STRUCT, data)})
    return header + content, len(triples)


def levels_of(column, value):
    """(repetition level, definition level, value) of each value in the column that a row makes."""
    optional = int(column.optional)
    if not column.is_list:
        return [(0, 0 if value is None else optional, value)]
    if not value:
        return [(0, 0 if value is None else optional, None)]
    inside = optional + 1
    return [(int(n > 0), inside if element is None else inside + optional, element) for n, element in enumerate(value)]


def levels(numbers, greatest):
    """Levels in the hybrid of RLE and bit packing, each a run of one."""
    n_bytes = (greatest.bit_length() + 7) // 8
    runs = b"".join(varint(1 << 1) + number.to_bytes(n_bytes, "little") for number in numbers)
    return struct.pack("<L", len(runs)) + runs


def plain(kind, value):
    if kind == "string":
        content = value.encode()
        return struct.pack("<L", len(content)) + content
    return struct.pack("<l" if kind == "int32" else "<q", value)


def thrift(fields):
    """A struct in Thrift's compact protocol: (type, value), or (LIST, type of elements, elements), by field."""
    out, last = b"", 0
    for number, (kind, *value) in sorted(fields.items()):
        out += bytes([(number - last) << 4 | kind]) + thrift_value(kind, *value)
        last = number
    return out + b"\0"


def thrift_value(kind, value, elements=None):
    if kind == LIST:
        head = bytes([len(elements) << 4 | value]) if len(elements) < 15 else bytes([0xF0 | value]) + varint(len(elements))
        return head + b"".join(thrift_value(value, element) for element in elements)
    if kind == STRUCT:
        return thrift(value)
    if kind == BINARY:
        return varint(len(value)) + value
    return varint(value << 1)


def varint(number):
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])
