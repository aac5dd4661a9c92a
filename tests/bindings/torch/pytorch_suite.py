# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own tests of a backend, on two ranks: pytorch_suite.py FOR BACKEND [NAME...].

Those of torch.testing._internal.distributed.distributed_test that are for the backend FOR, run by BACKEND, and
whose name contains one of NAME, but for those that need a GPU. Prints RESULT and, as JSON, how many passed, the names of those that failed, and the reasons of
those that were skipped.
"""

import ast
import collections
import json
import os
import pathlib
import sys
import tempfile
import unittest

FOR, BACKEND = sys.argv[1:3]
os.environ["BACKEND"] = FOR  # as the decorators of tests read it
os.environ.setdefault("WORLD_SIZE", "2")
os.environ.setdefault("TEMP_DIR", tempfile.gettempdir())
os.environ["OMP_NUM_THREADS"] = "1"

import capstan_torch  # noqa: E402, F401
import torch  # noqa: E402
from torch.testing._internal.distributed import distributed_test as suite  # noqa: E402

suite.BACKEND = BACKEND  # as groups are made


class Ranks(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)  # no new import for each


def needing_gpus():
    """The names of tests with such a decorator: each starts processes to find out that there is none."""
    tree = ast.parse(pathlib.Path(suite.__file__).read_text())
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any("gpu" in ast.unparse(one) for one in node.decorator_list)
    }


def main():
    wanted, without = sys.argv[3:], needing_gpus()
    names = [name for name in unittest.defaultTestLoader.getTestCaseNames(Ranks) if name not in without]
    names = [name for name in names if not wanted or any(part in name for part in wanted)]
    ended = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(Ranks(name) for name in names))
    bad = [test.id().rpartition(".")[2] for test, _ in ended.failures + ended.errors]
    skipped = collections.Counter(reason for _, reason in ended.skipped)
    skipped["needs a GPU"] += len(without)
    passed = ended.testsRun - len(bad) - len(ended.skipped)
    print("RESULT" + json.dumps({"passed": passed, "failed": bad, "skipped": skipped}), flush=True)


if __name__ == "__main__":
    main()
