"""Writes the ONNX models of tests/onnx.rs into a folder, each with the tensors that the package `onnx` itself reads of it: FILE.json, a list of
[NAME, DTYPE, SHAPE, BYTES IN HEXADECIMAL DIGITS], or of strings instead of the digits, in the order of the file.

    python onnx_files.py tests/data/onnx

Needs onnx 1.23 or newer. `described` is also what onnx_peers.py compares with.
"""

import json
import math
import shutil
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Integers of less than a byte are read as bytes.
WIDENED = {"int4": "int8", "uint4": "uint8", "int2": "int8", "uint2": "uint8"}
PACKED = {"float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}
TYPES = [number for name, number in TensorProto.DataType.items() if name not in ("UNDEFINED", "STRING")]


def packed(array, bits):
    """The bits of elements of less than a byte, from the lowest bit of the first byte upwards."""
    total = 0
    for position, code in enumerate(array.reshape(-1).view(np.uint8).tolist()):
        total |= (code & (1 << bits) - 1) << position * bits
    return total.to_bytes(-(-array.size * bits // 8), "little")


def as_line(name, array):
    """What a reader makes of an array."""
    dtype = array.dtype.name
    if array.dtype == object:
        return [name, "string", list(array.shape), array.reshape(-1).tolist()]
    if dtype in WIDENED:
        array = array.astype(WIDENED[dtype])
    content = packed(array, PACKED[dtype]) if dtype in PACKED else np.ascontiguousarray(array).tobytes()
    return [name, WIDENED.get(dtype, dtype), list(array.shape), content.hex()]


def dense(sparse, folder):
    """A sparse tensor, with every element."""
    values = numpy_helper.to_array(sparse.values, folder)
    indices = numpy_helper.to_array(sparse.indices, folder)
    array = np.zeros(math.prod(sparse.dims), values.dtype)
    shape = tuple(sparse.dims)
    where = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), shape) if shape else [0] * len(values)
    array[where] = values
    return array.reshape(shape)


def of_nodes(nodes, path, folder):
    for index, node in enumerate(nodes):
        is_constant = node.op_type == "Constant" and node.domain in ("", "ai.onnx")
        for attribute in node.attribute:
            if is_constant and attribute.name == "value" and attribute.HasField("t"):
                yield path + node.output[0], numpy_helper.to_array(attribute.t, folder)
            if is_constant and attribute.name == "sparse_value" and attribute.HasField("sparse_tensor"):
                yield path + node.output[0], dense(attribute.sparse_tensor, folder)
            if attribute.HasField("g"):
                yield from of_graph(attribute.g, f"{path}node[{index}].{attribute.name}.", folder)
            for number, graph in enumerate(attribute.graphs):
                yield from of_graph(graph, f"{path}node[{index}].{attribute.name}[{number}].", folder)


def of_graph(graph, path, folder):
    """Names and arrays, by the rule of spec/onnx-tensors.md §2."""
    yield from of_nodes(graph.node, path, folder)
    for tensor in graph.initializer:
        yield path + tensor.name, numpy_helper.to_array(tensor, folder)
    for sparse in graph.sparse_initializer:
        yield path + sparse.values.name, dense(sparse, folder)


def described(model, folder=""):
    lines = list(of_graph(model.graph, "", folder))
    for index, training in enumerate(model.training_info):
        lines += of_graph(training.initialization, f"training_info[{index}].initialization.", folder)
        lines += of_graph(training.algorithm, f"training_info[{index}].algorithm.", folder)
    for index, function in enumerate(model.functions):
        lines += of_nodes(function.node, f"functions[{index}].", folder)
    return [as_line(name, array) for name, array in lines]


def elements(number, shape):
    """An array whose elements are all different, as far as the type has as many."""
    dtype = helper.tensor_dtype_to_np_dtype(number)
    size = math.prod(shape)
    if dtype == bool:
        return (np.arange(size) % 3 == 0).reshape(shape)
    if dtype.name in WIDENED or dtype.name in PACKED:
        bits = PACKED.get(dtype.name, 4 if "4" in dtype.name else 2)
        codes = (np.arange(size) * 7 + 3) % (1 << bits)
        if dtype.name.startswith("int"):
            codes = np.where(codes >= 1 << bits - 1, codes - (1 << bits), codes)
            return codes.astype(np.int8).astype(dtype).reshape(shape)
        return codes.astype(np.uint8).view(dtype).reshape(shape)
    content = bytes((position * 37 + 11) % 120 for position in range(size * dtype.itemsize))
    return np.frombuffer(content, dtype).reshape(shape)


def as_values(number, name, array):
    """A tensor whose elements are in the field of their type. (`make_tensor` rounds numbers, and does not take bits.)"""
    tensor = TensorProto(dims=array.shape, data_type=number, name=name)
    field = getattr(tensor, helper.tensor_dtype_to_field(number))
    kind, flat = array.dtype.name, array.reshape(-1)
    if kind.startswith("complex"):
        field.extend(part for one in flat.tolist() for part in (one.real, one.imag))
    elif kind in ("int4", "uint4", "float4_e2m1fn", "int2", "uint2"):
        field.extend(packed(flat.astype(WIDENED.get(kind, kind)), 2 if "int2" in kind else 4))
    elif kind in ("float16", "bfloat16"):
        field.extend(flat.view(np.uint16).tolist())
    elif kind.startswith(("float8_", "float6_")):
        field.extend(flat.view(np.uint8).tolist())
    else:
        field.extend(flat.astype(np.uint8).tolist() if kind == "bool" else flat.tolist())
    return tensor


def model(tensors, nodes=(), sparse=(), **others):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])
    nodes = [*nodes, helper.make_node("Identity", ["x"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y], tensors, sparse_initializer=sparse)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11, producer_name="made", **others)


def varint(number):
    number &= (1 << 64) - 1
    content = b""
    while number > 0x7F:
        content += bytes([number & 0x7F | 0x80])
        number >>= 7
    return content + bytes([number])


def field(number, kind, content):
    return varint(number << 3 | kind) + (varint(len(content)) + content if kind == 2 else content)


def encodings():
    """Numbers that are not packed, or in several parts: writers of other languages do both."""
    head = TensorProto(dims=[5], data_type=TensorProto.INT64, name="numbers").SerializeToString()
    numbers = head + field(7, 0, varint(-3)) + field(7, 2, varint(1) + varint(-(2**63))) + field(7, 0, varint(2**63 - 1)) + field(7, 2, b"") + field(7, 2, varint(300))
    head = TensorProto(dims=[3], data_type=TensorProto.FLOAT, name="floats").SerializeToString()
    floats = head + field(4, 5, np.float32(1.5).tobytes()) + field(4, 2, np.array([-2, 0.25], np.float32).tobytes())
    head = TensorProto(data_type=TensorProto.COMPLEX128, name="complex").SerializeToString()
    number = head + field(10, 1, np.float64(1.5).tobytes()) + field(10, 1, np.float64(-2).tobytes())
    # Dimensions are packed here; fields that a later version may have are passed over.
    halves = field(1, 2, varint(2) + varint(1)) + field(2, 0, varint(10)) + field(8, 2, b"halves") + field(5, 2, varint(0x3C00) + varint(0xC000)) + field(100, 5, b"abcd")
    whole = model([])
    graph = whole.graph.SerializeToString() + b"".join(field(5, 2, one) for one in (numbers, floats, number, halves))
    whole.ClearField("graph")
    return whole.SerializeToString() + field(7, 2, graph)


def tensor(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def graphs():
    """Initializers of graphs in nodes, the same name in two of them, and nodes without a name."""
    def branch(value, *nodes):
        out = helper.make_tensor_value_info("out", TensorProto.FLOAT, [1])
        return helper.make_graph([*nodes, helper.make_node("Identity", ["w"], ["out"])], "b", [], [out], [tensor("w", np.float32([value]))])

    inner = helper.make_node("If", ["c"], ["z"], then_branch=branch(3), else_branch=branch(4))
    outer = helper.make_node("If", ["c"], ["z"], then_branch=branch(1), else_branch=branch(2, inner))
    several = helper.make_node("Several", ["x"], ["q"], domain="other", graphs=[branch(5), branch(6)])
    constant = helper.make_node("Constant", [], ["k"], value=tensor("other name", np.int64([[7]])))
    number = helper.make_node("Constant", [], ["not a tensor"], value_float=1.0)
    foreign = helper.make_node("Constant", [], ["foreign"], domain="other", value=tensor("", np.int64([8])))
    sparse = helper.make_node("Constant", [], ["s"], sparse_value=helper.make_sparse_tensor(tensor("", np.float32([1])), tensor("", np.int64([1])), [2]))
    fill = helper.make_node("ConstantOfShape", ["shape"], ["f"], value=tensor("", np.float32([1])))
    made = model([tensor("shape", np.int64([2])), tensor("c", np.bool_(True))], [outer, several, constant, number, foreign, sparse, fill])
    body = helper.make_node("Constant", [], ["in function"], value=tensor("", np.float32([9])))
    made.functions.append(helper.make_function("other", "F", [], ["in function"], [body], [helper.make_opsetid("", 25)]))
    training = made.training_info.add()
    training.initialization.CopyFrom(branch(10))
    training.algorithm.CopyFrom(branch(11))
    made.opset_import.append(helper.make_opsetid("other", 1))
    made.doc_string = "not read"
    helper.set_model_props(made, {"author": "someone", "onnx.producer_name": "a property", "gr\u00f6\u00dfe": "\u4e00"})
    return made


def sparse_model():
    def one(name, values, indices, dims):
        return helper.make_sparse_tensor(tensor(name, values), tensor("", np.array(indices, np.int64)), dims)

    return model([], sparse=[
        one("linear", np.float32([1, -2]), [1, 5], [2, 3]),
        one("rows", np.float16([1, -2, 3]), [[0, 2], [1, 0], [1, 2]], [2, 3]),
        one("nothing", np.int64([]), np.zeros((0, 2)), [2, 2]),
        one("empty", np.int64([]), [], [0, 2]),
        one("complex", np.complex64([1 + 2j]), [[1]], [2]),
        one("scalar", np.float32([3]), [0], []),
    ])


def main(folder):
    folder.mkdir(exist_ok=True)
    shapes = {number: [8] if helper.tensor_dtype_to_np_dtype(number).name in PACKED else [3, 3] for number in TYPES}
    arrays = {number: elements(number, shape) for number, shape in shapes.items()}
    scalars = {number: elements(number, []) for number in TYPES if helper.tensor_dtype_to_np_dtype(number).name not in PACKED}
    name = TensorProto.DataType.Name
    raw = [numpy_helper.from_array(array, name(number)) for number, array in arrays.items()]
    raw += [numpy_helper.from_array(array, f"{name(number)} scalar") for number, array in scalars.items()]
    raw += [numpy_helper.from_array(elements(number, [2, 0]), f"{name(number)} empty") for number in TYPES]
    strings = helper.make_tensor("strings", TensorProto.STRING, [2, 2], ["a", "", "gr\u00f6\u00dfe", "\U0001f600"])
    values = [as_values(number, name(number), array) for number, array in arrays.items()]
    values += [as_values(number, f"{name(number)} scalar", array) for number, array in scalars.items()]
    values += [strings, helper.make_tensor("no strings", TensorProto.STRING, [0], [])]
    models = {"raw": model(raw), "values": model(values), "graphs": graphs(), "sparse": sparse_model(), "nothing": model([])}
    for stem, made in models.items():
        (folder / f"{stem}.onnx").write_bytes(made.SerializeToString())
    (folder / "encodings.onnx").write_bytes(encodings())

    # Data in two files, one of them in a folder; at offsets, and as the whole of a file.
    place = folder / "external"
    shutil.rmtree(place, ignore_errors=True)
    (place / "sub").mkdir(parents=True)
    numbers, row, flags = np.arange(6, dtype=np.float32).reshape(2, 3), elements(TensorProto.INT4, [5]), elements(TensorProto.BOOL, [4])
    tensors = [tensor("numbers", numbers), tensor("row", row), tensor("flags", flags), tensor("here", np.float32([1])), tensor("whole", np.int16([1, 2]))]
    content = bytearray(b"before, and the data: ")
    for one in tensors[:3]:
        onnx.external_data_helper.set_external_data(one, "./model.data", len(content), len(one.raw_data), checksum="not compared")
        content += one.raw_data
        one.ClearField("raw_data")
    (place / "model.data").write_bytes(content)
    onnx.external_data_helper.set_external_data(tensors[4], "sub/whole.bin")
    (place / "sub" / "whole.bin").write_bytes(tensors[4].raw_data)
    tensors[4].ClearField("raw_data")
    (place / "external.onnx").write_bytes(model(tensors).SerializeToString())

    for path in sorted(folder.rglob("*.onnx")):
        made = onnx.load(path, load_external_data=False)
        lines = described(made, str(path.parent))
        path.with_suffix(".json").write_text("[\n" + ",\n".join(json.dumps(line) for line in lines) + "\n]\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
