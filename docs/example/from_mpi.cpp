// SPDX-License-Identifier: Apache-2.0

// A first program for MPI, moved over. Start it with
//   capstan run -n 4 -- ./from_mpi
#include <capstan/communicator.hpp>
#include <cstdio>
#include <numeric>
#include <vector>

int main() {
  auto world = capstan::Communicator::from_environment();  // MPI_Init, MPI_COMM_WORLD
  std::vector<double> mine(100), all(100 * static_cast<std::size_t>(world.size()));
  std::iota(mine.begin(), mine.end(), 100.0 * world.rank());

  world.all_gather(mine, all);  // MPI_Allgather(mine.data(), 100, MPI_DOUBLE, all.data(), ...)
  double largest = all.back();
  world.all_reduce(std::span{&largest, 1}, capstan::ReduceOp::max);  // MPI_Allreduce, in place
  if (world.rank() == 0) std::printf("%d ranks, up to %g\n", world.size(), largest);
}  // MPI_Finalize
