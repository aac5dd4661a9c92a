// SPDX-License-Identifier: Apache-2.0
#include "core/profiles/machine_state.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <sstream>

#include "core/platform/net/host_identity.hpp"

namespace capstan {
namespace {

/// Shares and events from which on a measurement counts as disturbed. A thread that spins on a core
/// of its own waits a thousandth of its time for the kernel's threads.
constexpr double most_others = 0.25, most_stolen = 0.05, most_waited = 0.02, most_slowed = 0.2;
/// Processors count in ticks of a hundredth of a second.
constexpr double shortest_to_judge = 0.9 * moment_to_look;

double seconds_of(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

/// The first number in a file; 0 if there is none.
template <class Number>
Number first_number(const std::filesystem::path& file) {
  Number number{};
  std::ifstream{file} >> number;
  return number;
}

/// "cpu  user nice system idle iowait irq softirq steal ..." and a line for each processor.
void read_processors(const std::filesystem::path& proc, MachineReading& reading) {
  std::ifstream file{proc / "stat"};
  const double tick = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft_irq = 0, steal = 0;
  file >> name >> user >> nice >> system >> idle >> wait >> irq >> soft_irq >> steal;
  reading.busy = tick * (user + nice + system + irq + soft_irq);
  reading.stolen = tick * steal;
  for (std::string line; std::getline(file, line);) reading.processors += line.starts_with("cpu");
}

/// "seconds that it ran, seconds that it waited, slices", in nanoseconds.
void read_thread(const std::filesystem::path& proc, MachineReading& reading) {
  std::ifstream file{proc / "thread-self/schedstat"};
  double ran = 0, waited = 0;
  file >> ran >> waited;
  reading.ran = ran / 1e9, reading.waited = waited / 1e9;
  reading.used = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  rusage usage{};
  if (::getrusage(RUSAGE_THREAD, &usage) == 0)
    reading.pushed_off = static_cast<std::uint64_t>(usage.ru_nivcsw);
}

std::uint64_t throttled_by_quota(const std::filesystem::path& root) {
  std::ifstream file{root / "sys/fs/cgroup/cpu.stat"};
  std::string name;
  for (std::uint64_t value = 0; file >> name >> value;)
    if (name == "nr_throttled") return value;
  return 0;
}

void read_core(const std::filesystem::path& root, MachineReading& reading) {
  reading.core = ::sched_getcpu();
  const auto folder = root / fmt::format("sys/devices/system/cpu/cpu{}", reading.core);
  reading.megahertz = first_number<double>(folder / "cpufreq/scaling_cur_freq") / 1000;
  reading.throttled = throttled_by_quota(root) +
                      first_number<std::uint64_t>(folder / "thermal_throttle/core_throttle_count");
}

/// Sums over the ranks of one machine.
struct OnOneMachine {
  double seconds = 0, busy = 0, stolen = 0, used = 0;
  int processors = 1, ranks = 0;

  void add(const MachineReading& from, const MachineReading& to) {
    seconds = std::max(seconds, to.seconds - from.seconds);
    busy = std::max(busy, to.busy - from.busy);
    stolen = std::max(stolen, to.stolen - from.stolen);
    used += to.used - from.used;
    processors = std::max(processors, to.processors);
    ++ranks;
  }
  double share_of(double processor_seconds) const {
    if (seconds < shortest_to_judge) return 0;
    return std::clamp(processor_seconds / (seconds * processors), 0.0, 1.0);
  }
};

double share_waited(const MachineReading& from, const MachineReading& to) {
  constexpr double shortest = 5e-3;  // of a thread that was ready: less says nothing
  const double waited = to.waited - from.waited, ready = waited + to.ran - from.ran;
  return ready > shortest ? waited / ready : 0;
}

void add_rank(const MachineReading& from, const MachineReading& to, MachineState& state) {
  state.load = std::max(state.load, to.load);
  state.waited = std::max(state.waited, share_waited(from, to));
  if (from.megahertz > 0 && from.core == to.core)
    state.slowed = std::max(state.slowed, 1 - to.megahertz / from.megahertz);
  state.pushed_off = std::max(state.pushed_off, to.pushed_off - from.pushed_off);
  state.moved += from.core != to.core;
  if (from.core == to.core) state.throttled += to.throttled - from.throttled;
}

/// "; a rank waited for its core 47 % of the time".
void add_cause(std::string& text, double share, double most, const char* cause) {
  if (share > most) text += fmt::format("; {} {:.0f} %", cause, 100 * share);
}

}  // namespace

MachineReading read_machine(const std::filesystem::path& root) {
  MachineReading reading;
  reading.host = std::hash<std::string>{}(boot_id());
  reading.load = first_number<double>(root / "proc/loadavg");
  read_processors(root / "proc", reading);
  read_thread(root / "proc", reading);
  read_core(root, reading);
  reading.seconds = seconds_of(CLOCK_MONOTONIC);
  return reading;
}

MachineState MachineState::of(std::span<const MachineStretch> ranks) {
  MachineState state;
  std::map<std::uint64_t, OnOneMachine> machines;
  for (const auto& [from, to] : ranks) {
    machines[to.host].add(from, to);
    add_rank(from, to, state);
  }
  for (const auto& [host, machine] : machines) {
    state.processors = std::max(state.processors, machine.processors);
    state.others = std::max(state.others, machine.share_of(machine.busy - machine.used));
    state.stolen = std::max(state.stolen, machine.share_of(machine.stolen));
    state.shares_cores = state.shares_cores || machine.ranks > machine.processors;
  }
  return state;
}

bool MachineState::busy() const {
  return others > most_others || stolen > most_stolen || slowed > most_slowed || throttled > 0 ||
         (!shares_cores && waited > most_waited);
}

std::string MachineState::text() const {
  std::string text = fmt::format("{}: load {:.2f}", busy() ? "busy" : "quiet", load);
  if (others >= 0)
    text +=
        fmt::format(", other programs used {:.0f} % of {} processors", 100 * others, processors);
  if (!shares_cores) add_cause(text, waited, most_waited, "a rank waited for its core:");
  add_cause(text, stolen, most_stolen, "the hypervisor took");
  add_cause(text, slowed, most_slowed, "the frequency fell by");
  if (throttled > 0) text += fmt::format("; slowed down {} times by heat or a quota", throttled);
  return text;
}

MachineState await_quiet(double patience, const std::function<MachineReading()>& look) {
  MachineReading before = look();
  const double end = before.seconds + patience;
  while (true) {
    const MachineReading now = look();
    const MachineStretch stretch{before, now};
    const MachineState state = MachineState::of(std::span{&stretch, 1});
    if (!state.busy() || now.seconds >= end) return state;
    before = now;
  }
}

}  // namespace capstan
