"""Writes the PyTorch checkpoints of tests/torch.rs into a folder, each with the tensors that PyTorch itself reads of it: FILE.json, a list of
[NAME, DTYPE, SHAPE, BYTES IN HEXADECIMAL DIGITS], in the order of the file.

    python torch_files.py tests/data/torch

Writes into `sharded` what huggingface_hub makes of tensors in several files; transformers 5 writes them as safetensors only.
Needs PyTorch 2.15 and huggingface_hub 2.4, or newer. `flattened` and `tensor_bytes` are also what torch_peers.py compares with.
"""

import collections
import json
import sys
from pathlib import Path

import torch

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
    torch.float64, torch.complex64, torch.complex128,
]
# Those whose storages have no class of their own.
NEW_DTYPES = [
    torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
]


def tensor_bytes(tensor):
    """The elements in C order, little-endian."""
    # Elements are copied as such: not every type can be made contiguous.
    flat = torch.empty(tensor.shape, dtype=tensor.dtype)
    flat.copy_(tensor.detach())
    return bytes(flat.reshape(-1).view(torch.uint8).tolist()) if flat.numel() else b""


def flattened(value, name="data", is_root=True):
    """Names and tensors, by the rule of spec/torch.md §4."""
    if isinstance(value, torch.Tensor):
        yield name, value
        return
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        return
    for key, item in items:
        yield from flattened(item, str(key) if is_root else f"{name}.{key}", False)


def described(value):
    return [
        [name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape), tensor_bytes(tensor).hex()]
        for name, tensor in flattened(value)
    ]


def of_dtype(dtype, shape):
    n_elements = 1
    for size in shape:
        n_elements *= size
    if dtype == torch.bool:
        return (torch.arange(n_elements) % 3 == 0).reshape(shape)
    n_bytes = n_elements * dtype.itemsize
    # Every byte is another, and none makes a NaN that a copy could change.
    return (torch.arange(n_bytes, dtype=torch.int64) * 7 % 100 + 10).to(torch.uint8).view(dtype).reshape(shape)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(3, 2)
        self.norm = torch.nn.BatchNorm1d(2)
        self.head = torch.nn.Linear(2, 3)
        # A tied weight: two names, one storage.
        self.head.weight = self.embedding.weight


def training():
    torch.manual_seed(5)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    net.head(net.norm(net.embedding(torch.tensor([0, 1, 2])))).sum().backward()
    optimizer.step()
    return net, optimizer


def views():
    base = of_dtype(torch.int16, (4, 6))
    deep = of_dtype(torch.float32, (2, 3, 4, 5))
    return {
        "base": base,
        "row": base[2],
        "column": base[:, 3],
        "transposed": base.t(),
        "every_second": base[::2, 1::2],
        "expanded": base[:1].expand(5, 6),
        "scalar": base[1, 1],
        "empty": base[:0],
        "empty_and_expanded": torch.empty(0).expand(3, 0),
        "overlapping": base.reshape(-1).as_strided((3, 4), (2, 1), 5),
        "permuted": deep.permute(3, 0, 2, 1),
        "channels_last": deep.to(memory_format=torch.channels_last),
        "of_ones": deep[:1, :, :1].permute(2, 0, 3, 1),
    }


def with_attributes():
    parameter = torch.nn.Parameter(torch.arange(3.0))
    parameter.is_of_head = True
    tensor = torch.arange(4)
    tensor.note = "kept elsewhere"
    return {"parameter": parameter, "tensor": tensor, "subclass": torch.nn.Buffer(torch.ones(2))}


def nested():
    counts = collections.Counter("abca")
    return {
        "epoch": 3, "lr": 0.1, "name": "a name", "nothing": None, "is_best": True, "bytes": b"\0\xff", "large": 1 << 80,
        "set": {1, 2}, "counts": counts, "device": torch.device("cuda:0"), "dtype": torch.bfloat16, "size": torch.Size([2, 3]),
        "complex": 1j, "array": bytearray(b"ab"),
        "layers": [{"weight": torch.ones(2)}, {"weight": torch.zeros(2), "of": (torch.tensor(1), [torch.tensor([2])])}],
        7: torch.tensor(7, dtype=torch.int8), "é": {"": torch.tensor([True])},
    }


def sharded(folder):
    """Two files and their index, and `expected.json` with what PyTorch reads of them: [DTYPE, SHAPE, BYTES] by name."""
    # torch_peers.py does without.
    from huggingface_hub import save_torch_state_dict

    folder.mkdir(exist_ok=True)
    matrix = torch.arange(12.0).reshape(3, 4)
    tensors = {
        "a": matrix, "tied": matrix, "transposed": matrix.t()[:2], "ids": torch.arange(6), "half": torch.ones(2, 2, dtype=torch.bfloat16),
        "flags": torch.tensor([True, False]),
    }
    save_torch_state_dict(tensors, folder, safe_serialization=False, max_shard_size=60)
    weight_map = json.loads((folder / "pytorch_model.bin.index.json").read_text())["weight_map"]
    files = {file: torch.load(folder / file, weights_only=True) for file in sorted(set(weight_map.values()))}
    expected = {}
    for name, file in weight_map.items():
        [[_, *what]] = described({name: files[file][name]})
        assert [what] == [what for _, *what in described({name: tensors[name]})]
        expected[name] = what
    assert len(files) == 2 and set(expected) == set(tensors)
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    sharded(folder / "sharded")
    net, optimizer = training()
    checkpoint = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 1}
    old = {str(dtype).removeprefix("torch."): of_dtype(dtype, (2, 3)) for dtype in DTYPES}
    new = {str(dtype).removeprefix("torch."): of_dtype(dtype, (2, 3)) for dtype in NEW_DTYPES}
    files = {
        "dtypes": {**old, **new}, "dtypes-old": old, "views": views(), "state-dict": net.state_dict(), "training": checkpoint,
        "nested": nested(), "list": [torch.ones(1), torch.zeros(2)], "tensor": torch.arange(4.0).reshape(2, 2), "nothing": {},
        "attributes": with_attributes(),
    }
    for name, value in files.items():
        expected = json.dumps(described(value), separators=(",", ":")).replace("],[", "],\n[") + "\n"
        (folder / f"{name}.json").write_text(expected)
        # PyTorch reads storages without a type in archives only.
        is_old = name not in ("dtypes",)
        for protocol in (2, 3, 4, 5) if name in ("views", "nested") else (2,):
            path = folder / (f"{name}.pt" if protocol == 2 else f"{name}-{protocol}.pt")
            torch.save(value, path, pickle_protocol=protocol)
            if is_old:
                stream = path.with_suffix(".stream.pt")
                torch.save(value, stream, pickle_protocol=protocol, _use_new_zipfile_serialization=False)
            for path in [path, stream] if is_old else [path]:
                found = torch.load(path, weights_only=protocol == 2, map_location="cpu")
                assert described(found) == described(value), path


if __name__ == "__main__":
    main()
