#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Rules for the machine code of kernels: polls are strong, flags come behind fences, loads are wide,
registers are not spilled. Ends with 77 where there is nothing to check.

  check.py --hip FILE          all images in the bundle that the build has made
  check.py --cuda FOLDER       what nvcc has kept beside its image: PTX, and machine code where nvdisasm is at hand
  check.py --targets SOURCE    a source of kernels for every machine in limits.py, by --clang and --nvcc
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import dialects
import limits
import rules
import spoil
from listing import parts as listing_parts

root = Path(__file__).resolve().parents[3]


def tool(*names):
    return next((found for name in names if (found := shutil.which(name))), None)


objdump = tool("llvm-objdump-19", "llvm-objdump", "/opt/rocm/llvm/bin/llvm-objdump")
readelf = tool("llvm-readelf-19", "llvm-readelf", "/opt/rocm/llvm/bin/llvm-readelf")
bundler = tool("clang-offload-bundler-19", "clang-offload-bundler", "/opt/rocm/llvm/bin/clang-offload-bundler")
nvdisasm = tool("nvdisasm", "/usr/local/cuda/bin/nvdisasm")


def output(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def gcn_image(file, architecture):
    """The breaches of an ELF file for an AMD machine."""
    listing = output(objdump, "-d", "--symbolize-operands", "--no-show-raw-insn", "--no-leading-addr", file)
    yield from judged(listing, dialects.gcn_function, lambda lines: dialects.gcn(lines, architecture))
    yield from limits.broken_by_gcn(output(readelf, "--notes", file), architecture)


def judged(listing, function_of, parse):
    """The breaches of a listing, and of the rules: they have to find what is planted in a kernel.

    Kernels of one operation stand for those of the others, which differ in arithmetic alone."""
    parts = listing_parts(listing.splitlines(), function_of)
    programs = [name for name in parts if re.fullmatch(r"capstan_run_\w+_sum", name)]
    if not programs:
        yield "no kernel that runs programs"
        return
    for name, lines in parts.items():
        if name in programs or "ReduceOpE0" in name or "device4copyI" in name:
            yield from rules.broken(parse(lines))
    for what, spoilt in spoil.variants(parts[programs[0]], parse(parts[programs[0]])[0]):
        if spoilt != parts[programs[0]] and not any(rules.broken(parse(spoilt))):
            yield f"the rules do not find {what} in {programs[0]}"


def hip(bundle):
    names = output(bundler, "--list", "--type=o", f"--input={bundle}").split()
    for name in names:
        if not name.startswith("hip"):
            continue
        with tempfile.NamedTemporaryFile(suffix=".o") as image:
            output(bundler, "--unbundle", "--type=o", f"--input={bundle}", f"--targets={name}", f"--output={image.name}")
            yield name.split("-")[-1], list(gcn_image(image.name, name.split("-")[-1]))


def amd_targets(clang, source):
    """Compiled for all machines at once, without what later compilers no longer define."""
    with tempfile.TemporaryDirectory() as folder:
        running = {}
        for architecture, wave in limits.waves.items():
            made = Path(folder) / architecture
            command = [clang, "-x", "hip", "--cuda-device-only", "-c", "--no-gpu-bundle-output", "-nogpulib", "-nogpuinc",
                       f"--offload-arch={architecture}", "-std=c++20", "-O3", "-ffp-contract=off", "-fno-strict-aliasing",
                       "-Wno-builtin-macro-redefined", "-U__AMDGCN_WAVEFRONT_SIZE", "-U__AMDGCN_WAVEFRONT_SIZE__",
                       f"-DCAPSTAN_WAVE={wave}", f"-I{root}", f"-I{root}/core/include", source, "-o", made]
            running[architecture] = made, subprocess.Popen([str(part) for part in command], stderr=subprocess.PIPE, text=True)
        for architecture, (made, process) in running.items():
            errors = process.communicate()[1]
            yield architecture, list(gcn_image(made, architecture)) if process.returncode == 0 else [errors]


def cuda(folder):
    for file in sorted(folder.glob("**/*.ptx")):
        yield file.name, list(judged(file.read_text(), dialects.ptx_function, dialects.ptx))
    for file in sorted(folder.glob("**/*.cubin")) if nvdisasm else []:
        yield file.name, list(judged(output(nvdisasm, "-c", file), dialects.sass_function, dialects.sass))
    for file in sorted(folder.glob("**/*.usage")):
        yield file.name, list(limits.broken_by_ptxas(file.read_text()))


def nvidia_targets(nvcc, source):
    """Compiled as the build compiles the images."""
    with tempfile.TemporaryDirectory() as folder:
        codes = [f"-gencode=arch=compute_{name[3:]},code={name}" for name in limits.most_spilled]
        made = subprocess.run([nvcc, "-fatbin", "-x", "cu", "-Xptxas", "-v", "--keep", "--keep-dir", folder, *codes, "-std=c++20",
                               "-O3", "-fmad=false", "--expt-relaxed-constexpr", f"-I{root}", f"-I{root}/core/include",
                               source, "-o", f"{folder}/image"], stderr=subprocess.PIPE, text=True)
        if made.returncode != 0:
            yield "nvcc", [made.stderr]
            return
        Path(folder, "ptxas.usage").write_text(made.stderr)
        yield from cuda(Path(folder))


def results(given):
    if given.hip and given.hip.exists() and objdump and readelf and bundler:
        yield from hip(given.hip)
    if given.targets and given.clang and objdump and readelf:
        yield from amd_targets(given.clang, given.targets)
    if given.targets and given.nvcc:
        yield from nvidia_targets(given.nvcc, given.targets)
    if given.cuda:
        yield from cuda(given.cuda)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--hip", type=Path)
    arguments.add_argument("--cuda", type=Path)
    arguments.add_argument("--targets", type=Path)
    arguments.add_argument("--clang")
    arguments.add_argument("--nvcc")
    checked, bad = 0, 0
    for name, breaches in results(arguments.parse_args()):
        checked, bad = checked + 1, bad + bool(breaches)
        print(f"{name}: {len(breaches)} breaches" if breaches else f"{name}: good")
        for breach in breaches[:20]:
            print("  " + re.sub(r"\s+", " ", breach)[:300])
    if not checked:
        print("there is no image, or no tool that reads it")
        return 77
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
