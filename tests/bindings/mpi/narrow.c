// SPDX-License-Identifier: Apache-2.0

/* The forms with wide counts of an MPI that has none, which the door alone offers: their arrays are
   MPI's while a call goes on, and not for ever. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>

#include "told.h"

typedef int Wide(const void*, MPI_Count, MPI_Datatype, void*, const MPI_Count[], const MPI_Aint[],
                 MPI_Datatype, MPI_Comm, MPI_Request*);

int main(int count, char** arguments) {
  begin(&count, &arguments);
  Wide* const gather = (Wide*)dlsym(RTLD_DEFAULT, "MPI_Iallgatherv_c");
  MPI_Count counts[64] = {0};
  MPI_Aint offsets[64];
  int all[64], wrong = !gather;
  size_t used = 0;
  for (int peer = 0; peer < world_size; ++peer)
    counts[peer] = 1, offsets[peer] = world_size - 1 - peer;
  for (int round = 0; gather && round < 4000; ++round) {
    MPI_Request requests[2];
    const int own = world_rank + round;
    gather(&own, 1, MPI_INT, all, counts, offsets, MPI_INT, MPI_COMM_WORLD, &requests[0]);
    gather(&own, 1, MPI_INT, &all[32], counts, offsets, MPI_INT, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int peer = 0; peer < world_size; ++peer)
      wrong += all[offsets[peer]] != peer + round || all[32 + offsets[peer]] != peer + round;
    if (round == 1000) used = mallinfo2().uordblks;
  }
  const size_t more = mallinfo2().uordblks - used;
  printf("rank %d: %s\n", world_rank,
         wrong ? "wrong" : (ptrdiff_t)more > 200000 ? "more and more memory" : "right");
  fflush(stdout);
  MPI_Finalize();
  return 0;
}
