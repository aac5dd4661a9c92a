# SPDX-License-Identifier: Apache-2.0
"""LightGBM trains over the ranks of a Capstan communicator instead of its own sockets.

    import capstan as cs, capstan_lightgbm, lightgbm as lgb
    with cs.init() as comm, capstan_lightgbm.network(comm):
        parameters = {"tree_learner": "data", "num_machines": comm.size, "pre_partition": True}
        booster = lgb.train(parameters, lgb.Dataset(own_rows, own_labels))

Each rank has rows of its own; all ranks get the same model. The learners are "data" and "voting". An error
of a peer is a LightGBMError with Capstan's text. A network belongs to the thread that has made it, as in LightGBM.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any, Iterator

import capstan
from capstan import _engine

__all__ = ["network"]


def _library() -> Any:
    import lightgbm.basic

    return lightgbm.basic._LIB


def _check(status: int) -> None:
    import lightgbm.basic

    if status:
        library = _library()
        library.LGBM_GetLastError.restype = ctypes.c_char_p
        raise lightgbm.basic.LightGBMError(library.LGBM_GetLastError().decode())


@contextlib.contextmanager
def network(comm: capstan.Communicator) -> Iterator[None]:
    """LightGBM's collectives of this thread run on `comm` inside of the block."""
    library = _library()
    reduce_scatter, all_gather = _engine._start_lightgbm(comm)
    try:
        _check(
            library.LGBM_NetworkInitWithFunctions(
                ctypes.c_int(comm.size),
                ctypes.c_int(comm.rank),
                ctypes.c_void_p(reduce_scatter),
                ctypes.c_void_p(all_gather),
            )
        )
        yield
    finally:
        library.LGBM_NetworkFree()
        _engine._end_lightgbm()
