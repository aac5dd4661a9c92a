// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/selection/simulator.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "capstan/types.hpp"
#include "core/schedule/lowering/plan.hpp"
#include "core/schedule/lowering/slots.hpp"
#include "core/schedule/selection/simulated_clock.hpp"
#include "core/schedule/selection/simulated_memory.hpp"

namespace capstan {
namespace {

/// Runs the programs of all ranks, each rank with a clock of its own. A rank runs until it needs
/// data or a signal that the sender has not produced yet. The ranks take turns until all programs
/// have ended.
class Simulation {
 public:
  Simulation(const ByRank<Program>& programs, const Hosts& hosts, const SimulatedCall& call,
             const LinkModel& model, std::vector<SimulatedSpan>* trace)
      : programs_(programs),
        hosts_(hosts),
        element_(call.element),
        synchronizes_(call.synchronizes),
        slots_(slots_for(call.memory)),
        slot_kind_(kind_of(programs, call.element, slots_)),
        tells_(notice_interval(slot_kind_, 1, synchronizes_, slots_) == 1),
        memory_(hosts, call, model),
        time_slice_(model.shares_cores ? model.time_slice : 0),
        model_(model),
        trace_(trace),
        ranks_(programs.size(),
               State{SlotRotation{SlotLayout{hosts.ranks(), Bytes{}, used_slots()}}}) {
    for (const Rank r : all_ranks(programs_.size()))
      ranks_[r].readers = std::make_shared<const std::vector<Rank>>(readers_of(programs[r]));
  }

  /// The time per call, once the first calls have filled the pipeline. The rank that ends last says
  /// what it consists of.
  PredictedTime run() {
    ByRank<Clock> filled;
    while (finished_.size() < calls) {
      run_call();
      if (finished_.size() == to_fill)
        for (const State& rank : ranks_) filled.push_back(rank.clock);
    }
    const Rank last = slowest();
    const double start = std::ranges::max(filled, {}, &Clock::now).now();
    const double elapsed = ranks_[last].clock.now() - start;
    const double time = std::max(elapsed, work_per_core(filled)) / (calls - to_fill);
    const PredictedTime spent = ranks_[last].clock.spent() - filled[last].spent();
    return spent.total() > 0 ? spent * (time / spent.total()) : PredictedTime{.latency = time};
  }

 private:
  /// The work of each core of the busiest host since `before`, where its ranks share them evenly; 0
  /// where each rank has a core.
  double work_per_core(const ByRank<Clock>& before) const {
    if (!model_.shares_cores) return 0;
    std::vector<double> of_host(static_cast<std::size_t>(hosts_.count()));
    for (const Rank r : all_ranks(programs_.size()))
      of_host[static_cast<std::size_t>(hosts_.host_of(r))] +=
          ranks_[r].clock.busy() - before[r].busy();
    return std::ranges::max(of_host) / model_.cores;
  }

  static constexpr std::size_t calls = 10, to_fill = 5;

  using Area = std::tuple<Rank, int, Elements>;  // owner, region and offset on its staging buffer
  struct Signal {
    double sent;
    double bytes;  // pushed data in the same message
  };
  struct State {
    SlotRotation slots;
    SlotReaders readers{};
    Clock clock{};
    std::size_t op = 0;
    std::map<Rank, std::vector<Signal>> signals{};  // sent, by peer
    std::map<Rank, double> pushed{};                // bytes since the last message to a peer
    std::map<Rank, std::vector<Area>> areas{};      // of packets pushed since that message
    std::map<Rank, std::size_t> taken{};            // signals waited for, by peer
    std::optional<Rank> sender{};                   // of the last packet read in this call
  };

  void run_call() {
    packets_.clear();
    times_read_.clear();
    posted_.clear();
    messages_.clear();
    memory_.begin_call();
    for (const Rank r : all_ranks(programs_.size())) begin_call(r);
    for (bool moved = true; moved;) {
      moved = false;
      for (const Rank r : all_ranks(programs_.size()))
        while (step(r)) moved = true;
    }
    auto& times = finished_.emplace_back();
    for (const Rank r : all_ranks(programs_.size())) {
      end_call(r);
      times.push_back(ranks_[r].clock.now());
    }
  }

  /// The kind of slots, computed as for a call of one block: streams have slots of full length
  /// anyway.
  static SlotKind kind_of(const ByRank<Program>& programs, Bytes element, const SlotPool& slots) {
    Elements largest;
    for (const Program& program : programs)
      largest = std::max(largest, std::ranges::max(program.staging));
    const bool packets = programs[Rank{0}].packets;
    const auto protocol = packets ? Protocol::inline_packets : Protocol::staged;
    return slots.kind_for(staging_bytes(largest, protocol, element), packets, false);
  }

  /// Slots that no call uses are left out: copying all of them took a fifth of the time.
  SlotPool used_slots() const { return slots_.only(slot_kind_, static_cast<int>(calls)); }

  /// Takes the next slot if the rank writes to its staging buffer. The rank waits until the slot's
  /// last readers have finished.
  void begin_call(Rank r) {
    State& rank = ranks_[r];
    rank.op = 0;
    rank.sender.reset();
    rank.clock.latency(model_.call);
    if (rank.readers->empty()) return;
    SlotRotation::Slot& slot = rank.slots.slot(slot_kind_, 0);
    if (!rank.slots.is_free(slot, false)) wait_for_readers(r, slot);
    rank.slots.write(slot, 0, rank.readers);
  }

  void wait_for_readers(Rank r, const SlotRotation::Slot& slot) {
    State& rank = ranks_[r];
    for (const Rank reader : *slot.readers) {
      const double finished = finished_[slot.must_finish - 1][reader];
      if (together(r, reader)) {
        rank.clock.wait_for(finished, model_.miss);
      } else if (tells_) {
        rank.clock.wait_for(finished, model_.latency);
        rank.clock.latency(model_.o_recv);
      }
    }
  }

  /// Charges the notices to writers on other hosts that this rank has finished. Small calls send
  /// them so rarely that they are left out.
  void end_call(Rank r) {
    State& rank = ranks_[r];
    rank.slots.end_call(slot_kind_, 1, synchronizes_);
    if (!tells_) return;
    for (const Rank writer : writers_to(programs_[r]))
      if (!together(r, writer)) rank.clock.latency(model_.o_send);
  }

  Rank slowest() const {
    Rank last{0};
    for (const Rank r : all_ranks(programs_.size()))
      if (ranks_[r].clock.now() > ranks_[last].clock.now()) last = r;
    return last;
  }

  bool step(Rank r) {
    State& rank = ranks_[r];
    const Program& program = programs_[r];
    if (rank.op == program.ops.size()) return false;
    const double begin = rank.clock.now();
    const Op& op = program.ops[rank.op];
    switch (op.code) {
      case OpCode::gather:
        if (!program.packets)
          memory_.gather(rank.clock, program, op);
        else if (!gather_packets(r, op))
          return false;
        break;
      case OpCode::push:
        push(rank, program, op);
        break;
      case OpCode::flush:  // costs nothing: the data have nearly always left long before
        break;
      case OpCode::signal:
        if (together(r, op.peer)) rank.clock.latency(model_.signal);
        rank.signals[op.peer].push_back(together(r, op.peer) ? Signal{rank.clock.now(), 0}
                                                             : send(rank, op.peer));
        break;
      case OpCode::wait:
        if (!wait(r, op.peer)) return false;
        break;
      case OpCode::notify:
        if (!together(r, op.peer)) send_packets(rank, op.peer);
        break;
    }
    if (trace_ && finished_.size() == to_fill)
      trace_->push_back({r, rank.op, begin, rank.clock.now()});
    ++rank.op;
    return true;
  }

  bool wait(Rank r, Rank peer) {
    State& rank = ranks_[r];
    const auto& sent = ranks_[peer].signals[r];
    std::size_t& taken = rank.taken[peer];
    if (taken == sent.size()) return false;
    const Signal& signal = sent[taken++];
    if (!together(r, peer)) return receive(rank.clock, signal), true;
    const double looked = rank.clock.now() + model_.miss;
    rank.clock.wait_for(signal.sent + time_slice_, model_.flag);
    rank.clock.wait_for(looked, 0);
    return true;
  }

  bool together(Rank r, Rank peer) const { return hosts_.together(r, peer); }

  void push(State& rank, const Program& program, const Op& op) {
    const double bytes = program.packets
                             ? static_cast<double>(packets_for(op.length, element_) * packet_bytes)
                             : static_cast<double>(bytes_of(op.length, element_).value());
    rank.clock.bandwidth(bytes * model_.send_byte);
    rank.pushed[op.peer] += bytes;
    if (program.packets) rank.areas[op.peer].push_back(area_of(program.destinations(op).front()));
  }

  static Area area_of(const Operand& operand) {
    return {operand.owner, operand.region, operand.offset};
  }

  double first_sent(double bytes) const { return std::min(bytes, 2048.0) * model_.first_send_byte; }

  /// Sends all bytes pushed to a peer on another host in one message.
  Signal send(State& rank, Rank peer) {
    const double bytes = std::exchange(rank.pushed[peer], 0);
    rank.clock.latency(model_.o_send);
    rank.clock.bandwidth(first_sent(bytes));
    return {rank.clock.now(), bytes};
  }

  void send_packets(State& rank, Rank peer) {
    const auto areas = std::exchange(rank.areas[peer], {});
    for (const Area& area : areas) posted_[{peer, area}] = messages_.size();
    messages_.emplace_back(send(rank, peer));
  }

  void receive(Clock& clock, const Signal& message) const {
    clock.wait_for(message.sent, model_.latency);
    clock.latency(model_.o_recv);
    clock.bandwidth(first_sent(message.bytes) + message.bytes * model_.send_byte);
  }

  bool gather_packets(Rank r, const Op& op) {
    State& rank = ranks_[r];
    const Program& program = programs_[r];
    const auto packets = static_cast<double>(packets_for(op.length, element_));
    const auto sources = program.sources(op);
    if (!std::ranges::all_of(sources, [&](const Operand& source) { return is_here(r, source); }))
      return false;
    for (const Operand& source : sources)
      if (source.place == Place::staging) read_packets(r, source, packets);
    for (const Operand& destination : program.destinations(op)) {
      if (destination.place != Place::staging) continue;
      rank.clock.bandwidth(packets * model_.packet_write);
      packets_[area_of(destination)] = rank.clock.now();
    }
    return true;
  }

  bool is_here(Rank r, const Operand& source) const {
    if (source.place != Place::staging) return true;
    return together(r, source.owner) ? packets_.contains(area_of(source))
                                     : posted_.contains({r, area_of(source)});
  }

  void read_packets(Rank r, const Operand& source, double packets) {
    State& rank = ranks_[r];
    if (together(r, source.owner)) {
      const bool again = std::exchange(rank.sender, source.owner) == source.owner;
      const double looked = rank.clock.now() + (again ? model_.next_packet : model_.next_source);
      rank.clock.wait_for(packets_[area_of(source)] + time_slice_, model_.packet);
      rank.clock.wait_for(looked, 0);
      rank.clock.bandwidth((packets - 1) * model_.next_packet);
      rank.clock.waiting(packets * times_read_[area_of(source)]++ * model_.polled_packet);
      return;
    }
    auto& message = messages_[posted_[{r, area_of(source)}]];
    if (message) receive(rank.clock, *std::exchange(message, std::nullopt));
    rank.clock.bandwidth(packets * model_.packet_write);  // reading them costs about as much
  }

  const ByRank<Program>& programs_;
  const Hosts& hosts_;
  const Bytes element_;
  const bool synchronizes_;
  const SlotPool& slots_;
  const SlotKind slot_kind_;
  const bool tells_;  // each call ends with notices to writers on other hosts
  SimulatedMemory memory_;
  const double time_slice_;
  const LinkModel& model_;
  std::vector<SimulatedSpan>* const trace_;
  ByRank<State> ranks_;
  std::vector<ByRank<double>> finished_;  // by call: the time of its end
  // The packets of this call, by area.
  std::map<Area, double> packets_;  // the time when they were written
  std::map<Area, int> times_read_;
  std::map<std::pair<Rank, Area>, std::size_t> posted_;  // the message that carries them to a peer
  std::vector<std::optional<Signal>> messages_;          // null: received
};

}  // namespace

PredictedTime simulate(const ByRank<Program>& programs, const Hosts& hosts,
                       const SimulatedCall& call, const LinkModel& model,
                       std::vector<SimulatedSpan>* trace) {
  return Simulation{programs, hosts, call, model, trace}.run();
}

}  // namespace capstan
