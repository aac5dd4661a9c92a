# SPDX-License-Identifier: Apache-2.0
"""Groups by PyTorch's own names that are Capstan's: served.py STORE call|variable.

By serve(), or by CAPSTAN_PYTORCH_SERVES=gloo,mpi, which the test has set.
"""

import os
import sys

import capstan_torch
import torch
import torch.distributed as dist

store, how = sys.argv[1:]
rank, size = int(os.environ["CAPSTAN_RANK"]), int(os.environ["CAPSTAN_SIZE"])
if how == "call":
    before = dist.Backend.__new__
    capstan_torch.serve()
    assert dist.Backend("gloo") == "gloo" and dist.Backend.__new__ is before
    assert "capstan" not in before.__module__, "importing the package changes nothing"
    capstan_torch.serve("gloo")
    once = dist.Backend.__new__
    capstan_torch.serve("mpi", "gloo")
    assert dist.Backend.__new__ is once
    try:
        capstan_torch.serve("nccl")
    except ValueError as error:
        assert "'nccl'" in str(error), error
    else:
        raise AssertionError("nccl is served")
else:
    assert os.environ["CAPSTAN_PYTORCH_SERVES"] == "gloo,mpi"


by_devices = hasattr(dist.Backend, "default_device_backend_map")  # PyTorch 2, which also chooses backends


def check(group=None):
    what = dist.get_backend_config(group) if by_devices else dist.get_backend(group)
    assert what in ("capstan", "cpu:capstan"), what
    data = torch.full((5,), float(rank + 1))
    dist.all_reduce(data, group=group)
    assert data.tolist() == [size * (size + 1) / 2] * 5, data


for number, name in enumerate(["gloo", "GLOO", "mpi"] + ["cpu:gloo", None] * by_devices):
    dist.init_process_group(name, init_method=f"file://{store}.{number}", rank=rank, world_size=size)
    check()
    check(dist.new_group(backend="gloo"))
    dist.destroy_process_group()
print(f"rank {rank}: served by {how}", flush=True)
