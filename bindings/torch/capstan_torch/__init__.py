# SPDX-License-Identifier: Apache-2.0
"""Capstan as a backend of torch.distributed, for tensors on the CPU.

    import capstan_torch  # registers it; not needed where the package is installed with PyTorch 2.5+
    torch.distributed.init_process_group("capstan")

Beside a backend for GPUs: init_process_group("cpu:capstan,cuda:nccl").
"""

import collections
import hashlib
import inspect
import os
import threading

__all__ = ["register"]

_lock = threading.Lock()
_made = collections.Counter()


def _prefix(options):
    """The part of the store in which the ranks of one group meet, and no others.

    Disjoint groups may have one name, and so one part of the store: new_subgroups(group=...). So may
    groups of ranks that torchrun has restarted, and those of a program that starts once more. All
    ranks make the same groups in the same order, so they count alike.
    """
    members = ",".join(map(str, getattr(options, "global_ranks_in_group", None) or ()))
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    with _lock:
        before = _made[members, options.group_rank]
        _made[members, options.group_rank] += 1
    digest = hashlib.sha256(f"{members}/{restarts}/{before}".encode()).hexdigest()
    return f"capstan/{digest[:16]}"


def _create(options, backend_options):
    """The backend of one rank; PyTorch calls it for each process group."""
    if backend_options is not None:
        raise ValueError(
            f"the backend capstan has no options in PyTorch, but got {backend_options!r}: "
            "set Capstan's environment variables instead"
        )
    if getattr(options, "enable_reconfigure", False):
        raise ValueError("the backend capstan cannot change the ranks of a group: leave enable_reconfigure out")
    from . import _backend

    return _backend.create(
        options.store, options.group_rank, options.group_size, options.timeout, _prefix(options)
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
