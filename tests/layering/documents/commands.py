# SPDX-License-Identifier: Apache-2.0
"""Compares commands of the shell with what there is: options of programs, settings, presets, targets, scripts.

Nothing here runs a command but for its --help.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from blocks import ROOT, Block

# Programs whose arguments are not compared with anything.
OTHERS = {
    *("apt-get", "cat", "cd", "cmake", "ctest", "docker", "g++", "gcc", "git", "grep", "head", "mkdir", "mpirun"),
    *("mypy", "ninja", "pip", "pkg-config", "python3", "rm", "sh", "srun", "tail", "torchrun"),
    *("done", "export", "set"),
}
WORDS_BEFORE_A_COMMAND = {"do", "then", "time", "exec"}


def without_comments(text: str) -> str:
    return re.sub(r"(?m)(^|\s+)# .*$", "", text.replace("\\\n", " "))


def commands_of(text: str) -> list[list[str]]:
    """The simple commands, each as its words."""
    inner: list[list[str]] = []

    def substituted(match: re.Match[str]) -> str:
        inner.extend(commands_of(match[1]))
        return "SUBSTITUTED"

    text = re.sub(r"\$\(([^()]*)\)", substituted, text)
    lexer = shlex.shlex(without_comments(text), posix=True, punctuation_chars=";&|\n()")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    commands: list[list[str]] = [[]]
    for word in lexer:
        if re.fullmatch(r"[;&|\n()]+", word):
            commands.append([])
        else:
            commands[-1].append(word)
    return inner + [command for command in commands if command]


class Checker:
    """Collects complaints about the commands of one block."""

    def __init__(self, capstan: Path, build: Path) -> None:
        self.capstan, self.build = capstan, build
        self.complaints: list[str] = []

    @cache
    def help_of(self, *command: str) -> str:
        run = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=60, cwd=ROOT)
        return run.stdout + run.stderr if run.returncode == 0 else ""

    @cache
    def settings(self) -> set[str]:
        listed = subprocess.run([self.capstan, "settings"], capture_output=True, text=True, check=True, timeout=60).stdout
        named = set(re.findall(r"CAPSTAN_\w+", listed))
        # Some variables are no settings of a communicator.
        documented = "".join((ROOT / f"docs/{name}.md").read_text() for name in ("settings", "nccl", "mpi"))
        return named | set(re.findall(r"`(CAPSTAN_\w+)", documented))

    @cache
    def targets(self) -> set[str]:
        run = subprocess.run(["ninja", "-C", self.build, "-t", "targets", "all"], capture_output=True, text=True, check=True)
        return {line.partition(":")[0] for line in run.stdout.splitlines()}

    def check(self, block: Block, text: str) -> list[str]:
        self.complaints = []
        shell = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
        if shell.returncode:
            self.complaints.append(shell.stderr.strip())
        for command in commands_of(text):
            self.check_command(command)
        return [f"{block.place}: {complaint}" for complaint in self.complaints]

    def check_command(self, words: list[str]) -> None:
        words = self.without_assignments(words)
        if not words or words[0] == "for":
            return
        if words[0].startswith("$"):  # $BED_EXEC HOST COMMAND
            self.check_command(words[2:])
            return
        name, arguments = words[0], words[1:]
        if Path(name).name == "capstan":
            self.check_capstan(arguments)
        elif name.startswith("scripts/"):
            self.check_script(name, arguments)
        elif name.startswith("build/"):
            self.check_built(name)
        elif not (name in OTHERS or name.startswith("./") or "/bin/" in name or (ROOT / name).is_file()):
            self.complaints.append(f"what is '{name}'?")
        for check in (self.check_presets, self.check_targets, self.check_nested):
            check(name, arguments)

    def without_assignments(self, words: list[str]) -> list[str]:
        while words and (words[0] in WORDS_BEFORE_A_COMMAND or re.match(r"\w+=", words[0])):
            self.check_setting(words[0])
            words = words[1:]
        if words and words[0] == "export":
            for word in words[1:]:
                self.check_setting(word)
        return words

    def check_setting(self, word: str) -> None:
        name = word.partition("=")[0]
        if name.startswith("CAPSTAN_") and name not in self.settings():
            self.complaints.append(f"there is no setting {name}")

    def check_capstan(self, arguments: list[str]) -> None:
        own = arguments[: arguments.index("--")] if "--" in arguments else arguments
        if not own:
            return
        if own[0].startswith("-"):
            self.check_options("capstan", own, self.help_of(str(self.capstan)))
            return
        text = self.help_of(str(self.capstan), own[0])
        if not text:
            self.complaints.append(f"capstan has no command '{own[0]}'")
        self.check_options(f"capstan {own[0]}", own[1:], text)

    def check_script(self, name: str, arguments: list[str]) -> None:
        if not (ROOT / name).is_file():
            self.complaints.append(f"there is no {name}")
            return
        own = arguments[: arguments.index("--")] if "--" in arguments else arguments
        if any(word.startswith("-") for word in own):
            self.check_options(name, own, self.help_of(str(ROOT / name)))
        if Path(name).name in ("build", "package", "setup", "test"):
            self.check_words(name, own)

    @cache
    def presets(self) -> set[str]:
        presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
        return {each["name"] for each in presets}

    def check_words(self, name: str, words: list[str]) -> None:
        """Groups of packages, kinds of packages, presets: the script's help names them, or they are presets."""
        known = set(re.findall(r"\w+", self.help_of(str(ROOT / name)))) | self.presets()
        for word in words:
            for part in word.split(","):
                if re.fullmatch(r"[a-z][\w-]*", part) and part not in known:
                    self.complaints.append(f"{name} knows no '{part}'")

    def check_options(self, whose: str, words: list[str], text: str) -> None:
        known = set(re.findall(r"(?<![\w-])-{1,2}[A-Za-z][\w-]*", text))
        for word in words:
            option = word.partition("=")[0]
            if re.match(r"-{1,2}[A-Za-z]", word) and option not in known:
                self.complaints.append(f"{whose} has no option {option}")

    def check_built(self, name: str) -> None:
        if "$" in name:  # in a loop
            name = re.sub(r"\$\{\w+\}|\$\w+", "*", name)
            if not any(fnmatch(target, Path(name).name) for target in self.targets()):
                self.complaints.append(f"nothing builds {name}")
            return
        path = Path(*Path(name).parts[2:])
        sources = [ROOT / path.with_suffix(".cpp"), ROOT / f"{str(path).removesuffix('_fuzz')}_fuzz.cpp"]
        if not ({str(path), path.name} & self.targets()) and not any(source.exists() for source in sources):
            self.complaints.append(f"nothing builds {name}")

    def check_presets(self, name: str, arguments: list[str]) -> None:
        if name not in ("cmake", "ctest") or "--preset" not in arguments:
            return
        preset = arguments[arguments.index("--preset") + 1]
        if preset not in self.presets():
            self.complaints.append(f"there is no preset {preset}")

    def check_targets(self, name: str, arguments: list[str]) -> None:
        if name != "ninja":
            return
        for target in arguments[arguments.index("-C") + 2 :]:
            if target not in self.targets():
                self.complaints.append(f"there is no target {target}")

    def check_nested(self, name: str, arguments: list[str]) -> None:
        if "--" in arguments:
            self.check_command(arguments[arguments.index("--") + 1 :])
        if name == "sh" and "-c" in arguments:
            for command in commands_of(arguments[arguments.index("-c") + 1]):
                self.check_command(command)
