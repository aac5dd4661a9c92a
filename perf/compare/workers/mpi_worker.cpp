// SPDX-License-Identifier: Apache-2.0

// An MPI library in a comparison; compiled once for each that is installed.

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "perf/compare/workers/worker.hpp"

namespace capstan::perf {
namespace {

const MPI_Datatype type = MPI_FLOAT;

/// The counts of a collective that has them for each rank, and where blocks begin.
struct Blocks {
  std::vector<int> counts, offsets;

  explicit Blocks(const std::vector<Elements>& lengths) {
    int at = 0;
    for (const Elements each : lengths) {
      counts.push_back(static_cast<int>(each.value()));
      offsets.push_back(at);
      at += counts.back();
    }
  }
};

/// The arguments of a call.
struct Arguments {
  Blocks sent, received;
  int count, own;  ///< elements: of a block, or of this rank's where they differ
};

/// MPI's messages, for run_messages().
class MpiEnds {
 public:
  void send(const std::byte* data, std::size_t bytes, int peer) {
    MPI_Send(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, MPI_COMM_WORLD);
  }
  void receive(std::byte* data, std::size_t bytes, int peer) {
    MPI_Recv(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  void start_send(const std::byte* data, std::size_t bytes, int peer) {
    MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, MPI_COMM_WORLD,
              &under_way_.emplace_back());
  }
  void start_receive(std::byte* data, std::size_t bytes, int peer) {
    MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, MPI_COMM_WORLD,
              &under_way_.emplace_back());
  }
  void wait() {
    MPI_Waitall(static_cast<int>(under_way_.size()), under_way_.data(), MPI_STATUSES_IGNORE);
    under_way_.clear();
  }

 private:
  static constexpr int tag = 0;
  std::vector<MPI_Request> under_way_;
};

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

  Call prepare_messages(const MessageRun& run) override {
    return [run, ends = MpiEnds{}]() mutable { run_messages(ends, run); };
  }

  Call prepare(const Cell& cell, float* input, float* out) override {
    const auto a = arguments_of(cell);
    const void* const in = input_of(cell, input, out);
    const int n = a->count;
    const MPI_Comm world = MPI_COMM_WORLD;
    const int* const counts = a->sent.counts.data();
    const int* const offsets = a->sent.offsets.data();
    switch (cell.collective) {
      case Collective::barrier:
        return [=] { MPI_Barrier(world); };
      case Collective::broadcast:
        return [=] { MPI_Bcast(out, n, type, 0, world); };
      case Collective::reduce:
        return [=] { MPI_Reduce(in, out, n, type, MPI_SUM, 0, world); };
      case Collective::all_reduce:
        return [=] { MPI_Allreduce(in, out, n, type, MPI_SUM, world); };
      case Collective::all_gather:
        return [=] { MPI_Allgather(in, n, type, out, n, type, world); };
      case Collective::reduce_scatter:
        return [=] { MPI_Reduce_scatter_block(in, out, n, type, MPI_SUM, world); };
      case Collective::gather:
        return [=] { MPI_Gather(in, n, type, out, n, type, 0, world); };
      case Collective::scatter:
        return [=] { MPI_Scatter(in, n, type, out, n, type, 0, world); };
      case Collective::all_to_all:
        return [=] { MPI_Alltoall(in, n, type, out, n, type, world); };
      case Collective::scan:
        return [=] { MPI_Scan(in, out, n, type, MPI_SUM, world); };
      case Collective::exscan:
        return [=] { MPI_Exscan(in, out, n, type, MPI_SUM, world); };
      case Collective::all_gather_v:
        return [=] { MPI_Allgatherv(in, a->own, type, out, counts, offsets, type, world); };
      case Collective::reduce_scatter_v:
        return [=] { MPI_Reduce_scatter(in, out, a->sent.counts.data(), type, MPI_SUM, world); };
      case Collective::gather_v:
        return [=] { MPI_Gatherv(in, a->own, type, out, counts, offsets, type, 0, world); };
      case Collective::scatter_v:
        return [=] { MPI_Scatterv(in, counts, offsets, type, out, a->own, type, 0, world); };
      case Collective::all_to_all_v:
        return [=] {
          MPI_Alltoallv(in, counts, offsets, type, out, a->received.counts.data(),
                        a->received.offsets.data(), type, world);
        };
    }
    return {};
  }

  Call prepare_started(const Cell& cell, const std::vector<Buffers>& buffers) override {
    const auto a = arguments_of(cell);
    return [=, this, requests = std::vector<MPI_Request>(buffers.size())]() mutable {
      for (std::size_t i = 0; i < buffers.size(); ++i)
        start(cell.collective, *a, input_of(cell, buffers[i].input, buffers[i].output),
              buffers[i].output, &requests[i]);
      MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    };
  }

  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

 private:
  std::shared_ptr<const Arguments> arguments_of(const Cell& cell) const {
    const Request request = request_of(cell, rank_, size_, nullptr, nullptr);
    const auto own = static_cast<std::size_t>(rank_);
    const bool has_own = own < cell.shape.counts.size();
    return std::make_shared<const Arguments>(
        Arguments{.sent = Blocks{request.counts},
                  .received = Blocks{request.receive_counts},
                  .count = static_cast<int>(cell.shape.count.value()),
                  .own = has_own ? static_cast<int>(cell.shape.counts[own].value()) : 0});
  }

  /// In place only a reduction's root says so; the others send from where they would receive.
  const void* input_of(const Cell& cell, const float* in, const float* out) const {
    if (!cell.in_place) return in;
    return cell.collective == Collective::reduce && rank_ != 0 ? out : MPI_IN_PLACE;
  }

  void start(Collective collective, const Arguments& a, const void* in, float* out,
             MPI_Request* request) const {
    const MPI_Comm world = MPI_COMM_WORLD;
    const int n = a.count;
    const int *const counts = a.sent.counts.data(), *const offsets = a.sent.offsets.data();
    switch (collective) {
      case Collective::barrier:
        MPI_Ibarrier(world, request);
        return;
      case Collective::broadcast:
        MPI_Ibcast(out, n, type, 0, world, request);
        return;
      case Collective::reduce:
        MPI_Ireduce(in, out, n, type, MPI_SUM, 0, world, request);
        return;
      case Collective::all_reduce:
        MPI_Iallreduce(in, out, n, type, MPI_SUM, world, request);
        return;
      case Collective::all_gather:
        MPI_Iallgather(in, n, type, out, n, type, world, request);
        return;
      case Collective::reduce_scatter:
        MPI_Ireduce_scatter_block(in, out, n, type, MPI_SUM, world, request);
        return;
      case Collective::gather:
        MPI_Igather(in, n, type, out, n, type, 0, world, request);
        return;
      case Collective::scatter:
        MPI_Iscatter(in, n, type, out, n, type, 0, world, request);
        return;
      case Collective::all_to_all:
        MPI_Ialltoall(in, n, type, out, n, type, world, request);
        return;
      case Collective::scan:
        MPI_Iscan(in, out, n, type, MPI_SUM, world, request);
        return;
      case Collective::exscan:
        MPI_Iexscan(in, out, n, type, MPI_SUM, world, request);
        return;
      case Collective::all_gather_v:
        MPI_Iallgatherv(in, a.own, type, out, counts, offsets, type, world, request);
        return;
      case Collective::reduce_scatter_v:
        MPI_Ireduce_scatter(in, out, counts, type, MPI_SUM, world, request);
        return;
      case Collective::gather_v:
        MPI_Igatherv(in, a.own, type, out, counts, offsets, type, 0, world, request);
        return;
      case Collective::scatter_v:
        MPI_Iscatterv(in, counts, offsets, type, out, a.own, type, 0, world, request);
        return;
      case Collective::all_to_all_v:
        MPI_Ialltoallv(in, counts, offsets, type, out, a.received.counts.data(),
                       a.received.offsets.data(), type, world, request);
        return;
    }
  }

  int rank_ = 0, size_ = 1;
};

}  // namespace
}  // namespace capstan::perf

int main() {
  return capstan::perf::run_worker(
      [](capstan::Store&) { return std::make_unique<capstan::perf::Mpi>(); });
}
