#include "perf/compare/compare.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <span>

#include "capstan/error.hpp"
#include "perf/compare/chart.hpp"
#include "perf/compare/comparison.hpp"
#include "perf/compare/summary.hpp"
#include "topology/machine.hpp"

namespace capstan::perf {
namespace {

void print_workers(const Coordinator& coordinator, int ranks, bool table) {
  for (std::size_t i = 0; i < coordinator.workers(); ++i) {
    if (table)
      fmt::print("# {} ranks, {}: {}\n", ranks, coordinator.spec(i).name,
                 coordinator.spec(i).configuration);
    if (const auto& reason = coordinator.disqualified(i))
      fmt::print(stderr, "capstan perf: {} is left out: {}\n", coordinator.spec(i).name, *reason);
  }
}

void write(const std::string& file, const std::string& text) {
  std::ofstream out{file};
  out << text;
  if (!out.flush()) throw SystemError(fmt::format("cannot write '{}': check the path", file));
}

}  // namespace

int compare(const CompareOptions& options) {
  const bool table = options.json != "-";
  std::vector<CellResult> cells;
  std::vector<CliffCheck> checks;
  std::uint64_t wrong = 0;
  std::size_t done = 0;
  const std::size_t all = options.ranks.size() * options.collectives.size() * options.sizes.size();
  cells.reserve(all);  // checks point to its elements
  for (const int ranks : options.ranks) {
    cli::LaunchOptions place{.ranks = ranks, .command = {}, .environment = {}, .timeout = {}};
    options.where.apply_to(place);
    const TestBed testbed{place};
    Coordinator coordinator{workers_of(options.peers, testbed), ranks, testbed.address()};
    if (table) fmt::print("# {}, {}\n", Machine::discover().name(), testbed.text());
    print_workers(coordinator, ranks, table);
    if (table) fmt::print("{}", cell_head(options.peers)), std::fflush(stdout);
    Comparison comparison{coordinator, ranks, options.measure};
    const std::size_t first = cells.size();
    for (const Collective collective : options.collectives)
      for (const Bytes size : options.sizes) {
        ++done;
        if (collective == Collective::barrier && size != options.sizes.front()) continue;
        if (::isatty(STDERR_FILENO)) fmt::print(stderr, "\r\033[K[{}/{}] measuring\r", done, all);
        cells.push_back(comparison.run(collective, size));
        wrong += cells.back().wrong;
        if (::isatty(STDERR_FILENO)) fmt::print(stderr, "\033[K");
        if (table) fmt::print("{}", cell_line(cells.back(), options.peers)), std::fflush(stdout);
      }
    const auto remeasure = [&](const CliffCheck& check) {
      if (::isatty(STDERR_FILENO))
        fmt::print(stderr, "\r\033[Kmeasuring {} again\r", name_of(*check.cell));
      return check.larger ? comparison.compare(*check.cell, *check.larger)
                          : comparison.compare_with_parts(*check.cell, check.parts);
    };
    std::ranges::move(check_cliffs(std::span{cells}.subspan(first), remeasure),
                      std::back_inserter(checks));
    if (::isatty(STDERR_FILENO)) fmt::print(stderr, "\033[K");
  }
  const Summary summary = summarize(cells, std::move(checks));
  if (table) fmt::print("{}", text_of(summary));
  const std::string document = to_json(cells, summary).dump(2) + "\n";
  if (options.json == "-")
    fmt::print("{}", document);
  else if (!options.json.empty())
    write(options.json, document);
  if (!options.chart.empty()) write(options.chart, chart_page(cells, summary, options.peers));
  return wrong == 0 ? 0 : 1;
}

}  // namespace capstan::perf
