// SPDX-License-Identifier: Apache-2.0

// How backends over MPI are made: by name, and of a communicator of the program.

#include "core/extras/backends/factories.hpp"
#include "core/extras/backends/mpi/backend.hpp"

namespace capstan {
namespace {

std::unique_ptr<Backend> duplicate(LoadedMpi& mpi, MpiHandle communicator,
                                   const BackendConfig& config) {
  MpiHandle copy = 0;
  mpi.require(mpi.locked([&] { return mpi.adapter().duplicate(communicator, &copy); }),
              "mpi: MPI_Comm_dup");
  return std::make_unique<MpiBackend>(mpi, copy, config);
}

/// Throws InvalidArgument if the world is another one than the configuration says.
void require_world(std::string_view key, std::optional<int> asked, int got) {
  if (asked && *asked != got)
    throw InvalidArgument(fmt::format(
        "mpi: {}={}, but MPI's world says {}: leave it out, or start the ranks with MPI's launcher",
        key, *asked, got));
}

void require_options(const BackendConfig& config) {
  require_known_options("mpi", config,
                        {"use_cuda_aware_mpi", "thread_level", "enable_profiling", "buffer_size",
                         "enable_tuning", "longest_count", "runtime"});
  if (!config.unique_id.empty())
    throw InvalidArgument(
        "mpi: unique_id: MPI's ranks find each other by its launcher: leave it out");
}

class MpiFactory : public BackendFactory {
 public:
  std::string name() const override { return "mpi"; }
  int priority() const override { return 50; }
  Availability look() const override { return LoadedMpi::look(); }
  std::unique_ptr<Backend> create(const BackendConfig& config) const override {
    require_options(config);
    const MpiConfig options = MpiConfig::from_options(config.options);
    LoadedMpi& mpi = LoadedMpi::get();
    mpi.ensure_initialised(options);
    const MpiHandle world = mpi.adapter().world();
    require_world("world_size", config.world_size, mpi.adapter().size(world));
    require_world("rank", config.rank, mpi.adapter().rank(world));
    return duplicate(mpi, world, config);
  }
};

}  // namespace

std::unique_ptr<Backend> make_mpi_backend(const void* communicator, const BackendConfig& config) {
  if (!communicator) throw InvalidArgument("make_mpi_backend: pass the address of an MPI_Comm");
  require_options(config);
  LoadedMpi& mpi = LoadedMpi::get();
  if (!mpi.adapter().initialized() || mpi.adapter().finalized())
    throw InvalidArgument("make_mpi_backend: MPI is not initialised, so there is no communicator");
  return duplicate(mpi, mpi.adapter().communicator_at(communicator), config);
}

std::shared_ptr<const BackendFactory> mpi_factory() {
  return std::make_shared<MpiFactory>();
}

}  // namespace capstan
