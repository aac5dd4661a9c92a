# SPDX-License-Identifier: Apache-2.0
"""One store for several lives of a job: restarts.py RANKS, as torchrun's agent keeps its store.

Each life is a process per rank. In the first one the last rank dies. Each rank of the second one
makes its group three times.
"""

import datetime
import os
import subprocess
import sys
import types

import capstan_torch
import torch
import torch.distributed as dist

TIMEOUT = datetime.timedelta(seconds=100)


def store_of(port, size, is_server):
    return dist.TCPStore("127.0.0.1", port, size, is_server, TIMEOUT, wait_for_workers=False)


def group_of(store, rank, size):
    """As init_process_group makes it; that of PyTorch 1.13 uses a store once."""
    options = types.SimpleNamespace(
        store=store,
        group_rank=rank,
        group_size=size,
        timeout=TIMEOUT,
        global_ranks_in_group=list(range(size)),
    )
    return capstan_torch._create(options, None)


def check_sum(group, size):
    data = torch.ones(100)
    group.allreduce([data]).wait()
    assert data.eq(size).all()


def rank_main(port, rank, size):
    store = store_of(port, size, False)
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        group = group_of(store, rank, size)
        check_sum(group, size)
        if rank == size - 1:
            os._exit(3)
        try:
            group.allreduce([torch.ones(100)]).wait()
        except RuntimeError as error:
            assert f"rank {size - 1}" in str(error), error
        os._exit(0)
    for _ in range(3):
        check_sum(group_of(store, rank, size), size)


def main(size):
    store = store_of(0, size, True)
    for restarts in range(2):
        ranks = [
            subprocess.Popen(
                [sys.executable, __file__, str(store.port), str(rank), str(size)],
                env={**os.environ, "TORCHELASTIC_RESTART_COUNT": str(restarts)},
            )
            for rank in range(size)
        ]
        statuses = [rank.wait() for rank in ranks]
        assert statuses == [0] * (size - 1) + [0 if restarts else 3], statuses


if len(sys.argv) == 2:
    main(int(sys.argv[1]))
else:
    rank_main(*map(int, sys.argv[1:]))
