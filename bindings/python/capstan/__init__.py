# SPDX-License-Identifier: Apache-2.0
"""Capstan: collectives and messages between the ranks of a program.

    import capstan as cs, numpy as np
    comm = cs.init()                       # mpirun, srun, torchrun, capstan run, or one rank alone
    x = np.ones(1 << 20, np.float32)
    comm.all_reduce(x)                     # in place; out= for another array
    work = comm.all_reduce(x, op="max", wait=False)
    work.wait(timeout=5)
    parts = comm.all_gather(x)             # shape (comm.size, *x.shape)

Arrays are numpy arrays, PyTorch tensors, array.array, memoryview, and all else that has the buffer
protocol, DLPack or an array interface. Every rank makes the same calls in the same order. The GIL is
free while a call waits.
"""

from ._algorithms import Algorithm, algorithm
from ._communicator import Explanation, init, run_local
from ._engine import (
    Aborted,
    Accumulator,
    AlgorithmRefused,
    BootstrapError,
    Cancelled,
    Communicator,
    DeadlineExceeded,
    Error,
    InvalidArgument,
    LimitReached,
    MessageInfo,
    Mismatch,
    Operation,
    OperationFailed,
    OperationProfile,
    PeerLost,
    Persistent,
    Profiler,
    Span,
    StepProfile,
    Steps,
    SystemError,
    TimedOut,
    Truncated,
    Work,
    __version__,
    add_schedules,
    dtype_of,
    dtypes,
    join,
    join_growing,
    local_world,
    operation,
    ops,
    reproducible,
    scaled_sum,
    typed,
    unique_id,
)

__all__ = [
    "Aborted",
    "Accumulator",
    "Algorithm",
    "AlgorithmRefused",
    "BootstrapError",
    "Cancelled",
    "Communicator",
    "DeadlineExceeded",
    "Error",
    "Explanation",
    "InvalidArgument",
    "LimitReached",
    "MessageInfo",
    "Mismatch",
    "Operation",
    "OperationFailed",
    "OperationProfile",
    "PeerLost",
    "Persistent",
    "Profiler",
    "Span",
    "StepProfile",
    "Steps",
    "SystemError",
    "TimedOut",
    "Truncated",
    "Work",
    "__version__",
    "add_schedules",
    "algorithm",
    "dtype_of",
    "dtypes",
    "init",
    "join",
    "join_growing",
    "local_world",
    "operation",
    "ops",
    "reproducible",
    "run_local",
    "scaled_sum",
    "typed",
    "unique_id",
]
