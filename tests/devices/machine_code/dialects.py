# SPDX-License-Identifier: Apache-2.0

"""The instructions of AMD's and NVIDIA's machines, as their disassemblers write them."""

import re

from listing import Instruction, parsed


def match(pattern, line):
    found = re.match(pattern, line)
    return found.group(1) if found else None


# AMD: llvm-objdump --symbolize-operands.

_gcn_bytes = {"ubyte": 1, "sbyte": 1, "u8": 1, "i8": 1, "byte": 1, "b8": 1, "ushort": 2, "sshort": 2, "u16": 2,
              "i16": 2, "short": 2, "b16": 2, "dword": 4, "b32": 4, "dwordx2": 8, "b64": 8, "dwordx3": 12, "b96": 12,
              "dwordx4": 16, "b128": 16}


def _gcn_memory(name, text, architecture):
    found = re.match(r"(flat|global)_(load|store)_(?:d16_hi_|d16_)?(\w+)$", name)
    if not found:
        return None
    kind, size = found.group(2), _gcn_bytes.get(found.group(3), 0)
    # Before gfx940 stores always leave the first caches, and gfx11's loads do so by glc alone.
    bits = ["sc0", "sc1"] if architecture == "gfx942" else ["glc"] if kind == "load" else []
    return Instruction(kind, bytes=size, strong=all(re.search(rf"\b{bit}\b", text) for bit in bits))


def _gcn_fence(name, text, architecture):
    system = architecture != "gfx942" or ("sc0" in text and "sc1" in text)
    if name == "buffer_wbl2":
        return Instruction("fence", releases=system)
    if name == "s_waitcnt_vscnt":
        return Instruction("fence", releases=True)
    if name in ("buffer_inv", "buffer_invl2", "buffer_gl1_inv"):
        return Instruction("fence", acquires=system)
    return None


def gcn_function(line):
    name = match(r"<(.+)>:$", line)
    return None if name is None or re.fullmatch(r"L\d+", name) else name


def gcn(lines, architecture):
    def instruction(line):
        line = line.split("//")[0].strip()
        name = line.split(" ")[0]
        if not re.match(r"[a-z]+_\w+$", name):
            return None
        name = re.sub(r"_e(32|64)$", "", name)
        if name == "s_branch" or name.startswith("s_cbranch"):
            return Instruction("branch", targets=(line.split(" ")[-1],), falls_through=name != "s_branch")
        if name in ("s_endpgm", "s_setpc_b64"):
            return Instruction("other", falls_through=False)
        kind = {"s_sleep": "pause", "s_barrier": "barrier"}.get(name)
        if kind:
            return Instruction(kind)
        return _gcn_memory(name, line, architecture) or _gcn_fence(name, line, architecture) or Instruction("other")

    return parsed(lines, gcn_function, lambda line: match(r"<(L\d+)>:$", line), instruction)


# NVIDIA's virtual machine.

_ptx_bytes = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}


def _ptx_memory(name):
    found = re.match(r"(ld|st)((?:\.\w+)*?)(?:\.v(\d))?\.[a-z]+(\d+)$", name)
    if not found:
        return None
    parts = found.group(2).split(".")
    return Instruction("load" if found.group(1) == "ld" else "store",
                       bytes=_ptx_bytes[found.group(4)] * int(found.group(3) or 1),
                       strong="volatile" in parts or ("relaxed" in parts and "sys" in parts),
                       data=not {"param", "local", "shared", "const"} & set(parts))


def ptx_function(line):
    return match(r"(?:\.visible |\.weak )?\.(?:entry|func)\s+(?:\(.*?\)\s*)?(\w+)", line)


def ptx(lines):
    def instruction(line):
        line, predicates = re.subn(r"^@!?%p\d+\s+", "", line.strip())
        name = re.split(r"[\s;]", line)[0]
        if not re.match(r"[a-z]+[\w.]*$", name) or not line.endswith(";"):
            return None
        if name.split(".")[0] == "bra":
            return Instruction("branch", targets=(line.rstrip(";").split()[-1],), falls_through=predicates > 0)
        if name in ("ret", "exit", "trap"):
            return Instruction("other", falls_through=predicates > 0)
        if name.startswith("nanosleep"):
            return Instruction("pause")
        if name.startswith(("bar.sync", "barrier")):
            return Instruction("barrier")
        if name.startswith(("fence", "membar")):
            system = ".sys" in name
            return Instruction("fence", releases=system, acquires=system)
        return _ptx_memory(name) or Instruction("other")

    return parsed(lines, ptx_function, lambda line: match(r"(\$L\w+):", line), instruction)


# NVIDIA's machines: nvdisasm.


def _sass_memory(name):
    found = re.match(r"(LDG?|STG?|LDL|STL)(\..*)?$", name)
    if not found:
        return None
    parts = (found.group(2) or "").split(".")
    size = next((n for word, n in (("128", 16), ("64", 8), ("U16", 2), ("S16", 2), ("U8", 1), ("S8", 1)) if word in parts), 4)
    return Instruction("load" if name.startswith("LD") else "store", bytes=size,
                       strong="STRONG" in parts and "SYS" in parts, data=found.group(1)[2:] != "L")


def sass_function(line):
    return match(r"([\w$]+):$", line)


def sass(lines):
    def instruction(line):
        found = re.match(r"\s*/\*[0-9a-f]+\*/\s+(@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)(.*);", line)
        if not found:
            return None
        predicate, name, rest = found.groups()
        if name.split(".")[0] == "BRA":
            always = not predicate and re.fullmatch(r"\s*`\(\S+\)\s*", rest)
            return Instruction("branch", targets=tuple(re.findall(r"`\((\S+)\)", rest)), falls_through=not always)
        if name.split(".")[0] == "BRX":
            names = match(r'.*BRANCH_TARGETS ([^"]*)"', line) or ""
            return Instruction("branch", targets=tuple(names.split(",")), falls_through=False)
        if name.split(".")[0] in ("EXIT", "RET"):
            return Instruction("other", falls_through=predicate is not None)
        kind = {"NANOSLEEP": "pause", "BAR": "barrier"}.get(name.split(".")[0])
        if kind:
            return Instruction(kind)
        if name.startswith("MEMBAR"):
            system = name.endswith("SYS")
            return Instruction("fence", releases=system, acquires=system)
        return _sass_memory(name) or Instruction("other")

    return parsed(lines, sass_function, lambda line: match(r"(\.L_\S+):$", line), instruction)
