// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "core/schedule/selection/simulator.hpp"

namespace capstan {

/// The clock of a rank, which keeps what it spends its time on.
class Clock {
 public:
  double now() const { return now_; }
  const PredictedTime& spent() const { return spent_; }
  /// The time in which the core has worked; the rest of the time the rank waited.
  double busy() const { return busy_; }
  void latency(double time) { work(time, spent_.latency); }
  void bandwidth(double time) { work(time, spent_.bandwidth); }
  void reduction(double time) { work(time, spent_.reduction); }
  void waiting(double time) { work(time, spent_.waiting); }  ///< for memory
  /// Waits until the news of an event, which takes `travel`, has come.
  void wait_for(double event, double travel) {
    const double late = event + travel - now_;
    if (late <= 0) return;
    spent_.latency += std::min(late, travel);
    spent_.waiting += late - std::min(late, travel);
    now_ = event + travel;
  }

 private:
  void work(double time, double& kind) { now_ += time, busy_ += time, kind += time; }

  double now_ = 0, busy_ = 0;
  PredictedTime spent_{};
};

}  // namespace capstan
