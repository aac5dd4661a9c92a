// SPDX-License-Identifier: Apache-2.0

/* Arguments that MPI refuses: each call ends with the same class of error as without the door, on
   every rank, and the communicator serves further calls. */
#include "told.h"

enum { many = 8 };

static void note(struct digest* to, int code) {
  int error_class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &error_class);
  add_number(to, error_class);
}

/* The communicator can still be used. */
static void tell_and_sum(const char* what, struct digest digest) {
  int sum = 0;
  MPI_Allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  add_number(&digest, sum);
  tell(what, digest);
}

static void aliases(void) {
  int data[64 * many] = {0}, counts[64], offsets[64];
  const MPI_Comm world = MPI_COMM_WORLD;
  struct digest digest = new_digest();
  for (int peer = 0; peer < world_size; ++peer) counts[peer] = 2, offsets[peer] = 2 * peer;
  note(&digest, MPI_Allreduce(data, data, many, MPI_INT, MPI_SUM, world));
  note(&digest, MPI_Scan(data, data, many, MPI_INT, MPI_SUM, world));
  note(&digest, MPI_Exscan(data, data, many, MPI_INT, MPI_SUM, world));
  note(&digest, MPI_Reduce_scatter(data, data, counts, MPI_INT, MPI_SUM, world));
  note(&digest, MPI_Reduce_scatter_block(data, data, 2, MPI_INT, MPI_SUM, world));
  note(&digest, MPI_Allgather(data + 2 * world_rank, 2, MPI_INT, data, 2, MPI_INT, world));
  note(&digest, MPI_Allgatherv(data + 2 * world_rank, 2, MPI_INT, data, counts, offsets, MPI_INT,
                               world));
  note(&digest, MPI_Alltoall(data, 2, MPI_INT, data, 2, MPI_INT, world));
  note(&digest,
       MPI_Alltoallv(data, counts, offsets, MPI_INT, data, counts, offsets, MPI_INT, world));
  tell_and_sum("aliases", digest);
}

static void other_arguments(void) {
  int in[many] = {0}, out[many] = {0};
  const MPI_Comm world = MPI_COMM_WORLD;
  struct digest digest = new_digest();
  note(&digest, MPI_Allreduce(in, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, world));
  note(&digest, MPI_Allreduce(in, out, 1, MPI_DATATYPE_NULL, MPI_SUM, world));
  note(&digest, MPI_Allreduce(in, out, 1, MPI_INT, MPI_OP_NULL, world));
  note(&digest, MPI_Bcast(in, 1, MPI_INT, world_size, world));
  note(&digest, MPI_Bcast(in, -1, MPI_INT, 0, world));
  note(&digest, MPI_Allgather(in, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, world));
  tell_and_sum("other arguments", digest);
}

/* The root sends itself more than it has room for; the others send as much. */
static void too_long(void) {
  int in[many], out[64 * many];
  struct digest digest = new_digest();
  for (int i = 0; i < many; ++i) in[i] = number_at(world_rank, i);
  for (int i = 0; i < 64 * many; ++i) out[i] = -1;
  note(&digest, MPI_Gather(in, many, MPI_INT, out, world_rank == 0 ? 1 : many, MPI_INT, 0,
                           MPI_COMM_WORLD));
  for (int i = 64; i < 64 * many; ++i) add_number(&digest, out[i]);
  tell_and_sum("a gather that is too long", digest);
}

int main(int count, char** arguments) {
  begin(&count, &arguments);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  aliases();
  other_arguments();
  too_long();
  MPI_Finalize();
  return 0;
}
