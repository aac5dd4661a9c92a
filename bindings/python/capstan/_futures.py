# SPDX-License-Identifier: Apache-2.0
"""Works in asyncio."""

from __future__ import annotations

import asyncio
from typing import Any, Generator

from ._engine import Work


def settle(future: asyncio.Future[Any], work: Work) -> None:
    """Gives a future what a work that has ended gives. Runs on the future's loop."""
    if future.cancelled():
        return
    try:
        future.set_result(work.wait())
    except Exception as error:
        future.set_exception(error)


def wait_for(work: Work) -> Generator[Any, None, Any]:
    """The steps by which a task of the running loop waits for a work.

    It is written in Python: while the interpreter ends, it unwinds the stack of a thread that runs
    Python, and frames of C++ below would then use objects without its lock.
    """
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    work.on_complete(lambda ended: loop.call_soon_threadsafe(settle, future, ended))
    return future.__await__()
