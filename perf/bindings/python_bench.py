# SPDX-License-Identifier: Apache-2.0
"""all_reduce from Python beside the same call from C++, and beside mpi4py's.

    PYTHONPATH=build/release/bindings/python /usr/bin/python3 perf/bindings/python_bench.py

Starts `capstan perf` and, by mpirun of the MPI that mpi4py was built for, two ranks of Python, in
turns. In the latter Capstan and mpi4py take turns. Times are microseconds per call, calls in a row;
of each turn the slowest rank's median counts.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/release/bin/capstan"
SIZES = [8, 1024, 1 << 20]
TURNS = 5
ROUNDS = 15


def from_cpp():
    command = [PROGRAM, "perf", "all_reduce", "-n", "2", "-b", "8", "-e", "1M", "-f", "2", "--json"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["results"]
    return {row["bytes"]: row["median_us"] for row in rows if row["bytes"] in SIZES}


def from_python():
    command = ["mpirun.openmpi", "--allow-run-as-root", "--bind-to", "core", "-n", "2", sys.executable, __file__, "rank"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {int(size): row for size, row in json.loads(output.splitlines()[-1]).items()}


def microseconds(call, calls):
    """The median over rounds of a call in a row of so many."""
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - begin) / calls * 1e6)
    return statistics.median(times)


def be_a_rank():
    import capstan as cs
    import numpy as np
    from mpi4py import MPI

    mpi = MPI.COMM_WORLD
    comm = cs.init(comm=mpi)
    result = {}
    for size in SIZES:
        data, out = np.zeros(size // 4, np.float32), np.zeros(size // 4, np.float32)
        ways = {
            "capstan": lambda: comm.all_reduce(data, out=out),
            "mpi4py": lambda: mpi.Allreduce(data, out),
        }
        calls = 200 if size >= 1 << 20 else 5000
        for call in ways.values():  # the autotuner settles
            microseconds(call, calls)
        times = {name: microseconds(call, calls) for name, call in ways.items()}
        result[size] = {name: mpi.allreduce(value, op=MPI.MAX) for name, value in times.items()}
    if mpi.Get_rank() == 0:
        print(json.dumps(result))


def main():
    if sys.argv[1:] == ["rank"]:
        return be_a_rank()
    os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
    turns = []
    for _ in range(TURNS):
        cpp, python = from_cpp(), from_python()
        turns.append({size: {"C++": cpp[size], **python[size]} for size in SIZES})
    print(f"{'bytes':>8}  " + "".join(f"{name + ' (spread)':>24}" for name in turns[0][SIZES[0]]) + f"{'Python - C++':>16}")
    for size in SIZES:
        columns = {name: [turn[size][name] for turn in turns] for name in turns[0][size]}
        cells = [f"{statistics.median(v):10.2f} ({min(v):.2f}..{max(v):.2f})" for v in columns.values()]
        more = statistics.median(columns["capstan"]) - statistics.median(columns["C++"])
        print(f"{size:8}  " + "".join(f"{cell:>24}" for cell in cells) + f"{more:16.2f}", flush=True)


main()
