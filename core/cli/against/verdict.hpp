#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/cli/against/duel.hpp"

namespace capstan::cli {

/// A cell that Capstan should be no slower in than in others together, but was by more than 10 %:
/// time grows with size, and a collective does not take longer than two others that do the same.
struct Cliff {
  const Duel* cell;
  std::vector<const Duel*> others;
  double times = 0;  ///< as long
};
/// Those that `compare` confirms: cells are measured minutes apart, and machines change meanwhile.
using Compare = std::function<std::optional<double>(const Duel&, const std::vector<const Duel*>&)>;
std::vector<Cliff> find_cliffs(std::span<const Duel> duels, const Compare& compare);

/// What a whole comparison says.
struct Verdict {
  double geometric_mean = 0;        ///< of all ratios; 0 without any
  const Duel* worst = nullptr;      ///< by ratio
  std::vector<const Duel*> lost{};  ///< ratio of 1 or less
  std::vector<Cliff> cliffs{};
};
Verdict verdict_on(const std::vector<Duel>& duels, std::vector<Cliff> cliffs);

std::string duel_head(const std::vector<std::string>& peers);
std::string duel_line(const Duel& duel, const std::vector<std::string>& peers);
std::string summary(const Verdict& verdict);
std::string name_of(const Duel& duel);
nlohmann::json to_json(const std::vector<Duel>& duels, const Verdict& verdict);

/// 8, 64K, 256M.
std::string short_size(Bytes size);

}  // namespace capstan::cli
