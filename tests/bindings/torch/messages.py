# SPDX-License-Identifier: Apache-2.0
"""Messages between two ranks."""

import torch
import torch.distributed as dist
from collectives import data, rank, refused, same, size


def check_send_and_receive():
    for count in (0, 1, 100, 300_000):
        if rank() > 0:
            dist.send(data(rank(), count), 0, tag=rank())
        else:
            for r in range(1, size()):
                got = torch.empty(count)
                assert dist.recv(got, r, tag=r) == r
                same(got, data(r, count))


def check_other_types_are_refused():
    """Booleans are bytes and integers of 16 bits are two, but not those of another rank."""
    if size() == 1 or rank() > 1:
        return
    for sent, received in ((torch.bool, torch.uint8), (torch.uint8, torch.bool), (torch.int16, torch.uint8)):
        if rank() == 0:
            dist.send(torch.ones(4).to(sent), 1, tag=9)
        else:
            refused(lambda: dist.recv(torch.zeros(8).to(received), 0, tag=9), "both must use one type")


def check_receive_from_any():
    if rank() > 0:
        dist.send(data(rank(), 20), 0, tag=5)
    else:
        seen = set()
        for _ in range(1, size()):
            got = torch.empty(20)
            source = dist.recv(got, tag=5)
            same(got, data(source, 20))
            seen.add(source)
        assert seen == set(range(1, size()))


def check_batch():
    """All ranks send first: sends must not wait for receives of the same batch."""
    right, left = (rank() + 1) % size(), (rank() - 1) % size()
    if size() == 1:
        return
    mine, got = data(rank(), 300_000), torch.empty(300_000)
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, mine, right), dist.P2POp(dist.irecv, got, left)]
    )
    for work in works:
        work.wait()
    same(got, data(left, 300_000))


def check_tensors_outlive_their_names():
    if size() == 1:
        return
    right, left = (rank() + 1) % size(), (rank() - 1) % size()
    sends = [dist.isend(data(rank(), 200_000, salt=s), right) for s in range(3)]
    for salt in range(3):
        got = torch.empty(200_000)
        dist.recv(got, left)
        same(got, data(left, 200_000, salt=salt))
    for send in sends:
        send.wait()


def check_refused_tags():
    if size() > 1:
        refused(lambda: dist.send(torch.ones(1), (rank() + 1) % size(), tag=-3), "tag")
