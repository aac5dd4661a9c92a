# SPDX-License-Identifier: Apache-2.0
"""Algorithms that are written in Python: proven, refused, run."""

from __future__ import annotations

import itertools
import os
import sys
from typing import Any

import numpy as np
import pytest

import capstan as cs

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../docs/example/python"))
import ring  # noqa: E402

names = (f"algorithm_{n}" for n in itertools.count())


def exchange(s: cs.Steps) -> None:
    landings = [s.scratch(s.count) for _ in range(s.size)]
    others = [(s.rank + d) % s.size for d in range(1, s.size)]
    for peer in others:
        s.send(peer, landings[s.rank], s.input)
    for peer in others:
        s.wait(peer)
    s.complete(s.output, s.input, *(landings[peer] for peer in others))


def hasty(s: cs.Steps) -> None:
    """Rank 1 does not wait."""
    landing = s.scratch(s.count)
    s.send(s.right, landing, s.input)
    if s.rank != 1:
        s.wait(s.left)
    s.complete(s.output, landing, s.input)


def sums(comm: cs.Communicator, algorithm: Any) -> None:
    for length in (0, 1, 3, 7, 1000, 100_003):
        for _ in range(2):
            x = np.arange(length, dtype="i4") + comm.rank
            assert comm.all_reduce(x, algorithm=algorithm) is x
            expected = np.arange(length, dtype="i4") * comm.size + comm.size * (comm.size - 1) // 2
            np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_a_ring_runs_on_any_number_of_ranks(ranks: int) -> None:
    cs.run_local(lambda comm: sums(comm, ring.my_ring), ranks)


def test_by_name_and_by_settings() -> None:
    name = next(names)
    made = cs.algorithm("all_reduce", name=name, ranks=[2, 3])(exchange)
    assert str(made) == name
    cs.run_local(lambda comm: sums(comm, name), 3)
    explained = cs.run_local(
        lambda comm: comm.explain("all_reduce", 1024).algorithm, 3, algorithm=f"all_reduce:{name}"
    )
    assert explained == [name] * 3


def test_a_wrong_one_is_refused_when_it_is_decorated() -> None:
    with pytest.raises(cs.AlgorithmRefused, match="rank 1, step") as refused:
        cs.algorithm("all_reduce", name=next(names), ranks=[2])(hasty)
    assert refused.value.rank == 1
    assert refused.value.step >= 0
    assert refused.value.ranks == [1]
    assert isinstance(refused.value, ValueError)


def test_or_at_its_first_use_and_the_communicator_stays_usable() -> None:
    made = cs.algorithm("all_reduce", name=next(names))(hasty)

    def use(comm: cs.Communicator) -> None:
        x = np.ones(4, "f4")
        with pytest.raises(cs.AlgorithmRefused):
            comm.all_reduce(x, algorithm=made)
        comm.all_reduce(x)
        assert x[0] == comm.size

    cs.run_local(use, 2)


def test_mistakes_in_the_function_are_named() -> None:
    def outside(s: cs.Steps) -> None:
        s.copy(s.output, s.scratch(s.count + 1))

    def typing_error(s: cs.Steps) -> None:
        s.nothing()  # type: ignore[attr-defined]

    for function, text in ((outside, "the lengths differ"), (typing_error, "has no attribute 'nothing'")):
        with pytest.raises(cs.InvalidArgument, match=text):
            cs.algorithm("all_reduce", name=next(names), ranks=[2])(function)
    with pytest.raises(cs.InvalidArgument, match="no collective 'gossip'"):
        cs.algorithm("gossip", name=next(names))(exchange)
    with pytest.raises(cs.InvalidArgument, match="of its own"):
        cs.algorithm("all_reduce", name="ring")(exchange)


@pytest.mark.parametrize("name", ["nobody", "no body", "", "ring/nobody", "direct:nobody", "-1"])
def test_an_unknown_name_is_refused(name: str) -> None:
    def use(comm: cs.Communicator) -> None:
        for _ in range(2):
            with pytest.raises(cs.InvalidArgument, match=f"'all_reduce:{name}'"):
                comm.all_reduce(np.ones(4, "f4"), algorithm=name)
        sums(comm, "direct")

    cs.run_local(use, 2)


@pytest.mark.parametrize("ranks", [[0], [-1], [2, -3], [-(2**31)], [3, 0, 2], [1025], [2, 2**31 - 1]])
def test_an_algorithm_is_proven_for_numbers_of_ranks_that_can_be(ranks: list[int]) -> None:
    name = next(names)
    first = next(each for each in ranks if not 1 <= each <= 1024)
    with pytest.raises(cs.InvalidArgument, match=f"'{name}' .* {first} ranks.*`ranks`"):
        cs.algorithm("all_reduce", name=name, ranks=ranks)(exchange)
    made = cs.algorithm("all_reduce", name=name, ranks=[1, 2])(exchange)
    cs.run_local(lambda comm: sums(comm, made), 2)


def test_spans() -> None:
    def function(s: cs.Steps) -> None:
        whole = s.input
        assert len(whole) == s.count
        assert sum(len(s.block(whole, i)) for i in range(s.size)) == s.count
        assert repr(whole[1:3]) == "input[1:3]" or s.count < 3
        with pytest.raises(cs.InvalidArgument, match="no gaps"):
            whole[::2]
        exchange(s)

    cs.algorithm("all_reduce", name=next(names), ranks=[2])(function)
