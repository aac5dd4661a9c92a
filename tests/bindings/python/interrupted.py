"""One of two ranks: Ctrl-C ends a call on shared memory, before which ranks have to agree.

Rank 1 makes the call only when rank 0 has been interrupted: a wait that ignores signals would hang.
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
if comm.rank == 0:

    def interrupt():
        while not comm.report_data()["entries"]:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    try:
        comm.all_reduce(x)
        raise SystemExit("the call has ended without rank 1")
    except KeyboardInterrupt:
        comm.send(flag, 1)
else:
    comm.recv(flag, 0)
    comm.all_reduce(x)
    assert np.all(x == 3), x[:4]
comm.barrier()
total = np.ones(4)
comm.all_reduce(total)
assert total.tolist() == [2, 2, 2, 2]
print(f"rank {comm.rank}: interrupted, and went on")
