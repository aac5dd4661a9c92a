// SPDX-License-Identifier: Apache-2.0
#include "bindings/mpi/joining.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bindings/mpi/progress.hpp"

namespace capstan::mpi {
namespace {

int all_of(MPI_Comm comm, int value) {
  using Allreduce = int(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm);
  int least = 0;
  require(own_as<Allreduce>(Id::Allreduce)(&value, &least, 1, MPI_INT, MPI_MIN, comm));
  return least;
}

bool on_one_host() {
  char first[256] = {}, own_name[256] = {};
  ::gethostname(own_name, sizeof own_name - 1);
  std::memcpy(first, own_name, sizeof first);
  share(first, sizeof first);
  return all_of(MPI_COMM_WORLD, std::strcmp(first, own_name) == 0 ? 1 : 0) != 0;
}

/// A program of MPI may wait for as long as it likes.
Settings settings_of_programs() {
  Settings settings = Settings::from_environment();
  if (!std::getenv("CAPSTAN_TIMEOUT")) settings.timeout = std::chrono::hours{24 * 365};
  return settings;
}

}  // namespace

void share(void* bytes, int length) {
  using Bcast = int(void*, int, MPI_Datatype, int, MPI_Comm);
  require(own_as<Bcast>(Id::Bcast)(bytes, length, MPI_BYTE, 0, MPI_COMM_WORLD));
}

bool agreed(MPI_Comm comm, const std::function<void()>& part) {
  bool done = false;
  try {
    part();
    done = true;
  } catch (const std::exception& error) {
    int rank = 0;
    calls.Comm_rank(MPI_COMM_WORLD, &rank);
    std::fprintf(stderr, "capstan: rank %d: %s: the collectives of this communicator stay MPI's\n",
                 rank, error.what());
  }
  return all_of(comm, done ? 1 : 0) != 0;
}

std::optional<Communicator> join_world() {
  int rank = 0, size = 1;
  require(calls.Comm_rank(MPI_COMM_WORLD, &rank));
  require(calls.Comm_size(MPI_COMM_WORLD, &size));
  if (size == 1) return std::nullopt;
  const bool near = on_one_host();
  UniqueId id{};
  const bool has_id = agreed(MPI_COMM_WORLD, [&] {
    if (rank == 0) id = near ? create_unique_id() : create_unique_id("");
  });
  if (!has_id) return std::nullopt;
  share(id.bytes.data(), static_cast<int>(id.bytes.size()));
  std::optional<Communicator> world;
  const bool all = agreed(MPI_COMM_WORLD, [&] {
    world =
        run_beside_mpi([&] { return Communicator::join(id, rank, size, settings_of_programs()); });
  });
  return all ? std::move(world) : std::nullopt;
}

}  // namespace capstan::mpi
