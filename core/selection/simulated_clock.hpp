#pragma once

#include <algorithm>

#include "core/selection/simulator.hpp"

namespace capstan {

/// The clock of a rank, which keeps what it spends its time on.
class Clock {
 public:
  double now() const { return now_; }
  const PredictedTime& spent() const { return spent_; }
  void latency(double time) { now_ += time, spent_.latency += time; }
  void bandwidth(double time) { now_ += time, spent_.bandwidth += time; }
  void reduction(double time) { now_ += time, spent_.reduction += time; }
  void waiting(double time) { now_ += time, spent_.waiting += time; }
  /// Waits until the news of an event, which takes `travel`, has come.
  void wait_for(double event, double travel) {
    const double late = event + travel - now_;
    if (late <= 0) return;
    spent_.latency += std::min(late, travel);
    spent_.waiting += late - std::min(late, travel);
    now_ = event + travel;
  }

 private:
  double now_ = 0;
  PredictedTime spent_{};
};

}  // namespace capstan
