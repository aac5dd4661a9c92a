// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/verify/prove_and_print.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <thread>

#include "core/tools/cli/options.hpp"
#include "core/tools/cli/verify/crew.hpp"
#include "core/tools/cli/verify/forecast.hpp"
#include "perf/measure/duration_text.hpp"
#include "perf/measure/folded.hpp"

namespace capstan::cli {
namespace {

perf::Table proofs_table() {
  return {{{"collective", "", 17},
           {"algorithm", "", 20},
           {"ranks", "", 6},
           {"proofs", "", 7},
           {"steps", "", 7},
           {"signals", "", 8, 2},
           {"sent", "", 10, 1},
           {"between", "", 8, 3},
           {" summary", "", 8}},
          perf::line_width()};
}

void print_head(std::span<const ProofCell> cells, const Forecast& forecast, int threads) {
  fmt::print("# {}: {}{} on {} core{}\n#{}", summary_of(cells),
             forecast.seconds() < 1 ? "" : "about ", perf::duration_text(forecast.seconds()),
             threads, threads == 1 ? "" : "s", proofs_table().names("").substr(1));
  std::fflush(stdout);
}

void print_line(const ProofCell& cell, const CellResult& result) {
  fmt::print("{}",
             proofs_table().line({std::string{name_of(cell.algorithm->collective)},
                                  std::string{cell.algorithm->name},
                                  fmt::to_string(cell.hosts.ranks()), fmt::to_string(result.proofs),
                                  fmt::to_string(result.steps), fmt::to_string(result.signals),
                                  fmt::to_string(result.sent), fmt::to_string(result.between),
                                  fmt::format("{:<8}", result.ok() ? " proven" : " REFUSED")}));
  for (const std::string& finding : result.findings) perf::print_folded("    {}\n", finding);
  std::fflush(stdout);
}

nlohmann::json to_json(const ProofCell& cell, const CellResult& result) {
  return {{"collective", name_of(cell.algorithm->collective)},
          {"algorithm", cell.algorithm->name},
          {"ranks", cell.hosts.ranks()},
          {"proofs", result.proofs},
          {"steps", result.steps},
          {"signals", result.signals},
          {"sent", result.sent},
          {"between_hosts", result.between},
          {"ok", result.ok()},
          {"findings", result.findings}};
}

int threads_for(std::size_t cells) {
  constexpr std::size_t most = 8;
  const std::size_t cores = std::max(std::thread::hardware_concurrency(), 1U);
  return static_cast<int>(std::min({cores, most, cells}));
}

/// Proves all cells, and gives each result to `take` in the order of the cells.
void prove_all(std::span<const ProofCell> cells, int threads, ProgressLine& progress,
               const std::function<void(const ProofCell&, const CellResult&)>& take) {
  Crew crew{cells, threads};
  progress.show(0, cells.front());
  for (const ProofCell& cell : cells) {
    const CellResult result =
        crew.next([&](double done, const ProofCell& begun) { progress.show(done, begun); });
    progress.clear();
    take(cell, result);
  }
}

}  // namespace

int prove_and_print(std::vector<ProofCell> cells, const std::string& json) {
  const bool text = prints_text(json);
  for (ProofCell& cell : cells) cell.work = work_of(cell);
  const int threads = threads_for(cells.size());
  const Forecast forecast{cells, threads};
  if (text) print_head(cells, forecast, threads);
  ProgressLine progress{forecast};
  nlohmann::json lines = nlohmann::json::array();
  std::size_t proofs = 0, refused = 0;
  prove_all(cells, threads, progress, [&](const ProofCell& cell, const CellResult& result) {
    proofs += result.proofs;
    if (!result.ok()) ++refused;
    lines.push_back(to_json(cell, result));
    if (text) print_line(cell, result);
  });
  write_json(json, lines);
  if (text)
    perf::print_folded("{} proofs of {} in {}: {} (GPU programs are not proven yet)\n", proofs,
                       summary_of(cells), perf::duration_text(progress.elapsed()),
                       refused == 0 ? "all proven" : fmt::format("{} REFUSED", refused));
  return refused == 0 ? 0 : 1;
}

}  // namespace capstan::cli
