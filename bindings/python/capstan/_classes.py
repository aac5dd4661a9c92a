# SPDX-License-Identifier: Apache-2.0
"""The engine's classes refuse to be called, copied and pickled."""

from __future__ import annotations

from typing import Any

from . import _engine

# Objects come from these calls.
MADE_BY: dict[type, str] = {
    _engine.Accumulator: "Accumulator(like)",
    _engine.Communicator: "init(), join() or local_world(), and split() of one that exists",
    _engine.MessageInfo: "recv() and probe()",
    _engine.Operation: "operation() and scaled_sum()",
    _engine.OperationProfile: "Profiler.profiles()",
    _engine.Persistent: "a collective with wait='persistent'",
    _engine.Profiler: "Profiler()",
    _engine.Span: "the Steps of an algorithm, see algorithm()",
    _engine.StepProfile: "Profiler.steps()",
    _engine.Steps: "algorithm()",
    _engine.Work: "a call with wait=False",
    _engine._SharedMemory: "Communicator.allocate()",
    _engine._Typed: "typed()",
}

WITH_A_CONSTRUCTOR = (_engine.Accumulator, _engine.Profiler)


def _refuse_calls(kind: type, *_: Any, **__: Any) -> Any:
    made = next(one for one in kind.__mro__ if one in MADE_BY)
    raise TypeError(f"capstan.{made.__name__} has no constructor: use {MADE_BY[made]}")


def _refuse_copies(self: Any, *_: Any) -> Any:
    made = next(one for one in type(self).__mro__ if one in MADE_BY)
    raise TypeError(
        f"a capstan.{made.__name__} belongs to its process and can't be copied or pickled: "
        f"make another one by {MADE_BY[made]}"
    )


def guard() -> None:
    for kind in MADE_BY:
        if kind not in WITH_A_CONSTRUCTOR:
            setattr(kind, "__new__", staticmethod(_refuse_calls))
        for name in ("__reduce__", "__reduce_ex__"):
            setattr(kind, name, _refuse_copies)
