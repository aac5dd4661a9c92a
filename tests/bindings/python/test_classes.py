# SPDX-License-Identifier: Apache-2.0
"""Objects of the engine's classes that nobody has initialised, and copies of those that live."""

import copy
import pickle

import numpy as np
import pytest

import capstan as cs
from capstan import _classes, _engine

CLASSES = [kind for kind in vars(_engine).values() if type(kind).__name__ == "pybind11_type"]


def test_the_table_has_every_class():
    assert CLASSES and set(CLASSES) == set(_classes.MADE_BY)


def ways_without_a_constructor(kind):
    class Mine(kind):
        def __init__(self):
            pass

    yield lambda: kind.__new__(kind)
    yield lambda: Mine.__new__(Mine)
    yield Mine
    yield lambda: kind.__base__.__new__(kind)
    yield lambda: kind.__base__.__new__(Mine)
    if kind not in _classes.WITH_A_CONSTRUCTOR:
        yield kind
        yield lambda: type("Other", (kind,), {})()


def uses_of(kind, made):
    """Every attribute of the engine's, every method with arguments of several kinds and numbers, and as an argument of calls."""
    of_python = {"__dict__", "__module__", "__doc__", "__new__", "__init__", "__hash__", "__enter__", "__await__"}
    for name in sorted((set(dir(kind)) - set(dir(object)) | set(vars(kind))) - of_python):
        yield name, lambda name=name: getattr(made, name)
        for others in ((), (0,), (made,), ("text",), (b"",), (np.ones(2),), (np.ones(2), 0), (made, made), (0, made, made), (np.ones(2), 0, 0)):
            yield name, lambda name=name, others=others: getattr(made, name)(*others)
    yield "as a buffer", lambda: memoryview(made)
    yield "as an array", lambda: np.frombuffer(made)
    with cs.local_world(1)[0] as alone:
        yield "as an array of a call", lambda: alone.all_reduce(made)
        yield "as an operation", lambda: alone.all_reduce(np.ones(2), made)
        yield "as a profiler", lambda: alone.attach(made)
    yield "as one of several", lambda: cs.Profiler().svg([made])


@pytest.mark.parametrize("kind", CLASSES)
def test_an_object_that_was_not_initialised_is_an_error(kind):
    refused = 0
    for make in ways_without_a_constructor(kind):
        try:
            made = make()
        except TypeError as error:
            assert "constructor" in str(error) or "__init__" in str(error), error
            continue
        for name, use in uses_of(kind, made):
            try:
                found = use()
            except (TypeError, cs.InvalidArgument) as error:
                refused += "never initialised" in str(error)
                continue
            assert callable(found) or found is NotImplemented, (name, found)
    assert refused, "nothing has used the engine"


def living(alone):
    x = np.ones(2)
    yield alone
    yield cs.Accumulator(x)
    yield alone.all_reduce(x, wait=False)
    yield alone.all_reduce(x, wait="persistent")
    yield cs.scaled_sum(2.0)
    yield cs.typed(x, "f64")
    yield alone._allocate(10)
    profiler = cs.Profiler(steps=10)
    alone.attach(profiler)
    alone.all_reduce(x)
    yield profiler
    yield profiler.profiles()[0]
    yield from profiler.steps()[:1]
    work = alone.send(x, to=0, wait=False)
    yield alone.recv(x)
    work.wait()


def recorded():
    kept = []

    with pytest.raises(cs.AlgorithmRefused):

        @cs.algorithm("all_reduce", name="kept", ranks=[2])
        def record(s):
            kept.append(s)
            s.complete(s.output, s.input)

    return [kept[0], kept[0].input]


def test_copies_of_living_objects_are_refused():
    with cs.local_world(1)[0] as alone:
        seen = set()
        for one in (*living(alone), *recorded()):
            seen.add(type(one))
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                with pytest.raises(TypeError, match="can't be copied or pickled: make another one by"):
                    pickle.dumps(one, protocol)
            for way in (copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match="can't be copied or pickled: make another one by"):
                    way(one)
        assert seen >= set(CLASSES) - {cs.StepProfile}  # which the calls of one rank may have none of


def test_errors_travel_between_processes():
    with cs.local_world(1)[0] as alone, pytest.raises(cs.InvalidArgument) as caught:
        alone.broadcast(np.ones(1), root=3)
    error = caught.value
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        found = pickle.loads(pickle.dumps(error, protocol))
        assert type(found) is type(error) and str(found) == str(error) and found.code == error.code
