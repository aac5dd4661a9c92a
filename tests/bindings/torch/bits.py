# SPDX-License-Identifier: Apache-2.0
"""Sums that keep a promise about their bits: of a call, and of a group."""

import capstan_torch
import torch
import torch.distributed as dist
from collectives import rank, refused, same


def check_promises_of_bits():
    """1e8 + 1 + 1 ... is 1e8 in f32 if the first rank's comes first."""
    mine = torch.tensor([1e8 if rank() == 0 else 1.0])
    with capstan_torch.reproducible("rank_order"):
        dist.all_reduce(mine)
    same(mine, torch.tensor([1e8]))
    refused(lambda: capstan_torch.reproducible("partition").__enter__(), "rank_order")
    if hasattr(dist.ProcessGroup, "Options"):
        group = dist.new_group(pg_options={"reproducible": "rank_order"})
        mine = torch.tensor([1e8 if rank() == 0 else 1.0])
        dist.all_reduce(mine, group=group)
        same(mine, torch.tensor([1e8]))
