// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/tune/cell_clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>

#include "core/bootstrap/launchers/launch.hpp"
#include "core/engine/run/machine_view.hpp"
#include "core/schedule/selection/candidates.hpp"

namespace capstan::cli {
namespace {

/// The rule that makes calls run in this way.
AlgorithmRules rule_for(Collective collective, const MeasuredWay& way) {
  return AlgorithmRules::parse(fmt::format("{}:{}", name_of(collective), name_of(way)));
}

MeasuredCall call_of(MeasuredCalls& calls, const perf::Cell& cell) {
  const int rank = calls.engine().rank(), ranks = calls.engine().size();
  const Request request = perf::request_of(cell, rank, ranks, calls.input(), calls.output());
  MeasuredCall call{request, check(request, rank, ranks)};
  if (calls.devices()) call.checked.call.memory = MemoryKind::device;
  return call;
}

}  // namespace

Settings settings_to_measure() {
  Settings settings = Settings::from_environment();
  settings.autotune = false;
  settings.algorithm.clear();
  settings.profile = "none";
  return settings;
}

Member join_to_measure() {
  return join_launched_world(detect_launch(process_environment()), settings_to_measure());
}

MachineState state_since(const MachineReading& before, Engine& engine) {
  CollectiveExchange exchange{engine};
  const auto all = gather_answers(exchange, MachineStretch{before, read_machine()}, "machine");
  return MachineState::of(std::span{&*all.begin(), static_cast<std::size_t>(engine.size())});
}

CellClock::CellClock(MeasuredCalls& calls, const perf::Cell& cell)
    : calls_(calls),
      exchange_(calls.engine()),
      call_(call_of(calls, cell)),
      candidates_(predicted()),
      expected_(candidates_.ways) {}

MeasuredCell CellClock::predicted() const {
  const Call& call = call_.checked.call;
  const MachineView& machine = calls_.engine().machine();
  const Hosts& hosts = machine.hosts;
  const LinkModel model = link_model(machine, calls_.engine().settings(), calls_.devices());
  MeasuredCell cell{call.collective, hosts.ranks(), hosts.count(), call.extent(hosts.ranks())};
  for (const Candidate& each : candidates_for(call, hosts, SumOrder::any, model))
    cell.ways.push_back({each.algorithm, each.protocol, 1, each.nanoseconds});
  return cell;
}

std::vector<double> CellClock::times(const std::vector<MeasuredWay>& ways, double turn,
                                     double most_calls) {
  std::vector<double> own;
  for (const MeasuredWay& way : ways) {
    calls_.use_rules(rule_for(call_.checked.call.collective, way));
    calls_.run(call_, 1);
    const int calls =
        static_cast<int>(std::clamp(turn / expected(way).nanoseconds, 1.0, most_calls));
    const auto start = std::chrono::steady_clock::now();
    calls_.run(call_, calls);
    const std::chrono::duration<double, std::nano> elapsed =
        std::chrono::steady_clock::now() - start;
    own.push_back(elapsed.count() / calls);
  }
  calls_.use_rules({});
  const auto all = greatest(own);
  for (std::size_t i = 0; i < ways.size(); ++i) expected(ways[i]).nanoseconds = all[i];
  return all;
}

/// The last known time of a way; that of a new one is not known.
MeasuredWay& CellClock::expected(const MeasuredWay& way) {
  const auto found = std::ranges::find_if(
      expected_, [&](const MeasuredWay& each) { return each.is_same_way(way); });
  if (found != expected_.end()) return *found;
  MeasuredWay& added = expected_.emplace_back(way);
  added.nanoseconds = 1e9;
  return added;
}

std::vector<double> CellClock::greatest(const std::vector<double>& own) {
  std::vector<double> all(own.size());
  if (!own.empty())
    exchange_.run({.combine = Combine::greatest, .type = DataType::f64, .count = own.size()},
                  own.data(), all.data());
  return all;
}

}  // namespace capstan::cli
