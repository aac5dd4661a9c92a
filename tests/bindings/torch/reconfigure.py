# SPDX-License-Identifier: Apache-2.0
"""Groups whose members change, from PyTorch 2.14 on: reconfigure.py RANKS.

Each rank is a process. Handles are passed round in files of one folder, so nothing depends on a store
of PyTorch. The last rank dies in an all_reduce, and a new process takes its place.
"""

import datetime
import os
import subprocess
import sys
import tempfile
import time

import capstan_torch._backend
import torch
import torch.distributed as dist

SKIPPED = 77
TIMEOUT = datetime.timedelta(seconds=60)


class Member:
    def __init__(self, folder, name, size):
        self.folder, self.name, self.size = folder, name, size
        own_store = dist.FileStore(f"{folder}/store.{name}.{os.getpid()}", 1)
        dist.init_process_group("capstan", store=own_store, rank=0, world_size=1, timeout=TIMEOUT, enable_reconfigure=True)
        assert dist._supports_reconfigure()

    def publish(self, step):
        """The handle of this member, for what the others call `step`."""
        path = f"{self.folder}/{step}.{self.name}"
        with open(path + ".part", "w") as file:
            file.write(dist._get_reconfigure_handle())
        os.rename(path + ".part", path)

    def handles(self, step, names):
        self.publish(step)
        end = time.monotonic() + 60
        paths = [f"{self.folder}/{step}.{name}" for name in names]
        while not all(map(os.path.exists, paths)):
            assert time.monotonic() < end, f"{self.name}: not all have come to {step}"
            time.sleep(0.01)
        return [open(path).read() for path in paths]

    def meet(self, uuid, names, as_set=False):
        handles = self.handles(f"meet.{uuid}", names)
        dist._reconfigure(uuid, set(handles) if as_set else handles, timeout=TIMEOUT).wait()
        assert dist.get_world_size() == len(names)
        if not as_set:
            assert dist.get_rank() == names.index(self.name)
        self.check()

    def check(self):
        """All calls reach the members that the group has now."""
        rank, size = dist.get_rank(), dist.get_world_size()
        data = torch.arange(1000.0) + rank
        dist.all_reduce(data)
        assert data.equal(torch.arange(1000.0) * size + size * (size - 1) / 2)
        root = torch.full((3,), float(rank))
        dist.broadcast(root, group_src=size - 1)
        assert root.eq(size - 1).all()
        if size == 1:
            return
        sent, received = torch.full((4,), float(rank)), torch.zeros(4)
        work = dist.isend(sent, group_dst=(rank + 1) % size)
        dist.recv(received, group_src=(rank - 1) % size)
        work.wait()
        assert received.eq((rank - 1) % size).all()

    def refused(self, call, *words):
        try:
            call()
        except (RuntimeError, ValueError) as error:
            assert all(word in str(error) for word in words), error
        else:
            raise AssertionError(f"not refused: {words}")


def check_wrong_calls(member, names):
    ones = torch.ones(1)
    member.refused(lambda: dist.all_reduce(ones), "no members", "reconfigure()")
    handles = member.handles("wrong", names)
    member.refused(lambda: dist._reconfigure(1, ["nonsense"]), "none of the 1 handles")
    member.refused(lambda: dist._reconfigure(1, ["nonsense", *handles]), "'nonsense' is no handle")
    member.refused(lambda: dist._reconfigure(1, handles * 2), "twice")


def check_changes(member, names):
    index = names.index(member.name)
    member.meet(10, names)
    member.refused(lambda: member.meet(10, [member.name]), "already used")
    member.meet(11, names[::-1])
    member.meet(12, names, as_set=True)
    member.meet(100 + index, [member.name])
    member.meet(13, names)
    member.meet(14 + index % 2, names[index % 2 :: 2])
    member.meet(16, names)


def check_disagreement(member, names):
    handles = member.handles("disagreement", names)
    uuid = 20 + (member.name == names[-1])
    member.refused(lambda: dist._reconfigure(uuid, handles).wait(), "different uuids")
    member.meet(22, names)


def check_absence(member, names):
    """A member does not call it, the last or the first, at which all meet: the others learn that, and go on."""
    for uuid, absent in ((30, names[-1]), (33, names[0])):
        handles = member.handles(f"absence.{absent}", names)
        others = [name for name in names if name != absent]
        if member.name != absent:
            short = datetime.timedelta(seconds=5)
            member.refused(
                lambda: dist._reconfigure(uuid, handles, timeout=short).wait(), f"rank {names.index(absent)}"
            )
            member.meet(uuid + 1, others)
        member.meet(uuid + 2, names)


def survive(member, names):
    """The last rank dies; a new process takes its place."""
    if member.name == names[-1]:
        os._exit(3)
    member.refused(lambda: dist.all_reduce(torch.ones(100)), f"rank {len(names) - 1}")
    member.meet(40, names[:-1])
    member.meet(41, names[:-1] + ["new"])


def rank_main(folder, name, size):
    names = [str(rank) for rank in range(size)]
    member = Member(folder, name, size)
    if name == "new":
        member.meet(41, names[:-1] + ["new"])
    else:
        check_wrong_calls(member, names)
        for check in (check_changes, check_disagreement, check_absence, survive):
            check(member, names)
    dist.destroy_process_group()


def main(size):
    if not capstan_torch._backend.can_reconfigure:
        print("this PyTorch cannot change the ranks of a group")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        names = [str(rank) for rank in range(size)] + ["new"]
        members = [subprocess.Popen([sys.executable, __file__, folder, name, str(size)]) for name in names]
        statuses = [member.wait() for member in members]
    assert statuses == [0] * (size - 1) + [3, 0], statuses


if len(sys.argv) == 2:
    main(int(sys.argv[1]))
else:
    rank_main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
