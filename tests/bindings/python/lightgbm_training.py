# SPDX-License-Identifier: Apache-2.0
"""LightGBM on the ranks of a job, once over Capstan and once over its own sockets: models agree.

Prints the times of both.
"""

from __future__ import annotations

import socket
import time
from typing import Any

import lightgbm as lgb
import numpy as np

import capstan as cs
import capstan_lightgbm

ROWS, FEATURES, TREES = 4000, 40, 30


def rows_of(rank: int) -> tuple[Any, Any]:
    random = np.random.default_rng(rank)
    rows = random.random((ROWS, FEATURES))
    return rows, rows[:, 0] * rows[:, 1] + 0.1 * rows[:, 2]


def train(learner: str, ranks: int, rows: Any, labels: Any, **network: Any) -> tuple[Any, float]:
    parameters = {
        "objective": "regression",
        "tree_learner": learner,
        "num_machines": ranks,
        "pre_partition": True,
        "num_threads": 1,
        "verbosity": -1,
        **network,
    }
    began = time.perf_counter()
    booster = lgb.train(parameters, lgb.Dataset(rows, labels), num_boost_round=TREES)
    return booster.predict(rows_of(0)[0]), time.perf_counter() - began


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def compare(comm: cs.Communicator, learner: str) -> None:
    rows, labels = rows_of(comm.rank)
    with capstan_lightgbm.network(comm):
        ours, our_time = train(learner, comm.size, rows, labels)
    ports = comm.allgather(free_port())
    machines = ",".join(f"127.0.0.1:{port}" for port in ports)
    theirs, their_time = train(
        learner, comm.size, rows, labels, machines=machines, local_listen_port=ports[comm.rank], time_out=2
    )
    for others in comm.allgather(ours):
        np.testing.assert_array_equal(others, ours)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    error = float(np.mean((ours - rows_of(0)[1]) ** 2))
    assert error < 0.01, error
    if comm.rank == 0:
        print(f"LightGBM {lgb.__version__}, {learner}: Capstan {our_time:.2f} s, sockets {their_time:.2f} s")


def a_peer_that_is_gone(comm: cs.Communicator) -> None:
    """The others' training ends with an error that says so."""
    rows, labels = rows_of(comm.rank)
    half = comm.split(0)
    assert half is not None
    if comm.rank == comm.size - 1:
        half.abort("on purpose")
    else:
        with capstan_lightgbm.network(half):
            try:
                train("data", half.size, rows, labels)
            except lgb.basic.LightGBMError as error:
                assert "on purpose" in str(error), error
            else:
                raise AssertionError("it has trained without its peer")
    comm.barrier()


with cs.init(timeout=60) as world:
    for kind in ("data", "voting"):
        compare(world, kind)
    if world.size > 1:
        a_peer_that_is_gone(world)
