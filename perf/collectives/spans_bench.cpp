// SPDX-License-Identifier: Apache-2.0

// How much of a program's time the spans of a profiler cover, where all it does are collectives.
//
//   capstan run -n 2 -- spans_bench [KIB] [CALLS] [CALLS BEFORE]
//
// All-reduces of KIB KiB (1024) of floats follow one another, CALLS (1000) of them recorded, after
// CALLS BEFORE (0) that are not. The rest of the time is what lies between an end and the next
// begin: recording itself, the program's loop, and the entry into the call.

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <vector>

#include "capstan/communicator.hpp"
#include "capstan/observe/profiler.hpp"

namespace capstan::perf {
namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

std::size_t number(int count, char** arguments, int index, std::size_t otherwise) {
  return index < count ? std::strtoull(arguments[index], nullptr, 10) : otherwise;
}

int run(std::size_t bytes, std::size_t calls, std::size_t before) {
  auto world = Communicator::from_environment();
  const std::vector<float> input(bytes / sizeof(float), 1.F);
  std::vector<float> output(input.size());
  const auto call = [&] { world.all_reduce(std::span{input}, std::span{output}); };
  for (std::size_t i = 0; i < before; ++i) call();
  Profiler profiler{ProfilerOptions{.capacity = calls}};
  world.barrier();
  world.attach(profiler);
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < calls; ++i) call();
  const double whole = Microseconds{Clock::now() - begin}.count();
  double covered = 0;
  for (const OperationProfile& each : profiler.profiles())
    covered += Microseconds{each.duration}.count();
  const auto n = static_cast<double>(calls);
  if (world.rank() == 0)
    fmt::print("{} spans of {:.2f} us: {:.2f} % of the time; {:.0f} ns between them\n",
               profiler.profiles().size(), covered / n, 100 * covered / whole,
               1000 * (whole - covered) / n);
  return 0;
}

}  // namespace
}  // namespace capstan::perf

int main(int count, char** arguments) {
  using capstan::perf::number;
  return capstan::perf::run(number(count, arguments, 1, 1024) << 10,
                            number(count, arguments, 2, 1000), number(count, arguments, 3, 0));
}
