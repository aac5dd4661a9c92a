// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/selection/selector.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <span>
#include <utility>

#include "capstan/error.hpp"

namespace capstan {
namespace {

/// Whether the first calls of a kind run by a choice that costs little: short ones, whose results
/// are the same by any candidate that may follow.
bool has_first_choice(const Call& call, const Hosts& hosts, const LinkModel& model) {
  constexpr Bytes longest{128 << 10};
  return may_be_tuned(call, hosts, model) && typical(call).extent(hosts.ranks()) < longest &&
         stays_reproducible(call, hosts.ranks());
}

/// The candidate with the least predicted time, or the best reproducible one if it is predicted to
/// take about as long, or if first calls run by such a one. Where several algorithms are
/// reproducible, tuning can find the fastest of them. The user's setting for tuning makes no
/// difference here, as results must not depend on it.
Candidate preferred(std::vector<Candidate> candidates, const Call& call, const Hosts& hosts,
                    const LinkModel& model) {
  const Candidate best = best_of(candidates);
  const double about_as_long = in_packets(best.protocol) ? 2 : 1.5;  // ratio of predicted times
  if (!best.algorithm || !may_be_tuned(call, hosts, model) ||
      is_reproducible(*best.algorithm, call))
    return best;
  std::erase_if(candidates,
                [&](const Candidate& c) { return !is_reproducible(*c.algorithm, call); });
  const Candidate other = best_of(candidates);
  const bool several = std::ranges::any_of(
      candidates, [&](const Candidate& c) { return c.algorithm != other.algorithm; });
  const bool in_reach = several && other.nanoseconds <= about_as_long * best.nanoseconds;
  return other.algorithm && (in_reach || has_first_choice(call, hosts, model)) ? other : best;
}

Choice chosen(const Candidate& candidate) {
  return {candidate.algorithm, candidate.protocol,
          fmt::format("least predicted time, {:.2f} us", candidate.nanoseconds / 1000),
          candidate.nanoseconds};
}

/// Whether it does the same as a staged candidate with other stores, of which the model knows
/// nothing.
bool writes_as_staged(const Candidate& candidate) {
  return lowered_as(candidate.protocol) != candidate.protocol;
}

/// The best candidate, and a few others in the order of their predicted times. The best of each
/// protocol is taken first: the model knows least about how protocols compare on a machine.
/// Candidates of one protocol that are predicted alike are taken last, and not at all between two
/// ranks, where they do the same.
std::vector<Candidate> worth_measuring(const Candidate& best, const std::vector<Candidate>& others,
                                       int ranks, std::size_t most) {
  constexpr std::size_t most_protocols = 4;
  constexpr double near = 4, within_reach = 16;  // ratios of predicted times
  std::vector<Candidate> chosen{best};
  const auto take = [&](double times, std::size_t until, const auto& resembles) {
    for (const Candidate& other : others)
      if (chosen.size() < until && other.nanoseconds <= times * best.nanoseconds &&
          std::ranges::none_of(chosen, [&](const Candidate& c) { return resembles(c, other); }))
        chosen.push_back(other);
  };
  using C = const Candidate&;
  take(within_reach, most_protocols, [](C a, C b) { return a.protocol == b.protocol; });
  take(near, most, [](C a, C b) { return a.protocol == b.protocol && !a.beats(b) && !b.beats(a); });
  if (ranks > 2)
    take(near, most,
         [](C a, C b) { return a.protocol == b.protocol && a.algorithm == b.algorithm; });
  std::ranges::stable_sort(std::span{chosen}.subspan(1), {}, &Candidate::nanoseconds);
  return chosen;
}

/// The algorithms whose candidates may be measured. Where first calls have run by a reproducible
/// one, only reproducible ones may follow: to predict the others, too, would take three times as
/// long, in the path of a short call.
// measured: docs/lab-notebook.md#short-trials
std::vector<const Algorithm*> worth_predicting(const Call& call, const Hosts& hosts, SumOrder order,
                                               const LinkModel& model) {
  std::vector<const Algorithm*> all = able(call, hosts, order);
  if (has_first_choice(call, hosts, model))
    std::erase_if(all, [&](const Algorithm* each) { return !is_reproducible(*each, call); });
  return all;
}

/// The candidate that a rule asks for, or one of the same algorithm where its protocol is not
/// possible; none if the algorithm cannot run such calls.
std::optional<Choice> ruled(const AlgorithmRules::Rule& rule, const Call& call, const Hosts& hosts,
                            SumOrder order, const LinkModel& model) {
  if (obstacle_to_rule(*rule.algorithm, hosts, order) != Obstacle::none) return std::nullopt;
  Candidate candidate =
      best_of(untuned(candidates_of(*rule.algorithm, hosts, call, model, rule.protocol)));
  const bool as_asked = candidate.algorithm != nullptr;
  if (!as_asked) candidate = best_of(untuned(candidates_of(*rule.algorithm, hosts, call, model)));
  return Choice{
      rule.algorithm, candidate.protocol,
      fmt::format("asked for by a rule, predicted {:.2f} us", candidate.nanoseconds / 1000),
      candidate.nanoseconds, as_asked ? rule.times_shorter : 1};
}

std::optional<Choice> ruled(const AlgorithmRules& rules, const Call& call, const Hosts& hosts,
                            SumOrder order, const LinkModel& model) {
  const RuledCall asked = ruled_call(call, hosts);
  for (const AlgorithmRules::Rule& rule : rules.all())
    if (rule.matches(asked))
      if (auto choice = ruled(rule, call, hosts, order, model)) return choice;
  return std::nullopt;
}

/// The cell of such calls in a profile, whether it decides or not.
MeasuredCell measured_cell(const MeasuredTimes* measured, const Call& call, const Hosts& hosts) {
  if (!measured || !is_measured_kind(call)) return {};
  return measured->at(call.collective, hosts.ranks(), hosts.count(), call.extent(hosts.ranks()));
}

/// The fastest measured way that can run. Where the model's choice is reproducible, so is this one:
/// a profile does not change results then.
const MeasuredWay* fastest_possible(const MeasuredCell& cell, const Call& call, const Hosts& hosts,
                                    SumOrder order, const LinkModel& model,
                                    const Candidate& by_model) {
  const auto runs = [&](const MeasuredWay& way) {
    const Algorithm& algorithm = *way.algorithm;
    return obstacle(algorithm, hosts, order) == Obstacle::none &&
           obstacle(algorithm, way.protocol, hosts, call, model, true) == Obstacle::none &&
           (!is_reproducible(*by_model.algorithm, call) || is_reproducible(algorithm, call));
  };
  const auto found = std::ranges::find_if(cell.ways, runs);
  return found == cell.ways.end() ? nullptr : &*found;
}

/// The fastest of what was measured, or the model's choice where that is slower by no more than
/// noise.
std::optional<Choice> measured_choice(const MeasuredTimes* measured, const Call& call,
                                      const Hosts& hosts, SumOrder order, const LinkModel& model,
                                      const Candidate& by_model) {
  const MeasuredCell cell = measured_cell(measured, call, hosts);
  if (!cell.decides()) return std::nullopt;
  const MeasuredWay* way = fastest_possible(cell, call, hosts, order, model, by_model);
  if (!way) return std::nullopt;
  const MeasuredWay usual{by_model.algorithm, by_model.protocol};
  const auto same = std::ranges::find_if(
      cell.ways, [&](const MeasuredWay& each) { return each.is_same_way(usual); });
  const bool as_fast = same != cell.ways.end() && least_ratio(*same, *way) <= 1;
  if (as_fast) way = &*same;
  return Choice{
      way->algorithm, way->protocol,
      fmt::format("measured {:.2f} us, confidence {:.0f} %, by {}; the model's choice, {} {}, was "
                  "predicted {:.2f} us{}",
                  way->nanoseconds / 1000, cell.confidence * 100, measured->origin(),
                  by_model.algorithm->name, name_of(by_model.protocol), by_model.nanoseconds / 1000,
                  as_fast ? ", and none is clearly faster" : ""),
      way->nanoseconds, way->times_shorter};
}

/// Why a profile that knows such calls does not decide.
std::string doubt_about(const MeasuredTimes* measured, const Call& call, const Hosts& hosts) {
  const std::string doubt = measured_cell(measured, call, hosts).doubt();
  return doubt.empty() ? "" : fmt::format("; {} does not decide: {}", measured->origin(), doubt);
}

std::string reason_of(const Candidate& winner, const std::vector<Candidate>& candidates) {
  const Candidate fastest = best_of(candidates);
  if (!fastest.beats(winner)) return chosen(winner).reason;
  return fmt::format(
      "predicted {:.2f} us; it is chosen because its result is bitwise reproducible, which that of "
      "{} with {:.2f} us is not",
      winner.nanoseconds / 1000, fastest.algorithm->name, fastest.nanoseconds / 1000);
}

std::string_view need_of(SumOrder order) {
  switch (order) {
    case SumOrder::any:
      break;
    case SumOrder::ranks:
      return " with an operation that is not commutative";
    case SumOrder::left_fold:
    case SumOrder::one_reduction:
    case SumOrder::hosts:
      return " with reproducible sums: leave CAPSTAN_REPRODUCIBLE at run for such calls";
  }
  return "";
}

Decision decided(Choice choice, Source source, std::vector<Candidate> candidates) {
  return {std::move(choice), source, std::move(candidates)};
}

/// Puts the candidate first that is the fastest while buffers still lie in small pages, which they
/// do in the first calls.
void begin_with_small_pages(std::vector<Choice>& candidates, const Call& call, const Hosts& hosts,
                            LinkModel model) {
  if (!std::exchange(model.huge_pages, false) || call.extent(hosts.ranks()) < worth_huge_pages)
    return;
  std::vector<double> nanoseconds;
  for (const Choice& candidate : candidates)
    nanoseconds.push_back(
        Predictor{*candidate.algorithm, hosts, call, model}.predict(candidate.protocol).total());
  const auto fastest = std::ranges::min_element(nanoseconds) - nanoseconds.begin();
  std::rotate(candidates.begin(), candidates.begin() + fastest, candidates.begin() + fastest + 1);
}

}  // namespace

Call typical(Call call) {
  const std::uint64_t count = call.shape.count.value();
  const int shift = std::max(0, static_cast<int>(std::bit_width(count)) - 3);
  call.shape.count = Elements{(count + (std::uint64_t{1} << shift) - 1) >> shift << shift};
  call.shape.root = 0;
  call.about = nullptr;
  call.foreign = {};
  return call;
}

bool may_be_tuned(const Call& call, const Hosts& hosts, const LinkModel& model) {
  if (!hosts.single() || has_counts(call.collective) || call.user) return false;
  return !model.shares_cores || typical(call).extent(hosts.ranks()) >= model.long_call;
}

RuledCall ruled_call(const Call& call, const Hosts& hosts) {
  return {.collective = call.collective,
          .bytes = call.extent(hosts.ranks()),
          .ranks = hosts.ranks(),
          .hosts = hosts.count(),
          .type = call.type,
          .memory = call.memory};
}

bool is_measured_kind(const Call& call) {
  return call.purpose == Purpose::caller && !call.user && !has_counts(call.collective) &&
         call.peer_mapped == PeerMappedBuffers::none;
}

std::string_view name_of(Source source) {
  constexpr std::string_view names[] = {"rule", "profile", "model"};
  return names[static_cast<std::size_t>(source)];
}

Decision decide(const Call& call, const Hosts& hosts, const AlgorithmRules& rules, SumOrder order,
                const LinkModel& model, const MeasuredTimes* measured) {
  if (auto choice = ruled(rules, call, hosts, order, model))
    return decided(std::move(*choice), Source::rule, {});
  auto candidates = untuned(candidates_for(call, hosts, order, model));
  const Candidate winner = preferred(candidates, call, hosts, model);
  if (!winner.algorithm)
    throw InvalidArgument(fmt::format("no {} algorithm runs on {} ranks{}",
                                      name_of(call.collective), hosts.ranks(), need_of(order)));
  if (auto choice = measured_choice(measured, call, hosts, order, model, winner))
    return decided(std::move(*choice), Source::profile, std::move(candidates));
  Choice choice = chosen(winner);
  choice.reason = reason_of(winner, candidates) + doubt_about(measured, call, hosts);
  return decided(std::move(choice), Source::model, std::move(candidates));
}

Choice choose(const Call& call, const Hosts& hosts, const AlgorithmRules& rules, SumOrder order,
              const LinkModel& model, const MeasuredTimes* measured) {
  return decide(call, hosts, rules, order, model, measured).choice;
}

std::optional<Choice> first_choice(const Call& call, const Hosts& hosts, const LinkModel& model) {
  constexpr Bytes longest_in_packets{512};
  if (!has_first_choice(call, hosts, model)) return std::nullopt;
  const Bytes bytes = call.extent(hosts.ranks());
  Candidate best;
  for (const Algorithm* algorithm : able(call, hosts, SumOrder::any)) {
    if (!is_reproducible(*algorithm, call)) continue;
    Predictor predictor{*algorithm, hosts, call, model};
    for (const Protocol protocol : {Protocol::inline_packets, Protocol::staged}) {
      const bool packets = in_packets(protocol);
      if (packets && (bytes > longest_in_packets || !runs_in(*algorithm, protocol, hosts)))
        continue;
      const PredictedTime time = predictor.counted(protocol);
      const Candidate candidate{algorithm, protocol, time.total(), time};
      if (candidate.beats(best) && (!packets || fits_packets(*algorithm, protocol, hosts, call)))
        best = candidate;
    }
  }
  if (!best.algorithm) return std::nullopt;
  Choice choice = chosen(best);
  choice.reason = fmt::format("for the first calls: about {:.2f} us", best.nanoseconds / 1000);
  return choice;
}

std::vector<Choice> tuning_candidates(const Call& call, const Hosts& hosts, const LinkModel& model,
                                      Bytes block, SumOrder order) {
  std::vector<Candidate> others =
      candidates_of(worth_predicting(call, hosts, order, model), hosts, call, model);
  const Candidate chosen_untuned = preferred(untuned(others), call, hosts, model);
  std::erase_if(others, [&](const Candidate& other) {
    return !agree(*other.algorithm, *chosen_untuned.algorithm, call);
  });
  const Candidate best = best_of(others);
  std::erase_if(others, [&](const Candidate& other) {
    return other.algorithm == best.algorithm && other.protocol == best.protocol;
  });
  const bool tries_stores = std::erase_if(others, writes_as_staged) > 0;
  std::ranges::stable_sort(others, {}, &Candidate::nanoseconds);
  constexpr std::size_t most = 6;
  std::vector<Choice> candidates;
  for (const Candidate& candidate :
       worth_measuring(best, others, hosts.ranks(), tries_stores ? most - 1 : most))
    candidates.push_back(chosen(candidate));
  begin_with_small_pages(candidates, call, hosts, model);
  const auto staged = std::ranges::find(candidates, Protocol::staged, &Choice::protocol);
  if (staged == candidates.end()) return candidates;
  const Choice as_staged = *staged;
  if (tries_stores) candidates.insert(staged + 1, as_staged)->protocol = Protocol::streamed;
  if (call.extent(hosts.ranks()) >= block && is_reproducible(*as_staged.algorithm, call)) {
    candidates.push_back(as_staged);
    candidates.back().times_shorter = shorter_blocks;
  }
  return candidates;
}

}  // namespace capstan
