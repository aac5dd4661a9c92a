#include "core/ir/proof/prove.hpp"

#include <algorithm>
#include <deque>
#include <optional>

namespace capstan::proof {
namespace {

std::string describe(const Values& values, ValueId value) {
  if (value == Values::nothing) return "nothing";
  std::string text;
  for (const auto& [contribution, times] : values.terms(value)) {
    if (!text.empty()) text += " + ";
    if (text.size() > 200) return text + "...";
    if (times > 1) text += std::to_string(times) + " x ";
    text += rank_name(contribution.rank) + "[" + std::to_string(contribution.index.value()) + "]";
  }
  return text;
}

struct Wrong {
  Flaw flaw;
  std::string what;
};

/// The flaw of a value that should hold `promise`, if there is one.
std::optional<Wrong> wrong_value(const Values& values, ValueId value, int block,
                                 const Contract::Promise& promise) {
  const auto& terms = values.terms(value);
  for (const auto& [contribution, times] : terms) {
    if (contribution.index != promise.index) return Wrong{Flaw::misplaced, "another element's"};
    if (contribution.block != block) return Wrong{Flaw::misplaced, "another call's"};
    if (times > 1) return Wrong{Flaw::doubled, "one contribution more than once"};
    const int rank = contribution.rank.value();
    if (rank < promise.first || rank > promise.last)
      return Wrong{Flaw::misplaced, "another rank's"};
  }
  if (static_cast<int>(terms.size()) < promise.last - promise.first + 1)
    return Wrong{Flaw::missing, "not all contributions"};
  return std::nullopt;
}

/// Sums over all ranks are marked complete, so that an average is divided once.
bool has_complete_sums(Collective collective, int ranks) {
  return reduces(collective) && collective != Collective::scan &&
         collective != Collective::exscan && ranks > 1;
}

}  // namespace

void for_each_phase(int blocks, int phases,
                    const std::function<void(int block, int phase)>& visit) {
  for (int round = 0; round < blocks + phases - 1; ++round)
    for (int phase = 0; phase < phases; ++phase)
      if (round - phase >= 0 && round - phase < blocks) visit(round - phase, phase);
}

void BlockLayout::add(Collective collective, const Shape& shape, int ranks, bool ordered) {
  Block& block = blocks_.emplace_back(Block{collective, shape, ranks, ordered, {}, {}});
  const Contract contract{collective, block.shape, ranks};
  for (const Rank rank : all_ranks(ranks)) {
    block.lengths.push_back(contract.lengths(rank.value()));
    block.placements.push_back(contract.in_place(rank.value()));
  }
}

Elements BlockLayout::extent(const Memory& memory) const {
  const Rank owner = memory.owner;
  if (memory.kind != Memory::Kind::input && memory.kind != Memory::Kind::output)
    return extent_of_other(memory);
  const auto& lengths = blocks_[static_cast<std::size_t>(memory.instance)].lengths;
  if (owner.value() >= lengths.size()) return Elements{0};
  return memory.kind == Memory::Kind::input ? lengths[owner].input : lengths[owner].output;
}

Piece BlockLayout::home(const Piece& piece) const {
  const bool input = piece.memory.kind == Memory::Kind::input;
  if (!in_place_ || (!input && piece.memory.kind != Memory::Kind::output)) return piece;
  const auto& block = blocks_[static_cast<std::size_t>(piece.memory.instance)];
  const auto& placement = block.placements[piece.memory.owner];
  Piece home = piece;
  home.memory.kind = Memory::Kind::output;
  home.offset += input ? placement.input : placement.output;
  return home;
}

void BlockLayout::check_results(Machine& machine) const {
  if (!machine.findings().empty()) return;  // after a flaw results mean little
  for (int block = 0; block < static_cast<int>(blocks_.size()); ++block)
    for (const Rank rank : all_ranks(blocks_[static_cast<std::size_t>(block)].ranks)) {
      const Elements length = blocks_[static_cast<std::size_t>(block)].lengths[rank].output;
      for (Elements i; i < length; i += Elements{1}) check_result(machine, block, rank, i);
    }
}

void BlockLayout::check_result(Machine& machine, int number, Rank rank, Elements index) const {
  const Block& block = blocks_[static_cast<std::size_t>(number)];
  const auto promise =
      Contract{block.collective, block.shape, block.ranks}.promise(rank.value(), index);
  const ValueId value =
      machine.value_at({{.kind = Memory::Kind::output, .owner = rank, .instance = number}, index});
  Values& values = machine.values();
  const bool is_promised = promise.first <= promise.last;
  const ValueId untouched =
      in_place_ ? values.contribution({number, rank, index}) : Values::nothing;
  std::optional<Wrong> wrong;
  if (is_promised)
    wrong = wrong_value(values, value, number, promise);
  else if (value != untouched)
    wrong = {Flaw::misplaced, "something where nothing is promised"};
  const bool has_to_be_complete = has_complete_sums(block.collective, block.ranks);
  if (!wrong && has_to_be_complete && !values.is_complete(value))
    wrong = {Flaw::unfinished, "a sum that was never marked complete"};
  if (!wrong && !has_to_be_complete && values.is_complete(value))
    wrong = {Flaw::overdone, "what was marked complete, so that an average would divide it"};
  if (!wrong && block.ordered && !values.is_ordered(value))
    wrong = {Flaw::out_of_order, "a sum that is not in the order of ranks"};
  if (!wrong) return;
  machine.report(wrong->flaw, rank, -1,
                 rank_name(rank) + " output[" + std::to_string(index.value()) + "] of block " +
                     std::to_string(number) + " holds " + wrong->what + ": " +
                     describe(values, value));
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

/// The machine has a cell for each element of scratch.
void check_scratch(const Schedule& schedule, std::vector<Finding>& findings) {
  constexpr Elements most{1 << 22};
  const Elements scratch = schedule.extents().scratch;
  if (scratch > most)
    add_finding(findings, Flaw::extents, schedule.self(), -1,
                rank_name(schedule.self()) + " has scratch of " + std::to_string(scratch.value()) +
                    " elements, and at most " + std::to_string(most.value()) +
                    " can be proven: does its length follow from the call's count?");
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

}  // namespace

Result prove_schedules(Collective collective, const Shape& shape, const ByRank<Schedule>& schedules,
                       const ProofOptions& options) {
  if (auto findings = check_form(schedules, options); !findings.empty())
    return {std::move(findings)};
  ByRank<std::vector<Effect>> scripts;
  std::deque<std::vector<std::string>> texts;
  for (const Schedule& schedule : schedules) {
    auto& of_steps = texts.emplace_back();
    for (const Step& step : schedule.steps()) of_steps.push_back(to_string(schedule, step));
    scripts.push_back(script_of(schedule, of_steps, options));
  }
  ScheduleLayout layout{schedules, options.in_place};
  for (int block = 0; block < options.calls * options.blocks; ++block)
    layout.add(collective, shape, schedules.size(), options.ordered);
  Machine machine{std::move(scripts), layout};
  for (const Schedule& schedule : schedules)
    if (schedule.extents().scratch != schedules[Rank{0}].extents().scratch)
      machine.report(Flaw::extents, schedule.self(), -1,
                     rank_name(schedule.self()) + " has scratch of another length than rank 0");
  machine.run();
  layout.check_results(machine);
  return {machine.findings()};
}

}  // namespace capstan::proof
