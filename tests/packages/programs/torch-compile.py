# Compiles a function with the C++ compiler of the machine.
# part: slow
# requires: torch==2.15.0 numpy==2.4.6
import torch


@torch.compile
def curve(x):
    return torch.sin(x) * torch.exp(-x / 3) + x.cumsum(0)


def run():
    x = torch.linspace(0, 5, 1000)
    return {"numbers": [curve(x).sum().item(), curve(x)[17].item()]}
