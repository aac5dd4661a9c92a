// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/lowering/arrivals.hpp"

#include <algorithm>

namespace capstan {

SignalsFrom::SignalsFrom(const Schedule& sender, const Exports& exports, Rank receiver) {
  signals_.emplace_back();
  for (const Outgoing& to :
       std::ranges::equal_range(exports.outgoing, receiver, {}, &Outgoing::peer)) {
    const Step& step = sender.steps()[to.step];
    if (step.verb == Verb::signal) {
      signals_.emplace_back();
    } else if (const Export& area = exports.puts[to.put]; !area.delivered) {
      signals_.back().push_back({step.destination, area.operand(sender.self())});
    }
  }
  signals_.pop_back();
}

const std::vector<Arrival>& SignalsFrom::next() {
  static const auto& nothing = *new const std::vector<Arrival>;  // never destroyed
  return next_ < signals_.size() ? signals_[next_++] : nothing;
}

}  // namespace capstan
