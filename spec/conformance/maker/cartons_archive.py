"""Cartons whose zip file is what the case is about (carton-format.md, "The zip file")."""

import base64
import struct
import zlib

from .case import Case
from .little_carton import least, whole
from .zip_records import (
    DEFLATE,
    FOLDER,
    STORED,
    STREAMED,
    UTF8,
    ZSTD,
    Entry,
    deflate_stored,
    extra,
    zstd_block,
    zstd_frame,
    zstd_repeated,
)  # fmt: skip

# What zlib and libzstd made of text(), with Huffman codes, matches and, of zstd, a checksum.
TEXT_BY_ZLIB = base64.b64decode(
    "hVZJDsIwEPsKX+uICJDKIsGJ1yNIod5SLhFtEtvjWUq73U/z9bI7TOfztKzTfDtOu2d7LEt/7nvr289S7wXvft62BRR2G/EAw77NPwo4X+veED5h1k9Vf9azCAk3"
    "vtsYqoW9YncUdQiiYnKMsf9m6eEKuPDXTTLFDC5OlnuKb5JiSflTDChnZzeDfkHjW+CGOpzLDcXiWollUF4lpH3P/c9iOKn8VGIaYaL0XKqWCRNpHcT8uVtCixhk"
    "6AwNPw8JQkyFOdIWvBkVCMJZPqwsoiIICdMIwYNX2kEmwqtQ7hldSVHIeZsNehRFl8rBzeChDwDlzE1sPWP6NKeBnEWEdkljJAxJPgB2Dqa85deQB902aEVwl+QP"
    "+yp/UmK1ECDGY/XqtZuHlHJ5wXImDMC+chAZyVUm/TRDBmzouNX6sd0oqM15svJv/D+woCmLYbzq9H0B"
)
TEXT_BY_LIBZSTD = base64.b64decode(
    "KLUv/QRoBQoAksIID9DnZV+JkMy9gzwGoALHAe19d9syuHvffURhijRjIFJqHOOAl6jQFXbmIERgECo7DxEkBCQiKAXGEGLKaAyFZQ2BJWJlwCOTEypSU/g8tTFmpKcz"
    "5N5rn1VZEg5KLgl14mR5r21Uwi+edacARR2jkZXpt2JMLAzulBix5TbwU/JvIMSuzlKIAuEjdpo3baNifgqfYiKL1zdGJIJT7vsggtY08isb7JMIIyyKmogSUZat4Hwa"
    "jjxoFCTcx+OTiZNtPqQwAdnRW9xkl5iggS9qULfGKFxVh65WNxAyEggc3GraSRLDRWokYSY5TvdQj1WRht5RICDLJDfZfmt52VUZKpxMCz0KEwob5Mvczs6AIAuUfE70"
    "tR64D4B6rWkPO6LOaL0siT78acZTpi8dm0KM+XHo5vbbF4dXA4dMUFJmwNcN"
)


def text():
    """Words in a fixed, random order."""
    words, state, chosen = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta"), 7, []
    for _ in range(400):
        state = (state * 1103515245 + 12345) % 2**31
        chosen.append(words[(state >> 16) % 6])
    return " ".join(chosen).encode()


ACCEPTED = "What is accepted"
LOCAL = "its local header must have the same name, method and flags as the central directory, and, unless bit 3 says that the entry was streamed, the same CRC-32 and sizes, after zip64"
DATA = "it must inflate to exactly the declared size, end where the compressed size says, and have the declared CRC-32"
METHODS = (
    "Stored, Deflate (8) and Zstandard (93), which may be several frames, with a window of at most 128 MiB and without dictionaries"
)
INFLATE = "A declared size that the compressed size cannot inflate to is refused at once"
KINDS = "Regular files, symbolic links and folders, by the Unix mode where the archive was made on Unix or macOS"
FOLDERS = "A folder has no data, and needs no line in MANIFEST"
IGNORED = "Dates, comments, internal attributes and unknown extra fields are ignored"
SHARED = (
    "The bytes from the start of the local header to the end of the data belong to no other entry and lie before the central directory"
)
END = "The end of central directory record is the last one in the file whose comment reaches exactly to the file's end"
WEIGHTS = "model/weights.bin"


def accepted(name, about, words, change, base=least, by="format", unpacked=False):
    carton = base()
    change(carton)
    shows = [("carton-format.md", ACCEPTED, words)]
    return Case(f"{name}.carton", about, shows, carton.packed(), reads=carton.reads(), by=by)


def refused(name, reason, about, words, change, by="format"):
    carton = least()
    content = change(carton)
    shows = [("carton-format.md", ACCEPTED, words)]
    return Case(f"{name}.carton", about, shows, content if isinstance(content, bytes) else carton.packed(), refused=reason, by=by)


def cases():
    return [*methods(), *records(), *odd_archives(), *bad_ends(), *bad_directories(), *bad_headers(), *bad_data()]


def methods():
    def every(method):
        def change(carton):
            carton.entries = [Entry(e.name, e.data, method=method) for e in carton.entries]
            carton.manifest_entry = {"method": method}

        return change

    def compressed(method, packed):
        return lambda c: c.add("model/text", text(), method=method, packed=packed)

    zeros = bytes(300_000)
    two_frames = zstd_frame([zstd_block(0, b"one ", last=True)]) + zstd_frame([zstd_block(0, b"two", last=True)])
    skippable = b"\x50\x2a\x4d\x18" + struct.pack("<L", 3) + b"any" + zstd_frame([zstd_block(0, b"data", last=True)])
    return [
        accepted("stored", "every entry is stored", METHODS, every(STORED), whole),
        accepted("deflate", "every entry is Deflate, in blocks that are stored as they are", METHODS, every(DEFLATE), whole),
        accepted("zstd", "every entry is zstd, in raw blocks, even carton.toml and MANIFEST", METHODS, every(ZSTD), whole),
        accepted("deflate-by-zlib", "Deflate with dynamic Huffman codes and matches", METHODS, compressed(DEFLATE, TEXT_BY_ZLIB)),
        accepted("zstd-by-libzstd", "zstd with Huffman codes, sequences and a checksum", METHODS, compressed(ZSTD, TEXT_BY_LIBZSTD)),
        accepted(
            "zstd-two-frames",
            "two zstd frames, one behind the other",
            METHODS,
            lambda c: c.add("model/two", b"one two", method=ZSTD, packed=two_frames),
        ),
        accepted(
            "zstd-skippable-frame",
            "a skippable frame before the data",
            METHODS,
            lambda c: c.add("model/skip", b"data", method=ZSTD, packed=skippable),
        ),
        accepted(
            "zstd-repeated",
            "blocks of one repeated byte",
            METHODS,
            lambda c: c.add("model/zeros", zeros, method=ZSTD, packed=zstd_repeated(b"\0", len(zeros))),
        ),
        accepted(
            "zstd-window-128-mib",
            "a window of exactly 128 MiB",
            METHODS,
            lambda c: c.add("model/window", b"data", method=ZSTD, packed=zstd_frame([zstd_block(0, b"data", last=True)], 17 << 3)),
        ),
        accepted(
            "empty-files",
            "files of no bytes, in each method",
            METHODS,
            lambda c: [c.add("model/0"), c.add("model/8", method=DEFLATE), c.add("model/93", method=ZSTD)],
        ),
        refused(
            "zstd-window-too-large",
            "limit",
            "a window of 144 MiB",
            METHODS,
            lambda c: c.add("model/window", b"data", method=ZSTD, packed=zstd_frame([zstd_block(0, b"data", last=True)], 17 << 3 | 1)),
        ),
        refused("method-12", "unsupported", "bzip2", METHODS, lambda c: c.replace(WEIGHTS, method=12, packed=b"BZh9")),
        refused(
            "stored-larger-than-it-is",
            "archive",
            "a stored entry declares one byte more than it has",
            INFLATE,
            lambda c: c.replace(WEIGHTS, local={"size": 41}, central={"size": 41}),
        ),
        refused(
            "deflate-bomb",
            "archive",
            "10 bytes of Deflate declare 10,321 bytes",
            INFLATE,
            lambda c: c.replace(WEIGHTS, method=DEFLATE, packed=b"\x03" + bytes(9), local={"size": 10321}, central={"size": 10321}),
        ),
        refused(
            "zstd-bomb",
            "archive",
            "13 bytes of zstd declare 425,985 bytes",
            INFLATE,
            lambda c: c.replace(
                WEIGHTS,
                method=ZSTD,
                packed=zstd_frame([zstd_block(1, b"\0", 131072), zstd_block(1, b"\0", 131072, last=True)])[:13],
                local={"size": 425985},
                central={"size": 425985},
            ),
        ),
    ]


def records():
    def streamed(signature):
        def change(carton):
            data = carton.entry(WEIGHTS).data
            numbers = struct.pack("<3L", zlib.crc32(data), len(data), len(data))
            carton.replace(WEIGHTS, flags=STREAMED, descriptor=(b"PK\x07\x08" if signature else b"") + numbers)

        return change

    def no_unix(carton):
        carton.entries = [Entry(e.name, e.data, made_by=20, mode=0o010000) for e in carton.entries]

    def zip64(carton):
        carton.entries = [Entry(e.name, e.data, zip64=True) for e in carton.entries]
        carton.manifest_entry = {"zip64": True}
        carton.zip = {"zip64": True}

    def fields(carton):
        carton.replace(
            WEIGHTS,
            local={"extra": extra(0x5455, b"\x01" + bytes(4)) + extra(0xCAFE, b"?")},
            central={"extra": extra(0xCAFE, b""), "comment": b"a comment"},
        )

    def unicode_path(kind, name):
        field = extra(0x7075, b"\x01" + struct.pack("<L", zlib.crc32(WEIGHTS.encode())) + name)
        return lambda c: c.replace(WEIGHTS, **{kind: {"extra": field}})

    unicode = "An Info-ZIP Unicode path (version 1), of either header, must be the same as the name"
    return [
        accepted("streamed", "an entry with bit 3 and a data descriptor", LOCAL, streamed(True)),
        accepted(
            "streamed-descriptor-without-signature",
            "a data descriptor that begins with the CRC-32",
            "A data descriptor is not looked at",
            streamed(False),
        ),
        accepted(
            "zip64",
            "zip64 fields and records though no value needs them",
            "Each value that the other end record has must be the same in both",
            zip64,
            whole,
        ),
        accepted("not-made-on-unix", "made on FAT, where the upper half of the attributes is no mode", KINDS, no_unix),
        accepted("extra-fields-and-comments", "extra fields that a reader need not know, and a comment of an entry", IGNORED, fields),
        accepted("dates", "a date of 1980-00-00, as other writers have it", IGNORED, lambda c: c.replace(WEIGHTS, date=0)),
        accepted("unicode-path", "an Info-ZIP Unicode path that is the name", unicode, unicode_path("central", WEIGHTS.encode())),
        refused(
            "unicode-path-differs",
            "archive",
            "an Info-ZIP Unicode path in the central directory that is another name",
            unicode,
            unicode_path("central", b"model/other.bin"),
        ),
        refused(
            "unicode-path-differs-locally",
            "archive",
            "an Info-ZIP Unicode path in the local header that is another name",
            unicode,
            unicode_path("local", b"model/other.bin"),
        ),
        accepted(
            "folders",
            "entries for folders, one of them empty",
            FOLDERS,
            lambda c: [c.add(n, mode=FOLDER) for n in ("model/", "misc/", "model/empty/")],
        ),
        accepted(
            "folder-in-deflate", "a folder whose no bytes are Deflate", FOLDERS, lambda c: c.add("model/", mode=FOLDER, method=DEFLATE)
        ),
        refused("folder-with-data", "archive", "a folder with data", FOLDERS, lambda c: c.add("model/", b"data", mode=FOLDER)),
        refused(
            "folder-without-slash",
            "unsupported",
            "the mode of a folder without a slash at the end of the name",
            "which must not contradict each other",
            lambda c: c.replace(WEIGHTS, mode=FOLDER),
        ),
        refused("pipe", "unsupported", "a named pipe", "Other kinds are not supported", lambda c: c.replace(WEIGHTS, mode=0o010644)),
        refused(
            "encrypted",
            "unsupported",
            "bit 0: an encrypted entry",
            "Archives on several disks, encrypted or masked entries and patch data are not supported",
            lambda c: c.replace(WEIGHTS, flags=1),
        ),
        refused(
            "masked",
            "unsupported",
            "bit 13: masked headers",
            "Archives on several disks, encrypted or masked entries and patch data are not supported",
            lambda c: c.replace(WEIGHTS, flags=1 << 13),
        ),
        refused(
            "patch-data",
            "unsupported",
            "bit 5: patch data",
            "Archives on several disks, encrypted or masked entries and patch data are not supported",
            lambda c: c.replace(WEIGHTS, flags=1 << 5),
        ),
        refused(
            "other-disk",
            "unsupported",
            "an entry on another disk",
            "Archives on several disks, encrypted or masked entries and patch data are not supported",
            lambda c: c.replace(WEIGHTS, central={"disk": 1}),
        ),
        refused(
            "needs-later-zip",
            "unsupported",
            "an entry that needs version 6.4 of zip",
            "The version needed to extract is at most 6.3",
            lambda c: c.replace(WEIGHTS, needed=64),
        ),
    ]


def odd_archives():
    def gap(carton):
        carton.entries[1].gap = b"bytes that belong to nobody"

    def prefix(carton):
        carton.zip = {"prefix": b"#!/bin/sh\n"}

    def order(carton):
        carton.entries.reverse()

    return [
        accepted(
            "comment",
            "a comment of the archive",
            "A comment is accepted, unless it contains the signature of that record",
            lambda c: c.zip.update(comment=b"hello"),
        ),
        accepted(
            "bytes-before-first-entry",
            "bytes before the first entry, with offsets that count them",
            "Bytes before the first entry are accepted on these terms, and so are bytes between entries",
            prefix,
        ),
        accepted(
            "bytes-between-entries",
            "bytes between two entries",
            "Bytes before the first entry are accepted on these terms, and so are bytes between entries",
            gap,
        ),
        accepted("other-order", "carton.toml first", "and lie before the central directory", order),
        refused(
            "comment-with-signature",
            "archive",
            "a comment that contains the signature of an end record",
            "A comment is accepted, unless it contains the signature of that record",
            lambda c: c.zip.update(comment=b"PK\x05\x06"),
        ),
        refused(
            "bytes-in-front",
            "archive",
            "bytes put in front of an archive, with the old offsets",
            "An archive with something put in front of it, but with the old offsets, is refused",
            lambda c: b"#!/bin/sh\n" + c.packed(),
        ),
    ]


def bad_ends():
    several = "Archives on several disks, encrypted or masked entries and patch data are not supported"
    place = "The central directory must end where the end records begin, and all offsets count from the start of the file"
    count = "The directory has exactly as many headers as the end record says, and nothing else"
    wide = "Each value that the other end record has must be the same in both"

    def end(**fields):
        return lambda c: c.zip.update(end=fields)

    def between(carton):
        whole_file = carton.packed()
        return whole_file[:-22] + b"gap!" + whole_file[-22:]

    return [
        refused("empty-file", "archive", "no bytes at all", END, lambda c: b""),
        refused("text", "archive", "a text and no zip file", END, lambda c: b"not a zip file\n" * 5),
        refused("cut-off", "archive", "the first half of a carton", END, lambda c: c.packed()[: len(c.packed()) // 2]),
        refused("bytes-behind-the-end", "archive", "a byte behind the end record", END, lambda c: c.zip.update(after=b"\n")),
        refused("directory-ends-early", "archive", "bytes between the central directory and the end record", place, between),
        refused(
            "directory-elsewhere",
            "archive",
            "the end record says that the directory is one byte further",
            place,
            lambda c: c.zip.update(shift=1),
        ),
        refused(
            "entries-too-few",
            "archive",
            "the end record counts one entry less",
            count,
            lambda c: c.zip.update(end={"on_disk": 2, "entries": 2}),
        ),
        refused(
            "entries-too-many",
            "archive",
            "the end record counts one entry more",
            count,
            lambda c: c.zip.update(end={"on_disk": 4, "entries": 4}),
        ),
        refused("several-disks", "unsupported", "an archive of two disks", several, end(disk=1, directory_disk=1)),
        refused(
            "zip64-contradicts",
            "archive",
            "the two end records count entries differently",
            wide,
            lambda c: c.zip.update(zip64=True, end={"entries": 4, "on_disk": 4}),
        ),
        refused(
            "zip64-locator-elsewhere",
            "archive",
            "the locator leads to no zip64 end record",
            wide,
            lambda c: c.zip.update(zip64=True, locator={"offset": 8}),
        ),
        refused(
            "too-many-entries",
            "limit",
            "the zip64 end record claims 1,048,577 entries",
            "At most 1,048,576 entries",
            lambda c: c.zip.update(zip64=True, wide_end={"on_disk": 1048577, "entries": 1048577}),
        ),
    ]


def bad_directories():
    def same_place(carton):
        carton.entries[1].central = {"offset": 0}

    def overlap(carton):
        size = len(carton.entry(WEIGHTS).packed) + 4
        carton.replace(WEIGHTS, local={"packed_size": size, "size": size}, central={"packed_size": size, "size": size})

    def two_fields(carton):
        field = extra(1, struct.pack("<Q", 40))
        carton.replace(WEIGHTS, central={"size": 0xFFFFFFFF, "extra": field + field})

    return [
        refused("two-entries-at-one-place", "archive", "two headers of the directory lead to one local header", SHARED, same_place),
        refused("entries-overlap", "archive", "data of one entry that reaches into the next", SHARED, overlap),
        refused(
            "entry-in-the-directory",
            "archive",
            "an entry that begins in the central directory",
            SHARED,
            lambda c: c.replace("carton.toml", central={"offset": 700}),
        ),
        refused(
            "no-local-header",
            "archive",
            "an offset where there is no local header",
            LOCAL,
            lambda c: c.replace(WEIGHTS, central={"offset": 1}),
        ),
        refused(
            "zip64-field-is-missing",
            "archive",
            "a size that says zip64, and no zip64 field",
            LOCAL,
            lambda c: c.replace(WEIGHTS, local={"size": 0xFFFFFFFF}, central={"size": 40}),
        ),
        refused(
            "extra-field-too-long",
            "archive",
            "an extra field that is longer than there is room for",
            "No extra field may be longer than the rest of them all",
            lambda c: c.replace(WEIGHTS, central={"extra": extra(0xCAFE, b"four")[:-1]}),
        ),
        accepted(
            "extra-padding",
            "three bytes behind the extra fields, as some tools have them",
            "up to three bytes behind the last one are ignored",
            lambda c: c.replace(WEIGHTS, central={"extra": extra(0xCAFE, b"") + bytes(3)}),
        ),
        refused(
            "zip64-field-twice",
            "archive",
            "two zip64 fields in one header",
            "An extra field of these two kinds, zip64 and Unicode path, must not be in one header twice",
            two_fields,
        ),
    ]


def bad_headers():
    def local(what, about, **fields):
        return refused(f"local-{what}", "archive", about, LOCAL, lambda c: c.replace(WEIGHTS, local=fields))

    return [
        local("name", "another name in the local header", name=b"model/Weights.bin"),
        local("method", "another method in the local header", method=DEFLATE),
        local("flags", "another flag in the local header", flags=UTF8),
        local("streamed", "bit 3 in the local header alone", flags=STREAMED),
        local("crc", "another CRC-32 in the local header", crc=1),
        local("size", "another size in the local header", size=41),
        local("packed-size", "another compressed size in the local header", packed_size=41),
    ]


def bad_data():
    def deflated(packed, **fields):
        return lambda c: c.replace(WEIGHTS, method=DEFLATE, packed=packed, **fields)

    data = least().entry(WEIGHTS).data
    whole_data = deflate_stored(data)
    one = zstd_frame([zstd_block(0, data, last=True)])
    wrong_crc = {"crc": 1}
    tools = "a carton that means different things to them is refused"
    return [
        refused(
            "crc",
            "archive",
            "the same wrong CRC-32 in both headers",
            DATA,
            lambda c: c.replace(WEIGHTS, local=wrong_crc, central=wrong_crc),
        ),
        refused(
            "streamed-crc",
            "archive",
            "a streamed entry whose data has another CRC-32",
            DATA,
            lambda c: c.replace(WEIGHTS, flags=STREAMED, central=wrong_crc),
        ),
        refused(
            "stored-shorter",
            "archive",
            "a stored entry of 40 bytes declares 39",
            DATA,
            lambda c: c.replace(WEIGHTS, local={"size": 39}, central={"size": 39}),
        ),
        refused(
            "deflate-more", "archive", "Deflate that inflates to more than is declared", DATA, deflated(deflate_stored(data + b"!"))
        ),
        refused("deflate-less", "archive", "Deflate that inflates to less than is declared", DATA, deflated(deflate_stored(data[:-1]))),
        refused("deflate-cut-off", "archive", "Deflate without its last byte", DATA, deflated(whole_data[:-1])),
        refused("deflate-and-more", "archive", "bytes behind the end of Deflate", DATA, deflated(whole_data + b"more")),
        refused("no-deflate", "archive", "data that is no Deflate", DATA, deflated(b"\xff" * 45)),
        refused(
            "zstd-and-more",
            "archive",
            "bytes behind the last zstd frame",
            DATA,
            lambda c: c.replace(WEIGHTS, method=ZSTD, packed=one + b"more"),
        ),
        refused(
            "zstd-cut-off", "archive", "zstd without its last byte", DATA, lambda c: c.replace(WEIGHTS, method=ZSTD, packed=one[:-1])
        ),
        refused(
            "zstd-less",
            "archive",
            "zstd that inflates to less than is declared",
            DATA,
            lambda c: c.replace(WEIGHTS, method=ZSTD, packed=zstd_frame([zstd_block(0, data[:-1], last=True)])),
        ),
        refused(
            "name-differs-by-tool",
            "archive",
            "a local header that says another path than the directory",
            tools,
            lambda c: c.replace(WEIGHTS, local={"name": b"model/weights.BIN"}),
        ),
    ]
