# SPDX-License-Identifier: Apache-2.0
"""Programs of clients.py that call Capstan's libnccl.so.2: wrappers of NCCL that vLLM, SGLang and nccl4py bring."""

import ctypes
import importlib.util
import pathlib

import torch

RANKS = 2


def check_wrapper(wrapper, path, exchange, rank):
    """The wrapper that vLLM has, and SGLang from it. `exchange` gives every rank what rank 0 has."""
    library = wrapper.NCCLLibrary(str(path))
    unique = exchange(bytes(library.ncclGetUniqueId().internal) if rank == 0 else None)
    given = wrapper.ncclUniqueId()
    ctypes.memmove(ctypes.byref(given), unique, len(unique))
    comm, stream = library.ncclCommInitRank(RANKS, given, rank), wrapper.cudaStream_t(None)
    own, found = torch.full((1000,), rank + 1.0), torch.zeros(1000)
    source, target = (wrapper.buffer_type(one.data_ptr()) for one in (own, found))
    f32 = wrapper.ncclDataTypeEnum.from_torch(torch.float32)
    library.ncclAllReduce(source, target, 1000, f32, 0, comm, stream)
    assert found.eq(3).all()
    library.ncclBroadcast(source, target, 1000, f32, 1, comm, stream)
    assert found.eq(2).all()
    library.ncclReduceScatter(source, target, 500, f32, 0, comm, stream)
    library.ncclAllGather(source, target, 500, f32, comm, stream)
    assert found[:500].eq(1).all() and found[500:].eq(2).all()
    library.ncclGroupStart()
    library.ncclSend(source, 1000, f32, 1 - rank, comm, stream)
    library.ncclRecv(target, 1000, f32, 1 - rank, comm, stream)
    library.ncclGroupEnd()
    assert found.eq(2 - rank).all()
    library.ncclCommDestroy(comm)


def module_in(package, path):
    """A module of a package, without the package, which imports more than is installed."""
    folder = pathlib.Path(importlib.util.find_spec(package).submodule_search_locations[0])
    spec = importlib.util.spec_from_file_location(f"{package}_{pathlib.Path(path).stem}", folder / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_nccl4py(exchange, rank):
    """Its communicators, and calls by its bindings: arrays of its high level need a driver of CUDA."""
    import nccl.bindings.nccl as bindings
    import nccl.core as nccl

    unique = exchange(nccl.get_unique_id().as_bytes if rank == 0 else None)
    comm = nccl.Communicator.init(RANKS, rank, nccl.UniqueId.from_bytes(unique))
    assert (comm.rank, comm.nranks) == (rank, RANKS)
    own, found = torch.full((1000,), rank + 1.0), torch.zeros(1000)
    f32, plus = int(nccl.FLOAT32), int(nccl.SUM)
    bindings.all_reduce(own.data_ptr(), found.data_ptr(), 1000, f32, plus, comm._comm, 0)
    assert found.eq(3).all()
    bindings.all_gather(own.data_ptr(), found.data_ptr(), 500, f32, comm._comm, 0)
    assert found[:500].eq(1).all() and found[500:].eq(2).all()
    with nccl.group():
        bindings.send(own.data_ptr(), 1000, f32, 1 - rank, comm._comm, 0)
        bindings.recv(found.data_ptr(), 1000, f32, 1 - rank, comm._comm, 0)
    assert found.eq(2 - rank).all()
    half = comm.split(rank, 0)
    assert half.nranks == 1
    half.destroy()
    comm.destroy()
