"""Cartons whose tensors are what the case is about (carton-format.md, "tensor_data"; carton-format-extensions.md, "Tensor files")."""

import ast
import struct

from .case import Case
from .little_carton import least, sha256
from .tensor_bytes import dense, manifest, safetensors, safetensors_of, ztensor
from .zip_records import ZSTD, zstd_block, zstd_frame

INDEX = "tensor_data/index.toml"
FORMAT, EXTENSIONS = "carton-format.md", "carton-format-extensions.md"
SECTION = "`tensor_data`"
FLOATS = struct.pack("<6f", 0.5, -1.0, 1.5, 2.0, 1e-40, float("inf"))
FIELDS = {"name": '"t"', "dtype": '"float32"', "shape": "[2, 3]", "file": '"t.bin"', "inner": "[]"}
SIZE = "The file must have exactly the size that dtype and shape need"


def table(**fields):
    """A tensor of the index, with fields replaced, or left out by None."""
    values = {**FIELDS, **fields}
    return "[[tensor]]\n" + "".join(f"{key} = {value}\n" for key, value in values.items() if value is not None) + "\n"


def case(name, about, shows, index, files, tensors=None, refused=None, page=FORMAT, by="format"):
    carton = least()
    if index is not None:
        carton.add(INDEX, index if isinstance(index, bytes) else index.encode())
    for path, data in files.items():
        carton.add(f"tensor_data/{path}", data)
    carton.tensors = tensors or []
    section, words = shows
    reads = None if refused else carton.reads()
    return Case(f"tensor-{name}.carton", about, [(page, section, words)], carton.packed(), refused=refused, reads=reads, by=by)


def described(name="t", dtype="float32", shape=(2, 3), data=FLOATS):
    return {"name": name, "dtype": dtype, "shape": list(shape), "sha256": sha256(data)}


def cases():
    return [*numbers(), *carried(), *indices(), *strings(), *nested(), *tensor_files(), *bad_tensor_files()]


def numbers():
    sizes = {"8": 1, "16": 2, "32": 4, "64": 8}
    dtypes = [f"{kind}{bits}" for kind in ("int", "uint") for bits in sizes] + ["float32", "float64"]
    order = SECTION, "Numeric tensors are the elements alone, little-endian, in C order"
    index, files, tensors = "", {}, []
    for n, dtype in enumerate(dtypes):
        data = bytes(range(n, n + 2 * sizes[dtype.lstrip("uintfloa")]))
        index += table(name=f'"{dtype}"', dtype=f'"{dtype}"', shape="[2, 1]", file=f'"{dtype}.bin"')
        files[f"{dtype}.bin"] = data
        tensors.append(described(dtype, dtype, [2, 1], data))
    deep = [1] * 64

    def bad_size(name, about, shape, data):
        return case(name, about, (SECTION, SIZE), table(shape=shape), {"t.bin": data}, refused="tensor")

    return [
        case("dtypes", "every numeric dtype", order, index, files, tensors),
        case("scalar", "a scalar", order, table(shape="[]"), {"t.bin": FLOATS[:4]}, [described(shape=[], data=FLOATS[:4])]),
        case("empty", "a tensor of no elements", order, table(shape="[0, 9]"), {"t.bin": b""}, [described(shape=[0, 9], data=b"")]),
        case(
            "of-64-dimensions",
            "as many dimensions as there may be",
            (SECTION, "sizes of 0 or more, at most 64 of them"),
            table(shape=str(deep)),
            {"t.bin": FLOATS[:4]},
            [described(shape=deep, data=FLOATS[:4])],
        ),
        case(
            "of-65-dimensions",
            "a dimension more",
            (SECTION, "sizes of 0 or more, at most 64 of them"),
            table(shape=str([*deep, 1])),
            {"t.bin": FLOATS[:4]},
            refused="tensor",
        ),
        case(
            "one-file-twice",
            "two tensors of one file",
            (SECTION, "a file in this folder"),
            table() + table(name='"u"', dtype='"int32"', shape="[6]"),
            {"t.bin": FLOATS},
            [described(), described("u", "int32", [6])],
        ),
        case(
            "without-inner",
            "no field `inner`",
            (SECTION, "written for every tensor, because the first implementation insists on it"),
            table(inner=None),
            {"t.bin": FLOATS},
            [described()],
        ),
        bad_size("too-short", "a byte less than the shape needs", "[2, 3]", FLOATS[:-1]),
        bad_size("too-long", "a byte more than the shape needs", "[2, 3]", FLOATS + b"!"),
        bad_size("overflow", "a shape whose product is 2 to the 64 and one more, times 4", "[4294967296, 4294967296]", b""),
        bad_size("claims-terabytes", "a shape of terabytes", "[1099511627776]", FLOATS),
    ]


def carried():
    """Tensors of dtypes that version 1 lacks."""
    section = "What elements are"
    holds = {"bool": "0 is false, 1 is true", "complex": "the real and the imaginary part, in one more dimension: the last, of size 2", "bytes": "base64 (RFC 4648, section 4, with padding) of the bytes"}
    no_value = "A tensor is refused if one of them is no value of its dtype"
    unknown = "A value that a reader does not know says nothing"
    floats = {
        # The largest number, the smallest, and infinities where there are any.
        "float16": [65504.0, 2.0**-24, float("-inf"), -0.0],
        "bfloat16": [255 * 2.0**120, 2.0**-133, float("inf"), 1.0],
        "float8_e4m3fn": [448.0, 2.0**-9, -0.0, 1.125],
        "float8_e5m2": [57344.0, 2.0**-16, float("inf"), 1.25],
        "float8_e4m3fnuz": [240.0, 2.0**-10, 0.0, 1.125],
        "float8_e5m2fnuz": [57344.0, 2.0**-17, 0.0, 1.25],
    }
    others = {
        "float16": [0.1, 65505.0, 2.0**-25],
        "bfloat16": [0.1, 257.0],
        "float8_e4m3fn": [0.1, 449.0, float("inf")],
        "float8_e5m2": [0.1, 1.125],
        "float8_e4m3fnuz": [241.0, -(2.0**-12), -0.0],
        "float8_e5m2fnuz": [1.125, float("inf"), -0.0],
    }

    def make(name, about, words, element, carrier, shape, data, refused=None, known=True):
        path, content = ("t.toml", f"data = {data}".encode()) if carrier == "string" else ("t.bin", data)
        index = table(dtype=f'"{carrier}"', element=f'"{element}"', shape=str(shape), file=f'"{path}"')
        is_text = carrier == "string" and not refused
        reads = {"name": "t", "dtype": carrier, **({"element": element} if known else {}), "shape": shape}
        reads.update({"values": ast.literal_eval(data)} if is_text else {"sha256": sha256(content)})
        return case(f"element-{name}", about, (section, words), index, {path: content}, [reads], refused=refused, page=EXTENSIONS)

    def of_floats(values):
        return struct.pack(f"<{len(values)}f", *values)

    found = [
        make("bool", "booleans", holds["bool"], "bool", "uint8", [2], b"\x01\x00"),
        make("bool-2", "a boolean that is 2", no_value, "bool", "uint8", [2], b"\x01\x02", refused="tensor"),
        make("bytes", "bytes that are no text", holds["bytes"], "bytes", "string", [2], '["AP8=", ""]'),
        make("bytes-without-padding", "base64 without its padding", no_value, "bytes", "string", [1], '["AP8"]', refused="tensor"),
        make("bytes-of-text", "a text that is not base64", no_value, "bytes", "string", [1], '["a-b="]', refused="tensor"),
        make("complex64", "complex numbers", holds["complex"], "complex64", "float32", [3, 2], FLOATS),
        make("complex128", "a long complex number", holds["complex"], "complex128", "float64", [2], struct.pack("<2d", 1.0, -2.0)),
        make("complex-of-three", "complex numbers that are no pairs", "So is a complex one whose last dimension is not 2", "complex64", "float32", [2, 3], FLOATS, refused="tensor"),
        make("complex-scalar", "a complex number without parts", "So is a complex one whose last dimension is not 2", "complex64", "float32", [], FLOATS[:4], refused="tensor"),
        make("unknown", "a value of later versions", unknown, "float4", "float32", [6], FLOATS, known=False),
        make("other-carrier", "booleans beside another dtype", "neither does a value beside another `dtype` than its carrier", "bool", "int8", [1], b"\x02", known=False),
    ]
    for element, values in floats.items():
        found.append(make(element.replace("_", "-"), f"numbers of {element}", "the same number", element, "float32", [len(values)], of_floats(values)))
        nan = struct.pack("<f", float("nan"))
        found.append(make(f"{element.replace('_', '-')}-nan", f"no number of {element}", "the same number", element, "float32", [1], nan))
        for n, value in enumerate(others[element]):
            name = f"{element.replace('_', '-')}-other-{n}"
            found.append(make(name, f"a number that {element} lacks", no_value, element, "float32", [1], of_floats([value]), refused="tensor"))
    return found


def indices():
    there = SECTION, "If there is any file in this folder, there must be an `index.toml`"
    limit = 8 * 1024 * 1024

    def bad(name, about, words, index, files=None):
        return case(name, about, (SECTION, words), index, {"t.bin": FLOATS} if files is None else files, refused="tensor")

    def sized(name, about, size, refused):
        head = table().encode()
        blocks, left = [zstd_block(0, head)], size - len(head)
        while left > 0:
            piece = min(left, 131072)
            left -= piece
            blocks.append(zstd_block(1, b"#", piece, last=left == 0))
        carton = least()
        carton.add(INDEX, head + b"#" * (size - len(head)), method=ZSTD, packed=zstd_frame(blocks))
        carton.add("tensor_data/t.bin", FLOATS)
        carton.tensors = [described()]
        shows = [(FORMAT, SECTION, "Unknown fields are ignored. At most 8 MiB.")]
        return Case(f"tensor-{name}.carton", about, shows, carton.packed(), refused=refused, reads=None if refused else carton.reads())

    return [
        case("empty-index", "an index of no tensors", there, b"", {}),
        case(
            "unknown-fields",
            "fields that a reader does not know",
            (SECTION, "Unknown fields are ignored. At most 8 MiB."),
            "future = 1\n" + table(future="[1]"),
            {"t.bin": FLOATS},
            [described()],
        ),
        case(
            "unlisted-file",
            "a file in the folder that is no tensor",
            (SECTION, "a file in this folder"),
            table(),
            {"t.bin": FLOATS, "more": b"x"},
            [described()],
        ),
        sized("index-of-8-mib", "index.toml has exactly 8 MiB", limit, None),
        sized("index-too-large", "index.toml has 8 MiB and a byte", limit + 1, "limit"),
        bad("no-index", "a file and no index", there[1], None),
        bad("no-toml", "an index that is no TOML", there[1], "[[tensor]\n"),
        bad("no-list", "`tensor` is one table", there[1], table().replace("[[tensor]]", "[tensor]")),
        bad("empty-name", "an empty name", "not empty, and unique", table(name='""')),
        bad("name-twice", "a name twice", "not empty, and unique", table() + table()),
        bad("no-name", "no name", "not empty, and unique", table(name=None)),
        bad("dtype", "a dtype that the format does not have", "as in carton.toml", table(dtype='"float16"')),
        bad("negative-size", "a size below 0", "sizes of 0 or more", table(shape="[-2, -3]")),
        bad("shape-of-symbols", "a symbol in a shape", "sizes of 0 or more", table(shape='["n", 3]')),
        bad("no-shape", "no shape", "sizes of 0 or more", table(shape=None)),
        bad("no-file", "a file that is not there", "a file in this folder", table(file='"u.bin"')),
        bad("file-elsewhere", "a file of another folder", "a file in this folder", table(file='"../model/weights.bin"')),
        bad("no-file-field", "no field `file`", "a file in this folder", table(file=None)),
        bad(
            "inner-of-numbers",
            "inner tensors of a tensor that is not nested",
            "of any other tensor `inner` is empty, where it is there",
            table(inner='["t"]'),
        ),
    ]


def strings():
    words = 'String tensors are a TOML file, `data = ["a", "b"]`, with as many strings as the shape has elements, in C order'
    index = table(dtype='"string"', shape="[2, 2]", file='"t.toml"')

    def bad(name, about, data):
        return case(f"strings-{name}", about, (SECTION, words), index, {"t.toml": data}, refused="tensor")

    values = ["", "a", "ü\n", "🐈"]
    return [
        case(
            "strings",
            "a tensor of strings",
            (SECTION, words),
            index,
            {"t.toml": 'data = ["", "a", "ü\\n", \'🐈\']\n'.encode()},
            [{"name": "t", "dtype": "string", "shape": [2, 2], "values": values}],
        ),
        case(
            "strings-none",
            "a tensor of no strings",
            (SECTION, words),
            index.replace("[2, 2]", "[0]"),
            {"t.toml": b"data = []"},
            [{"name": "t", "dtype": "string", "shape": [0], "values": []}],
        ),
        bad("too-few", "a string less than the shape has", b'data = ["a", "b", "c"]'),
        bad("too-many", "a string more than the shape has", b'data = ["a", "b", "c", "d", "e"]'),
        bad("of-numbers", "a number among the strings", b'data = ["a", "b", "c", 4]'),
        bad("nested", "lists in the list", b'data = [["a", "b"], ["c", "d"]]'),
        bad("no-data", "no `data`", b'strings = ["a", "b", "c", "d"]'),
        bad("no-toml", "no TOML", b'["a", "b", "c", "d"]'),
    ]


def nested():
    words = "tensors of one dtype that are not nested"
    two = table() + table(name='"u"', shape="[1]", file='"u.bin"')
    files = {"t.bin": FLOATS, "u.bin": FLOATS[:4]}
    both = [described(), described("u", shape=[1], data=FLOATS[:4])]

    def of(inner, **fields):
        return table(name='"n"', dtype='"nested"', shape=None, file=None, inner=inner, **fields)

    def bad(name, about, index, files=files):
        return case(f"nested-{name}", about, (SECTION, words), index, files, refused="tensor")

    n = {"name": "n", "dtype": "nested", "inner": ["t", "u", "t"]}
    halves = table(element='"float16"') + table(name='"u"', element='"float16"', shape="[1]", file='"u.bin"')
    short = {"t.bin": bytes(24), "u.bin": bytes(4)}
    both_short = [{**described(data=bytes(24)), "element": "float16"}, {**described("u", shape=[1], data=bytes(4)), "element": "float16"}]
    one_element = ("What elements are", "The tensors of a nested tensor have one dtype and one `element`")
    mixed = halves.replace('"float16"', '"bfloat16"', 1)
    return [
        case("nested-halves", "a list of tensors with an element", one_element, halves + of('["t", "u", "t"]'), short, [*both_short, n], page=EXTENSIONS),
        case("nested-of-two-elements", "a list of tensors with two elements", one_element, mixed + of('["t", "u"]'), short, refused="tensor", page=EXTENSIONS),
        case(
            "nested",
            "a list of tensors of several shapes, one of them twice",
            (SECTION, words),
            two + of('["t", "u", "t"]'),
            files,
            [*both, n],
        ),
        case(
            "nested-first",
            "a nested tensor before those that it is made of",
            (SECTION, words),
            of('["t", "u", "t"]') + two,
            files,
            [n, *both],
        ),
        case(
            "nested-with-file",
            "a nested tensor with fields that mean nothing",
            (SECTION, "`shape` and `file` mean nothing for them"),
            two + '[[tensor]]\nname = "n"\ndtype = "nested"\nshape = [9]\nfile = "nothing"\ninner = ["t", "u", "t"]\n',
            files,
            [*both, n],
        ),
        case(
            "nested-of-none",
            "a list of no tensors, and one without a list",
            (SECTION, "A list may be empty, and one that is missing is"),
            table() + of("[]") + of(None).replace('"n"', '"m"'),
            {"t.bin": FLOATS},
            [described(), {**n, "inner": []}, {"name": "m", "dtype": "nested", "inner": []}],
        ),
        bad("in-nested", "a nested tensor in another", two + of('["t"]') + of('["n"]').replace('name = "n"', 'name = "m"')),
        bad("in-itself", "a nested tensor in itself", two + of('["n"]')),
        bad("of-nothing-there", "a tensor that is not there", two + of('["t", "v"]')),
        bad("of-two-dtypes", "tensors of two dtypes", two.replace('"float32"', '"int32"', 1) + of('["t", "u"]')),
    ]


def tensor_files():
    section = "Tensor files"
    st = safetensors_of({"t": ("F32", [2, 3], FLOATS), "half": ("BF16", [1], b"\x80\x3f")})
    zt_blobs = FLOATS + bytes(40) + b"\x01\x02"
    zt = ztensor(manifest({"t": dense([2, 3], "f32", 64, 24), "u": dense([2], "u8", 128, 2)}), zt_blobs)

    def good(name, about, words, index, files, tensors):
        return case(name, about, (section, words), index, files, tensors, page=EXTENSIONS)

    in_st, in_zt = {"file": '"t.safetensors"', "file_format": '"safetensors"'}, {"file": '"t.zt"', "file_format": '"ztensor"'}
    must = "The file must have a tensor of this name with the declared dtype and shape"
    names = ("int", "uint", "float")
    dtypes = {f"{k}{b}": (f"{k[0]}{b}", b // 8) for k in names for b in (8, 16, 32, 64) if k != "float" or b > 16}
    index = "".join(table(name=f'"{d}"', dtype=f'"{d}"', shape="[2]", **in_st) for d in dtypes)
    each = {d: bytes(range(2 * size)) for d, (_, size) in dtypes.items()}
    all_st = safetensors_of({d: (word.upper(), [2], each[d]) for d, (word, _) in dtypes.items()})
    blobs, objects = b"", {}
    for d, (word, size) in dtypes.items():
        objects[d] = dense([2], word, 64 + len(blobs), 2 * size)
        blobs += each[d] + bytes(-len(each[d]) % 64)
    all_zt = ztensor(manifest(objects), blobs)
    all_tensors = [described(d, d, [2], data) for d, data in each.items()]
    return [
        good(
            "in-safetensors",
            "a tensor in a safetensors file that has another one of a dtype that a carton does not know",
            "A file may have other tensors, of dtypes that a carton does not know too",
            table(**in_st),
            {"t.safetensors": st},
            [described()],
        ),
        good(
            "in-ztensor",
            "two tensors in a zTensor file",
            must,
            table(**in_zt) + table(name='"v"', dtype='"uint8"', shape="[2]", name_in_file='"u"', **in_zt),
            {"t.zt": zt},
            [described(), described("v", "uint8", [2], b"\x01\x02")],
        ),
        good(
            "same-in-file",
            "two tensors of the index that are one in the file",
            "Two tensors of the index may be the same one in a file",
            table(**in_st) + table(name='"u"', name_in_file='"t"', **in_st),
            {"t.safetensors": st},
            [described(), described("u")],
        ),
        good(
            "dtypes-in-safetensors",
            "every dtype in a safetensors file",
            "dtypes are named differently there",
            index,
            {"t.safetensors": all_st},
            all_tensors,
        ),
        good(
            "dtypes-in-ztensor",
            "every dtype in a zTensor file",
            "dtypes are named differently there",
            index.replace("t.safetensors", "t.zt").replace('"safetensors"', '"ztensor"'),
            {"t.zt": all_zt},
            all_tensors,
        ),
        good(
            "nested-with-format",
            "a nested tensor with a format, which means nothing",
            "For nested tensors, which have no file, it means nothing, and neither does `file`",
            table(**in_st) + '[[tensor]]\nname = "n"\ndtype = "nested"\nfile_format = "safetensors"\ninner = ["t"]\n',
            {"t.safetensors": st},
            [described(), {"name": "n", "dtype": "nested", "inner": ["t"]}],
        ),
        good(
            "wrong-digest-in-ztensor",
            "a digest of a component that is wrong, and not looked at",
            "Digests of components are not needed, because MANIFEST has that of the file, and are not looked at",
            table(**in_zt),
            {"t.zt": ztensor(manifest({"t": dense([2, 3], "f32", 64, 24, digest="crc32c:0x00000000")}), FLOATS)},
            [described()],
        ),
    ]


def bad_tensor_files():
    section = "Tensor files"
    must = "The file must have a tensor of this name with the declared dtype and shape"
    plain = "In zTensor the object must be `dense`, and its component `data` stored `raw` and without a logical type"
    other = "Another format is refused, and so is `file_format` for a tensor of strings"

    def bad(name, about, words, file, content, **fields):
        fields.setdefault("file_format", '"safetensors"' if file.endswith("safetensors") else '"ztensor"')
        index = table(file=f'"{file}"', **fields)
        return case(f"file-{name}", about, (section, words), index, {file: content}, refused="tensor", page=EXTENSIONS)

    st, zt = "t.safetensors", "t.zt"
    good_st = safetensors_of({"t": ("F32", [2, 3], FLOATS)})
    frame = zstd_frame([zstd_block(0, FLOATS, last=True)])
    zstd = dense([2, 3], "f32", 64, len(frame), uncompressed_length=24, encoding="zstd")
    sparse = {"shape": [2, 3], "format": "sparse_coo", "components": {
        "values": {"dtype": "f32", "offset": 64, "length": 4}, "coords": {"dtype": "u64", "offset": 128, "length": 16}}}  # fmt: skip
    return [
        bad("other-format", "a format that the extension does not have", other, "t.npy", good_st, file_format='"npy"'),
        bad("of-strings", "strings with a format", other, st, good_st, dtype='"string"'),
        bad("without-the-tensor", "a file that does not have the tensor", must, st, safetensors_of({"u": ("F32", [2, 3], FLOATS)})),
        bad("other-dtype", "a tensor of another dtype", must, st, safetensors_of({"t": ("I32", [2, 3], FLOATS)})),
        bad("other-shape", "a tensor of another shape", must, st, safetensors_of({"t": ("F32", [3, 2], FLOATS)})),
        bad("no-safetensors", "a file that is no safetensors file", must, st, safetensors(b"[]")),
        bad("no-ztensor", "a file that is no zTensor file", must, zt, b"not a zTensor file, but text"),
        bad(
            "other-dtype-in-ztensor",
            "a tensor of another dtype in a zTensor file",
            must,
            zt,
            ztensor(manifest({"t": dense([2, 3], "i32", 64, 24)}), FLOATS),
        ),
        bad(
            "other-shape-in-ztensor",
            "a tensor of another shape in a zTensor file",
            must,
            zt,
            ztensor(manifest({"t": dense([3, 2], "f32", 64, 24)}), FLOATS),
        ),
        bad("compressed", "a component in zstd", plain, zt, ztensor(manifest({"t": zstd}), frame)),
        bad(
            "sparse",
            "an object that is not dense",
            plain,
            zt,
            ztensor(manifest({"t": sparse}), FLOATS[:4].ljust(64, b"\0") + bytes(16)),
        ),
        bad(
            "logical-type",
            "a component with a logical type",
            plain,
            zt,
            ztensor(manifest({"t": dense([2, 3], "u8", 64, 6, type="f8_e5m2")}), FLOATS[:6]),
            dtype='"uint8"',
        ),
        bad(
            "read-as-version-1",
            "a tensor file without `file_format` is taken for the elements alone",
            "finds that it has another size than dtype and shape need, and refuses the carton",
            st,
            good_st,
            file_format=None,
        ),
    ]
