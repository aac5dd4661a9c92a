# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends whatever waits for a peer that never arrives: interrupts.py

Each call runs in a job of two processes, whose rank 1 does nothing; rank 0 is interrupted once it waits. Its
limits are far longer than the time that this test gives it.
"""

import datetime
import signal
import subprocess
import sys
import tempfile
import time

LIMIT, PATIENCE = datetime.timedelta(hours=1), 60


def calls(torch, dist):
    mine, two = torch.ones(4), [torch.ones(4), torch.ones(4)]
    return {
        "all_reduce": lambda: dist.all_reduce(mine),
        "all_reduce of a sparse one": lambda: dist.all_reduce(torch.eye(3).to_sparse()),
        "all_reduce_coalesced": lambda: dist.all_reduce_coalesced([mine, torch.ones(3)]),
        "all_gather": lambda: dist.all_gather(two, mine),
        "all_to_all_single": lambda: dist.all_to_all_single(torch.ones(4), mine),
        "all_to_all_single by splits": lambda: dist.all_to_all_single(torch.ones(4), mine, [2, 2], [2, 2]),
        "broadcast": lambda: dist.broadcast(mine, 1),
        "reduce_scatter": lambda: dist.reduce_scatter(mine, two),
        "scatter": lambda: dist.scatter(mine, None, 1),
        "gather": lambda: dist.gather(mine, two),
        "recv": lambda: dist.recv(mine, 1),
        "recv from any": lambda: dist.recv(mine),
        "a long send": lambda: dist.send(torch.ones(1 << 22), 1),
        "barrier": lambda: dist.barrier(),
        "wait": lambda: dist.all_reduce(mine, async_op=True).wait(),
        "objects": lambda: dist.all_gather_object([None, None], 1),
        "new_group": lambda: dist.new_group([0, 1]),
    }


def rank(name, number, meeting):
    import capstan_torch  # noqa: F401
    import torch
    import torch.distributed as dist

    dist.init_process_group(
        "capstan", init_method=f"file://{meeting}", rank=int(number), world_size=2, timeout=LIMIT
    )
    call = calls(torch, dist)[name]
    dist.barrier()
    print("ready", flush=True)
    call() if number == "0" else time.sleep(600)


def ends(name, folder):
    command = [sys.executable, __file__, name]
    meeting = f"{folder}/{name}"
    ranks = [
        subprocess.Popen([*command, r, meeting], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for r in "01"
    ]
    try:
        for each in ranks:
            assert each.stdout.readline() == "ready\n", each.communicate()
        time.sleep(0.5)  # a signal before the wait ends it, too
        ranks[0].send_signal(signal.SIGINT)
        _, said = ranks[0].communicate(timeout=PATIENCE)
        assert "KeyboardInterrupt" in said, said
    finally:
        for each in ranks:
            each.kill()
            each.communicate()


def main():
    import torch
    import torch.distributed as dist

    with tempfile.TemporaryDirectory() as folder:
        for name in calls(torch, dist):
            ends(name, folder)
            print(f"{name}: ended", flush=True)


rank(*sys.argv[1:]) if len(sys.argv) > 1 else main()
