# SPDX-License-Identifier: Apache-2.0
"""One of two ranks whose program ends while a callback of a future waits: ends.py STORE together|alone.

Together both callbacks make the call that they wait for. Alone, rank 0's waits for a call that rank 1,
which ends later, never makes. The process is to end by itself, without an abort.
"""

import datetime
import os
import sys
import threading

import capstan_torch  # noqa: F401
import torch
import torch.distributed as dist

store, how = sys.argv[1:]
rank = int(os.environ["CAPSTAN_RANK"])
dist.init_process_group(
    "capstan",
    init_method=f"file://{store}",
    rank=rank,
    world_size=2,
    timeout=datetime.timedelta(seconds=100),
)
begun = threading.Event()


def call(_):
    begun.set()
    if how == "together" or rank == 0:
        dist.all_reduce(torch.ones(3))
        print(f"rank {rank}: the callback has its sum", flush=True)


if rank == 1:
    dist.recv(torch.empty(1), 0)
dist.all_reduce(torch.ones(3), async_op=True).get_future().then(call)
if rank == 0:
    dist.send(torch.ones(1), 1)  # only now can the call end, on the progress thread
assert begun.wait(100)
if how == "alone" and rank == 1:
    try:
        dist.recv(torch.empty(1), 0)  # never comes
    except RuntimeError as error:
        assert "rank 0" in str(error), error
