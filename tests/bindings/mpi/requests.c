// SPDX-License-Identifier: Apache-2.0

/* Requests of collectives beside those of messages, in every function that takes them. */
#include "told.h"

enum { many = 6 };

/* Two collectives, two messages, a null request and one more collective. */
static int start_all(MPI_Request requests[many], int in[many], int out[many]) {
  const int next = (world_rank + 1) % world_size;
  const int previous = (world_rank + world_size - 1) % world_size;
  for (int i = 0; i < many; ++i) in[i] = number_at(world_rank, i), out[i] = -1;
  MPI_Iallreduce(&in[0], &out[0], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(&out[1], 1, MPI_INT, previous, 9, MPI_COMM_WORLD, &requests[1]);
  MPI_Ibcast(&in[2], 1, MPI_INT, 1 % world_size, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(&in[3], 1, MPI_INT, next, 9, MPI_COMM_WORLD, &requests[3]);
  requests[4] = MPI_REQUEST_NULL;
  MPI_Iscan(&in[5], &out[5], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[5]);
  return many;
}

static void look(const char* what, MPI_Request requests[many], int in[many], int out[many],
                 int extra) {
  struct digest digest = new_digest();
  for (int i = 0; i < many; ++i) {
    add_number(&digest, in[i]);
    add_number(&digest, out[i]);
    add_number(&digest, requests[i] == MPI_REQUEST_NULL);
  }
  add_number(&digest, extra);
  tell(what, digest);
}

static void arrays(void) {
  MPI_Request requests[many];
  MPI_Status statuses[many];
  int in[many], out[many], extra = 0;
  start_all(requests, in, out);
  MPI_Waitall(many, requests, statuses);
  look("Waitall", requests, in, out, statuses[1].MPI_SOURCE * 100 + statuses[1].MPI_TAG);

  start_all(requests, in, out);
  for (;;) {
    int index, flag = 1;
    if (extra % 2)
      MPI_Testany(many, requests, &index, &flag, MPI_STATUS_IGNORE);
    else
      MPI_Waitany(many, requests, &index, MPI_STATUS_IGNORE);
    if (flag && index == MPI_UNDEFINED) break;
    extra += flag;
  }
  look("Waitany and Testany", requests, in, out, extra);

  start_all(requests, in, out);
  int indices[many], ended = 0, all = 0;
  while (ended != MPI_UNDEFINED) {
    all += ended;
    if (all % 2)
      MPI_Testsome(many, requests, &ended, indices, statuses);
    else
      MPI_Waitsome(many, requests, &ended, indices, MPI_STATUSES_IGNORE);
  }
  look("Waitsome and Testsome", requests, in, out, all);

  start_all(requests, in, out);
  for (int done = 0; !done;) MPI_Testall(many, requests, &done, MPI_STATUSES_IGNORE);
  look("Testall", requests, in, out, 0);

  start_all(requests, in, out);
  for (int done = 0; !done;) MPI_Request_get_status(requests[5], &done, MPI_STATUS_IGNORE);
  for (int i = many - 1; i >= 0; --i) MPI_Wait(&requests[i], &statuses[i]);
  look("Request_get_status and Wait", requests, in, out, 0);
}

#if MPI_VERSION >= 4
static void persistent_ones(void) {
  MPI_Request requests[3];
  int in = 0, out = 0, token = -1, sum = 0;
  const int next = (world_rank + 1) % world_size;
  const int previous = (world_rank + world_size - 1) % world_size;
  MPI_Allreduce_init(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
  MPI_Recv_init(&token, 1, MPI_INT, previous, 3, MPI_COMM_WORLD, &requests[1]);
  MPI_Bcast_init(&sum, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[2]);
  struct digest digest = new_digest();
  for (int time = 0; time < 5; ++time) {
    in = number_at(world_rank, time), sum = world_rank == 0 ? time : -1;
    MPI_Startall(3, requests);
    MPI_Send(&in, 1, MPI_INT, next, 3, MPI_COMM_WORLD);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    add_number(&digest, out + 100 * token + 10000 * sum);
    add_number(&digest, requests[0] != MPI_REQUEST_NULL);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  MPI_Request_free(&requests[2]);
  MPI_Barrier(MPI_COMM_WORLD);
  tell("persistent", digest);
}
#endif

#ifndef OPEN_MPI /* 4.1.4 ends with a segmentation fault there */
/* A communicator that is freed while a call on it goes on. */
static void freed_communicator(void) {
  MPI_Comm made;
  MPI_Request request;
  int sum = 0;
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  MPI_Barrier(made);
  MPI_Iallreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, made, &request);
  MPI_Comm_free(&made);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  struct digest digest = new_digest();
  add_number(&digest, sum);
  tell("a communicator freed in use", digest);
}
#endif

int main(int count, char** arguments) {
  int value = 0;
  MPI_Initialized(&value);
  begin(&count, &arguments);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int time = 0; time < 20; ++time) arrays();
#if MPI_VERSION >= 4
  persistent_ones();
#endif
#ifndef OPEN_MPI
  freed_communicator();
#endif
  MPI_Finalize();
  MPI_Finalized(&value);
  return value ? 0 : 1;
}
