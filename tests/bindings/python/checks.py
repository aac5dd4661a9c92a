# SPDX-License-Identifier: Apache-2.0
"""Checks that all ranks of a communicator carry out together, on data that differ by rank and index."""

from __future__ import annotations

import array
from typing import Any, Callable

import moving
import numpy as np

import capstan as cs

Check = Callable[[cs.Communicator], None]

TYPES = ["i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
LENGTHS = [0, 1, 2, 7, 64, 5000]


def data(rank: int, length: int, dtype: str = "f4") -> Any:
    """Small integers, so that sums are exact in every type. Complex ones have two different parts."""
    values = (np.arange(length) * 7 + rank * 3) % 5 + 1
    return (values + 1j * (values % 3 - 1)).astype(dtype) if dtype[0] == "c" else values.astype(dtype)


def all_data(comm: cs.Communicator, length: int, dtype: str = "f4") -> list[Any]:
    return [data(rank, length, dtype) for rank in range(comm.size)]


def combined(op: str, arrays: list[Any]) -> Any:
    function = {
        "sum": np.add,
        "product": np.multiply,
        "min": np.minimum,
        "max": np.maximum,
        "bit_and": np.bitwise_and,
        "bit_or": np.bitwise_or,
        "bit_xor": np.bitwise_xor,
        "logical_and": np.logical_and,
        "logical_or": np.logical_or,
        "logical_xor": np.logical_xor,
    }[op]
    result = arrays[0].copy()
    for other in arrays[1:]:
        result = function(result, other).astype(result.dtype)
    return result


def defined(op: str, dtype: str) -> bool:
    if dtype[0] == "c":
        return op in ("sum", "product")
    return dtype[0] in "iu" or not op.startswith("bit")


def expect(found: Any, wanted: Any) -> None:
    np.testing.assert_array_equal(np.asarray(found), wanted)


def types_and_operations(comm: cs.Communicator) -> None:
    ops = [op for op in cs.ops() if op != "average"]
    for dtype in TYPES:
        for op in ops:
            if not defined(op, dtype):
                continue
            x = data(comm.rank, 9, dtype)
            wanted = combined(op, all_data(comm, 9, dtype))
            if op.startswith("logical") and comm.size == 1:
                wanted = x.copy()
            assert comm.all_reduce(x, op) is x
            expect(x, wanted)


def all_reduce(comm: cs.Communicator) -> None:
    for length in LENGTHS:
        total = combined("sum", all_data(comm, length))
        x = data(comm.rank, length)
        out = np.empty_like(x)
        assert comm.all_reduce(x, out=out) is out
        expect(out, total)
        expect(x, data(comm.rank, length))
        comm.all_reduce(x)
        expect(x, total)
        y = data(comm.rank, length).astype("f8")
        comm.all_reduce(y, op="average")
        np.testing.assert_allclose(y, total.astype("f8") / comm.size, rtol=1e-15)


def scaled_sums(comm: cs.Communicator) -> None:
    x = data(comm.rank, 6, "f8")
    comm.all_reduce(x, op=cs.scaled_sum(0.5 * (comm.rank + 1)))
    expect(x, sum(0.5 * (r + 1) * data(r, 6, "f8") for r in range(comm.size)))


def operations_of_the_program(comm: cs.Communicator) -> None:
    def maximum(into: Any, other: Any) -> None:
        np.maximum(into, other, out=into)

    largest = cs.operation(maximum, "i32")
    x = data(comm.rank, 100, "i4")
    comm.all_reduce(x, op=largest)
    expect(x, combined("max", all_data(comm, 100, "i4")))

    # Composition of affine maps is associative and not commutative.
    def compose(into: Any, other: Any) -> Any:
        f, g = into.reshape(-1, 2), other.reshape(-1, 2)
        return np.stack([f[:, 0] * g[:, 0], f[:, 1] * g[:, 0] + g[:, 1]], axis=1).reshape(-1)

    maps = [np.array([r + 1, r + 2], "f8") for r in range(comm.size)]
    wanted = maps[0].copy()
    for other in maps[1:]:
        wanted = compose(wanted, other)
    y = maps[comm.rank].copy()
    comm.all_reduce(y, op=cs.operation(compose, "f64", commutative=False, name="compose"))
    expect(y, wanted)


def broadcast(comm: cs.Communicator) -> None:
    for root in range(comm.size):
        for length in LENGTHS:
            x = data(comm.rank, length)
            assert comm.broadcast(x, root) is x
            expect(x, data(root, length))


def reduce(comm: cs.Communicator) -> None:
    for root in range(comm.size):
        x = data(comm.rank, 7)
        result = comm.reduce(x, root, "max")
        if comm.rank == root:
            expect(result, combined("max", all_data(comm, 7)))
        else:
            assert result is None


def gathers(comm: cs.Communicator) -> None:
    for length in LENGTHS:
        x = data(comm.rank, length)
        expect(comm.all_gather(x), np.stack(all_data(comm, length)))
        for root in range(comm.size):
            result = comm.gather(x, root)
            if comm.rank == root:
                expect(result, np.stack(all_data(comm, length)))
            else:
                assert result is None
    matrix = data(comm.rank, 6).reshape(2, 3)
    assert comm.all_gather(matrix).shape == (comm.size, 2, 3)

    counts = [rank + 2 for rank in range(comm.size)]
    mine = data(comm.rank, counts[comm.rank])
    wanted = np.concatenate([data(r, counts[r]) for r in range(comm.size)])
    expect(comm.all_gather(mine, counts=counts), wanted)
    result = comm.gather(mine, 0, counts=counts)
    if comm.rank == 0:
        expect(result, wanted)

    # In place: a rank's own block of the result.
    whole = np.zeros((comm.size, 5), "f4")
    whole[comm.rank] = data(comm.rank, 5)
    comm.all_gather(whole[comm.rank], out=whole)
    expect(whole, np.stack(all_data(comm, 5)))


def scatters(comm: cs.Communicator) -> None:
    p = comm.size
    x = data(comm.rank, 3 * p).reshape(p, 3)
    total = combined("sum", [data(r, 3 * p) for r in range(p)]).reshape(p, 3)
    expect(comm.reduce_scatter(x), total[comm.rank])
    expect(comm.reduce_scatter(x.reshape(-1)), total[comm.rank])
    counts = [rank + 1 for rank in range(p)]
    y = data(comm.rank, sum(counts))
    start = sum(counts[: comm.rank])
    whole = combined("sum", [data(r, sum(counts)) for r in range(p)])
    expect(comm.reduce_scatter(y, counts=counts), whole[start : start + counts[comm.rank]])

    for root in range(p):
        out = np.zeros(3, "f4")
        comm.scatter(data(root, 3 * p) if comm.rank == root else None, root, out=out)
        expect(out, data(root, 3 * p)[3 * comm.rank : 3 * comm.rank + 3])
        part = np.zeros(counts[comm.rank], "f4")
        comm.scatter(data(root, sum(counts)) if comm.rank == root else None, root, out=part, counts=counts)
        expect(part, data(root, sum(counts))[start : start + counts[comm.rank]])


def all_to_all(comm: cs.Communicator) -> None:
    p, r = comm.size, comm.rank
    expect(
        comm.all_to_all(data(r, 4 * p)),
        np.concatenate([data(i, 4 * p)[4 * r : 4 * r + 4] for i in range(p)]),
    )
    # Rank i sends i + j + 1 elements to rank j.
    send = [r + j + 1 for j in range(p)]
    result = comm.all_to_all(data(r, sum(send)), send_counts=send, receive_counts=send)

    def part(i: int) -> Any:
        start = sum(i + j + 1 for j in range(r))
        return data(i, sum(i + j + 1 for j in range(p)))[start : start + i + r + 1]

    expect(result, np.concatenate([part(i) for i in range(p)]))


def scans(comm: cs.Communicator) -> None:
    x = data(comm.rank, 11)
    expect(comm.scan(x.copy()), combined("sum", all_data(comm, 11)[: comm.rank + 1]))
    out = np.full(11, 42, "f4")
    comm.exscan(x, out=out)
    before = all_data(comm, 11)[: comm.rank]
    expect(out, combined("sum", before) if before else np.full(11, 42, "f4"))


def fused(comm: cs.Communicator) -> None:
    arrays = [data(comm.rank, length) for length in (3, 0, 1000, 1)]
    comm.all_reduce_fused(arrays)
    for x in arrays:
        expect(x, combined("sum", all_data(comm, len(x))))


def kinds_of_arrays(comm: cs.Communicator) -> None:
    total = combined("sum", all_data(comm, 10, "i4"))
    plain = array.array("i", data(comm.rank, 10, "i4").tolist())
    comm.all_reduce(plain)
    expect(plain, total)
    view = memoryview(bytearray(data(comm.rank, 10, "i4").tobytes())).cast("i")
    comm.all_reduce(view)
    expect(view, total)
    strided = np.zeros((10, 3), "i4")
    strided[:, 1] = data(comm.rank, 10, "i4")
    comm.all_reduce(strided[:, 1])
    expect(strided[:, 1], total)
    assert not strided[:, 0].any() and not strided[:, 2].any()
    # 1.0, 2.0, ... as bf16 are the upper halves of floats.
    small = (np.arange(1, 5, dtype="f4").view("u4") >> 16).astype("u2")
    comm.all_reduce(cs.typed(small, "bf16"))
    expect((small.astype("u4") << 16).view("f4"), np.arange(1, 5, dtype="f4") * comm.size)

    class Interface:
        def __init__(self, array: Any) -> None:
            self.array = array

        @property
        def __array_interface__(self) -> Any:
            return self.array.__array_interface__

    x = data(comm.rank, 10, "i4")
    comm.all_reduce(Interface(x))
    expect(x, total)
    assert cs.dtype_of(x) == "i32"


def shared_memory(comm: cs.Communicator) -> None:
    x = comm.allocate((40, 100), "f4")
    assert x.shape == (40, 100) and not x.any()
    x[:] = data(comm.rank, 4000).reshape(40, 100)
    for _ in range(3):
        comm.all_reduce(x[:20])
    expect(x[20:].reshape(-1), data(comm.rank, 4000)[2000:])


def messages(comm: cs.Communicator) -> None:
    p, r = comm.size, comm.rank
    received = np.zeros(6, "i4")
    with comm.group():
        comm.recv(received, source=(r - 1) % p, tag=7)
        comm.send(data(r, 6, "i4"), to=(r + 1) % p, tag=7)
    expect(received, data((r - 1) % p, 6, "i4"))
    if p == 1:
        return
    if r == 0:
        for _ in range(1, p):
            found = comm.probe(tag=9)
            assert found.bytes == 4 * (found.source + 1)
            buffer = np.zeros(p, "i4")
            info = comm.recv(buffer, source=found.source, tag=9)
            assert (info.source, info.tag, info.bytes) == (found.source, 9, found.bytes)
            expect(buffer[: info.source + 1], data(info.source, info.source + 1, "i4"))
        assert comm.try_probe() is None
    else:
        comm.send(data(r, r + 1, "i4"), to=0, tag=9)
    comm.barrier()


def background(comm: cs.Communicator) -> None:
    arrays = [data(comm.rank, length) for length in LENGTHS]
    works = [comm.all_reduce(x, wait=False) for x in arrays]
    for x, work in reversed(list(zip(arrays, works))):
        assert work.wait(timeout=60) is x
        assert work.done
        expect(x, combined("sum", all_data(comm, len(x))))
    # Nobody but the operation holds the array.
    comm.all_reduce(data(comm.rank, 5000), wait=False)
    comm.barrier()


def polling_ends(comm: cs.Communicator) -> None:
    x = data(comm.rank, 100)
    work = comm.all_reduce(x, wait=False)
    while not work.done:
        pass
    expect(x, combined("sum", all_data(comm, 100)))


def persistent_calls(comm: cs.Communicator) -> None:
    x, out = np.zeros(7, "f4"), np.zeros(7, "f4")
    total = comm.all_reduce(x, out=out, wait="persistent")
    parts = comm.all_gather(x, wait="persistent")
    assert total.result is out and "all_reduce" in repr(total)
    for step in range(1, 6):
        x[:] = data(comm.rank, 7) * step
        total.start()
        work = parts.start()
        assert work.wait(timeout=60) is parts.result and total.wait() is out and total.done
        expect(out, step * combined("sum", all_data(comm, 7)))
        expect(parts.result, step * np.stack(all_data(comm, 7)))
    again = comm.all_reduce(np.zeros(3), wait="persistent")  # the call alone has the array
    for wrong in (lambda: again.wait(), lambda: comm.all_reduce(np.zeros((4, 4))[:, 1], wait="persistent")):
        try:
            wrong()
        except (cs.InvalidArgument, ValueError):
            continue
        raise AssertionError("it has been accepted")
    again.start().wait()


def groups(comm: cs.Communicator) -> None:
    half = comm.split(comm.rank % 2)
    members = [rank for rank in range(comm.size) if rank % 2 == comm.rank % 2]
    assert half is not None and half.size == len(members)
    assert [half.world_rank(i) for i in range(half.size)] == members
    x = data(comm.rank, 8)
    half.all_reduce(x)
    expect(x, combined("sum", [data(rank, 8) for rank in members]))
    half.close()
    kept = comm.with_reproducible("rank_order")
    x = data(comm.rank, 8)
    kept.all_reduce(x)
    expect(x, combined("sum", [data(rank, 8) for rank in range(comm.size)]))
    kept.close()
    comm.all_reduce(x, op=cs.reproducible("rank_order"))
    wanted = combined("max", [data(rank, 8) for rank in range(comm.size)])
    expect(comm.all_reduce(data(comm.rank, 8), op=cs.reproducible("shape", "max")), wanted)
    assert repr(cs.reproducible("shape", cs.scaled_sum(2))) == "<capstan.Operation sum of inputs x 2, bits by shape>"
    first = comm.subgroup([0])
    assert (first is not None) == (comm.rank == 0)
    if first is not None:
        assert first.rank_of(0) == 0


def accumulators(comm: cs.Communicator) -> None:
    """The same bits, whichever rank adds what."""
    rows = [np.float32(3) ** np.arange(-40, 40, dtype=np.float32) * (-1) ** row / (row + 1) for row in range(12)]
    alone = cs.Accumulator(rows[0])
    for row in rows:
        alone.add(row)
    spread = cs.Accumulator(rows[0])
    for row in rows[comm.rank :: comm.size]:
        spread.add(row)
    assert spread.count == 80 and spread.dtype == "f32"
    total = spread.all_reduce(comm).result(np.empty_like(rows[0]))
    assert total.tobytes() == alone.result(np.empty_like(rows[0])).tobytes()
    spread.reset()
    assert not spread.result(total).any()


def explanations(comm: cs.Communicator) -> None:
    found = comm.explain("all_reduce", bytes=1 << 20)
    assert found.algorithm and found.algorithm in found.text and repr(found) == found.text


CHECKS: list[Check] = [
    types_and_operations,
    all_reduce,
    scaled_sums,
    operations_of_the_program,
    broadcast,
    reduce,
    gathers,
    scatters,
    all_to_all,
    scans,
    accumulators,
    fused,
    kinds_of_arrays,
    shared_memory,
    messages,
    background,
    persistent_calls,
    polling_ends,
    groups,
    moving.types_that_are_only_moved,
    moving.objects,
    explanations,
]
