# SPDX-License-Identifier: Apache-2.0
"""The parts of a communicator that are written in Python."""

from __future__ import annotations

import contextlib
import html
import json
import math
import operator
import os
import pathlib
import platform
import threading
from dataclasses import dataclass
from typing import Any, Callable, Generator, Iterable, Iterator, TypeVar

from . import _classes, _objects
from ._engine import Communicator, InvalidArgument, Profiler, Work, _init, join, local_world, unique_id

Result = TypeVar("Result")

# Python's wait without a limit misses a signal that comes as it begins.
_BETWEEN_LOOKS = 0.05


@dataclass(frozen=True)
class Explanation:
    """Why a call runs as it does."""

    collective: str
    bytes: int
    algorithm: str
    text: str

    def __repr__(self) -> str:
        return self.text


def init(*, comm: Any = None, **settings: Any) -> Communicator:
    """Joins the world that a launcher has started; a world of one where there is none.

    mpirun (Open MPI, MPICH), srun, torchrun and `capstan run` are found by themselves. `comm` is a
    communicator of mpi4py: the same ranks then meet by its means. Settings are those of
    capstan/settings.hpp by name, for example timeout=30 (seconds).
    """
    if comm is None:
        return _init(**settings)
    address = "127.0.0.1" if _on_one_host(comm) else ""  # the one that other hosts reach
    identity = unique_id(address) if comm.Get_rank() == 0 else None
    return join(comm.bcast(identity, root=0), comm.Get_rank(), comm.Get_size(), **settings)


def _on_one_host(comm: Any) -> bool:
    """Whether all ranks can meet over loopback. A host name may stand for several containers."""
    here = [platform.node()]
    with contextlib.suppress(OSError):
        here.append(pathlib.Path("/proc/sys/kernel/random/boot_id").read_text())
        here.append(os.readlink("/proc/self/ns/net"))
    return all(there == here for there in comm.allgather(here))


def run_local(function: Callable[[Communicator], Result], ranks: int, **settings: Any) -> list[Result]:
    """Runs function(comm) on `ranks` threads, a rank each, and returns the results by rank.

    For notebooks and tests. When one rank raises, its communicator is closed, so that the others
    end, and the error is raised here. Ctrl-C aborts the communicators.
    """
    comms = local_world(ranks, **settings)  # first, as it refuses absurd numbers
    results: list[Any] = [None] * ranks
    errors: list[BaseException] = []

    def run(comm: Communicator) -> None:
        rank = comm.rank
        try:
            results[rank] = function(comm)
        except BaseException as error:
            errors.append(error)
            comm.close()

    threads = [threading.Thread(target=run, args=(comm,), name=f"rank {comm.rank}") for comm in comms]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(_BETWEEN_LOOKS)
    except BaseException:
        for comm in comms:
            with contextlib.suppress(InvalidArgument):  # it has been closed
                comm.abort("Ctrl-C has ended run_local()")
        raise
    if errors:
        raise errors[0]
    return results


def _explain(
    self: Communicator, collective: str, bytes: int, dtype: str = "f32", op: Any = "sum", root: int = 0
) -> Explanation:
    """The algorithm and protocol of a call of so many bytes, and the reason."""
    algorithm, text = self._explain(collective, bytes, dtype, op, root)
    return Explanation(collective, bytes, algorithm, text)


def _report(self: Communicator) -> str:
    """A report of what this rank does and knows of the others now, in lines for people.

    Operations that have not ended, the ranks that they wait for, in which step and since when. Any
    thread may ask, also while another one waits in a call, and after a failure.
    """
    return self._report(False)


def _report_data(self: Communicator) -> dict[str, Any]:
    """The same as data; docs/reports.md names the members."""
    data: dict[str, Any] = json.loads(self._report(True))
    return data


def _allocate(self: Communicator, shape: Any, dtype: Any = "float32") -> Any:
    """A numpy array of zeros in memory that ranks of one host read in place.

    All ranks call it, each with a shape of its own. For arrays of 16 KiB and more that are used
    again and again.
    """
    import numpy

    kind = numpy.dtype(dtype)
    lengths = tuple(map(operator.index, shape if isinstance(shape, Iterable) else (shape,)))
    if any(length < 0 for length in lengths):
        raise InvalidArgument(f"allocate: the shape {lengths} has a negative length")
    memory = self._allocate(math.prod(lengths) * kind.itemsize)
    return numpy.frombuffer(memoryview(memory), kind).reshape(lengths)


@contextlib.contextmanager
def _group(self: Communicator, *, stream: Any = None) -> Iterator[None]:
    """Sends and receives inside are one exchange, which ends with the block: no order deadlocks.

    With a stream of a device the exchange is in its order, and the block ends at once.
    """
    opened = False
    try:
        self._open_group()  # Ctrl-C may come as it returns
        opened = True
        yield
    except BaseException as error:
        if opened or not isinstance(error, InvalidArgument):  # else the group is another's
            self._drop_group()
        raise
    self._close_group(stream)


def _enter(self: Communicator) -> Communicator:
    return self


def _exit(self: Communicator, *_: Any) -> None:
    self.close()


def _show(self: Communicator) -> str:
    return "<capstan.Communicator, closed>" if self.closed else f"<capstan.Communicator rank {self.rank} of {self.size}>"


def _profiler_as_html(self: Profiler) -> str:
    """In a notebook: the sums, and a picture of each rank's last call, where steps are recorded."""
    last = {profile.rank: profile for profile in self.profiles()}
    steps = [step for step in self.steps() if step.operation == last[step.rank].index]
    summary = f"<p>{html.escape(self.summary())}</p>"
    if not steps:
        return summary
    return summary + self.svg(steps, title=repr(last[steps[-1].rank]))


def _await(self: Work) -> Generator[Any, None, Any]:
    from ._futures import wait_for  # asyncio takes long to import

    return wait_for(self)


def _complete() -> None:
    for name, function in {
        "explain": _explain,
        "report": _report,
        "report_data": _report_data,
        "allocate": _allocate,
        "group": _group,
        "__enter__": _enter,
        "__exit__": _exit,
        "__repr__": _show,
        **_objects.METHODS,
    }.items():
        setattr(Communicator, name, function)
    setattr(Profiler, "_repr_html_", _profiler_as_html)
    setattr(Work, "__await__", _await)
    _classes.guard()


_complete()
