#include "core/cli/topology/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "capstan/communicator.hpp"
#include "core/net/host_identity.hpp"
#include "core/simulation/cluster.hpp"
#include "core/tuning/find_profile.hpp"
#include "kernels/cpu/reduce.hpp"
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

/// What this core takes to copy and to combine, by the kernels that calls use.
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

Pair measure_pair(Communicator& pair) {
  Communicator ruled =
      pair.with_algorithm("all_reduce:recursive_doubling/staged;broadcast:binomial/staged");
  std::vector<float> data(long_floats, 1);
  const auto meet = [&] { ruled.barrier(); };
  const auto time = [&](std::size_t length, int calls) {
    const std::span<float> part{data.data(), length};
    return least_time(calls, meet, [&] { ruled.all_reduce(part, ReduceOp::max); });
  };
  time(long_floats, 3);  // the first calls prepare
  Pair found;
  found.small = time(2, 100);
  const double large = time(long_floats, 10);
  found.byte = std::max(large - found.small, 0.0) / (long_floats * sizeof(float));
  found.stream =
      least_time(12, meet, [&] { ruled.broadcast(std::span<float>{data.data(), 2}, 0); });
  ruled.barrier();
  return found;
}

/// Ranks 0 and `other`; empty on ranks that are not among them.
std::optional<Pair> measure(Communicator& world, int other) {
  const int ranks[] = {0, other};
  auto pair = world.subgroup(ranks);
  if (!pair) return std::nullopt;
  return measure_pair(*pair);
}

/// The host of each rank, as the number of its first rank.
std::vector<int> hosts_of(Communicator& world) {
  const std::uint64_t own = std::hash<std::string>{}(host_identity());
  std::vector<std::uint64_t> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::span{&own, 1}, std::span{all});
  std::vector<int> hosts;
  for (const std::uint64_t host : all)
    hosts.push_back(static_cast<int>(std::ranges::find(all, host) - all.begin()));
  return hosts;
}

/// The number of different hosts.
int count_hosts(const std::vector<int>& hosts) {
  return static_cast<int>(std::set<int>{hosts.begin(), hosts.end()}.size());
}

/// The costs and links that have been measured, which become a topology file.
class Calibration {
 public:
  /// The hosts of all ranks. Those of the file are like that of rank 0.
  explicit Calibration(const std::vector<int>& hosts)
      : ranks_(static_cast<int>(hosts.size())),
        hosts_(count_hosts(hosts)),
        ranks_per_host_(static_cast<int>(std::ranges::count(hosts, 0))) {
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

}  // namespace

std::string calibrated_file() {
  return user_file(Fingerprint::of(Machine::discover()), "clusters");
}

std::optional<std::string> calibrate_as_rank() {
  Settings settings = Settings::from_environment();
  settings.autotune = false;
  settings.algorithm.clear();
  settings.profile = "none";
  Communicator world = Communicator::from_environment(settings);
  const auto hosts = hosts_of(world);
  std::optional<Calibration> calibration;
  if (world.rank() == 0) calibration.emplace(hosts);
  if (const auto peer = std::find(hosts.begin() + 1, hosts.end(), 0); peer != hosts.end()) {
    const auto pair = measure(world, static_cast<int>(peer - hosts.begin()));
    if (calibration) calibration->near(*pair);
  }
  const auto remote = std::ranges::find_if(hosts, [](int host) { return host != 0; });
  if (remote != hosts.end()) {
    const auto pair = measure(world, static_cast<int>(remote - hosts.begin()));
    if (calibration) calibration->far(*pair);
  }
  world.barrier();
  if (!calibration) return std::nullopt;
  return calibration->to_json().dump(2);
}

}  // namespace capstan::cli
