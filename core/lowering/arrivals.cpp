#include "core/lowering/arrivals.hpp"

namespace capstan {

SignalsFrom::SignalsFrom(const Schedule& sender, const Exports& exports, Rank receiver) {
  auto next_export = exports.puts.begin();
  signals_.emplace_back();
  for (const Step& step : sender.steps()) {
    if (step.verb == Verb::put) {
      const Export& area = *next_export++;
      if (step.peer == receiver && !area.delivered)
        signals_.back().push_back({step.destination, area.operand(sender.self())});
    } else if (step.verb == Verb::signal && step.peer == receiver) {
      signals_.emplace_back();
    }
  }
  signals_.pop_back();
}

const std::vector<Arrival>& SignalsFrom::next() {
  static const auto& nothing = *new const std::vector<Arrival>;  // never destroyed
  return next_ < signals_.size() ? signals_[next_++] : nothing;
}

}  // namespace capstan
