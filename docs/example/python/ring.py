# SPDX-License-Identifier: Apache-2.0
"""An all-reduce of one's own: a ring, proven before it runs.

    capstan run -n 4 -- python3 ring.py
"""

import numpy as np

import capstan as cs


@cs.algorithm("all_reduce")
def my_ring(s: cs.Steps) -> None:
    """Blocks travel twice round a ring."""
    for k in range(s.size - 1):  # partial sums go round; rank r ends up with the sum of block r+1
        landing = s.scratch(len(s.block(s.output, 0)))
        out, arriving = s.block(s.output if k else s.input, s.rank - k), s.rank - k - 1
        s.send(s.right, landing[: len(out)], out)
        s.wait(s.left)
        add = s.complete if k == s.size - 2 else s.reduce
        total = s.block(s.output, arriving)
        add(total, landing[: len(total)], s.block(s.input, arriving))
    for k in range(s.size - 1):  # sums go round, straight into place
        out = s.block(s.output, s.rank + 1 - k)
        s.send(s.right, out, out)
        s.wait(s.left)


def main() -> None:
    with cs.init() as comm:
        x = np.arange(1000, dtype=np.float32) + comm.rank
        comm.all_reduce(x, algorithm=my_ring)
        assert x[0] == comm.size * (comm.size - 1) / 2
        if comm.rank == 0:
            print(f"rank 0 of {comm.size}: the sum of 1000 elements starts with {x[0]:g}")


if __name__ == "__main__":
    main()
