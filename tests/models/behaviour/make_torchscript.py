"""Makes torchscript.pt, the model of the behaviour suite, with any release of torch: Debian's python3-torch 1.13 made the one that is here.

    cp make_torchscript.py /tmp && /usr/bin/python3 /tmp/make_torchscript.py torchscript.pt

The copy keeps the path of the checkout out of the file: TorchScript remembers where its source was.
"""

import sys
from typing import Any, Dict

import torch
from torch import Tensor, nn


class Behaviour(nn.Module):
    """Returns `x` as `y`. With an input `rounds` it works first, that often; with an input `fail` it raises."""

    def __init__(self):
        super().__init__()
        self.matrix = torch.full((64, 64), 1 / 64)

    def forward(self, inputs: Dict[str, Any]) -> Dict[str, Any]:
        if "rounds" in inputs:
            rounds = inputs["rounds"]
            assert isinstance(rounds, Tensor)
            power = self.matrix
            for _ in range(int(rounds.item())):
                power = torch.mm(power, self.matrix)
            # Used, so that the loop is not optimized away.
            assert power.dim() == 2
        if "fail" in inputs:
            raise ValueError("no luck in torch")
        return {"y": inputs["x"]}


torch.jit.script(Behaviour()).save(sys.argv[1])
