# SPDX-License-Identifier: Apache-2.0
"""A wrapper by ctypes that looks every name up when it loads, as Python programs of NCCL do, in several
processes. Usage: wrapper.py LIBRARY SYMBOLS RANKS."""

import ctypes
import multiprocessing
import sys


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def load(path, names):
    library = ctypes.CDLL(path)
    for name in names:
        getattr(library, name)
    library.ncclGetLastError.restype = ctypes.c_char_p
    library.ncclCommInitRank.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, UniqueId, ctypes.c_int]
    return library


def check(library, result):
    if result != 0:
        raise RuntimeError(f"{result}: {library.ncclGetLastError(None).decode()}")


def run(path, names, identity, rank, ranks):
    library = load(path, names)
    comm = ctypes.c_void_p()
    check(library, library.ncclCommInitRank(ctypes.byref(comm), ranks, UniqueId.from_buffer_copy(identity), rank))
    data = (ctypes.c_float * 1000)(*(rank + i for i in range(1000)))
    total = (ctypes.c_float * 1000)()
    null = ctypes.c_void_p()
    f32, add = 7, 0
    check(library, library.ncclAllReduce(data, total, ctypes.c_size_t(1000), f32, add, comm, null))
    assert list(total) == [sum(r + i for r in range(ranks)) for i in range(1000)]
    received = (ctypes.c_float * 10)()
    check(library, library.ncclGroupStart())
    check(library, library.ncclSend(data, ctypes.c_size_t(10), f32, (rank + 1) % ranks, comm, null))
    check(library, library.ncclRecv(received, ctypes.c_size_t(10), f32, (rank - 1) % ranks, comm, null))
    check(library, library.ncclGroupEnd())
    assert list(received) == [(rank - 1) % ranks + i for i in range(10)]
    check(library, library.ncclCommDestroy(comm))


if __name__ == "__main__":
    path, symbols, ranks = sys.argv[1], sys.argv[2], int(sys.argv[3])
    names = open(symbols).read().split()
    library = load(path, names)
    identity = UniqueId()
    check(library, library.ncclGetUniqueId(ctypes.byref(identity)))
    context = multiprocessing.get_context("spawn")
    jobs = [
        context.Process(target=run, args=(path, names, bytes(identity), rank, ranks)) for rank in range(ranks)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(120)
    assert [job.exitcode for job in jobs] == [0] * ranks, [job.exitcode for job in jobs]
    print(f"{len(names)} names, {ranks} processes")
