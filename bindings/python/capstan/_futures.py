# SPDX-License-Identifier: Apache-2.0
"""Works in asyncio."""

from __future__ import annotations

import asyncio
from typing import Any

from ._engine import Work


def settle(future: asyncio.Future[Any], work: Work) -> None:
    """Gives a future what a work that has ended gives. Runs on the future's loop."""
    if future.cancelled():
        return
    try:
        future.set_result(work.wait())
    except Exception as error:
        future.set_exception(error)
