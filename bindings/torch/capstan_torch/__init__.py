# SPDX-License-Identifier: Apache-2.0
"""Capstan as a backend of torch.distributed, for tensors on the CPU.

    import capstan_torch  # registers it; not needed where the package is installed with PyTorch 2.5+
    torch.distributed.init_process_group("capstan")

Beside a backend for GPUs: init_process_group("cpu:capstan,cuda:nccl").
"""

import contextlib
import hashlib
import inspect
import os
import threading

__all__ = ["register", "reproducible", "serve"]

_lock = threading.Lock()
_served = set()


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
    promise = _promise_in(backend_options)
    from . import _backend

    reconfigures = getattr(options, "enable_reconfigure", False)
    if reconfigures and promise:
        raise ValueError("a group whose ranks change takes its promise of bits from CAPSTAN_REPRODUCIBLE alone")
    if reconfigures and not _backend.can_reconfigure:
        raise ValueError("this PyTorch cannot change the ranks of a group: leave enable_reconfigure out, or use 2.14")
    return _backend.create(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        "" if reconfigures else _prefix(options),
        reconfigures,
        promise,
    )


def _promise_in(backend_options):
    if backend_options is None:
        return ""
    if not isinstance(backend_options, dict) or set(backend_options) != {"reproducible"}:
        raise ValueError(
            f"the backend capstan has no options in PyTorch but reproducible, and got {backend_options!r}: "
            "pass {'reproducible': 'shape'}, and set others by Capstan's environment variables"
        )
    return str(backend_options["reproducible"])


@contextlib.contextmanager
def reproducible(promise):
    """Sums that this thread's calls begin within it keep this promise: none, run, shape, placement or
    rank_order, whatever their group's is. All ranks enter it round the same calls.
    """
    from . import _backend

    before = _backend.promise_bits(promise)
    try:
        yield
    finally:
        _backend.promise_bits(before)


def serve(*names):
    """From now on groups by these names of PyTorch's, "gloo" and "mpi", are Capstan's, also where PyTorch
    chooses Gloo itself: for libraries that know no other names. The variable CAPSTAN_PYTORCH_SERVES=gloo,mpi
    says the same for programs that nobody changes. All ranks do it, before they make groups; it is not undone.
    """
    import torch.distributed as dist

    if not names:
        return
    if unknown := sorted(set(names) - {"gloo", "mpi"}):
        raise ValueError(f"capstan_torch.serve({', '.join(map(repr, unknown))}): it serves 'gloo' and 'mpi'")
    register()
    with _lock:
        if not _served:
            plain = dist.Backend.__new__  # every name of a backend goes through it, "cpu:gloo,cuda:nccl" in parts

            def served(cls, name):
                backend = plain(cls, name)
                return plain(cls, "capstan") if backend in _served else backend

            dist.Backend.__new__ = staticmethod(served)
        _served.update(names)
        chosen = getattr(dist.Backend, "default_device_backend_map", {})  # PyTorch 2
        if chosen.get("cpu") in _served:
            chosen["cpu"] = "capstan"


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
serve(*os.environ.get("CAPSTAN_PYTORCH_SERVES", "").replace(",", " ").split())
