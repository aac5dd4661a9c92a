// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/tune/model_sweep.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "core/engine/run/machine_view.hpp"
#include "core/platform/memory/huge_pages.hpp"
#include "core/profiles/fit_model.hpp"
#include "core/tools/cli/tune/cell_clock.hpp"

namespace capstan::cli {
namespace {

constexpr Collective collectives[] = {Collective::all_reduce, Collective::broadcast,
                                      Collective::all_gather};
constexpr Bytes sizes[] = {Bytes{8},         Bytes{512},     Bytes{8 << 10}, Bytes{64 << 10},
                           Bytes{512 << 10}, Bytes{4 << 20}, Bytes{24 << 20}};
/// No cell is measured that would end later, if it took as long as the one before. The longest come
/// last.
constexpr std::chrono::milliseconds budget{800};

/// Nanoseconds in which the calls of one way run. Calls between hosts take longer. Ranks that share
/// a core run out of step at first: in turns of 300 us their calls take 1.4 times as long as in
/// long ones (docs/lab-notebook.md#fit-of-the-model).
double turn_for(const MachineView& machine) {
  return machine.hosts.single() && !machine.shares_cores ? 300'000 : 1'000'000;
}

/// The calls in each way, with the median of a few rounds.
MeasuredCell measure(CellClock clock, double turn) {
  constexpr std::size_t rounds = 3;
  constexpr double most_calls = 2000;
  MeasuredCell cell = clock.candidates();
  std::array<std::vector<double>, rounds> times;
  for (auto& round : times) round = clock.times(cell.ways, turn, most_calls);
  for (std::size_t i = 0; i < cell.ways.size(); ++i) {
    std::array<double, rounds> of_way{};
    for (std::size_t k = 0; k < rounds; ++k) of_way[k] = times[k][i];
    std::ranges::sort(of_way);
    cell.ways[i].nanoseconds = of_way[rounds / 2];
  }
  return cell;
}

/// The time for all cells, by the clock of rank 0.
class TimeBudget {
 public:
  explicit TimeBudget(Engine& engine) : engine_(engine) {}

  /// All ranks ask together, before each cell.
  bool agree_whether_spent() {
    const auto now = Clock::now();
    const bool late = now - begin_ + (now - last_) > budget;
    last_ = now;
    const std::uint8_t own = engine_.rank() == 0 && late;
    std::uint8_t any = 0;
    CollectiveExchange{engine_}.run(
        {.combine = Combine::greatest, .type = DataType::u8, .count = 1}, &own, &any);
    return any != 0;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Engine& engine_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
};

/// A buffer as those of long-lived programs come to be: in huge pages, where the ranks use them.
class Buffer {
 public:
  Buffer(Bytes size, bool in_huge_pages)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(huge_page.value(), size.value()))) {
    if (!memory_) throw std::bad_alloc{};
    std::memset(data(), 0, size.value());
    if (in_huge_pages) collapse_pages(data(), size);
  }
  std::byte* data() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
};

std::vector<MeasuredCell> measure_cells(Engine& engine) {
  constexpr Bytes largest = std::ranges::max(sizes);
  const Buffer input{largest, engine.machine().huge_pages};
  const Buffer output{largest, engine.machine().huge_pages};
  CallsOnHost calls{engine, input.data(), output.data()};
  const double turn = turn_for(engine.machine());
  TimeBudget time{engine};
  std::vector<MeasuredCell> cells;
  for (const Bytes size : sizes)
    for (const Collective collective : collectives) {
      if (time.agree_whether_spent()) return cells;
      const perf::Cell cell = perf::usual_cell_of(collective, size, engine.size());
      cells.push_back(measure({calls, cell}, turn));
    }
  return cells;
}

}  // namespace

ModelScale measure_model(Engine& engine) {
  const auto cells = measure_cells(engine);
  if (engine.rank() != 0) return {};
  return fit_model(cells, engine.machine().hosts, link_model(engine.machine(), engine.settings()));
}

}  // namespace capstan::cli
