// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "perf/compare/cell_result.hpp"
#include "perf/compare/coordinator.hpp"
#include "perf/measure/measure.hpp"

namespace capstan::perf {

/// Measures cells with all workers in turns, so that a disturbance of the machine affects all
/// alike.
class Comparison {
 public:
  /// Calls are measured alone, too, if `alone`: where ranks share a clock and have a core each.
  Comparison(Coordinator& coordinator, int ranks, const MeasureOptions& options, bool alone);

  /// Measures one cell with all workers, once more if cores moved meanwhile.
  CellResult run(const Subject& subject, Bytes size);
  /// Capstan's time for a cell over its time for another one, measured again in turns. Empty if
  /// one of them fails.
  std::optional<double> compare(const CellResult& cell, const CellResult& other);
  /// The same for an all-reduce over worker_protocol::parts_of_all_reduce[parts], in the same
  /// buffers. Also empty where there are fewer elements than ranks.
  std::optional<double> compare_with_parts(const CellResult& cell, std::size_t parts);

 private:
  struct Entry {
    bool active = false;
    std::uint32_t calls = 1;
    double turn = 0;  ///< seconds of its part of a round
    std::uint64_t wrong = 0;
    std::string explanation{};
    std::vector<double> seconds{}, alone{};  ///< of a call, by round
    std::vector<double> waited{};  ///< by round: the share of time that a rank waited for its core
    std::optional<worker_protocol::CallTimes> single{};
  };
  std::size_t own_worker() const;
  std::uint64_t started() const;
  void list_calls(std::size_t worker);
  void add_single_calls(Times& times, const Entry& entry) const;
  void choose(const Subject& subject, Bytes size);
  double time_own(const CellResult& cell);
  double time_own_calls(std::uint32_t calls);
  worker_protocol::Answer tell(std::size_t worker, worker_protocol::Order::Kind kind,
                               std::uint32_t calls = 0);
  double turn() const;
  std::uint32_t calls_in_turn(double seconds) const;
  CellResult run_once(const Subject& subject, Bytes size);
  double bytes_of_rank(int rank) const;
  bool fits_in_memory() const;
  int calls_in_one() const;
  void enroll(std::size_t worker);
  int rounds_in_time() const;
  void run_rounds(int rounds);
  void measure(std::size_t worker);
  void measure_alone(std::size_t worker);
  bool is_undecided(std::vector<double> Entry::* times) const;
  void add_peer(CellResult& cell, const WorkerSpec& spec, const Entry& entry) const;
  bool renew_buffers(std::size_t worker);
  MachineState state() const;
  CellResult result(const Subject& subject, Bytes size) const;

  Coordinator& coordinator_;
  const int ranks_;
  const MeasureOptions options_;
  const bool alone_;
  worker_protocol::Order cell_{};
  bool keep_buffers_ = true;
  std::vector<Entry> entries_;
};

}  // namespace capstan::perf
