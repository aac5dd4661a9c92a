# SPDX-License-Identifier: Apache-2.0
"""All checks, with ranks as threads."""

import gc
import sys
import threading
import time
import traceback
from typing import Callable

import checks
import numpy as np
import pytest

import capstan as cs


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.__name__)
def test_check(check: checks.Check, ranks: int) -> None:
    cs.run_local(check, ranks, timeout=60)


def persistent(comm: cs.Communicator) -> None:
    call = comm.all_reduce(np.ones(8), wait="persistent")
    call.start()
    call.wait()


def looks(comm: cs.Communicator) -> None:
    while True:
        comm.report()
        comm.try_probe()
        comm.async_error()


def asks(comm: cs.Communicator) -> None:
    work = comm.all_reduce(np.ones(8), wait=False)
    while not work.done:
        pass
    work.wait()


def messages(comm: cs.Communicator) -> None:
    with comm.group():
        comm.recv(np.ones(8), source=1)


WAITS: dict[str, Callable[[cs.Communicator], object]] = {
    "barrier": lambda c: c.barrier(),
    "all_reduce": lambda c: c.all_reduce(np.ones(8)),
    "strided": lambda c: c.all_reduce(np.ones((8, 2))[:, 0]),
    "fused": lambda c: c.all_reduce_fused([np.ones(8), np.ones(3)]),
    "objects": lambda c: c.allgather({"an": "object"}),
    "work": lambda c: c.all_reduce(np.ones(8), wait=False).wait(),
    "asks": asks,
    "persistent": persistent,
    "recv": lambda c: c.recv(np.ones(8), source=1),
    "send": lambda c: c.send(np.ones(1 << 20), to=1),
    "messages": messages,
    "probe": lambda c: c.probe(),
    "looks": looks,
    "allocate": lambda c: c.allocate(1 << 16),
    "algorithm": lambda c: c.all_reduce(np.ones(8), algorithm="ring"),
    "split": lambda c: c.split(0),
    "subgroup": lambda c: c.subgroup([0, 1]),
    "shrink": lambda c: c.shrink(),
    "grow": lambda c: c.grow(name="closed", secret="known to this test"),
}


def is_in(thread: threading.Thread, functions: set[str]) -> bool:
    frame = sys._current_frames().get(thread.ident or 0)
    return any(entry.name in functions for entry in traceback.extract_stack(frame))


@pytest.mark.parametrize("call", WAITS.values(), ids=WAITS.keys())
def test_close_ends_calls_of_other_threads(call: Callable[[cs.Communicator], object]) -> None:
    """Also where what the call has made lives on; the peer gets an error, too."""
    comm, peer = cs.local_world(2, timeout=60)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            call(comm)
        except (cs.Aborted, cs.InvalidArgument) as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while not is_in(thread, {call.__name__}):
        time.sleep(0.001)
    time.sleep(0.05)  # most are deeper in the call then; it has to end from anywhere
    began = time.monotonic()
    comm.close()
    thread.join()
    assert len(errors) == 1 and time.monotonic() - began < 30
    with pytest.raises(cs.Error):
        peer.barrier()  # the other may have come to one
        peer.barrier()
    peer.close()


def test_close_leaves_though_a_persistent_call_lives() -> None:
    def work(comm: cs.Communicator) -> None:
        call = comm.all_reduce(np.ones(8), wait="persistent")
        call.start().wait()
        if comm.rank == 1:
            with pytest.raises(cs.PeerLost):
                comm.barrier()
            return
        comm.close()
        with pytest.raises(cs.InvalidArgument, match="has been closed"):
            call.start()

    cs.run_local(work, 2, timeout=60)


def test_communicators_end_beside_the_garbage_collector():
    """The end of a communicator lets other threads run, and so the collector."""
    ended = threading.Event()

    def make():
        for _ in range(100):
            cs.local_world(2)
        ended.set()

    gc.freeze()  # so that each collection is short
    thread = threading.Thread(target=make)
    thread.start()
    while not ended.is_set():
        gc.collect()
    thread.join()
    gc.unfreeze()
