// SPDX-License-Identifier: Apache-2.0
#include "tests/processes/own_schedules.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "capstan/custom_algorithm.hpp"

namespace capstan {
namespace {

/// Everybody sends everything to everybody. `reversed`: areas lie the other way round.
Schedule exchange(const Group& group, const Shape& shape, bool reversed) {
  ScheduleBuilder s{group, shape.count, shape.count};
  const int p = group.size();
  std::vector<Span> areas;
  for (int i = 0; i < p; ++i) areas.push_back(s.scratch(shape.count));
  const auto area_of = [&](int rank) {
    return areas[static_cast<std::size_t>(reversed ? p - 1 - rank : rank)];
  };
  for (int d = 1; d < p; ++d) s.send(group.right(d), area_of(group.position()), s.input());
  for (int d = 1; d < p; ++d) s.wait(group.right(d));
  std::vector<Span> all;
  for (int i = 0; i < p; ++i) all.push_back(i == group.position() ? s.input() : area_of(i));
  s.complete(s.output(), all);
  return std::move(s).build();
}

}  // namespace

int run_own_schedules() {
  const char* const rank = std::getenv("CAPSTAN_RANK");
  const bool differs = rank && std::string_view{rank} == "1";
  add_algorithm({"own", Collective::all_reduce, [=](const Group& group, const Shape& shape) {
                   return exchange(group, shape, differs && shape.count > Elements{100});
                 }});
  Settings settings = Settings::from_environment();
  settings.algorithm = "all_reduce:own";
  Communicator world = Communicator::from_environment(settings);
  for (const std::size_t count : {50, 1000}) {
    std::vector<float> data(count, 1);
    world.all_reduce(data);
    fmt::print("{} elements: {}\n", count, data.back() == static_cast<float>(world.size()));
  }
  return 0;
}

}  // namespace capstan
