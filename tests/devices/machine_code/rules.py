# SPDX-License-Identifier: Apache-2.0

"""Rules for the machine code of kernels, the same for all machines.

A loop with a pause is a wait. All that it loads from memory comes from memory: a load that may be
served by a cache of the thread's own device can miss for ever what a peer has stored. Beside the
word that it waits for, it loads the word that ends all waits.
"""

import re

# Loads of 16 bytes that a thread has under way at a time (kernels/device/reduce.hpp), by the mangled
# name of the element's type.
unrolled = {"f": 4, "d": 4, "i": 4, "j": 4, "l": 4, "m": 4, "NS_7Float16E": 2, "NS_8BFloat16E": 2}


def waits(function):
    return function.innermost(lambda one: one.kind == "pause")


def loads_of_data(function, loop):
    return [function.body[i] for i in sorted(loop) if function.body[i].kind == "load" and function.body[i].data]


def weak_waits(function):
    """Waits that may read a stale word, or that have lost what they wait for."""
    for loop in waits(function):
        loads = loads_of_data(function, loop)
        for load in loads:
            if not load.strong:
                yield f"a wait polls by a weak load: {load.text}"
        if sum(load.strong for load in loads) < 2:
            yield f"a wait polls nothing but the word that ends it: {function.body[min(loop)].text}"


def signals(function):
    """Fences that release, with the flag behind them."""
    return [at for at, one in enumerate(function.body) if one.kind == "fence" and one.releases and function.reaches(
        function.next(at), lambda other: other.kind == "store" and other.strong and other.bytes == 8,
        lambda other: other.kind in ("barrier", "pause"))]


def acquired_waits(function):
    """Waits behind which a fence acquires, before the other threads of the block continue."""
    def exits(loop):
        return [after for at in loop for after in function.next(at) if after not in loop]

    return [loop for loop in waits(function) if function.reaches(
        exits(loop), lambda other: other.kind == "fence" and other.acquires,
        lambda other: other.kind in ("barrier", "pause"))]


def program_kernel(function):
    """The kernels that run programs."""
    if len(waits(function)) < 3:
        yield f"{len(waits(function))} waits: there are those for readers, for signals and for packets"
    yield from weak_waits(function)
    if not signals(function):
        yield "no flag is stored behind a fence that releases to the system"
    if not acquired_waits(function):
        yield "no wait is followed by a fence that acquires from the system"
    # Packets need no flag.
    if not any(one.kind == "store" and one.strong and one.data for one in function.body):
        yield "no strong store: nothing publishes packets"


def reduction(function):
    found = re.search(r"device6reduceI(NS_\d+\w+?E|[a-z])L", function.name)
    wanted = unrolled.get(found.group(1), 0) if found else 4 if "device4copyI" in function.name else 0
    if not wanted:
        return
    best = max((sum(load.bytes == 16 for load in loads_of_data(function, loop)) for loop in
                function.innermost(lambda one: one.kind == "load" and one.bytes == 16)), default=0)
    if best < wanted:
        yield f"the inner loop loads {best} times 16 bytes, not {wanted}"


def broken(functions):
    """All breaches, each with the name of its function."""
    for function in functions:
        rules = [reduction]
        if "capstan_run_" in function.name and "$" not in function.name:
            rules.append(program_kernel)
        for rule in rules:
            for breach in rule(function):
                yield f"{function.name}: {breach}"
