# Batches from two processes, which pass tensors in shared memory.
# part: slow
# requires: torch==2.15.0 numpy==2.4.6
import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, position):
        return torch.full((100,), float(position) ** 2)


def run():
    sums = [batch.sum().item() for batch in DataLoader(Squares(), batch_size=8, num_workers=2)]
    return {"numbers": sums}
