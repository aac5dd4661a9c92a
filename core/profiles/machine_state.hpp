// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace capstan {

/// The counters of this machine and of the calling thread at one moment; 0 where the system lacks
/// one.
struct MachineReading {
  std::uint64_t host = 0;        ///< tells machines apart
  double seconds = 0;            ///< of a steady clock
  double load = 0;               ///< load average of the last minute
  int processors = 0;            ///< that are online
  double busy = 0;               ///< seconds in which processors have worked, of all together
  double stolen = 0;             ///< seconds that a hypervisor has taken from them
  double used = 0;               ///< processor seconds of this process
  double ran = 0;                ///< seconds in which this thread has run
  double waited = 0;             ///< seconds in which it was ready, but another one had its core
  std::uint64_t pushed_off = 0;  ///< times that it had to give up its core
  std::uint64_t throttled = 0;   ///< times that heat or a quota has slowed it down
  double megahertz = 0;          ///< of its core
  int core = -1;                 ///< where it runs
};

/// Reads the counters, below `root` those of a test.
MachineReading read_machine(const std::filesystem::path& root = "/");

/// The change of the counters while one rank measured. Ranks exchange it.
struct MachineStretch {
  MachineReading from, to;
};

/// The disturbance of a measurement by other programs and by the machine.
struct MachineState {
  int processors = 1;
  double load = 0;              ///< load average at the end
  double others = 0;            ///< share of all processors that other programs used; -1: unknown
  double stolen = 0;            ///< share that a hypervisor took
  double waited = 0;            ///< share of its time that a rank waited for its core: the greatest
  double slowed = 0;            ///< share by which the frequency fell
  std::uint64_t throttled = 0;  ///< times that heat or a quota slowed a rank down
  std::uint64_t pushed_off = 0;  ///< times that a rank had to give up its core: the most
  int moved = 0;                 ///< ranks that ended on another core
  bool shares_cores = false;     ///< ranks waited for each other: what they waited says nothing

  /// From the stretches of all ranks. Processors are judged only where ranks have measured for long
  /// enough: their counters have few ticks.
  static MachineState of(std::span<const MachineStretch> ranks);

  /// A measurement in this state is worth nothing.
  bool busy() const;
  /// "quiet: other programs used 1 % of 2 processors, load 0.12", or "busy: ...".
  std::string text() const;
};

/// Waits until the machine is quiet, for `patience` seconds at most, and says how it is. `look`
/// reads the counters, a moment after it did so before.
MachineState await_quiet(double patience, const std::function<MachineReading()>& look);

/// A moment after which looking again says something, in seconds.
inline constexpr double moment_to_look = 0.1;

}  // namespace capstan
