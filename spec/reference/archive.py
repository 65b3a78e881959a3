"""Reads the zip file of a carton (carton-format.md, "The zip file"). Records and their fields are those of the ZIP Application Note."""

import struct
import zlib

import names
import zstandard
from refusal import Refused

END = b"PK\x05\x06"
ZIP64_LOCATOR = b"PK\x06\x07"
ZIP64_END = b"PK\x06\x06"
CENTRAL_HEADER = b"PK\x01\x02"
LOCAL_HEADER = b"PK\x03\x04"
ZIP64_FIELD, UNICODE_PATH = 0x0001, 0x7075

STORED, DEFLATE, ZSTD = 0, 8, 93
# The most bytes that one compressed byte can stand for.
MAX_RATIO = {STORED: 1, DEFLATE: 1032, ZSTD: 32768}
MAX_ENTRIES = 1 << 20
MAX_DIRECTORY = 256 << 20
MAX_WINDOW = 128 << 20


class Entry:
    """A file, a folder or a link, as a header of the central directory describes it."""

    def __init__(self, header, raw_name, extra):
        (made_by, self.needed, self.flags, self.method, self.crc, self.packed_size, self.size, self.disk, attributes, self.offset) = (
            header
        )
        self.raw_name = raw_name
        self._take_extra(extra)
        self._check_support()
        self._take_kind(made_by >> 8, attributes >> 16)

    def _take_extra(self, extra):
        for kind, content in fields(extra):
            if kind == ZIP64_FIELD:
                self.size, self.packed_size, self.offset, self.disk = zip64_values(
                    content, (self.size, self.packed_size, self.offset, self.disk)
                )
        check_unicode_path(extra, self.raw_name)

    def _check_support(self):
        if self.flags & 1 or self.flags & 1 << 6 or self.flags & 1 << 13:
            raise Refused("unsupported", f"{self.raw_name!r} is encrypted or masked")
        if self.flags & 1 << 5:
            raise Refused("unsupported", f"{self.raw_name!r} is patch data")
        if self.method not in MAX_RATIO:
            raise Refused("unsupported", f"{self.raw_name!r} is compressed by method {self.method}")
        if self.needed & 0xFF > 63:
            raise Refused("unsupported", f"{self.raw_name!r} needs version {self.needed} of zip")
        if self.disk != 0:
            raise Refused("unsupported", "the archive is on several disks")
        if self.size > self.packed_size * MAX_RATIO[self.method]:
            raise Refused("archive", f"{self.raw_name!r} cannot inflate to {self.size} bytes")

    def _take_kind(self, system, mode):
        is_folder = self.raw_name.endswith(b"/")
        self.kind = "folder" if is_folder else "file"
        type_bits = mode & 0o170000 if system in (3, 19) else 0
        if type_bits:
            expected = {0o100000: "file", 0o120000: "link", 0o040000: "folder"}.get(type_bits)
            if expected is None:
                raise Refused("unsupported", f"{self.raw_name!r} is neither file, folder nor symbolic link")
            if is_folder != (expected == "folder"):
                raise Refused("unsupported", f"mode and name of {self.raw_name!r} contradict each other")
            self.kind = expected
        self.path = names.check(self.raw_name[:-1] if is_folder else self.raw_name)
        if self.kind == "folder" and self.size:
            raise Refused("archive", f"the folder {self.raw_name!r} has data")


class Archive:
    """A zip file in memory, whose directory was checked."""

    def __init__(self, data):
        self.data = data
        offset, size, n_entries, end_records = self._end_records()
        if n_entries > MAX_ENTRIES or size > MAX_DIRECTORY:
            raise Refused("limit", "the central directory is too large")
        if offset + size != end_records:
            raise Refused("archive", "the central directory does not end where the end records begin")
        self.directory_offset = offset
        self.entries = self._directory(offset, end_records, n_entries)
        self._check_extents()
        names.check_together(
            [entry.path for entry in self.entries if entry.kind != "folder"],
            [entry.path for entry in self.entries if entry.kind == "folder"],
        )

    def _end_records(self):
        """§4.3.14 to §4.3.16. Offset and size of the directory, its headers, and where the end records begin."""
        data = self.data
        begin = len(data)
        while True:
            begin = data.rfind(END, 0, begin + 3)
            if begin < 0:
                raise Refused("archive", "no end of central directory reaches to the end of the file")
            if begin + 22 <= len(data) and begin + 22 + struct.unpack_from("<H", data, begin + 20)[0] == len(data):
                break
        if END in data[begin + 22 :]:
            raise Refused("archive", "the comment contains the signature of an end record")
        disk, directory_disk, on_disk, n_entries, size, offset = struct.unpack_from("<4x4H2L", data, begin)
        narrow = (disk, directory_disk, on_disk, n_entries, size, offset)
        full = (0xFFFF,) * 4 + (0xFFFFFFFF,) * 2
        complete = offset + size == begin and n_entries != 0xFFFF
        if not complete and begin >= 20 and data[begin - 20 : begin - 16] == ZIP64_LOCATOR:
            locator_disk, wide_begin, n_disks = struct.unpack_from("<LQL", data, begin - 16)
            if data[wide_begin : wide_begin + 4] != ZIP64_END or wide_begin + 56 > begin - 20:
                raise Refused("archive", "there is no zip64 end record where its locator says")
            record_size, *wide = struct.unpack_from("<4xQ4xLLQQQQ", data, wide_begin)
            if wide_begin + 12 + record_size != begin - 20:
                raise Refused("archive", "the zip64 end record does not end where its locator begins")
            if any(a not in (most, b) for a, b, most in zip(narrow, wide, full)):
                raise Refused("archive", "the two end records contradict each other")
            if locator_disk != 0 or n_disks > 1:
                raise Refused("unsupported", "the archive is on several disks")
            narrow, begin = wide, wide_begin
        disk, directory_disk, on_disk, n_entries, size, offset = narrow
        if disk != 0 or directory_disk != 0 or on_disk != n_entries:
            raise Refused("unsupported", "the archive is on several disks")
        return offset, size, n_entries, begin

    def _directory(self, offset, end, n_entries):
        """§4.3.12."""
        entries = []
        while offset < end:
            if offset + 46 > end or self.data[offset : offset + 4] != CENTRAL_HEADER:
                raise Refused("archive", f"no header of the central directory is at {offset}")
            (made_by, needed, flags, method, crc, packed, size, n_name, n_extra, n_comment, disk, attributes, local) = (
                struct.unpack_from("<4x4H4x3L4H2xLL", self.data, offset)
            )
            name_end = offset + 46 + n_name
            next_offset = name_end + n_extra + n_comment
            if next_offset > end:
                raise Refused("archive", f"the header at {offset} is longer than the central directory")
            header = (made_by, needed, flags, method, crc, packed, size, disk, attributes, local)
            entries.append(Entry(header, self.data[offset + 46 : name_end], self.data[name_end : name_end + n_extra]))
            offset = next_offset
        if len(entries) != n_entries:
            raise Refused("archive", f"the directory has {len(entries)} headers and the end record says {n_entries}")
        return entries

    def _check_extents(self):
        """No byte from a local header to the end of its data belongs to two entries or to the central directory."""
        end = 0
        for entry in sorted(self.entries, key=lambda entry: entry.offset):
            if entry.offset < end:
                raise Refused("archive", f"{entry.path!r} shares bytes with another entry")
            end = self._data_offset(entry) + entry.packed_size
            if end > self.directory_offset:
                raise Refused("archive", f"{entry.path!r} reaches into the central directory")

    def _data_offset(self, entry):
        offset = entry.offset
        if offset + 30 > self.directory_offset or self.data[offset : offset + 4] != LOCAL_HEADER:
            raise Refused("archive", f"there is no local header of {entry.path!r} at {offset}")
        return offset + 30 + sum(struct.unpack_from("<HH", self.data, offset + 26))

    def read(self, entry):
        """The data of an entry, checked as far as the archive itself says what it is."""
        flags, method, crc, packed_size, size, n_name, n_extra = struct.unpack_from("<6xHH4x3LHH", self.data, entry.offset)
        begin = self._data_offset(entry)
        name = self.data[entry.offset + 30 : entry.offset + 30 + n_name]
        for kind, content in fields(self.data[begin - n_extra : begin]):
            if kind == ZIP64_FIELD:
                size, packed_size = zip64_values(content, (size, packed_size))
        check_unicode_path(self.data[begin - n_extra : begin], name)
        if (name, method, flags) != (entry.raw_name, entry.method, entry.flags):
            raise Refused("archive", f"local and central header of {entry.path!r} contradict each other")
        if not flags & 8 and (crc, packed_size, size) != (entry.crc, entry.packed_size, entry.size):
            raise Refused("archive", f"local and central header of {entry.path!r} contradict each other")
        packed = self.data[begin : begin + entry.packed_size]
        content = self._inflate(entry, packed)
        if len(content) != entry.size:
            raise Refused("archive", f"{entry.path!r} has {len(content)} bytes where {entry.size} are declared")
        if zlib.crc32(content) != entry.crc:
            raise Refused("archive", f"{entry.path!r} has another CRC-32 than is declared")
        return content

    @staticmethod
    def _inflate(entry, packed):
        if entry.method == STORED:
            return packed
        if entry.method == ZSTD:
            try:
                return zstandard.decompress(packed, entry.size, MAX_WINDOW)
            except zstandard.TooLarge as error:
                raise Refused("limit", f"{entry.path!r}: {error}") from error
            except zstandard.ZstdError as error:
                raise Refused("archive", f"{entry.path!r} is not zstd: {error}") from error
        inflater = zlib.decompressobj(-15)
        try:
            content = inflater.decompress(packed, entry.size + 1)
        except zlib.error as error:
            raise Refused("archive", f"{entry.path!r} is not Deflate: {error}") from error
        if len(content) > entry.size:
            raise Refused("archive", f"{entry.path!r} inflates to more than {entry.size} bytes")
        if not inflater.eof or inflater.unused_data:
            raise Refused("archive", f"the data of {entry.path!r} does not end where it is said to")
        return content


def fields(extra):
    """§4.5.1: the extra fields of a header, by their identifier."""
    offset, seen = 0, set()
    while offset + 4 <= len(extra):
        kind, size = struct.unpack_from("<HH", extra, offset)
        if offset + 4 + size > len(extra):
            raise Refused("archive", "an extra field is cut off")
        if kind in (ZIP64_FIELD, UNICODE_PATH) and kind in seen:
            raise Refused("archive", f"the extra field {kind:#06x} is there twice")
        seen.add(kind)
        yield kind, extra[offset + 4 : offset + 4 + size]
        offset += 4 + size


def check_unicode_path(extra, name):
    """Refuses an Info-ZIP Unicode path (version, CRC-32, path) that is not the header's name."""
    for kind, content in fields(extra):
        if kind == UNICODE_PATH and content[:1] == b"\x01" and len(content) >= 5 and content[5:] != name:
            raise Refused("archive", f"the Unicode path of {name!r} is another one")


def zip64_values(content, values):
    """§4.5.3: `values` with those that do not fit their place replaced by what the zip64 field says."""
    result, offset = [], 0
    for n, value in enumerate(values):
        most, size = (0xFFFF, 4) if n == 3 else (0xFFFFFFFF, 8)
        if value == most:
            if offset + size > len(content):
                raise Refused("archive", "a zip64 field lacks a value")
            value = int.from_bytes(content[offset : offset + size], "little")
            offset += size
        result.append(value)
    return tuple(result)
