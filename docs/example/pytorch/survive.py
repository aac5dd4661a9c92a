# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel that loses a rank and continues with the others, in the same processes.

    capstan run -n 3 --keep-going -- python3 survive.py FOLDER

FOLDER is empty and shared by all ranks: they meet in a file there, which no rank takes with it. With PyTorch
2.14 a group can also change its members itself: torch.distributed._reconfigure().
"""

import json
import os
import signal
import sys
import time
from datetime import timedelta

import capstan_torch  # noqa: F401: registers the backend
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 40
GRACE = float(os.environ.get("GRACE", 1))  # seconds in which a rank that lives says so

me = int(os.environ["CAPSTAN_RANK"])
store = dist.FileStore(f"{sys.argv[1]}/store", -1)


def form_group(members, generation):
    """The group of these processes, which are ranks in this order."""
    place = dist.PrefixStore(f"group {generation}", store)
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group(
        "capstan", store=place, rank=members.index(me), world_size=len(members), timeout=timedelta(seconds=60)
    )


def survivors_of(members, generation):
    """The members that say in time that they live. The first list that somebody writes counts for all."""
    store.set(f"{generation} {me}", "here")
    time.sleep(GRACE)
    here = [member for member in members if store.check([f"{generation} {member}"])]
    mine = json.dumps(here) if store.add(f"{generation} lists", 1) == 1 else None
    if mine:
        store.set(f"{generation} members", mine)
    return json.loads(store.get(f"{generation} members"))


def share_state(network, optimizer, step):
    """Some ranks may have made the last step, and others not: the one that is ahead leads."""
    steps = [None] * dist.get_world_size()
    dist.all_gather_object(steps, step)
    ahead = steps.index(max(steps))
    state = [network.state_dict(), optimizer.state_dict(), step]
    dist.broadcast_object_list(state, ahead)
    network.load_state_dict(state[0])
    optimizer.load_state_dict(state[1])
    return state[2]


def train(network, optimizer, step, dies_at):
    model = DistributedDataParallel(network)
    while step < STEPS:
        if step == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        torch.manual_seed(1000 * step + me)  # each rank has data of its own
        x = torch.randn(16, 32)
        loss = (model(x) - x.mean(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        yield step, loss.item()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)  # the same network on all ranks
    network = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    members, generation, step = list(range(int(os.environ["CAPSTAN_SIZE"]))), 0, 0
    dies_at = 15 if me == 1 else None  # for the example
    losses = []
    while step < STEPS:
        form_group(members, generation)
        step = share_state(network, optimizer, step)
        try:
            for step, loss in train(network, optimizer, step, dies_at):
                losses.append(loss)
        except RuntimeError as error:
            generation += 1
            print(f"process {me}, step {step}: {str(error).splitlines()[0]}", flush=True)
            members = survivors_of(members, generation)
            if me not in members:
                sys.exit(f"process {me} was too late")
    weights = [torch.zeros_like(network[0].weight) for _ in members]
    dist.all_gather(weights, network[0].weight.detach())
    assert all(each.equal(weights[0]) for each in weights)
    assert losses[-1] < losses[0] / 2, losses
    print(f"rank {dist.get_rank()} of {len(members)}: {STEPS} steps, loss {losses[0]:.3f} -> {losses[-1]:.3f}, equal weights")
    dist.destroy_process_group()


main()
