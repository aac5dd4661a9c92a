# SPDX-License-Identifier: Apache-2.0
"""Arrays whose memory does not hold the values that they show: refused by every call, whatever hides it."""

from __future__ import annotations

import ctypes
import itertools
import mmap
from typing import Any, Callable, Iterator

import numpy as np
import pytest

import capstan as cs

Call = Callable[[cs.Communicator, Any], Any]

MOVES: dict[str, Call] = {
    "broadcast": lambda c, x: c.broadcast(x),
    "all_gather": lambda c, x: c.all_gather(x),
    "gather": lambda c, x: c.gather(x),
    "scatter": lambda c, x: c.scatter(x),
    "all_to_all": lambda c, x: c.all_to_all(x),
    "send": lambda c, x: c.send(x, to=0, wait=False),
    "recv": lambda c, x: c.recv(x, source=0, wait=False),
}
SUMS: dict[str, Call] = {
    "all_reduce": lambda c, x: c.all_reduce(x),
    "reduce": lambda c, x: c.reduce(x),
    "reduce_scatter": lambda c, x: c.reduce_scatter(x),
    "scan": lambda c, x: c.scan(x),
    "exscan": lambda c, x: c.exscan(x),
    "all_reduce_fused": lambda c, x: c.all_reduce_fused([x]),
    "persistent": lambda c, x: c.all_reduce(x, wait="persistent"),
}
INTO: dict[str, Callable[[cs.Communicator, Any, Any], Any]] = {
    "all_reduce": lambda c, x, out: c.all_reduce(x, "max", out=out),
    "reduce": lambda c, x, out: c.reduce(x, 0, "max", out=out),
    "reduce_scatter": lambda c, x, out: c.reduce_scatter(x, "max", out=out),
    "scan": lambda c, x, out: c.scan(x, "max", out=out),
    "exscan": lambda c, x, out: c.exscan(x, "max", out=out),
    "all_gather": lambda c, x, out: c.all_gather(x, out=out),
    "gather": lambda c, x, out: c.gather(x, out=out),
    "scatter": lambda c, x, out: c.scatter(x, out=out),
    "all_to_all": lambda c, x, out: c.all_to_all(x, out=out),
    "counts": lambda c, x, out: c.all_gather(x, out=out, counts=[4]),
    "persistent": lambda c, x, out: c.all_gather(x, out=out, wait="persistent"),
}


class Interface:
    """Only the array interface."""

    def __init__(self, array: Any) -> None:
        self.__array_interface__ = array.__array_interface__
        self.array = array


@pytest.fixture
def alone() -> Iterator[cs.Communicator]:
    with cs.local_world(1)[0] as comm:
        yield comm


def records(kinds: list[Any]) -> list[Any]:
    """Record types of one or two fields: in order, in the other order, with gaps, nested, in arrays."""
    made: list[Any] = []
    for kind in kinds:
        size = np.dtype(kind).itemsize
        for other in ("M8[s]", "i1"):
            made.append([("other", other), ("x", kind)])
            made.append([("x", kind), ("other", other)])
            for places in ((size + 8, 0), (0, 16)):
                layout = {"names": ["other", "x"], "formats": [other, kind], "offsets": places, "itemsize": size + 24}
                made.append(layout)
        made.append([("x", kind, (2, 3)), ("date", "m8[D]")])
    return [np.dtype(kind) for kind in made]


@pytest.mark.parametrize("kind, text", [("O", "are addresses"), (">f4", "another machine"), (">M8[s]", "another machine")])
def test_no_field_of_a_record_hides_its_elements(alone: cs.Communicator, kind: str, text: str) -> None:
    once = records([np.dtype(kind)])
    for dtype in once + records(once):
        array = np.zeros(2, dtype)
        array_of_fields = dtype.descr if in_order(dtype) else None
        for way in (lambda x: x, Interface) if array_of_fields else (lambda x: x,):
            for name, call in MOVES.items():
                if way is Interface and name not in ("broadcast", "recv"):
                    continue  # a result has numpy's type
                with pytest.raises(TypeError, match=text):
                    call(alone, way(array))
                    pytest.fail(f"{name} of {dtype}")


def in_order(dtype: Any) -> bool:
    """The array interface names the fields."""
    if dtype.subdtype:
        return in_order(dtype.base)
    offsets = [dtype.fields[name][1] for name in dtype.names or ()]
    return offsets == sorted(offsets) and all(in_order(dtype[name]) for name in dtype.names or ())


def test_other_records_are_moved(alone: cs.Communicator) -> None:
    once = records([np.dtype(kind) for kind in ("M8[s]", "<f4", "|S3", "<U2", "?", "V5")])
    for dtype in once + records(once):
        array = np.frombuffer(bytes(i % 2 for i in range(2 * dtype.itemsize)), dtype)
        assert alone.all_gather(array).tobytes() == array.tobytes()
        alone.broadcast(np.zeros(2, dtype))


Simple = [ctypes.c_int, ctypes.c_double, ctypes.c_char, ctypes.c_bool, ctypes.c_longdouble, ctypes.c_wchar]
Addresses = [
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.c_wchar_p,
    ctypes.py_object,
    ctypes.CFUNCTYPE(None),
    ctypes.POINTER(ctypes.c_int),
]


def around(kind: Any) -> Iterator[Any]:
    """The types of ctypes that have one of this type in them."""
    fields = [("first", ctypes.c_byte), ("x", kind)]
    yield kind * 2
    yield type("Last", (ctypes.Structure,), {"_fields_": fields})
    yield type("First", (ctypes.Structure,), {"_fields_": fields[::-1]})
    yield type("Packed", (ctypes.Structure,), {"_pack_": 1, "_fields_": fields})
    yield type("Union", (ctypes.Union,), {"_fields_": fields})
    base = type("Base", (ctypes.Structure,), {"_fields_": fields})
    yield type("Derived", (base,), {"_fields_": [("more", ctypes.c_int)]})
    yield type("Derived", (base,), {})


def with_all(kinds: list[Any]) -> Iterator[Any]:
    for kind in kinds:
        yield kind
        for outer in around(kind):
            yield outer
            yield from around(outer)


def test_addresses_of_ctypes_stay(alone: cs.Communicator) -> None:
    for kind in with_all(Addresses):
        for way in (lambda x: x, memoryview, lambda x: memoryview(x)[:1]):
            array = way((kind * 2)())
            for name, call in (("broadcast", alone.broadcast), ("send", lambda x: alone.send(x, to=0, wait=False))):
                with pytest.raises(TypeError, match="addresses"):
                    call(array)
                    pytest.fail(f"{name} of {kind} as {memoryview(array).format}")


def test_what_ctypes_has_no_format_for_is_moved_and_not_combined(alone: cs.Communicator) -> None:
    for kind in with_all(Simple):
        array = (kind * 2)()
        alone.broadcast(array)
        if issubclass(kind, ctypes.Union) and ctypes.sizeof(kind) > 1:
            with pytest.raises(TypeError, match="cannot be combined"):
                alone.all_reduce(array)


def test_booleans_come_of_booleans_alone(alone: cs.Communicator) -> None:
    """Other values in their memory are neither true nor false."""
    numbers, booleans = np.array([2, 0, 1, 255], "u1"), np.array([True, False, True, True])
    for (name, call), way in itertools.product(INTO.items(), (lambda x: x, lambda x: x[::-1], Interface)):
        for given, out in ((numbers, booleans), (booleans, numbers)):
            with pytest.raises(TypeError, match="different types, .*bool"):
                call(alone, given, way(out.copy()))
                pytest.fail(f"{name} of {given.dtype} into {out.dtype}")
        if name != "persistent":  # takes none that is reversed
            result = np.zeros(4, bool)
            call(alone, booleans, way(result))
            assert name == "exscan" or sorted(result) == sorted(booleans), name


RECORD = np.dtype([("x", "i4"), ("hidden", "O"), ("y", "i4"), ("z", "M8[s]")])
VIEWS: dict[str, Callable[[Any], Any]] = {
    "some fields": lambda records: records[["x", "y"]],
    "some fields with dates": lambda records: records[["x", "z"]],
    "the first field": lambda records: records[["x"]],
    "every second": lambda records: records[["x", "y"]][::2],
    "in two dimensions": lambda records: records.reshape(2, 2)[["x", "y"]].T,
    "as a memoryview": lambda records: memoryview(records[["x", "y"]]),
    "of a subclass": lambda records: records.view(np.recarray)[["x", "y"]],
    "by hand": lambda records: np.ndarray(
        (4,), {"names": ["x"], "formats": ["i4"], "itemsize": records.itemsize}, records[["x", "y", "z"]]
    ),
}


def test_a_result_in_some_fields_overwrites_no_others(alone: cs.Communicator) -> None:
    """Between their fields lie others of the array beneath, here even addresses."""
    for how, view in VIEWS.items():
        records = np.array([(i, [i], -i, i) for i in range(4)], RECORD)
        before, part = records.copy(), view(records)
        for name in ("broadcast", "recv"):
            with pytest.raises(BufferError, match="other bytes a result would overwrite"):
                MOVES[name](alone, part)
                pytest.fail(f"{name} of {how}")
        for name in ("all_gather", "gather", "scatter", "all_to_all"):
            with pytest.raises(BufferError, match="other bytes a result would overwrite"):
                INTO[name](alone, part, part)
                pytest.fail(f"{name} into {how}")
        assert (records == before).all()
        if not isinstance(part, memoryview):
            np.testing.assert_array_equal(alone.all_gather(part)[0], part)  # they are read
    padded = np.zeros(3, np.dtype([("x", "i1"), ("y", "f8")], align=True))
    bytes_beneath = np.zeros(48, "u1")
    for own in (
        padded,
        padded[::2],
        padded.view(np.recarray),
        np.frombuffer(bytearray(48), padded.dtype),
        np.frombuffer(bytes_beneath, padded.dtype),
        bytes_beneath.view(padded.dtype),
        np.zeros(6, "f8").view(padded.dtype),
    ):
        alone.broadcast(own)
        alone.all_gather(own, out=own)


def test_elements_of_one_size_are_not_of_one_type(alone: cs.Communicator) -> None:
    for given, other in (("M8[s]", "M8[ms]"), ("i2", "u2"), ("M8[s]", "m8[s]"), ("S4", "U1"), ("i4,f4", "f4,i4")):
        for (name, call), way in itertools.product(INTO.items(), (lambda x: x, lambda x: x[::-1])):
            with pytest.raises(TypeError, match="different types|cannot be combined"):
                call(alone, np.zeros(4, given), way(np.zeros(4, other)))
                pytest.fail(f"{name} of {given} into {other}")


class Told:
    """An array interface as the test tells it."""

    def __init__(self, **members: Any) -> None:
        self.__array_interface__ = {"typestr": "<f8", "shape": (3,), "version": 3, **members}


def test_interfaces_without_an_address_are_not_read(alone: cs.Communicator) -> None:
    for told in (Told(), Told(data=None), Told(data=bytearray(24)), Told(data=[1 << 40, False])):
        for name, call in {**MOVES, **SUMS}.items():
            with pytest.raises(TypeError, match="has no address"):
                call(alone, told)
                pytest.fail(name)


def test_memory_that_was_given_back_says_so(alone: cs.Communicator) -> None:
    released, closed = memoryview(bytearray(4)), mmap.mmap(-1, 4)
    released.release()
    closed.close()
    for call in ({**MOVES, **SUMS}).values():
        with pytest.raises(ValueError, match="released memoryview"):
            call(alone, released)
        with pytest.raises(ValueError, match="closed"):
            call(alone, closed)


def masked_arrays(masked: bool) -> Iterator[Any]:
    for mask in ([masked, False, False], [False, False, masked], [masked] * 3):
        yield np.ma.array([1.0, 2.0, 3.0], mask=mask)
        yield np.ma.array(np.ones((3, 2)), mask=np.array([mask, mask]).T)[:, :1]
    yield np.ma.array([1, 2, 3], mask=[False, masked, False], hard_mask=True)
    yield np.ma.array(3.0, mask=masked)


def test_masked_elements_are_no_values(alone: cs.Communicator) -> None:
    for array in masked_arrays(True):
        for name, call in {**MOVES, **SUMS}.items():
            with pytest.raises(BufferError, match="masks elements.*filled"):
                call(alone, array)
                pytest.fail(f"{name} of {array!r}")
        for name, into in INTO.items():
            with pytest.raises((BufferError, TypeError), match="masks elements|different types"):
                into(alone, np.ones(array.shape, array.dtype), array)
        with pytest.raises(BufferError, match="masks elements"):
            alone.all_reduce(cs.typed(array, "i64"))
    record = np.ma.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")], mask=[(False, True)])
    with pytest.raises(BufferError, match="masks elements"):
        alone.broadcast(record)
    for array in masked_arrays(False):
        before = array.filled(0)
        alone.all_reduce(array)
        alone.broadcast(array)
        np.testing.assert_array_equal(array, before)


def test_tensors_of_lazy_signs_are_resolved_first(alone: cs.Communicator) -> None:
    torch = pytest.importorskip("torch")
    numbers = torch.tensor([1 + 2j, 3 + 4j])
    lazy = {
        "resolve_neg": [numbers.conj().imag, torch._neg_view(torch.ones(2)), numbers.conj().imag[::2]],
        "resolve_conj": [numbers.conj(), numbers.conj()[1:]],
    }
    for remedy, tensors in lazy.items():
        for tensor in tensors:
            for name, call in {**MOVES, **SUMS}.items():
                with pytest.raises(BufferError, match=remedy):
                    call(alone, tensor)
                    pytest.fail(f"{name} of {tensor}")
            for into in INTO.values():
                with pytest.raises(BufferError, match=remedy):
                    into(alone, getattr(tensor, remedy)(), tensor)
            resolved = getattr(tensor, remedy)()
            assert torch.equal(alone.all_gather(resolved)[0], tensor)
