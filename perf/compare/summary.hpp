// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "perf/compare/cell_result.hpp"
#include "perf/measure/report.hpp"

namespace capstan::perf {

/// A check of Capstan against itself. A cell should not be slower than the next larger one, and an
/// all-reduce not slower than two collectives that do the same. More than 10 % slower is a cliff.
struct CliffCheck {
  const CellResult* cell;
  const CellResult* larger = nullptr;  ///< null: worker_protocol::parts_of_all_reduce[parts]
  std::size_t parts = 0;
  double ratio = 0;  ///< time of the cell over that of its reference

  bool is_cliff() const { return ratio > 1.1; }
};
/// Measures cell and reference again, in turns, and returns CliffCheck::ratio.
using Remeasure = std::function<std::optional<double>(const CliffCheck&)>;
/// Checks every all-reduce against its parts, and every cell where the next larger one was faster.
/// Both are measured again: the first time was minutes apart, and machines change meanwhile.
std::vector<CliffCheck> check_cliffs(std::span<const CellResult> cells, const Remeasure& remeasure);

/// The result of a whole comparison.
struct Summary {
  double geometric_mean = 0;              ///< of all ratios in a row; 0 without any
  double geometric_mean_alone = 0;        ///< of all ratios of calls that are alone
  const CellResult* worst = nullptr;      ///< by ratio in a row
  std::vector<const CellResult*> lost{};  ///< CellResult::lost()
  std::vector<CliffCheck> checks{};
  std::size_t cells = 0, busy = 0;  ///< of all, and of those that other programs disturbed

  /// The cells whose cores lay about as far from each other.
  struct Apart {
    double least = 0, most = 0;  ///< nanoseconds
    double geometric_mean = 0, geometric_mean_alone = 0;
    std::size_t cells = 0, lost = 0;
  };
  std::vector<Apart> distances{};  ///< nearest first; empty: not measured
  std::size_t moved = 0;           ///< cells during which cores moved, each time they were measured
};
Summary summarize(const std::vector<CellResult>& cells, std::vector<CliffCheck> checks);

/// The table of cells, with a column for each peer.
Table cells_table(const std::vector<std::string>& peers, int width, bool percentiles = false);
/// A line, and others below where something casts doubt on it.
std::string cell_line(const Table& table, const CellResult& cell,
                      const std::vector<std::string>& peers);
std::string text_of(const Summary& summary);
std::string name_of(const CellResult& cell);
nlohmann::json to_json(const std::vector<CellResult>& cells, const Summary& summary);

}  // namespace capstan::perf
