# SPDX-License-Identifier: Apache-2.0
"""Tensors that calls write: some have no place for each result, others only in their mode."""

import time

import torch
import torch.distributed as dist
from collectives import data, everybodys, rank, refused, same, size


def written(count):
    """Calls that write a tensor of so many elements: what they start, and what the tensor holds then."""
    mine, all_of_them = data(rank(), count), everybodys(count)
    parts = [mine] * size()
    calls = {
        "all_reduce": (lambda t: dist.all_reduce(t.copy_(mine), async_op=True), sum(all_of_them)),
        "all_gather": (lambda t: dist.all_gather([t] * size(), mine, async_op=True), all_of_them[-1]),
        "reduce_scatter": (lambda t: dist.reduce_scatter(t, parts, async_op=True), sum(all_of_them)),
        "scatter": (lambda t: dist.scatter(t, parts if rank() == 0 else [], async_op=True), all_of_them[0]),
    }
    if size() > 1:
        before, after = (rank() - 1) % size(), (rank() + 1) % size()
        calls["recv"] = (lambda t: (dist.isend(mine, after), dist.irecv(t, before))[1], all_of_them[before])
    return calls.items()


def finished(future):
    deadline = time.monotonic() + 60
    while not future.done():
        assert time.monotonic() < deadline, "the future is never done"
        time.sleep(0.001)
    return future


def check_tensors_whose_elements_share_memory():
    """They are refused before anything is sent, as a result for each has no place."""
    for name, (call, _) in written(4):
        if name == "recv":  # its send has been started by then
            continue
        for tensor in (torch.zeros(1).expand(4), torch.zeros(6).as_strided((2, 2), (1, 1))):
            tensor.copy_ = lambda _, tensor=tensor: tensor
            refused(lambda call=call, tensor=tensor: call(tensor), "share memory")
    same_everywhere = torch.tensor(float(rank())).expand(5)  # the root's is only read
    got = same_everywhere if rank() == 0 else torch.empty(5)
    dist.broadcast(got, 0)
    same(got, torch.zeros(5))
    got = torch.full((5,), 2.0) if rank() == 0 else torch.tensor(2.0).expand(5)
    dist.reduce(got, 0)
    same(got, torch.full((5,), 2.0 * (size() if rank() == 0 else 1)))


def check_futures_of_tensors_that_are_copied_back():
    """A thread of the library copies them, which is not in the mode of the thread that has made the call."""
    for mode in (torch.inference_mode, torch.no_grad, torch.enable_grad):
        with mode():
            wide = torch.zeros(30, 2)
            for name, (call, wanted) in written(30):
                wide.zero_()
                work = call(wide[:, 1])
                finished(work.get_future()).wait()
                same(wide[:, 1].clone(), wanted)
                assert not wide[:, 0].any(), name


def outcome(call, memory):
    """The memory that a call leaves, or that it is refused."""
    try:
        call()
    except (ValueError, RuntimeError):
        return "refused"
    return memory


def overlapping(memory, count):
    """Lists of outputs that are one tensor, or windows of one: later ones overwrite earlier ones."""
    step = max(count // 2, 1)
    return {
        "one tensor": [memory[:count]] * size(),
        "windows": [memory[r * step : r * step + count] for r in range(size())],
        "backwards": [memory[(size() - r) * step : (size() - r) * step + count] for r in range(size())],
    }


def check_outputs_that_overlap_equal_gloo():
    """Results go to their places in the order of ranks, as Gloo's do: what was written last stays."""
    gloo, capstan = dist.new_group(backend="gloo"), dist.new_group(backend="capstan")
    count, mine = 4, data(rank(), 4)
    blocks = [data(rank(), count, salt=r) for r in range(size())]
    calls = {
        "all_gather": lambda parts, group: dist.all_gather(parts, mine, group=group),
        "gather": lambda parts, group: dist.gather(mine, parts if rank() == 0 else None, 0, group=group),
        "all_to_all": lambda parts, group: dist.all_to_all(parts, blocks, group=group),
        "coalesced": lambda parts, group: dist.all_gather_coalesced([parts] * size(), [mine] * size(), group=group),
    }
    for name, call in calls.items():
        for kind in overlapping(torch.zeros(1), count):
            ends = []
            for group in (gloo, capstan):
                memory = torch.zeros(count * (size() + 1))
                parts = overlapping(memory, count)[kind]
                ends.append(outcome(lambda parts=parts, group=group: call(parts, group), memory))
            theirs, ours = ends
            if theirs == "refused" and name == "all_to_all":  # Gloo of older versions lacks it
                theirs = torch.zeros(count * (size() + 1))
                for r, part in enumerate(overlapping(theirs, count)[kind]):
                    part.copy_(data(r, count, salt=rank()))
            assert (theirs == "refused") == (ours == "refused") and (theirs == "refused" or torch.equal(theirs, ours)), (
                name,
                kind,
                theirs,
                ours,
            )


def check_inputs_that_overlap():
    """They are only read."""
    memory = data(rank(), 8)
    parts = [memory[:4]] * size()
    mine = torch.empty(4)
    dist.reduce_scatter(mine, parts)
    same(mine, sum(d[:4] for d in everybodys(8)))
    got = [torch.empty(4) for _ in range(size())]
    dist.all_to_all(got, parts)
    for r, part in enumerate(got):
        same(part, data(r, 8)[:4])
    dist.scatter(mine, parts if rank() == 0 else None, 0)
    same(mine, data(0, 8)[:4])
