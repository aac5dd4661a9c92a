// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/lowering/lower.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/schedule/lowering/arrivals.hpp"
#include "core/schedule/lowering/exports.hpp"
#include "core/schedule/lowering/landings.hpp"

namespace capstan {
namespace {

bool contains(const Span& outer, const Span& inner) {
  return outer.buffer == inner.buffer && outer.offset <= inner.offset && inner.end() <= outer.end();
}

/// Facts about the schedules of a group. Each is computed once, for the programs of all ranks.
class LoweringGroup {
 public:
  LoweringGroup(const ScheduleOf& get_schedule, Protocol chosen, const Hosts& placement)
      : schedule_of(get_schedule), protocol(chosen), hosts(placement) {}

  const ScheduleOf& schedule_of;
  const Protocol protocol;
  const Hosts& hosts;

  const Exports& exports(Rank rank) {
    const auto found = exports_.find(rank);
    if (found != exports_.end()) return found->second;
    return exports_.emplace(rank, exports_of(schedule_of(rank), protocol)).first->second;
  }
  /// The owners of buffers that `reader` still reads after its last signal to each of them.
  const std::vector<Rank>& owners_read_by(Rank reader);

 private:
  std::map<Rank, Exports> exports_;
  std::map<Rank, std::vector<Rank>> owners_read_;
};

class Lowering {
 public:
  Lowering(LoweringGroup& group, Rank self)
      : group_(group),
        schedule_(group.schedule_of(self)),
        protocol_(group.protocol),
        exports_(group.exports(self)) {
    program_.self = self;
    program_.packets = in_packets(protocol_);
    program_.phases = schedule_.phases();
    program_.extents = schedule_.extents();
    program_.staging = exports_.staging;
  }

  Program run() && {
    lower_steps();
    if (reads_buffers(protocol_)) append_read_completions();
    return std::move(program_);
  }

  /// The owners of buffers read after the last signal to each, without the completion signals that
  /// run() appends for them.
  std::vector<Rank> owners_read_at_the_end() && {
    lower_steps();
    return owners_read();
  }

 private:
  void lower_steps() {
    int phase = 0;
    for (step_ = 0; step_ < schedule_.steps().size(); ++step_) {
      const Step& step = schedule_.steps()[step_];
      if (step.phase != phase) flush_reused(std::exchange(phase, step.phase));
      lower(step);
    }
    flush_reused(phase);
    if (!uses_scratch_) program_.extents.scratch = Elements{0};
  }

  /// A reader signals each owner after its last read of the owner's buffers, and the owner waits
  /// for that signal. The waits form a phase of their own, so that the next block starts before
  /// they end.
  void append_read_completions() {
    const int last = program_.phases - 1;
    if (last > 0) ++program_.phases;
    for (const Rank owner : owners_read()) emit_between(OpCode::signal, owner, last);
    std::vector<Rank> readers;
    auto area = exports_.puts.begin();
    for (const Step& step : schedule_.steps()) {
      if (step.verb != Verb::put) continue;
      const bool reads = (area++)->read_in_place();
      if (reads && std::ranges::find(readers, step.peer) == readers.end())
        readers.push_back(step.peer);
    }
    for (const Rank reader : readers) {
      const auto& read = group_.owners_read_by(reader);
      if (std::ranges::find(read, program_.self) != read.end())
        emit_between(OpCode::wait, reader, program_.phases - 1);
    }
  }

  /// The owners of buffers that the operations so far read after the last signal to each.
  std::vector<Rank> owners_read() const {
    std::vector<Rank> owners;
    for (const Op& op : program_.ops) {
      if (op.code == OpCode::signal) std::erase(owners, op.peer);
      if (op.code != OpCode::gather) continue;
      for (const Operand& source : program_.sources(op))
        if (is_buffer_of_peer(source.place) &&
            std::ranges::find(owners, source.owner) == owners.end())
          owners.push_back(source.owner);
    }
    return owners;
  }

  void emit_between(OpCode code, Rank peer, int phase) {
    program_.ops.push_back({.code = code,
                            .phase = static_cast<std::uint8_t>(phase),
                            .first_operand = static_cast<std::uint32_t>(program_.operands.size()),
                            .step = static_cast<std::uint32_t>(step_),
                            .peer = peer});
  }

  void lower(const Step& step) {
    switch (step.verb) {
      case Verb::copy:
      case Verb::reduce:
        return compute(step);
      case Verb::put:
        return put(step);
      case Verb::signal:
        return signal(step);
      case Verb::wait:
        return wait(step);
    }
  }

  void compute(const Step& step) {
    const auto sources = resolve(schedule_.sources(step));
    forget_landings(step.destination);
    gather(local(step.destination), sources, step.destination.length, step.completes);
    last_result_ = step.destination;
  }

  void put(const Step& step) {
    const Export& area = *next_export_++;
    carried_[step.peer] = true;
    if (area.delivered) return deliver(step);
    if (area.place != Place::staging) return;  // the receiver reads the buffer itself
    const bool shared = group_.hosts.together(program_.self, step.peer);
    if (shared || program_.packets) write_staging(step, area);
    if (!shared) push(step, area.operand(program_.self));
  }

  /// Writes to the peer's output. The schedule guarantees that the peer has entered the call.
  void deliver(const Step& step) {
    const Span source = schedule_.sources(step).front();
    const Operand there{Place::peer_output, step.peer, 0, step.destination.offset};
    if (is_sum_in_output(source, step.phase)) return add_destination(there);
    gather(there, resolve({&source, 1}), source.length, false);
    last_result_.reset();
  }

  /// Whether the last operation computed `source` as a reduction into the output. Its result may
  /// then be written to a few peers by the same operation.
  bool is_sum_in_output(const Span& source, int phase) const {
    constexpr int most_destinations = 8;
    if (source.buffer != Buffer::output || last_result_ != source) return false;
    const Op& last = program_.ops.back();
    return last.code == OpCode::gather && last.source_count > 1 && last.phase == phase &&
           last.destination_count < most_destinations;
  }

  void write_staging(const Step& step, const Export& area) {
    const Operand staging = area.operand(program_.self);
    // On one host every area that is not fresh has been written by an earlier put.
    const bool all_written = group_.hosts.single();
    if (!area.fresh && (all_written || std::ranges::find(written_, staging) != written_.end()))
      return;
    if (!all_written) written_.push_back(staging);
    const Span source = schedule_.sources(step).front();
    const Op* last = program_.ops.empty() ? nullptr : &program_.ops.back();
    if (last_result_ == source && last->code == OpCode::gather && last->destination_count == 1 &&
        last->phase == step.phase) {
      add_destination(staging);
      return last_result_.reset();
    }
    gather(staging, resolve({&source, 1}), source.length, false);
    last_result_.reset();
  }

  /// The peer sees the same as if this rank had written its staging buffer. Packets are written
  /// there first, and are pushed from there.
  void push(const Step& step, const Operand& staging) {
    const Span span = schedule_.sources(step).front();
    const Operand source = program_.packets ? staging : resolve(span);
    emit({.code = OpCode::push,
          .destination_count = 1,
          .source_count = 1,
          .peer = step.peer,
          .length = span.length});
    program_.operands.push_back(staging);
    program_.operands.push_back(source);
    if (source != staging) pushes_.add(step.peer, source, span.length);
  }

  /// Flushes every push whose source `written` would overwrite.
  void flush_what_overlaps(const Span& written) {
    flush(pushes_.reading(written), schedule_.steps()[step_].phase);
  }

  /// Flushes every push from scratch or staging: after the phase they belong to the next block.
  void flush_reused(int phase) { flush(pushes_.reading_reused(), phase); }

  void flush(const std::vector<Rank>& peers, int phase) {
    for (const Rank peer : peers) {
      emit_between(OpCode::flush, peer, phase);
      pushes_.flushed(peer);
      last_result_.reset();
    }
  }

  void signal(const Step& step) {
    last_result_.reset();
    const bool carried = std::exchange(carried_[step.peer], false);
    emit(
        {.code = program_.packets && carried ? OpCode::notify : OpCode::signal, .peer = step.peer});
  }

  void wait(const Step& step) {
    last_result_.reset();
    const auto& arrivals = next_arrivals(step.peer);
    if (!program_.packets || arrivals.empty()) emit({.code = OpCode::wait, .peer = step.peer});
    for (const Arrival& arrival : arrivals) {
      forget_landings(arrival.landing);
      if (arrival.landing.buffer == Buffer::scratch)
        landings_.add(arrival);
      else
        gather(local(arrival.landing), {arrival.staging}, arrival.landing.length, false);
    }
  }

  const std::vector<Arrival>& next_arrivals(Rank peer) {
    auto heard = heard_.find(peer);
    if (heard == heard_.end()) {
      SignalsFrom signals{group_.schedule_of(peer), group_.exports(peer), program_.self};
      heard = heard_.emplace(peer, std::move(signals)).first;
    }
    return heard->second.next();
  }

  /// Replaces each span that lies in a landing by the staging area that holds its bytes.
  std::vector<Operand> resolve(std::span<const Span> spans) {
    std::vector<Operand> operands;
    for (const Span& span : spans) operands.push_back(resolve(span));
    return operands;
  }

  Operand resolve(const Span& span) {
    if (const Arrival* arrival = landings_.around(span)) {
      Operand operand = arrival->staging;
      operand.offset += span.offset - arrival->landing.offset;
      // Packets are read from their start; the middle of an area has to be copied out first.
      if (operand == arrival->staging || !program_.packets) return operand;
    }
    materialize_landings(span);
    return local(span);
  }

  /// Copies landings that overlap `span` from the peers' staging buffers to scratch.
  void materialize_landings(const Span& span) {
    for (const Arrival& arrival : landings_.take_overlapping(span)) materialize(arrival);
  }

  /// Drops landings that `destination` overwrites; those it overwrites in part are copied first.
  void forget_landings(const Span& destination) {
    for (const Arrival& arrival : landings_.take_overlapping(destination))
      if (!contains(destination, arrival.landing)) materialize(arrival);
  }

  void materialize(const Arrival& arrival) {
    gather(local(arrival.landing), {arrival.staging}, arrival.landing.length, false);
  }

  Operand local(const Span& span) {
    if (span.buffer == Buffer::scratch) uses_scratch_ = true;
    return {static_cast<Place>(span.buffer), Rank{}, 0, span.offset};
  }

  void gather(const Operand& destination, const std::vector<Operand>& sources, Elements length,
              bool completes) {
    if (destination.place <= Place::scratch)
      flush_what_overlaps({static_cast<Buffer>(destination.place), destination.offset, length});
    emit({.code = OpCode::gather,
          .completes = completes,
          .destination_count = 1,
          .source_count = static_cast<std::uint32_t>(sources.size()),
          .length = length});
    program_.operands.push_back(destination);
    program_.operands.insert(program_.operands.end(), sources.begin(), sources.end());
  }

  /// The last operation writes its result to `place`, too.
  void add_destination(const Operand& place) {
    Op& op = program_.ops.back();
    program_.operands.insert(program_.operands.begin() + op.first_operand + op.destination_count++,
                             place);
  }

  void emit(Op op) {
    op.phase = schedule_.steps()[step_].phase;
    op.step = static_cast<std::uint32_t>(step_);
    op.first_operand = static_cast<std::uint32_t>(program_.operands.size());
    program_.ops.push_back(op);
  }

  LoweringGroup& group_;
  const Schedule& schedule_;
  const Protocol protocol_;
  const Exports& exports_;
  std::vector<Export>::const_iterator next_export_ = exports_.puts.begin();
  std::map<Rank, SignalsFrom> heard_;
  std::map<Rank, bool> carried_;  // whether a put to the peer came after the last signal to it
  std::vector<Operand> written_;  // own staging areas that puts have written; several hosts only
  Pushes pushes_;                 // since the last flush
  Landings landings_;
  std::optional<Span> last_result_;  // what the last operation computed
  Program program_;
  std::size_t step_ = 0;
  bool uses_scratch_ = false;
};

const std::vector<Rank>& LoweringGroup::owners_read_by(Rank reader) {
  const auto found = owners_read_.find(reader);
  if (found != owners_read_.end()) return found->second;
  return owners_read_.emplace(reader, Lowering{*this, reader}.owners_read_at_the_end())
      .first->second;
}

}  // namespace

Program lower(const ScheduleOf& schedule_of, Rank self, Protocol protocol, const Hosts& hosts) {
  LoweringGroup group(schedule_of, protocol, hosts);
  return Lowering{group, self}.run();
}

void lower_each(const ScheduleOf& schedule_of, const Hosts& hosts, Protocol protocol, int ranks,
                const std::function<void(Program)>& visit) {
  LoweringGroup group(schedule_of, protocol, hosts);
  for (const Rank rank : all_ranks(ranks)) visit(Lowering{group, rank}.run());
}

ByRank<Program> lower_all(const ScheduleOf& schedule_of, const Hosts& hosts, Protocol protocol) {
  ByRank<Program> programs;
  lower_each(schedule_of, hosts, protocol, hosts.ranks(),
             [&](Program program) { programs.push_back(std::move(program)); });
  return programs;
}

}  // namespace capstan
