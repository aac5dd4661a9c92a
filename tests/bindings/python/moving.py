# SPDX-License-Identifier: Apache-2.0
"""Checks of calls that only move data: elements of any type, and objects."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

import capstan as cs

RECORD = np.dtype([("place", "i4"), ("weight", "f8")])
MOVED = ["i2", "u2", "g", RECORD, "M8[ns]", "m8[s]", "U3", "S5", "?"]


def pattern(rank: int, dtype: Any) -> Any:
    length = 24 * dtype.itemsize
    return np.frombuffer(((np.arange(length) + rank) % 2).astype("u1").tobytes(), dtype).reshape(6, 4)


def types_that_are_only_moved(comm: cs.Communicator) -> None:
    for kind in MOVED:
        dtype = np.dtype(kind)
        parts = [pattern(r, dtype) for r in range(comm.size)]
        mine, root = parts[comm.rank], comm.size - 1
        got = mine.copy()
        comm.broadcast(got, root)
        same_bytes(got, parts[root])
        same_bytes(comm.all_gather(mine), np.stack(parts))
        same_bytes(comm.all_gather(mine.T), np.stack([part.T for part in parts]))
        spread = np.zeros((comm.size, 6, 8), dtype)[:, :, ::2]
        comm.all_gather(mine, out=spread)
        same_bytes(spread, np.stack(parts))
        gathered = comm.gather(mine, root)
        if comm.rank == root:
            same_bytes(gathered, np.stack(parts))
        counts = [r + 1 for r in range(comm.size)]
        every = comm.all_gather(mine.ravel()[: comm.rank + 1].copy(), counts=counts)
        same_bytes(every, np.concatenate([part.ravel()[: r + 1] for r, part in enumerate(parts)]))
        got = np.zeros(4, dtype)
        comm.scatter(np.concatenate([part[0] for part in parts]) if comm.rank == root else None, root, out=got)
        same_bytes(got, parts[comm.rank][0])
        rows = np.concatenate([part[0] for part in parts])
        exchanged = comm.all_to_all(rows)
        same_bytes(exchanged, np.concatenate([parts[comm.rank][0]] * comm.size))
        column = np.zeros((6, 4), dtype)[:, 1]
        work = comm.send(mine[:, 2], to=(comm.rank + 1) % comm.size, wait=False)
        comm.recv(column, source=(comm.rank - 1) % comm.size)
        work.wait()
        same_bytes(column, parts[comm.rank - 1][:, 2])
    for call in (comm.all_reduce, comm.scan, comm.reduce, comm.reduce_scatter):
        with refused("cannot be combined"):
            call(np.zeros(comm.size, "i2"))
    for call in (comm.all_gather, comm.all_to_all):
        with refused("elements of different types"):
            call(np.zeros(comm.size, "f4"), out=np.zeros(comm.size * (comm.size if call == comm.all_gather else 1), "f8"))


@contextlib.contextmanager
def refused(text: str) -> Iterator[None]:
    """A call is a TypeError that says this. Not pytest's: torchrun's Python may lack it."""
    try:
        yield
    except TypeError as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"not refused: {text}")


def same_bytes(found: Any, wanted: Any) -> None:
    """Dates may be no time, which is unequal to itself."""
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    assert np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(wanted).tobytes()


def objects(comm: cs.Communicator) -> None:
    mine = {"rank": comm.rank, "data": np.arange(comm.rank), "text": "x" * (5000 * comm.rank)}
    for root in range(comm.size):
        got = comm.bcast(mine if comm.rank == root else None, root)
        assert got["rank"] == root and len(got["data"]) == root
    assert [got["rank"] for got in comm.allgather(mine)] == list(range(comm.size))
    assert comm.allreduce((comm.rank,)) == tuple(range(comm.size)), "in the order of ranks"
    assert comm.allreduce(comm.rank, "max") == comm.size - 1
    assert comm.allreduce(2, lambda a, b: a * b) == 2**comm.size
    exchanged = comm.alltoall([(comm.rank, to, "y" * to) for to in range(comm.size)])
    assert exchanged == [(source, comm.rank, "y" * comm.rank) for source in range(comm.size)]
    root = comm.size - 1
    gathered = comm.gather_object(mine, root)
    assert (gathered is not None) == (comm.rank == root)
    if gathered is not None:
        assert [len(got["text"]) for got in gathered] == [5000 * r for r in range(comm.size)]
    parts = [list(range(r)) for r in range(comm.size)] if comm.rank == root else None
    assert comm.scatter_object(parts, root) == list(range(comm.rank))
    if comm.rank == root != 0:
        comm.send_object({"to": 0, "long": bytes(100_000)}, 0, tag=5)
    if comm.rank == 0 != root:
        assert comm.recv_object(root, 5)["to"] == 0
    comm.barrier()
