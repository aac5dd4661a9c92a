# SPDX-License-Identifier: Apache-2.0
"""Tensors of other libraries, as DLPack describes them."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import capstan as cs

BOOL, UNSIGNED, FLOAT = 6, 1, 2


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class Exporter:
    """One dimension of numpy's memory, with whatever type and stride it is said to have."""

    def __init__(self, array: np.ndarray, code: int, stride: int = 1, length: int | None = None) -> None:
        self.array = array
        self.shape = (ctypes.c_int64 * 1)(len(array) if length is None else length)
        self.strides = (ctypes.c_int64 * 1)(stride)
        self.tensor = Tensor(
            data=array.ctypes.data, device_type=1, ndim=1, code=code, bits=8 * array.itemsize, lanes=1
        )
        self.tensor.shape, self.tensor.strides = self.shape, self.strides

    def __dlpack__(self) -> object:
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.tensor), b"dltensor", None)


@pytest.fixture
def alone():
    with cs.local_world(1)[0] as comm:
        yield comm


def test_handles_and_memory_of_unknown_devices_are_not_read(alone):
    opaque_handle, vulkan, metal, one_api = 3, 7, 8, 14
    into = np.zeros((1, 3))
    for call in (alone.broadcast, alone.all_reduce, lambda x: alone.all_gather(x, out=into), lambda x: alone.send(x, 0)):
        with pytest.raises(TypeError, match="has handles"):
            call(Exporter(np.arange(3.0), opaque_handle))
        for device in (0, vulkan, metal, one_api, 99, -1):
            tensor = Exporter(np.arange(3.0), FLOAT)
            tensor.tensor.device_type = device
            with pytest.raises(BufferError, match=f"device of DLPack's type {device},.* copy it to the host"):
                call(tensor)
        tensor = Exporter(np.arange(3.0), FLOAT)
        tensor.tensor.ndim = -1
        with pytest.raises(BufferError, match="dimensions below 0"):
            call(tensor)


def test_booleans_are_moved_and_combined_by_logic_alone(alone):
    values = np.array([True, False, True])
    tensor = Exporter(values.view("u1"), BOOL)
    alone.broadcast(tensor)
    alone.all_reduce(tensor, op="max")
    assert values.tolist() == [True, False, True]
    for op in ("sum", "average"):
        with pytest.raises(TypeError, match="booleans have no"):
            alone.all_reduce(tensor, op=op)
    alone.all_reduce(Exporter(values.view("u1"), UNSIGNED))


def test_results_need_memory_of_their_own(alone):
    values = np.ones(5)
    for stride in (0, 1):
        tensor = Exporter(values, FLOAT, stride, length=4)
        if stride == 0:
            with pytest.raises(BufferError, match="share memory"):
                alone.all_reduce(tensor)
        else:
            alone.all_reduce(tensor)
    assert values.tolist() == [1] * 5
