"""Makes torchscript.pt, a TorchScript file that uses files by its operators. Made by Debian's python3-torch 1.13.

    cp make_torchscript.py /tmp && /usr/bin/python3 /tmp/make_torchscript.py torchscript.pt

The copy keeps the path of the checkout out of the file: TorchScript remembers where its source was. Of the operators of libtorch, two name
files, in all releases from 1.13 to 2.15: `aten::from_file` and `aten::save`.
"""

import sys
from typing import Any, Dict

import torch
from torch import nn


class Escapes(nn.Module):
    """Makes the attempt `attempt` on the file `path`, of which it uses `size` bytes. Returns as `bytes` what it read."""

    def forward(self, inputs: Dict[str, Any]) -> Dict[str, Any]:
        attempt = inputs["attempt"]
        assert isinstance(attempt, str)
        path = inputs["path"]
        assert isinstance(path, str)
        size_tensor = inputs["size"]
        assert isinstance(size_tensor, torch.Tensor)
        size = int(size_tensor.item())
        if attempt == "read":
            # Maps the file without changing it.
            found = torch.from_file(path, shared=False, size=size, dtype=torch.uint8)
            return {"bytes": found.clone()}
        if attempt == "write":
            # Maps the file for writing, makes it where it is missing, and makes it longer where it is shorter.
            target = torch.from_file(path, shared=True, size=size, dtype=torch.uint8)
            target.copy_(torch.full([size], 120, dtype=torch.uint8))
            return {"bytes": target.clone()}
        if attempt == "save":
            # Replaces the file by an archive.
            torch.save(torch.zeros([3]), path)
            return {"bytes": torch.zeros([0], dtype=torch.uint8)}
        if attempt == "memory":
            # `size` MiB, which are written to.
            taken = torch.ones([size, 1 << 20], dtype=torch.uint8)
            return {"bytes": taken[0, :8].clone()}
        return {"bytes": torch.zeros([0], dtype=torch.uint8)}


torch.jit.script(Escapes()).save(sys.argv[1])
