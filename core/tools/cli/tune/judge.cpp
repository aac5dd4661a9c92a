// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/tune/judge.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "core/profiles/find_profile.hpp"
#include "core/profiles/judge_profile.hpp"
#include "core/tools/cli/explain/question.hpp"
#include "perf/measure/folded.hpp"
#include "perf/measure/report.hpp"
#include "topology/machine.hpp"

namespace capstan::cli {
namespace {

/// The times, as multiples of the fastest, within which choices of a model and a profile should be.
constexpr double bound_of_model = 1.25, bound_of_profile = 1.05;

Profile read(const std::string& file) {
  Profile profile = parse_profile(read_profile_file(file), file);
  if (const auto reason = mismatch(profile, Fingerprint::of(Machine::discover())); !reason.empty())
    throw InvalidArgument(
        fmt::format("{}: {}: the model cannot be judged by it here", file, reason));
  return profile;
}

Hosts evenly_filled_hosts(const MeasuredGroup& group) {
  if (group.hosts == 1) return Hosts{group.ranks};
  std::vector<int> host_of;
  for (int rank = 0; rank < group.ranks; ++rank)
    host_of.push_back(static_cast<int>(std::int64_t{rank} * group.hosts / group.ranks));
  return Hosts{std::move(host_of)};
}

/// One group of the first file, and the same group of the files that have it, too.
class Bench {
 public:
  Bench(const MeasuredGroup& group, const std::vector<Profile>& profiles,
        const std::vector<std::string>& files)
      : group_(group),
        first_file_(files.front()),
        same_{&group},
        hosts_(evenly_filled_hosts(group)) {
    Settings settings;
    settings.profile = "none";
    model_ = link_model(expected_machine(hosts_, settings), settings, group.devices);
    for (std::size_t i = 1; i < profiles.size(); ++i)
      if (const auto found = std::ranges::find_if(
              profiles[i].groups, [&](const auto& each) { return each.is_like(group); });
          found != profiles[i].groups.end()) {
        same_.push_back(&*found);
        others_.push_back(files[i]);
      }
    first_ = measured_times(profiles.front(), group.network, files.front(), group.devices);
  }

  void print() const {
    perf::print_folded("{}\n", name_of(group_));
    const auto measurements = judged(model_, nullptr, group_.cells.empty() ? 1 : 0);
    if (measurements.empty()) return perf::print_folded("no cell was measured\n");
    print_cells(measurements.front());
    if (measurements.front().cells.empty()) return perf::print_folded("no cell counts\n");
    print_share("the model's choice", bound_of_model, measurements);
    print_predictions(measurements);
    if (group_.model) print_fitted();
    if (!others_.empty() && !group_.cells.empty())
      print_share(fmt::format("the choice by {}, measured by {},", first_file_, others()),
                  bound_of_profile, judged(model_, &first_, 1));
  }

 private:
  std::string others() const { return fmt::format("{}", fmt::join(others_, " and ")); }

  /// The model with the factors of the first file. They were fitted to its cells: other files judge
  /// them better.
  void print_fitted() const {
    const auto measurements =
        judged(group_.model->applied(model_), nullptr, others_.empty() ? 0 : 1);
    perf::print_folded(
        "with the factors of {}{}:\n", first_file_,
        others_.empty() ? ", which were fitted to these cells" : ", measured by " + others());
    print_share("the model's choice", bound_of_model, measurements);
    print_predictions(measurements);
  }

  std::vector<Judgement> judged(const LinkModel& model, const MeasuredTimes* profile,
                                std::size_t from) const {
    std::vector<Judgement> all;
    for (std::size_t i = from; i < same_.size(); ++i)
      all.push_back(judge(*same_[i], hosts_, model, profile));
    return all;
  }

  static void print_cells(const Judgement& judgement) {
    perf::print_folded("{:>14} {:>4}  {:<39} {:>9} {:>5}\n", "", "size",
                       "the fastest, then the model's choice", "us", "ratio");
    for (const JudgedCell& cell : judgement.cells) print_cell(cell);
    for (const MeasuredCell& cell : judgement.doubtful)
      perf::print_folded("{:>14} {:>4}  not counted: {}\n", name_of(cell.collective),
                         perf::short_size(cell.bytes), cell.doubt());
  }

  /// A ratio within the spread of both times is noise.
  static void print_cell(const JudgedCell& cell) {
    const bool noise = cell.ratio() > 1 && cell.least_ratio() <= 1;
    perf::print_folded("{:>14} {:>4}  {:<39} {:>9.2f}\n", name_of(cell.collective),
                       perf::short_size(cell.bytes), name_of(cell.fastest),
                       cell.fastest.nanoseconds / 1000);
    perf::print_folded("{:>14} {:>4}  {:<39} {:>9.2f} {:>5.2f}{}\n", "", "", name_of(cell.chosen),
                       cell.chosen.nanoseconds / 1000, cell.ratio(), noise ? " noise" : "");
  }

  static void print_share(const std::string& whose, double bound,
                          const std::vector<Judgement>& measurements) {
    const auto worse = worse_than(bound, measurements);
    const std::size_t all = measurements.front().cells.size(), good = all - worse.size();
    perf::print_folded("{} is within {:.2f} of the fastest in {} of {} cells ({:.0f} %){}\n", whose,
                       bound, good, all,
                       all == 0 ? 0 : 100.0 * static_cast<double>(good) / static_cast<double>(all),
                       worse.empty() ? "" : "; not in:");
    if (const auto noisy = within_noise(bound, measurements.front()); noisy > 0)
      perf::print_folded("  {} of them only as far as noise lets one say: measure them again\n",
                         noisy);
    for (const JudgedCell& cell : worse)
      perf::print_folded("  {} of {} bytes: {:.2f} times as long\n", name_of(cell.collective),
                         cell.bytes.value(), cell.ratio());
    for (const JudgedCell& cell : measurements.front().not_measured)
      perf::print_folded("  not counted: {} of {} bytes, as {} was not measured\n",
                         name_of(cell.collective), cell.bytes.value(), name_of(cell.chosen));
  }

  /// The cells whose ratio is above the bound, but not by more than noise.
  static std::size_t within_noise(double bound, const Judgement& judgement) {
    return static_cast<std::size_t>(
        std::ranges::count_if(judgement.cells, [&](const JudgedCell& cell) {
          return cell.ratio() > bound && cell.least_ratio() <= bound;
        }));
  }

  static void print_predictions(const std::vector<Judgement>& measurements) {
    const Judgement& first = measurements.front();
    perf::print_folded(
        "predictions: median error {:.0f} % of {} ways;\n"
        "  {:.0f} % of {} pairs that differ by more than 20 % are in the right order\n",
        100 * first.median_error(), first.errors.size(),
        first.pairs == 0
            ? 0
            : 100.0 * static_cast<double>(first.pairs_in_order) / static_cast<double>(first.pairs),
        first.pairs);
  }

  const MeasuredGroup& group_;
  const std::string& first_file_;
  std::vector<const MeasuredGroup*> same_;  ///< of the first file, then of others_
  std::vector<std::string> others_;
  const Hosts hosts_;
  LinkModel model_;
  MeasuredTimes first_;
};

}  // namespace

void judge_profiles(const std::vector<std::string>& files) {
  std::vector<Profile> profiles;
  for (const std::string& file : files) profiles.push_back(read(file));
  for (const MeasuredGroup& group : profiles.front().groups) {
    if (&group != &profiles.front().groups.front()) perf::print_folded("\n");
    Bench{group, profiles, files}.print();
  }
}

}  // namespace capstan::cli
