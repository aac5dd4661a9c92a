# SPDX-License-Identifier: Apache-2.0
"""Capstan as a backend of torch.distributed, for tensors on the CPU.

    import capstan_torch  # registers it; not needed where the package is installed with PyTorch 2.5+
    torch.distributed.init_process_group("capstan")

Beside a backend for GPUs: init_process_group("cpu:capstan,cuda:nccl").
"""

import hashlib
import inspect
import os
import threading

__all__ = ["register"]

_lock = threading.Lock()


def _prefix(options):
    """The part of the store in which the ranks of one group meet, and no others.

    Disjoint groups may have one name, and so one part of the store: new_subgroups(group=...). So may
    groups of ranks that torchrun has restarted, and those of a program that makes its groups once more,
    also with other members. All ranks make the same groups in the same order, so the store counts alike
    for each of them.
    """
    members = ",".join(map(str, getattr(options, "global_ranks_in_group", None) or ()))
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    group = hashlib.sha256(f"{members}/{options.group_size}/{restarts}".encode()).hexdigest()[:16]
    return f"capstan/{group}/{options.store.add(f'capstan/{group}/{options.group_rank}', 1)}"


def _create(options, backend_options):
    """The backend of one rank; PyTorch calls it for each process group."""
    if backend_options is not None:
        raise ValueError(
            f"the backend capstan has no options in PyTorch, but got {backend_options!r}: "
            "set Capstan's environment variables instead"
        )
    from . import _backend

    reconfigures = getattr(options, "enable_reconfigure", False)
    if reconfigures and not _backend.can_reconfigure:
        raise ValueError("this PyTorch cannot change the ranks of a group: leave enable_reconfigure out, or use 2.14")
    return _backend.create(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        "" if reconfigures else _prefix(options),
        reconfigures,
    )


def register():
    """Makes "capstan" known to torch.distributed. Does nothing when it is known already."""
    # Not at the top of the file and not with the lock: PyTorch calls this while it is imported.
    import torch.distributed as dist

    with _lock:
        if not dist.is_available():
            raise ImportError("this PyTorch has been built without torch.distributed")
        if "CAPSTAN" in dist.Backend._plugins:
            return
        devices = {}
        if "devices" in inspect.signature(dist.Backend.register_backend).parameters:
            devices["devices"] = ["cpu"]  # PyTorch 2
        dist.Backend.register_backend("capstan", _create, extended_api=True, **devices)


register()
