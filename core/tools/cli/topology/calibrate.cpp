// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/topology/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/communicator/checked_call.hpp"
#include "core/engine/run/machine_view.hpp"
#include "core/engine/world/world.hpp"
#include "core/profiles/find_profile.hpp"
#include "core/profiles/write_profile.hpp"
#include "core/schedule/simulation/cluster.hpp"
#include "core/tools/cli/tune/cell_clock.hpp"
#include "core/tools/cli/tune/model_sweep.hpp"
#include "kernels/cpu/reduce.hpp"
#include "perf/measure/cell.hpp"
#include "topology/machine.hpp"

namespace capstan::cli {
namespace {

constexpr int rounds = 7;
constexpr std::size_t long_floats = 32 << 10;  // 128 KiB, which stay in a core's cache

/// The least time of a call in several rounds of so many, in nanoseconds: others disturb the rest.
double least_time(int calls, const std::function<void()>& before,
                  const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds; ++round) {
    before();
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::nano> took = Clock::now() - begin;
    least = std::min(least, took.count() / calls);
  }
  return least;
}

/// Measures how fast this core copies and combines, by the kernels that calls use.
void measure_core(RankCosts& costs) {
  std::vector<float> a(long_floats, 1), b(long_floats, 2);
  constexpr std::size_t bytes = long_floats * sizeof(float);
  const void* const sources[] = {a.data(), b.data()};
  const kernels::Reduction reduction{
      .destination = b.data(), .sources = sources, .source_count = 2, .element_count = long_floats};
  const auto reduce = kernels::reduce_kernel(DataType::f32, ReduceOp::max);
  const auto nothing = [] {};
  const double copied =
      least_time(50, nothing, [&] { kernels::copy(b.data(), a.data(), bytes, false); });
  const double combined = least_time(50, nothing, [&] { reduce(reduction); });
  costs.copy_byte = copied / bytes / 2;
  costs.reduce_byte = std::max(combined / bytes - 3 * costs.copy_byte, 0.0) / 2;
}

/// The times of a pair of ranks.
struct Pair {
  double small = 0;   ///< of an all_reduce of 8 bytes
  double byte = 0;    ///< more of it for each byte
  double stream = 0;  ///< of a broadcast of 8 bytes for its root, in a burst
};

/// Runs calls of floats in place on an engine.
class Calls {
 public:
  explicit Calls(Engine& engine) : engine_(engine), data_(long_floats, 1) {}

  void run(Collective collective, std::size_t length) {
    perf::Cell cell{.collective = collective,
                    .op = ReduceOp::max,
                    .shape = {.count = Elements{length}},
                    .in_place = true};
    auto* const data = reinterpret_cast<std::byte*>(data_.data());
    const CheckedCall call =
        check(perf::request_of(cell, engine_.rank(), engine_.size(), data, data), engine_.rank(),
              engine_.size());
    engine_.run(call.call, call.input, call.output);
  }

 private:
  Engine& engine_;
  std::vector<float> data_;
};

Pair measure_pair(Engine& pair) {
  pair.use_rules(
      AlgorithmRules::parse("all_reduce:recursive_doubling/staged;broadcast:binomial/staged"));
  Calls calls{pair};
  const auto meet = [&] { calls.run(Collective::barrier, 0); };
  const auto time = [&](std::size_t length, int times) {
    return least_time(times, meet, [&] { calls.run(Collective::all_reduce, length); });
  };
  time(long_floats, 3);  // the first calls prepare
  Pair found;
  found.small = time(2, 100);
  const double large = time(long_floats, 10);
  found.byte = std::max(large - found.small, 0.0) / (long_floats * sizeof(float));
  found.stream = least_time(12, meet, [&] { calls.run(Collective::broadcast, 2); });
  meet();
  return found;
}

/// Ranks 0 and `other`; empty on ranks that are not among them.
std::optional<Pair> measure(Member& world, int other) {
  const int self = world.engine->rank();
  std::vector<Rank> members;
  if (self == 0 || self == other) members = {Rank{0}, Rank{other}};
  const auto pair = make_group(world, members, Purpose::subgroup);
  if (!pair) return std::nullopt;
  return measure_pair(*pair->engine);
}

/// The costs and links that have been measured, which become a topology file.
class Calibration {
 public:
  /// The hosts of all ranks. Those of the file are like that of rank 0.
  explicit Calibration(const Hosts& hosts)
      : ranks_(hosts.ranks()),
        hosts_(hosts.count()),
        ranks_per_host_(hosts.single()
                            ? hosts.ranks()
                            : static_cast<int>(hosts.on(hosts.host_of(Rank{0})).size())) {
    measure_core(costs_);
  }

  /// T = call + signal + flag + latency; per byte it is written, read, combined.
  void near(const Pair& pair) {
    const double fixed = pair.small - costs_.call - costs_.signal;
    memory_.latency = std::clamp(fixed / 4, 1.0, 100.0);
    costs_.flag = std::max(fixed - memory_.latency, 1.0);
    memory_.byte = std::max(pair.byte - 4 * costs_.copy_byte - 2 * costs_.reduce_byte, 0.001);
  }

  /// T = call + send + latency + receive. The root of a burst only sends.
  void far(const Pair& pair) {
    costs_.send = std::clamp(pair.stream - costs_.call, 1.0, pair.small / 2);
    const double rest = std::max(pair.small - costs_.call - costs_.send, 3.0);
    costs_.receive = std::min(costs_.send, rest / 3);
    network_ = {"flat", (rest - costs_.receive) / 2,
                std::max(pair.byte - 3 * costs_.copy_byte - 2 * costs_.reduce_byte, 0.001)};
  }

  nlohmann::json to_json() const {
    const Machine machine = Machine::discover();
    nlohmann::json json{
        {"format", "capstan-topology"},
        {"version", 1},
        {"name", fmt::format("{}, measured with {} ranks on {} host{}",
                             machine.name().empty() ? "this machine" : machine.name(), ranks_,
                             hosts_, hosts_ == 1 ? "" : "s")},
        {"machine", Fingerprint::of(machine).id},
        {"host", {{"ranks", ranks_per_host_}, {"memory", link_json("name", memory_)}}}};
    if (network_) json["network"] = link_json("kind", *network_);
    RankCosts costs = costs_;
    for (const std::string name :
         {"call", "send", "receive", "signal", "flag", "copy-byte", "reduce-byte"})
      json["costs"][name] = round(*cost_named(costs, name));
    return json;
  }

 private:
  /// Four decimals; what is less is noise.
  static double round(double value) { return std::round(value * 1e4) / 1e4; }
  static nlohmann::json link_json(const std::string& title, const LinkClass& link) {
    return {
        {title, link.name}, {"latency", round(link.latency)}, {"bandwidth", round(1 / link.byte)}};
  }

  int ranks_, hosts_, ranks_per_host_;
  RankCosts costs_{};
  LinkClass memory_{"memory", 70, 0.06};
  std::optional<LinkClass> network_;  // none: there is one host
};

/// The first rank, beside rank 0, on the same host as rank 0 or on another; 0: there is none.
int first_beside(const Hosts& hosts, bool same_host) {
  for (int rank = 1; rank < hosts.ranks(); ++rank)
    if (hosts.together(Rank{0}, Rank{rank}) == same_host) return rank;
  return 0;
}

/// The result on rank 0, and the state of the machine on all ranks.
std::pair<MachineState, std::optional<Calibrated>> calibrate_once(Member& world, bool fits_model) {
  const MachineReading before = read_machine();
  const MachineView& machine = world.engine->machine();
  const Hosts& hosts = machine.hosts;
  std::optional<Calibration> calibration;
  if (world.engine->rank() == 0) calibration.emplace(hosts);
  if (const int peer = first_beside(hosts, true); peer > 0) {
    const auto pair = measure(world, peer);
    if (calibration) calibration->near(*pair);
  }
  if (const int peer = first_beside(hosts, false); peer > 0) {
    const auto pair = measure(world, peer);
    if (calibration) calibration->far(*pair);
  }
  MeasuredGroup group{.ranks = hosts.ranks(), .hosts = hosts.count()};
  if (!hosts.single()) group.network = word_for(machine.network);
  group.date = utc_now();
  if (fits_model) group.model = measure_model(*world.engine);
  const MachineState state = state_since(before, *world.engine);
  group.machine = state.text();
  if (!calibration) return {state, std::nullopt};
  return {state, Calibrated{calibration->to_json().dump(2), std::move(group), state}};
}

}  // namespace

std::string calibrated_file() {
  return user_file(Fingerprint::of(Machine::discover()), "clusters");
}

std::optional<Calibrated> calibrate_as_rank(bool fits_model) {
  Member world = join_to_measure();
  auto [state, found] = calibrate_once(world, fits_model);
  if (!state.busy()) return found;
  auto [later, again] = calibrate_once(world, fits_model);
  return later.waited < state.waited ? again : found;
}

}  // namespace capstan::cli
