# SPDX-License-Identifier: Apache-2.0

"""Faults that the rules have to find, planted in a listing."""

import re

import rules

# Marks of strong accesses, and names of fences, in any of the dialects.
_strong = re.compile(r" (sc0 sc1|glc)\b|\.STRONG\.SYS|\.relaxed\.sys|\.volatile")
_fence = re.compile(r"\b(buffer_wbl2|buffer_inv|buffer_invl2|buffer_wbinvl1\w*|buffer_gl[01]_inv|s_waitcnt_vscnt|MEMBAR"
                    r"|fence\.acq_rel)\b")


def _without(lines, pattern, chosen):
    """The lines that are chosen lose what the pattern matches, or are lost where it is a whole instruction."""
    return [pattern.sub("", line) if line.strip() in chosen else line for line in lines]


def variants(lines, kernel):
    """Each fault in a kernel that runs programs, and what it is."""
    polls = [one for loop in rules.waits(kernel) for one in rules.loads_of_data(kernel, loop)]
    flags = {one.text for one in kernel.body if one.kind == "store" and one.strong}
    for number in sorted({0, len(polls) // 2, len(polls) - 1}):
        yield f"weak poll {number}", _without(lines, _strong, {polls[number].text})
    yield "polls through a cache", _without(lines, _strong, {one.text for one in polls})
    yield "missing fences", [line for line in lines if not _fence.search(line)]
    yield "flags that are stored into a cache", _without(lines, _strong, flags)
