// SPDX-License-Identifier: Apache-2.0

// An MPI library in a comparison; compiled once for each that is installed.

#include <mpi.h>

#include "perf/compare/workers/worker.hpp"

namespace capstan::perf {
namespace {

class Mpi : public Library {
 public:
  Mpi() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~Mpi() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Call prepare(const Cell& cell, float* in, float* out) override {
    const auto n = static_cast<int>(cell.shape.count.value());
    const MPI_Comm world = MPI_COMM_WORLD;
    switch (cell.collective) {
      case Collective::barrier:
        return [=] { MPI_Barrier(world); };
      case Collective::broadcast:
        return [=] { MPI_Bcast(out, n, MPI_FLOAT, 0, world); };
      case Collective::reduce:
        return [=] { MPI_Reduce(in, out, n, MPI_FLOAT, MPI_SUM, 0, world); };
      case Collective::all_reduce:
        return [=] { MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, world); };
      case Collective::all_gather:
        return [=] { MPI_Allgather(in, n, MPI_FLOAT, out, n, MPI_FLOAT, world); };
      case Collective::reduce_scatter:
        return [=] { MPI_Reduce_scatter_block(in, out, n, MPI_FLOAT, MPI_SUM, world); };
      case Collective::all_to_all:
        return [=] { MPI_Alltoall(in, n, MPI_FLOAT, out, n, MPI_FLOAT, world); };
      default:
        return {};
    }
  }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

 private:
  int rank_ = 0, size_ = 1;
};

}  // namespace
}  // namespace capstan::perf

int main() {
  return capstan::perf::run_worker(
      [](capstan::Store&) { return std::make_unique<capstan::perf::Mpi>(); });
}
