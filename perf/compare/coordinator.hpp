// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capstan/deadline.hpp"
#include "core/bootstrap/store/store_client.hpp"
#include "core/bootstrap/store/store_server.hpp"
#include "core/tools/launcher/child.hpp"
#include "core/tools/launcher/output.hpp"
#include "perf/compare/protocol.hpp"
#include "perf/compare/workers.hpp"

namespace capstan::perf {

/// Starts all workers of a comparison with the same number of ranks on the same cores, and gives
/// orders to one of them at a time; the others sleep meanwhile. Workers connect to `address`, an
/// address of this host, and prove that they know the coordinator's secret. Not thread-safe.
class Coordinator {
 public:
  /// Ranks bind themselves to cores of their own if `bind`.
  Coordinator(std::vector<WorkerSpec> workers, int ranks, const std::string& address,
              bool bind = true);
  /// Ends all workers.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;

  std::size_t workers() const { return workers_.size(); }
  const WorkerSpec& spec(std::size_t worker) const { return workers_[worker].spec; }
  /// Why a worker was disqualified; empty while it takes part.
  const std::optional<std::string>& disqualified(std::size_t worker) const {
    return workers_[worker].disqualified;
  }

  /// Gives an order to all ranks of a worker. Returns the slowest time and the sum of wrong values;
  /// `failed` if the library cannot carry out the order. A worker that does not answer is
  /// disqualified.
  worker_protocol::Answer order(std::size_t worker, const worker_protocol::Order& order);
  /// Lets a worker list the calls of its cell, which is prepared: the greatest time of any rank for
  /// each. Empty if that failed.
  std::optional<worker_protocol::CallTimes> list(std::size_t worker, std::uint64_t calls);

 private:
  struct Worker {
    WorkerSpec spec;
    std::string scope{};
    std::unique_ptr<StoreClient> store{};  // holds orders and answers
    std::uint64_t orders = 0;
    launcher::Child child{};
    std::vector<launcher::LineForwarder> output{};
    std::optional<std::string> disqualified{};
  };

  void start(Worker& worker);
  void join(Worker& worker, const Deadline& deadline);
  std::optional<worker_protocol::Answer> await(Worker& worker, int rank, const Deadline& deadline);
  void disqualify(Worker& worker, const std::string& reason);

  const int ranks_;
  const bool bind_;
  const std::string secret_;
  StoreServer server_;
  launcher::Outlet errors_;
  std::vector<Worker> workers_;
};

}  // namespace capstan::perf
