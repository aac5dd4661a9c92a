// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "capstan/collective.hpp"
#include "capstan/schedule.hpp"

namespace capstan::testing {

/// Runs the schedules of all ranks with real numbers: ranks advance in random order, and each put
/// lands at a random moment between its issue and the latest that the rules allow. It shares
/// nothing with the verifier but the contract, and so can tell whether that is right.
///
/// Elements are added modulo 2^64, and completing one multiplies it by a constant: one left out,
/// done twice or followed by another addition shows in the result. Where sums have to be in the
/// order of ranks, an operation takes the place of addition that is not commutative.
class Interleaving {
 public:
  struct Options {
    int calls = 4;
    int slots = 2;
    bool in_place = false;
    /// Nobody may return before all have entered; if not, a slot is used again only when all have
    /// finished with it.
    bool synchronizes = true;
    bool ordered = false;
  };

  /// `schedules[r]` belongs to rank r; `contract` is kept by reference.
  Interleaving(const Contract& contract, const std::vector<Schedule>& schedules,
               const Options& options, std::uint64_t seed)
      : contract_(contract),
        schedules_(schedules),
        options_(options),
        random_(seed),
        ranks_(schedules.size()) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const Extents& extents = schedules[r].extents();
      for (int slot = 0; slot < options.slots; ++slot)
        ranks_[r].scratch.push_back(garbage(extents.scratch.value()));
      for (int call = 0; call < options.calls; ++call) {
        ranks_[r].given.push_back(garbage(extents.input.value()));
        ranks_[r].input.push_back(garbage(extents.input.value()));
        ranks_[r].output.push_back(garbage(home_of_output(r)));
      }
    }
  }

  /// The error, or nothing: the ranks are stuck, or an output is not what it has to be.
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
      if (!failure_.empty()) return failure_;
    }
    return judge();
  }

 private:
  using Memory = std::vector<std::uint64_t>;
  static constexpr std::uint64_t completion = 0x9e3779b97f4a7c15;

  struct RankState {
    std::vector<Memory> scratch;        // by slot
    std::vector<Memory> given;          // by call: what the caller passes in
    std::vector<Memory> input, output;  // by call; in place, the output's memory holds the input
    std::vector<Memory> before, after;  // by call: the output's memory at entry and at return
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
    if (ranks_[r].inside && ranks_[r].step == 0 && !acquired(ranks_[r].call)) return false;
    const Step* step = next_step(r);
    if (!step || step->verb != Verb::wait) return true;
    const Pair& pair = pairs_[{index(step->peer), r}];
    return pair.consumed < pair.signals.size();
  }

  /// The scratch slot of `call` may be written: nobody reads what an earlier call left there.
  bool acquired(int call) const {
    return options_.synchronizes || std::ranges::all_of(ranks_, [&](const RankState& rank) {
             return rank.call > call - options_.slots;
           });
  }

  void go(std::size_t r) {
    RankState& rank = ranks_[r];
    if (!rank.inside) return enter(r);
    const Step* step = next_step(r);
    if (!step) return leave(r);
    ++rank.step;
    execute(r, *step);
  }

  void enter(std::size_t r) {
    RankState& rank = ranks_[r];
    const auto call = static_cast<std::size_t>(rank.call);
    rank.inside = true;
    rank.step = 0;
    rank.output[call] = garbage(rank.output[call].size());
    const Span input{Buffer::input, Elements{0}, Elements{rank.given[call].size()}};
    std::ranges::copy(rank.given[call], at(r, input, rank.call));
    rank.before.push_back(rank.output[call]);
  }

  void leave(std::size_t r) {
    RankState& rank = ranks_[r];
    land_if([&](const Flight& flight) { return flight.from == r; });
    rank.after.push_back(rank.output[static_cast<std::size_t>(rank.call)]);
    rank.inside = false;
    const int call = rank.call++;
    const auto outside = [&](const RankState& other) {
      return other.call < call || (other.call == call && !other.inside);
    };
    if (options_.synchronizes && std::ranges::any_of(ranks_, outside))
      failure_ = "rank " + std::to_string(r) + " returns before all have entered";
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
    const auto sources = schedules_[r].sources(step);
    Memory result(step.destination.length.value());
    for (std::size_t s = 0; s < sources.size(); ++s) {
      const auto from = at(r, sources[s], ranks_[r].call);
      for (std::size_t i = 0; i < result.size(); ++i) {
        const std::uint64_t value = from[static_cast<std::ptrdiff_t>(i)];
        result[i] = s == 0 ? value : add(result[i], value);
      }
    }
    if (step.completes)
      for (auto& element : result) element *= completion;
    return result;
  }

  /// Associative; if ordered it is the composition of x -> m·x + c, the two halves of an element.
  std::uint64_t add(std::uint64_t a, std::uint64_t b) const {
    if (!options_.ordered) return a + b;
    const auto m = static_cast<std::uint32_t>(a >> 32), n = static_cast<std::uint32_t>(b >> 32);
    const auto c = static_cast<std::uint32_t>(a), d = static_cast<std::uint32_t>(b);
    return std::uint64_t{m * n} << 32 | (n * c + d);
  }

  bool in_place(Buffer buffer) const { return options_.in_place && buffer != Buffer::scratch; }

  Memory& memory(std::size_t r, Buffer buffer, int call) {
    RankState& rank = ranks_[r];
    if (buffer == Buffer::scratch)
      return rank.scratch[static_cast<std::size_t>(call) % rank.scratch.size()];
    const bool output = buffer == Buffer::output || options_.in_place;
    return (output ? rank.output : rank.input)[static_cast<std::size_t>(call)];
  }

  /// Where a buffer begins in its memory.
  std::uint64_t begin_of(std::size_t r, Buffer buffer) const {
    if (!in_place(buffer)) return 0;
    const auto placement = contract_.in_place(static_cast<int>(r));
    return (buffer == Buffer::input ? placement.input : placement.output).value();
  }

  /// The length of the memory that the output lies in.
  std::uint64_t home_of_output(std::size_t r) const {
    const Extents& extents = schedules_[r].extents();
    const std::uint64_t output = begin_of(r, Buffer::output) + extents.output.value();
    return options_.in_place ? std::max(output, begin_of(r, Buffer::input) + extents.input.value())
                             : output;
  }

  Memory::iterator at(std::size_t r, const Span& span, int call) {
    return memory(r, span.buffer, call).begin() +
           static_cast<std::ptrdiff_t>(begin_of(r, span.buffer) + span.offset.value());
  }

  void land(std::size_t flight) {
    const Flight landing = std::move(flying_[flight]);
    flying_.erase(flying_.begin() + static_cast<std::ptrdiff_t>(flight));
    const Span& to = landing.destination;
    if (to.end() > schedules_[landing.to].extents().of(to.buffer))
      failure_ = "a put lands outside a buffer of rank " + std::to_string(landing.to);
    else
      std::ranges::copy(landing.data, at(landing.to, to, landing.call));
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
        const std::string wrong = judge(r, static_cast<std::size_t>(call));
        if (!wrong.empty())
          return wrong + " of rank " + std::to_string(r) + " in call " + std::to_string(call);
      }
    return failure_;
  }

  /// The error in a rank's buffers after one call; empty: they are right.
  std::string judge(std::size_t r, std::size_t call) const {
    const RankState& rank = ranks_[r];
    const std::uint64_t output = begin_of(r, Buffer::output), input = begin_of(r, Buffer::input);
    const std::uint64_t outputs = contract_.lengths(static_cast<int>(r)).output.value();
    for (std::uint64_t i = 0; i < outputs; ++i)
      if (rank.after[call][output + i] != expected(r, call, i)) return "wrong result";
    if (rank.output[call] != rank.after[call]) return "after the return, changed output";
    for (std::uint64_t i = 0; i < rank.given[call].size(); ++i) {
      const bool overwritten =
          options_.in_place && input + i >= output && input + i < output + outputs;
      const Memory& memory = options_.in_place ? rank.output[call] : rank.input[call];
      if (!overwritten && memory[input + i] != rank.given[call][i]) return "changed input";
    }
    return "";
  }

  std::uint64_t expected(std::size_t r, std::size_t call, std::uint64_t index) const {
    const auto promise = contract_.promise(static_cast<int>(r), Elements{index});
    const auto given = [&](int rank) {
      return ranks_[static_cast<std::size_t>(rank)].given[call][promise.index.value()];
    };
    if (promise.last < promise.first)
      return ranks_[r].before[call][begin_of(r, Buffer::output) + index];
    std::uint64_t sum = given(promise.first);
    for (int rank = promise.first + 1; rank <= promise.last; ++rank) sum = add(sum, given(rank));
    return completes() ? sum * completion : sum;
  }

  bool completes() const {
    const Collective collective = contract_.collective();
    return ranks_.size() > 1 && reduces(collective) && collective != Collective::scan &&
           collective != Collective::exscan;
  }

  const Contract& contract_;
  const std::vector<Schedule>& schedules_;
  const Options options_;
  std::mt19937_64 random_;
  std::vector<RankState> ranks_;
  std::vector<Flight> flying_;
  std::map<std::pair<std::size_t, std::size_t>, Pair> pairs_;
  std::string failure_;
};

}  // namespace capstan::testing
