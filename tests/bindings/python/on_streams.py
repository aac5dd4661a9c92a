# SPDX-License-Identifier: Apache-2.0
"""Calls in the order of streams, on a stand-in for CUDA's driver: its library is the first argument."""

import contextlib
import ctypes
import sys
from typing import Any, Iterator, Optional

import numpy as np

import capstan as cs

cuda = ctypes.CDLL(sys.argv[1])
cuda.fake_data.restype = ctypes.c_void_p
cuda.fake_data.argtypes = [ctypes.c_void_p]
cuda.fake_synchronize.argtypes = [ctypes.c_void_p]
cuda.fake_stream.restype = ctypes.c_void_p
cuda.fake_stream.argtypes = [ctypes.c_void_p]
LAUNCHED = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
cuda.fake_launch.argtypes = [ctypes.c_void_p, LAUNCHED, ctypes.c_void_p]


def checked(error: int) -> None:
    assert error == 0, f"the driver's error {error}"


class Stream:
    """A stream, and kernels that run in it."""

    def __init__(self, number: Optional[int] = None) -> None:
        self.launched: list[Any] = []
        if number is None:
            made = ctypes.c_void_p()
            checked(cuda.cuStreamCreate(ctypes.byref(made), 1))
            number = made.value
        assert number is not None
        self.number = number

    def launch(self, body: Any) -> None:
        kernel = LAUNCHED(lambda _: body())
        self.launched.append(kernel)
        cuda.fake_launch(cuda.fake_stream(self.number), kernel, None)

    def synchronize(self) -> None:
        checked(cuda.fake_synchronize(cuda.fake_stream(self.number)))


class OfTorch:
    def __init__(self, number: int) -> None:
        self.cuda_stream = number


class OfCupy:
    def __init__(self, number: int) -> None:
        self.ptr = number


class OfNumba:
    def __init__(self, number: int) -> None:
        self.handle = ctypes.c_void_p(number)


class OfTheProtocol:
    def __init__(self, number: int) -> None:
        self.number = number

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.number


class DeviceArray:
    """Memory of the device, as CuPy would export it. Only kernels can look into it."""

    def __init__(self, values: Any) -> None:
        values = np.asarray(values)
        memory = ctypes.c_void_p()
        checked(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(max(values.nbytes, 1))))
        self.shape, self.dtype, self.memory = values.shape, values.dtype, memory.value
        self.inside[...] = values

    @property
    def inside(self) -> Any:
        kind = ctypes.c_char * max(1, int(np.prod(self.shape)) * self.dtype.itemsize)
        return np.frombuffer(kind.from_address(cuda.fake_data(self.memory)), self.dtype).reshape(self.shape)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.memory, False), "version": 3}


def setup() -> None:
    checked(cuda.cuInit(0))
    context = ctypes.c_void_p()
    checked(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    checked(cuda.cuCtxPushCurrent_v2(context))


def in_order(comm: cs.Communicator, stream: Any, order: Stream) -> None:
    """A kernel writes, the call sums, another kernel looks: nobody waits but the stream."""
    n = 1000
    data, seen = DeviceArray(np.full(n, -1, np.float32)), []
    for step in range(5):
        order.launch(lambda step=step: data.inside.fill(step + comm.rank))
        result = comm.all_reduce(data, stream=stream)
        assert result is data
        order.launch(lambda: seen.append((data.inside[0], data.inside[-1])))
    order.synchronize()
    size = comm.size
    assert seen == [(size * step + size * (size - 1) / 2,) * 2 for step in range(5)], seen


def every_call(comm: cs.Communicator, stream: Stream) -> None:
    me, size = comm.rank, comm.size
    own = np.arange(6, dtype=np.float64) + 10 * me
    everybody = [np.arange(6, dtype=np.float64) + 10 * rank for rank in range(size)]
    total = np.sum(everybody, axis=0)

    def call(name: str, *arguments: Any, into: int = 6, **keywords: Any) -> Any:
        data, out = DeviceArray(own), DeviceArray(np.zeros(into))
        getattr(comm, name)(data, *arguments, out=out, stream=stream.number, **keywords)
        stream.synchronize()
        return out.inside

    for wait in (True, False):
        for name in ("all_reduce", "scan", "exscan"):
            data = DeviceArray(own)
            work = getattr(comm, name)(data, stream=stream.number, wait=wait)
            assert isinstance(work, cs.Work) == (not wait)
            if not wait:
                work.wait()
            stream.synchronize()
            expected = {
                "all_reduce": total,
                "scan": np.sum(everybody[: me + 1], axis=0),
                "exscan": np.sum(everybody[:me], axis=0) if me else own,
            }[name]
            assert (data.inside == expected).all(), (name, data.inside)
    data = DeviceArray(own)
    comm.broadcast(data, 1, stream=stream.number)
    stream.synchronize()
    assert (data.inside == everybody[1]).all()
    assert (call("all_gather", into=6 * size) == np.concatenate(everybody)).all()
    gathered = call("gather", 1, into=6 * size)
    assert me != 1 or (gathered == np.concatenate(everybody)).all()
    reduced = call("reduce", 1, into=6)
    assert me != 1 or (reduced == total).all()
    assert (call("scatter", 0, into=6 // size) == everybody[0].reshape(size, -1)[me]).all()
    assert (call("reduce_scatter", into=6 // size) == total.reshape(size, -1)[me]).all()
    expected = np.concatenate([each.reshape(size, -1)[me] for each in everybody])
    assert (call("all_to_all") == expected).all()
    assert (call("all_gather", into=6 * size, counts=[6] * size) == np.concatenate(everybody)).all()
    data = DeviceArray(own)
    comm.all_reduce(data, algorithm="ring", stream=stream.number)
    stream.synchronize()
    assert (data.inside == total).all()


def messages(comm: cs.Communicator, stream: Stream) -> None:
    me, size = comm.rank, comm.size
    own, got, seen = DeviceArray(np.zeros(100)), DeviceArray(np.zeros(100)), []
    for step in range(3):
        stream.launch(lambda step=step: own.inside.fill(10 * step + me))
        with comm.group(stream=stream.number):
            comm.send(own, (me + 1) % size)
            comm.recv(got, (me - 1) % size)
        stream.launch(lambda: seen.append(got.inside[99]))
    if me == 0:
        comm.send(own, 1, stream=stream.number)
    elif me == 1:
        comm.recv(got, 0, stream=stream.number, wait=False).wait()
    stream.synchronize()
    assert seen == [10 * step + (me - 1) % size for step in range(3)], seen
    assert me != 1 or got.inside[99] == 20


@contextlib.contextmanager
def refused(kind: type[BaseException], text: str) -> Iterator[None]:
    try:
        yield
    except kind as error:
        assert text in str(error), error
        return
    raise AssertionError(f"no {kind.__name__}: {text}")


def refusals(comm: cs.Communicator, stream: Stream) -> None:
    host, data = np.zeros(3), DeviceArray(np.zeros(3))
    with refused(cs.InvalidArgument, "host memory"):
        comm.all_reduce(host, stream=stream.number)
    with refused(TypeError, "is no stream"):
        comm.all_reduce(data, stream=3.5)
    with refused(TypeError, "is no stream"):
        comm.all_reduce(data, stream=True)
    with refused(TypeError, "stream='current' is known for"):
        comm.all_reduce(data, stream="current")
    with refused(cs.InvalidArgument, "pass no stream"):
        comm.all_reduce(data, stream=stream.number, wait="persistent")
    with refused(cs.InvalidArgument, "pass it to group()"):
        with comm.group():
            comm.send(data, 0, stream=stream.number)
    with refused(TypeError, "no argument 'stream'"):
        comm.barrier(stream=stream.number)  # type: ignore[call-overload]


setup()
with cs.init() as comm:
    stream, default = Stream(), Stream(0)
    in_order(comm, stream.number, stream)
    for kind in (OfTorch, OfCupy, OfNumba, OfTheProtocol):
        in_order(comm, kind(stream.number), stream)
    in_order(comm, 0, default)
    in_order(comm, OfCupy(0), default)
    every_call(comm, stream)
    messages(comm, stream)
    refusals(comm, stream)
    print(f"rank {comm.rank}: all right")
