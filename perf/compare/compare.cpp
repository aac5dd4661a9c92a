// SPDX-License-Identifier: Apache-2.0
#include "perf/compare/compare.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "core/tools/launcher/complain.hpp"
#include "perf/compare/chart.hpp"
#include "perf/compare/comparison.hpp"
#include "perf/compare/summary.hpp"
#include "perf/measure/folded.hpp"
#include "perf/measure/progress_bar.hpp"
#include "perf/measure/report.hpp"
#include "perf/report/origin.hpp"
#include "topology/machine.hpp"

namespace capstan::perf {
namespace {

void print_workers(const Coordinator& coordinator, int ranks, bool table) {
  for (std::size_t i = 0; i < coordinator.workers(); ++i) {
    if (table)
      print_folded("# {} ranks, {}: {}\n", ranks, coordinator.spec(i).name,
                   coordinator.spec(i).configuration);
    if (const auto& reason = coordinator.disqualified(i))
      launcher::complain("capstan perf: {} is left out: {}\n", coordinator.spec(i).name, *reason);
  }
}

/// One run of `capstan perf --against`.
class ComparisonRun {
 public:
  explicit ComparisonRun(const CompareOptions& options)
      : options_(options),
        most_cells_(options.ranks.size() * options.subjects.size() * options.sizes.size()) {
    cells_.reserve(most_cells_);  // checks point to its elements
  }

  int run() {
    for (const int ranks : options_.ranks) measure(ranks);
    report();
    const bool wrong = std::ranges::any_of(cells_, [](const CellResult& c) { return c.wrong > 0; });
    return wrong ? 1 : 0;
  }

 private:
  void measure(int ranks) {
    launcher::LaunchOptions place{.ranks = ranks, .command = {}, .environment = {}, .timeout = {}};
    options_.where.apply_to(place);
    const TestBed testbed{place};
    Coordinator coordinator{workers_of(options_.peers, testbed), ranks, testbed.address(),
                            options_.measure.bind};
    if (table_)
      print_folded("# {}, {}{}\n", Machine::discover().name(), testbed.text(),
                   unusual_conditions(options_.measure));
    print_workers(coordinator, ranks, table_);
    note_workers(coordinator, testbed);
    if (table_) print_folded("{}", columns_.head()), std::fflush(stdout);
    const bool alone = !testbed.several_hosts() && ranks <= ::sysconf(_SC_NPROCESSORS_ONLN);
    Comparison comparison{coordinator, ranks, options_.measure, alone};
    const std::size_t first = cells_.size();
    for (const Subject& subject : options_.subjects)
      for (const Bytes size : options_.sizes) measure(comparison, subject, size);
    check_cliffs_from(first, comparison);
  }

  /// Notes the ranks and the workers, for the chart: once for all numbers of ranks.
  void note_workers(const Coordinator& coordinator, const TestBed& testbed) {
    const auto note = [&](const std::string& name, const std::string& text) {
      const std::pair fact{name, text};
      if (std::ranges::find(facts_, fact) == facts_.end()) facts_.push_back(fact);
    };
    note("ranks", testbed.text() + unusual_conditions(options_.measure));
    for (std::size_t i = 0; i < coordinator.workers(); ++i)
      note(coordinator.spec(i).name,
           coordinator.disqualified(i).value_or(coordinator.spec(i).configuration));
  }

  void measure(Comparison& comparison, const Subject& subject, Bytes size) {
    if (subject == Subject{Collective::barrier} && size != options_.sizes.front())
      return progress_.step();
    progress_.show("measuring");
    cells_.push_back(comparison.run(subject, size));
    progress_.step();
    if (table_) print_folded("{}", cell_line(columns_, cells_.back(), options_.peers));
    std::fflush(stdout);
  }

  void check_cliffs_from(std::size_t first, Comparison& comparison) {
    const auto remeasure = [&](const CliffCheck& check) {
      progress_.show(fmt::format("measuring {} again", name_of(*check.cell)));
      return check.larger ? comparison.compare(*check.cell, *check.larger)
                          : comparison.compare_with_parts(*check.cell, check.parts);
    };
    std::ranges::move(check_cliffs(std::span{cells_}.subspan(first), remeasure),
                      std::back_inserter(checks_));
    progress_.clear();
  }

  void report() {
    const Summary summary = summarize(cells_, std::move(checks_));
    if (table_) print_folded("{}", text_of(summary));
    nlohmann::json document = to_json(cells_, summary);
    document["format"] = results_format;
    document["command"] = "perf --against";
    document["origin"] = report::to_json(facts_);
    document["conditions"] = conditions_of(options_.measure);
    if (!options_.json.empty()) write_document(options_.json, document.dump(2));
    if (!options_.chart.empty())
      write_document(options_.chart, chart_page(cells_, summary, facts_));
  }

  const CompareOptions& options_;
  const bool table_ = options_.json != "-";
  const std::size_t most_cells_;
  const Table columns_ = cells_table(options_.peers, line_width(), options_.measure.percentiles);
  ProgressBar progress_{most_cells_};
  report::Facts facts_ = options_.origin;
  std::vector<CellResult> cells_;
  std::vector<CliffCheck> checks_;
};

}  // namespace

int compare(const CompareOptions& options) {
  return ComparisonRun{options}.run();
}

}  // namespace capstan::perf
