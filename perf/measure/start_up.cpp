// SPDX-License-Identifier: Apache-2.0
#include "perf/measure/start_up.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <fstream>
#include <sstream>

namespace capstan::perf {
namespace {

double milliseconds(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

/// The start of this process on CLOCK_BOOTTIME, as the kernel reports it: rounded down to a tick.
double started_by_kernel() {
  std::ifstream file{"/proc/self/stat"};
  std::string line, field;
  double ticks = 0;
  std::getline(file, line);
  std::istringstream fields{line.substr(line.rfind(')') + 1)};  // names may hold anything
  constexpr int after_name = 20;                                // "starttime" of proc(5)
  for (int i = 0; i < after_name; ++i) fields >> field;
  std::from_chars(field.data(), field.data() + field.size(), ticks);
  return ticks * 1e3 / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

/// Evaluated before main: processor time so far was spent on loading the program.
const double loaded = milliseconds(CLOCK_BOOTTIME) - milliseconds(CLOCK_PROCESS_CPUTIME_ID);

double process_start() {
  const double tick = 1e3 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  const double kernel = started_by_kernel();
  return std::clamp(loaded, kernel, kernel + tick);
}

}  // namespace

double since_process_start() {
  return milliseconds(CLOCK_BOOTTIME) - process_start();
}

StartUp measure_start_up(Communicator& world) {
  StartUp start_up{.ready = since_process_start()};
  world.all_reduce(std::span{&start_up.ready, 1}, ReduceOp::max);
  start_up.first_collective = since_process_start();
  world.all_reduce(std::span{&start_up.first_collective, 1}, ReduceOp::max);
  return start_up;
}

std::string to_line(const StartUp& start_up) {
  return fmt::format(
      "# start-up: ready {:.1f} ms after the start of the process, first collective ended after "
      "{:.1f} ms (slowest rank)\n",
      start_up.ready, start_up.first_collective);
}

nlohmann::json to_json(const StartUp& start_up) {
  return {{"ready_ms", start_up.ready}, {"first_collective_ms", start_up.first_collective}};
}

}  // namespace capstan::perf
