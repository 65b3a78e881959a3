"""zTensor files: containers, manifests, types and stored bytes (ztensor.md §1 to §4)."""

import hashlib
import struct

from .tensor_bytes import MAGIC, Pairs, Raw, cbor, dense, manifest, ztensor
from .zip_records import zstd_block, zstd_frame
from .ztensor_case import PAIR, blobs_of, case, described, pair, pair_reads, with_object

STORAGE = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u64": 8, "u32": 4, "u16": 2, "u8": 1, "bool": 1,
}  # fmt: skip
# The storage type of each logical type, and the bytes of eight elements.
LOGICAL = {
    "f8_e4m3fn": ("u8", 8), "f8_e4m3": ("u8", 8), "f8_e5m2": ("u8", 8), "f8_e4m3fnuz": ("u8", 8), "f8_e5m2fnuz": ("u8", 8),
    "complex64": ("f32", 64), "complex128": ("f64", 128), "f8_e8m0fnu": ("u8", 8), "f6_e2m3fn": ("u8", 6), "f6_e3m2fn": ("u8", 6),
    "f4_e2m1fn": ("u8", 4),
}  # fmt: skip


def cases():
    return [*accepted(), *containers(), *manifests(), *types(), *stored(), *of_versions()]


def accepted():
    contents = {dtype: bytes(range(2 * size)) for dtype, size in STORAGE.items()}
    contents["bool"] = b"\x00\x01"
    blobs, offsets = blobs_of(contents.values())
    storage = {d: dense([2, 1], d, offset, len(contents[d])) for d, offset in zip(contents, offsets)}
    logical_contents = {logical: bytes(range(size)) for logical, (_, size) in LOGICAL.items()}
    logical_blobs, offsets = blobs_of(logical_contents.values())
    logical = {
        name: dense([8], LOGICAL[name][0], offset, len(logical_contents[name]), type=name)
        for name, offset in zip(logical_contents, offsets)
    }
    digest = "sha256:" + hashlib.sha256(PAIR).hexdigest()
    two = manifest({"a": dense([2], "u8", 64, 2)})
    shared = {"a": dense([2], "u8", 64, 2), "b": dense([1], "u16", 64, 2)}
    tagged = "may stand in front of it, once"
    indefinite = Raw(b"\xbf" + b"".join(cbor(k) + cbor(v) for k, v in two.items()) + b"\xff")
    frame = zstd_frame([zstd_block(0, PAIR, last=True)])
    zstd = dense([2], "u8", 64, len(frame), uncompressed_length=2, encoding="zstd")
    zstd_11 = dense([2], "u8", 64, len(frame), encoding="zstd")
    frames = zstd_frame([zstd_block(0, b"\x01", last=True)]) + zstd_frame([zstd_block(0, b"\x02", last=True)])
    zstd_two = dense([2], "u8", 64, len(frames), uncompressed_length=2, encoding="zstd")
    by_role = {name: {"data": content} for name, content in contents.items()}
    logical_by_role = {name: {"data": content} for name, content in logical_contents.items()}
    crc = "crc32c:0x" + f"{crc32c(PAIR):08X}"
    return [
        case("storage-types", "every storage type", "3.1", "`dtype` must be one of these", ztensor(manifest(storage), blobs), described(storage, by_role)),
        case("logical-types", "every logical type", "3.2", "A type of this table must be over its `dtype`", ztensor(manifest(logical), logical_blobs), described(logical, logical_by_role)),
        case("unknown-type", "a logical type that is not known", "3.3", "A `type` that is not known is no error", pair(type="posit8"), pair_reads()),
        case("version-1", "version 1", "2.3", "Nothing else follows from `version`", ztensor(manifest({"a": dense([2], "u8", 64, 2)}, "1"), PAIR), pair_reads()),
        case("version-1-7", "version 1.7", "2.3", "Nothing else follows from `version`", ztensor(manifest({"a": dense([2], "u8", 64, 2)}, "1.7"), PAIR), pair_reads()),
        case("least", "no objects", "1.1", "there must be 25 bytes at least", ztensor(manifest({})), described({}, {})),
        case("indefinite-lengths", "a map of indefinite length", "2.1", "Lengths may be definite or indefinite, integers of any width", ztensor(indefinite, PAIR), pair_reads()),
        case("wide-integers", "an offset in eight bytes", "2.1", "Lengths may be definite or indefinite, integers of any width", pair(offset=Raw(b"\x1b" + struct.pack(">Q", 64))), pair_reads()),
        case("null-fields", "fields that are null", "2.1", "`null` is the same as no field for those that need not be there", pair(type=Raw(b"\xf6"), encoding=Raw(b"\xf6"), digest=Raw(b"\xf6")), pair_reads()),
        case("unknown-fields", "fields that a reader does not know", "2.2", "Fields that are not described here are ignored", pair(future=[1, {"x": None}]), pair_reads()),
        case("attributes", "attributes of the file", "2.6", "Names (text) and values of any kind", ztensor(manifest({"a": dense([2], "u8", 64, 2)}, attributes={"k": [1, "v", b"b", None, True]}), PAIR), pair_reads()),
        case("scalar", "an object of no dimensions", "3.5", "The product of the dimensions (1 for none)", ztensor(manifest({"a": dense([], "u8", 64, 1)}), b"\x05"), pair_reads([], b"\x05")),
        case("padding", "gaps that are not zero", "1.5", "A reader ignores what is in them", ztensor(manifest({"a": dense([2], "u8", 128, 2)}), b"\xff" * 64 + PAIR), pair_reads(), findings=["padding"]),
        case("empty-component", "a component of no bytes at the offset of the next one", "1.3", "A component of no bytes may have any such offset", ztensor(manifest({"a": dense([2], "u8", 64, 2), "b": dense([0], "u8", 64, 0)}), PAIR), described({"a": dense([2], "u8", 64, 2), "b": dense([0], "u8", 64, 0)}, {"a": {"data": PAIR}, "b": {"data": b""}})),
        case("shared-blob", "two objects of the same bytes, one of them as another type", "1.4", "each component says by itself what the bytes are", ztensor(manifest(shared), PAIR), described(shared, {"a": {"data": PAIR}, "b": {"data": PAIR}})),
        case("self-described", "the tag of CBOR before the manifest", "2.1", tagged, ztensor(Raw(b"\xd9\xd9\xf7" + cbor(two)), PAIR), pair_reads()),
        case("self-described-in-eight-bytes", "the same tag, its number in eight bytes", "2.1", tagged, ztensor(Raw(b"\xdb" + struct.pack(">Q", 55799) + cbor(two)), PAIR), pair_reads()),
        case("zstd", "a component in zstd", "4.2", "it must decompress to `uncompressed_length` bytes", ztensor(manifest({"a": zstd}), frame), pair_reads()),
        case("zstd-without-a-size", "zstd as 1.1 has it", "4.2", "then a dense tensor must decompress to what its shape asks for", ztensor(manifest({"a": zstd_11}, "1.1.0"), frame), pair_reads()),
        case("zstd-two-frames", "two zstd frames", "4.2", "One or more zstd frames, and nothing after them", ztensor(manifest({"a": zstd_two}), frames), pair_reads()),
        case("sha256", "a digest", "4.3", "`sha256:` and 64 hexadecimal digits", pair(digest=digest), pair_reads()),
        case("sha256-upper-case", "a digest in upper case", "4.3", "lower case when written, either when read", pair(digest=digest[:7] + digest[7:].upper()), pair_reads()),
        case("crc32c", "a CRC-32C", "4.3", "`crc32c:0x` and 8 hexadecimal digits", pair(digest=crc), pair_reads()),
        case("crc32c-without-0x", "a CRC-32C without 0x, in lower case", "4.3", "either when read, and also without `0x`", pair(digest=crc.replace("0x", "").lower()), pair_reads()),
        case("other-format", "a format that is not described", "5.5", "Kept and listed; their components can be read one by one", with_object(format="theirs"), {"objects": [{**pair_reads()["objects"][0], "format": "theirs"}]}),
    ]  # fmt: skip


def crc32c(data):
    """The CRC of Castagnoli, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def containers():
    good = pair()
    magic = "The first and the last eight bytes must be `ZTEN1000`, and there must be 25 bytes at least"
    limit = "It must have at most 1 GiB (1,073,741,824 bytes), and lie after the first eight bytes"
    offset = "The `offset` of every component must be a multiple of 64"
    end = "Its bytes must end where the manifest starts, or before"

    same = "Two components must have the very same bytes, from one `offset` on and of one `length`, or share no byte"

    def two(one, other, length=70):
        return ztensor(manifest({"a": dense([70], "u8", one, 70), "b": dense([length], "u8", other, length)}), bytes(300))

    return [
        case("empty", "no bytes", "1.1", magic, b""),
        case("24-bytes", "a byte less than the least", "1.1", magic, MAGIC + bytes(8) + MAGIC),
        case("magic-at-start", "another magic number at the start", "1.1", magic, b"ZTEN1001" + good[8:]),
        case("magic-at-end", "another magic number at the end", "1.1", magic, good[:-1] + b"1"),
        case("version-0-1", "a file of 0.1", "1.1", "0.1, another container: refused with an error that says so", b"ZTEN0001" + good[8:-8] + b"ZTEN0001"),
        case("manifest-too-large", "a manifest of 1 GiB and a byte", "1.2", limit, good[:-16] + struct.pack("<Q", (1 << 30) + 1) + MAGIC, refused="limit"),
        case("manifest-over-the-magic", "a manifest that begins in the magic number", "1.2", limit, good[:-16] + struct.pack("<Q", len(good) - 23) + MAGIC),
        case("offset-not-aligned", "an offset of 65", "1.3", offset, pair(offset=65, length=1)),
        case("empty-not-aligned", "a component of no bytes at an offset of 3", "1.3", offset, ztensor(manifest({"a": dense([0], "u8", 3, 0)}), PAIR)),
        case("into-the-manifest", "a component that ends in the manifest", "1.3", end, ztensor(manifest({"a": dense([3], "u8", 64, 3)}), PAIR)),
        case("end-beyond-64-bits", "an end that does not fit in 64 bits", "1.3", end, ztensor(manifest({"a": dense([2], "u8", (1 << 64) - 64, 100)}), PAIR)),
        case("over-the-magic", "a component at byte 0", "1.3", "any other must not start before byte 64", pair(offset=0)),
        case("overlap", "two components that share some of their bytes", "1.4", same, two(64, 128)),
        case("overlap-from-the-start", "two components of one offset and different lengths", "1.4", same, two(64, 64, 69)),
    ]  # fmt: skip


def manifests():
    one = "One CBOR map (RFC 7049), and nothing after it"
    claims = "No map, array or string may claim more items than there are bytes left"
    types_ = "A field that is described here must have the type described here"
    twice = "No map may have a key twice: neither the manifest, `objects`, an object, `components` nor a component, nor any map in attributes"
    deep = "Values must be nested at most 64 deep, the manifest being the first"
    entry = dense([2], "u8", 64, 2)
    good = cbor(manifest({"a": entry}))

    def nested(depth):
        """The manifest is the first value, the array in an unknown field of it the second, and a number the last."""
        return cbor({"version": "1.2.0", "objects": {}, "x": Raw(b"\x81" * (depth - 2) + b"\x00")})

    return [
        case("cbor-and-more", "a byte behind the map", "2.1", one, ztensor(good + b"\0", PAIR)),
        case("cbor-cut-off", "a map without its last byte", "2.1", one, ztensor(good[:-1], PAIR)),
        case("self-described-twice", "the tag of CBOR twice", "2.1", "may stand in front of it, once", ztensor(b"\xd9\xd9\xf7" * 2 + good, PAIR)),
        case("tag-of-a-date", "a tag that says of the manifest that it is a date", "2.1", one, ztensor(b"\xc0" + good, PAIR)),
        case("no-map", "an array", "2.1", one, ztensor(b"\x80", PAIR)),
        case("no-cbor", "bytes that are no CBOR", "2.1", one, ztensor(b"\x1c", PAIR)),
        case("map-bomb", "a map that claims 2 to the 64 entries", "2.1", claims, ztensor(b"\xbb" + b"\xff" * 8, PAIR)),
        case("text-bomb", "a text that claims 2 to the 63 bytes", "2.1", claims, pair(dtype=Raw(b"\x7b\x7f" + b"\xff" * 7))),
        case("nested-64", "values that are nested 64 deep", "2.1", deep, ztensor(nested(64)), described({}, {})),
        case("nested-65", "values that are nested 65 deep", "2.1", deep, ztensor(nested(65))),
        case("text-not-utf-8", "a name that is not UTF-8", "2.1", one, ztensor(cbor({"version": "1.2.0", "objects": Pairs((Raw(b"\x61\xff"), entry))}), PAIR)),
        case("offset-text", "an offset that is a text", "2.1", types_, pair(offset="64")),
        case("offset-negative", "an offset below 0", "2.1", types_, pair(offset=-64)),
        case("shape-float", "a dimension that is a float", "2.1", types_, with_object(shape=[Raw(b"\xf9\x40\x00")])),
        case("version-number", "a version that is a number", "2.1", types_, ztensor({"version": 1, "objects": {}})),
        case("version-twice", "the version twice", "2.2", twice, ztensor(Pairs(("version", "1.2.0"), ("version", "1.2.0"), ("objects", {})))),
        case("object-twice", "an object twice", "2.2", twice, ztensor(cbor({"version": "1.2.0", "objects": Pairs(("a", entry), ("a", entry))}), PAIR)),
        case("shape-twice", "a shape twice", "2.2", twice, ztensor(manifest({"a": Pairs(("shape", [2]), *entry.items())}), PAIR)),
        case("component-twice", "a component twice", "2.2", twice, with_object(components=Pairs(*list(entry["components"].items()) * 2))),
        case("dtype-twice", "a dtype twice", "2.2", twice, with_object(components={"data": Pairs(("dtype", "u8"), *entry["components"]["data"].items())})),
        case("attribute-twice", "an attribute twice, encoded in two ways", "2.2", "a name that is there twice is an error however it is encoded", ztensor(manifest({}, attributes=Pairs(("k", 1), (Raw(b"\x78\x01k"), 2))))),
        case("digest-half-float", "a digest that is the number 2 to the -24 times 22, whose bits are those of null", "2.1", "A field that is described here must have the type described here", pair(digest=Raw(b"\xf9\x00\x16"))),
        case("version-2", "version 2", "2.3", "Another major version than 1 is refused", ztensor(manifest({}, "2.0.0"))),
        case("version-10", "version 10", "2.3", "Another major version than 1 is refused", ztensor(manifest({}, "10"))),
        case("no-version", "no version", "2.3", "required; `1`, or `1.` and anything", ztensor({"objects": {}})),
        case("no-objects", "no objects", "2.3", "required; objects by name", ztensor({"version": "1.2.0"})),
        case("no-shape", "no shape", "2.4", "required; at most 64 dimensions", with_object(shape=None)),
        case("of-65-dimensions", "a dimension too many", "2.4", "required; at most 64 dimensions", ztensor(manifest({"a": dense([1] * 65, "u8", 64, 1)}), b"\x05")),
        case("no-format", "no format", "2.4", "required; §5", with_object(format=None)),
        case("dense-without-data", "a dense object without data", "2.4", "An object must have the components that its format needs (§5)", with_object(components={"other": entry["components"]["data"]})),
        case("no-dtype", "no dtype", "2.5", "required; §3.1", pair(dtype=None)),
        case("no-offset", "no offset", "2.5", "required; §1.3", pair(offset=None)),
        case("no-length", "no length", "2.5", "required; the bytes in the file", pair(length=None)),
    ]  # fmt: skip


def types():
    product = "The product of the dimensions (1 for none) and the number of bytes must fit in 64 bits"
    size = "the `data` of a dense object must have as many bytes as shape and type ask for, unless its logical type is unknown"
    whole = "any other component must have a whole number of elements of its `dtype`"
    other = {"data": {"dtype": "u8", "offset": 64, "length": 2}, "other": {"dtype": "u16", "offset": 128, "length": 1}}
    return [
        case("dtype-unknown", "a storage type that there is not", "3.1", "`dtype` must be one of these", pair(dtype="u7")),
        case("dtype-in-capitals", "a storage type in capitals", "3.1", "`dtype` must be one of these", pair(dtype="U8")),
        case("dtype-of-another-name", "a logical type as storage type", "3.1", "`dtype` must be one of these", pair(dtype="f8_e4m3fn")),
        case("fp8-that-is-the-dtype", "a storage type of 1.1 that is named as type, too", "3.1", "Those of 1.1 are read wherever they are", pair(dtype="f8_e4m3", type="f8_e4m3"), pair_reads(), findings=["storage-type"]),
        case("fp8-over-i8", "a logical type over another storage type", "3.2", "A type of this table must be over its `dtype`", pair(dtype="i8", type="f8_e5m2")),
        case("complex-over-bytes", "complex numbers over bytes", "3.2", "A type of this table must be over its `dtype`", pair(type="complex64")),
        case("bool-of-2", "a bool that is 2", "3.4", "Others are an error where a caller asks for the check", pair(dtype="bool")),
        case("size-overflow", "a product that does not fit in 64 bits", "3.5", product, ztensor(manifest({"a": dense([1 << 63, 4], "u8", 64, 2)}), PAIR)),
        case("too-few-bytes", "fewer bytes than the shape asks for", "3.5", size, with_object(shape=[3])),
        case("too-many-bytes", "more bytes than the shape asks for", "3.5", size, with_object(shape=[1])),
        case("half-an-element", "half an element of another component", "3.5", whole, ztensor(manifest({"a": {"shape": [2], "format": "dense", "components": other}}), PAIR.ljust(64, b"\0") + b"\x05")),
    ]  # fmt: skip


def stored():
    frame = zstd_frame([zstd_block(0, PAIR, last=True)])

    def zstd(content=frame, size=2, shape=(2,)):
        fields = {} if size is None else {"uncompressed_length": size}
        return ztensor(manifest({"a": dense(list(shape), "u8", 64, len(content), **fields, encoding="zstd")}), content)

    decompress = "it must decompress to `uncompressed_length` bytes"
    digests = "a digest of these algorithms that is malformed, or a text without an algorithm and a colon, is an error"
    unknown = "A digest of another algorithm cannot be compared: a verifier names it, which is no error"
    verified = "Verified when a caller asks for it"
    good = "sha256:" + hashlib.sha256(PAIR).hexdigest()
    return [
        case("encoding-unknown", "an encoding that there is not", "4.1", "`encoding` must be `raw` or `zstd`", pair(encoding="lz4")),
        case("raw-of-another-size", "a raw component with another size", "4.1", "If it has an `uncompressed_length`, that must be the same", pair(uncompressed_length=3)),
        case("zstd-of-fewer", "zstd of fewer bytes than are declared", "4.2", decompress, zstd(zstd_frame([zstd_block(0, b"\x01", last=True)]))),
        case("zstd-of-more", "zstd of more bytes than are declared", "4.2", decompress, zstd(zstd_frame([zstd_block(0, PAIR + b"\x03", last=True)]))),
        case("zstd-of-another-shape", "zstd of 1.1 that is not of the shape", "4.2", "then a dense tensor must decompress to what its shape asks for", zstd(size=None, shape=(3,))),
        case("zstd-and-more", "a byte behind the frame", "4.2", "One or more zstd frames, and nothing after them", zstd(frame + b"\0")),
        case("zstd-cut-off", "a frame without its last byte", "4.2", "One or more zstd frames, and nothing after them", zstd(frame[:-1])),
        case("zstd-bomb", "a size that no zstd of so few bytes can have", "4.2", "(more than 32,768 times as many) is refused before anything is decompressed", zstd(size=32768 * len(frame) + 1, shape=(32768 * len(frame) + 1,)), refused="limit"),
        case("sha256-differs", "another SHA-256", "4.3", verified, pair(digest=good[:-1] + ("0" if good[-1] != "0" else "1")), refused="digest"),
        case("crc32c-differs", "another CRC-32C", "4.3", verified, pair(digest="crc32c:0x00000000"), refused="digest"),
        case("digest-unknown", "an algorithm that is not known", "4.3", unknown, pair(digest="md5:" + "0" * 32), pair_reads()),
        case("digest-without-algorithm", "a digest that names no algorithm", "4.3", digests, pair(digest="0" * 32)),
        case("sha256-too-short", "a SHA-256 of 63 digits", "4.3", digests, pair(digest=good[:-1])),
        case("crc32c-with-sign", "a CRC-32C with a sign", "4.3", digests, pair(digest="crc32c:+1234567")),
    ]  # fmt: skip


def of_versions():
    """Files that can be read, and what the version that they state forbids (§2.7)."""
    frame = zstd_frame([zstd_block(0, PAIR, last=True)])
    first = "a component with a `type` that is not its `dtype`, or with an `uncompressed_length` (§2.5): both came with 1.2"
    old = "a `dtype` that only 1.1 has (§3.1)"
    size = "zstd without `uncompressed_length` (§4.2)"

    def zstd(**fields):
        return dense([2], "u8", 64, len(frame), encoding="zstd", **fields)

    def of(version, *entries, content=PAIR):
        """A file of objects that are the same bytes."""
        objects = {f"t{n}": entry for n, entry in enumerate(entries)}
        reads = described(objects, {name: {"data": PAIR} for name in objects})
        return ztensor(manifest(objects, version), content), reads

    gap = ztensor(manifest({"a": dense([2], "u8", 128, 2)}), PAIR.ljust(63, b"\0") + b"\1" + PAIR)
    behind = ztensor(manifest({"a": dense([2], "u8", 64, 2)}), PAIR + b"\1")
    head = pair()[:63] + b"\1" + pair()[64:]
    fp8 = dense([2], "f8_e4m3", 64, 2)
    return [
        case("padding-of-zeros", "bytes that no blob has, and that are zeros", "2.7", "a gap between blobs that is not zeros (§1.5)", ztensor(manifest({"a": dense([2], "u8", 128, 2)}), bytes(64) + PAIR), pair_reads()),
        case("padding-before-the-first-blob", "a byte before the first blob that is not zero", "2.7", "a gap between blobs that is not zeros (§1.5)", head, pair_reads(), findings=["padding"]),
        case("padding-before-a-blob", "a byte before a blob that is not zero", "2.7", "a gap between blobs that is not zeros (§1.5)", gap, pair_reads(), findings=["padding"]),
        case("padding-before-the-manifest", "a byte before the manifest that is not zero", "2.7", "a gap between blobs that is not zeros (§1.5)", behind, pair_reads(), findings=["padding"]),
        case("type-in-1-1", "a logical type in 1.1", "2.7", first, *of("1.1.0", dense([2], "u8", 64, 2, type="f8_e5m2")), findings=["logical-type"]),
        case("type-in-1-0", "a logical type in 1.0", "2.7", first, *of("1.0", dense([2], "u8", 64, 2, type="f8_e5m2")), findings=["logical-type"]),
        case("unknown-type-in-1-1", "a logical type in 1.1 that is not known", "2.7", first, *of("1.1.0", dense([2], "u8", 64, 2, type="posit8")), findings=["logical-type"]),
        case("type-that-is-the-dtype", "a type in 1.1 that is the dtype", "2.7", first, *of("1.1.0", dense([2], "u8", 64, 2, type="u8"))),
        case("uncompressed-length-in-1-1", "a size of raw bytes in 1.1", "2.7", first, *of("1.1.0", dense([2], "u8", 64, 2, uncompressed_length=2)), findings=["uncompressed-length"]),
        case("size-of-zstd-in-1-1", "the size of zstd in 1.1", "2.7", first, *of("1.1.0", zstd(uncompressed_length=2), content=frame), findings=["uncompressed-length"]),
        case("size-of-zstd-in-1-2", "the size of zstd in 1.2, and none", "2.7", size, *of("1.2.0", zstd(uncompressed_length=2), zstd(), content=frame), findings=["no-uncompressed-length"]),
        case("size-of-zstd-in-1-10", "zstd without its size in 1.10", "2.7", "Later minor versions only add to 1.2", *of("1.10", zstd(), content=frame), findings=["no-uncompressed-length"]),
        case("fp8-of-1-1", "FP8 as a storage type in 1.1", "2.7", old, *of("1.1.0", fp8, dense([2], "f8_e5m2", 64, 2))),
        case("fp8-of-1-1-in-1-2", "FP8 as a storage type in 1.2", "2.7", old, *of("1.2.0", fp8), findings=["storage-type"]),
        case("no-minor-version", "what 1.1 does not have and what 1.2 does not, in a version without a minor number", "2.7", "A version without a minor number, such as `1`, states nothing more", *of("1", fp8, dense([2], "u8", 64, 2, type="f8_e5m2"))),
        case("two-findings", "a logical type and a size in 1.1", "2.7", first, *of("1.1.0", dense([2], "u8", 64, 2, type="f8_e5m2", uncompressed_length=2)), findings=["logical-type", "uncompressed-length"]),
    ]  # fmt: skip
