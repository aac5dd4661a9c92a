# SPDX-License-Identifier: Apache-2.0
"""Training that loses a rank and continues with the others, in the same processes and from the same step.

    capstan run -n 4 --keep-going -- python3 survive.py
"""

import os
import signal

import numpy as np
from numpy.typing import NDArray

import capstan as cs

STEPS = 60


def gradient_at(weights: NDArray[np.float64], step: int, rank: int) -> NDArray[np.float64]:
    """The gradient of one rank's batch, which pulls the weights to rows that differ from rank to rank."""
    batch = np.random.default_rng(100 * step + rank).normal(loc=3.0, scale=0.1, size=weights.size)
    gradient: NDArray[np.float64] = weights - batch
    return gradient


comm = cs.init()
lost_at_step_20 = comm.rank == 1  # for the example: this one dies
weights, step = np.zeros(1000), 0
while step < STEPS:
    if lost_at_step_20 and step == 20:
        os.kill(os.getpid(), signal.SIGKILL)
    gradient = gradient_at(weights, step, comm.rank)
    try:
        comm.all_reduce(gradient, op="average")
    except cs.PeerLost as error:
        print(f"rank {comm.rank}, step {step}: lost {error.ranks}")
        comm = comm.shrink()
        # Some ranks may have had the result of the last call, and others not: the one that is ahead leads.
        ahead = int(np.argmax(comm.all_gather(np.array([step]))))
        step = int(comm.broadcast(np.array([step]), ahead)[0])
        comm.broadcast(weights, ahead)
        continue
    weights -= 0.2 * gradient
    step += 1

everybody = comm.all_gather(weights)
assert (everybody == everybody[0]).all() and abs(weights.mean() - 3) < 0.01
print(f"rank {comm.rank} of {comm.size}: {STEPS} steps, the same weights on all ranks")
