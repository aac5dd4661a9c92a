# SPDX-License-Identifier: Apache-2.0
"""Runs blocks of Python and of the shell in a folder of their own.

The folder has what documents assume: `build/release`, `docs/clusters`, `program` (the example all_reduce, also as source in
C++ and C), and `capstan` on the path. PREFIX in a command is a folder in it. A row of blocks.toml may replace text
(`replace`), and leave out lines that begin so (`left_out`), each with a reason.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Iterator

from blocks import ROOT, Block

TIMEOUT = 240  # seconds for one command, which bounds a hang


@dataclass
class Tools:
    build: Path
    program: Path
    python: list[str]  # a Python with the package capstan, and where it lies
    torch: list[str]

    @property
    def capstan(self) -> Path:
        return self.build / "bin/capstan"


@contextmanager
def sandbox(tools: Tools) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="capstan-documents-") as name:
        folder = Path(name)
        (folder / "build").mkdir()
        (folder / "prefix").mkdir()
        (folder / "build/release").symlink_to(tools.build)
        shutil.copytree(ROOT / "docs/clusters", folder / "clusters")
        # Copies, as commands write over them.
        shutil.copy(tools.program, folder / "program")
        for suffix in (".c", ".cpp"):
            shutil.copy(ROOT / f"docs/example/all_reduce{suffix}", folder / f"program{suffix}")
        yield folder


def run(command: list[str], folder: Path, tools: Tools, **more: str) -> tuple[int, str]:
    """The exit status and all output. What is left when the time is over is killed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CAPSTAN_")}
    environment |= {"PATH": f"{tools.capstan.parent}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1", **more}
    child = subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )
    try:
        return (lambda output: (child.returncode, output))(child.communicate(timeout=TIMEOUT)[0])
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        return 124, child.communicate()[0] + f"\nended after {TIMEOUT} s"


def replaced(block: Block, folder: Path) -> str:
    text = block.text
    for old, new in block.row.get("replace", {}).items():
        if old not in text:
            raise SystemExit(f"{block.place}: blocks.toml replaces {old!r}, which is not there")
        text = text.replace(old, new)
    for begin in block.row.get("left_out", {}):
        text, count = re.subn(rf"(?m)^{re.escape(begin)}.*\n", "", text)
        if count == 0:
            raise SystemExit(f"{block.place}: blocks.toml leaves out {begin!r}, with which no line begins")
    before: str = block.row.get("before", "")
    return (before + text).replace("PREFIX", f"{folder}/prefix")


def uses_torch(block: Block) -> bool:
    return re.search(r"(?m)^import (capstan_)?torch", block.text) is not None


def meeting() -> dict[str, str]:
    """Where ranks of torch.distributed meet."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}


def run_python(blocks: list[Block], tools: Tools) -> Iterator[str]:
    """A program for each document. Yields complaints."""
    for document, group in groupby(blocks, lambda block: block.document):
        own = list(group)
        python, path = tools.torch if uses_torch(own[0]) else tools.python
        text = "".join(block.row.get("before", "") + "\n" + block.text + block.row.get("after", "") for block in own)
        ranks = max(block.row.get("ranks", 2) for block in own)
        with sandbox(tools) as folder:
            (folder / "blocks.py").write_text(text)
            command = [str(tools.capstan), "run", "-n", str(ranks), "--", python, "blocks.py"]
            status, output = run(command, folder, tools, PYTHONPATH=path, **meeting())
        if status:
            yield f"{document}: its Python ends with status {status}:\n{output}\nof\n{text}"


def run_shell(blocks: list[Block], tools: Tools) -> Iterator[str]:
    for block in blocks:
        missing = [name for name in block.row.get("needs", []) if not shutil.which(name)]
        if missing:
            print(f"{block.place}: not run, as this machine has no {', '.join(missing)}")
            continue
        with sandbox(tools) as folder:
            text = replaced(block, folder)
            status, output = run(["bash", "-euc", text], folder, tools)
        if status:
            yield f"{block.place}: ends with status {status}:\n{output}\nof\n{text}"


def steps_of(text: str) -> Iterator[tuple[str, str]]:
    """Commands of a console, and what stands below each."""
    for part in re.split(r"(?m)^\$ ", text)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def labels(text: str) -> list[str]:
    """The words before the colon of each line that has one: what does not depend on the machine."""
    return list(dict.fromkeys(re.findall(r"(?m)^\w[\w ]*(?=: )", text)))


def differs(expected: str, found: str, how: str) -> str:
    """`how`: `exact`, or `labels`: those of the document are printed, too."""
    if how == "labels":
        return ", ".join(f"prints no line '{label}: ...'" for label in labels(expected) if label not in labels(found))
    if expected.rstrip() == found.rstrip():
        return ""
    return "\n".join(difflib.unified_diff(expected.splitlines(), found.splitlines(), "document", "program", lineterm=""))


def run_console(blocks: list[Block], tools: Tools) -> Iterator[str]:
    """The blocks of a document share their folder."""
    for _, group in groupby(blocks, lambda block: block.document):
        with sandbox(tools) as folder:
            for block in group:
                for command, expected in steps_of(replaced(block, folder)):
                    status, output = run(["bash", "-euc", command], folder, tools)
                    how = block.row.get("compare", "exact")
                    what = f"ends with status {status}:\n{output}" if status else differs(expected, output, how)
                    if what:
                        yield f"{block.place}: $ {command}: {what}"
