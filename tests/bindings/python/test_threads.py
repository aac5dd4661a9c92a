# SPDX-License-Identifier: Apache-2.0
"""All checks, with ranks as threads."""

import gc
import threading

import checks
import pytest

import capstan as cs


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.__name__)
def test_check(check: checks.Check, ranks: int) -> None:
    cs.run_local(check, ranks, timeout=60)


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
