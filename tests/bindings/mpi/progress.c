// SPDX-License-Identifier: Apache-2.0

/* Programs that are right by MPI's rules and hang where one library waits and the other does not
   move on. Each way runs several times. */
#include "told.h"

enum { long_count = 4 << 20 }; /* 32 MiB: no MPI sends that before its receive */

static double *long_in, *long_out;

/* A long message is under way while its sender is in a collective already. */
static void send_under_way(void) {
  double one = world_rank, sum = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  if (world_rank == 0) MPI_Isend(long_in, long_count, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, &request);
  if (world_rank == 1)
    MPI_Recv(long_out, long_count, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* The same on a communicator that is used for the first time. */
static void send_under_way_to_a_new_one(void) {
  MPI_Comm made;
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  MPI_Request request = MPI_REQUEST_NULL;
  if (world_rank == 0) MPI_Isend(long_in, long_count, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, &request);
  if (world_rank == 1)
    MPI_Recv(long_out, long_count, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Barrier(made);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&made);
}

/* A collective in the background has to move on while its rank waits for a message. */
static void receive_beside(int count) {
  MPI_Request request;
  int token = 0;
  MPI_Iallreduce(long_in, long_out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
  if (world_rank == 0) {
    MPI_Recv(&token, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (world_rank == 1) MPI_Send(&token, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
  }
}
static void short_beside_receive(void) { receive_beside(1); }
static void long_beside_receive(void) { receive_beside(1 << 18); }

/* The first call of a communicator is one in the background: it must not wait for the others. */
static void first_call_in_the_background(void) {
  MPI_Comm made;
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  MPI_Request request;
  int value = world_rank, token = 0;
  if (world_rank == 1) MPI_Recv(&token, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Ibcast(&value, 1, MPI_INT, 0, made, &request);
  if (world_rank == 0) MPI_Send(&token, 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&made);
}

/* A rank tests instead of waiting, and asks for a message in between. */
static void test_and_probe(void) {
  MPI_Request request;
  int done = 0, found = 0, token = 0;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  if (world_rank == 0)
    while (!found) MPI_Iprobe(1, 4, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
  while (!done) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  if (world_rank == 0) MPI_Recv(&token, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static void probe_after_barrier(void) {
  if (world_rank == 1) {
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Send(&world_rank, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
  } else {
    test_and_probe();
  }
}

/* Long messages both ways beside a collective, all waited for at once. */
static void all_at_once(void) {
  MPI_Request requests[4];
  int count = 0;
  double sum = 0, one = 1;
  if (world_rank < 2) {
    const int peer = 1 - world_rank;
    MPI_Irecv(long_out, long_count, MPI_DOUBLE, peer, 5, MPI_COMM_WORLD, &requests[count++]);
    MPI_Isend(long_in, long_count, MPI_DOUBLE, peer, 5, MPI_COMM_WORLD, &requests[count++]);
  }
  MPI_Iallreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &requests[count++]);
  MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

/* Two communicators, whose calls ranks wait for in different orders. */
static void crossed_waits(void) {
  static MPI_Comm other = MPI_COMM_NULL;
  if (other == MPI_COMM_NULL) {
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Barrier(other);
  }
  MPI_Request first, second;
  int a = 1, b = 2, sum = 0, most = 0;
  MPI_Iallreduce(&a, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &first);
  MPI_Iallreduce(&b, &most, 1, MPI_INT, MPI_MAX, other, &second);
  MPI_Wait(world_rank % 2 ? &first : &second, MPI_STATUS_IGNORE);
  MPI_Wait(world_rank % 2 ? &second : &first, MPI_STATUS_IGNORE);
}

int main(int count, char** arguments) {
  begin(&count, &arguments);
  const int times = count > 1 ? atoi(arguments[1]) : 3;
  long_in = calloc(long_count, sizeof *long_in);
  long_out = calloc(long_count, sizeof *long_out);
  const struct {
    const char* name;
    void (*run)(void);
  } ways[] = {{"a send under way", send_under_way},
              {"a send under way, and a new communicator", send_under_way_to_a_new_one},
              {"a short collective beside a receive", short_beside_receive},
              {"a long collective beside a receive", long_beside_receive},
              {"the first call is in the background", first_call_in_the_background},
              {"tests and probes", probe_after_barrier},
              {"all at once", all_at_once},
              {"crossed waits", crossed_waits}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; ++i) {
    for (int time = 0; time < times; ++time) ways[i].run();
    tell(ways[i].name, new_digest());
  }
  MPI_Finalize();
  return 0;
}
