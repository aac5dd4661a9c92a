# SPDX-License-Identifier: Apache-2.0
"""One rank of a job: memory of every layout, compared with numpy byte by byte, also beside the array.

A call gives what numpy computes on the same arrays, or refuses before anything is sent. Layouts that a
TensorView can describe are refused nowhere that they are promised to work.
"""

from __future__ import annotations

import array
import mmap
import sys
from typing import Any, Callable, Iterator

import numpy as np
from numpy.lib.stride_tricks import as_strided

import capstan as cs

REFUSALS = (TypeError, ValueError, BufferError, cs.Error)
Memory = Any  # an array of bytes, all of the memory that a view is of
Cut = Callable[[Memory], Any]


class Interface:
    """Only the array interface."""

    def __init__(self, array: Any) -> None:
        self.__array_interface__ = array.__array_interface__
        self.array = array


class Dlpack:
    """Only DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


WAYS: dict[str, Callable[[Any], Any]] = {"buffer": lambda array: array, "interface": Interface, "DLPack": Dlpack}
NAMES = {"i1": "i8", "u4": "u32", "i8": "i64", "f2": "f16", "f4": "f32", "f8": "f64", "c8": "c64"}


def cuts() -> Iterator[tuple[str, int, Cut, bool]]:
    """Name, bytes of memory, how a view is made of it, whether in-place calls must take it."""
    for name in NAMES:
        for order in "<>":
            dtype = np.dtype(order + name)
            known = dtype.isnative
            size = dtype.itemsize
            yield from fields(dtype, known)
            for steps in ((1,), (2,), (3,), (-1,), (-2,)):
                yield (f"{dtype.str}[::{steps[0]}]", 40 * size, lambda m, d=dtype, s=steps[0]: m.view(d)[::s], known)
            yield f"{dtype.str} not aligned", 20 * size + 1, lambda m, d=dtype: m[1:].view(d), known
            yield f"{dtype.str} of 0 dimensions", 3 * size, lambda m, d=dtype: m.view(d)[1:2].reshape(()), known
            yield f"{dtype.str} of no elements", 8 * size, lambda m, d=dtype: m.view(d).reshape(2, 4)[:, 4:], known
            for axes in ((0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1)):
                yield (
                    f"{dtype.str}[3, 4, 5] with axes {axes}",
                    60 * size,
                    lambda m, d=dtype, a=axes: m.view(d).reshape(3, 4, 5).transpose(a),
                    known,
                )
            yield f"{dtype.str}[4, 5] of [6, 7]", 42 * size, lambda m, d=dtype: m.view(d).reshape(6, 7)[1:5, 2:], known
            yield f"{dtype.str}[4, 1, 5]", 20 * size, lambda m, d=dtype: m.view(d).reshape(4, 1, 5), known
            for shape, strides in (((5, 4), (2, 1)), ((6,), (0,)), ((3, 3), (2, 4)), ((2, 2), (3, 2))):
                yield (
                    f"{dtype.str}{list(shape)} with strides {strides}",
                    20 * size,
                    lambda m, d=dtype, s=shape, t=strides: as_strided(m.view(d), s, [x * d.itemsize for x in t]),
                    known and (shape, strides) == ((2, 2), (3, 2)),
                )
            yield f"{dtype.str} read-only", 20 * size, lambda m, d=dtype: np.frombuffer(bytes(m), d), False


def fields(dtype: Any, known: bool) -> Iterator[tuple[str, int, Cut, bool]]:
    for record in range(dtype.itemsize, 3 * dtype.itemsize + 1):
        for offset in {0, (record - dtype.itemsize) // 2, record - dtype.itemsize}:
            kind = np.dtype({"names": ["x"], "formats": [dtype], "offsets": [offset], "itemsize": record})
            yield (
                f"{dtype.str} at {offset} in records of {record}",
                17 * record,
                lambda m, k=kind: m.view(k)["x"],
                known and record % dtype.itemsize == 0,
            )


def memory(rank: int, length: int, cut: Cut) -> tuple[Memory, Any]:
    """Bytes that tell every place from every other, and in the view small numbers."""
    whole = (np.arange(length) * 37 % 251).astype("u1")
    view = cut(whole)
    if view.flags.writeable:
        view[...] = (np.arange(view.size).reshape(view.shape) * 7 + rank * 3) % 5 + 1
    return whole, view


def beside_root(comm: cs.Communicator, x: Any) -> Any:
    return comm.broadcast(x, root=comm.size - 1)


def copied(x: Any) -> Any:
    result = copy_of(x)
    result[...] = getattr(x, "array", x)
    return result


def round_the_ring(comm: cs.Communicator, x: Any) -> Any:
    """By a receive into x, after a try that reaches no other rank where x cannot be received into."""
    mine = copied(x)
    comm.scan(x)
    work = comm.send(mine, to=(comm.rank + 1) % comm.size, wait=False)
    comm.recv(x, source=(comm.rank - 1) % comm.size)
    work.wait()


IN_PLACE: dict[str, tuple[Callable[[cs.Communicator, Any], Any], Callable[[list[Any], int], Any], bool]] = {
    # the call, what numpy computes of all ranks' views, whether strided memory must be taken
    "all_reduce": (lambda comm, x: comm.all_reduce(x), lambda views, rank: sum_of(views), True),
    "broadcast": (beside_root, lambda views, rank: views[-1], True),
    "scan": (lambda comm, x: comm.scan(x), lambda views, rank: sum_of(views[: rank + 1]), True),
    "fused": (lambda comm, x: comm.all_reduce_fused([x]), lambda views, rank: sum_of(views), True),
    "out": (lambda comm, x: comm.all_reduce(copied(x), out=x), lambda views, rank: sum_of(views), True),
    "recv": (lambda comm, x: round_the_ring(comm, x), lambda views, rank: views[rank - 1], True),
}

def received(comm: cs.Communicator, x: Any) -> Any:
    """The next rank's, sent round a ring."""
    result = copy_of(x)
    with comm.group():
        comm.recv(result, source=(comm.rank + 1) % comm.size)
        comm.send(x, to=(comm.rank - 1) % comm.size)
    return result


OF_INPUTS: dict[str, tuple[Callable[[cs.Communicator, Any], Any], Callable[[list[Any], int], Any]]] = {
    "all_gather": (lambda comm, x: comm.all_gather(x), lambda views, rank: np.stack(views)),
    "all_reduce": (lambda comm, x: comm.all_reduce(x, out=copy_of(x)), lambda views, rank: sum_of(views)),
    "reduce": (lambda comm, x: comm.reduce(x, 0), lambda views, rank: sum_of(views) if rank == 0 else None),
    "gather": (lambda comm, x: comm.gather(x, 1), lambda views, rank: np.stack(views) if rank == 1 else None),
    "scan": (lambda comm, x: comm.scan(x, out=copy_of(x)), lambda views, rank: sum_of(views[: rank + 1])),
    "messages": (received, lambda views, rank: views[(rank + 1) % len(views)]),
}


def copy_of(x: Any) -> Any:
    x = getattr(x, "array", x)
    return np.zeros(x.shape, x.dtype.newbyteorder("="))


def sum_of(views: list[Any]) -> Any:
    total = views[0].astype(views[0].dtype.newbyteorder("="))
    for view in views[1:]:
        total = total + view
    return total


class Judge:
    def __init__(self, comm: cs.Communicator) -> None:
        self.comm, self.tried, self.taken, self.wrong = comm, 0, 0, 0

    def expect(self, right: bool, what: str) -> None:
        self.wrong += not right
        if not right and self.wrong < 20:
            print(f"rank {self.comm.rank}: {what}", flush=True)

    def in_place(self, what: str, length: int, cut: Cut, must: bool, wrap: Callable[[Any], Any], call: str) -> None:
        comm, (carry_out, compute, takes_strides) = self.comm, IN_PLACE[call]
        whole, view = memory(comm.rank, length, cut)
        before = whole.copy()
        model, in_model = memory(comm.rank, length, cut)
        views = [memory(rank, length, cut)[1] for rank in range(comm.size)]
        self.tried += 1
        try:
            carry_out(comm, wrap(view))
        except REFUSALS as error:
            self.expect(np.array_equal(whole, before), f"{what}: refused, but the memory has changed")
            needed = must and (takes_strides or view.flags.c_contiguous)
            self.expect(not needed, f"{what}: refused without need: {error}")
            return
        self.taken += 1
        self.expect(in_model.flags.writeable, f"{what}: a read-only array was written")
        if in_model.flags.writeable:
            in_model[...] = compute(views, comm.rank)
        self.expect(np.array_equal(whole, model), f"{what}: is not what numpy computes, or memory beside it changed")

    def of_input(self, what: str, length: int, cut: Cut, must: bool, wrap: Callable[[Any], Any], call: str) -> None:
        comm, (carry_out, compute) = self.comm, OF_INPUTS[call]
        whole, view = memory(comm.rank, length, cut)
        before = whole.copy()
        views = [memory(rank, length, cut)[1] for rank in range(comm.size)]
        self.tried += 1
        try:
            result = carry_out(comm, wrap(view))
            self.taken += 1
            wanted = compute(views, comm.rank)
            same = result is None if wanted is None else np.array_equal(result, wanted, equal_nan=True)
            self.expect(same, f"{what}: is not what numpy computes")
        except REFUSALS as error:
            self.expect(not must, f"{what}: refused without need: {error}")
        self.expect(np.array_equal(whole, before), f"{what}: the input has changed")


def told_types(judge: Judge) -> None:
    """typed() says what the bytes are; it makes no other machine's numbers this one's."""
    comm = judge.comm
    for name, own in NAMES.items():
        foreign = np.dtype(name).newbyteorder(">")
        judge.in_place(f"typed {foreign.str}", 64, lambda m: m.view(foreign), False, lambda x: cs.typed(x, own), "all_reduce")
    objects = np.array([1, 2], dtype=object)
    try:
        comm.broadcast(cs.typed(objects, "u64"))
        judge.expect(False, "addresses of objects were sent")
    except TypeError:
        pass


def bytes_of_all_kinds(judge: Judge) -> None:
    """Their exports have shapes that point into the export itself."""
    comm = judge.comm
    own = [bytes([65 + 4 * rank + i for i in range(4)]) for rank in range(comm.size)]
    room = mmap.mmap(-1, 4)
    room[:] = own[comm.rank]
    wanted = np.array([list(part) for part in own], "u1")
    for kind in (own[comm.rank], bytearray(own[comm.rank]), memoryview(own[comm.rank]), room, array.array("B", own[comm.rank])):
        what = type(kind).__name__
        judge.expect(np.array_equal(comm.all_gather(kind), wanted), f"all_gather of {what}")
        gathered = comm.gather(kind, 0)
        judge.expect(comm.rank != 0 or np.array_equal(gathered, wanted), f"gather of {what}")
        reduced = comm.reduce(kind, 0, "max")
        judge.expect(comm.rank != 0 or np.array_equal(reduced, wanted[-1]), f"reduce of {what}")
        half = 4 // comm.size
        parts = np.concatenate([part[half * comm.rank : half * (comm.rank + 1)] for part in wanted])
        judge.expect(np.array_equal(comm.all_to_all(kind), parts), f"all_to_all of {what}")
        mine = wanted[-1][half * comm.rank : half * (comm.rank + 1)]
        judge.expect(np.array_equal(comm.reduce_scatter(kind, "max"), mine), f"reduce_scatter of {what}")


def main() -> int:
    comm = cs.init(timeout=60)
    judge = Judge(comm)
    for name, length, cut, must in cuts():
        for way, wrap in WAYS.items():
            for call in IN_PLACE:
                judge.in_place(f"{call} of {name} by {way}", length, cut, must and way != "DLPack", wrap, call)
            if way == "buffer":
                for call in OF_INPUTS:
                    judge.of_input(f"{call} of {name}", length, cut, must, wrap, call)
    told_types(judge)
    bytes_of_all_kinds(judge)
    comm.barrier()
    print(f"rank {comm.rank}: {judge.tried} calls, {judge.taken} carried out, {judge.wrong} wrong")
    return 1 if judge.wrong else 0


sys.exit(main())
