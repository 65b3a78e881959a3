"""Zip files as their records, written to bytes as they are, right or wrong (the ZIP Application Note)."""

import struct
import zlib
from dataclasses import dataclass, field

STORED, DEFLATE, ZSTD = 0, 8, 93
FILE, LINK, FOLDER = 0o100644, 0o120777, 0o040755
STREAMED, UTF8 = 1 << 3, 1 << 11


@dataclass
class Entry:
    """An entry. `local` and `central` replace fields of its two headers; the other fields say what both have."""

    name: object
    data: bytes = b""
    method: int = STORED
    packed: bytes = None
    mode: int = FILE
    made_by: int = 3 << 8 | 20
    flags: int = None
    needed: int = 20
    gap: bytes = b""
    # 1980-01-01.
    date: int = 0x21
    zip64: bool = False
    descriptor: bytes = b""
    local: dict = field(default_factory=dict)
    central: dict = field(default_factory=dict)

    def __post_init__(self):
        if isinstance(self.name, str):
            self.name = self.name.encode("utf-8")
        if self.packed is None:
            self.packed = pack(self.data, self.method)
        if self.flags is None:
            self.flags = 0 if self.name.isascii() else UTF8

    def fields(self, offset):
        streamed = bool(self.flags & STREAMED)
        common = {
            "needed": self.needed, "flags": self.flags, "method": self.method, "date": self.date, "name": self.name, "extra": b"",
            "crc": zlib.crc32(self.data), "packed_size": len(self.packed), "size": len(self.data),
        }  # fmt: skip
        local = {**common, **({"crc": 0, "packed_size": 0, "size": 0} if streamed else {})}
        central = {**common, "made_by": self.made_by, "disk": 0, "attributes": self.mode << 16, "offset": offset, "comment": b""}
        if self.zip64:
            sizes = struct.pack("<QQ", len(self.data), len(self.packed))
            local.update(extra=extra(1, sizes), size=0xFFFFFFFF, packed_size=0xFFFFFFFF)
            central.update(
                extra=extra(1, sizes + struct.pack("<Q", offset)), size=0xFFFFFFFF, packed_size=0xFFFFFFFF, offset=0xFFFFFFFF
            )
        return {**local, **self.local}, {**central, **self.central}


def extra(kind, content):
    """An extra field."""
    return struct.pack("<HH", kind, len(content)) + content


def local_header(f):
    return (
        struct.pack("<4s5H3L2H", b"PK\x03\x04", f["needed"], f["flags"], f["method"], 0, f["date"], f["crc"], f["packed_size"],
                    f["size"], len(f["name"]), len(f["extra"]))
        + f["name"] + f["extra"]
    )  # fmt: skip


def central_header(f):
    return (
        struct.pack("<4s6H3L5H2L", b"PK\x01\x02", f["made_by"], f["needed"], f["flags"], f["method"], 0, f["date"], f["crc"],
                    f["packed_size"], f["size"], len(f["name"]), len(f["extra"]), len(f["comment"]), f["disk"], 0,
                    f["attributes"], f["offset"])
        + f["name"] + f["extra"] + f["comment"]
    )  # fmt: skip


def archive(
    entries, zip64=False, comment=b"", end=None, wide_end=None, locator=None, prefix=b"", shift=0, after_entries=b"", after=b""
):
    """A zip file. `end`, `wide_end` and `locator` replace fields of the end records; `shift` is added to all offsets of entries."""
    output, directory = bytearray(prefix), b""
    for entry in entries:
        output += entry.gap
        local, central = entry.fields(len(output) + shift)
        directory += central_header(central)
        output += local_header(local) + entry.packed + entry.descriptor
    output += after_entries
    directory_offset = len(output)
    output += directory
    end_fields = {
        "disk": 0, "directory_disk": 0, "on_disk": len(entries), "entries": len(entries), "size": len(directory),
        "offset": directory_offset + shift,
    }  # fmt: skip
    if zip64:
        wide = {**end_fields, **(wide_end or {})}
        where = {"disk": 0, "offset": len(output), "disks": 1, **(locator or {})}
        output += struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, *wide.values())
        output += struct.pack("<4sLQL", b"PK\x06\x07", *where.values())
        end_fields = dict(zip(end_fields, (0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)))
    end_fields.update(end or {})
    output += struct.pack("<4s4H2LH", b"PK\x05\x06", *end_fields.values(), len(comment)) + comment + after
    return bytes(output)


def pack(data, method):
    """Data in a method, without a compressor: blocks that are stored as they are."""
    if method == DEFLATE:
        return deflate_stored(data)
    if method == ZSTD:
        return zstd_frame([zstd_block(0, data, last=True)])
    return data


def deflate_stored(data):
    """RFC 1951: stored blocks."""
    pieces = [data[n : n + 0xFFFF] for n in range(0, len(data), 0xFFFF)] or [b""]
    output = b""
    for n, piece in enumerate(pieces):
        last = n + 1 == len(pieces)
        output += struct.pack("<BHH", int(last), len(piece), len(piece) ^ 0xFFFF) + piece
    return output


def zstd_block(kind, content, size=None, last=False):
    """RFC 8878, §3.1.1.2: a block, raw (0) or of one byte repeated (1)."""
    size = len(content) if size is None else size
    return struct.pack("<L", int(last) | kind << 1 | size << 3)[:3] + content


def zstd_frame(blocks, window_byte=0x38, descriptor=0):
    """RFC 8878, §3.1.1: a frame without content size and checksum. The window of 0x38 is 128 KiB."""
    return b"\x28\xb5\x2f\xfd" + bytes([descriptor, window_byte]) + b"".join(blocks)


def zstd_repeated(byte, size):
    """A frame of one byte, repeated."""
    blocks = []
    while size > 0:
        piece = min(size, 128 * 1024)
        size -= piece
        blocks.append(zstd_block(1, byte, piece, last=size == 0))
    return zstd_frame(blocks)
