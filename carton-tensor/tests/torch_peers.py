"""Changes PyTorch checkpoints at random, and writes what PyTorch reads of them.

    python torch_peers.py FILES FOLDER COUNT SEED

FILES has the checkpoints that torch_files.py made. FOLDER gets COUNT files NUMBER.pt, and `expected.txt` with a line for each: its tensors
as JSON, as torch_files.py describes them; `refused`; or `large` for what is too large to be written down. Files of protocol 2 are read with
`weights_only=True`. PyTorch does not read other protocols so; Python's unpickler reads those, restricted to the same names.
"""

import io
import json
import os
import pickle
import pickletools
import random
import resource
import sys
import types
import warnings
import zipfile
from pathlib import Path

import torch
from torch._weights_only_unpickler import _get_allowed_globals

from torch_files import described, flattened

ALLOWED = {
    name: value for name, value in _get_allowed_globals().items() if not name.endswith("_rebuild_device_tensor_from_numpy")
}
NUMBERS = [0, 1, 2, 3, 4, 7, 8, 255, 256, 65535, 65536, 1 << 31, (1 << 31) - 1, 1 << 32, 1 << 61, 1 << 62, (1 << 63) - 1, 1 << 64, -1, -2]


class Restricted(pickle.Unpickler):
    def __init__(self, file, **_):
        super().__init__(file)

    def find_class(self, module, name):
        module = {"__builtin__": "builtins"}.get(module, module)
        if f"{module}.{name}" not in ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return ALLOWED[f"{module}.{name}"]


RESTRICTED = types.ModuleType("restricted")
RESTRICTED.Unpickler = Restricted
RESTRICTED.load = lambda file, **_: Restricted(file).load()


def number(rng):
    """An opcode for a number."""
    value = rng.choice(NUMBERS)
    return pickle.dumps(value, 2)[2:-1]


def changed_pickle(rng, data):
    """Changes some opcodes of the pickles in `data`, or bytes of them."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        kind = rng.randrange(8)
        if kind < 2:
            at = rng.randrange(len(data))
            data = data[:at] + bytes([rng.choice([rng.randrange(256), data[at] ^ 1 << rng.randrange(8)])]) + data[at + 1:]
            continue
        try:
            ops = list(pickletools.genops(io.BytesIO(data)))
        except Exception:
            continue
        starts = [position for _, _, position in ops] + [len(data)]
        at = rng.randrange(len(ops))
        start, end = starts[at], starts[at + 1] if at + 1 < len(ops) else starts[at] + 1
        one = data[start:end]
        other = rng.randrange(len(ops))
        further = data[starts[other]:starts[other + 1]]
        if kind == 2:
            data = data[:start] + data[end:]
        elif kind == 3:
            data = data[:end] + one + data[end:]
        elif kind == 4:
            data = data[:start] + further + data[end:]
        elif kind == 5:
            data = data[:start] + further + data[start:]
        elif kind == 6:
            numbers = [index for index, (op, _, _) in enumerate(ops) if op.name.startswith(("BININT", "LONG1"))]
            if numbers:
                at = rng.choice(numbers)
                data = data[:starts[at]] + number(rng) + data[starts[at + 1]:]
        else:
            text = [index for index, (op, _, _) in enumerate(ops) if "UNICODE" in op.name or op.name in ("NEWTRUE", "NEWFALSE", "NONE")]
            if text:
                at = rng.choice(text)
                new = rng.choice([b"N", b"\x88", b"\x89", b"]", b"}", b")", number(rng), pickle.dumps(rng.choice(["0", "1", "cpu", "meta", "a.b", ""]), 2)[2:-1].split(b"q\0")[0]])
                data = data[:starts[at]] + new + data[starts[at + 1]:]
    return data


def changed(rng, path):
    data = path.read_bytes()
    kind = rng.randrange(10)
    if kind == 0:
        at = rng.randrange(len(data))
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1:]
    if ".stream" in path.name:
        if kind == 1:
            at = rng.randrange(len(data))
            return data[:at] + data[at + rng.randrange(1, 9):]
        # The fourth pickle has the tensors.
        file, starts = io.BytesIO(data), [0]
        for _ in range(5):
            list(pickletools.genops(file))
            starts.append(file.tell())
        which = rng.choice([0, 1, 2, 3, 3, 3, 3, 3, 3, 4])
        return data[:starts[which]] + changed_pickle(rng, data[starts[which]:starts[which + 1]]) + data[starts[which + 1]:]
    archive = zipfile.ZipFile(io.BytesIO(data))
    entries = [[name, archive.read(name)] for name in archive.namelist()]
    if kind == 1:
        entry = rng.choice(entries)
        change = rng.randrange(4)
        if change == 0:
            entries.remove(entry)
        elif change == 1:
            entry[1] = entry[1][:-1]
        elif change == 2:
            entry[1] += b"\0"
        else:
            entry[0] = rng.choice([entry[0].upper(), entry[0] + "0", rng.choice(entries)[0]])
    else:
        entry = next(entry for entry in entries if entry[0].endswith("data.pkl"))
        entry[1] = changed_pickle(rng, entry[1])
    made = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(made, "w") as archive:
            for name, content in entries:
                archive.writestr(name, content)
    return made.getvalue()


def read(path, is_of_protocol_2):
    """What PyTorch reads of a file, as a line."""
    try:
        if is_of_protocol_2:
            value = torch.load(path, weights_only=True, map_location="cpu")
        else:
            value = torch.load(path, weights_only=False, pickle_module=RESTRICTED, map_location="cpu")
        tensors = [tensor for _, tensor in flattened(value)]
        if sum(tensor.numel() for tensor in tensors) > 1 << 16 or len(tensors) > 1000:
            return "large"
        for tensor in tensors:
            if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
                return "large"
        return json.dumps(described(value), separators=(",", ":"))
    except RecursionError:
        return "large"
    except (Exception, SystemExit):
        return "refused"


def main():
    files, folder, count, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rng = random.Random(seed)
    paths = sorted(files.glob("*.pt"))
    sources = []
    for position in range(count):
        path = rng.choice(paths)
        sources.append(path)
        (folder / f"{position}.pt").write_bytes(changed(rng, path))
    expected = folder / "expected.txt"
    expected.write_text("")
    done = 0
    while done < count:
        # A child, because PyTorch ends the process on some files, or takes all of the memory.
        child = os.fork()
        if child == 0:
            limit = 12 << 30
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            with expected.open("a") as lines:
                for position in range(done, count):
                    is_of_protocol_2 = not sources[position].name.removesuffix(".pt").removesuffix(".stream")[-2:] in ("-3", "-4", "-5")
                    lines.write(read(folder / f"{position}.pt", is_of_protocol_2) + "\n")
                    lines.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        done = expected.read_text().count("\n")
        if status != 0 and done < count:
            with expected.open("a") as lines:
                lines.write("refused\n")
            done += 1


if __name__ == "__main__":
    main()
