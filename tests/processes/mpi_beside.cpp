// SPDX-License-Identifier: Apache-2.0

// A rank that uses both MPI and Capstan, whose world starts before MPI, after it, after its end, or
// by a unique id that MPI passes round. Both must add up alike; an error is printed.
//
//   mpirun -n 4 processes_mpi_beside first|second|late|id

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "capstan/communicator.hpp"

namespace capstan {
namespace {

void add_up(Communicator& world) {
  std::vector<int> ours(1000, world.rank() + 1), theirs = ours;
  world.all_reduce(std::span{ours});
  MPI_Allreduce(MPI_IN_PLACE, theirs.data(), static_cast<int>(theirs.size()), MPI_INT, MPI_SUM,
                MPI_COMM_WORLD);
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const bool alike = ours == theirs && rank == world.rank();
  fmt::print("rank {} of {}: {}\n", world.rank(), world.size(), alike ? "alike" : "different");
  MPI_Barrier(MPI_COMM_WORLD);
}

Communicator by_unique_id() {
  int rank = -1, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  UniqueId id{};
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  if (rank == 0) id = create_unique_id(host.data());
  MPI_Bcast(id.bytes.data(), static_cast<int>(id.bytes.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
  return Communicator::join(id, rank, size);
}

void run(const std::string& order) {
  if (order == "first") {
    Communicator before = Communicator::from_environment();
    MPI_Init(nullptr, nullptr);
    add_up(before);
    Communicator after = Communicator::from_environment();
    add_up(after);
  } else if (order == "second") {
    MPI_Init(nullptr, nullptr);
    for (int i = 0; i < 2; ++i) {
      Communicator world = Communicator::from_environment();
      add_up(world);
    }
  } else if (order == "id") {
    MPI_Init(nullptr, nullptr);
    Communicator world = by_unique_id();
    add_up(world);
  } else {
    MPI_Init(nullptr, nullptr);
    MPI_Finalize();
    (void)Communicator::from_environment();
    return;
  }
  MPI_Finalize();
}

}  // namespace
}  // namespace capstan

int main(int, char** argv) {
  try {
    capstan::run(argv[1]);
  } catch (const capstan::Error& error) {
    fmt::print("Error: {}\n", error.what());
    int initialised = 0, finalised = 0;
    MPI_Initialized(&initialised);
    MPI_Finalized(&finalised);
    if (initialised && !finalised) MPI_Finalize();
    return 3;
  }
  return 0;
}
