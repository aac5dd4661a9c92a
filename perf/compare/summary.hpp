#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "perf/compare/cell_result.hpp"

namespace capstan::perf {

/// A cell in which Capstan should be no slower than in the next larger one, as time grows with
/// size, or an all-reduce, which should be no slower than two collectives that do the same. By more
/// than 10 % it is a cliff.
struct CliffCheck {
  const CellResult* cell;
  const CellResult* larger = nullptr;  ///< without one: worker_protocol::parts_of_all_reduce[parts]
  std::size_t parts = 0;
  double times = 0;  ///< as long

  bool is_cliff() const { return times > 1.1; }
};
/// Says how many times as long the cell takes, measured again.
using Remeasure = std::function<std::optional<double>(const CliffCheck&)>;
/// All-reduces with their parts, and other cells where the larger one was faster: these were
/// measured minutes apart, and machines change meanwhile.
std::vector<CliffCheck> compare_cells(std::span<const CellResult> cells, const Remeasure& compare);

/// What a whole comparison says.
struct Summary {
  double geometric_mean = 0;              ///< of all ratios; 0 without any
  const CellResult* worst = nullptr;      ///< by ratio
  std::vector<const CellResult*> lost{};  ///< ratio of 1 or less
  std::vector<CliffCheck> comparisons{};
};
Summary summary_on(const std::vector<CellResult>& cells, std::vector<CliffCheck> comparisons);

std::string cell_head(const std::vector<std::string>& peers);
std::string cell_line(const CellResult& cell, const std::vector<std::string>& peers);
std::string text_of(const Summary& summary);
std::string name_of(const CellResult& cell);
nlohmann::json to_json(const std::vector<CellResult>& cells, const Summary& summary);

/// 8, 64K, 256M.
std::string short_size(Bytes size);

}  // namespace capstan::perf
