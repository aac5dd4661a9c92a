# SPDX-License-Identifier: Apache-2.0
"""Tensors that PyTorch negates or conjugates when it reads them.

PyTorch's dispatcher hands copies of them to calls in place, whose results are lost with every backend: those are left
out here. Of complex ones it passes on the real numbers, where it takes them.
"""

import torch
import torch.distributed as dist
from collectives import everybodys, rank, same, size


def negated(values):
    """The same values, in memory that holds their negatives."""
    return torch._neg_view(-values)


def check_tensors_that_are_negated_when_they_are_read():
    inputs = everybodys(6 * size())
    mine, block = inputs[rank()], slice(6 * rank(), 6 * rank() + 6)
    assert negated(mine).is_neg() and negated(mine).is_contiguous()
    got = [negated(torch.zeros_like(mine)) for _ in inputs]
    dist.all_gather(got, negated(mine))
    for each, wanted in zip(got, inputs):
        same(each.resolve_neg(), wanted)
    got = torch.zeros_like(mine)
    dist.all_to_all_single(got, negated(mine))
    same(got, torch.cat([each[block] for each in inputs]))
    got = torch.zeros(6)
    dist.reduce_scatter(got, [negated(part) for part in mine.chunk(size())])
    same(got, sum(inputs)[block])
    if size() > 1:
        sent = dist.isend(negated(mine), (rank() + 1) % size())
        got = torch.zeros_like(mine)
        dist.recv(got, (rank() - 1) % size())
        sent.wait()
        same(got, inputs[rank() - 1])
