// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "algorithms/registry.hpp"
#include "core/schedule/lowering/call.hpp"
#include "core/schedule/lowering/plan.hpp"
#include "core/schedule/selection/cost.hpp"
#include "core/schedule/selection/link_model.hpp"
#include "core/schedule/selection/simulator.hpp"

namespace capstan {

/// Whether programs are simulated, as they are for few ranks. For more ranks their steps are
/// counted, which says less about the network, so between hosts simulation goes up to more ranks.
bool simulates(const Hosts& hosts);

/// The shortest buffer of any rank that is not empty.
Bytes shortest_buffer(const Call& call, int ranks);

/// Predicts what an algorithm needs in each of its protocols, for a call over the ranks of `hosts`,
/// which outlive it, as does the model. The call should be a typical one: see typical(). Predicts
/// again where the model has been changed meanwhile.
class Predictor {
 public:
  Predictor(const Algorithm& algorithm, const Hosts& hosts, const Call& call,
            const LinkModel& model);

  /// By counts of its steps: quickly, but only roughly right.
  PredictedTime counted(Protocol protocol);
  PredictedTime predict(Protocol protocol) {
    return simulates_programs() ? simulated(lowered_as(protocol)) : counted(lowered_as(protocol));
  }
  /// The programs of one block, and when each rank runs which operation, in one call of many.
  struct Timeline {
    ByRank<Program> programs;
    std::vector<SimulatedSpan> spans;
  };
  Timeline timeline(Protocol protocol);
  /// The steps of all ranks that a prediction simulates; 0: it counts steps.
  std::size_t simulated_steps(Protocol protocol);

 private:
  bool simulates_programs() const { return simulates(hosts_) || algorithm_.source; }
  const ByRank<Program>& programs(Protocol protocol);
  SimulatedCall simulated_call() const;
  PredictedTime simulated(Protocol protocol);
  PredictedTime counted_network(const Cost& cost) const;

  const Algorithm& algorithm_;
  const Hosts& hosts_;
  const int ranks_;
  const Call call_;
  const LinkModel& model_;
  const Contract contract_;
  Bytes of_rank_{}, of_all_{}, shortest_{};
  ByRank<Schedule> schedules_;
  std::optional<Cost> cost_;
  std::map<Protocol, ByRank<Program>> programs_;  // made so far
};

}  // namespace capstan
