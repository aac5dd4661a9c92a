// SPDX-License-Identifier: Apache-2.0

/* Every collective, blocking and in the background, with results checked. */
#include <string.h>

#include "ranks.h"

static int background; /* whether BOTH starts operations and waits for them */

/* Distinct for each rank and index. */
static int32_t value(int r, size_t i) {
  return r * 1000003 + (int32_t)i + 1;
}

static int32_t sum_until(int ranks, size_t i) {
  int32_t sum = 0;
  for (int r = 0; r < ranks; ++r) sum += value(r, i);
  return sum;
}

void fill(size_t count) {
  for (size_t i = 0; i < count; ++i) in[i] = value(rank, i);
  for (size_t i = 0; i < MOST_RANKS * MOST; ++i) out[i] = -1;
}

#define BOTH(name, ...)                                       \
  do {                                                        \
    if (background) {                                         \
      capstan_work* started = NULL;                           \
      OK(capstan_start_##name(world, __VA_ARGS__, &started)); \
      OK(capstan_wait(started));                              \
      OK(capstan_release(started));                           \
    } else {                                                  \
      OK(capstan_##name(world, __VA_ARGS__));                 \
    }                                                         \
  } while (0)

static void whole_buffers(capstan_communicator* world, size_t n, int32_t root) {
  fill(n);
  BOTH(broadcast, rank == root ? in : NULL, out, n, CAPSTAN_I32, root);
  for (size_t i = 0; i < n; ++i) CHECK(out[i] == value(root, i));

  fill(n);
  BOTH(reduce, in, rank == root ? out : NULL, n, CAPSTAN_I32, CAPSTAN_SUM, root);
  for (size_t i = 0; i < n; ++i) CHECK(out[i] == (rank == root ? sum_until(size, i) : -1));

  fill(n);
  BOTH(all_reduce, in, out, n, CAPSTAN_I32, CAPSTAN_SUM);
  for (size_t i = 0; i < n; ++i) CHECK(out[i] == sum_until(size, i));
  BOTH(all_reduce, in, in, n, CAPSTAN_I32, CAPSTAN_MAX);
  for (size_t i = 0; i < n; ++i) CHECK(in[i] == value(size - 1, i));

  fill(n);
  BOTH(scan, in, out, n, CAPSTAN_I32, CAPSTAN_SUM);
  for (size_t i = 0; i < n; ++i) CHECK(out[i] == sum_until(rank + 1, i));

  fill(n);
  BOTH(exscan, in, out, n, CAPSTAN_I32, CAPSTAN_SUM);
  for (size_t i = 0; i < n; ++i) CHECK(out[i] == (rank == 0 ? -1 : sum_until(rank, i)));
}

static void equal_blocks(capstan_communicator* world, size_t n, int32_t root) {
  const size_t all = n * (size_t)size;
  fill(n);
  BOTH(all_gather, in, out, n, CAPSTAN_I32);
  for (size_t i = 0; i < all; ++i) CHECK(out[i] == value((int)(i / n), i % n));
  fill(n);
  memcpy(out + (size_t)rank * n, in, n * sizeof *in); /* in place, by the rank's own block */
  BOTH(all_gather, out + (size_t)rank * n, out, n, CAPSTAN_I32);
  for (size_t i = 0; i < all; ++i) CHECK(out[i] == value((int)(i / n), i % n));

  fill(all);
  BOTH(reduce_scatter, in, out, n, CAPSTAN_I32, CAPSTAN_SUM);
  for (size_t i = 0; i < n; ++i) CHECK(out[i] == sum_until(size, (size_t)rank * n + i));

  fill(n);
  BOTH(gather, in, rank == root ? out : NULL, n, CAPSTAN_I32, root);
  for (size_t i = 0; i < all; ++i)
    CHECK(out[i] == (rank == root ? value((int)(i / n), i % n) : -1));

  fill(all);
  BOTH(scatter, rank == root ? in : NULL, out, n, CAPSTAN_I32, root);
  for (size_t i = 0; i < n; ++i) CHECK(out[i] == value(root, (size_t)rank * n + i));

  fill(all);
  BOTH(all_to_all, in, out, n, CAPSTAN_I32);
  for (size_t i = 0; i < all; ++i) CHECK(out[i] == value((int)(i / n), (size_t)rank * n + i % n));
}

/* Rank r's block has n + r elements. */
static void unequal_blocks(capstan_communicator* world, size_t n, int32_t root) {
  size_t counts[MOST_RANKS], starts[MOST_RANKS + 1] = {0}, to[MOST_RANKS], from[MOST_RANKS];
  for (int r = 0; r < size; ++r) {
    counts[r] = n + (size_t)r;
    starts[r + 1] = starts[r] + counts[r];
    to[r] = counts[r]; /* what rank r gets of each rank */
    from[r] = n + (size_t)rank;
  }
  const size_t own = counts[rank], all = starts[size];
  fill(own);
  BOTH(all_gather_v, in, out, counts, CAPSTAN_I32);
  for (int r = 0; r < size; ++r)
    for (size_t i = 0; i < counts[r]; ++i) CHECK(out[starts[r] + i] == value(r, i));

  fill(all);
  BOTH(reduce_scatter_v, in, out, counts, CAPSTAN_I32, CAPSTAN_SUM);
  for (size_t i = 0; i < own; ++i) CHECK(out[i] == sum_until(size, starts[rank] + i));

  fill(own);
  BOTH(gather_v, in, rank == root ? out : NULL, counts, CAPSTAN_I32, root);
  for (int r = 0; r < size; ++r)
    for (size_t i = 0; i < counts[r]; ++i)
      CHECK(out[starts[r] + i] == (rank == root ? value(r, i) : -1));

  fill(all);
  BOTH(scatter_v, rank == root ? in : NULL, out, counts, CAPSTAN_I32, root);
  for (size_t i = 0; i < own; ++i) CHECK(out[i] == value(root, starts[rank] + i));

  fill(all);
  BOTH(all_to_all_v, in, to, out, from, CAPSTAN_I32);
  for (int r = 0; r < size; ++r)
    for (size_t i = 0; i < own; ++i) CHECK(out[(size_t)r * own + i] == value(r, starts[rank] + i));
}

static void barriers(capstan_communicator* world) {
  capstan_work* work = NULL;
  OK(capstan_barrier(world));
  OK(capstan_start_barrier(world, &work));
  OK(capstan_wait(work));
  OK(capstan_release(work));
}

void collectives(capstan_communicator* world) {
  static const size_t counts[] = {0, 1, 2, 3, 100, 999, MOST - MOST_RANKS};
  barriers(world);
  for (background = 0; background < 2; ++background)
    for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
      const int32_t root = (int32_t)i % size;
      whole_buffers(world, counts[i], root);
      if (counts[i] > 0) equal_blocks(world, counts[i], root);
      unequal_blocks(world, counts[i], root);
    }
}
