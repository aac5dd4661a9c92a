# SPDX-License-Identifier: Apache-2.0
"""Algorithms that are written in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Sequence

from ._engine import Steps, _add_algorithm


@dataclass(frozen=True)
class Algorithm:
    """An algorithm that was added: pass it as `algorithm` to calls of its collective."""

    collective: str
    name: str

    def __str__(self) -> str:
        return self.name


def algorithm(
    collective: str, *, name: str = "", ranks: Sequence[int] = ()
) -> Callable[[Callable[[Steps], object]], Algorithm]:
    """Adds the decorated function as an algorithm of a collective.

        @cs.algorithm("all_reduce")
        def exchange(s):
            landings = [s.scratch(s.count) for _ in range(s.size)]
            others = [(s.rank + d) % s.size for d in range(1, s.size)]
            for peer in others:
                s.send(peer, landings[s.rank], s.input)
            for peer in others:
                s.wait(peer)
            s.complete(s.output, s.input, *(landings[peer] for peer in others))

        comm.all_reduce(x, algorithm=exchange)      # or cs.init(algorithm="all_reduce:exchange")

    The function records the steps of rank `s.rank`. It depends on nothing but `s`, and every rank adds
    the same one. It is proven for the numbers of ranks in `ranks` at once, and for others when a
    communicator first uses it; other sizes before they first run. AlgorithmRefused has the `rank`
    and `step` of what is wrong.
    """

    def add(function: Callable[[Steps], object]) -> Algorithm:
        called = name or function.__name__
        summary = (function.__doc__ or "").strip().split("\n")[0]
        _add_algorithm(collective, called, function, summary, list(ranks))
        return Algorithm(collective, called)

    return add
