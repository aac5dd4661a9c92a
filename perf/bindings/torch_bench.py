# SPDX-License-Identifier: Apache-2.0
"""The backend capstan beside Gloo, in one job: the time of each collective, 4 KiB to 64 MiB.

    PYTHONPATH=build/release/bindings/torch/own capstan run -n 2 -- \\
        build/pytorch/bin/python perf/bindings/torch_bench.py MEETING_FILE

The backends take turns for each size, so that a change of the machine's load meets both. The time
is the median over the calls of a rank, the slowest rank's.
"""

import os
import statistics
import sys
import time

import capstan_torch  # noqa: F401
import torch
import torch.distributed as dist

SIZES = [1 << shift for shift in range(12, 27, 2)]


def calls(elements, ranks):
    """A function of the group for each collective. `elements` is the length of the longest buffer."""
    whole, part = torch.ones(elements), torch.ones(elements // ranks)
    other = torch.ones(elements)
    return {
        "all_reduce": lambda g: dist.all_reduce(whole, group=g),
        "all_gather_into_tensor": lambda g: dist.all_gather_into_tensor(whole, part, group=g),
        "reduce_scatter_tensor": lambda g: dist.reduce_scatter_tensor(part, whole, group=g),
        "all_to_all_single": lambda g: dist.all_to_all_single(other, whole, group=g),
        "broadcast": lambda g: dist.broadcast(whole, 0, group=g),
    }


def timed(call, group, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call(group)
        times.append(time.perf_counter() - start)
    return times


def microseconds(call, groups, repeats):
    """The slowest rank's median of each backend; None where the backend lacks the collective."""
    times = {name: [] for name in groups}
    for _ in range(5):
        for name, group in groups.items():
            try:
                times[name] += timed(call, group, repeats)
            except RuntimeError:
                times[name] = None
                break
    slowest = {}
    for name, values in times.items():
        median = torch.tensor([statistics.median(values) * 1e6 if values else -1.0])
        dist.all_reduce(median, dist.ReduceOp.MAX)
        slowest[name] = median.item() if median.item() >= 0 else None
    return slowest


def main():
    torch.set_num_threads(1)
    dist.init_process_group(
        "capstan",
        init_method=f"file://{sys.argv[1]}",
        rank=int(os.environ["CAPSTAN_RANK"]),
        world_size=int(os.environ["CAPSTAN_SIZE"]),
    )
    groups = {name: dist.new_group(backend=name) for name in ("gloo", "capstan")}
    ratios = []
    for size in SIZES:
        repeats = max(3, min(200, (8 << 20) // size))
        for name, call in calls(size // 4, dist.get_world_size()).items():
            took = microseconds(call, groups, repeats)
            if dist.get_rank() != 0:
                continue
            if took["gloo"] is None:
                print(f"{name:24} {size >> 10:6} KiB  capstan {took['capstan']:10.1f} us")
                continue
            ratios.append(took["gloo"] / took["capstan"])
            print(
                f"{name:24} {size >> 10:6} KiB  capstan {took['capstan']:10.1f} us  "
                f"gloo {took['gloo']:10.1f} us  {ratios[-1]:5.2f} times as fast",
                flush=True,
            )
    if ratios:
        print(f"geometric mean {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}")
    dist.destroy_process_group()


main()
