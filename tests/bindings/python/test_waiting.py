# SPDX-License-Identifier: Apache-2.0
"""Waits leave Python free: other threads, signals, asyncio."""

import asyncio
import concurrent.futures
import contextlib
import datetime
import gc
import math
import os
import signal
import threading

import numpy as np
import pytest

import capstan as cs


def test_other_threads_run_during_a_wait():
    """The other thread starts its part only once it runs, so that a wait with the GIL would hang."""
    first, second = cs.local_world(2, timeout=60)
    reached = []

    def other():
        reached.append(True)
        second.barrier()

    thread = threading.Thread(target=other)
    thread.start()
    first.barrier()
    thread.join()
    assert reached


@pytest.mark.parametrize("wait", ["blocking", "work", "probe"])
def test_an_interrupt_ends_a_wait(wait):
    first, second = cs.local_world(2)
    timer = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT])
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        if wait == "blocking":
            first.all_reduce(np.ones(4))
        elif wait == "work":
            first.all_reduce(np.ones(4), wait=False).wait()
        else:
            first.probe(source=1)
    timer.join()
    if wait == "blocking":
        # The other rank still gets its sum, and the communicator stays usable.
        def other():
            total = np.ones(4)
            second.all_reduce(total)
            second.all_reduce(np.ones(4))
            return total.tolist()

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            total = pool.submit(other)
            first.all_reduce(np.ones(4))
            assert total.result(60) == [2, 2, 2, 2]


@pytest.mark.parametrize("call", ["probe", "recv_object", "asking", "done", "no time"])
def test_a_wait_for_a_message_of_nobody_ends(call):
    first, second = cs.local_world(2, timeout=60)
    second.close()
    with pytest.raises(cs.PeerLost, match="rank 1 .*find out why it ended"):
        if call == "asking":
            while first.try_probe(source=1) is None:
                pass
        elif call in ("done", "no time"):
            work = first.recv(np.ones(4), source=1, wait=False)
            while not work.done:
                if call == "no time":
                    with contextlib.suppress(TimeoutError):
                        work.wait(timeout=0)
            work.wait()
        else:
            getattr(first, call)(source=1)


def test_a_probe_has_a_time_out():
    first, second = cs.local_world(2, timeout=0.5)
    with pytest.raises(cs.TimedOut, match="rank 1 .*has sent no message"):
        first.probe(source=1)


def test_for_ever_is_not_at_once():
    for endless in (math.inf, 1e10, 1e300, datetime.timedelta.max, np.float64("inf")):
        first, second = cs.local_world(2, timeout=math.inf)
        x, y = np.full(4, 1.0), np.full(4, 2.0)
        work = first.all_reduce(x, wait=False)
        for no_time in (-1, math.nan, datetime.timedelta(-1), "5", [5]):
            with pytest.raises(ValueError, match="seconds from 0"):
                work.wait(timeout=no_time)
        other = threading.Thread(target=lambda: second.all_reduce(y))
        other.start()
        assert work.wait(timeout=endless) is x
        other.join()
        assert x.tolist() == y.tolist() == [3, 3, 3, 3]


def test_a_timeout_leaves_the_operation_running():
    first, second = cs.local_world(2)
    x, y = np.full(4, 1.0), np.full(4, 2.0)
    work = first.all_reduce(x, wait=False)
    with pytest.raises(TimeoutError, match="all_reduce.*continues"):
        work.wait(timeout=0.01)
    assert "in flight" in repr(work) and not work.done
    other = second.all_reduce(y, wait=False)
    ended = [False, False]
    while not all(ended):
        ended = [work.done, other.done]  # one thread moves both ranks on
    assert x.tolist() == y.tolist() == [3, 3, 3, 3]


def test_a_report_names_what_waits():
    first, second = cs.local_world(2)
    assert "No operation is pending" in first.report()
    work = first.all_reduce(np.ones(4), wait=False)
    report = first.report_data()
    assert any("all_reduce" in str(entry) for entry in report["entries"]), report
    work.cancel()


def test_cancelled_operations_say_so():
    first, second = cs.local_world(2)
    work = first.all_reduce(np.ones(4), wait=False)
    assert work.cancel()
    with pytest.raises(cs.Cancelled):
        work.wait()
    assert "cancelled" in repr(work)


def test_works_are_awaited():
    async def rank(comm):
        x = np.full(3, float(comm.rank + 1))
        results = await asyncio.gather(
            comm.all_reduce(x, wait=False), comm.all_gather(x, wait=False)
        )
        await comm.barrier(wait=False)
        return results[0].tolist(), results[1].shape

    async def all_ranks():
        return await asyncio.gather(*(rank(comm) for comm in cs.local_world(3, timeout=60)))

    for total, shape in asyncio.run(all_ranks()):
        assert total == [6, 6, 6] and shape == (3, 3)


def test_errors_are_awaited():
    async def call():
        first, second = cs.local_world(2)
        work = first.all_reduce(np.ones(2), wait=False)
        second.close()
        with pytest.raises(cs.PeerLost):
            await work

    asyncio.run(call())


def test_callbacks_run_once():
    ended = threading.Event()
    seen = []

    def callback(work):
        seen.append(work.wait())
        ended.set()

    comm = cs.local_world(1)[0]
    x = np.ones(2)
    comm.all_reduce(x, wait=False).on_complete(callback)
    assert ended.wait(60)
    assert len(seen) == 1 and seen[0] is x


def test_arrays_live_as_long_as_their_operation():
    def call(comm):
        if comm.rank == 0:
            comm.all_reduce(np.full(1000, 1.0), wait=False)  # nobody else holds the array
            gc.collect()
            comm.barrier()
            return None
        x = np.full(1000, 2.0)
        comm.all_reduce(x)
        comm.barrier()
        return x.tolist()

    assert cs.run_local(call, 2, timeout=60)[1] == [3] * 1000
