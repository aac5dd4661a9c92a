# SPDX-License-Identifier: Apache-2.0
"""Sums a tensor over ranks. Start it with `torchrun --nproc-per-node 2 all_reduce.py`."""

import capstan_torch  # noqa: F401: registers the backend
import torch
import torch.distributed as dist

dist.init_process_group("capstan")
gradient = torch.full((1000,), dist.get_rank() + 1.0)
dist.all_reduce(gradient)

ranks = dist.get_world_size()
assert torch.all(gradient == ranks * (ranks + 1) / 2)
if dist.get_rank() == 0:
    print(f"{ranks} ranks, the sum is {gradient[0]:g}")
dist.destroy_process_group()
