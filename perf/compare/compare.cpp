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

namespace capstan::cli {
namespace {

void print_players(const Referee& referee, int ranks, bool table) {
  for (std::size_t i = 0; i < referee.players(); ++i) {
    if (table)
      fmt::print("# {} ranks, {}: {}\n", ranks, referee.spec(i).name,
                 referee.spec(i).configuration);
    if (const auto& out = referee.out(i))
      fmt::print(stderr, "capstan perf: {} is left out: {}\n", referee.spec(i).name, *out);
  }
}

void write(const std::string& file, const std::string& text) {
  std::ofstream out{file};
  out << text;
  if (!out.flush()) throw SystemError(fmt::format("cannot write '{}': check the path", file));
}

}  // namespace

int compare(const AgainstOptions& options) {
  const bool table = options.json != "-";
  std::vector<Duel> duels;
  std::vector<Comparison> comparisons;
  std::uint64_t wrong = 0;
  std::size_t done = 0;
  const std::size_t all = options.ranks.size() * options.collectives.size() * options.sizes.size();
  duels.reserve(all);  // comparisons point there
  for (const int ranks : options.ranks) {
    LaunchOptions place{.ranks = ranks, .command = {}, .environment = {}, .timeout = {}};
    options.where.apply_to(place);
    const Venue venue{place};
    Referee referee{players_of(options.peers, venue), ranks, venue.address()};
    if (table) fmt::print("# {}, {}\n", Machine::discover().name(), venue.text());
    print_players(referee, ranks, table);
    if (table) fmt::print("{}", duel_head(options.peers)), std::fflush(stdout);
    Contest contest{referee, ranks, options.measure};
    const std::size_t first = duels.size();
    for (const Collective collective : options.collectives)
      for (const Bytes size : options.sizes) {
        ++done;
        if (collective == Collective::barrier && size != options.sizes.front()) continue;
        if (::isatty(STDERR_FILENO)) fmt::print(stderr, "\r\033[K[{}/{}] measuring\r", done, all);
        duels.push_back(contest.run(collective, size));
        wrong += duels.back().wrong;
        if (::isatty(STDERR_FILENO)) fmt::print(stderr, "\033[K");
        if (table) fmt::print("{}", duel_line(duels.back(), options.peers)), std::fflush(stdout);
      }
    const auto compare = [&](const Comparison& asked) {
      if (::isatty(STDERR_FILENO))
        fmt::print(stderr, "\r\033[Kmeasuring {} again\r", name_of(*asked.cell));
      return asked.larger ? contest.compare(*asked.cell, *asked.larger)
                          : contest.compare_with_parts(*asked.cell, asked.parts);
    };
    std::ranges::move(compare_cells(std::span{duels}.subspan(first), compare),
                      std::back_inserter(comparisons));
    if (::isatty(STDERR_FILENO)) fmt::print(stderr, "\033[K");
  }
  const Verdict verdict = verdict_on(duels, std::move(comparisons));
  if (table) fmt::print("{}", summary(verdict));
  const std::string document = to_json(duels, verdict).dump(2) + "\n";
  if (options.json == "-")
    fmt::print("{}", document);
  else if (!options.json.empty())
    write(options.json, document);
  if (!options.chart.empty()) write(options.chart, chart_page(duels, verdict, options.peers));
  return wrong == 0 ? 0 : 1;
}

}  // namespace capstan::cli
