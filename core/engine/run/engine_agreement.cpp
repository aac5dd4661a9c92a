// SPDX-License-Identifier: Apache-2.0

// Agreements that ranks make before a call: which buffers peers have mapped, and how long measured
// calls took. They decide how the call runs, and that has to be the same on all ranks.

#include <array>

#include "core/engine/run/engine.hpp"
#include "core/engine/run/progress.hpp"

namespace capstan {

/// Which buffers of this rank the peers have mapped.
PeerMappedBuffers Engine::peer_mapped(const Call& call, const void* input,
                                      const void* output) const {
  const BufferLengths lengths = call.contract(ranks_).lengths(self_.value());
  const auto mapped = [&](const void* buffer, Elements length) {
    return memory_->mapped_by(world_ranks_.elements(), buffer, bytes_of(length, call.element()));
  };
  if (!mapped(input, lengths.input)) return PeerMappedBuffers::none;
  return mapped(output, lengths.output) ? PeerMappedBuffers::all : PeerMappedBuffers::inputs;
}

/// The task of the agreement that runs before `task`.
Task Engine::agree_on_visibility(const Call& agreement, Task& task) {
  using Visibility = std::array<PeerMappedBuffers, 1>;
  const auto answers = std::make_shared<Answers<Visibility>>();
  answers->own = {peer_mapped(*task.call, task.input, task.output)};
  task.complete_call = [answers](Task& agreed) {
    agreed.call->peer_mapped = answers->result.front();
  };
  Task first = task_of(agreement, answers);
  first.plan = &plans_.plan(agreement);
  return first;
}

/// The task of the agreement that runs before the next call of this kind.
Task Engine::agree_on_times(TunedCalls& calls, const Call& call) {
  const std::size_t count = calls.tuner.time_count();
  const auto answers = std::make_shared<Answers<std::vector<double>>>();
  answers->own.resize(count);
  answers->result.resize(count);
  const Agreement agreement{.combine = Combine::greatest,
                            .type = DataType::f64,
                            .count = count,
                            .purpose = Purpose::decision,
                            .about = std::make_shared<const Call>(call)};
  Task task = task_of(agreement.call(), answers);
  task.plan = &plans_.plan(*task.call);
  task.transfers.add(TransferStep::gather, [&calls, answers] { calls.tuner.times(answers->own); });
  task.transfers.add(TransferStep::scatter,
                     [&calls, answers] { PlanCache::decide(calls, answers->result); });
  return task;
}

/// The task by which all ranks meet before the next call of this kind, which then begins on all of
/// them at about the same time.
Task Engine::meet_before(TunedCalls& calls, const Call& call) {
  if (!calls.meeting) {
    const Agreement agreement{.purpose = Purpose::decision,
                              .about = std::make_shared<const Call>(call)};
    calls.meeting = std::make_shared<const Call>(agreement.call());
  }
  Task task = task_of(*calls.meeting, std::make_shared<Answers<std::array<std::uint8_t, 1>>>());
  task.plan = &plans_.plan(*task.call);
  return task;
}

Choice Engine::choice(const Call& call, const void* input, const void* output) {
  const Progress::Lock lock{*progress_};
  return plans_.choice(with_visibility(call, input, output));
}

std::string Engine::refusal(const Call& call, const Choice& choice) {
  const Progress::Lock lock{*progress_};
  return plans_.refusal(call, choice);
}

std::vector<MeasuredCell> Engine::autotuned() {
  const Progress::Lock lock{*progress_};
  return plans_.autotuned();
}

Choice Engine::message_choice(Rank peer, Bytes bytes) {
  const Progress::Lock lock{*progress_};
  return plans_.message_choice(peer, bytes);
}

bool Engine::is_settled(const Call& call, const void* input, const void* output) {
  const Progress::Lock lock{*progress_};
  return plans_.has_lasting_choice(with_visibility(call, input, output));
}

/// The same call, for the case that the buffers of all ranks are mapped like these.
Call Engine::with_visibility(Call call, const void* input, const void* output) {
  if (expects_shared_buffers() && plans_.visibility_agreement(call))
    call.peer_mapped = peer_mapped(call, input, output);
  return call;
}

void Engine::use_rules(AlgorithmRules rules) {
  const Progress::Lock lock{*progress_};
  plans_.use_rules(std::move(rules));
}

void Engine::expect_shared_buffers() {
  const Progress::Lock lock{*progress_};
  shared_buffers_.store(true, std::memory_order_relaxed);
  plans_.forget_repeated();
}

}  // namespace capstan
