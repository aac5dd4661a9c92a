# SPDX-License-Identifier: Apache-2.0
"""One of two ranks: Ctrl-C ends a call on shared memory, before which ranks have to agree, and a send.

Rank 1 makes its call only when rank 0 has been interrupted: a wait that ignores signals would hang.
"""

import os
import signal
import threading
import time

import capstan as cs
import numpy as np

comm = cs.init(timeout=60)
x = comm.allocate(1 << 22)
x[:] = comm.rank + 1
flag = np.zeros(1)


def interrupted(call):
    def interrupt():
        while not comm.report_data()["entries"]:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    try:
        call()
    except KeyboardInterrupt:
        return
    raise SystemExit("the call has ended without rank 1")


if comm.rank == 0:
    interrupted(lambda: comm.all_reduce(x))
    comm.send(flag, 1)
else:
    comm.recv(flag, 0)
    comm.all_reduce(x)
    assert np.all(x == 3), x[:4]
comm.barrier()
total = np.ones(4)
comm.all_reduce(total)
assert total.tolist() == [2, 2, 2, 2]
if comm.rank == 0:
    # Offered to rank 1, it cannot be taken back: what it sends has to stay.
    interrupted(lambda: comm.send(np.arange(1 << 22), 1, tag=1))
    others = [np.ones(1 << 22) for _ in range(4)]
    comm.send(flag, 1)
else:
    long = np.zeros(1 << 22, int)
    comm.recv(flag, 0, tag=0)
    comm.recv(long, 0, tag=1)
    assert np.array_equal(long, np.arange(1 << 22))
comm.barrier()
print(f"rank {comm.rank}: interrupted, and went on")
