# SPDX-License-Identifier: Apache-2.0
"""Elements that Capstan only moves: ranks whose types differ are told, however alike their bytes are."""

import array
import ctypes
import threading

import numpy as np
import pytest

import capstan as cs

PAIR = np.dtype([("x", "i4"), ("y", "i4")])
OF_8_BYTES = ["M8[s]", "M8[ns]", "m8[s]", "m8[ms]", "i8", "f8", "u8", "c8", PAIR, [("x", "i4"), ("z", "i4")],
              [("x", "f4"), ("y", "i4")], [("both", "i4", 2)], "S8", "V8", "U2"]  # fmt: skip
OF_2_BYTES = ["i2", "u2", "f2", "S2", "V2", [("x", "u1"), ("y", "u1")]]
OF_1_BYTE = ["S1", "V1", "?", "u1", "i1"]

MOVES = {
    "all_gather": lambda comm, mine, all: comm.all_gather(mine, out=all),
    "all_to_all": lambda comm, mine, all: comm.all_to_all(mine),
    "gather": lambda comm, mine, all: comm.gather(mine, 0),
    "scatter": lambda comm, mine, all: comm.scatter(all if comm.rank == 0 else None, 0, out=mine),
    "broadcast": lambda comm, mine, all: comm.broadcast(mine, 0),
    "message": lambda comm, mine, all: comm.send(mine, 1) if comm.rank == 0 else comm.recv(mine, source=0),
    "long message": lambda comm, mine, all: comm.send(np.resize(mine, 100_000), 1)
    if comm.rank == 0
    else comm.recv(np.resize(mine, 100_000), source=0),
}


def in_pairs(types):
    kinds = [np.dtype(kind) for kind in types]
    return list(zip(kinds, kinds[1:] + kinds[:1]))


def outcomes(parts, call):
    """The error of each of two ranks, or None."""
    found = [None, None]

    def rank(comm):
        mine, all = parts[comm.rank]
        try:
            call(comm, mine, all)
            if call not in (MOVES["message"], MOVES["long message"]):  # whose sender is done
                comm.barrier()
        except cs.Error as error:
            found[comm.rank] = error

    world = cs.local_world(2, timeout=30)
    threads = [threading.Thread(target=rank, args=(comm,)) for comm in world]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for comm in world:
        comm.close()
    return found


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("pair", in_pairs(OF_8_BYTES) + in_pairs(OF_2_BYTES) + in_pairs(OF_1_BYTE))
def test_types_of_one_size_are_not_one_type(name, pair):
    parts = [(np.zeros(4, kind), np.zeros(8, kind)) for kind in pair]
    errors = outcomes(parts, MOVES[name])
    told = [errors[1]] if "message" in name else errors
    for error in told:
        text = str(error)
        assert isinstance(error, cs.Mismatch), (pair, errors)
        assert "rank 0" in text and "rank 1" in text, text
        for kind in pair:
            assert name_of(kind) in text, text


def name_of(kind):
    known = {"i8": "i64", "u8": "u64", "f8": "f64", "c8": "c64", "f2": "f16", "u1": "u8", "i1": "i8", "b1": "booleans"}
    if kind.names is None:
        return known.get(kind.str[1:], str(kind))
    return "{" + ", ".join(f"{n}: {kind[n].base}{list(kind[n].shape) or ''}" for n in kind.names) + "}"


class Record(ctypes.Structure):
    _fields_ = [("x", ctypes.c_int32), ("y", ctypes.c_int32)]


@pytest.mark.parametrize(
    "alike",
    [
        (np.zeros(4, "i2"), array.array("h", [0] * 4)),
        (np.zeros(4, "u2"), (ctypes.c_uint16 * 4)()),
        (np.zeros(4, PAIR), (Record * 4)()),
        (np.zeros(4, PAIR), memoryview(np.zeros(4, PAIR))),
        (np.zeros(4, PAIR), np.zeros(4, np.dtype([("x", "i4"), ("y", "i4")], align=True))),
        (np.zeros(4, PAIR), np.zeros(4, {"names": ["x", "y"], "formats": ["i4", "i4"], "offsets": [0, 4]})),
        (np.zeros(4, "M8[s]"), np.zeros((2, 8), "M8[s]")[0, ::2]),
        (np.zeros(4, "g"), np.ones(4, np.longdouble)),
    ],
)
def test_one_type_is_one_type_whoever_exports_it(alike):
    for name in ("all_to_all", "broadcast", "message"):
        assert outcomes([(part, None) for part in alike], MOVES[name]) == [None, None]


ORDERS = {
    "C": lambda: np.ones((4, 6)),
    "Fortran": lambda: np.ones((4, 6), order="F"),
    "sliced": lambda: np.ones((8, 12))[::2, ::2],
    "reversed": lambda: np.ones((4, 6))[::-1, ::-1],
    "permuted": lambda: np.ones((2, 6, 2)).transpose(2, 0, 1).reshape(4, 6, order="A"),
}


@pytest.mark.parametrize("orders", [(a, b) for a in ORDERS for b in ORDERS])
def test_ranks_may_lay_elements_out_differently(orders):
    for call in (
        lambda comm, mine, _: comm.all_reduce(mine),
        lambda comm, mine, _: comm.broadcast(mine, 0),
        lambda comm, mine, _: comm.all_reduce_fused([mine]),
        lambda comm, mine, _: comm.all_reduce_fused([mine] if comm.rank == 0 else [mine[:2], mine[2:]]),
        lambda comm, mine, _: comm.all_gather(mine),
        MOVES["message"],
    ):
        assert outcomes([(ORDERS[order](), None) for order in orders], call) == [None, None]


def test_long_names_are_told_apart_by_their_ends():
    kinds = [np.dtype([(f"a_long_name_of_a_field_{i}", "i4") for i in range(8)] + [(last, "i4")]) for last in "xy"]
    errors = outcomes([(np.zeros(2, kind), np.zeros(4, kind)) for kind in kinds], MOVES["all_gather"])
    for error in errors:
        assert isinstance(error, cs.Mismatch) and "x: int32}" in str(error) and "y: int32}" in str(error), errors
