// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capstan/communicator.hpp"
#include "core/profiles/machine_state.hpp"
#include "perf/measure/cell.hpp"
#include "perf/measure/computation.hpp"
#include "perf/measure/laps.hpp"
#include "perf/measure/recorded_calls.hpp"
#include "perf/measure/timed_calls.hpp"

namespace capstan::perf {

class DeviceCalls;

/// Which memory holds the buffers: the program's own, that of Communicator::allocate, or a GPU's.
enum class Buffers { plain, allocated, device };
std::string_view name_of(Buffers buffers);

/// Half of the rounds lie within a quarter of the median on both sides: otherwise a difference
/// between two measurements says little.
constexpr bool is_steady(double spread) {
  return spread <= 0.5;
}

/// How busy the machines of all ranks have been since a reading. All ranks call it.
MachineState state_since(Communicator& world, const MachineReading& before);

/// Calls beside a computation that takes about as long; times in microseconds of the slowest rank.
struct Overlap {
  double share = 0;     ///< of the shorter one of both that the other one hides: median, 0 to 1
  double start = 0;     ///< until the start_ form has returned
  double computed = 0;  ///< the computation alone
  double both = 0;      ///< the two together
};

/// The result of measuring a cell. Times are microseconds per call, and where a call has several
/// buffers for each of them, of calls in a row unless it is said; each round counts with the time
/// of its slowest rank.
struct Measurement {
  Cell cell;
  int ranks = 0;
  Buffers buffers = Buffers::plain;
  std::string algorithm, explanation;
  double median = 0, least = 0;
  double spread = 0;            ///< distance between the quartiles, as a share of the median
  double lower = 0, upper = 0;  ///< the quartiles
  double alone = 0;  ///< median of calls that are not in a row: see AloneCalls; 0: not measured
  std::uint64_t wrong = 0;
  std::uint64_t calls = 0;
  bool settled = true;                         ///< false: the autotuner was still trying candidates
  std::vector<double> times{}, times_alone{};  ///< of all rounds
  MachineState state{};                        ///< of the machine meanwhile
  std::optional<Distribution> distribution{};  ///< where it was asked for
  std::optional<Overlap> overlap{};            ///< the same
  int cycle = 0;        ///< of several that measure all cells, from 1; 0: there is one
  std::string ended{};  ///< the date and time of the end, where it was asked for

  bool steady() const { return is_steady(spread); }
  /// The source of the decision how calls run: "rule", "profile", "trials", "model" or "device".
  std::string_view decided_by() const;

  /// Bytes of the largest buffer, as nccl-tests counts them.
  Bytes bytes() const { return bytes_of(cell.contract(ranks).extent(), size_of(cell.type)); }
  /// Bytes per call over time, GB/s.
  double algorithm_bandwidth() const;
  /// Bytes that each link carries at least over time, GB/s, as nccl-tests defines it: comparable
  /// between numbers of ranks.
  double bus_bandwidth() const;
};

/// busbw / algbw as nccl-tests defines it: bytes on each link per byte of the call's size.
double bus_share(Collective collective, int ranks);

inline constexpr const char* needs_calls_alone =
    "--skew: calls are measured alone only where all ranks are on one host, with a core each";

struct MeasureOptions {
  /// How often the calls of a cell are timed; fewer times where single calls take too long.
  int rounds = 15;
  /// How long the timed calls of one cell take, about. Before them, calls run until the autotuner
  /// has decided, for eight times as long at most.
  double seconds = 0.25;
  std::uint64_t warm_up = 0;     ///< calls before it, at least
  std::uint64_t iterations = 0;  ///< calls of a round; 0: as many as there is time for
  bool check = true;
  bool bind = true;  ///< comparisons bind each rank to a core of its own
  /// Within which time ranks come to calls that are alone: see AloneCalls.
  std::chrono::nanoseconds skew{};
  Buffers buffers = Buffers::plain;
  std::string vendor{};   ///< of a device: "cuda" or "hip"
  int device_number = 0;  ///< of the vendor's devices this one, counted round
  CallOptions calls{};
  bool percentiles = false;  ///< each call is timed by itself
  Beside beside = Beside::nothing;
  int groups = 1;   ///< of equal size, which make the same calls at the same time
  int window = 64;  ///< messages that are under way, where bandwidths are measured
};

/// Measures cells one after the other. Every rank makes the same calls. Not thread-safe.
class Bench {
 public:
  /// Allocates buffers for cells of up to `largest` bytes, once. Every rank constructs one. Where
  /// there are groups, the ranks of `world` split into them. Throws SystemError when there is not
  /// enough memory.
  Bench(Communicator& world, Bytes largest, const MeasureOptions& options);
  Bench(const Bench&) = delete;
  ~Bench();

  /// Once more, if the machine was busy: the less disturbed one of both counts.
  Measurement measure(const Cell& cell);
  /// Some calls of a cell that has been measured: see record_calls().
  RecordedCalls record(const Cell& cell);

 private:
  TimedCalls calls_of(const Cell& cell);
  void finish();
  void clear_outputs();
  template <class Call>
  double time_calls(std::uint64_t calls, const Call& call);
  double time_calls(TimedCalls& timed, std::uint64_t calls);
  bool settle(TimedCalls& timed);
  struct InARow {
    double seconds;  ///< of a call
    std::uint64_t calls;
  };
  struct Rounds {
    std::vector<double> times{}, alone{};
    std::uint64_t calls = 0;  ///< in a row, of all rounds
    MachineState state{};
    Laps laps{};
  };
  InARow time_in_a_row(TimedCalls& timed, std::uint64_t calls);
  Rounds time_rounds(TimedCalls& timed, int rounds, std::uint64_t calls);
  double time_of_call(TimedCalls& timed);
  double time_alone(TimedCalls& timed, double call);
  Overlap overlap(TimedCalls& timed, double call, int rounds, std::uint64_t calls);
  void fill(Measurement& result, Rounds timed);
  std::uint64_t calls_in_round(double call, int rounds) const;
  bool on_own_cores();
  std::uint64_t check(const Cell& cell);
  double slowest(double seconds);

  using Memory = std::shared_ptr<std::byte>;
  Memory allocate(std::size_t bytes);

  Communicator& world_;
  MeasureOptions options_;
  std::optional<Communicator> own_group_;      // where there are several
  Communicator& group_;                        // whose calls are measured
  const std::unique_ptr<DeviceCalls> device_;  // null: buffers are in host memory
  const std::size_t bytes_;                    // of the memory of all inputs, and of all outputs
  Memory input_memory_, output_memory_;
  std::byte* const input_;
  std::byte* const output_;
  const bool begins_together_;  // calls can be measured alone
  Laps* laps_ = nullptr;        // where single calls are timed
};

}  // namespace capstan::perf
