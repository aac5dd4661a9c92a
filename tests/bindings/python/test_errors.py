# SPDX-License-Identifier: Apache-2.0
"""Errors in a program that does something wrong, or whose peers do."""

import array
import datetime
import inspect
import math
import threading

import numpy as np
import pytest

import capstan as cs
from capstan import _communicator


@pytest.fixture
def alone():
    with cs.local_world(1)[0] as comm:
        yield comm


def test_errors_are_classes_of_python_too():
    assert issubclass(cs.InvalidArgument, (cs.Error, ValueError))
    assert issubclass(cs.TimedOut, TimeoutError) and issubclass(cs.PeerLost, ConnectionError)
    assert issubclass(cs.LimitReached, MemoryError) and issubclass(cs.Error, RuntimeError)
    assert cs.Error.ranks == [] and cs.Error.code == "internal"


@pytest.mark.parametrize(
    "wrong, text",
    [
        (lambda c: c.all_reduce([1, 2]), "list has no memory"),
        (lambda c: c.all_reduce(None), "NoneType has no memory"),
        (lambda c: c.all_reduce(np.ones(2, np.int16)), "format 'h'"),
        (lambda c: c.all_reduce(np.ones(2, ">f4")), "format '>f'"),
        (lambda c: c.all_reduce(np.ones(2, bool)), "logical_or"),
        (lambda c: c.all_reduce(np.ones(2), op=3), "`op` is a name"),
        (lambda c: c.all_reduce(cs.typed(np.ones(2), "bf16")), "bf16 has 2 bytes"),
        (lambda c: c.all_reduce(), r"all_reduce\(\) needs the argument 'array'"),
        (lambda c: c.all_reduce(np.ones(2), "sum", np.ones(2)), "at most 2 positional arguments, 3 were given"),
        (lambda c: c.all_reduce(np.ones(2), to=np.ones(2)), r"all_reduce\(\) has no argument 'to'"),
        (lambda c: c.all_reduce(np.ones(2), array=np.ones(2)), "two values for 'array'"),
        (lambda c: c.broadcast(np.ones(2), "first"), r"broadcast\(\): 'root' cannot be 'first': pass a whole number"),
        (lambda c: c.all_gather(np.ones(2), counts=3), r"all_gather\(\): 'counts' cannot be 3: pass a whole number from 0 up for each rank"),
        (lambda c: c.all_gather(np.ones(2), counts=[-1]), r"'counts' cannot be \[-1\]: pass a whole number from 0 up"),
        (lambda c: c.broadcast(np.ones(2), 1 << 40), "'root' cannot be 1099511627776: pass a whole number of 32 bits"),
        (lambda c: c.barrier(True), "at most 0 positional arguments, 1 were given"),
    ],
)
def test_what_is_no_array_is_a_type_error(alone, wrong, text):
    with pytest.raises(TypeError, match=text):
        wrong(alone)


@pytest.mark.parametrize(
    "wrong, text",
    [
        (lambda c: c.all_reduce(np.ones(2), op="mean"), "no operation 'mean'.*sum"),
        (lambda c: c.all_reduce(np.ones(2), out=np.ones(3)), "all_reduce"),
        (lambda c: c.broadcast(np.ones(2), root=3), "root"),
        (lambda c: c.send(np.ones(2), to=1), "ranks are 0 to 0"),
        (lambda c: c.all_to_all(np.ones(2), send_counts=[2]), "both send_counts and receive_counts"),
        (lambda c: c.explain("all_sum", bytes=8), "no collective 'all_sum'"),
        (lambda c: cs.typed(np.ones(2), "f128"), "no element type 'f128'.*bf16"),
        (lambda c: c.all_reduce_fused([]), "no array"),
    ],
)
def test_arguments_that_cannot_work_are_invalid(alone, wrong, text):
    with pytest.raises(cs.InvalidArgument, match=text):
        wrong(alone)
    alone.all_reduce(np.ones(2))


def test_signatures_tell_their_defaults():
    text = "(self, /, array, op='sum', *, out=None, wait=True, algorithm=None, stream=None)"
    assert str(inspect.signature(cs.Communicator.all_reduce)) == text
    assert "in place, or into `out`" in cs.Communicator.all_reduce.__doc__


def test_names_that_are_made_at_run_time_are_found(alone):
    out = np.zeros(2)
    alone.all_reduce(np.ones(2), **{"".join(["o", "ut"]): out, "op": "max"})
    assert out.tolist() == [1, 1]


def test_settings_are_known_by_name():
    with pytest.raises(TypeError, match="no setting 'time_out'.*timeout"):
        cs.init(time_out=3)
    with pytest.raises(ValueError, match="network='smoke': expected auto, tcp, ofi or verbs"):
        cs.init(network="smoke")
    with pytest.raises(ValueError, match="chunk='1': expected a size from 4k to 64m"):
        cs.init(chunk=1)
    texts = {"algorithm": "all_reduce:direct", "profile": "none", "network": "tcp", "bootstrap": "tcp"}
    numbers = {"timeout": 60, "join_timeout": 60, "chunk": 1 << 16, "unexpected_messages": 0, "buffer_limit": 1 << 20}
    texts |= {"gpu_direct": "never", "proof_limit": "trust"}
    cs.init(**texts, **numbers, device_executor=False, autotune=False, progress_thread=False, single_copy=False, huge_pages=False).close()


def test_element_types_are_named_as_numpy_has_them_too(alone):
    for dtype, own in ((np.float64, "f64"), ("<f4", "f32"), (np.dtype("i4"), "i32"), ("i8", "i8"), ("float32", "f32")):
        x = np.zeros(3, {"f64": "f8", "f32": "f4", "i32": "i4", "i8": "i1"}[own])
        alone.all_reduce(x, op=cs.operation(lambda into, other: into + other, dtype))
        assert cs.dtype_of(cs.typed(x, dtype)) == own
    for dtype in (">f4", np.int16, bool, "M8[s]", object):
        with pytest.raises(TypeError):
            cs.operation(max, dtype)
    with pytest.raises(cs.InvalidArgument, match="no element type 'f33'"):
        cs.operation(max, "f33")


def test_settings_take_times_of_any_length():
    for name in ("timeout", "join_timeout"):
        for endless in (math.inf, 1e10, 1e300, datetime.timedelta.max):
            with cs.init(**{name: endless}) as comm:
                comm.barrier()
        for none in (0, -1, math.nan, -math.inf, datetime.timedelta(0)):
            with pytest.raises(ValueError, match=f"{name}=.*seconds above 0"):
                cs.init(**{name: none})


def test_read_only_arrays_are_no_outputs(alone):
    constant = np.ones(3)
    constant.flags.writeable = False
    with pytest.raises((ValueError, BufferError), match="read-only|writable"):
        alone.all_reduce(constant)
    with pytest.raises(BufferError):
        alone.broadcast(b"bytes")
    result = np.zeros(3)
    alone.all_reduce(constant, out=result)
    assert result.tolist() == [1, 1, 1]


def test_arrays_that_numpy_exports_nowhere_say_what_they_lack(alone):
    with pytest.raises(BufferError, match="read-only: pass a copy"):
        alone.all_reduce(np.broadcast_to(np.ones(1), (4,)))
    with pytest.raises(TypeError, match="cannot be combined"):
        alone.all_reduce(np.array([1, 2], "m8[s]"))


def test_arrays_in_use_cannot_be_resized():
    comm, other = cs.local_world(2)
    numbers = array.array("i", [1, 2, 3])
    work = comm.all_reduce(numbers, wait=False)
    with pytest.raises(BufferError):
        numbers.append(4)
    work.cancel()
    comm.close()
    other.close()


def test_a_closed_communicator_says_so(alone):
    alone.close()
    alone.close()
    assert alone.closed and "closed" in repr(alone)
    with pytest.raises(cs.InvalidArgument, match="closed"):
        alone.barrier()


def test_a_mismatch_is_an_error_on_all_ranks():
    def call(comm):
        with pytest.raises(cs.Mismatch) as caught:
            comm.all_reduce(np.ones(2 + comm.rank, np.float32))
        return str(caught.value)

    for text in cs.run_local(call, 2, timeout=60):
        assert "2 x f32" in text and "3 x f32" in text


KINDS = [("?", "u1", 4, 4), ("i2", "u1", 4, 8), ("u2", "S4", 4, 2), ("i8", "M8[s]", 2, 2)]


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("name", ["broadcast", "all_gather", "all_to_all"])
def test_elements_of_another_kind_are_a_mismatch(kinds, name):
    """Their bytes are as many, so that each rank would get nonsense without a word."""

    def call(comm):
        mine = np.zeros(kinds[2 + comm.rank], kinds[comm.rank])
        with pytest.raises(cs.Mismatch) as caught:
            getattr(comm, name)(mine)
            comm.barrier()  # the root of a broadcast waits for nobody
        return str(caught.value)

    for text in cs.run_local(call, 2, timeout=60):
        assert "booleans" in text or "elements of" in text


@pytest.mark.parametrize("kinds", [*KINDS, ("u1", "i2", 3, 4)])
def test_messages_of_another_kind_are_a_mismatch(kinds):
    def call(comm):
        mine = np.ones(kinds[2 + comm.rank], kinds[comm.rank])
        if comm.rank == 0:
            comm.send(mine, to=1)
        else:
            with pytest.raises(cs.Mismatch, match="both must use one type"):
                comm.recv(mine, source=0)
        comm.barrier()

    cs.run_local(call, 2, timeout=60)


def test_worlds_of_absurdly_many_ranks_are_refused():
    for make in (cs.local_world, lambda ranks: cs.run_local(lambda comm: None, ranks)):
        for ranks in (0, 1025, 2**31 - 1):
            with pytest.raises(cs.InvalidArgument, match="1 to 1024 are possible"):
                make(ranks)


def test_a_peer_that_leaves_is_named():
    def call(comm):
        if comm.rank == 1:
            comm.close()
            return None
        with pytest.raises(cs.PeerLost) as caught:
            comm.all_reduce(np.ones(2, np.float32))
        assert caught.value.ranks == [1] and caught.value.code == "peer_lost"
        assert isinstance(comm.async_error(), cs.PeerLost)

    cs.run_local(call, 2, timeout=60)


def test_ranks_that_keep_others_waiting_are_listed():
    """A time-out lists whom it waited for, a loss all that are gone."""
    told = threading.Barrier(3)

    def call(comm):
        if comm.rank < 2:
            with pytest.raises(cs.TimedOut) as caught:
                comm.all_reduce(np.ones(2, np.float32))
            assert caught.value.ranks == [2] and caught.value.code == "timed_out"
        told.wait()

    cs.run_local(call, 3, timeout=1)

    def lose(comm):
        if comm.rank > 0:
            comm.close()
            return
        with pytest.raises(cs.PeerLost) as caught:
            comm.barrier()
        assert caught.value.ranks == [1, 2]

    cs.run_local(lose, 3, timeout=60)


def test_an_abort_ends_what_waits_on_all_ranks():
    def call(comm):
        assert comm.async_error() is None
        if comm.rank == 1:
            comm.abort("enough of it")
        with pytest.raises(cs.Aborted, match="enough of it") as caught:
            while True:
                comm.all_reduce(np.ones(2, np.float32))
        assert caught.value.code == "aborted"

    cs.run_local(call, 2, timeout=60)


def test_an_operation_that_raises_ends_the_call_on_all_ranks():
    def broken(into, other):
        raise RuntimeError("no such sum")

    def call(comm):
        with pytest.raises(cs.Error, match="no such sum"):
            for _ in range(3):
                comm.all_reduce(np.ones(2, np.float32), op=cs.operation(broken, "f32"))

    cs.run_local(call, 2, timeout=60)


def test_groups_do_not_nest_and_are_dropped_on_errors(alone):
    with pytest.raises(cs.InvalidArgument, match="nest"), alone.group():
        with alone.group():
            pass
    with pytest.raises(ZeroDivisionError), alone.group():
        alone.send(np.ones(1), to=0)
        1 / 0
    with alone.group():
        pass


def test_the_error_of_one_rank_ends_run_local():
    def call(comm):
        if comm.rank == 1:
            raise KeyError("rank 1")
        comm.barrier()

    with pytest.raises((KeyError, cs.PeerLost)):
        cs.run_local(call, 3, timeout=60)


@pytest.mark.parametrize("others, address", [([], "127.0.0.1"), ([["another host"]], "")])
def test_ranks_of_mpi4py_meet_where_all_reach(others, address, monkeypatch):
    class Ranks:
        """A communicator of one rank that claims to have more."""

        def Get_rank(self):
            return 0

        def Get_size(self):
            return 1

        def bcast(self, value, root):
            return value

        def allgather(self, value):
            return [value, *others]

    asked = []
    monkeypatch.setattr(_communicator, "unique_id", lambda where: asked.append(where) or cs.unique_id(where))
    assert cs.init(comm=Ranks()).size == 1
    assert asked == [address]
