// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/simulation/forecast.hpp"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

#include "core/schedule/lowering/lower.hpp"
#include "core/schedule/lowering/plan.hpp"

namespace capstan {
namespace {

bool is_power_of_two(int n) {
  return std::has_single_bit(static_cast<unsigned>(n));
}

/// Where one rank stands for many, all blocks have to be equally long.
Elements in_equal_parts(Elements count, int ranks, bool up) {
  const auto p = static_cast<std::uint64_t>(ranks);
  const std::uint64_t parts = (count.value() + (up ? p - 1 : 0)) / p;
  return Elements{std::max<std::uint64_t>(parts, count > Elements{0} ? 1 : 0) * p};
}

bool has_parts(const Call& call, int ranks) {
  const Contract contract = call.contract(ranks);
  return contract.input_blocks(0) || contract.output_blocks(0);
}

/// The schedules of ranks, each made when it is first asked for.
class Schedules {
 public:
  Schedules(const Algorithm& algorithm, const Hosts& hosts, const Shape& shape)
      : algorithm_(algorithm), hosts_(hosts), shape_(shape) {}

  const Schedule& operator()(Rank rank) const {
    const auto found = made_.find(rank.value());
    if (found != made_.end()) return found->second;
    return made_.emplace(rank.value(), algorithm_.schedule(Group::world(hosts_, rank), shape_))
        .first->second;
  }

 private:
  const Algorithm& algorithm_;
  const Hosts& hosts_;
  const Shape& shape_;
  mutable std::unordered_map<int, Schedule> made_;
};

/// The scripts of the first ranks for a block of this shape.
std::vector<Script> scripts_of(const ClusterCall& call, const Cluster& cluster, const Shape& shape,
                               int ranks) {
  const Schedules schedules{*call.algorithm, cluster.hosts, shape};
  const bool in_place = call.call.collective == Collective::broadcast;  // nearly always
  std::vector<Script> scripts;
  scripts.reserve(static_cast<std::size_t>(ranks));
  lower_each([&](Rank rank) -> const Schedule& { return schedules(rank); }, cluster.hosts,
             call.protocol, ranks,
             [&](const Program& program) {
               scripts.push_back(script_of(program, schedules(program.self), cluster,
                                           call.call.element(), in_place));
             });
  return scripts;
}

std::uint64_t steps_of(const std::vector<RankScripts>& scripts) {
  std::uint64_t steps = 0;
  for (const RankScripts& each : scripts) steps += each.usual.steps.size();
  return steps;
}

/// The call with blocks of one length for all ranks.
ClusterCall evened_out(ClusterCall call, int ranks) {
  if (has_parts(call.call, ranks)) return call;
  call.call.shape.count = in_equal_parts(call.call.shape.count, ranks, true);
  call.block = in_equal_parts(call.block, ranks, false);
  return call;
}

std::vector<RankScripts> scripts_of(const ClusterCall& call, const Cluster& cluster,
                                    const std::vector<Shape>& blocks, int ranks) {
  std::vector<RankScripts> all(static_cast<std::size_t>(ranks));
  const bool differs = blocks.back() != blocks.front();
  auto usual = scripts_of(call, cluster, blocks.front(), ranks);
  auto last = differs ? scripts_of(call, cluster, blocks.back(), ranks) : std::vector<Script>{};
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].usual = std::move(usual[i]);
    all[i].differs = differs;
    if (differs) all[i].last = std::move(last[i]);
  }
  return all;
}

/// The number of blocks that are simulated, of all `blocks`.
std::uint64_t simulated_blocks(std::uint64_t blocks, std::uint64_t steps, std::uint64_t most) {
  constexpr std::uint64_t least = 4;
  const std::uint64_t possible = std::max(least, most / std::max<std::uint64_t>(steps, 1));
  return std::min(blocks, possible / 2 * 2);
}

}  // namespace

RankClasses classes_of(const ClusterCall& call, const Cluster& cluster) {
  const int ranks = cluster.hosts.ranks();
  RankClasses classes{.ranks = ranks, .simulated = ranks};
  const Symmetry symmetry = call.algorithm->symmetry;
  const int each = cluster.hosts.single() ? 1 : ranks / cluster.hosts.count();
  const bool disturbed = !call.disturbance.late.empty() || !call.disturbance.slower.empty();
  const bool alike = cluster.hosts.single() || (cluster.fabric->uniform() && cluster.hosts.even());
  if (call.every_rank || disturbed || symmetry == Symmetry::none || !alike) return classes;
  classes.exclusive_or = symmetry == Symmetry::exclusive_or;
  if (classes.exclusive_or && !(is_power_of_two(ranks) && is_power_of_two(each))) return classes;
  classes.simulated = each;
  return classes;
}

Forecast forecast(const ClusterCall& asked, const Cluster& cluster) {
  const int ranks = cluster.hosts.ranks();
  const RankClasses classes = classes_of(asked, cluster);
  const ClusterCall call = classes.all() ? asked : evened_out(asked, ranks);
  const auto blocks = block_shapes(call.call, call.block);
  auto scripts = scripts_of(call, cluster, blocks, classes.simulated);
  Forecast result{.run = {}, .call = call.call, .blocks = blocks.size()};
  result.simulated_blocks = simulated_blocks(blocks.size(), steps_of(scripts), call.most_steps);
  const bool cut = result.simulated_blocks < result.blocks;
  if (cut)
    for (RankScripts& each : scripts) each.differs = false;
  const auto run = [&](std::uint64_t number) {
    return run_on_cluster(cluster, classes, scripts, number, call.disturbance);
  };
  const auto split = [&](const ClusterRun& of) {
    return critical_path(of, call.disturbance).split;
  };
  result.run = run(result.simulated_blocks);
  result.time = result.run.time;
  result.split = split(result.run);
  if (!cut) return result;
  const std::uint64_t half = result.simulated_blocks / 2;
  const ClusterRun shorter = run(half);
  const TimeSplit more = result.split.plus(split(shorter), -1);  // of the second half
  const double halves =
      static_cast<double>(result.blocks - result.simulated_blocks) / static_cast<double>(half);
  result.time += (result.run.time - shorter.time) * halves;
  result.split = result.split.plus(more, halves);
  return result;
}

std::uint64_t steps_of(const ClusterCall& call, const Cluster& cluster) {
  const auto blocks = block_shapes(call.call, call.block);
  const std::uint64_t each = scripts_of(call, cluster, blocks.front(), 1).front().steps.size();
  const auto ranks = static_cast<std::uint64_t>(classes_of(call, cluster).simulated);
  return std::min(each * blocks.size() * ranks, std::max(call.most_steps * 2, each * ranks * 8));
}

double least_time(const ClusterCall& call, const Cluster& cluster) {
  const auto blocks = block_shapes(call.call, call.block);
  const auto scripts = scripts_of(call, cluster, blocks.front(), 1);
  const auto& slower = call.disturbance.slower;
  const std::size_t whole = blocks.size() - (blocks.back() != blocks.front() ? 1 : 0);
  return busy_time(scripts.front(), cluster, Rank{0}) *
         static_cast<double>(std::max<std::size_t>(whole, 1)) *
         (slower.empty() ? 1 : std::min(slower.front(), 1.0));
}

}  // namespace capstan
