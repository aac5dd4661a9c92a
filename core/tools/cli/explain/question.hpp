// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/engine/run/machine_view.hpp"
#include "core/schedule/selection/kept_choices.hpp"
#include "core/schedule/selection/survey.hpp"

namespace capstan::cli {

/// A call that `capstan explain` is asked about, and what decides how it runs.
struct Question {
  Call call;
  MachineView machine;  ///< this machine, as ranks started by `capstan run` would find it
  SelectionContext selection;
  bool commutative = true;
  bool autotuned = false;  ///< the first calls try several candidates
  Settings settings{};

  const Hosts& hosts() const { return machine.hosts; }
  std::optional<DeviceLink> devices() const { return selection.links.devices; }
  Survey answer() const {
    const SumOrder order = needed_order(call, hosts(), commutative, selection.reproducible);
    return survey(call, hosts(), selection.rules, order, selection.links, selection.measured.get());
  }
  /// The same, with the refusal of a plan that ranks prove before it runs and would not run. Plans
  /// for devices are not proven here.
  Survey proven_answer() const;
};

/// This machine with ranks on these hosts, each of them like this one, and the profile that
/// `settings` name. Starts no ranks.
MachineView expected_machine(const Hosts& hosts, const Settings& settings);

/// The collectives whose calls have one length, without counts per rank.
std::vector<std::string> collectives_of_one_length();

/// The call with the length of the largest buffer, in whole elements.
Call make_call(Collective collective, DataType type, ReduceOp op, int root, Bytes bytes, int ranks);

}  // namespace capstan::cli
