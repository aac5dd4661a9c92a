#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/cli/against/contest.hpp"

namespace capstan::cli {

/// What a whole comparison says.
struct Verdict {
  double geometric_mean = 0;        ///< of all ratios; 0 without any
  const Duel* worst = nullptr;      ///< by ratio
  std::vector<const Duel*> lost{};  ///< ratio of 1 or less
  /// Where time does not grow with size (by more than 10 %), or a collective is slower than two
  /// others that do the same.
  std::vector<std::string> cliffs{};
};
Verdict verdict_on(const std::vector<Duel>& duels);

std::string duel_head(const std::vector<std::string>& peers);
std::string duel_line(const Duel& duel, const std::vector<std::string>& peers);
std::string summary(const Verdict& verdict);
std::string name_of(const Duel& duel);
nlohmann::json to_json(const std::vector<Duel>& duels, const Verdict& verdict);

/// 8, 64K, 256M.
std::string short_size(Bytes size);

}  // namespace capstan::cli
