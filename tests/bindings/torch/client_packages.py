# SPDX-License-Identifier: Apache-2.0
"""Packages of clients.py, beside the PyTorch of the Python that runs it."""

import importlib.metadata
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]

# Installed beside a package, or instead of all that it asks for, which is for GPUs.
BESIDE = {"nccl4py": ["cuda-bindings==13.*"], "sglang": ["--no-deps"]}


def python_of(package):
    """vLLM wants other versions of what others want: it has an environment of its own over this one."""
    if package != "vllm":
        return sys.executable
    folder = ROOT / "build/vllm"
    python = folder / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        ours, theirs = (
            subprocess.check_output([one, "-c", "import site; print(site.getsitepackages()[0])"], text=True).strip()
            for one in (sys.executable, python)
        )
        (pathlib.Path(theirs) / "pytorch.pth").write_text(ours + "\n")
    return str(python)


def install(package, version):
    """vLLM's wheels are for CUDA. Its source runs groups on processors without anything compiled."""
    options, variables = [], {}
    if package == "vllm":
        if version_of(package) == version:  # to make it takes minutes
            return
        subprocess.run(
            [python_of(package), "-m", "pip", "install", "-q", "setuptools>=78,<81", "setuptools-rust", "setuptools-scm", "wheel"],
            check=True,
        )
        options = ["--no-binary", "vllm", "--no-build-isolation"]
        variables = {"VLLM_TARGET_DEVICE": "empty", "VLLM_VERSION_OVERRIDE": version}
    torch = importlib.metadata.version("torch").partition("+")[0]
    whole = options or version.count(".") == 2
    wanted = f"{package}=={version}" if whole else f"{package}~={version}.0"
    subprocess.run(
        [python_of(package), "-m", "pip", "install", "-q", f"torch=={torch}", wanted, *options, *BESIDE.get(package, [])],
        env={**os.environ, **variables},
        check=True,
    )


def version_of(package):
    code = f"import importlib.metadata as m; print(m.version('{package}'))"
    return subprocess.run([python_of(package), "-c", code], capture_output=True, text=True).stdout.strip()
