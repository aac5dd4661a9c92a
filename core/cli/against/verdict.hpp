#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/cli/against/duel.hpp"

namespace capstan::cli {

/// A cell in which Capstan was slower by more than 10 % than it should be: than in the next larger
/// one, as time grows with size, or than two collectives that do the same as an all-reduce.
struct Cliff {
  const Duel* cell;
  const Duel* larger = nullptr;  ///< without one: against::parts_of_all_reduce[parts]
  std::size_t parts = 0;
  double times = 0;  ///< as long
};
/// Says for a suspected cliff how many times as long it takes, measured again.
using Compare = std::function<std::optional<double>(const Cliff&)>;
/// Those that `compare` confirms: cells are measured minutes apart and machines change meanwhile;
/// and by itself a broadcast waits for nobody, as it must where it follows a reduce.
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
