"""safetensors files (safetensors.md)."""

import hashlib
import json
import struct

from .case import Case
from .tensor_bytes import safetensors, safetensors_of

PAGE = "safetensors.md"
ONE = {"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}
# The bits of an element.
BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32,
    "U64": 64, "I64": 64, "F64": 64, "C64": 64, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip


def case(name, about, section, words, content, reads=None, refused="tensor"):
    shows = [(PAGE, section, words)]
    return Case(f"{name}.safetensors", about, shows, content, refused=None if reads is not None else refused, reads=reads)


def described(tensors, metadata=None):
    """What a reader must say of tensors: (dtype, shape, bytes) by name."""
    listed = [
        {"name": name, "dtype": dtype, "shape": shape, "sha256": hashlib.sha256(content).hexdigest()}
        for name, (dtype, shape, content) in sorted(tensors.items(), key=lambda item: item[0].encode())
    ]
    return {"tensors": listed, "metadata": metadata or {}}


def entry(**fields):
    """A header of one tensor of one byte, with fields replaced, or left out by None."""
    values = {**ONE["a"], **fields}
    return safetensors({"a": {key: value for key, value in values.items() if value is not None}}, b"\x05")


def raw(text, data=b"\x05"):
    """A file whose header is this text."""
    return safetensors(text if isinstance(text, bytes) else text.encode(), data)


def cases():
    return [*accepted(), *lengths(), *headers(), *tensors(), *layouts()]


def accepted():
    each = {dtype: (dtype, [4], bytes(range(bits // 2))) for dtype, bits in BITS.items()}
    one = {"a": ("U8", [1], b"\x05")}
    text = json.dumps(ONE)
    empty = {"a": ("F32", [0, 1 << 63, 2], b""), "b": ("U8", [1], b"\x05"), "c": ("U8", [3, 0], b"")}
    return [
        case("dtypes", "every dtype", "4.1", "**§4.1** `dtype` is one of these", safetensors_of(each), described(each)),
        case("no-tensors", "no tensors", "2.4", "**§2.4** It is one JSON object", raw("{}", b""), described({})),
        case("scalar", "a tensor of no dimensions", "4.2", "none for a scalar", entry(shape=[]), described({"a": ("U8", [], b"\x05")})),
        case("of-64-dimensions", "as many dimensions as there may be", "4.2", "at most 64", entry(shape=[1] * 64), described({"a": ("U8", [1] * 64, b"\x05")})),
        case("tensors-without-bytes", "tensors without bytes at the start, between and at the end", "4.3", "A tensor with a dimension of 0 has no bytes", safetensors_of(empty), described(empty)),
        case("spaces-behind", "spaces behind the header", "2.3", "after which there may be spaces (0x20) and nothing else", raw(text + "   "), described(one)),
        case("white-space-inside", "white space inside the header", "2.4", "White space inside it is allowed", raw("{\n\t" + text[1:-1] + "\r\n}"), described(one)),
        case("escapes", "escapes in a name and in the name of a field", "2.4", "and so are escapes, also in the names of fields", raw(text.replace('"a"', '"\\u00fc\\ud83d\\ude00"').replace('"dtype"', '"\\u0064type"')), described({"ü😀": ("U8", [1], b"\x05")})),
        case("empty-name", "a tensor whose name is empty", "2.4", "A name is any string, the empty one too", raw(text.replace('"a"', '""')), described({"": ("U8", [1], b"\x05")})),
        case("metadata", "metadata", "3", "is an object of strings", raw('{"__metadata__":{"k":"v","":""},' + text[1:]), described(one, {"k": "v", "": ""})),
        case("metadata-null", "metadata that are null", "3", "Null in place of the object counts as no `__metadata__`", raw('{"__metadata__":null,' + text[1:]), described(one)),
        case("bool-of-2", "a bool that is 2", "4.3", "a `BOOL` of 2 is read as it is", safetensors_of({"a": ("BOOL", [1], b"\x02")}), described({"a": ("BOOL", [1], b"\x02")})),
        case("not-aligned", "a tensor that is not aligned to its elements", "5.4", "Nothing asks for alignment", safetensors_of({"a": ("U8", [1], b"\x05"), "b": ("F64", [1], bytes(8))}), described({"a": ("U8", [1], b"\x05"), "b": ("F64", [1], bytes(8))})),
    ]  # fmt: skip


def lengths():
    good = entry()
    big_endian = case(
        "big-endian-length",
        "a length in big-endian order",
        "1.1",
        "an unsigned little-endian integer",
        good[7::-1] + good[8:],
        refused="limit",
    )
    big_endian.shows.append((PAGE, "1.2", "N is at most 100,000,000"))
    return [
        big_endian,
        case("empty", "no bytes", "1.1", "A file has at least these eight bytes", b""),
        case("seven-bytes", "seven bytes", "1.1", "A file has at least these eight bytes", good[:7]),
        case("header-too-long", "a header of 100,000,001 bytes", "1.2", "N is at most 100,000,000", struct.pack("<Q", 100_000_001) + good[8:], refused="limit"),
        case("header-of-2-to-the-64", "a header of 2 to the 64 less 1 bytes", "1.2", "N is at most 100,000,000", b"\xff" * 8 + good[8:], refused="limit"),
        case("header-cut-off", "a header that ends behind the file", "1.3", "ends inside the file", good[:20]),
        case("header-past-the-end", "a header of one byte more than there are", "1.3", "ends inside the file", struct.pack("<Q", len(good) - 7) + good[8:]),
    ]  # fmt: skip


def headers():
    text = json.dumps(ONE)

    def bad(name, about, section, words, header):
        return case(name, about, section, words, raw(header))

    inner = text[1:-1]
    nothing = inner.replace("[1]", "[0]").replace("[0, 1]", "[0, 0]")
    key = "**§2.5** No object has a key twice"
    return [
        bad("not-utf-8", "a name that is not UTF-8", "2.1", "It is UTF-8", text.encode().replace(b'"a"', b'"\xff"')),
        bad("utf-8-of-a-surrogate", "a name with half of a surrogate pair in UTF-8", "2.1", "It is UTF-8", text.encode().replace(b'"a"', b'"\xed\xa0\x80"')),
        bad("utf-8-too-long", "a name with a slash in two bytes", "2.1", "It is UTF-8", text.encode().replace(b'"a"', b'"\xc0\xaf"')),
        bad("space-before", "a space before the header", "2.2", "begins with `{`", " " + text),
        bad("list", "a list", "2.2", "begins with `{`", "[]"),
        bad("line-feed-before", "a line feed before the header", "2.2", "begins with `{`", "\n" + text),
        bad("byte-order-mark", "a byte order mark", "2.2", "begins with `{`", "\ufeff" + text),
        bad("nothing", "a header of no bytes", "2.2", "begins with `{`", ""),
        bad("spaces", "a header of spaces", "2.2", "begins with `{`", " " * 8),
        bad("number", "a number", "2.2", "begins with `{`", "1"),
        bad("null", "null", "2.2", "begins with `{`", "null"),
        bad("line-feed-behind", "a line feed behind the header", "2.3", "after which there may be spaces (0x20) and nothing else", text + "\n"),
        bad("nul-behind", "a NUL behind the header", "2.3", "after which there may be spaces (0x20) and nothing else", text + "\0"),
        bad("tab-behind", "a tab and spaces behind the header", "2.3", "after which there may be spaces (0x20) and nothing else", text + "\t  "),
        bad("unfinished", "a header without its last two bytes", "2.3", "and ends with `}`", text[:-2]),
        bad("two-objects", "two objects", "2.4", "It is one JSON object", text + "{}"),
        bad("brace-behind", "a brace behind the header", "2.4", "It is one JSON object", text + "  }"),
        bad("trailing-comma", "a comma at the end", "2.4", "It is one JSON object", "{" + inner + ",}"),
        bad("trailing-comma-in-shape", "a comma at the end of a list", "2.4", "It is one JSON object", text.replace("[1]", "[1,]")),
        bad("single-quotes", "single quotes", "2.4", "It is one JSON object", text.replace('"', "'")),
        bad("comment", "a comment", "2.4", "It is one JSON object", text.replace("{", "{/**/", 1)),
        bad("leading-zero", "a number with a zero in front", "2.4", "It is one JSON object", text.replace("[1]", "[01]")),
        bad("plus-sign", "a number with a plus sign", "2.4", "It is one JSON object", text.replace("[1]", "[+1]")),
        bad("unknown-escape", "an escape that JSON does not have", "2.4", "It is one JSON object", text.replace('"a"', '"\\x41"')),
        bad("lone-surrogate", "an escape for half of a surrogate pair", "2.4", "It is one JSON object", text.replace('"a"', '"\\ud800"')),
        bad("control-character", "a control character in a name", "2.4", "It is one JSON object", text.replace('"a"', '"\t"')),
        bad("tensor-twice", "a tensor twice", "2.5", key, "{" + inner + "," + inner + "}"),
        bad("tensor-twice-by-escapes", "a name twice, once with an escape", "2.5", "Keys are compared after their escapes are undone", "{" + inner + "," + inner.replace('"a"', '"\\u0061"') + "}"),
        bad("tensor-twice-with-other-values", "a tensor twice, of which the first does not fit into the file", "2.5", key, "{" + inner.replace("U8", "F32").replace("[1]", "[9]").replace("[0, 1]", "[0, 36]") + "," + inner + "}"),
        bad("tensor-of-nothing-twice", "a tensor without bytes twice, and one between", "2.5", key, "{" + nothing + "," + inner.replace('"a"', '"b"') + "," + nothing + "}"),
        bad("field-twice", "a field twice", "2.5", key, text.replace('"dtype": "U8"', '"dtype": "U8", "dtype": "U8"')),
        bad("shape-twice", "a shape twice", "2.5", key, text.replace('"shape": [1]', '"shape": [1], "shape": [1]')),
        bad("offsets-twice", "offsets twice", "2.5", key, text.replace('"data_offsets": [0, 1]', '"data_offsets": [0, 1], "data_offsets": [0, 1]')),
        bad("metadata-twice", "metadata twice", "2.5", key, "{" + '"__metadata__":{"k":"v"},' * 2 + inner + "}"),
        bad("metadata-null-twice", "metadata twice, first null", "2.5", key, '{"__metadata__":null,"__metadata__":{"k":"v"},' + inner + "}"),
        bad("metadata-twice-by-escapes", "metadata twice, once with an escape", "2.5", "Keys are compared after their escapes are undone", '{"__metadata__":{"k":"v"},"_\\u005fmetadata__":{"k":"v"},' + inner + "}"),
        bad("metadata-key-twice", "a key of the metadata twice", "2.5", key, '{"__metadata__":{"k":"v","k":"v"},' + inner + "}"),
        bad("metadata-number", "a number in the metadata", "3", "is an object of strings", '{"__metadata__":{"k":1},' + inner + "}"),
        bad("metadata-list", "metadata that are a list", "3", "is an object of strings", '{"__metadata__":[],' + inner + "}"),
        bad("metadata-nested", "an object in the metadata", "3", "is an object of strings", '{"__metadata__":{"k":{}},' + inner + "}"),
        bad("metadata-value-null", "null in the metadata", "3", "is an object of strings", '{"__metadata__":{"k":null},' + inner + "}"),
        bad("metadata-as-a-tensor", "metadata that look as a tensor", "3", "is an object of strings", text.replace('"a"', '"__metadata__"')),
    ]  # fmt: skip


def tensors():
    fields = "A tensor's entry is an object with the three fields `dtype`, `shape` and `data_offsets`, in any order, and no other"
    numbers = "All numbers are integers from 0 to 2⁶⁴ − 1, written without sign, fraction and exponent"
    text = json.dumps(ONE)
    size = "**§4.3** The tensor has as many bytes as dtype and shape say"
    product = "and its bits fit in 64 bits"
    return [
        case("entry-list", "an entry that is a list", "4", fields, raw('{"a":["U8",[1],[0,1]]}')),
        case("entry-nested", "an entry of 10,000 lists in each other", "4", fields, raw('{"a":' + "[" * 10_000 + "]" * 10_000 + "}")),
        case("entry-null", "an entry that is null", "4", fields, raw('{"a":null}')),
        case("entry-number", "an entry that is a number", "4", fields, raw('{"a":1}')),
        case("entry-string", "an entry that is a string", "4", fields, raw('{"a":"U8"}')),
        case("entry-of-nothing", "an entry without fields", "4", fields, raw('{"a":{}}')),
        case("dtype-number", "a dtype that is a number", "4", fields, entry(dtype=8)),
        case("dtype-null", "a dtype that is null", "4", fields, raw(text.replace('"U8"', "null"))),
        case("field-in-capitals", "a field that begins with a capital", "4", fields, raw(text.replace('"shape"', '"Shape"'))),
        case("shape-number", "a shape that is a number", "4", numbers, entry(shape=1)),
        case("shape-null", "a shape that is null", "4", fields, raw(text.replace("[1]", "null"))),
        case("shape-string", "a size that is a string", "4", numbers, entry(shape=["1"])),
        case("shape-nested", "a size that is a list", "4", numbers, entry(shape=[[1]])),
        case("dtype-object", "a dtype that is an object", "4", fields, raw(text.replace('"U8"', '{"U8": null}'))),
        case("no-dtype", "no dtype", "4", fields, entry(dtype=None)),
        case("no-shape", "no shape", "4", fields, entry(shape=None)),
        case("no-offsets", "no offsets", "4", fields, entry(data_offsets=None)),
        case("unknown-field", "another field", "4", fields, entry(more=1)),
        case("one-offset", "one offset", "4", "`data_offsets` are two numbers", entry(data_offsets=[1])),
        case("three-offsets", "three offsets", "4", "`data_offsets` are two numbers", entry(data_offsets=[0, 1, 2])),
        case("offsets-number", "offsets that are a number", "4", "`data_offsets` are two numbers", entry(data_offsets=0)),
        case("offsets-object", "offsets that are an object", "4", "`data_offsets` are two numbers", entry(data_offsets={"0": 0, "1": 1})),
        case("negative-offset", "an offset below 0", "4", numbers, entry(data_offsets=[-1, 0])),
        case("float-offsets", "offsets with a fraction", "4", numbers, entry(data_offsets=[0.0, 1.0])),
        case("offset-of-2-to-the-64", "an offset of 2 to the 64", "4", numbers, entry(data_offsets=[0, 1 << 64])),
        case("float-size", "a size with a fraction", "4", numbers, raw(text.replace('"shape": [1]', '"shape": [1.0]'))),
        case("exponent", "a size with an exponent", "4", numbers, raw(text.replace('"shape": [1]', '"shape": [1e0]'))),
        case("negative-size", "a size below 0", "4", numbers, raw(text.replace('"shape": [1]', '"shape": [-1]'))),
        case("minus-zero", "a size of minus zero", "4", numbers, raw(text.replace('"shape": [1]', '"shape": [-0]'))),
        case("size-of-2-to-the-64", "a size of 2 to the 64", "4", numbers, entry(shape=[1 << 64])),
        case("unknown-dtype", "a dtype that the format does not have", "4.1", "`dtype` is one of these", entry(dtype="U7")),
        case("lower-case-dtype", "a dtype in lower case", "4.1", "`dtype` is one of these", entry(dtype="u8")),
        case("empty-dtype", "a dtype that is an empty string", "4.1", "`dtype` is one of these", entry(dtype="")),
        case("of-65-dimensions", "a dimension too many", "4.2", "at most 64", entry(shape=[1] * 65)),
        case("of-10000-dimensions", "far too many dimensions", "4.2", "at most 64", entry(shape=[1] * 10_000)),
        case("too-few-bytes", "fewer bytes than the shape needs", "4.3", size, entry(shape=[2])),
        case("too-many-bytes", "more bytes than the shape needs", "4.3", size, entry(shape=[0])),
        case("scalar-of-no-bytes", "a tensor of no dimensions that has no bytes", "4.3", "one without dimensions has one element", raw('{"a":{"dtype":"U8","shape":[],"data_offsets":[0,0]}}', b"")),
        case("backward-offsets", "offsets of which the second is less", "4.3", size, entry(data_offsets=[1, 0])),
        case("backward-offsets-of-2-to-the-64", "the same, and their difference is right modulo 2 to the 64", "4.3", size, entry(data_offsets=[(1 << 64) - 1, 0])),
        case("overflow-of-elements", "a product that does not fit", "4.3", product, entry(shape=[2, (1 << 64) - 1])),
        case("overflow-to-the-right-size", "a product that is right modulo 2 to the 64", "4.3", product, raw('{"a":{"dtype":"U8","shape":[2305843009213693952,8],"data_offsets":[0,0]}}', b"")),
        case("overflow", "a product that does not fit, before a zero", "4.3", "so `[2⁶³, 2, 0]` is refused and `[0, 2⁶³, 2]` is not", raw('{"a":{"dtype":"U8","shape":[9223372036854775808,2,0],"data_offsets":[0,0]}}', b"")),
        case("overflow-of-bits", "a number of bits that does not fit", "4.3", product, raw('{"a":{"dtype":"U8","shape":[2305843009213693952],"data_offsets":[0,0]}}', b"")),
        case("half-a-byte", "half a byte", "4.3", "and the bits are whole bytes", entry(dtype="F4", shape=[1])),
        case("six-bits", "an element of six bits", "4.3", "and the bits are whole bytes", entry(dtype="F6_E2M3")),
    ]  # fmt: skip


def layouts():
    def of(*ranges, n_bytes):
        header = {
            f"t{n}": {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]} for n, (begin, end) in enumerate(ranges)
        }
        return safetensors(header, bytes(n_bytes))

    gap = "no bytes are left out between one and the next"
    shared = "no two tensors share bytes, and a tensor without bytes does not lie inside another"
    return [
        case("gap-at-the-start", "bytes before the first tensor", "5.1", "the first tensor begins at offset 0 of the data", of((1, 2), n_bytes=2)),
        case("gap-between", "bytes between two tensors", "5.1", gap, of((0, 1), (2, 3), n_bytes=3)),
        case("gap-to-2-to-the-64", "a tensor whose end is the last that 64 bits can say", "5.1", gap, safetensors({"a": ONE["a"], "b": {**ONE["a"], "data_offsets": [(1 << 64) - 2, (1 << 64) - 1]}}, b"\x05")),
        case("overlap", "two tensors that share a byte", "5.2", shared, of((0, 2), (1, 3), n_bytes=3)),
        case("same-bytes", "two tensors of the same bytes", "5.2", shared, of((0, 2), (0, 2), n_bytes=2)),
        case("nothing-inside", "a tensor without bytes inside another", "5.2", shared, of((0, 2), (1, 1), n_bytes=2)),
        case("data-cut-off", "a tensor that ends behind the file", "5.3", "the last one ends in the file", of((0, 2), n_bytes=1)),
        case("no-data", "a tensor, and no data", "5.3", "the last one ends in the file", of((0, 1), n_bytes=0)),
        case("terabytes", "a tensor of 4 TiB in a byte", "5.3", "the last one ends in the file", of((0, 1 << 42), n_bytes=1)),
        case("exabytes", "a tensor of an EiB in a byte", "5.3", "the last one ends in the file", of((0, 1 << 60), n_bytes=1)),
        case("bytes-behind", "a byte behind the last tensor", "5.4", "and with the file", of((0, 2), n_bytes=3)),
        case("bytes-behind-nothing", "a byte and no tensors", "5.4", "and with the file", raw("{}", b"\x05")),
    ]  # fmt: skip
