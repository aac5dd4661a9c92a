# SPDX-License-Identifier: Apache-2.0

"""Functions in machine code, as the rules see them: the same for all machines."""

from dataclasses import dataclass, field
from functools import cached_property


@dataclass
class Instruction:
    kind: str  # load, store, fence, pause, barrier, branch, other
    text: str = ""
    bytes: int = 0  # of a load or store, for one thread
    strong: bool = False  # seen by the whole system at once: the access neither comes from nor stays in a cache
    data: bool = True  # memory that other devices may reach: neither arguments nor the thread's own stack
    targets: tuple = ()  # of a branch
    falls_through: bool = True  # the next instruction may follow
    releases: bool = False  # of a fence
    acquires: bool = False


@dataclass
class Function:
    name: str
    body: list = field(default_factory=list)
    labels: dict = field(default_factory=dict)  # where each begins

    def next(self, at):
        """The instructions that may run after one."""
        one = self.body[at]
        following = [at + 1] if one.falls_through and at + 1 < len(self.body) else []
        targets = [self.labels[name] for name in one.targets if name in self.labels]
        return following + [target for target in targets if target < len(self.body)]

    def reaches(self, begins, wanted, stops):
        """Whether a way from one of `begins` comes to what is wanted, before what stops it."""
        seen, todo = set(), list(begins)
        while todo:
            at = todo.pop()
            if at in seen:
                continue
            seen.add(at)
            if wanted(self.body[at]):
                return True
            if not stops(self.body[at]):
                todo += self.next(at)
        return False

    @cached_property
    def loops(self):
        """The natural loops, as sets of instructions: from a branch to what dominates it."""
        blocks = self._blocks()
        before = {begin: [] for begin in blocks}
        for begin, end in blocks.items():
            for after in self.next(end):
                before[after].append(begin)
        dominators, bit = self._dominators(blocks, before)
        found = {}
        for begin, end in blocks.items():
            for head in self.next(end):
                if dominators[begin] & bit[head] == 0:
                    continue
                loop, todo = {head}, [begin]
                while todo:
                    block = todo.pop()
                    if block not in loop:
                        loop.add(block)
                        todo += before[block]
                found.setdefault(head, set()).update(*(range(one, blocks[one] + 1) for one in loop))
        return list(found.values())

    def _blocks(self):
        """The last instruction of each block, by its first; only those that can run."""
        begins = {0} | {at for at in self.labels.values() if at < len(self.body)}
        begins |= {at + 1 for at, one in enumerate(self.body) if one.kind == "branch" or not one.falls_through}
        order = sorted(begin for begin in begins if begin < len(self.body))
        ends = dict(zip(order, [begin - 1 for begin in order[1:]] + [len(self.body) - 1]))
        seen, todo = set(), [0]
        while todo:
            begin = todo.pop()
            if begin not in seen:
                seen.add(begin)
                todo += self.next(ends[begin])
        return {begin: ends[begin] for begin in order if begin in seen}

    def _dominators(self, blocks, before):
        """The blocks that each block comes behind on every way, as bits."""
        order = self._in_order(blocks)
        bit = {begin: 1 << number for number, begin in enumerate(order)}
        dominators = dict.fromkeys(order, (1 << len(order)) - 1)
        dominators[0] = bit[0]
        changed = True
        while changed:
            changed = False
            for begin in order[1:]:
                now = dominators[begin]
                for one in before[begin]:
                    now &= dominators[one]
                now |= bit[begin]
                changed = changed or now != dominators[begin]
                dominators[begin] = now
        return dominators, bit

    def _in_order(self, blocks):
        """Each block before those that come behind it alone."""
        done, order, todo = {0}, [], [(0, iter(self.next(blocks[0])))]
        while todo:
            begin, following = todo[-1]
            after = next((one for one in following if one not in done), None)
            if after is None:
                order.append(begin)
                todo.pop()
            else:
                done.add(after)
                todo.append((after, iter(self.next(blocks[after]))))
        return order[::-1]

    def innermost(self, wanted):
        """The smallest loop around each instruction for which `wanted` holds, once."""
        found = []
        for at, one in enumerate(self.body):
            around = [loop for loop in self.loops if at in loop] if wanted(one) else []
            if around and (smallest := min(around, key=len)) not in found:
                found.append(smallest)
        return found


def parsed(lines, function_of, label_of, instruction_of):
    """The functions of a listing. Each of the three answers None for a line of another kind."""
    functions = []
    for line in lines:
        name = function_of(line)
        if name is not None:
            functions.append(Function(name))
            continue
        if not functions:
            continue
        current = functions[-1]
        label = label_of(line)
        if label is not None:
            current.labels[label] = len(current.body)
            continue
        instruction = instruction_of(line)
        if instruction is not None:
            instruction.text = line.strip()
            current.body.append(instruction)
    return [function for function in functions if function.body]


def parts(lines, function_of):
    """The lines of each function, by its name; the last ones where a name comes twice."""
    found, name = {}, None
    for line in lines:
        new = function_of(line)
        if new is not None:
            name = new
            found[name] = []
        if name is not None:
            found[name].append(line)
    return found
