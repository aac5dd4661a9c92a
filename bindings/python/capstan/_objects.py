# SPDX-License-Identifier: Apache-2.0
"""Calls on any objects, which travel as pickles."""

from __future__ import annotations

import contextlib
import functools
import operator
import pickle
from array import array
from typing import Any, Callable, Iterator, Sequence

from ._engine import Communicator, InvalidArgument

_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": operator.add,
    "product": operator.mul,
    "min": min,
    "max": max,
    "bit_and": operator.and_,
    "bit_or": operator.or_,
    "bit_xor": operator.xor,
}


def _packed(value: Any) -> bytes:
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def _lengths(count: int) -> array[int]:
    return array("Q", bytes(8 * count))


def _unpacked(data: bytearray, lengths: Sequence[int]) -> list[Any]:
    objects, begin, view = [], 0, memoryview(data)
    for length in lengths:
        objects.append(pickle.loads(view[begin : begin + length]))
        begin += length
    return objects


@contextlib.contextmanager
def _steps_of(self: Communicator, call: str) -> Iterator[None]:
    """The steps of a call, which peers go on with: a rank that leaves them early ends the communicator.

    What all ranks refuse alike, wrong arguments, ends nothing.
    """
    try:
        yield
    except (InvalidArgument, TypeError):
        raise
    except BaseException as error:
        cause = "Ctrl-C" if isinstance(error, KeyboardInterrupt) else type(error).__name__
        with contextlib.suppress(InvalidArgument):  # it has been closed
            self.abort(f"{cause} has ended {call}() at rank {self.rank}: make another communicator")
        raise


def bcast(self: Communicator, object: Any = None, root: int = 0) -> Any:
    """The root's object, on every rank."""
    data = bytearray(_packed(object) if self.rank == root else b"")
    length = array("Q", [len(data)])
    with _steps_of(self, "bcast"):
        self.broadcast(length, root)
        if self.rank != root:
            data = bytearray(length[0])
        self.broadcast(data, root)
    return object if self.rank == root else pickle.loads(data)


def _objects_of_all(self: Communicator, object: Any, call: str) -> list[Any]:
    data = _packed(object)
    lengths = _lengths(self.size)
    with _steps_of(self, call):
        self.all_gather(array("Q", [len(data)]), out=lengths)
        everything = bytearray(sum(lengths))
        self.all_gather(data, out=everything, counts=list(lengths))
    return _unpacked(everything, lengths)


def allgather(self: Communicator, object: Any) -> list[Any]:
    """The objects of all ranks, in their order, on every rank."""
    return _objects_of_all(self, object, "allgather")


def gather_object(self: Communicator, object: Any, root: int = 0) -> list[Any] | None:
    """As allgather, at the root only; others get None."""
    data = _packed(object)
    lengths = _lengths(self.size)
    with _steps_of(self, "gather_object"):
        self.all_gather(array("Q", [len(data)]), out=lengths)
        everything = bytearray(sum(lengths)) if self.rank == root else None
        self.gather(data, root, out=everything, counts=list(lengths))
    return None if everything is None else _unpacked(everything, lengths)


def scatter_object(self: Communicator, objects: Sequence[Any] | None = None, root: int = 0) -> Any:
    """Rank r gets element r of the root's sequence."""
    parts: list[bytes] = []
    lengths = _lengths(self.size)
    if self.rank == root:
        parts = _parts(self, "scatter_object", objects)
        lengths = array("Q", map(len, parts))
    with _steps_of(self, "scatter_object"):
        self.broadcast(lengths, root)
        data = bytearray(lengths[self.rank])
        self.scatter(b"".join(parts) if parts else None, root, out=data, counts=list(lengths))
    return pickle.loads(data)


def alltoall(self: Communicator, objects: Sequence[Any]) -> list[Any]:
    """Element i of the sequence goes to rank i; element i of the result comes from rank i."""
    parts = _parts(self, "alltoall", objects)
    sent, received = array("Q", map(len, parts)), _lengths(self.size)
    with _steps_of(self, "alltoall"):
        self.all_to_all(sent, out=received)
        everything = bytearray(sum(received))
        self.all_to_all(
            b"".join(parts), out=everything, send_counts=list(sent), receive_counts=list(received)
        )
    return _unpacked(everything, received)


def allreduce(
    self: Communicator, object: Any, op: str | Callable[[Any, Any], Any] = "sum"
) -> Any:
    """Combines the objects of all ranks in the order of ranks: op(op(first, second), third)...

    `op` is a function of two objects, or a name: "sum" is their +, "max" the larger one.
    """
    function = op if callable(op) else _OPERATIONS.get(op)
    if function is None:
        raise InvalidArgument(f"there is no operation '{op}' of objects; there are {' '.join(_OPERATIONS)}")
    return functools.reduce(function, _objects_of_all(self, object, "allreduce"))


def send_object(self: Communicator, object: Any, to: int, tag: int = 0) -> None:
    """Sends an object to a rank, which calls recv_object()."""
    self.send(_packed(object), to, tag)


def recv_object(self: Communicator, source: int | None = None, tag: int | None = None) -> Any:
    """The object that a rank has sent by send_object(); of any rank and tag where none is named."""
    named = {name: value for name, value in (("source", source), ("tag", tag)) if value is not None}
    found = self.probe(**named)
    data = bytearray(found.bytes)
    self.recv(data, found.source, found.tag)
    return pickle.loads(data)


def _parts(self: Communicator, call: str, objects: Sequence[Any] | None) -> list[bytes]:
    if objects is None or len(objects) != self.size:
        raise InvalidArgument(f"{call}: pass a sequence of {self.size} objects, one for each rank")
    return [_packed(one) for one in objects]


METHODS: dict[str, Callable[..., Any]] = {
    "bcast": bcast,
    "allgather": allgather,
    "allreduce": allreduce,
    "alltoall": alltoall,
    "gather_object": gather_object,
    "scatter_object": scatter_object,
    "send_object": send_object,
    "recv_object": recv_object,
}
