# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends whatever waits for a peer that never arrives.

Each call runs in a process of its own, `test_interrupts.py NAME ...`, which the test interrupts once
it waits.
"""

import asyncio
import os
import queue
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import capstan as cs
from capstan import _objects

FOR_EVER = {"timeout": 3600, "join_timeout": 3600}


def ones(count=4):
    return np.ones(count)


def in_group(comm):
    with comm.group():
        comm.recv(ones(), source=1)


async def awaited(comm):
    await comm.barrier(wait=False)


def two_that_wait(comm):
    comm.barrier() if comm.rank == 0 else comm.recv(ones(), source=0)


def launched(rank):
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    os.environ.update({name: str(value) for name, value in names.items()})
    os.environ.update({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "TORCHELASTIC_RUN_ID": str(os.getpid())})
    return cs.init(**FOR_EVER)


# Calls that make a world, of which one rank is there.
STARTS = {
    "init": lambda: launched(rank=1),
    "init, the first rank": lambda: launched(rank=0),
    "join": lambda: cs.join(bytes.fromhex(sys.argv[2]), 1, 2, **FOR_EVER),
    "join, the first rank": lambda: cs.join(cs.unique_id(), 0, 2, **FOR_EVER),
    "join_growing": lambda: cs.join_growing(bytes.fromhex(sys.argv[2]), **FOR_EVER),
    "run_local": lambda: cs.run_local(two_that_wait, 2, **FOR_EVER),
}

# Calls of a communicator of two ranks, whose other one does nothing.
CALLS = {
    "Communicator.all_gather": lambda c: c.all_gather(ones()),
    "Communicator.all_reduce": lambda c: c.all_reduce(ones()),
    "Communicator.all_reduce, by an algorithm": lambda c: c.all_reduce(ones(), algorithm="ring"),
    "Communicator.all_reduce, with strides": lambda c: c.all_reduce(ones(8)[::2]),
    "Communicator.all_reduce_fused": lambda c: c.all_reduce_fused([ones(), ones()]),
    "Communicator.all_to_all": lambda c: c.all_to_all(ones()),
    "Communicator.all_to_all, with counts": lambda c: c.all_to_all(
        ones(), send_counts=[2, 2], receive_counts=[2, 2]
    ),
    "Communicator.allgather": lambda c: c.allgather("object"),
    "Communicator.allocate": lambda c: c.allocate(1000),
    "Communicator.allreduce": lambda c: c.allreduce(1),
    "Communicator.alltoall": lambda c: c.alltoall([1, 2]),
    "Communicator.barrier": lambda c: c.barrier(),
    "Communicator.bcast": lambda c: c.bcast(None, root=1),
    "Communicator.broadcast": lambda c: c.broadcast(ones(), root=1),
    "Communicator.exscan": lambda c: (c.exscan(ones()), c.barrier()),  # rank 0 waits for nobody
    "Communicator.gather": lambda c: c.gather(ones()),
    "Communicator.gather_object": lambda c: c.gather_object("object"),
    "Communicator.group": in_group,
    "Communicator.grow": lambda c: c.grow(name="a job", secret="of sixteen letters"),
    "Communicator.probe": lambda c: c.probe(),
    "Communicator.recv": lambda c: c.recv(ones()),
    "Communicator.recv_object": lambda c: c.recv_object(),
    "Communicator.reduce": lambda c: c.reduce(ones()),
    "Communicator.reduce_scatter": lambda c: c.reduce_scatter(ones()),
    "Communicator.scan": lambda c: (c.scan(ones()), c.barrier()),
    "Communicator.scatter": lambda c: c.scatter(root=1, out=ones()),
    "Communicator.scatter_object": lambda c: c.scatter_object(root=1),
    "Communicator.send": lambda c: c.send(ones(1 << 20), to=1),
    "Communicator.send_object": lambda c: c.send_object(bytes(1 << 20), to=1),
    "Communicator.shrink": lambda c: c.shrink(),
    "Communicator.split": lambda c: c.split(0),
    "Communicator.with_reproducible": lambda c: c.with_reproducible("shape"),
    "Communicator.subgroup": lambda c: c.subgroup([0, 1]),
    "Work.wait": lambda c: c.barrier(wait=False).wait(),
    "Work.wait, in asyncio": lambda c: asyncio.run(awaited(c)),
}

# These wait for no peer.
OTHERS = {
    *("add_schedules", "algorithm", "dtype_of", "dtypes", "local_world", "operation", "ops", "scaled_sum"),
    *("reproducible", "typed", "unique_id", "Work.cancel", "Work.on_complete"),
    *(
        "Communicator." + name
        for name in "abort async_error attach close detach_profiler explain rank_of report report_data try_probe"
        " world_rank".split()
    ),
}


def public(owner, prefix, names):
    return {
        prefix + name
        for name in names
        if not name.startswith("_") and callable(getattr(owner, name)) and not isinstance(getattr(owner, name), type)
    }


def test_the_tables_have_every_call():
    calls = public(cs, "", cs.__all__)
    for kind in (cs.Communicator, cs.Work):
        calls |= public(kind, kind.__name__ + ".", vars(kind))
    waiting = {name.partition(",")[0] for name in (*STARTS, *CALLS)}
    assert waiting | OTHERS == calls
    assert not waiting & OTHERS


def interrupted(name, how):
    """How the process of a call ended, and how long after the signal the call did."""
    command = [sys.executable, __file__, name, cs.unique_id().hex(), how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        bound = threading.Timer(60, child.kill)
        bound.start()
        waits = child.stdout.readline() == "waits\n"
        sent = time.monotonic()
        if waits:
            child.send_signal(signal.SIGINT)
        out, err = child.stdout.read(), child.stderr.read()
        bound.cancel()
    assert out.startswith("interrupted at "), (out, err)
    return child.returncode, float(out.split()[2]) - sent, err


@pytest.mark.parametrize("name", [*STARTS, *CALLS])
def test_ctrl_c_ends(name):
    ended, seconds, err = interrupted(name, "uncaught")
    assert ended == -signal.SIGINT and "KeyboardInterrupt" in err, (ended, err)
    print(f"{name}: {1000 * seconds:.0f} ms")


@pytest.mark.parametrize("name", STARTS)
def test_a_program_that_catches_it_ends_as_it_likes(name):
    ended, _, err = interrupted(name, "caught")
    assert ended == 7, (ended, err)


def test_other_ranks_hear_of_a_group_that_ctrl_c_has_ended():
    first, second = cs.local_world(2, **FOR_EVER)
    with pytest.raises(KeyboardInterrupt):
        threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
        first.split(0)
    for comm in (second, first):
        with pytest.raises(cs.Aborted, match=r"Ctrl-C has ended split\(\) at rank 0"):
            comm.barrier()


# Calls of several steps: rank 0 leaves between two of them, and peers would wait in the next one.
OBJECTS = {
    "allgather": lambda c: c.allgather(c.rank),
    "allreduce": lambda c: c.allreduce(c.rank),
    "alltoall": lambda c: c.alltoall([1, 2]),
    "bcast": lambda c: c.bcast("object", root=1),
    "gather_object": lambda c: c.gather_object(c.rank, root=1),
    "scatter_object": lambda c: c.scatter_object([1, 2], root=1),
}
STEPS = ("all_gather", "all_to_all", "broadcast", "gather", "probe", "recv", "scatter", "send")


def stop_after(count, error, monkeypatch):
    """Raises in the main thread, as a handler of a signal does, when so many steps have been made."""
    made = []
    for step in STEPS:
        def counted(comm, *arguments, original=getattr(cs.Communicator, step), **named):
            found = original(comm, *arguments, **named)
            if threading.current_thread() is threading.main_thread():
                made.append(original)
                if len(made) == count:
                    raise error
            return found

        monkeypatch.setattr(cs.Communicator, step, counted)
    return made


class Alarm(Exception):
    """Raised by a program's own handler."""


@pytest.mark.parametrize("error, cause", [(KeyboardInterrupt(), "Ctrl-C"), (Alarm(), "Alarm"), (MemoryError(), "MemoryError")])
@pytest.mark.parametrize("name", OBJECTS)
def test_a_rank_that_leaves_between_steps_ends_the_call_on_all(name, error, cause, monkeypatch):
    ended = queue.SimpleQueue()

    def peer(comm):
        try:
            OBJECTS[name](comm)
            comm.barrier()
        except cs.Error as caught:
            ended.put(caught)

    first, second = cs.local_world(2, timeout=20)
    stop_after(1, error, monkeypatch)
    thread = threading.Thread(target=peer, args=[second])
    thread.start()
    with pytest.raises(type(error)):
        OBJECTS[name](first)
    thread.join(60)
    caught = ended.get(timeout=60)
    assert isinstance(caught, cs.Aborted) and f"{cause} has ended {name}() at rank 0" in str(caught), caught


def test_the_table_has_every_call_of_several_steps(monkeypatch):
    made = stop_after(0, None, monkeypatch)
    several = set()
    for name, call in _objects.METHODS.items():
        with cs.local_world(1)[0] as alone:
            arguments = {"send_object": (0, 0), "recv_object": (), "alltoall": ([0],), "scatter_object": ([0],)}.get(name, (0,))
            if name == "recv_object":
                threading.Thread(target=alone.send_object, args=[0, 0]).start()
            if name != "send_object":
                made.clear()
                call(alone, *arguments)
                several |= {name} if len(made) > 1 else set()
    assert several - {"recv_object"} == set(OBJECTS)  # whose message stays, for the next one


def test_wrong_arguments_of_objects_end_nothing():
    first, _ = cs.local_world(2, **FOR_EVER)
    for wrong in (lambda: first.bcast(1, root=5), lambda: first.bcast(1, root="no"), lambda: first.alltoall([1])):
        with pytest.raises((cs.InvalidArgument, TypeError)):
            wrong()
        assert first.async_error() is None


def test_a_group_that_ctrl_c_has_ended_as_it_began_is_closed(monkeypatch):
    with cs.local_world(1)[0] as alone:
        original = cs.Communicator._open_group

        def interrupted_group(comm):
            original(comm)
            raise KeyboardInterrupt

        monkeypatch.setattr(cs.Communicator, "_open_group", interrupted_group)
        with pytest.raises(KeyboardInterrupt), alone.group():
            pass
        monkeypatch.undo()
        with alone.group():
            pass


def test_ctrl_c_ends_all_ranks_of_run_local():
    begun = threading.Barrier(2)
    ended = queue.SimpleQueue()

    def rank(comm):
        begun.wait()
        if comm.rank == 0:
            os.kill(os.getpid(), signal.SIGINT)
        try:
            comm.recv(ones())  # nobody sends
        except cs.Aborted as error:
            ended.put(str(error))

    with pytest.raises(KeyboardInterrupt):
        cs.run_local(rank, 2, **FOR_EVER)
    for _ in range(2):
        assert "Ctrl-C has ended run_local()" in ended.get(timeout=60)


def test_a_program_ends_while_its_threads_wait():
    """The interpreter ends a thread that asks for its lock by then: a C++ destructor must not be unwound."""
    ended = subprocess.run([sys.executable, __file__, "all", "", "ends"], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0 and "terminate" not in ended.stderr, ended


class EndsLate:
    """The interpreter's end waits for it, and leaves its lock to others meanwhile."""

    def __init__(self, kept):
        self.kept = kept

    def __del__(self, sleep=time.sleep):
        sleep(3)


def leave_threads_waiting():
    worlds = {name: cs.local_world(2, timeout=1.5) for name in CALLS}
    for name, comms in worlds.items():
        threading.Thread(target=CALLS[name], args=[comms[0]], daemon=True).start()
    sys.ends_late = EndsLate(worlds)


def call(function, *arguments):
    function(*arguments)


def tell_when_it_waits(thread):
    """Only a call that waits gives the interpreter to another thread, see run()."""
    frame = sys._current_frames()[thread]
    while frame and frame.f_code is not call.__code__:
        frame = frame.f_back
    if frame:
        os.write(1, b"waits\n")
    return frame


def watch(thread):
    while not tell_when_it_waits(thread):
        time.sleep(0.001)


def run(name, how):
    comms = cs.local_world(2, **FOR_EVER) if name in CALLS else []
    sys.setswitchinterval(60)
    threading.Thread(target=watch, args=[threading.get_ident()], daemon=True).start()
    try:
        call(CALLS[name], comms[0]) if comms else call(STARTS[name])
    except KeyboardInterrupt:
        os.write(1, f"interrupted at {time.monotonic()}\n".encode())
        if how == "uncaught":
            raise
        sys.exit(7)
    sys.exit("the call has ended")


if __name__ == "__main__":
    leave_threads_waiting() if sys.argv[3] == "ends" else run(sys.argv[1], sys.argv[3])
