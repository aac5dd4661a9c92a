// SPDX-License-Identifier: Apache-2.0

// Calls that have been made before look no symbol up, with the door as without it: a lookup takes
// longer than a short collective. dlsym() is the program's own here, and counts.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

enum { calls = 20, most = 16 };

__attribute__((used)) static long lookups;
__attribute__((used)) static void* (*counted)(void*, const char*);

// A jump keeps the caller, by which RTLD_NEXT finds its place.
__asm__(
    ".globl dlsym\n"
    ".type dlsym, @function\n"
    "dlsym:\n"
    "lock incq lookups(%rip)\n"
    "jmp *counted(%rip)\n");

static void find_dlsym(void) {
  *(void**)&counted = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  if (!counted) *(void**)&counted = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
}

// Before libraries are initialised, which may look symbols up.
__attribute__((section(".preinit_array"), used)) static void (*const early)(void) = &find_dlsym;

static int ranks, counts[most], offsets[most];
static MPI_Datatype types[most];
static double in[most], out[most];

#define BLOCKING(X)                                                                       \
  X(Barrier, (MPI_COMM_WORLD))                                                            \
  X(Bcast, (in, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD))                                        \
  X(Reduce, (in, out, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD))                         \
  X(Allreduce, (in, out, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD))                         \
  X(Gather, (in, 1, MPI_DOUBLE, out, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD))                   \
  X(Gatherv, (in, 1, MPI_DOUBLE, out, counts, offsets, MPI_DOUBLE, 0, MPI_COMM_WORLD))    \
  X(Scatter, (in, 1, MPI_DOUBLE, out, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD))                  \
  X(Scatterv, (in, counts, offsets, MPI_DOUBLE, out, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD))   \
  X(Allgather, (in, 1, MPI_DOUBLE, out, 1, MPI_DOUBLE, MPI_COMM_WORLD))                   \
  X(Allgatherv, (in, 1, MPI_DOUBLE, out, counts, offsets, MPI_DOUBLE, MPI_COMM_WORLD))    \
  X(Alltoall, (in, 1, MPI_DOUBLE, out, 1, MPI_DOUBLE, MPI_COMM_WORLD))                    \
  X(Alltoallv,                                                                            \
    (in, counts, offsets, MPI_DOUBLE, out, counts, offsets, MPI_DOUBLE, MPI_COMM_WORLD))  \
  X(Alltoallw, (in, counts, offsets, types, out, counts, offsets, types, MPI_COMM_WORLD)) \
  X(Reduce_scatter, (in, out, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD))               \
  X(Reduce_scatter_block, (in, out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD))              \
  X(Scan, (in, out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD))                              \
  X(Exscan, (in, out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD))

int main(int argc, char** argv) {
  int rank = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int peer = 0; peer < ranks; ++peer) {
    counts[peer] = 1;
    offsets[peer] = peer;
    types[peer] = MPI_DOUBLE;
  }
#define REPEATED(Name, arguments)                                            \
  {                                                                          \
    for (int i = 0; i < calls; ++i) MPI_##Name arguments;                    \
    const long before = lookups;                                             \
    for (int i = 0; i < calls; ++i) MPI_##Name arguments;                    \
    if (rank == 0) printf("MPI_" #Name ": %ld lookups\n", lookups - before); \
  }
  BLOCKING(REPEATED)
  dlsym(RTLD_DEFAULT, "MPI_Init");
  if (rank == 0) printf("lookups are counted: %s\n", lookups > 0 ? "yes" : "no");
  MPI_Finalize();
}
