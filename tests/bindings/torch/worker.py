# SPDX-License-Identifier: Apache-2.0
"""One rank of a job that `capstan run` has started: worker.py STORE CHECK...

All ranks run the same checks. Each is compared with a computation that every rank does alone.
"""

import datetime
import faulthandler
import os
import sys
import traceback

import bits
import capstan_torch  # noqa: F401
import collectives
import failures
import messages
import places
import signs
import torch
import torch.distributed as dist
import training

MODULES = {m.__name__: m for m in (collectives, bits, signs, places, messages, training, failures)}


def run(names):
    for name in names:
        module = MODULES[name]
        checks = [f for n, f in vars(module).items() if n.startswith("check_")]
        assert checks
        for check in checks:
            check()
        print(f"rank {dist.get_rank()}: {len(checks)} checks of {name} passed")


def main():
    faulthandler.dump_traceback_later(200, exit=True)
    torch.set_num_threads(1)
    dist.init_process_group(
        "capstan",
        init_method=f"file://{sys.argv[1]}",
        rank=int(os.environ["CAPSTAN_RANK"]),
        world_size=int(os.environ["CAPSTAN_SIZE"]),
        timeout=datetime.timedelta(seconds=120),
    )
    try:
        run(sys.argv[2:])
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # so that no rank waits for this one
    if "failures" not in sys.argv:
        dist.barrier()
    dist.destroy_process_group()


main()
