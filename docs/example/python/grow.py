# SPDX-License-Identifier: Apache-2.0
"""Training that loses a rank, continues with the others, and goes on with a new process that joins.

    capstan run -n 3 --keep-going -- python3 grow.py
"""

import os
import signal
import subprocess
import sys

import numpy as np
from numpy.typing import NDArray

import capstan as cs

STEPS, WANTED = 90, 3


def gradient_at(weights: NDArray[np.float64], step: int, rank: int) -> NDArray[np.float64]:
    """The gradient of one rank's batch, which pulls the weights to rows that differ from rank to rank."""
    batch = np.random.default_rng(100 * step + rank).normal(loc=3.0, scale=0.1, size=weights.size)
    gradient: NDArray[np.float64] = weights - batch
    return gradient


def adopt_state(comm: cs.Communicator, weights: NDArray[np.float64], step: int) -> int:
    """The rank that is ahead leads: some may have had the result of the last call, a new one has nothing."""
    ahead = int(np.argmax(comm.all_gather(np.array([step]))))
    comm.broadcast(weights, ahead)
    return int(comm.broadcast(np.array([step]), ahead)[0])


def start_new_process(name: str, secret: str) -> None:
    """Whatever watches a job would do this: another machine, a queue of spares, a person."""
    subprocess.Popen([sys.executable, __file__, name], env=os.environ | {"SECRET_OF_JOB": secret})


joins = len(sys.argv) > 1
if joins:
    name, secret = sys.argv[1], os.environ["SECRET_OF_JOB"]
    comm = cs.join_growing(name=name, secret=secret)
else:
    comm = cs.init()
    name, secret = comm.bcast((f"training {os.getpid()}", os.urandom(16).hex()))
lost_at_step_30 = not joins and comm.rank == 1  # for the example: this one dies
weights, step = np.zeros(1000), 0
if joins:
    step = adopt_state(comm, weights, step)
while step < STEPS:
    if lost_at_step_30 and step == 30:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        if comm.size < WANTED and step >= 60:  # for the example: some steps without it
            if comm.rank == 0:
                start_new_process(name, secret)
            comm = comm.grow(WANTED - comm.size, name=name, secret=secret)
            print(f"rank {comm.rank}, step {step}: {comm.size} ranks again")
            step = adopt_state(comm, weights, step)
        gradient = gradient_at(weights, step, comm.rank)
        comm.all_reduce(gradient, op="average")
    except cs.PeerLost as error:
        print(f"rank {comm.rank}, step {step}: lost {error.ranks}")
        comm = comm.shrink()
        step = adopt_state(comm, weights, step)
        continue
    weights -= 0.2 * gradient
    step += 1

everybody = comm.all_gather(weights)
assert (everybody == everybody[0]).all() and abs(weights.mean() - 3) < 0.01
print(f"rank {comm.rank} of {comm.size}: {STEPS} steps, the same weights on all ranks", flush=True)
comm.barrier()
