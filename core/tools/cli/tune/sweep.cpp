// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/tune/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "capstan/error.hpp"
#include "capstan/version.hpp"
#include "core/engine/run/agreement.hpp"
#include "core/engine/run/engine.hpp"
#include "core/profiles/cell_sweep.hpp"
#include "core/profiles/fit_model.hpp"
#include "core/profiles/judge_profile.hpp"
#include "core/profiles/machine_state.hpp"
#include "core/profiles/write_profile.hpp"
#include "core/tools/cli/options.hpp"
#include "core/tools/cli/tune/cell_clock.hpp"
#include "core/tools/cli/tune/swept_cells.hpp"
#include "perf/measure/cell.hpp"
#include "perf/measure/folded.hpp"
#include "perf/measure/progress_bar.hpp"
#include "topology/machine.hpp"

namespace capstan::cli {
namespace {

/// Sweeps over the cells of a plan, as one rank.
class Sweep {
 public:
  Sweep(const SweepPlan& plan, MeasuredCalls& calls)
      : plan_(plan), calls_(calls), engine_(calls.engine()), exchange_(engine_) {}

  int run() {
    if (is_first()) profile_ = profile_to_continue(plan_);
    const auto cells = cells_to_measure();
    if (is_first() && text_) say_what_is_known(cells.size());
    perf::ProgressBar bar{cells.size(), is_first()};
    for (const perf::Cell& cell : cells) {
      bar.show(fmt::format("{} of {} bytes", name_of(cell.collective), extent(cell).value()));
      const SweptCell swept = measure_quietly(cell);
      bar.step();
      if (is_first()) keep(swept);
    }
    if (is_first()) end(cells.size());
    return 0;
  }

 private:
  bool is_first() const { return engine_.rank() == 0; }
  Bytes extent(const perf::Cell& cell) const {
    return bytes_of(cell.contract(engine_.size()).extent(), size_of(cell.type));
  }
  std::string network() const {
    const MachineView& machine = engine_.machine();
    return machine.hosts.single() ? "" : std::string{word_for(machine.network)};
  }
  MeasuredGroup& group() {
    return profile_.group(engine_.size(), engine_.machine().hosts.count(), network(),
                          calls_.devices());
  }

  LinkModel model() const {
    return link_model(engine_.machine(), engine_.settings(), calls_.devices());
  }

  /// The cells that rank 0's file lacks.
  std::vector<perf::Cell> cells_to_measure() {
    std::vector<perf::Cell> cells;
    for (const Collective collective : plan_.collectives)
      for (const Bytes size : plan_.sizes) {
        cells.push_back(perf::usual_cell_of(collective, size, engine_.size()));
        const auto same = [&](const perf::Cell& other) {
          return other.collective == collective && other.shape == cells.back().shape;
        };
        if (std::count_if(cells.begin(), cells.end(), same) > 1) cells.pop_back();
      }
    std::vector<double> known(cells.size()), all(cells.size());
    if (is_first())
      for (std::size_t i = 0; i < cells.size(); ++i) known[i] = is_known(cells[i]);
    agree(known, all);
    std::vector<perf::Cell> wanted;
    for (std::size_t i = 0; i < cells.size(); ++i)
      if (all[i] == 0) wanted.push_back(cells[i]);
    return wanted;
  }

  bool is_known(const perf::Cell& cell) {
    const MeasuredGroup& group = this->group();
    const MeasuredCell* const known = group.find(cell.collective, extent(cell));
    return !plan_.restart && group.under_load == plan_.under_load && known && known->decides();
  }

  void say_what_is_known(std::size_t cells) {
    const std::size_t all = plan_.collectives.size() * plan_.sizes.size();
    if (cells < all)
      perf::print_folded(
          "{} of {} cells are known or the same as others: --restart measures them again\n",
          all - cells, all);
    if (cells > 0) fmt::print("{}", swept_head());
    std::fflush(stdout);
  }

  void keep(const SweptCell& swept) {
    MeasuredGroup& known = group();
    if (known.under_load != plan_.under_load) known.cells.clear();
    known.put(swept.cell);
    known.under_load = plan_.under_load;
    known.date = utc_now();
    known.command = plan_.command, known.commit = plan_.commit;
    known.machine = swept.state.text();
    write_profile(profile_, plan_.file);
    if (text_) perf::print_folded("{}", text_of(swept)), std::fflush(stdout);
    swept_.push_back(swept);
  }

  void end(std::size_t cells) {
    fit();
    if (text_)
      perf::print_folded("{}{} cells measured; the profile is {}\n", changes(), cells, plan_.file);
    write_json(plan_.json, to_json(swept_, plan_.origin));
  }

  /// The changes that the profile makes, by the times in it.
  std::string changes() {
    const Hosts& hosts = engine_.machine().hosts;
    const LinkModel model = this->model();
    const MeasuredTimes times = measured_times(profile_, network(), plan_.file, calls_.devices());
    return text_of_changes(judge(group(), hosts, model), judge(group(), hosts, model, &times));
  }

  /// Once more, if the machine was busy: the undisturbed one of both counts, or the clearer one.
  SweptCell measure_quietly(const perf::Cell& cell) {
    SweptCell first = measure(cell);
    if (!first.cell.disturbed) return first;
    SweptCell again = measure(cell);
    const bool better = !again.cell.disturbed || again.cell.confidence >= first.cell.confidence;
    return better ? again : first;
  }

  SweptCell measure(const perf::Cell& cell) {
    const MachineReading before = read_machine();
    SweptCell swept = time_ways(cell);
    swept.state = state_since(before, engine_);
    swept.cell.disturbed = swept.state.busy() && !plan_.accepts_load;
    return swept;
  }

  SweptCell time_ways(const perf::Cell& cell) {
    constexpr std::uint64_t most_shorter = 8;
    CellClock clock{calls_, cell};
    const MeasuredCell& all = clock.candidates();
    const bool streams = all.bytes >= block_bytes(engine_.size(), engine_.machine().chunk);
    CellSweep::Options options;
    if (streams && engine_.settings().chunk == Bytes{0}) options.most_shorter = most_shorter;
    CellSweep sweep{all, options};
    for (int round = 0; !sweep.finished(); ++round) {
      const auto ways = sweep.round();
      const double turn = plan_.seconds * 1e9 / options.rounds / static_cast<double>(ways.size());
      sweep.note(clock.times(ways, turn, round == 0 ? 10 : 2000));
    }
    return {.cell = sweep.result(), .times = sweep.all_times()};
  }

  /// The model, fitted to the cells of the group that decide: for calls that were not measured.
  void fit() {
    MeasuredGroup& known = group();
    std::vector<MeasuredCell> cells;
    std::ranges::copy_if(known.cells, std::back_inserter(cells), &MeasuredCell::decides);
    if (cells.empty()) return;
    known.model = fit_model(cells, engine_.machine().hosts, model());
    write_profile(profile_, plan_.file);
  }

  void agree(const std::vector<double>& own, std::vector<double>& greatest) {
    if (own.empty()) return;
    exchange_.run({.combine = Combine::greatest, .type = DataType::f64, .count = own.size()},
                  own.data(), greatest.data());
  }

  const SweepPlan& plan_;
  const bool text_ = prints_text(plan_.json);
  MeasuredCalls& calls_;
  Engine& engine_;
  CollectiveExchange exchange_;
  Profile profile_{};               // of rank 0
  std::vector<SweptCell> swept_{};  // of rank 0
};

}  // namespace

Profile profile_to_continue(const SweepPlan& plan) {
  const Fingerprint machine = Fingerprint::of(Machine::discover());
  return profile_to_extend(plan.file, machine,
                           plan.restart ? OtherProfile::is_replaced : OtherProfile::is_refused);
}

int sweep_as_rank(const SweepPlan& plan) {
  const std::size_t bytes = std::ranges::max(plan.sizes).value() + 4096;
  if (!plan.vendor.empty()) {
    CallsOnDevices calls{plan.vendor, bytes};
    return Sweep{plan, calls}.run();
  }
  const Member member = join_to_measure();
  std::vector<std::byte> input(bytes), output(bytes);
  CallsOnHost calls{*member.engine, input.data(), output.data()};
  return Sweep{plan, calls}.run();
}

}  // namespace capstan::cli
