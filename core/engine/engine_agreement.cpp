// Before calls that would run otherwise if all ranks had their buffers in shared memory, ranks ask
// each other whether they have: the choice has to be the same on all of them.

#include "core/engine/engine.hpp"
#include "core/engine/progress.hpp"

namespace capstan {
namespace {

/// All ranks learn the least that any of them has.
Call question_about(std::shared_ptr<const Call> call) {
  return {.collective = Collective::all_reduce,
          .type = DataType::u8,
          .op = ReduceOp::min,
          .shape = {.count = Elements{sizeof(PeerMappedBuffers)}},
          .purpose = Purpose::visibility,
          .about = std::move(call)};
}

Call without_subject(Call question) {
  question.about = nullptr;
  return question;
}

}  // namespace

/// The same as question_before(), quickly where calls repeat themselves.
std::shared_ptr<const Call> Engine::question_for(const Call& call) {
  const Progress::Lock lock{*progress_};
  if (unasked_ && *unasked_ == call) return nullptr;
  return question_before(call);
}

/// What ranks ask each other before a call; null: nothing. The same on all ranks. Under the lock.
std::shared_ptr<const Call> Engine::question_before(const Call& call) {
  if (call.purpose != Purpose::caller) return nullptr;
  if (questions_.size() >= most_plans) questions_.clear(), unasked_ = nullptr;
  auto [entry, is_new] = questions_.try_emplace(call);
  if (is_new && is_worth_asking(call))
    entry->second =
        std::make_shared<const Call>(question_about(std::make_shared<const Call>(call)));
  if (!entry->second) unasked_ = &entry->first;
  return entry->second;
}

/// Whether knowing is expected to save more than asking costs.
bool Engine::is_worth_asking(const Call& call) {
  if (!links_.reads_peers || placement_.threads || !placement_.hosts.single() || ranks_ == 1)
    return false;
  const Choice plain = predicted(call);
  const Choice question = predicted(without_subject(question_about(nullptr)));
  const auto saves = [&](PeerMappedBuffers seen) {
    Call known = call;
    known.peer_mapped = seen;
    const Choice other = predicted(known);
    const bool differs = other.algorithm != plain.algorithm || other.protocol != plain.protocol;
    return differs && plain.nanoseconds - other.nanoseconds > question.nanoseconds;
  };
  return saves(PeerMappedBuffers::all) || saves(PeerMappedBuffers::inputs);
}

/// Those of this rank.
PeerMappedBuffers Engine::seen_buffers(const Call& call, const void* input,
                                       const void* output) const {
  const BufferLengths lengths = call.contract(ranks_).lengths(self_.value());
  const auto seen = [&](const void* buffer, Elements length) {
    return memory_->seen_by(world_ranks_, buffer, bytes_of(length, call.element()));
  };
  if (!seen(input, lengths.input)) return PeerMappedBuffers::none;
  return seen(output, lengths.output) ? PeerMappedBuffers::all : PeerMappedBuffers::inputs;
}

/// The task of a question, which goes before the task that it is about.
Task Engine::ask(const Call& question, Task& task) {
  struct Talk {
    PeerMappedBuffers own, all;
  };
  const auto talk = std::make_shared<Talk>(
      Talk{seen_buffers(task.call, task.input, task.output), PeerMappedBuffers::none});
  task.complete = [talk](Task& asked) { asked.call.peer_mapped = talk->all; };
  return {.call = question,
          .plan = &plan(question),
          .input = &talk->own,
          .output = &talk->all,
          .input_bytes = Bytes{sizeof talk->own},
          .output_bytes = Bytes{sizeof talk->all},
          .keep = {talk}};
}

Choice Engine::choice(const Call& call, const void* input, const void* output) {
  const Progress::Lock lock{*progress_};
  return choice(with_seen(call, input, output));
}

/// As if the buffers of all ranks were of the kind of these.
Call Engine::with_seen(Call call, const void* input, const void* output) {
  if (expects_shared_buffers() && question_before(call))
    call.peer_mapped = seen_buffers(call, input, output);
  return call;
}

}  // namespace capstan
