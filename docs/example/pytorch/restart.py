# SPDX-License-Identifier: Apache-2.0
"""Training that torchrun starts again after a rank has died; it continues from its last checkpoint.

    torchrun --standalone --max-restarts 2 --nproc-per-node 2 restart.py CHECKPOINT
"""

import os
import signal
import sys

import capstan_torch  # noqa: F401: registers the backend
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 30


def main():
    torch.set_num_threads(1)
    checkpoint, attempt = sys.argv[1], int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    dist.init_process_group("capstan")
    rank = dist.get_rank()
    torch.manual_seed(1)
    network = nn.Linear(32, 1)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    first = 0
    if os.path.exists(checkpoint):
        state = torch.load(checkpoint, weights_only=True)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    model = DistributedDataParallel(network)
    for step in range(first, STEPS):
        if rank == 1 and attempt == 0 and step == 17:  # for the example
            os.kill(os.getpid(), signal.SIGKILL)
        torch.manual_seed(1000 * step + rank)
        x = torch.randn(16, 32)
        loss = (model(x) - x.mean(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 5 == 4:
            state = {"network": network.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
            torch.save(state, checkpoint + ".part")
            os.replace(checkpoint + ".part", checkpoint)  # whole, or not there
    if rank == 0:
        print(f"attempt {attempt}: steps {first} to {STEPS}, loss {loss.item():.4f}")
    dist.destroy_process_group()


main()
