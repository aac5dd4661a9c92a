# SPDX-License-Identifier: Apache-2.0
"""One rank of a job: all checks, under whatever launcher has started it."""

import sys
import traceback

import checks

import capstan as cs

if "--mpi4py" in sys.argv:
    from mpi4py import MPI

    comm = cs.init(comm=MPI.COMM_WORLD, timeout=60)
    assert comm.rank == MPI.COMM_WORLD.Get_rank()
else:
    comm = cs.init(timeout=60, join_timeout=60)
expected = int(sys.argv[1])
assert comm.size == expected, f"{comm.size} ranks, not {expected}"
try:
    for check in checks.CHECKS:
        check(comm)
except BaseException:
    traceback.print_exc()
    sys.exit(f"rank {comm.rank}: {check.__name__} failed")
print(f"rank {comm.rank} of {comm.size}: {len(checks.CHECKS)} checks passed")
comm.barrier()
comm.close()
