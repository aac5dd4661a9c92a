// SPDX-License-Identifier: Apache-2.0

// The processor time of the first call of an added algorithm: the proof of its plan, by
// ranks and algorithms. Copies of built-in algorithms are added, and plans of rank 0 are made: of a
// call that is new, of the same call again (as other ranks of the process make it), and of a call
// of another size.

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "algorithms/registry.hpp"
#include "capstan/custom_algorithm.hpp"
#include "core/schedule/custom/added_algorithms.hpp"
#include "core/schedule/custom/proven_plans.hpp"

namespace {

using namespace capstan;  // NOLINT: a program of the project

const Algorithm& copy_of(const Algorithm& original, int ranks, std::uint64_t count) {
  const std::string name = fmt::format("copy_of_{}_{}_{}", original.name, ranks, count);
  add_algorithm({name, original.collective, [&](const Group& group, const Shape& shape) {
                   return original.schedule(group, shape);
                 }});
  return *AddedAlgorithms::of_process().find(original.collective, name, Hosts{ranks});
}

double processor_milliseconds() {
  return static_cast<double>(std::clock()) * 1000 / CLOCKS_PER_SEC;
}

double milliseconds_of(const Call& call, const Choice& choice, int ranks) {
  const PlanLimits limits{.block = Bytes{256 << 10}, .cached_buffers = Bytes{1 << 20}};
  const SlotLayout layout{ranks, Bytes{256 << 10}};
  ProofPolicy policy;
  policy.limit = std::chrono::seconds{1000};
  const double begin = processor_milliseconds();
  (void)ProvenPlans::of_process().make(call, choice, Hosts{ranks}, Rank{0}, limits, layout, policy);
  return processor_milliseconds() - begin;
}

void measure(Collective collective, std::string_view name, int ranks, std::uint64_t count,
             Protocol protocol) {
  const Algorithm& original = algorithm_named(collective, name);
  if (ranks > original.max_ranks) return;
  const double begin = processor_milliseconds();
  const Choice choice{.algorithm = &copy_of(original, ranks, count), .protocol = protocol};
  const double adding = processor_milliseconds() - begin;
  Call call{.collective = collective, .type = DataType::f32, .shape = {.count = Elements{count}}};
  const double first = milliseconds_of(call, choice, ranks),
               again = milliseconds_of(call, choice, ranks);
  call.shape.count += Elements{static_cast<std::uint64_t>(ranks)};
  const double other = milliseconds_of(call, choice, ranks);
  fmt::print("{:>15} {:>15} {:>6} {:>9} {:>10} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f}\n",
             name_of(collective), name, ranks, count, name_of(protocol), adding, first, again,
             other);
  std::fflush(stdout);
}

}  // namespace

int main() {
  fmt::print("{:>15} {:>15} {:>6} {:>9} {:>10} {:>10} {:>10} {:>10} {:>10}   ms\n", "collective",
             "algorithm", "ranks", "elements", "protocol", "adding", "first", "again",
             "other size");
  for (const int ranks : {8, 32, 128}) {
    for (const std::uint64_t count : {1000, 1'000'000})
      for (const auto* name : {"ring", "direct", "rabenseifner"})
        measure(Collective::all_reduce, name, ranks, count, Protocol::staged);
    measure(Collective::broadcast, "binomial", ranks, 1'000'000, Protocol::staged);
  }
}
