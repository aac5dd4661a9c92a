# SPDX-License-Identifier: Apache-2.0
"""Writes the blocks of C++ and C as programs.

A fragment becomes the body of a function of its own, which has the communicator as `world`. Its #include lines go to
the top; definitions of functions (from a line that begins in the first column and ends in `{` to the `}` of the first column) and
`using` stay outside of the body. A fragment that awaits is a task. `outside` and `before` of blocks.toml stand before both. A block
of the library's own code says `namespace capstan {` and stays as it is; with `within` and `above` it is put into a source of the
library, above a line of it.
"""

from __future__ import annotations

import re
from pathlib import Path

from blocks import ROOT, Block

FUNCTION = re.compile(r"^\w[^\n]*\) \{\n.*?^\}\n", re.M | re.S)


def blank(text: str) -> str:
    return "\n" * text.count("\n")


def take(pattern: re.Pattern[str], text: str) -> tuple[list[tuple[int, str]], str]:
    """Matches of the pattern with their lines within the text, and the text with empty lines in their place."""
    found = [(text.count("\n", 0, match.start()), match[0]) for match in pattern.finditer(text)]
    return found, pattern.sub(lambda match: blank(match[0]), text)


def located(block: Block, line: int, text: str) -> str:
    return f'#line {block.line + line} "{ROOT / block.document}"\n{text}'


class Fragment:
    def __init__(self, block: Block) -> None:
        self.block = block
        self.includes, rest = take(re.compile(r"^#include .*\n", re.M), block.row.get("outside", ""))
        more, text = take(re.compile(r"^#include .*\n", re.M), block.text)
        self.includes += more
        outside, self.body = take(FUNCTION, text)
        usings, self.body = take(re.compile(r"^using .*\n", re.M), self.body)
        self.outside = rest + "".join(located(block, line, code) for line, code in sorted(usings + outside))

    @property
    def awaits(self) -> bool:
        return "co_await" in self.body

    def code(self) -> str:
        before: str = self.block.row.get("before", "")
        after: str = self.block.row.get("after", "")
        return before + "\n" + located(self.block, 0, self.body) + after


# Results that a document only shows are not used, and a fragment may have a `world` of its own.
UNCHECKED = "".join(f'#pragma GCC diagnostic ignored "-W{name}"\n' for name in ("shadow", "subobject-linkage", "unused-variable"))

AWAITED = """\
  capstan::values::schedule({}::run(world));
  capstan::values::current_scheduler().wait_all();
"""

CPP_MAIN = """
int main() {{
  auto world = capstan::Communicator::from_environment();
{calls}  std::printf("rank %d: {count} blocks have run\\n", world.rank());
}}
"""


def cpp_program(blocks: list[Block]) -> str:
    fragments = [Fragment(block) for block in blocks]
    includes = [f"#include <{name}>\n" for name in ("capstan/communicator.hpp", "capstan/values/scheduler.hpp", "cstdio")]
    includes += [text for fragment in fragments for _, text in fragment.includes]
    parts, calls = [UNCHECKED, *dict.fromkeys(includes)], ""
    for fragment in fragments:
        name = fragment.block.name
        kind = "capstan::values::AsyncTask" if fragment.awaits else "void"
        run = f"{kind} run([[maybe_unused]] capstan::Communicator& world) {{\n{fragment.code()}}}\n"
        parts.append(f"namespace {name} {{\n{fragment.outside}{run}}}\n")
        calls += (AWAITED if fragment.awaits else "  {}::run(world);\n").format(name)
    return "".join(parts) + CPP_MAIN.format(calls=calls, count=len(blocks))


def library_source(blocks: list[Block]) -> str:
    """Blocks that are files, and those that belong into a source of the library."""
    parts = [located(block, 0, block.text) for block in blocks if "within" not in block.row]
    for block in blocks:
        if "within" not in block.row:
            continue
        path = ROOT / block.row["within"]
        above, mark, below = path.read_text().partition(block.row["above"])
        if not mark:
            raise SystemExit(f"{block.place}: {path} has no line {block.row['above']!r}")
        end = above.count("\n") + 1
        parts.append(f'#line 1 "{path}"\n{above}\n{located(block, 0, block.text)}#line {end} "{path}"\n{mark}{below}')
    return "\n".join(parts)


C_MAIN = """
int main(void) {{
  capstan_communicator* world = NULL;
  if (capstan_from_environment(NULL, &world)) return 1;
{calls}  return capstan_destroy(world) != CAPSTAN_OK;
}}
"""


def c_program(blocks: list[Block]) -> str:
    parts, calls = ["#include <capstan.h>\n#include <stdio.h>\n"], ""
    for block in blocks:
        fragment = Fragment(block)
        parts += [text for _, text in fragment.includes] + [fragment.outside]
        parts.append(f"static int {block.name}(capstan_communicator* world) {{\n(void)world;\n{fragment.code()}\nreturn 0;\n}}\n")
        calls += f"  if ({block.name}(world)) return 1;\n"
    return "".join(parts) + C_MAIN.format(calls=calls)


def is_library_code(block: Block) -> bool:
    return "namespace capstan {" in block.text or "within" in block.row


def write_sources(blocks: list[Block], folder: Path) -> None:
    compiled = [block for block in blocks if "not_run" not in block.row]
    cpp = [block for block in compiled if block.language == "cpp"]
    c = [block for block in compiled if block.language == "c"]
    sources = {
        "blocks.cpp": cpp_program([block for block in cpp if not is_library_code(block)]),
        "library_blocks.cpp": library_source([block for block in cpp if is_library_code(block)]),
        "c_blocks.c": c_program(c),
    }
    for name, text in sources.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
