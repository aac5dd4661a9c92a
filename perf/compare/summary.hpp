#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "perf/compare/cell_result.hpp"

namespace capstan::cli {

/// A cell in which Capstan should be no slower than in the next larger one, as time grows with
/// size, or an all-reduce, which should be no slower than two collectives that do the same. By more
/// than 10 % it is a cliff.
struct Comparison {
  const Duel* cell;
  const Duel* larger = nullptr;  ///< without one: against::parts_of_all_reduce[parts]
  std::size_t parts = 0;
  double times = 0;  ///< as long

  bool is_cliff() const { return times > 1.1; }
};
/// Says how many times as long the cell takes, measured again.
using Compare = std::function<std::optional<double>(const Comparison&)>;
/// All-reduces with their parts, and other cells where the larger one was faster: these were
/// measured minutes apart, and machines change meanwhile.
std::vector<Comparison> compare_cells(std::span<const Duel> duels, const Compare& compare);

/// What a whole comparison says.
struct Verdict {
  double geometric_mean = 0;        ///< of all ratios; 0 without any
  const Duel* worst = nullptr;      ///< by ratio
  std::vector<const Duel*> lost{};  ///< ratio of 1 or less
  std::vector<Comparison> comparisons{};
};
Verdict verdict_on(const std::vector<Duel>& duels, std::vector<Comparison> comparisons);

std::string duel_head(const std::vector<std::string>& peers);
std::string duel_line(const Duel& duel, const std::vector<std::string>& peers);
std::string summary(const Verdict& verdict);
std::string name_of(const Duel& duel);
nlohmann::json to_json(const std::vector<Duel>& duels, const Verdict& verdict);

/// 8, 64K, 256M.
std::string short_size(Bytes size);

}  // namespace capstan::cli
