# SPDX-License-Identifier: Apache-2.0

"""Registers and stack that the kernels may use, by machine."""

import re

# AMD: the threads of a wave, by architecture.
waves = {"gfx90a": 64, "gfx942": 64, "gfx1100": 32}
# A block has 512 threads, so more would not fit a compute unit. Scalars are spilled into lanes of a
# vector register, which costs no memory.
most_vector_registers = 256
# These are what there is, so that it grows no more.
most_vector_spills = {"c128": 16}

# NVIDIA: bytes of spilled registers that a thread of a program's kernel that sums stores, by
# architecture and type. These are what there is, so that it grows no more.
most_spilled = {
    "sm_80": {"f32": 12, "f16": 0, "bf16": 0},
    "sm_90": {"f32": 20, "f16": 0, "bf16": 0},
    "sm_100": {"f32": 16},
    "sm_120": {"f32": 0},
}
most_spilled_otherwise = 1024


def broken_by_gcn(notes, architecture):
    """By the metadata of an image."""
    for kernel in re.split(r"\.agpr_count", notes)[1:]:
        def value(key, kernel=kernel):
            return int(re.search(rf"\.{key}:\s+(\d+)", kernel).group(1))

        name = re.search(r"\.name:\s+(\w+)", kernel).group(1)
        kind = re.sub(r"capstan_(run|reduce)_(.*?)_(logical_\w+|bit_\w+|[a-z]+)$", r"\2", name)
        spills, registers = value("vgpr_spill_count"), value("vgpr_count")
        if spills > most_vector_spills.get(kind, 0):
            yield f"{name}: {spills} vector registers are spilled"
        if registers > most_vector_registers:
            yield f"{name}: {registers} vector registers, not {most_vector_registers} at most"
        if value("wavefront_size") != waves.get(architecture):
            yield f"{name}: waves of {value('wavefront_size')} threads, not {waves.get(architecture)}"


def broken_by_ptxas(usage):
    """By what ptxas -v has said."""
    found = re.findall(r"Compiling entry function '(\w+)' for '(sm_\d+)'.*?(\d+) bytes spill stores", usage, re.DOTALL)
    if not found:
        yield "ptxas has said nothing"
    for name, architecture, spilled in found:
        kind = re.sub(r"capstan_run_(\w+)_sum$", r"\1", name)
        most = most_spilled.get(architecture, {}).get(kind, most_spilled_otherwise)
        if int(spilled) > most:
            yield f"{name} for {architecture}: spills {spilled} bytes, not {most} at most"
