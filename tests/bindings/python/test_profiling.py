# SPDX-License-Identifier: Apache-2.0
"""Records of a Profiler, and their view in a notebook."""

import json
import xml.etree.ElementTree as xml

import capstan as cs
import numpy as np
import pytest

RANKS = 2


def recorded(profiler, calls, **attached):
    def of_rank(comm):
        comm.attach(profiler, **attached)
        calls(comm)

    cs.run_local(of_rank, RANKS)


def test_each_collective_of_each_rank_is_recorded():
    profiler = cs.Profiler()
    recorded(profiler, lambda comm: comm.all_reduce(np.ones(256, np.float32)), tag="gradients")
    profiles = profiler.profiles()
    assert sorted(each.rank for each in profiles) == [0, 1]
    for each in profiles:
        assert (each.operation, each.bytes, each.ranks, each.tag) == ("all_reduce", 1024, RANKS, "gradients")
        assert each.algorithm and each.duration > 0 and not each.failed
        assert "all_reduce" in repr(each)
    assert profiler.steps() == []
    assert "Total Operations: 2" in profiler.summary()
    profiler.clear()
    assert profiler.profiles() == []


def test_steps_lie_in_their_calls_and_make_a_trace_and_a_picture():
    profiler = cs.Profiler(steps=1000)
    recorded(profiler, lambda comm: comm.all_reduce(np.ones(256, np.float32)))
    calls = {(each.rank, each.index): each for each in profiler.profiles()}
    steps = profiler.steps()
    assert {each.rank for each in steps} == {0, 1}
    for step in steps:
        call = calls[step.rank, step.operation]
        assert call.began <= step.began and step.duration <= call.duration
    assert json.loads(profiler.trace())["traceEvents"]
    assert xml.fromstring(profiler.svg(title="one call")).tag.endswith("svg")


def test_a_notebook_shows_the_last_call_of_each_rank():
    profiler = cs.Profiler(steps=1000)

    def calls(comm):
        comm.broadcast(np.ones(8))
        comm.all_reduce(np.ones(256, np.float32))

    recorded(profiler, calls)
    shown = profiler._repr_html_()
    assert "Total Operations: 4" in shown and "all_reduce" in shown and "broadcast" not in shown
    assert xml.fromstring(shown[shown.index("<svg") :]) is not None
    assert "<svg" not in cs.Profiler()._repr_html_()


def test_calls_by_another_algorithm_are_recorded_too():
    profiler = cs.Profiler()
    recorded(profiler, lambda comm: comm.all_reduce(np.ones(256, np.float32), algorithm="ring"))
    assert [each.algorithm for each in profiler.profiles()] == ["ring"] * RANKS


def test_an_algorithm_that_is_refused_leaves_nothing_behind():
    profiler = cs.Profiler()

    def calls(comm):
        for _ in range(2):
            with pytest.raises(cs.InvalidArgument, match="no algorithm 'unknown'"):
                comm.all_reduce(np.ones(1), algorithm="unknown")
        comm.detach_profiler()
        comm.attach(profiler)
        comm.barrier()

    recorded(profiler, calls)
    assert [each.operation for each in profiler.profiles()] == ["barrier"] * RANKS


def test_a_detached_communicator_is_recorded_no_more():
    profiler = cs.Profiler()

    def calls(comm):
        comm.detach_profiler()
        comm.all_reduce(np.ones(1), algorithm="ring")
        comm.barrier()

    recorded(profiler, calls)
    assert profiler.profiles() == []


def test_no_room_for_operations_is_refused():
    with pytest.raises(cs.InvalidArgument, match="capacity"):
        cs.Profiler(capacity=0)
