#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/schedule.hpp"

namespace capstan::testing {

/// Runs the schedules of all ranks with real numbers: ranks advance in random order, and each put
/// lands at a random moment between its issue and the latest that the rules allow. It shares
/// nothing with the verifier, and so can tell whether that is right.
///
/// Addition is modulo 2^64, and completing an element multiplies it by a constant: one left out,
/// done twice or followed by another addition shows in the result.
class Interleaving {
 public:
  struct Options {
    int calls = 4;
    int slots = 2;
    bool in_place = false;
  };

  /// `schedules[r]` belongs to rank r.
  Interleaving(const std::vector<Schedule>& schedules, const Options& options, std::uint64_t seed)
      : schedules_(schedules), options_(options), random_(seed), ranks_(schedules.size()) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const auto extent = schedules[r].extents().scratch.value();
      for (int slot = 0; slot < options.slots; ++slot) ranks_[r].scratch.push_back(garbage(extent));
      for (int call = 0; call < options.calls; ++call) {
        ranks_[r].input.push_back(garbage(schedules[r].extents().input.value()));
        ranks_[r].output.push_back(garbage(schedules[r].extents().output.value()));
        ranks_[r].given.push_back(ranks_[r].input.back());
      }
    }
  }

  /// What went wrong, or nothing: the ranks are stuck, or an output is not what it has to be.
  std::string run() {
    std::vector<std::size_t> able;
    for (;;) {
      able.clear();
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        if (can_go(r)) able.push_back(r);
      if (!flying_.empty() && (able.empty() || random_() % 3 == 0)) {
        land(random_() % flying_.size());
        continue;
      }
      if (able.empty()) break;
      go(able[random_() % able.size()]);
    }
    return judge();
  }

 private:
  using Memory = std::vector<std::uint64_t>;
  static constexpr std::uint64_t completion = 0x9e3779b97f4a7c15;

  struct RankState {
    std::vector<Memory> scratch;                         // by slot
    std::vector<Memory> input, output, given, returned;  // by call
    int call = 0;
    bool inside = false;
    std::size_t step = 0;
  };
  struct Flight {
    std::size_t from, to;
    int call;
    std::uint64_t number;  // among the puts between the two
    Span destination;
    Memory data;
  };
  struct Pair {
    std::uint64_t puts = 0;
    std::vector<std::uint64_t> signals;  // how many puts came before each
    std::size_t consumed = 0;
  };

  Memory garbage(std::uint64_t length) {
    Memory memory(length);
    for (auto& element : memory) element = random_();
    return memory;
  }

  static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank.value()); }

  const Step* next_step(std::size_t r) const {
    const RankState& rank = ranks_[r];
    const auto steps = schedules_[r].steps();
    return rank.inside && rank.step < steps.size() ? &steps[rank.step] : nullptr;
  }

  bool can_go(std::size_t r) {
    if (ranks_[r].call == options_.calls) return false;
    const Step* step = next_step(r);
    if (!step || step->verb != Verb::wait) return true;
    const Pair& pair = pairs_[{index(step->peer), r}];
    return pair.consumed < pair.signals.size();
  }

  void go(std::size_t r) {
    RankState& rank = ranks_[r];
    if (!rank.inside) return enter(rank);
    const Step* step = next_step(r);
    if (!step) return leave(r);
    ++rank.step;
    execute(r, *step);
  }

  void enter(RankState& rank) {
    const auto call = static_cast<std::size_t>(rank.call);
    rank.inside = true;
    rank.step = 0;
    rank.input[call] = rank.given[call];
    rank.output[call] = garbage(rank.output[call].size());
  }

  void leave(std::size_t r) {
    RankState& rank = ranks_[r];
    land_if([&](const Flight& flight) { return flight.from == r; });
    rank.returned.push_back(memory(r, Buffer::output, rank.call));
    rank.inside = false;
    ++rank.call;
  }

  void execute(std::size_t r, const Step& step) {
    const std::size_t peer = index(step.peer);
    switch (step.verb) {
      case Verb::copy:
      case Verb::reduce: {
        const Memory result = combine(r, step);
        std::ranges::copy(result, at(r, step.destination, ranks_[r].call));
        return;
      }
      case Verb::put:
        flying_.push_back({r, peer, ranks_[r].call, pairs_[{r, peer}].puts++, step.destination,
                           combine(r, step)});
        return;
      case Verb::signal:
        pairs_[{r, peer}].signals.push_back(pairs_[{r, peer}].puts);
        return;
      case Verb::wait: {
        Pair& pair = pairs_[{peer, r}];
        const std::uint64_t announced = pair.signals[pair.consumed++];
        land_if([&](const Flight& flight) {
          return flight.from == peer && flight.to == r && flight.number < announced;
        });
        return;
      }
    }
  }

  Memory combine(std::size_t r, const Step& step) {
    Memory result(step.destination.length.value());
    for (const Span& source : schedules_[r].sources(step)) {
      const auto from = at(r, source, ranks_[r].call);
      for (std::size_t i = 0; i < result.size(); ++i)
        result[i] += from[static_cast<std::ptrdiff_t>(i)];
    }
    if (step.completes)
      for (auto& element : result) element *= completion;
    return result;
  }

  Memory& memory(std::size_t r, Buffer buffer, int call) {
    RankState& rank = ranks_[r];
    if (buffer == Buffer::scratch)
      return rank.scratch[static_cast<std::size_t>(call) % rank.scratch.size()];
    const bool input = buffer == Buffer::input || options_.in_place;
    return (input ? rank.input : rank.output)[static_cast<std::size_t>(call)];
  }

  Memory::iterator at(std::size_t r, const Span& span, int call) {
    return memory(r, span.buffer, call).begin() + static_cast<std::ptrdiff_t>(span.offset.value());
  }

  void land(std::size_t flight) {
    const Flight landing = std::move(flying_[flight]);
    flying_.erase(flying_.begin() + static_cast<std::ptrdiff_t>(flight));
    std::ranges::copy(landing.data, at(landing.to, landing.destination, landing.call));
  }

  template <class Predicate>
  void land_if(Predicate due) {
    for (std::size_t i = 0; i < flying_.size();) due(flying_[i]) ? land(i) : static_cast<void>(++i);
  }

  std::string judge() {
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (ranks_[r].call < options_.calls)
        return "rank " + std::to_string(r) + " is stuck in call " + std::to_string(ranks_[r].call);
    for (int call = 0; call < options_.calls; ++call)
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        const auto c = static_cast<std::size_t>(call);
        const std::string where =
            " of rank " + std::to_string(r) + " in call " + std::to_string(call);
        if (ranks_[r].returned[c] != sum(c)) return "the result" + where + " is wrong";
        if (memory(r, Buffer::output, call) != sum(c))
          return "the output" + where + " has changed after the return";
        if (!options_.in_place && ranks_[r].input[c] != ranks_[r].given[c])
          return "the input" + where + " has changed";
      }
    return "";
  }

  Memory sum(std::size_t call) const {
    Memory sum(ranks_.front().given[call].size());
    for (const RankState& rank : ranks_)
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += rank.given[call][i];
    if (ranks_.size() > 1)
      for (auto& element : sum) element *= completion;
    return sum;
  }

  const std::vector<Schedule>& schedules_;
  const Options options_;
  std::mt19937_64 random_;
  std::vector<RankState> ranks_;
  std::vector<Flight> flying_;
  std::map<std::pair<std::size_t, std::size_t>, Pair> pairs_;
};

}  // namespace capstan::testing
