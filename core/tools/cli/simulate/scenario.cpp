// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/simulate/scenario.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "capstan/error.hpp"
#include "core/engine/run/engine.hpp"
#include "core/engine/run/machine_view.hpp"
#include "core/schedule/custom/added_algorithms.hpp"
#include "core/schedule/lowering/plan.hpp"
#include "core/schedule/selection/selector.hpp"
#include "core/tools/cli/explain/question.hpp"
#include "core/tools/cli/numbers.hpp"
#include "core/tools/cli/sizes.hpp"
#include "perf/measure/progress_bar.hpp"

namespace capstan::cli {
namespace {

/// Candidates whose steps exceed this are not simulated beside others.
constexpr std::uint64_t most_steps_of_candidate = 40'000'000;

Call call_of(const SimulateOptions& options) {
  const auto type = data_type_named(options.type);
  const auto op = reduce_op_named(options.op);
  if (!type) throw InvalidArgument(fmt::format("--type {}: no such type; try f32", options.type));
  if (!op) throw InvalidArgument(fmt::format("--op {}: no such operation; try sum", options.op));
  if (options.root >= options.ranks)
    throw InvalidArgument(
        fmt::format("--root {}: there are {} ranks, from 0", options.root, options.ranks));
  return make_call(*collective_named(options.collective), *type, *op, options.root,
                   parse_size(options.bytes, "--bytes"), options.ranks);
}

/// The work of a straggler may take so many times as long.
constexpr double most_slower = 1e6;

double number_up_to(double most, const std::string& text, const std::string& option) {
  if (const std::string why = why_no_number(text, 0.0, most); !why.empty())
    throw InvalidArgument(fmt::format("{}: {}", option, why));
  return *number_of<double>(text);
}

/// Reads NAME=NANOSECONDS,... over `costs`.
void read_costs(const std::string& text, RankCosts& costs) {
  std::vector<const double*> known;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at), name = part.substr(0, part.find('='));
    double* const cost = cost_named(costs, name);
    if (!cost || name == part)
      throw InvalidArgument(
          fmt::format("--costs '{}', column {}: expected NAME=NUMBER with one of {}", text, at + 1,
                      cost_names()));
    if (std::ranges::find(known, cost) != known.end())
      throw InvalidArgument(fmt::format(
          "--costs '{}', column {}: '{}' stands here a second time: leave one of the two out", text,
          at + 1, name));
    known.push_back(cost);
    *cost = number_up_to(most_property, part.substr(name.size() + 1), "--costs " + name);
    at = end + 1;
  }
}

Hosts hosts_of(int ranks, int each) {
  if (each >= ranks) return ranks;
  std::vector<int> host_of;
  host_of.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) host_of.push_back(rank / each);
  return Hosts{std::move(host_of)};
}

FabricSpec fabric_of(const SimulateOptions& options) try {
  return parse_fabric(options.fabric);
} catch (const InvalidArgument& error) {
  throw InvalidArgument(fmt::format("--fabric {}", error.what()));
}

/// The cluster that --topology and --fabric describe; options override the file.
TopologyFile described(const SimulateOptions& options) {
  TopologyFile file;
  if (!options.topology.empty()) file = read_topology(options.topology);
  if (!options.fabric.empty()) file.network = fabric_of(options);
  if (file.network.kind == "rail" && options.topology.empty()) {
    // A GPU reads its peer over a link of its own, at what an NVLink of the fourth generation
    // gives.
    file.ranks_per_host = 8;
    file.memory = {"nvlink", 700, 1 / 300.0};
    file.costs = gpu_costs();
  }
  if (options.ranks_per_host > 0) file.ranks_per_host = options.ranks_per_host;
  read_costs(options.costs, file.costs);
  return file;
}

Cluster cluster_of(const SimulateOptions& options, const TopologyFile& file) {
  const int each = std::min(file.ranks_per_host, options.ranks);
  Cluster cluster{.hosts = hosts_of(options.ranks, each), .fabric = nullptr};
  cluster.port_per_rank = file.port_per_rank();
  cluster.costs = file.costs;
  cluster.memory = file.memory;
  const int ports = cluster.port_per_rank ? options.ranks : cluster.hosts.count();
  try {
    cluster.fabric = make_fabric(file.network, ports, cluster.port_per_rank ? each : 1);
  } catch (const InvalidArgument& error) {
    const std::string place = options.fabric.empty() ? file.network_place : "--fabric";
    throw InvalidArgument(fmt::format("{}{}{}", place, place.empty() ? "" : ": ", error.what()));
  }
  return cluster;
}

Disturbance disturbance_of(const SimulateOptions& options) {
  Disturbance disturbance;
  const auto ranks = static_cast<std::size_t>(options.ranks);
  if (options.skew_us > 0) {
    std::mt19937_64 random{options.seed};
    std::uniform_real_distribution<double> late{0, options.skew_us * 1000};
    for (std::size_t rank = 0; rank < ranks; ++rank) disturbance.late.push_back(late(random));
  }
  std::set<int> slow;
  for (const std::string& straggler : options.stragglers) {
    const std::size_t colon = std::min(straggler.find(':'), straggler.size());
    const int rank = whole_number(straggler.substr(0, colon), "--straggler");
    if (rank >= options.ranks || colon == straggler.size())
      throw InvalidArgument(
          fmt::format("--straggler {}: expected RANK:FACTOR with a rank below {}, such as 3:2.5",
                      straggler, options.ranks));
    if (!slow.insert(rank).second)
      throw InvalidArgument(
          fmt::format("--straggler {}: rank {} has a factor already: give one", straggler, rank));
    disturbance.slower.resize(ranks, 1);
    disturbance.slower[static_cast<std::size_t>(rank)] =
        number_up_to(most_slower, straggler.substr(colon + 1), "--straggler " + straggler);
  }
  return disturbance;
}

}  // namespace

Scenario::Scenario(const SimulateOptions& options)
    : options_(options),
      file_(described(options)),
      cluster_(cluster_of(options, file_)),
      call_(call_of(options)),
      rules_(rules_of(Settings::from_environment(), cluster_.hosts)),
      disturbance_(disturbance_of(options)) {
  add_ways();
  simulate();
}

std::string Scenario::own_choice() const {
  const Choice choice = choose(call_, cluster_.hosts, rules_);
  return fmt::format("{}, {}", full_name(choice.algorithm->name, choice.protocol), choice.reason);
}

/// The rule that decides about the call where the options do not; null: none.
const AlgorithmRules::Rule* Scenario::rule() const {
  if (!options_.algorithm.empty() || options_.explains) return nullptr;
  const RuledCall asked = ruled_call(call_, cluster_.hosts);
  const auto found = std::ranges::find_if(rules_.all(), [&](const AlgorithmRules::Rule& rule) {
    return rule.matches(asked) && options_.ranks <= rule.algorithm->max_ranks;
  });
  return found == rules_.all().end() ? nullptr : &*found;
}

/// The one that is asked for, or all of them.
std::vector<const Algorithm*> Scenario::candidates() const {
  AddedAlgorithms& added = AddedAlgorithms::of_process();
  if (const auto* const decides = rule()) return {decides->algorithm};
  if (!options_.algorithm.empty()) {
    const auto* const named = added.find(call_.collective, options_.algorithm, cluster_.hosts);
    if (named) return {named};
    throw InvalidArgument(
        fmt::format("--algorithm {}: CAPSTAN_SCHEDULES has no schedule of it for {} ranks: "
                    "simulate as many as its files have",
                    options_.algorithm, options_.ranks));
  }
  std::vector<const Algorithm*> all;
  for (const Algorithm& algorithm : algorithms(call_.collective)) all.push_back(&algorithm);
  for (const std::string& name : added.names(call_.collective))
    if (const auto* const algorithm = added.find(call_.collective, name, cluster_.hosts))
      all.push_back(algorithm);
  return all;
}

void Scenario::add_ways() {
  std::optional<Protocol> wanted;
  if (!options_.protocol.empty()) wanted = protocol_named(options_.protocol);
  if (const auto* const decides = rule(); decides && !wanted) wanted = decides->protocol;
  for (const Algorithm* algorithm : candidates())
    for (const Protocol protocol : {Protocol::staged, Protocol::inline_packets})
      if (!wanted || protocol == *wanted) add_way(*algorithm, protocol);
  if (ways_.empty())
    throw InvalidArgument(
        fmt::format("a rule of CAPSTAN_ALGORITHM asks for {}, which is not simulated: pass "
                    "--protocol staged or inline_packets",
                    rule()->text));
  if (std::ranges::none_of(ways_, [](const Way& way) { return way.verdict.empty(); }))
    throw InvalidArgument(fmt::format("no way is left to run {} on {} ranks: {}", to_string(call_),
                                      options_.ranks, ways_.front().verdict));
}

void Scenario::add_way(const Algorithm& algorithm, Protocol protocol) {
  Way way{.call = {.call = call_, .algorithm = &algorithm, .protocol = protocol}};
  way.call.disturbance = disturbance_;
  way.call.every_rank = options_.every_rank;
  const int ranks = options_.ranks;
  if (ranks > algorithm.max_ranks) {
    way.verdict = fmt::format("made for up to {} ranks", algorithm.max_ranks);
  } else if (!algorithm.suits(cluster_.hosts)) {
    way.verdict = "made for several hosts with several ranks";
  } else if (in_packets(protocol) && !fits_packets(algorithm, protocol, cluster_.hosts, call_)) {
    way.verdict = "its packets are longer than a slot";
  } else {
    const Bytes usual = block_bytes(ranks, MachineView{}.chunk);
    const Bytes longest = options_.block.empty() ? usual : parse_size(options_.block, "--block");
    const Bytes rounding = bytes_of(staging_unit, Bytes{8}) * static_cast<std::uint64_t>(ranks + 1);
    Choice choice{.algorithm = &algorithm, .protocol = protocol};
    if (const auto* const decides = rule()) choice.times_shorter = decides->times_shorter;
    way.call.block = block_length(call_, choice, cluster_.hosts, {.block = longest},
                                  SlotLayout{ranks, longest + rounding});
  }
  ways_.push_back(std::move(way));
}

/// Simulates in the order of least times, which finds a good way early.
void Scenario::simulate() {
  const auto candidates =
      std::ranges::count_if(ways_, [](const Way& w) { return w.verdict.empty(); });
  const bool competes = candidates > 1 && options_.algorithm.empty() && !rule();
  for (Way& way : ways_)
    if (way.verdict.empty() && candidates > 1) way.least = least_time(way.call, cluster_);
  std::ranges::stable_sort(
      ways_, {}, [](const Way& way) { return std::pair{!way.verdict.empty(), way.least}; });
  double best = std::numeric_limits<double>::infinity();
  perf::ProgressBar progress{static_cast<std::size_t>(candidates)};
  for (Way& way : ways_) {
    if (!way.verdict.empty()) continue;
    progress.show(fmt::format("simulating {}", way.call.algorithm->name));
    const perf::ProgressBar::Step step{progress};
    if (way.least >= best) {
      way.verdict = "not simulated: it takes at least as long";
      continue;
    }
    if (competes && steps_of(way.call, cluster_) > most_steps_of_candidate) {
      way.verdict = "not simulated: too many steps beside others; name it by --algorithm";
      continue;
    }
    Forecast found = forecast(way.call, cluster_);
    way.time = found.time;
    way.split = found.split;
    if (found.time < best) best = found.time, best_ = std::move(found);
  }
  if (std::isinf(best)) refuse_all();
  std::ranges::stable_sort(ways_, {}, [](const Way& way) {
    return way.time.value_or(std::numeric_limits<double>::infinity());
  });
  for (Way& way : ways_)
    if (way.time && way.verdict.empty())
      way.verdict = &way == &ways_.front() ? "the fastest"
                                           : fmt::format("{:.2f} times as long", *way.time / best);
}

void Scenario::refuse_all() const {
  throw InvalidArgument(
      fmt::format("{} on {} ranks: every candidate has more than {} steps: name one by `capstan "
                  "simulate --algorithm`, such as {}, or take fewer ranks",
                  to_string(call_), options_.ranks, most_steps_of_candidate,
                  ways_.front().call.algorithm->name));
}

CriticalPath Scenario::critical_path() const {
  return capstan::critical_path(best_.run, ways_.front().call.disturbance);
}

}  // namespace capstan::cli
