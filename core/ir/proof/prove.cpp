#include "core/ir/proof/prove.hpp"

#include <algorithm>

namespace capstan {
namespace proof {
namespace {

std::string describe(const Values& values, ValueId value) {
  if (value == Values::nothing) return "nothing";
  std::string text;
  for (const auto& [contribution, times] : values.terms(value)) {
    if (!text.empty()) text += " + ";
    if (text.size() > 200) return text + "...";
    if (times > 1) text += std::to_string(times) + " x ";
    text += "rank " + std::to_string(contribution.rank.value()) + "[" +
            std::to_string(contribution.index.value()) + "]";
  }
  return text;
}

struct Wrong {
  Flaw flaw;
  std::string what;
};

/// What is wrong with the sum at `index`, if anything.
std::optional<Wrong> wrong_sum(const Values& values, ValueId value, int block, int ranks,
                               Elements index) {
  const auto& terms = values.terms(value);
  for (const auto& [contribution, times] : terms) {
    if (contribution.index != index) return Wrong{Flaw::misplaced, "another element's"};
    if (contribution.block != block) return Wrong{Flaw::misplaced, "another call's"};
    if (times > 1) return Wrong{Flaw::doubled, "one contribution more than once"};
  }
  if (terms.size() < static_cast<std::size_t>(ranks))
    return Wrong{Flaw::missing, "not all contributions"};
  if (ranks > 1 && !values.is_complete(value))
    return Wrong{Flaw::unfinished, "a sum that was never marked complete"};
  return std::nullopt;
}

}  // namespace

void for_each_phase(int blocks, int phases,
                    const std::function<void(int block, int phase)>& visit) {
  for (int round = 0; round < blocks + phases - 1; ++round)
    for (int phase = 0; phase < phases; ++phase)
      if (round - phase >= 0 && round - phase < blocks) visit(round - phase, phase);
}

void check_results(Machine& machine, Collective, int ranks, const std::vector<Extents>& extents) {
  if (!machine.findings().empty()) return;  // results after a flaw say little
  for (int block = 0; block < static_cast<int>(extents.size()); ++block)
    for (int rank = 0; rank < ranks; ++rank)
      for (Elements i; i < extents[static_cast<std::size_t>(block)].output; i += Elements{1}) {
        const ValueId value = machine.value_at(
            {.kind = Memory::Kind::output, .owner = Rank{rank}, .instance = block}, i);
        const auto wrong = wrong_sum(machine.values(), value, block, ranks, i);
        if (!wrong) continue;
        machine.report(wrong->flaw, Rank{rank}, -1,
                       "rank " + std::to_string(rank) + " output[" + std::to_string(i.value()) +
                           "] of block " + std::to_string(block) + " holds " + wrong->what + ": " +
                           describe(machine.values(), value));
      }
}

namespace {

Memory memory_of(Buffer buffer, Rank owner, int block, int slots) {
  return {.kind = static_cast<Memory::Kind>(buffer),
          .owner = owner,
          .instance = buffer == Buffer::scratch ? block % slots : block};
}

Effect effect_of(const Schedule& schedule, const Step& step, int index, int call, int block,
                 int slots) {
  Effect effect{.call = call, .block = block, .step = index, .peer = step.peer};
  effect.text = to_string(schedule, step);
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

std::vector<Effect> script_of(const Schedule& schedule, const ProofOptions& options) {
  std::vector<Effect> script;
  for (int call = 0; call < options.calls; ++call) {
    const int first = call * options.blocks;
    for (int block = 0; block < options.blocks; ++block)
      script.push_back({.kind = Effect::Kind::enter, .call = call, .block = first + block});
    for_each_phase(options.blocks, schedule.phases(), [&](int block, int phase) {
      for (std::size_t i = 0; i < schedule.steps().size(); ++i)
        if (schedule.steps()[i].phase == phase)
          script.push_back(effect_of(schedule, schedule.steps()[i], static_cast<int>(i), call,
                                     first + block, options.slots));
    });
    script.push_back({.kind = Effect::Kind::leave, .call = call});
  }
  return script;
}

Elements extent_of(const void* context, const Memory& memory) {
  const auto& schedules = *static_cast<const std::vector<Schedule>*>(context);
  const auto owner = static_cast<std::size_t>(memory.owner.value());
  if (owner >= schedules.size()) return Elements{0};
  return schedules[owner].extents().of(static_cast<Buffer>(memory.kind));
}

}  // namespace

Verdict prove_schedules(Collective collective, const std::vector<Schedule>& schedules,
                        const ProofOptions& options) {
  std::vector<std::vector<Effect>> scripts;
  for (const Schedule& schedule : schedules) scripts.push_back(script_of(schedule, options));
  Machine machine{std::move(scripts), options.in_place, &schedules, &extent_of};
  for (const Schedule& schedule : schedules)
    if (schedule.extents() != schedules.front().extents())
      machine.report(Flaw::extents, schedule.self(), -1,
                     "rank " + std::to_string(schedule.self().value()) +
                         " has buffers or scratch of other lengths than rank 0");
  machine.run();
  const std::vector<Extents> extents(static_cast<std::size_t>(options.calls * options.blocks),
                                     schedules.front().extents());
  check_results(machine, collective, static_cast<int>(schedules.size()), extents);
  return {machine.findings()};
}

}  // namespace proof
}  // namespace capstan
