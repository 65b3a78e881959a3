# part: slow
# requires: torch==2.15.0 numpy==2.4.6
import torch


def run():
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    x = torch.randn(64, 8)
    y = x.sum(dim=1, keepdim=True)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    convolved = torch.nn.functional.conv2d(torch.randn(2, 3, 32, 32), torch.randn(4, 3, 3, 3))
    return {"numbers": [losses[0], losses[-1], convolved.std().item()]}
