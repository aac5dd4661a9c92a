// SPDX-License-Identifier: Apache-2.0

// Cost of a collective of MPI without waiting for others, to be run with the door and without it:
//
//   mpirun -n 2 mpi_door_bench_openmpi
//   capstan mpi -- mpirun -n 2 mpi_door_bench_openmpi
//
// Passed on: an all-reduce on MPI_COMM_SELF, which stays MPI's: the difference is the door's.
// Served: broadcasts of 8 bytes from rank 0, which rank 1 receives later; `dispatch_bench` has the
// same through C++. Times are the least of many batches.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <limits>

namespace {

constexpr int batches = 2000, calls = 100;

/// Nanoseconds of one call.
template <class Call>
double least_of(const Call& call) {
  double least = std::numeric_limits<double>::infinity();
  for (int batch = 0; batch < batches; ++batch) {
    const double began = MPI_Wtime();
    for (int i = 0; i < calls; ++i) call();
    least = std::min(least, (MPI_Wtime() - began) / calls * 1e9);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  return least;
}

}  // namespace

int main(int count, char** arguments) {
  int rank = 0;
  double in = 1, out = 0;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const double passed_on =
      least_of([&] { MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF); });
  const double served = least_of([&] { MPI_Bcast(&in, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD); });
  if (rank == 0)
    std::printf("all-reduce on MPI_COMM_SELF %.1f ns\nbroadcast %.1f ns\n", passed_on, served);
  MPI_Finalize();
}
