# SPDX-License-Identifier: Apache-2.0
"""The commands of workflows, the Dockerfile and the development container, as blocks of the shell."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import Iterator

from blocks import ROOT, Block


def workflow_commands(text: str, document: str) -> Iterator[Block]:
    """The commands behind `run:`, once for each choice of the values of a matrix."""
    lists = dict(re.findall(r"(?m)^ +([\w-]+): \[([^\]]*)\]", text))
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        step = re.match(r"( *)(?:- )?run: (.*)$", line)
        if not step:
            continue
        command = step[2]
        if command in ("|", ">"):
            deeper = re.compile(rf" {{{len(step[1]) + 1},}}\S|$")
            body = lines[number:]
            end = next((i for i, below in enumerate(body) if not deeper.match(below)), len(body))
            command = "\n".join(below.strip() for below in body[:end])
        names = sorted(set(re.findall(r"\$\{\{ matrix\.([\w-]+) \}\}", command)))
        for values in product(*(re.split(r",\s*", lists[name]) for name in names)):
            chosen = command
            for name, value in zip(names, values):
                chosen = chosen.replace(f"${{{{ matrix.{name} }}}}", value)
            yield Block(document, number, "sh", chosen + "\n")


def dockerfile_commands(text: str, document: str) -> Iterator[Block]:
    """The commands behind RUN, whose working directory has the repository."""
    for match in re.finditer(r"(?m)^RUN ((?:.*\\\n)*.*)$", text):
        command = re.sub(r"--mount=\S+", "", match[1]).replace("/capstan/scripts/", "scripts/")
        yield Block(document, text[: match.start()].count("\n") + 1, "sh", command.strip().lstrip("\\\n ") + "\n")


def container_commands(text: str, document: str) -> Iterator[Block]:
    yield Block(document, 1, "sh", json.loads(text)["postCreateCommand"] + "\n")


def commands_of_forges() -> list[Block]:
    blocks: list[Block] = []
    for find, pattern in (
        (workflow_commands, ".github/workflows/*.yml"),
        (dockerfile_commands, "Dockerfile"),
        (container_commands, ".devcontainer/devcontainer.json"),
    ):
        for path in sorted(ROOT.glob(pattern)):
            blocks += find(path.read_text(), str(path.relative_to(ROOT)))
    return blocks


def container_complaints() -> Iterator[str]:
    """The development container is a stage of the Dockerfile that it names."""
    path = ROOT / ".devcontainer/devcontainer.json"
    build = json.loads(path.read_text())["build"]
    dockerfile = path.parent / build["dockerfile"]
    if not dockerfile.is_file():
        yield f"{path.relative_to(ROOT)}: there is no {build['dockerfile']}"
    elif not re.search(rf"(?m)^FROM \S+ AS {build['target']}$", dockerfile.read_text()):
        yield f"{path.relative_to(ROOT)}: {build['dockerfile']} has no stage {build['target']}"
