// SPDX-License-Identifier: Apache-2.0

/* A program that loads its MPI and looks functions up in the library alone, as Julia does. The
   argument is the library. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

typedef int Allreduce(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm);

int main(int count, char** arguments) {
  void* const library = dlopen(count > 1 ? arguments[1] : "", RTLD_LAZY | RTLD_GLOBAL);
  int (*const init)(int*, char***) = (int (*)(int*, char***))dlsym(library, "MPI_Init");
  Allreduce* const all_reduce = (Allreduce*)dlsym(library, "MPI_Allreduce");
  int (*const finalize)(void) = (int (*)(void))dlsym(library, "MPI_Finalize");
  if (!init || !all_reduce || !finalize) return 1;
  int one = 1, sum = 0;
  init(&count, &arguments);
#ifdef OPEN_MPI
  MPI_Comm world = (MPI_Comm)dlsym(library, "ompi_mpi_comm_world");
  MPI_Datatype type = (MPI_Datatype)dlsym(library, "ompi_mpi_int");
  MPI_Op op = (MPI_Op)dlsym(library, "ompi_mpi_op_sum");
#else
  MPI_Comm world = MPI_COMM_WORLD;
  MPI_Datatype type = MPI_INT;
  MPI_Op op = MPI_SUM;
#endif
  for (int time = 0; time < 5; ++time) all_reduce(&one, &sum, 1, type, op, world);
  printf("sum %d\n", sum);
  fflush(stdout);
  return finalize();
}
