// SPDX-License-Identifier: Apache-2.0

// Every rank contributes a vector of its own; every rank gets their sum. Start it with
//   capstan run -n 4 -- ./all_reduce
// or with mpirun, srun or torchrun; on its own it is a world of one rank.
#include <capstan/communicator.hpp>
#include <cstdio>
#include <vector>

int main() try {
  auto world = capstan::Communicator::from_environment();
  const std::vector<float> mine(1000, static_cast<float>(world.rank() + 1));
  std::vector<float> sums(mine.size());

  world.all_reduce(mine, sums);

  std::printf("rank %d of %d: the sum is %g\n", world.rank(), world.size(), sums.front());
} catch (const capstan::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
