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

/* Arrays of a call that the program uses for other things once the request has been made. */
static void arrays_of_the_program(void) {
  int in[64], out[64 * 3], counts[64], offsets[64], sent[64], from[64];
  MPI_Datatype types[64];
  MPI_Aint extent = (MPI_Aint)sizeof(int);
  MPI_Request requests[4];
  struct digest digest = new_digest();
  for (int i = 0; i < 64 * 3; ++i) out[i] = -1;
  for (int i = 0; i < 64; ++i) in[i] = number_at(world_rank, i);
  for (int peer = 0; peer < world_size; ++peer) {
    counts[peer] = peer % 3, offsets[peer] = 3 * peer;
    sent[peer] = world_rank % 3, from[peer] = 3 * world_rank;
    types[peer] = MPI_INT;
  }
  MPI_Allgatherv_init(in, world_rank % 3, MPI_INT, out, counts, offsets, MPI_INT, MPI_COMM_WORLD,
                      MPI_INFO_NULL, &requests[0]);
  MPI_Reduce_scatter_init(in, in + 60, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                          &requests[1]);
  MPI_Alltoallv_init(in, sent, from, MPI_INT, out + 64, counts, offsets, MPI_INT, MPI_COMM_WORLD,
                     MPI_INFO_NULL, &requests[2]);
  for (int peer = 0; peer < world_size; ++peer) from[peer] *= (int)extent, offsets[peer] *= (int)extent;
  MPI_Alltoallw_init(in, sent, from, types, out + 128, counts, offsets, types, MPI_COMM_WORLD,
                     MPI_INFO_NULL, &requests[3]);
  memset(counts, 0x55, sizeof counts), memset(offsets, 0x55, sizeof offsets);
  memset(sent, 0x55, sizeof sent), memset(from, 0x55, sizeof from);
  for (int peer = 0; peer < world_size; ++peer) types[peer] = MPI_CHAR;
  for (int i = 0; i < 4; ++i) {
    MPI_Start(&requests[i]);
    MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    MPI_Request_free(&requests[i]);
  }
  add_bytes(&digest, in, sizeof in);
  add_bytes(&digest, out, sizeof out);
  tell("arrays of the program", digest);
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
  if (count < 2) arrays_of_the_program();
  if (count < 2) freed_communicator(); /* the test that counts groups passes an argument */
#endif
  MPI_Finalize();
  return 0;
}
