// SPDX-License-Identifier: Apache-2.0
#include "core/profiles/fit_model.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "core/profiles/judge_profile.hpp"
#include "core/schedule/selection/device_links.hpp"
#include "core/schedule/selection/predictor.hpp"
#include "core/schedule/selection/selector.hpp"

namespace capstan {
namespace {

/// Predicts all measured ways by one model, whose constants change meanwhile.
class Ways {
 public:
  Ways(const std::vector<MeasuredCell>& cells, const Hosts& hosts, const LinkModel& model)
      : hosts_(hosts), unscaled_(model), model_(model) {
    for (const MeasuredCell& cell : cells) add(cell);
    thin_out();
  }

  /// The mean error of a prediction, and the mean loss by a choice.
  double error(const ModelScale& scale) {
    model_ = scale.applied(unscaled_);
    double errors = 0, losses = 0, ways = 0;
    for (const auto& cell : cells_) {
      const Sums sums = predict(cell);
      errors += sums.errors;
      losses += sums.loss;
      ways += static_cast<double>(cell.size());
    }
    return cells_.empty() ? 0 : errors / ways + losses / static_cast<double>(cells_.size());
  }

 private:
  struct Way {
    Predictor* predictor;
    Protocol protocol;
    double nanoseconds;
  };

  struct Sums {
    double errors = 0, loss = 0;  ///< as logarithms
  };

  static Sums predict(const std::vector<Way>& cell) {
    /// Errors of this size are as good as none: the sum changes smoothly with each factor.
    constexpr double negligible = 0.1;
    constexpr double never = std::numeric_limits<double>::infinity();
    Sums sums;
    double least = never, fastest = never, chosen = never;
    for (const Way& way : cell) {
      const double predicted = way.predictor->predict(way.protocol).total();
      sums.errors += std::hypot(std::log(predicted / way.nanoseconds), negligible);
      fastest = std::min(fastest, way.nanoseconds);
      if (predicted < least) least = predicted, chosen = way.nanoseconds;
    }
    sums.loss = std::log(chosen / fastest);
    return sums;
  }

  void add(const MeasuredCell& cell) {
    const Call call = measured_call(cell, memory_of(unscaled_));
    auto& ways = cells_.emplace_back();
    for (const MeasuredWay& way : cell.ways) {
      if (way.times_shorter != 1 || lowered_as(way.protocol) != way.protocol ||
          obstacle(*way.algorithm, hosts_, SumOrder::any) != Obstacle::none ||
          obstacle(*way.algorithm, way.protocol, hosts_, call, unscaled_, true) != Obstacle::none)
        continue;
      predictors_.emplace_back(*way.algorithm, hosts_, call, model_);
      ways.push_back({&predictors_.back(), way.protocol, way.nanoseconds});
    }
  }

  /// Leaves every n-th way, so that an error takes some milliseconds.
  void thin_out() {
    constexpr std::size_t most_steps = 4'000;
    std::size_t steps = 0;
    for (const auto& cell : cells_)
      for (const Way& way : cell) steps += way.predictor->simulated_steps(way.protocol);
    const std::size_t every = steps / most_steps + 1;
    std::size_t number = 0;
    for (auto& cell : cells_)
      std::erase_if(cell, [&](const Way&) { return number++ % every != 0; });
    std::erase_if(cells_, [](const auto& cell) { return cell.empty(); });
  }

  const Hosts& hosts_;
  const LinkModel unscaled_;
  LinkModel model_;
  std::deque<Predictor> predictors_;
  std::vector<std::vector<Way>> cells_;
};

/// The value that the fit minimises: the error, and a little for every factor that differs from 1,
/// so that factors which matter to no way stay at 1.
double penalty(Ways& ways, const ModelScale& scale) {
  constexpr double of_factor = 0.005;
  double sum = ways.error(scale);
  for (const double factor : scale.factors) sum += of_factor * std::abs(std::log(factor));
  return sum;
}

}  // namespace

ModelScale fit_model(const std::vector<MeasuredCell>& cells, const Hosts& hosts,
                     const LinkModel& model) {
  constexpr double first_step = 2, last_step = 1.06, farthest = 32;
  constexpr int most_rounds = 8;
  Ways ways{cells, hosts, model};
  ModelScale best;
  double least = penalty(ways, best);
  const auto attempt = [&](std::size_t i, double times) {
    ModelScale other = best;
    other.factors[i] = std::clamp(other.factors[i] * times, 1 / farthest, farthest);
    const double found = penalty(ways, other);
    if (!(found < least)) return false;
    best = other;
    least = found;
    return true;
  };
  for (double step = first_step; step > last_step; step = std::sqrt(step)) {
    bool moved = true;
    for (int round = 0; moved && round < most_rounds; ++round) {
      moved = false;
      for (std::size_t i = 0; i < model_factor_count; ++i)
        moved = attempt(i, step) || attempt(i, 1 / step) || moved;
    }
  }
  return best;
}

}  // namespace capstan
