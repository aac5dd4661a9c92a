# SPDX-License-Identifier: Apache-2.0
"""One of two ranks whose program ends while a callback waits: ends.py together|alone.

Together both callbacks make the call that they wait for. Alone, rank 0's waits for a call that rank 1,
which ends later, never makes. The process is to end by itself, without an abort.
"""

import sys
import threading

import capstan as cs
import numpy as np

how = sys.argv[1]
comm = cs.init(timeout=100)
begun = threading.Event()


def call(_):
    begun.set()
    if how == "together" or comm.rank == 0:
        comm.all_reduce(np.ones(3))
        print(f"rank {comm.rank}: the callback has its sum", flush=True)


if comm.rank == 1:
    comm.recv(np.ones(1), source=0)
comm.all_reduce(np.ones(3), wait=False).on_complete(call)
if comm.rank == 0:
    comm.send(np.ones(1), to=1)  # only now can the call end, on the progress thread
assert begun.wait(100)
if how == "alone" and comm.rank == 1:
    try:
        comm.recv(np.ones(1), source=0)  # never comes
        raise SystemExit("a message has come")
    except cs.Error as error:
        assert "rank 0" in str(error), error
