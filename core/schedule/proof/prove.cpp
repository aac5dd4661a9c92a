// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/proof/prove.hpp"

#include <algorithm>
#include <deque>
#include <utility>

namespace capstan::proof {

Case::Case(ByRank<std::vector<Effect>> scripts, const BlockLayout& layout, Budget& budget)
    : classes_(scripts, layout, budget),
      layout_(layout, classes_),
      scripts_(classes_.reduced(std::move(scripts), budget)),
      budget_(budget) {}

/// Each rank has a clock of all ranks.
Result Case::prove() {
  constexpr std::uint64_t most_ranks = 1 << 14, clock_cost = 4;
  const auto ranks = static_cast<std::uint64_t>(scripts_.size());
  if (ranks > most_ranks) throw TooMuchWork{};
  budget_.spend(clock_cost * ranks * ranks);
  Machine machine{std::move(scripts_), layout_, budget_};
  machine.run();
  const ResultFacts facts = layout_.check_results(machine);
  return {machine.findings(), facts, machine.synchronizes()};
}

namespace {

void add_to(Digest& digest, const Shape& shape) {
  digest.add(shape.count);
  digest.add(static_cast<std::uint64_t>(shape.root));
  for (const Elements count : shape.counts) digest.add(count);
}

void add_to(Digest& digest, const Hosts& hosts) {
  for (int host = 0; host < hosts.count(); ++host) {
    digest.add(static_cast<std::uint64_t>(hosts.on(host).size()));
    for (const Rank rank : hosts.on(host)) digest.add(rank);
  }
}

void add_to(Digest& digest, const Piece& piece, const Layout& layout) {
  const Memory& memory = piece.memory;
  digest.add(static_cast<std::uint64_t>(memory.kind) |
             static_cast<std::uint64_t>(memory.region) << 8 |
             static_cast<std::uint64_t>(memory.owner.value()) << 32);
  digest.add(static_cast<std::uint64_t>(memory.instance));
  digest.add(static_cast<std::uint64_t>(memory.form));
  digest.add(memory.viewer.value_or(Rank{-1}));
  digest.add(piece.offset);
  digest.add(layout.extent(memory));
}

void add_to(Digest& digest, const Effect& effect, const Layout& layout) {
  digest.add(static_cast<std::uint64_t>(effect.kind) | std::uint64_t{effect.completes} << 8 |
             std::uint64_t{effect.synchronizes} << 9);
  digest.add(static_cast<std::uint64_t>(effect.call) << 32 ^
             static_cast<std::uint64_t>(effect.block));
  digest.add(effect.peer);
  digest.add(effect.peers.size());
  for (const Rank peer : effect.peers) digest.add(peer);
  digest.add(effect.length);
  digest.add(effect.destinations.size());
  for (const Piece& piece : effect.destinations) add_to(digest, piece, layout);
  for (const Piece& piece : effect.sources) add_to(digest, piece, layout);
}

}  // namespace

Digest::Value Case::digest() const {
  Digest digest;
  digest.add(static_cast<std::uint64_t>(scripts_.size()));
  digest.add(std::uint64_t{layout_.in_place()});
  for (const BlockLayout::Block& block : layout_.blocks()) {
    digest.add(static_cast<std::uint64_t>(block.collective) |
               std::uint64_t{block.claims.ordered} << 16 |
               std::uint64_t{block.claims.same_sums} << 17 |
               std::uint64_t{block.claims.rank_ordered_sum} << 18 |
               std::uint64_t{block.claims.left_fold} << 19 |
               std::uint64_t{block.claims.host_ordered_sum} << 20);
    add_to(digest, block.shape);
    if (block.claims.hosts) add_to(digest, *block.claims.hosts);
  }
  for (const Rank a : all_ranks(scripts_.size())) {
    for (const Rank b : all_ranks(scripts_.size()))
      if (layout_.shares_memory(a, b)) digest.add(b);
    digest.add(scripts_[a].size());
    for (const Effect& effect : scripts_[a]) add_to(digest, effect, layout_);
  }
  return digest.value();
}

void for_each_phase(int blocks, int phases,
                    const std::function<void(int block, int phase)>& visit) {
  for (int round = 0; round < blocks + phases - 1; ++round)
    for (int phase = 0; phase < phases; ++phase)
      if (round - phase >= 0 && round - phase < blocks) visit(round - phase, phase);
}

namespace {

Memory memory_of(Buffer buffer, Rank owner, int block, int slots) {
  return {.kind = static_cast<Memory::Kind>(buffer),
          .owner = owner,
          .instance = buffer == Buffer::scratch ? block % slots : block};
}

Effect effect_of(const Schedule& schedule, const Step& step, std::string_view text, int index,
                 int call, int block, int slots) {
  Effect effect{.call = call, .block = block, .step = index, .peer = step.peer};
  effect.text = text;
  if (step.verb == Verb::signal || step.verb == Verb::wait) {
    effect.kind = step.verb == Verb::signal ? Effect::Kind::signal : Effect::Kind::wait;
    return effect;
  }
  const Rank owner = step.verb == Verb::put ? step.peer : schedule.self();
  effect.kind = step.verb == Verb::put ? Effect::Kind::put : Effect::Kind::transfer;
  effect.completes = step.completes;
  effect.length = step.destination.length;
  effect.destinations.push_back(
      {memory_of(step.destination.buffer, owner, block, slots), step.destination.offset});
  for (const Span& source : schedule.sources(step))
    effect.sources.push_back(
        {memory_of(source.buffer, schedule.self(), block, slots), source.offset});
  return effect;
}

/// Whether a rank waits until all have finished the block that used a slot before.
bool acquires_slots(const ProofOptions& options) {
  return !options.synchronizes || (!options.bounded_skew && options.blocks > 1);
}

/// `texts`: of the steps; the effects refer to them.
std::vector<Effect> script_of(const Schedule& schedule, const std::vector<std::string>& texts,
                              const ProofOptions& options) {
  std::vector<Effect> script;
  const int phases = schedule.phases();
  for (int call = 0; call < options.calls; ++call) {
    const int first = call * options.blocks;
    for (int block = 0; block < options.blocks; ++block)
      script.push_back({.kind = Effect::Kind::enter, .call = call, .block = first + block});
    for_each_phase(options.blocks, phases, [&](int block, int phase) {
      const int reused = first + block - options.slots;
      if (phase == 0 && acquires_slots(options) && reused >= 0)
        script.push_back({.kind = Effect::Kind::acquire, .call = call, .block = reused});
      for (std::size_t i = 0; i < schedule.steps().size(); ++i)
        if (schedule.steps()[i].phase == phase)
          script.push_back(effect_of(schedule, schedule.steps()[i], texts[i], static_cast<int>(i),
                                     call, first + block, options.slots));
      if (phase + 1 == phases)
        script.push_back({.kind = Effect::Kind::finish, .call = call, .block = first + block});
    });
    script.push_back(
        {.kind = Effect::Kind::leave, .synchronizes = options.synchronizes, .call = call});
  }
  return script;
}

class ScheduleLayout : public BlockLayout {
 public:
  ScheduleLayout(const ByRank<Schedule>& schedules, bool in_place)
      : BlockLayout(in_place), schedules_(schedules) {}

 private:
  Elements extent_of_other(const Memory& memory) const override {
    return memory.owner.value() < schedules_.size() ? schedules_[memory.owner].extents().scratch
                                                    : Elements{0};
  }

  const ByRank<Schedule>& schedules_;
};

void add_finding(std::vector<Finding>& findings, Flaw flaw, Rank rank, int step,
                 const std::string& message) {
  findings.push_back({flaw, rank, step, std::string{name_of(flaw)} + ": " + message});
}

/// Peers that do not exist.
void check_peers(const Schedule& schedule, int ranks, std::vector<Finding>& findings) {
  const auto steps = schedule.steps();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Rank peer = steps[i].peer;
    if (steps[i].verb == Verb::copy || steps[i].verb == Verb::reduce) continue;
    if (peer.value() >= 0 && static_cast<int>(peer.value()) < ranks) continue;
    add_finding(findings, Flaw::no_such_rank, schedule.self(), static_cast<int>(i),
                to_string(schedule, steps[i]) + ", but there are ranks 0 to " +
                    std::to_string(ranks - 1) + ": use group[i], group.left() or group.right()");
  }
}

/// Reports scratch that no memory can hold: its length is a mistake, and would overflow in bytes.
void check_scratch(const Schedule& schedule, std::vector<Finding>& findings) {
  constexpr Elements most{std::uint64_t{1} << 40};
  const Elements scratch = schedule.extents().scratch;
  if (scratch > most)
    add_finding(findings, Flaw::extents, schedule.self(), -1,
                rank_name(schedule.self()) + " has scratch of " + std::to_string(scratch.value()) +
                    " elements, and at most " + std::to_string(most.value()) +
                    " are possible: does its length follow from the call's count?");
}

/// Accesses to the rank's own buffers beyond their ends.
void check_buffers(const Schedule& schedule, const Step& step, const BufferLengths& lengths,
                   std::vector<Finding>& findings) {
  const auto check = [&](const Span& span) {
    const bool input = span.buffer == Buffer::input;
    if (span.buffer == Buffer::scratch || span.end() <= (input ? lengths.input : lengths.output))
      return;
    add_finding(findings, Flaw::out_of_range, schedule.self(),
                static_cast<int>(&step - schedule.steps().data()),
                to_string(schedule, step) + " of " + rank_name(schedule.self()) +
                    " goes beyond its " + (input ? "input" : "output"));
  };
  if (step.verb == Verb::copy || step.verb == Verb::reduce) check(step.destination);
  for (const Span& source : schedule.sources(step)) check(source);
}

std::vector<Finding> unequal_scratch(const ByRank<Schedule>& schedules) {
  std::vector<Finding> findings;
  for (const Schedule& schedule : schedules)
    if (schedule.extents().scratch != schedules[Rank{0}].extents().scratch)
      add_finding(findings, Flaw::extents, schedule.self(), -1,
                  rank_name(schedule.self()) + " has scratch of another length than rank 0");
  return findings;
}

void check_phases(const ByRank<Schedule>& schedules, const ProofOptions& options,
                  std::vector<Finding>& findings) {
  const int phases = schedules[Rank{0}].phases();
  for (const Schedule& schedule : schedules)
    if (schedule.phases() != phases)
      add_finding(findings, Flaw::phases, schedule.self(), -1,
                  rank_name(schedule.self()) + " has " + std::to_string(schedule.phases()) +
                      " phases, rank 0 has " + std::to_string(phases) +
                      ": call next_phase() equally often on all ranks");
  if (acquires_slots(options) && options.blocks > 1 && phases > options.slots)
    add_finding(findings, Flaw::phases, Rank{0}, -1,
                "there are " + std::to_string(phases) + " phases, so that " +
                    std::to_string(phases) +
                    " blocks of a long call are under way at once, and they share " +
                    std::to_string(options.slots) + " slots: use at most " +
                    std::to_string(options.slots) + " phases");
}

/// Flaws that show without a run. The machine expects well-formed schedules.
std::vector<Finding> check_form(const ByRank<Schedule>& schedules, const ProofOptions& options) {
  std::vector<Finding> findings;
  for (const Schedule& schedule : schedules) {
    check_peers(schedule, schedules.size(), findings);
    check_scratch(schedule, findings);
  }
  check_phases(schedules, options, findings);
  return findings;
}

/// The schedules as scripts, with what these refer to.
class ScheduleCase {
 public:
  ScheduleCase(Collective collective, const Shape& shape, const ByRank<Schedule>& schedules,
               const ProofOptions& options)
      : layout_(schedules, options.in_place) {
    for (const Schedule& schedule : schedules) {
      auto& of_steps = texts_.emplace_back();
      for (const Step& step : schedule.steps()) of_steps.push_back(to_string(schedule, step));
      scripts_.push_back(script_of(schedule, of_steps, options));
    }
    for (int block = 0; block < options.calls * options.blocks; ++block)
      layout_.add({collective, shape, schedules.size(), options.claims});
  }

  const ScheduleLayout& layout() const { return layout_; }
  const ByRank<std::vector<Effect>>& scripts() const { return scripts_; }

 private:
  ScheduleLayout layout_;
  std::deque<std::vector<std::string>> texts_;
  ByRank<std::vector<Effect>> scripts_;
};

}  // namespace

Result prove_schedules(Collective collective, const Shape& shape, const ByRank<Schedule>& schedules,
                       const ProofOptions& options) {
  if (auto findings = check_form(schedules, options); !findings.empty())
    return {std::move(findings)};
  const ScheduleCase wanted{collective, shape, schedules, options};
  Budget unlimited;
  Budget& budget = options.budget ? *options.budget : unlimited;
  Result result = Case{wanted.scripts(), wanted.layout(), budget}.prove();
  const auto unequal = unequal_scratch(schedules);
  result.findings.insert(result.findings.begin(), unequal.begin(), unequal.end());
  return result;
}

std::vector<Finding> form_of(Collective collective, const Shape& shape, const Schedule& schedule,
                             Rank self, int ranks) {
  constexpr std::size_t most_steps = 1 << 17;
  std::vector<Finding> findings;
  if (schedule.self() != self) {
    add_finding(findings, Flaw::no_such_rank, self, -1,
                "it is that of " + rank_name(schedule.self()) + ": build it for the group given");
    return findings;
  }
  check_peers(schedule, ranks, findings);
  check_scratch(schedule, findings);
  const BufferLengths lengths = Contract{collective, shape, ranks}.lengths(self.value());
  const auto& [input, output, scratch] = schedule.extents();
  if (input > lengths.input || output > lengths.output)
    for (const Step& step : schedule.steps()) check_buffers(schedule, step, lengths, findings);
  if (schedule.steps().size() > most_steps)
    add_finding(findings, Flaw::extents, self, -1,
                rank_name(self) + " has " + std::to_string(schedule.steps().size()) +
                    " steps, and at most " + std::to_string(most_steps) + " are possible");
  return findings;
}

Cuts cuts_of(Collective collective, const Shape& shape, const ByRank<Schedule>& schedules,
             Budget& budget) {
  const ScheduleCase once{collective, shape, schedules, {.calls = 1}};
  const Classes classes{once.scripts(), once.layout(), budget, Classes::Scratch::alike};
  return {classes.cuts_of_block(0), classes.cuts_of_scratch()};
}

}  // namespace capstan::proof
