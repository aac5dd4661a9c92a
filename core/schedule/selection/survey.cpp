// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/selection/survey.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace capstan {
namespace {

/// Fills in the ways of a survey.
class Surveyor {
 public:
  Surveyor(const Call& call, const Hosts& hosts, SumOrder order, const LinkModel& model,
           const MeasuredTimes* measured, Decision& decision)
      : call_(call), hosts_(hosts), order_(order), model_(model), decision_(decision) {
    if (measured && is_measured_kind(call))
      cell_ =
          measured->at(call.collective, hosts.ranks(), hosts.count(), call.extent(hosts.ranks()));
  }

  std::vector<SurveyedWay> ways() {
    std::vector<SurveyedWay> ways;
    for (const Algorithm& algorithm : algorithms(call_.collective)) add_ways_of(algorithm, ways);
    if (decision_.choice.algorithm->source) add_ways_of(*decision_.choice.algorithm, ways);
    std::ranges::stable_sort(ways, {}, place);
    return ways;
  }

 private:
  static double place(const SurveyedWay& way) {
    if (way.chosen) return -1;
    if (way.measured) return *way.measured;
    return way.predicted ? way.predicted->total() : std::numeric_limits<double>::infinity();
  }

  void add_ways_of(const Algorithm& algorithm, std::vector<SurveyedWay>& ways) {
    const Obstacle in_all = obstacle(algorithm, hosts_, order_);
    const bool runs = in_all == Obstacle::none;
    const bool asked_for =
        decision_.source == Source::rule && decision_.choice.algorithm == &algorithm;
    std::optional<double> before;
    Predictor predictor{algorithm, hosts_, typical(call_), model_};
    for (const Protocol protocol : all_protocols) {
      SurveyedWay way{&algorithm, protocol};
      way.chosen =
          decision_.choice.algorithm == &algorithm && decision_.choice.protocol == protocol;
      Obstacle found =
          runs ? obstacle(algorithm, protocol, hosts_, call_, model_, asked_for) : in_all;
      if (found == Obstacle::none) way.predicted = predictor.predict(protocol);
      if (protocol == Protocol::shared_inline_packets && way.predicted &&
          before == way.predicted->total() && !way.chosen)
        found = Obstacle::same, way.predicted.reset();
      before = way.predicted ? std::optional{way.predicted->total()} : std::nullopt;
      way.measured = measured(way);
      way.verdict = found == Obstacle::none ? verdict(way) : why(found, algorithm);
      ways.push_back(std::move(way));
    }
  }

  std::optional<double> measured(const SurveyedWay& way) const {
    for (const MeasuredWay& each : cell_.ways)  // the fastest first
      if (each.algorithm == way.algorithm && each.protocol == way.protocol) return each.nanoseconds;
    return std::nullopt;
  }

  std::string verdict(const SurveyedWay& way) const {
    const Choice& choice = decision_.choice;
    if (way.chosen) return "chosen: " + choice.reason;
    if (decision_.source == Source::rule) return "a rule asks for another";
    if (decision_.source == Source::profile) {
      if (!way.measured) return "not measured; the profile knows a fast one";
      if (*way.measured >= choice.nanoseconds) return slower("measured", *way.measured);
      return reproducible(choice) && !is_reproducible(*way.algorithm, call_)
                 ? not_reproducible()
                 : "as fast: the difference lies within the noise";
    }
    const bool needs_tuning = std::ranges::none_of(decision_.candidates, [&](const Candidate& c) {
      return c.algorithm == way.algorithm && c.protocol == way.protocol;
    });
    if (needs_tuning) return "taken only where it has been measured: ranks share cores";
    return way.predicted->total() < choice.nanoseconds * (1 - 1e-9)
               ? not_reproducible()
               : slower("predicted", way.predicted->total());
  }

  bool reproducible(const Choice& choice) const {
    return is_reproducible(*choice.algorithm, call_);
  }
  static std::string not_reproducible() {
    return "faster, but its result is not bitwise reproducible";
  }

  std::string slower(std::string_view how, double nanoseconds) const {
    const double times = nanoseconds / decision_.choice.nanoseconds;
    return times < 1.005 ? fmt::format("{} to take as long; the other comes first", how)
                         : fmt::format("{} to take {:.2f} times as long", how, times);
  }

  const Call& call_;
  const Hosts& hosts_;
  const SumOrder order_;
  const LinkModel& model_;
  const Decision& decision_;
  MeasuredCell cell_{};
};

/// The rules before the one that decides, which match and cannot be followed.
std::vector<std::string> passed_over(const AlgorithmRules& rules, const Call& call,
                                     const Hosts& hosts, SumOrder order, const Choice& choice,
                                     Source source) {
  std::vector<std::string> passed;
  for (const AlgorithmRules::Rule& rule : rules.all()) {
    if (!rule.matches(ruled_call(call, hosts))) continue;
    if (source == Source::rule && rule.algorithm == choice.algorithm) break;
    const Obstacle found = obstacle_to_rule(*rule.algorithm, hosts, order);
    if (found != Obstacle::none)
      passed.push_back(fmt::format("{}: {}", rule.text, why(found, *rule.algorithm)));
  }
  return passed;
}

}  // namespace

void Survey::set_refusal(std::string why) {
  refusal = std::move(why);
  for (SurveyedWay& way : ways)
    if (std::exchange(way.chosen, false)) way.verdict = "asked for, and refused by its proof";
}

Survey survey(const Call& call, const Hosts& hosts, const AlgorithmRules& rules, SumOrder order,
              const LinkModel& model, const MeasuredTimes* measured) {
  Survey all{decide(call, hosts, rules, order, model, measured), {}, {}, {}};
  all.ways = Surveyor{call, hosts, order, model, measured, all.decision}.ways();
  all.rules_passed_over =
      passed_over(rules, call, hosts, order, all.decision.choice, all.decision.source);
  return all;
}

}  // namespace capstan
