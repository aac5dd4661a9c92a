#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capstan/deadline.hpp"
#include "core/bootstrap/store/store_client.hpp"
#include "core/bootstrap/store/store_server.hpp"
#include "core/launcher/child.hpp"
#include "core/launcher/output.hpp"
#include "perf/compare/protocol.hpp"
#include "perf/compare/workers.hpp"

namespace capstan::perf {

/// Starts all workers of a comparison with the same number of ranks on the same cores, and tells
/// one of them at a time what to do; the others sleep meanwhile. They reach it at `address`, one of
/// this host, and prove that they know its secret.
class Coordinator {
 public:
  Coordinator(std::vector<WorkerSpec> workers, int ranks, const std::string& address);
  /// Ends what it has started.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;

  std::size_t workers() const { return workers_.size(); }
  const WorkerSpec& spec(std::size_t worker) const { return workers_[worker].spec; }
  /// Why a worker does not take part any more.
  const std::optional<std::string>& out(std::size_t worker) const { return workers_[worker].out; }

  /// All ranks of a worker do this; the slowest time and the sum of wrong values come back. Failed
  /// if the library cannot do it. A worker that does not answer is out.
  worker_protocol::Answer order(std::size_t worker, const worker_protocol::Order& order);

 private:
  struct Worker {
    WorkerSpec spec;
    std::string scope{};
    std::unique_ptr<StoreClient> table{};  // where orders and answers are put
    std::uint64_t orders = 0;
    cli::Child child{};
    std::vector<cli::LineForwarder> output{};
    std::optional<std::string> out{};
  };

  void start(Worker& worker);
  void join(Worker& worker, const Deadline& deadline);
  std::optional<worker_protocol::Answer> await(Worker& worker, int rank, const Deadline& deadline);
  void dismiss(Worker& worker, const std::string& reason);

  const int ranks_;
  const std::string secret_;
  StoreServer server_;
  std::vector<Worker> workers_;
};

}  // namespace capstan::perf
