// SPDX-License-Identifier: Apache-2.0
#pragma once

/* The programs of this folder share this. They know nothing of Capstan: each writes what it got,
   and the test compares that with what the same program writes without the door. */

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int world_rank, world_size;

/* A digest of what a rank got. */
struct digest {
  uint64_t value;
};
static inline struct digest new_digest(void) {
  struct digest made = {1469598103934665603u};
  return made;
}
static inline void add_bytes(struct digest* to, const void* data, size_t length) {
  for (size_t i = 0; i < length; ++i)
    to->value = (to->value ^ ((const unsigned char*)data)[i]) * 1099511628211u;
}
static inline void add_number(struct digest* to, double number) {
  add_bytes(to, &number, sizeof number);
}

/* Rank 0 writes a line with the digests of all ranks, by messages alone. */
static inline void tell(const char* what, struct digest own) {
  if (world_rank != 0) {
    MPI_Send(&own.value, 8, MPI_BYTE, 0, 77, MPI_COMM_WORLD);
    return;
  }
  printf("%s %016llx", what, (unsigned long long)own.value);
  for (int peer = 1; peer < world_size; ++peer) {
    uint64_t other;
    MPI_Recv(&other, 8, MPI_BYTE, peer, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf(" %016llx", (unsigned long long)other);
  }
  printf("\n");
  fflush(stdout);
}

static inline void begin(int* count, char*** arguments) {
  MPI_Init(count, arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
}

/* A small number that differs between ranks and between neighbours. */
static inline int number_at(int rank, int index) {
  return (rank * 5 + index * 3 + index / 7) % 9 + 1;
}

/* The three forms of a collective. */
enum form { blocking, background, persistent, forms };
#if MPI_VERSION >= 4
#define LAST_FORM persistent
#else
#define LAST_FORM background
#endif
static const char* const form_names[] = {"", "I", "init "};

/* RUN(form, Allreduce, allreduce, (arguments)...) runs a call in one of them, a persistent one
   twice. */
#define RUN_BACKGROUND(call)                \
  do {                                      \
    MPI_Request request_;                   \
    call;                                   \
    MPI_Wait(&request_, MPI_STATUS_IGNORE); \
  } while (0)
#define RUN_PERSISTENT(call)                \
  do {                                      \
    MPI_Request request_;                   \
    call;                                   \
    MPI_Start(&request_);                   \
    MPI_Wait(&request_, MPI_STATUS_IGNORE); \
    MPI_Request_free(&request_);            \
  } while (0)
#if MPI_VERSION >= 4
#define RUN(form, Name, name, ...)                                                 \
  do {                                                                             \
    if ((form) == blocking) MPI_##Name(__VA_ARGS__);                               \
    if ((form) == background) RUN_BACKGROUND(MPI_I##name(__VA_ARGS__, &request_)); \
    if ((form) == persistent)                                                      \
      RUN_PERSISTENT(MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &request_));    \
  } while (0)
#else
#define RUN(form, Name, name, ...)                                                 \
  do {                                                                             \
    if ((form) == blocking) MPI_##Name(__VA_ARGS__);                               \
    if ((form) == background) RUN_BACKGROUND(MPI_I##name(__VA_ARGS__, &request_)); \
  } while (0)
#endif
