// SPDX-License-Identifier: Apache-2.0

// MPI_X and PMPI_X for each function of names.hpp: a jump through a slot. A slot leads at first to
// code that has all slots filled (bind.cpp) and then jumps again; registers keep the arguments.
asm(R"(
        .macro SLOT symbol
        .pushsection .data.slots, "aw"
        .balign 8
slot_\symbol:
        .quad   first_\symbol
        .popsection
        .globl  \symbol
        .type   \symbol, @function
        .balign 16
\symbol:
        endbr64
        jmp     *slot_\symbol(%rip)
        .size   \symbol, . - \symbol
first_\symbol:
        leaq    slot_\symbol(%rip), %r11
        jmp     first_call
        .endm

        .macro ENTRY name
        SLOT    MPI_\name
        SLOT    PMPI_\name
        .pushsection .rodata.names, "a"
name_\name:
        .asciz  "PMPI_\name"
        .popsection
        .pushsection .data.rel.ro.table, "aw"
        .balign 8
        .quad   name_\name, slot_MPI_\name, slot_PMPI_\name
        .popsection
        .endm

        .section .data.rel.ro.table, "aw"
        .balign 8
        .globl  capstan_mpi_names
        .hidden capstan_mpi_names
capstan_mpi_names:

        .text
first_call:
        pushq   %rdi
        pushq   %rsi
        pushq   %rdx
        pushq   %rcx
        pushq   %r8
        pushq   %r9
        pushq   %r11
        call    capstan_mpi_bind
        popq    %r11
        popq    %r9
        popq    %r8
        popq    %rcx
        popq    %rdx
        popq    %rsi
        popq    %rdi
        jmp     *(%r11)
)"
#define NAME(name) "        ENTRY " #name "\n"
#include "bindings/mpi/each_name.hpp"
    R"(
        .section .data.rel.ro.table, "aw"
        .globl  capstan_mpi_names_end
        .hidden capstan_mpi_names_end
capstan_mpi_names_end:
        .text
)");
