# SPDX-License-Identifier: Apache-2.0
"""python -m capstan perf all_reduce -n 4: the program `capstan` that was built with the package."""

import os
import sys
from pathlib import Path

BESIDE = Path(__file__).parent / "bin" / "capstan"  # in a wheel


def program() -> str:
    """The path of the program: in the package, in the build's folder, or on the path."""
    import capstan._engine as engine

    built = Path(engine.__file__).parents[3] / "bin" / "capstan"
    return next((str(found) for found in (BESIDE, built) if found.exists()), "capstan")


def main() -> None:
    name = program()
    try:
        os.execvp(name, [name, *sys.argv[1:]])
    except FileNotFoundError:
        sys.exit("capstan: this package has no program `capstan`, and there is none on the path: build it")


if __name__ == "__main__":
    main()
