# SPDX-License-Identifier: Apache-2.0
"""The checks of the documents find what is wrong in blocks that are wrong on purpose."""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path

import blocks
import commands
import forge
import programs
import running

BLOCKS = """# A
```cpp
#include <vector>
using A = int;
int twice(int a) {
  return 2 * a;
}

std::vector<int> list{twice(1)};
```

```sh
capstan perf all_reduce -n 2
```
"""


def block(language: str, text: str, **row: object) -> blocks.Block:
    return blocks.Block("docs/a.md", 7, language, text, dict(row))


def tools() -> running.Tools:
    return running.Tools(Path("/nowhere"), Path(__file__), [sys.executable, ""], ["", ""])


class Blocks(unittest.TestCase):
    def test_are_found_with_their_places(self) -> None:
        found = list(blocks.blocks_of(BLOCKS, "a.md"))
        self.assertEqual([(b.language, b.line) for b in found], [("cpp", 3), ("sh", 13)])

    def test_rows_that_fit_none_are_told(self) -> None:
        found = list(blocks.blocks_of(BLOCKS, "a.md"))
        rows = [{"document": "a.md", "begins": "capstan"}, {"document": "a.md", "begins": "gone", "odd": 1}]
        complaints = blocks.attach(found, rows)
        self.assertEqual(len(complaints), 2)
        self.assertIn("odd", complaints[0])
        self.assertIn("fits 0 blocks", complaints[1])

    def test_fragments_are_taken_apart(self) -> None:
        fragment = programs.Fragment(next(blocks.blocks_of(BLOCKS, "a.md")))
        self.assertEqual([text for _, text in fragment.includes], ["#include <vector>\n"])
        self.assertIn("using A = int;", fragment.outside)
        self.assertIn("return 2 * a;", fragment.outside)
        self.assertEqual(fragment.body.strip(), "std::vector<int> list{twice(1)};")
        self.assertIn('#line 3 "', fragment.code())

    def test_lines_keep_their_numbers(self) -> None:
        fragment = programs.Fragment(next(blocks.blocks_of(BLOCKS, "a.md")))
        self.assertEqual(fragment.body.count("\n"), 7)


class Commands(unittest.TestCase):
    def checker(self) -> commands.Checker:
        checker = commands.Checker(Path("capstan"), Path("build"))
        checker.help_of = lambda *command: "--ranks -n,--count build" if command[-1] != "gone" else ""  # type: ignore
        checker.settings = lambda: {"CAPSTAN_TIMEOUT"}  # type: ignore
        checker.targets = lambda: {"capstan", "bin/capstan"}  # type: ignore
        return checker

    def complaints(self, text: str) -> str:
        return "\n".join(self.checker().check(block("sh", text), text))

    def test_that_are_right_pass(self) -> None:
        text = "CAPSTAN_TIMEOUT=1 capstan perf x -n 2 --count=3  # words -z\ncmake --preset release && ninja -C build capstan\n"
        self.assertEqual(self.complaints(text), "")

    def test_that_are_wrong_are_told(self) -> None:
        for text, what in {
            "capstan perf --nothing": "capstan perf has no option --nothing",
            "capstan gone": "no command 'gone'",
            "CAPSTAN_TIME=1 capstan perf": "no setting CAPSTAN_TIME",
            "export CAPSTAN_TIME=1": "no setting CAPSTAN_TIME",
            "scripts/gone": "no scripts/gone",
            "scripts/setup build,gone": "scripts/setup knows no 'gone'",
            "capstan perf -- capstan gone": "no command 'gone'",
            "scripts/hosts -- sh -c 'set -- $A; $A $1 capstan gone'": "no command 'gone'",
            "gcc a.c $(capstan gone)": "no command 'gone'",
            "cmake --preset gone": "no preset gone",
            "ninja -C build/release gone": "no target gone",
            "build/release/gone": "nothing builds",
            "frobnicate x": "what is 'frobnicate'?",
            "for a in": "syntax error",
        }.items():
            with self.subTest(text):
                self.assertIn(what, self.complaints(text))


class Forges(unittest.TestCase):
    def test_commands_of_workflows_are_found(self) -> None:
        text = "jobs:\n  a:\n      preset: [one, two]\n      - run: t ${{ matrix.preset }}\n      - run: |\n          b\n          c\n      - uses: d\n"
        found = [(each.line, each.text) for each in forge.workflow_commands(text, "a.yml")]
        self.assertEqual(found, [(4, "t one\n"), (4, "t two\n"), (5, "b\nc\n")])

    def test_commands_of_dockerfiles_are_found(self) -> None:
        text = "FROM a AS b\nRUN --mount=type=c \\\n    d && /capstan/scripts/e\nCOPY f g\n"
        found = [(each.line, each.text) for each in forge.dockerfile_commands(text, "Dockerfile")]
        self.assertEqual(found, [(2, "d && scripts/e\n")])

    def test_the_repository_has_some_of_each(self) -> None:
        self.assertEqual(
            {Path(each.document).name for each in forge.commands_of_forges()} - {"test.yml"},
            {"Dockerfile", "devcontainer.json"},
        )


class Runs(unittest.TestCase):
    def test_shell_blocks_that_fail_are_told(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            own = running.Tools(Path(folder), Path(__file__), ["", ""], ["", ""])
            complaints = list(running.run_shell([block("sh", "true\n"), block("sh", "false\ntrue\n")], own))
        self.assertEqual(len(complaints), 1)
        self.assertIn("status 1", complaints[0])

    def test_output_that_differs_is_told(self) -> None:
        text = "$ echo one\none\n$ echo two\nthree\n"
        complaints = list(running.run_console([block("console", text)], tools()))
        self.assertEqual(len(complaints), 1)
        self.assertIn("+two", complaints[0])

    def test_labels_ignore_figures(self) -> None:
        self.assertEqual(running.differs("time: 5 us\n", "time: 7.5 us\nmore\n", "labels"), "")
        self.assertNotEqual(running.differs("time: 5 us\n", "speed: 5\n", "labels"), "")

    def test_rows_about_text_that_is_gone_end_the_run(self) -> None:
        for row in ({"replace": {"gone": ""}}, {"left_out": {"gone": "why"}}):
            with self.assertRaises(SystemExit):
                running.replaced(block("sh", "true\n", **row), Path("/nowhere"))


if __name__ == "__main__":
    unittest.main()
