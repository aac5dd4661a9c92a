# SPDX-License-Identifier: Apache-2.0
"""Trains a small network by DistributedDataParallel with Gloo and with Capstan, and compares the losses
and the time of a step: torchrun --nproc-per-node 2 ddp.py (or python3 -m torch.distributed.run)."""

import time

import capstan_torch  # noqa: F401: registers the backend
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 30


def train(group, rank):
    """The losses of all steps, and the median time of one."""
    torch.manual_seed(1)  # the same network on all ranks, for both backends
    network = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(128, 128), nn.Tanh())), nn.Linear(128, 1))
    model = DistributedDataParallel(network, process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.Generator().manual_seed(rank)  # each rank has data of its own
    losses, times = [], []
    for _ in range(STEPS):
        x = torch.randn(32, 128, generator=data)
        begin = time.perf_counter()
        loss = (model(x) - x.mean(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - begin)
        losses.append(loss.item())
    return losses, sorted(times)[STEPS // 2]


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    results = {name: train(dist.new_group(backend=name), rank) for name in ("gloo", "capstan")}
    difference = max(abs(a - b) / abs(a) for a, b in zip(results["gloo"][0], results["capstan"][0]))
    assert difference < 1e-4, difference
    if rank == 0:
        for name, (losses, step) in results.items():
            print(f"{name:8} loss {losses[0]:.6f} -> {losses[-1]:.6f}, {step * 1e3:.2f} ms a step")
        print(f"largest relative difference of a loss: {difference:.1e}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
