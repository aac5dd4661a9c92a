// SPDX-License-Identifier: Apache-2.0

/* Persistent collectives that ranks start and free in orders of their own. */
#include "told.h"

#if MPI_VERSION >= 4
enum { many = 4 };

static void make_all(MPI_Request requests[many], int in[many], int out[many], int all[64]) {
  MPI_Allreduce_init(&in[0], &out[0], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                     &requests[0]);
  MPI_Bcast_init(&out[1], 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
  MPI_Allgather_init(&in[2], 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL,
                     &requests[2]);
  MPI_Scan_init(&in[3], &out[3], 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[3]);
}

/* Each rank begins with another one of the calls, and all are under way at the same time. */
static void start_in_own_order(MPI_Request requests[many]) {
  for (int i = 0; i < many; ++i) MPI_Start(&requests[(i + world_rank) % many]);
  MPI_Waitall(many, requests, MPI_STATUSES_IGNORE);
}

/* Frees all but one, which differs between ranks: the next calls are made while it is there. */
static void rounds(void) {
  MPI_Request requests[many], kept = MPI_REQUEST_NULL;
  struct digest digest = new_digest();
  for (int round = 0; round < 40; ++round) {
    int in[many], out[many] = {0}, all[64] = {0};
    for (int i = 0; i < many; ++i) in[i] = number_at(world_rank, i + round);
    make_all(requests, in, out, all);
    if (kept != MPI_REQUEST_NULL) MPI_Request_free(&kept);
    for (int time = 0; time < 3; ++time) {
      if (world_rank == 0) out[1] = round * 100 + time;
      ++in[0];
      start_in_own_order(requests);
      for (int i = 0; i < many; ++i) add_number(&digest, out[i]);
      add_bytes(&digest, all, sizeof all);
    }
    const int keeps = (round + world_rank) % many;
    for (int i = 0; i < many; ++i)
      if (i != keeps) MPI_Request_free(&requests[i]);
    kept = requests[keeps];
  }
  MPI_Request_free(&kept);
  tell("rounds", digest);
}

/* A communicator that is freed before its persistent call is. */
static void freed_communicator(void) {
  struct digest digest = new_digest();
  for (int round = 0; round < 5; ++round) {
    MPI_Comm made;
    MPI_Request request;
    int sum = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
    MPI_Allreduce_init(&world_rank, &sum, 1, MPI_INT, MPI_SUM, made, MPI_INFO_NULL, &request);
    MPI_Comm_free(&made);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    add_number(&digest, sum);
  }
  tell("a communicator freed before", digest);
}
#endif

int main(int count, char** arguments) {
  begin(&count, &arguments);
  int in = world_rank, out = 0;
  MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
#if MPI_VERSION >= 4
  rounds();
  if (count < 2) freed_communicator(); /* the test that counts groups passes an argument */
#endif
  MPI_Finalize();
  return 0;
}
