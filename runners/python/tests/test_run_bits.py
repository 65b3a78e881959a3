"""Which files of an environment are made executable."""

import io
import os
import struct
import sys
import tempfile
import unittest
from pathlib import Path

import support  # noqa: F401, finds the runner
from carton_runner.environments import run_bits


def elf(kind, *segments, bits=64, order="<", tail=b""):
    """Returns a file in ELF (elf(5)). ``segments`` are their types, offsets and sizes in the file."""
    start = b"\x7fELF" + bytes([2 if bits == 64 else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    if bits == 64:
        header = struct.pack(order + "HHIQQQIHHHHHH", kind, 62, 1, 0, 64, 0, 0, 64, 56, len(segments), 0, 0, 0)
        parts = [struct.pack(order + "IIQQQQQQ", type, 4, offset, 0, 0, size, size, 8) for type, offset, size in segments]
    else:
        header = struct.pack(order + "HHIIIIIHHHHHH", kind, 3, 1, 0, 52, 0, 0, 52, 32, len(segments), 0, 0, 0)
        parts = [struct.pack(order + "IIIIIIII", type, offset, 0, 0, size, size, 4, 4) for type, offset, size in segments]
    return start + header + b"".join(parts) + tail


class Programs(unittest.TestCase):
    def check(self, data, expected):
        self.assertEqual(run_bits.is_program(io.BytesIO(data)), expected, data[:80])

    def test_scripts(self):
        self.check(b"#!/bin/sh\n", True)
        self.check(b"#!", True)
        for data in (b"", b"#", b" #!/bin/sh\n", b"\xef\xbb\xbf#!/bin/sh\n", b"import os\n", b"\x7fEL"):
            self.check(data, False)

    def test_programs_and_libraries(self):
        for bits in (64, 32):
            for order in "<>":
                with self.subTest(bits=bits, order=order):
                    form = {"bits": bits, "order": order}
                    self.check(elf(2, **form), True)
                    self.check(elf(3, (1, 0, 9), (3, 0, 9), **form), True)
                    self.check(elf(3, (1, 0, 9), **form), False)
                    self.check(elf(1, (3, 0, 9), **form), False)
                    # A program without an interpreter, and a library.
                    offset = (64 + 56) if bits == 64 else (52 + 32)
                    entry = struct.Struct(order + ("qQ" if bits == 64 else "iI"))
                    for flags, expected in ((0x08000001, True), (1, False)):
                        table = entry.pack(5, 0) + entry.pack(0x6FFFFFFB, flags) + entry.pack(0, 0)
                        self.check(elf(3, (2, offset, len(table)), tail=table, **form), expected)

    def test_what_is_cut_off_or_claims_too_much(self):
        whole = elf(3, (1, 0, 9), (2, 176, 64), tail=bytes(64))
        for length in range(len(whole)):
            self.check(whole[:length], False)
        self.check(elf(3, (2, 2**64 - 1, 2**64 - 1)), False)
        self.check(elf(3, (2, 2**63, 16)), False)
        many = bytearray(elf(3, (1, 0, 9)))
        many[54:58] = struct.pack("<HH", 0, 0xFFFF)
        self.check(bytes(many), False)
        many[32:40] = struct.pack("<Q", 2**64 - 1)
        self.check(bytes(many), False)

    @support.needs_linux
    def test_what_is_on_this_machine(self):
        with open(os.path.realpath(sys.executable), "rb") as file:
            self.assertTrue(run_bits.is_program(file))
        libraries = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so" in line or "libm.so" in line}
        # Some C libraries are programs too.
        for path in libraries:
            with open(path, "rb") as file:
                run_bits.is_program(file)


class Folders(unittest.TestCase):
    def test_a_folder(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "e"
            outside = Path(name) / "outside"

            def write(path, data, mode=0o644):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                path.chmod(mode)
                return path

            write(outside, b"#!/bin/sh\n")
            script = write(folder / "bin/run", b"#!/bin/sh\nexit 0\n")
            program = write(folder / "lib/x/bin/tool", elf(2) + bytes(3 << 20))
            already = write(folder / "bin/already", b"#!/bin/sh\n", 0o700)
            data = write(folder / "lib/x/data.bin", b"data")
            linked = write(folder / "linked", b"#!/bin/sh\n")
            os.link(linked, Path(name) / "cache")
            os.symlink(outside, folder / "bin/link")
            os.symlink(name, folder / "up")
            os.mkfifo(folder / "pipe")
            before = program.read_bytes()
            umask = os.umask(0o022)
            try:
                run_bits.restore(folder)
            finally:
                os.umask(umask)
            modes = {path.name: path.stat().st_mode & 0o777 for path in (script, program, already, data, outside)}
            self.assertEqual(modes, {"run": 0o755, "tool": 0o755, "already": 0o700, "data.bin": 0o644, "outside": 0o644})
            self.assertEqual(program.read_bytes(), before)
            self.assertTrue(os.access(linked, os.X_OK))
            self.assertEqual((Path(name) / "cache").stat().st_mode & 0o777, 0o644)
            self.assertEqual(list(folder.rglob("*.carton-new")), [])
            self.assertTrue((folder / "bin/link").is_symlink())


if __name__ == "__main__":
    unittest.main()
