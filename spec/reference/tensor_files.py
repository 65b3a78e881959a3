"""Tensors in safetensors and zTensor files (safetensors.md; ztensor.md), as far as a carton has such files. Pure: a file's bytes in, tensors out.

Each reader returns the tensors of a file by name, as (dtype in the file's words, shape, bytes) or, for an object that a carton cannot
refer to, None.
"""

import json

from refusal import Refused

BITS = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "U16": 16,
    "I16": 16,
    "F16": 16,
    "BF16": 16,
    "U32": 32,
    "I32": 32,
    "F32": 32,
    "U64": 64,
    "I64": 64,
    "F64": 64,
    "C64": 64,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "F4": 4,
}
MAX_HEADER = 100_000_000
MAX_DIMENSIONS = 64


def _require(condition, text):
    if not condition:
        raise Refused("tensor", text)


def _is_unsigned(value):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64


def read_safetensors(data):
    """safetensors.md §1 to §5."""
    _require(len(data) >= 8, "safetensors §1.1: the file is too short")
    length = int.from_bytes(data[:8], "little")
    if length > MAX_HEADER:
        raise Refused("limit", "safetensors §1.2: the header is too long")
    _require(8 + length <= len(data), "safetensors §1.3: the header is cut off")
    header = _safetensors_header(data[8 : 8 + length])
    # Null counts as absent.
    metadata = header.pop("__metadata__", None)
    metadata = {} if metadata is None else metadata
    _require(isinstance(metadata, dict) and all(isinstance(v, str) for v in metadata.values()), "safetensors §3")
    tensors, ranges = {}, []
    for name, entry in header.items():
        _require(isinstance(entry, dict) and set(entry) == {"dtype", "shape", "data_offsets"}, "safetensors §4")
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        _require(isinstance(dtype, str) and dtype in BITS, "safetensors §4.1")
        _require(isinstance(shape, list) and all(map(_is_unsigned, shape)), "safetensors §4")
        _require(len(shape) <= MAX_DIMENSIONS, "safetensors §4.2")
        _require(isinstance(offsets, list) and len(offsets) == 2 and all(map(_is_unsigned, offsets)), "safetensors §4")
        begin, end = offsets
        n_bits = _product(shape) * BITS[dtype]
        _require(n_bits < 1 << 64 and n_bits % 8 == 0 and end - begin == n_bits // 8, "safetensors §4.3")
        ranges.append((begin, end))
        tensors[name] = (dtype, shape, data[8 + length + begin : 8 + length + end])
    reached = 0
    for begin, end in sorted(ranges):
        _require(begin == reached, "safetensors §5.1, §5.2: a gap or an overlap")
        reached = end
    _require(8 + length + reached == len(data), "safetensors §5.3, §5.4: the data ends elsewhere")
    return tensors


def _safetensors_header(content):
    """§2. JSON as RFC 8259 has it, which Python's parser is more lenient than."""

    def no_duplicates(pairs):
        _require(len({key for key, _ in pairs}) == len(pairs), "safetensors §2.5: a key is there twice")
        return dict(pairs)

    def integer(text):
        _require(len(text) <= 20 and text[0] != "-", "safetensors §4: not an integer of 64 bits")
        return int(text)

    def no_constant(text):
        raise Refused("tensor", f"safetensors §2.4: {text} is not JSON")

    _require(content[:1] == b"{", "safetensors §2.2")
    _require(content.rstrip(b" ")[-1:] == b"}", "safetensors §2.3")
    try:
        header = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=no_duplicates,
            parse_int=integer,
            parse_constant=no_constant,
        )
        json.dumps(header, ensure_ascii=False).encode("utf-8")  # no escape for half of a surrogate pair
    except (ValueError, RecursionError) as error:
        raise Refused("tensor", f"safetensors §2.1, §2.4: {error}") from error
    return header


def _product(shape):
    """The number of elements, multiplied from the first dimension to the last."""
    product = 1
    for size in shape:
        product *= size
        _require(product < 1 << 64, "the number of elements does not fit in 64 bits")
    return product


ZT_MAGIC = b"ZTEN1000"
ZT_SIZES = {
    "f64": 8, "i64": 8, "u64": 8, "complex64": 8, "complex128": 16, "f32": 4, "i32": 4, "u32": 4, "f16": 2, "bf16": 2,
    "i16": 2, "u16": 2, "i8": 1, "u8": 1, "bool": 1, "f8_e4m3": 1, "f8_e5m2": 1,
}  # fmt: skip
ZT_LOGICAL = {
    "f8_e4m3fn": "u8", "f8_e4m3": "u8", "f8_e5m2": "u8", "f8_e4m3fnuz": "u8", "f8_e5m2fnuz": "u8", "f8_e8m0fnu": "u8",
    "f6_e2m3fn": "u8", "f6_e3m2fn": "u8", "f4_e2m1fn": "u8", "complex64": "f32", "complex128": "f64",
}  # fmt: skip
# The storage types of 1.1 that logical types have another name for.
ZT_OTHER_NAMES = {"f8_e4m3fn": "f8_e4m3"}
# The bits of an element whose logical type changes them.
ZT_LOGICAL_BITS = {"complex64": 64, "complex128": 128, "f6_e2m3fn": 6, "f6_e3m2fn": 6, "f4_e2m1fn": 4}
ZT_COMPONENTS = {
    "dense": ("data",),
    "sparse_csr": ("values", "indices", "indptr"),
    "sparse_coo": ("values", "coords"),
    "quantized_group": ("packed_weight", "scales", "zeros"),
}


def read_ztensor(data):
    """ztensor.md §1 to §4: what a reader checks when it opens a file."""
    _require(data[:8] == ZT_MAGIC and data[-8:] == ZT_MAGIC and len(data) >= 25, "zTensor §1.1")
    size = int.from_bytes(data[-16:-8], "little")
    if size > MAX_HEADER:  # carton-format-extensions.md; the format itself has 1 GiB (§1.2)
        raise Refused("limit", "zTensor §1.2: the manifest is too large")
    begin = len(data) - 16 - size
    _require(begin >= 8, "zTensor §1.2: the manifest does not fit")
    manifest = Cbor(data[begin:-16]).document()
    version = _field(manifest, "version", str)
    _require(version == "1" or version.startswith("1."), "zTensor §2.3: another version")
    _field(manifest, "attributes", dict, required=False)
    tensors, blobs = {}, []
    for name, entry in _field(manifest, "objects", dict).items():
        _require(isinstance(name, str) and isinstance(entry, dict), "zTensor §2.4")
        tensors[name] = _ztensor_object(entry, data, begin, blobs)
    reached = 0
    for blob in sorted(set(blobs)):
        _require(blob[0] >= reached, "zTensor §1.4: two components share some of their bytes")
        reached = blob[1]
    return tensors


def _field(table, name, kind, required=True):
    value = table.get(name)
    if value is None and not required:
        return None
    _require(isinstance(value, kind) and not (kind is int and not _is_unsigned(value)), f"zTensor §2: `{name}`")
    return value


def _ztensor_object(entry, data, manifest, blobs):
    shape = _field(entry, "shape", list)
    _require(len(shape) <= MAX_DIMENSIONS and all(map(_is_unsigned, shape)), "zTensor §2.4: `shape`")
    layout = _field(entry, "format", str)
    _field(entry, "attributes", dict, required=False)
    components = _field(entry, "components", dict)
    _require(all(role in components for role in ZT_COMPONENTS.get(layout, ())), "zTensor §2.4: a component is missing")
    tensor = None
    for role, component in components.items():
        _require(isinstance(role, str) and isinstance(component, dict), "zTensor §2.5")
        dtype = _field(component, "dtype", str)
        _require(dtype in ZT_SIZES, "zTensor §3.1: an unknown storage type")
        logical = _field(component, "type", str, required=False)
        is_same = ZT_OTHER_NAMES.get(logical, logical) == dtype
        _require(logical is None or is_same or ZT_LOGICAL.get(logical, dtype) == dtype, "zTensor §3.2: a type over another dtype")
        offset, length = _field(component, "offset", int), _field(component, "length", int)
        _require(offset % 64 == 0 and offset + length <= manifest and (offset >= 64 or length == 0), "zTensor §1.3")
        if length:
            blobs.append((offset, offset + length))
        encoding = _field(component, "encoding", str, required=False) or "raw"
        _require(encoding in ("raw", "zstd"), "zTensor §4.1: an unknown encoding")
        n_bytes = _field(component, "uncompressed_length", int, required=False)
        if encoding == "raw":
            _require(n_bytes in (None, length), "zTensor §4.1: a raw component with another size")
            n_bytes = length
        elif n_bytes is not None and n_bytes > length * 32768:
            raise Refused("limit", "zTensor §4.2: zstd cannot inflate that far")
        _field(component, "digest", str, required=False)
        if n_bytes is not None:
            unknown = logical is not None and logical not in ZT_LOGICAL
            if layout == "dense" and role == "data" and not unknown:
                n_bits = _product(shape) * ZT_LOGICAL_BITS.get(logical, 8 * ZT_SIZES[dtype])
                _require(n_bits < 1 << 67 and n_bits == 8 * n_bytes, "zTensor §3.5: the size is not that of the shape")
            else:
                _require(n_bytes % ZT_SIZES[dtype] == 0, "zTensor §3.5: half an element")
        if (layout, role, encoding, logical) == ("dense", "data", "raw", None):
            tensor = (dtype, shape, data[offset : offset + length])
    return tensor


class Cbor:
    """CBOR (RFC 7049), as far as ztensor.md §2.1 and §2.2 allow it. Values that are no field may be of any kind."""

    def __init__(self, data):
        self.data, self.offset = data, 0

    def document(self):
        for tag in (b"\xd9\xd9\xf7", b"\xda\0\0\xd9\xf7", b"\xdb\0\0\0\0\0\0\xd9\xf7"):
            if self.data.startswith(tag):  # it marks CBOR, and is no value
                self.offset = len(tag)
        value = self._value(1)
        _require(isinstance(value, dict) and self.offset == len(self.data), "zTensor §2.1: not one CBOR map")
        return value

    def _take(self, size):
        _require(self.offset + size <= len(self.data), "zTensor §2.1: the manifest is cut off")
        self.offset += size
        return self.data[self.offset - size : self.offset]

    def _value(self, depth):
        initial = self._take(1)[0]
        major, low = initial >> 5, initial & 31
        _require(depth <= 64, "zTensor §2.1: values are nested too deep")
        if low < 24:
            number = low
        elif low < 28:
            number = int.from_bytes(self._take(1 << (low - 24)), "big")
        else:
            _require(low == 31 and major in (2, 3, 4, 5), "zTensor §2.1: not CBOR")
            number = None
        if major == 0:
            return number
        if major == 1:
            return -1 - number
        if major in (2, 3):
            return self._string(major, number)
        if major == 4:
            return [self._value(depth + 1) for _ in self._items(number)]
        if major == 5:
            return self._map(number, depth)
        if major == 6:
            return ("tag", number, self._value(depth + 1))
        if low > 24:
            return ("float", low, number)
        _require(low != 24 or number >= 32, "zTensor §2.1: a simple value that is not CBOR")
        return {20: False, 21: True, 22: None}.get(number, ("simple", number))

    def _items(self, number):
        if number is not None:
            _require(number <= len(self.data) - self.offset, "zTensor §2.1: more items than bytes")
            yield from range(number)
            return
        while self.data[self.offset : self.offset + 1] != b"\xff":
            _require(self.offset < len(self.data), "zTensor §2.1: the manifest is cut off")
            yield None
        self.offset += 1

    def _string(self, major, number):
        if number is None:
            pieces = []
            for _ in self._items(None):
                initial = self.data[self.offset]
                _require(initial >> 5 == major and initial & 31 != 31, "zTensor §2.1: a string of something else")
                pieces.append(self._value(1))
            return (b"" if major == 2 else "").join(pieces)
        content = self._take(number)
        try:
            return content if major == 2 else content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refused("tensor", "zTensor §2.1: a text is not UTF-8") from error

    def _map(self, number, depth):
        result, encoded = {}, set()
        for _ in self._items(number):
            begin = self.offset
            key = self._value(depth + 1)
            spelling = self.data[begin : self.offset]
            _require(spelling not in encoded, "zTensor §2.2: a key is there twice")
            encoded.add(spelling)
            key = key if isinstance(key, str) else (type(key).__name__, spelling)
            _require(key not in result, "zTensor §2.2: a key is there twice")
            result[key] = self._value(depth + 1)
        return result
