# SPDX-License-Identifier: Apache-2.0
"""Sums gradients over ranks. Start it with `capstan run -n 4 -- python3 all_reduce.py`, or mpirun."""

import numpy as np

import capstan as cs

with cs.init() as comm:
    gradient = np.full(1 << 16, comm.rank + 1.0, np.float32)
    comm.all_reduce(gradient, op="average")

    # The next layer's sum travels while this one is used.
    following = np.full(1 << 16, 2.0, np.float32)
    work = comm.all_reduce(following, wait=False)
    norm = float(np.linalg.norm(gradient))
    work.wait()

    norms = comm.all_gather(np.array([norm]))
    assert np.all(norms == norms[0])
    if comm.rank == 0:
        print(f"{comm.size} ranks, norm {norm:.1f}")
        print(comm.explain("all_reduce", bytes=gradient.nbytes))
