# SPDX-License-Identifier: Apache-2.0
"""Arrays that the library makes for results."""

from __future__ import annotations

from typing import Any, Sequence

from . import _engine


def empty(like: Any, shape: Sequence[int]) -> Any:
    """An array of the library, element type and device of `like`."""
    if isinstance(like, _engine._Typed):
        raise _engine.InvalidArgument("pass `out` where the array is typed(): results need a type, too")
    if type(like).__module__.partition(".")[0] == "torch":
        return like.new_empty(tuple(shape))
    import numpy

    known = getattr(like, "dtype", None)
    dtype = known if isinstance(known, numpy.dtype) else numpy.asarray(memoryview(like)).dtype
    return numpy.empty(tuple(shape), dtype)
