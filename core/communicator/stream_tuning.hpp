// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "capstan/async/streams.hpp"
#include "core/engine/run/engine.hpp"

namespace capstan {

/// Access for sweeps over candidates: calls in streams by other rules than those of the program.
class StreamTuning {
 public:
  explicit StreamTuning(StreamCollectives& streams) : streams_(streams) {}

  /// The engine of the ranks, for their agreements. It makes calls through pinned memory, of which
  /// none may be under way.
  Engine& engine() const;
  /// The farthest link between the devices; none: calls do not run by kernels, or none was made.
  std::optional<DeviceLink> link() const;
  /// Kernels run by other rules from the next call on. All ranks call it between the same two
  /// calls, when all calls so far have ended.
  void use_rules(AlgorithmRules rules);

 private:
  StreamCollectives& streams_;
};

}  // namespace capstan
