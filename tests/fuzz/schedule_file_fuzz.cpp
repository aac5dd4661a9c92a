// SPDX-License-Identifier: Apache-2.0

// Feeds arbitrary text, and schedule files with changes, to what reads schedule files. It must
// refuse them with one of Capstan's errors or make schedules of them, which can be written in every
// format, read again, and proven or refused.

#include <algorithm>
#include <optional>

#include "capstan/error.hpp"
#include "core/schedule/interchange/formats.hpp"
#include "core/schedule/interchange/prove_set.hpp"
#include "tests/fuzz/json_edits.hpp"

using namespace capstan;
using fuzz::require;

namespace {

/// With this many ranks proofs and pictures take no time.
constexpr int few_ranks = 4;

Shape shape_for(Collective collective, int ranks) {
  constexpr std::uint64_t count = 5;
  Shape shape{.count = Elements{count}, .root = has_root(collective) ? ranks - 1 : 0};
  if (collective == Collective::barrier) shape.count = Elements{0};
  if (!has_counts(collective)) return shape;
  const int lengths = collective == Collective::all_to_all_v ? ranks * ranks : ranks;
  for (int i = 0; i < lengths; ++i) shape.counts.emplace_back(static_cast<std::uint64_t>(i % 3));
  shape.count = Elements{0};
  return shape;
}

bool is_small(const ScheduleSet& set) {
  constexpr std::size_t few_steps = 64;
  return set.schedules.size() <= few_ranks &&
         std::ranges::all_of(set.schedules, [](const Schedule& schedule) {
           return schedule.steps().size() <= few_steps && schedule.phases() <= few_ranks;
         });
}

void require_same(const ScheduleSet& read, const ScheduleSet& set) {
  require(read.algorithm == set.algorithm && read.collective == set.collective);
  require(read.hosts == set.hosts && read.shape == set.shape && read.traffic == set.traffic);
  require(read.schedules == set.schedules);
}

void require_text(const Error& error) {
  require(!std::string_view{error.what()}.empty());
}

/// Whether it is right or not.
void prove(const ScheduleSet& set) {
  try {
    const AlgorithmProof proof = prove_set(set);
    require(proof.proofs > 0);
    for (const std::string& text : proof.texts()) require(!text.empty());
  } catch (const Error& error) {
    require_text(error);
  }
}

/// Documents as `capstan export` writes them.
const std::vector<nlohmann::json>& documents() {
  static const std::vector<nlohmann::json> all = [] {
    std::vector<nlohmann::json> made;
    const auto add = [&](const Algorithm& algorithm, const Hosts& hosts) {
      const Shape shape = shape_for(algorithm.collective, hosts.ranks());
      made.push_back(nlohmann::json::parse(to_json(schedule_set(algorithm, hosts, shape))));
    };
    for (const Collective collective : all_collectives())
      for (const Hosts& hosts : {Hosts{2}, Hosts{{0, 0, 1}}})
        add(algorithms(collective).front(), hosts);
    add(algorithm_named(Collective::all_reduce, "ring"), 3);
    add(algorithm_named(Collective::all_gather, "ring"), 1);
    return made;
  }();
  return all;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  return json_seeds(documents());
}

namespace {

void use(const ScheduleSet& set) {
  require_same(schedule_set_from_json(to_json(set), "file"), set);
  require(!to_text(set).empty() && !to_goal(set, Bytes{4}, {}).empty());
  if (!is_small(set)) return;
  require(!to_dot(set).empty() && !to_svg(set).empty());
  prove(set);
}

std::optional<ScheduleSet> read(const std::string& text) {
  try {
    return schedule_set_from_json(text, "file");
  } catch (const Error& error) {
    require_text(error);
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Source source{data, size};
  if (const auto set = read(fuzz::json_text(source, documents()))) use(*set);
  return 0;
}
