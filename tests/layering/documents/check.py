# SPDX-License-Identifier: Apache-2.0
"""Holds the blocks of the documents to what they claim; blocks.py says how.

    check.py sources FOLDER             writes the programs of the blocks of C++ and C
    check.py table                      each row of blocks.toml fits a block
    check.py commands | python | torch | sh | console      compares commands, or runs blocks; commands
                                        also of workflows, the Dockerfile and the development container
    check.py sh --slow                  runs those that take long
    check.py not-run                    prints which blocks are not run, and why
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Iterator

import running
from blocks import Block, repository
from commands import Checker
from forge import commands_of_forges, container_complaints
from programs import write_sources


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what")
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--build", type=Path)
    parser.add_argument("--program", type=Path)
    parser.add_argument("--python", nargs=2, default=["", ""], metavar=("PYTHON", "PATH"))
    parser.add_argument("--torch", nargs=2, default=["", ""], metavar=("PYTHON", "PATH"))
    parser.add_argument("--slow", action="store_true")
    return parser.parse_args()


def text_of_commands(block: Block) -> str:
    if block.language == "sh":
        return block.text
    return "".join(f"{command}\n" for command, _ in running.steps_of(block.text))


def complaints(what: str, blocks: list[Block], tools: running.Tools) -> Iterator[str]:
    run = [block for block in blocks if "not_run" not in block.row]
    python = [block for block in run if block.language == "python"]
    if what == "commands":
        checker = Checker(tools.capstan, tools.build)
        yield from container_complaints()
        for block in [*blocks, *commands_of_forges()]:
            if block.language in ("sh", "console"):
                yield from checker.check(block, text_of_commands(block))
    elif what == "python":
        yield from running.run_python([block for block in python if not running.uses_torch(block)], tools)
    elif what == "torch":
        yield from running.run_python([block for block in python if running.uses_torch(block)], tools)
    elif what == "sh":
        yield from running.run_shell([block for block in run if block.language == "sh"], tools)
    elif what == "console":
        yield from running.run_console([block for block in run if block.language == "console"], tools)
    else:
        yield f"there is nothing called {what}"


def main() -> int:
    options = arguments()
    blocks, wrong = repository()
    if options.what == "sources":
        write_sources(blocks, options.folder)
        return 0
    if options.what == "not-run":
        for block in blocks:
            for reason in [block.row.get("not_run", ""), *block.row.get("left_out", {}).values()]:
                if reason:
                    print(f"{block.place}: {reason}")
        return 0
    if options.what != "table":
        tools = running.Tools(options.build, options.program, options.python, options.torch)
        blocks = [block for block in blocks if bool(block.row.get("slow")) == options.slow or options.what == "commands"]
        wrong = list(complaints(options.what, blocks, tools))
    print("\n\n".join(wrong) or f"{len(blocks)} blocks: nothing to complain of")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
