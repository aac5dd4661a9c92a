"""Capstan as a backend of torch.distributed, for tensors on the CPU.

    import capstan_torch  # registers it; not needed where the package is installed with PyTorch 2.5+
    torch.distributed.init_process_group("capstan")

Beside a backend for GPUs: init_process_group("cpu:capstan,cuda:nccl").
"""

import hashlib
import inspect
import threading

__all__ = ["register"]

_lock = threading.Lock()


def _create(options, backend_options):
    """The backend of one rank; PyTorch calls it for each process group."""
    if backend_options is not None:
        raise ValueError(
            f"the backend capstan has no options in PyTorch, but got {backend_options!r}: "
            "set Capstan's environment variables instead"
        )
    from . import _backend

    # Disjoint groups may have one name, and so one part of the store: new_subgroups(group=...).
    members = ",".join(map(str, getattr(options, "global_ranks_in_group", None) or ()))
    prefix = f"capstan/{hashlib.sha256(members.encode()).hexdigest()[:16]}" if members else "capstan"
    return _backend.create(
        options.store, options.group_rank, options.group_size, options.timeout, prefix
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
