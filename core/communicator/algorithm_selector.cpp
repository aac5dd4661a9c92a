// SPDX-License-Identifier: Apache-2.0
#include "capstan/algorithm_selector.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "algorithms/registry.hpp"
#include "capstan/error.hpp"
#include "core/engine/run/engine.hpp"
#include "core/engine/run/machine_view.hpp"
#include "core/schedule/selection/selector.hpp"
#include "topology/machine.hpp"

namespace capstan {
namespace {

Hosts spread(int ranks, int hosts) {
  if (hosts < 1 || ranks < hosts)
    throw InvalidArgument(fmt::format(
        "AlgorithmSelector: {} ranks on {} hosts: pass at least one host, and a rank for each",
        ranks, hosts));
  if (hosts == 1) return Hosts{ranks};
  std::vector<int> host_of;
  for (int rank = 0; rank < ranks; ++rank) host_of.push_back(rank * hosts / ranks);
  return Hosts{std::move(host_of)};
}

LinkModel model_of(const Hosts& hosts, const Settings& settings) {
  const std::size_t cores = Machine::discover().processing_units().size();
  return link_model({.hosts = hosts,
                     .shares_cores = cores < static_cast<std::size_t>(hosts.most_on_a_host()),
                     .cores = static_cast<double>(cores),
                     .reads_peers = hosts.single()},
                    settings);
}

Call call_of(Collective collective, Bytes bytes, DataType type, ReduceOp op, int ranks) {
  if (has_counts(collective))
    throw InvalidArgument(
        fmt::format("AlgorithmSelector: {} has a length for each rank: ask about the collective "
                    "without them",
                    name_of(collective)));
  Call call{.collective = collective, .type = type, .op = op, .shape = {.count = Elements{1}}};
  const std::uint64_t least =
      call.extent(ranks).value();  // of one element for each rank, or in all
  const std::uint64_t count = least == 0 ? 0 : bytes.value() / least;
  call.shape.count =
      Elements{bytes > Bytes{0} && least > 0 ? std::max<std::uint64_t>(count, 1) : 0};
  return call;
}

}  // namespace

struct AlgorithmSelector::State {
  using Question = std::tuple<Collective, std::uint64_t, DataType, ReduceOp>;
  static constexpr std::size_t most_answers = 1024;

  State(const Hosts& all, const Settings& settings)
      : hosts(all), rules(rules_of(settings, all)), model(model_of(all, settings)) {}

  const Hosts hosts;
  const AlgorithmRules rules;
  const LinkModel model;
  std::mutex mutex;
  std::map<Question, Selection> answers;
};

AlgorithmSelector::AlgorithmSelector(int ranks, const std::string& rules, int hosts) {
  Settings settings;
  settings.algorithm = rules;
  state_ = std::make_shared<State>(spread(ranks, hosts), settings);
}

int AlgorithmSelector::ranks() const {
  return state_->hosts.ranks();
}

AlgorithmSelector::Selection AlgorithmSelector::select(Collective collective, Bytes bytes,
                                                       DataType type, ReduceOp op) const {
  const Call call = call_of(collective, bytes, type, op, ranks());
  const std::lock_guard lock{state_->mutex};
  const State::Question question{collective, call.shape.count.value(), type, op};
  if (const auto known = state_->answers.find(question); known != state_->answers.end())
    return known->second;
  const Choice choice = choose(call, state_->hosts, state_->rules, SumOrder::any, state_->model);
  if (state_->answers.size() >= State::most_answers) state_->answers.clear();
  return state_->answers[question] = {std::string{choice.algorithm->name},
                                      std::string{name_of(choice.protocol)}, choice.reason};
}

std::vector<std::string_view> AlgorithmSelector::names(Collective collective) {
  std::vector<std::string_view> names;
  for (const Algorithm& algorithm : algorithms(collective)) names.push_back(algorithm.name);
  return names;
}

std::string_view AlgorithmSelector::known_name(Collective collective, std::string_view name) {
  const auto all = algorithms(collective);
  const auto found = std::ranges::find(all, name, &Algorithm::name);
  return found == all.end() ? "unknown" : found->name;
}

}  // namespace capstan
