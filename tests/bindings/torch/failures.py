# SPDX-License-Identifier: Apache-2.0
"""Errors. They end the group, so each check makes one of its own."""

import datetime
import os
import signal
import threading
import types

import capstan_torch
import torch
import torch.distributed as dist
from collectives import rank, refused, size


def check_monitored_barrier():
    group = dist.new_group(timeout=datetime.timedelta(seconds=100))
    for _ in range(2):
        group.monitored_barrier(datetime.timedelta(seconds=100))
    if size() == 1:
        return
    short = datetime.timedelta(seconds=1)
    if rank() == 0:
        refused(lambda: group.monitored_barrier(short, True), f"rank {size() - 1} has not entered it")
    elif rank() < size() - 1:
        refused(lambda: group.monitored_barrier(datetime.timedelta(seconds=100), True), "in time")
    dist.barrier()


def check_unknown_options():
    if not capstan_torch._backend.can_reconfigure:
        options = types.SimpleNamespace(enable_reconfigure=True)
        refused(lambda: capstan_torch._create(options, None), "enable_reconfigure")
    from torch._C._distributed_c10d import ProcessGroup

    options = getattr(ProcessGroup, "Options", None)
    if options is None:
        return
    refused(lambda: dist.new_group(pg_options=object()), "no options")


MOVED = [
    ("int16", "Short"),
    ("uint16", "UInt16"),
    ("float8_e4m3fnuz", "Float8_e4m3fnuz"),
    ("float8_e5m2fnuz", "Float8_e5m2fnuz"),
]


def check_types_of_one_size_are_not_one_type():
    """Though Capstan has no arithmetic for them, and moves their bytes."""
    for kinds in (MOVED[:2], MOVED[2:]):
        if size() == 1 or not all(hasattr(torch, kind) for kind, _ in kinds):
            continue
        group = dist.new_group()
        mine = torch.ones(4).to(getattr(torch, kinds[min(rank(), 1)][0]))
        whole = torch.ones(4 * size()).to(mine.dtype)
        said = refused(lambda: dist.all_gather_into_tensor(whole, mine, group=group), "disagree about call")
        assert "rank 0" in said and all(name in said for _, name in kinds), said


def check_time_out_of_for_ever():
    for limit in (datetime.timedelta.max, datetime.timedelta(days=10**6)):
        group, data = dist.new_group(timeout=limit), torch.ones(3)
        dist.all_reduce(data, group=group, async_op=True).wait(limit)
        group.monitored_barrier(limit)
        assert data.eq(size()).all()


def check_time_outs_that_are_no_durations():
    group, data = dist.new_group(), torch.ones(3)
    work = dist.all_reduce(data, group=group, async_op=True)
    for limit in (datetime.timedelta(days=-1), datetime.timedelta(milliseconds=-5)):
        refused(lambda: work.wait(limit), "no duration")
        refused(lambda: group.monitored_barrier(limit), "no duration")
    for limit in (datetime.timedelta(0), datetime.timedelta(seconds=-1)):
        set_timeout = getattr(group, "_set_default_timeout", None)
        if set_timeout is not None:
            refused(lambda: set_timeout(limit), "no duration")
    work.wait(datetime.timedelta(0))  # PyTorch's: as long as the group waits
    assert data.eq(size()).all()


def check_time_out_in_a_callback():
    """A callback waits for a call that the last rank does not make."""
    if size() == 1:
        return
    group = dist.new_group(timeout=datetime.timedelta(seconds=2))
    first = dist.all_reduce(torch.ones(3), group=group, async_op=True).get_future()
    if rank() == size() - 1:
        first.wait()
    else:

        def wait(_):
            future = dist.all_reduce(torch.ones(3), group=group, async_op=True).get_future()
            refused(future.wait, f"rank {size() - 1}")
            return 7

        assert first.then(wait).wait() == 7
    dist.barrier()


def check_messages_of_nobody():
    """The error of each way to wait says who was waited for, in which call, and what to do."""
    if size() == 1:
        return
    last, data = size() - 1, torch.zeros(1)

    def poll(work):
        while not work.is_completed():
            pass
        work.wait()

    for wait in (
        lambda group: dist.recv(data, last, group=group),
        lambda group: dist.irecv(data, last, group=group).get_future().wait(),
        lambda group: poll(dist.irecv(data, last, group=group)),
    ):
        group = dist.new_group(timeout=datetime.timedelta(seconds=3))
        if rank() == 0:
            text = refused(lambda: wait(group), f"rank {last} ")
            assert "has sent no message" in text and "CAPSTAN_TIMEOUT" in text, text
        dist.barrier()


def check_interrupt():
    """Ctrl-C ends a wait; what is waited for comes only afterwards."""
    if size() == 1:
        return
    group, data = dist.new_group(), torch.zeros(1)
    if rank() == 0:
        timer = threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT])
        try:
            timer.start()
            dist.recv(data, 1, group=group)
            raise AssertionError("a message has come that nobody has sent")
        except KeyboardInterrupt:
            timer.join()
    dist.barrier()
    if rank() == 1:
        dist.send(torch.ones(1), 0, group=group)
    dist.barrier()


def check_mismatch():
    if size() == 1:
        return
    group = dist.new_group()
    refused(lambda: dist.all_reduce(torch.ones(3 + rank()), group=group), "all_reduce")


def check_splits_on_some_ranks():
    if size() == 1:
        return
    for splits in ([1] * size(), [2] + [1] * (size() - 2) + [0]):
        group, data, found = dist.new_group(), torch.ones(size()), torch.zeros(size())
        given = (splits, splits) if rank() == 0 else ()
        said = refused(lambda: dist.all_to_all_single(found, data, *given, group=group), "split sizes on all ranks, or")
        assert "rank 0 " in said and any(f"rank {other} " in said for other in range(1, size())), said


def check_lost_peer():
    """The last rank dies; the others learn which."""
    if size() == 1:
        return
    group, monitored = dist.new_group(), dist.new_group()
    last = size() - 1
    if rank() == last:
        os._exit(0)
    # Nobody waits for a verdict that the first rank cannot give.
    refused(monitored.monitored_barrier, f"rank {last}" if rank() == 0 else "rank 0 names it")
    refused(lambda: dist.all_reduce(torch.ones(3), group=group), f"rank {last}")
    os._exit(0)
