// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "perf/measure/cell.hpp"

namespace capstan::soak {

/// The faults that happen to a job in the middle of its work.
enum class Fault {
  kill,
  stop,
  cut,
  slow,
  blame  ///< a stop, too: each seed is another kind of call in another arrangement of 3 or 4 ranks
};
inline constexpr Fault all_faults[] = {Fault::kill, Fault::stop, Fault::cut, Fault::slow,
                                       Fault::blame};

std::string_view name_of(Fault fault);
std::optional<Fault> fault_named(std::string_view name);

/// How something is slow.
enum class Slowness {
  pauses,      ///< the victim is stopped and continued, again and again
  rate,        ///< its host's cable carries little
  flap,        ///< its host's cable is out for a moment
  standstill,  ///< its host's cable carries so little that the deadline passes
};

/// One run, which its seed determines: the same in the process that watches and in every rank.
struct Scenario {
  Scenario(Fault what, std::uint64_t from);

  Fault fault;
  std::uint64_t seed;
  int hosts;            ///< 2 to 4; of a blame 1, too
  int ranks_each;       ///< 1 or 2; of a blame up to 4
  bool in_turns;        ///< neighbouring ranks are on different hosts
  bool messages;        ///< to the right neighbour and from the left one, instead of collectives
  bool splits = false;  ///< instead of collectives
  /// The collective that is called again and again; nothing: all collectives in turn.
  std::optional<Collective> collective;
  DataType type;
  ReduceOp op;
  Bytes size;  ///< of the largest buffer of a call, or of a message
  int victim;  ///< a rank; of a cable, the rank whose host it is
  int moment;  ///< the call in which, or shortly after which, it happens
  std::chrono::microseconds delay;
  std::chrono::milliseconds timeout;  ///< CAPSTAN_TIMEOUT
  bool progress_thread;
  bool resumes;       ///< a stopped rank continues once the others are gone
  Slowness slowness;  ///< of Fault::slow
  std::uint32_t rate_kbit;
  std::chrono::milliseconds pause;  ///< how long a pause or a flap is

  /// All ranks on one host: the same calls, over shared memory. Only for kills, stops and blames.
  void move_to_one_host();

  int ranks() const { return hosts * ranks_each; }
  int host_of(int rank) const { return in_turns ? rank % hosts : rank / ranks_each; }
  /// Slow, but no slower than the deadline: nobody may notice.
  /// A rank stops, and continues when the others have been told, or never.
  bool stops() const { return fault == Fault::stop || fault == Fault::blame; }
  bool ends_well() const { return fault == Fault::slow && slowness != Slowness::standstill; }
  /// The n-th call.
  perf::Cell call(int n) const;
  std::string description() const;
  /// "all_reduce", "all collectives", "messages", "splits".
  std::string work() const;

 private:
  void arrange_blame();
};

}  // namespace capstan::soak
