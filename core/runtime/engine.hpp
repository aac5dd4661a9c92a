#pragma once

#include <memory>
#include <optional>
#include <unordered_map>

#include "core/runtime/executor.hpp"
#include "core/runtime/peer_watch.hpp"
#include "core/runtime/selector.hpp"
#include "core/settings.hpp"
#include "transports/transport.hpp"

namespace capstan {

/// What the ranks of a world have found out about the machine they share; equal on all of them.
struct Placement {
  bool oversubscribed = false;  ///< some ranks share a core: give it up early while waiting
  Bytes chunk{256 << 10};       ///< staged bytes per rank and block that stay in its cache
};

/// One rank's running half of a communicator: keeps plans, runs operations, waits, and turns the
/// failure of any rank into the same error on all of them.
///
/// Used by one thread at a time.
class Engine {
 public:
  /// `transport` is connected.
  Engine(std::unique_ptr<Transport> transport, Rank self, int ranks, const SegmentLayout& layout,
         const Placement& placement, const Settings& settings);
  Engine(const Engine&) = delete;
  ~Engine();

  int rank() const { return self_.value(); }
  int size() const { return ranks_; }

  void run(const Call& call, const void* input, void* output);
  Choice choice(const Call& call) const;

 private:
  const Plan& plan(const Call& call);
  void wait_until_finished();
  void sleep_unless_finished(bool& finished);
  [[noreturn]] void fail(const Failure& failure);

  std::unique_ptr<Transport> transport_;
  const Rank self_;
  const int ranks_;
  const SegmentLayout layout_;
  const Placement placement_;
  const std::chrono::milliseconds timeout_;
  const AlgorithmRules rules_;
  Executor executor_;
  PeerWatch watch_;

  struct CallHash {
    std::size_t operator()(const Call& call) const;
  };
  std::unordered_map<Call, std::unique_ptr<const Plan>, CallHash> plans_;
  const Plan* last_plan_ = nullptr;
  std::optional<Failure> failure_;
};

/// The segment that ranks of a world of this size need.
SegmentLayout segment_layout(int ranks, const Placement& placement, const Settings& settings);

}  // namespace capstan
