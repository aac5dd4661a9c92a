# SPDX-License-Identifier: Apache-2.0
"""The fenced blocks of the documents, and what blocks.toml says about each of them.

How a block is held to what it claims:

- Every block names its language: `cpp`, `c`, `python`, `sh`, `console`, or `text` for what is no program.
- A block that stands word for word in a file of docs/example is compiled and run with that file.
- Blocks of C++ and C are compiled into one program (programs.py), which 2 ranks run.
- Blocks of Python of one document are one program, from top to bottom, as in a notebook; those of a notebook, too.
- Blocks of `sh` run in a folder of their own; each command is also compared with the options, settings, presets
  and targets that exist (commands.py).
- Commands of a `console` block run, and print what stands below them.

blocks.toml has what a block takes for granted, such as variables of the program around it, and the reason why a block is not
run. A row that fits no block is an error.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator

ROOT = Path(__file__).resolve().parents[3]
LANGUAGES = {"cpp", "c", "python", "sh", "console", "text"}
# A row of blocks.toml may say these, besides which block it is about.
KEYS = {"outside", "before", "after", "above", "within", "ranks", "replace", "compare", "not_run", "left_out", "needs", "slow"}


@dataclass
class Block:
    document: str  # from the root of the repository
    line: int  # of the first line inside of the fences, from 1
    language: str
    text: str
    row: dict[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def name(self) -> str:
        return re.sub(r"\W", "_", f"{self.document}_{self.line}")


def documents() -> list[Path]:
    skipped = {"build", "node_modules"}
    found = sorted([*ROOT.glob("**/*.md"), *ROOT.glob("**/*.ipynb")])
    return [
        path
        for path in found
        if not any(part in skipped or part.startswith(".") for part in path.relative_to(ROOT).parts)
    ]


def cells_of(text: str, document: str) -> Iterator[Block]:
    """The cells of a notebook; their line is the number of the cell."""
    for number, cell in enumerate(json.loads(text)["cells"], start=1):
        if cell["cell_type"] == "code":
            yield Block(document, number, "python", "".join(cell["source"]) + "\n")


def blocks_of(text: str, document: str) -> Iterator[Block]:
    if document.endswith(".ipynb"):
        yield from cells_of(text, document)
        return
    language, begin, lines = None, 0, text.split("\n")
    for number, line in enumerate(lines, start=1):
        fence = re.match(r"\s*```(.*)$", line)
        if not fence:
            continue
        if language is None:
            language, begin = fence[1].strip(), number
        else:
            yield Block(document, begin + 1, language, "\n".join(lines[begin : number - 1]) + "\n")
            language = None


def examples() -> list[str]:
    return [path.read_text() for path in (ROOT / "docs/example").rglob("*") if path.suffix in {".cpp", ".c", ".py"}]


def attach(blocks: list[Block], rows: list[dict[str, Any]]) -> list[str]:
    """Gives each block its row, and returns complaints about rows."""
    complaints = []
    for row in rows:
        place = f"blocks.toml: {row.get('document')}: {row.get('begins')!r}"
        unknown = set(row) - KEYS - {"document", "begins"}
        if unknown:
            complaints.append(f"{place}: unknown: {', '.join(sorted(unknown))}")
        fitting = [b for b in blocks if b.document == row["document"] and b.text.startswith(row["begins"])]
        if len(fitting) != 1:
            complaints.append(f"{place}: fits {len(fitting)} blocks, not one")
        for block in fitting:
            block.row = row
    return complaints


def repository() -> tuple[list[Block], list[str]]:
    """All blocks that are to be compiled or run, and complaints."""
    every = [
        block for path in documents() for block in blocks_of(path.read_text(), str(path.relative_to(ROOT)))
    ]
    complaints = attach(every, tomllib.loads((Path(__file__).parent / "blocks.toml").read_text())["block"])
    shown = examples()
    blocks = []
    for block in every:
        if block.language not in LANGUAGES:
            complaints.append(f"{block.place}: says none of the languages {', '.join(sorted(LANGUAGES))}")
        elif any(block.text in example for example in shown):
            if block.row:
                complaints.append(f"{block.place}: is part of an example, and needs no row in blocks.toml")
        elif block.language != "text":
            blocks.append(block)
    return blocks, complaints
