#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "perf/compare/cell_result.hpp"
#include "perf/compare/coordinator.hpp"
#include "perf/measure/measure.hpp"

namespace capstan::perf {

/// Measures cells for all workers in turns, so that whatever else the machine does hits all alike.
class Comparison {
 public:
  Comparison(Coordinator& coordinator, int ranks, const MeasureOptions& options);

  CellResult run(Collective collective, Bytes size);
  /// How many times as long Capstan takes for a cell as for another, measured again in turns;
  /// nothing if it fails in one of them.
  std::optional<double> compare(const CellResult& cell, const CellResult& other);
  /// The same for an all-reduce and worker_protocol::parts_of_all_reduce[parts], in the same
  /// buffers; nothing either where there is not an element for each rank.
  std::optional<double> compare_with_parts(const CellResult& cell, std::size_t parts);

 private:
  struct Entry {
    bool takes_part = false;
    std::uint32_t calls = 1;
    std::uint64_t wrong = 0;
    std::string way{};
    std::vector<double> seconds{};
  };
  std::size_t own_worker() const;
  Cell choose(Collective collective, Bytes size);
  double time_own(const CellResult& cell);
  double time_own_calls(std::uint32_t calls);
  worker_protocol::Answer tell(std::size_t worker, worker_protocol::Order::Kind kind,
                               std::uint32_t calls = 0);
  bool fits_in_memory(const Cell& cell) const;
  void enter(std::size_t worker);
  void play(int rounds);
  void measure(std::size_t worker);
  bool is_open() const;
  bool renew_buffers(std::size_t worker);
  CellResult result(Collective collective, Bytes size) const;

  Coordinator& coordinator_;
  const int ranks_;
  const MeasureOptions options_;
  worker_protocol::Order cell_{};
  bool keep_buffers_ = true;
  std::vector<Entry> entries_;
};

}  // namespace capstan::perf
