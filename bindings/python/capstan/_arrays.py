# SPDX-License-Identifier: Apache-2.0
"""Arrays that the library makes for results, and refusals of arrays that it cannot use."""

from __future__ import annotations

import ctypes
import functools
import operator
import sys
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
    if isinstance(known, numpy.dtype):
        return numpy.empty(tuple(shape), known)
    exporter = like if hasattr(like, "__array_interface__") else memoryview(like)
    return numpy.empty(tuple(shape), numpy.asarray(exporter).dtype)


def has_addresses(kind: Any) -> bool:
    """Whether a type of ctypes has addresses. Its formats leave out unions, packed fields and base classes."""
    if issubclass(kind, ctypes.Array):
        return has_addresses(kind._type_)
    if issubclass(kind, (ctypes.Structure, ctypes.Union)):
        fields = (field for base in kind.__mro__ for field in vars(base).get("_fields_", ()))
        return any(has_addresses(field[1]) for field in fields)
    untyped: Any = ctypes  # stubs lack some of its names
    return issubclass(kind, (untyped._Pointer, untyped._CFuncPtr)) or getattr(kind, "_type_", "") in tuple("OPXZz")


def exporter_of(array: Any) -> Any:
    while isinstance(array, memoryview):
        array = array.obj
    return array


def refuse_addresses(exporter: Any) -> None:
    exporter = exporter_of(exporter)
    if has_addresses(type(exporter)):
        raise TypeError(
            f"elements of this {type(exporter).__name__} have addresses, which mean nothing to another rank: pass values"
        )


def has_gaps(dtype: Any) -> bool:
    """Whether bytes of elements belong to none of their fields."""
    if dtype.subdtype is not None:
        return has_gaps(dtype.base)
    if dtype.fields is None:
        return False
    end = 0
    offsets = {name: int(dtype.fields[name][1]) for name in dtype.names}
    for name, offset in sorted(offsets.items(), key=operator.itemgetter(1)):
        field = dtype[name]
        if offset > end or has_gaps(field):
            return True
        end = max(end, offset + field.itemsize)
    return bool(end < dtype.itemsize)


def refuse_gaps(array: Any) -> None:
    """For views of some fields of records, as records[["x", "z"]]: a result would overwrite the others.

    Records over plain bytes or numbers have nothing between their fields that somebody else reads.
    """
    array = exporter_of(array)
    dtype = getattr(array, "dtype", None)
    if not hasattr(array, "__array_interface__") or not has_gaps(dtype):
        return
    beneath = array
    while beneath is not None:
        other = getattr(beneath, "dtype", dtype)
        if other != dtype and getattr(other, "fields", None) is not None:
            raise BufferError(
                f"the elements, {dtype}, are parts of elements of another array, whose other bytes a result would "
                "overwrite: pass a copy (numpy.lib.recfunctions.repack_fields), or one field at a time"
            )
        beneath = getattr(beneath, "obj" if isinstance(beneath, memoryview) else "base", None)


def refuse_mask(array: Any) -> None:
    """For arrays of numpy.ma, which calls would take with the values beneath the mask."""
    masked = sys.modules.get("numpy.ma")
    if masked is None or not isinstance(array, masked.MaskedArray):
        return
    if masked.flatten_mask(masked.getmaskarray(array)).any():
        raise BufferError(
            "the array masks elements, which a call would use with the values beneath: pass array.filled(value), "
            "or array.data for those values"
        )


def element_name(array: Any) -> str | None:
    """Names the elements of an array that no element type of Capstan's is the same as; equal types have one name."""
    dtype = getattr(array, "dtype", None)
    try:
        import numpy
    except ImportError:
        return None if dtype is None else str(dtype)
    if isinstance(dtype, numpy.dtype):
        return name_of_type(dtype)
    kind: Any = type(exporter_of(array))
    while issubclass(kind, ctypes.Array):
        kind = kind._type_
    is_of_ctypes = issubclass(kind, (ctypes.Structure, ctypes.Union, ctypes._SimpleCData))
    try:
        return name_of_type(numpy.dtype(kind) if is_of_ctypes else numpy.asarray(array).dtype)
    except (TypeError, ValueError, RuntimeError):  # bit fields, for example
        return kind.__qualname__ if is_of_ctypes else None


@functools.lru_cache(maxsize=1000)
def name_of_type(dtype: Any) -> str:
    """As numpy names it, but for records: their alignment is no part of it, as what they hold is the same."""
    if dtype.subdtype is not None:
        return f"{name_of_type(dtype.base)}{list(dtype.shape)}"
    if dtype.names is None:
        return str(dtype)
    fields, end = [], 0
    for name in dtype.names:
        field, offset = dtype.fields[name][:2]
        fields.append(f"{name}: {name_of_type(field)}" + ("" if offset == end else f" at {offset}"))
        end = offset + field.itemsize
    return f"{{{', '.join(fields)}}}" + ("" if end == dtype.itemsize else f" of {dtype.itemsize} bytes")
