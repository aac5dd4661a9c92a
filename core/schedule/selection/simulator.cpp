// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/selection/simulator.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "capstan/types.hpp"
#include "core/schedule/lowering/slots.hpp"
#include "core/schedule/selection/simulated_clock.hpp"

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
        slot_kind_(kind_of(programs, call.element)),
        tells_(notice_interval(slot_kind_, 1, synchronizes_, standard_slots) == 1),
        in_place_(call.in_place),
        in_dram_(model.exceed_cache(call.of_rank)),
        local_byte_(model.local_byte * (in_dram_ ? model.dram_local_factor : 1)),
        huge_(model.huge_pages && call.shortest >= worth_huge_pages),
        pages_(call.of_all > model.host_cache && !huge_ ? model.page_lookup_factor : 1),
        seen_(call.peer_mapped),
        time_slice_(model.shares_cores ? model.time_slice : 0),
        model_(model),
        trace_(trace),
        ranks_(programs.size(),
               State{SlotRotation{SlotLayout{hosts.ranks(), Bytes{}, pool_of(slot_kind_)}}}) {
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
    reads_.clear();
    copies_.clear();
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
  static SlotKind kind_of(const ByRank<Program>& programs, Bytes element) {
    Elements largest;
    for (const Program& program : programs)
      largest = std::max(largest, std::ranges::max(program.staging));
    const bool packets = programs[Rank{0}].packets;
    const auto protocol = packets ? Protocol::inline_packets : Protocol::staged;
    return standard_slots.kind_for(staging_bytes(largest, protocol, element), packets, false);
  }

  /// Slots that no call uses are left out: copying all of them took a fifth of the time.
  static SlotPool pool_of(SlotKind kind) {
    return standard_slots.only(kind, static_cast<int>(calls));
  }

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
        if (!(program.packets ? gather_packets(r, op) : gather(rank, program, op))) return false;
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

  bool gather(State& rank, const Program& program, const Op& op) {
    if (in_place_ && copies_to_itself(program, op)) return true;
    const double bytes = static_cast<double>(bytes_of(op.length, element_).value());
    const auto sources = program.sources(op), destinations = program.destinations(op);
    // Reading costs nothing where a peer's output is written: with several such peers, one after
    // the other, the source is in the cache.
    const bool sends = destinations.front().place == Place::peer_output;
    double stagings = 0;
    for (const Operand& source : sources) {
      if (source.place == Place::staging)
        stagings++ == 0 ? read_staging(rank, source, bytes)
                        : rank.clock.bandwidth(bytes * model_.next_staging_byte);
      else if (is_local(source) && !sends)
        rank.clock.bandwidth(bytes * (op.source_count > 1 ? local_byte_ : dram_byte()));
    }
    // Each rank begins with another peer, as in the executor.
    for (std::size_t k = 1; k <= sources.size(); ++k) {
      const auto i = (static_cast<std::size_t>(program.self.value()) + k) % sources.size();
      if (is_buffer_of_peer(sources[i].place)) read_peer(rank, sources[i], op, bytes);
    }
    if (op.source_count > 1) rank.clock.reduction(bytes * op.source_count * model_.reduce_byte);
    for (const Operand& destination : destinations)
      write(rank, destination, bytes, cost_of_writing(op, sources.front()));
    return true;
  }

  static bool copies_to_itself(const Program& program, const Op& op) {
    return op.source_count == 1 && program.sources(op).front().place == Place::input &&
           program.destinations(op).front().place == Place::output;
  }

  /// The cost of writing a byte to the own buffers. Copies out of staging buffers and peers' memory
  /// include the cost of writing to the cache, and those of peers' memory also that of DRAM.
  double cost_of_writing(const Op& op, const Operand& source) const {
    if (op.source_count > 1 || is_local(source)) return local_byte_;
    return source.place == Place::staging ? dram_byte() : 0;
  }

  /// The cost of a byte of the own buffers where they are in DRAM, beyond its cost where they are
  /// in the cache.
  double dram_byte() const { return local_byte_ - model_.local_byte; }

  /// `own_byte`: what a byte costs that is written to a buffer of this rank.
  void write(State& rank, const Operand& destination, double bytes, double own_byte) {
    if (destination.place == Place::peer_output) return write_peer(rank, destination, bytes);
    if (destination.place == Place::staging)
      rank.clock.bandwidth(bytes * model_.staging_write_byte + first_bytes(bytes));
    else
      rank.clock.bandwidth(bytes * own_byte);
  }

  void write_peer(State& rank, const Operand& destination, double bytes) {
    const bool seen = seen_ == PeerMappedBuffers::all;
    const double far = !in_dram_ ? 1
                       : seen    ? model_.dram_load_factor
                                 : model_.dram_write_factor * pages_;
    const Transfer write{seen ? model_.load : model_.write_call, bytes * model_.write_byte * far};
    if (!seen) await_other_copies(rank, destination.owner, write);
    rank.clock.latency(write.fixed);
    rank.clock.bandwidth(write.moving);
  }

  static bool is_local(const Operand& operand) { return operand.place < Place::staging; }

  /// The extra cost of the first 4 KiB. Beyond them the hardware prefetches.
  double first_bytes(double bytes) const {
    return std::min(bytes, 4096.0) * model_.first_staging_byte;
  }

  void read_staging(State& rank, const Operand& source, double bytes) {
    const double moving = bytes * model_.staging_read_byte + first_bytes(bytes);
    read(rank, {Place::staging, source.owner}, {model_.miss, moving}, model_.contention);
  }

  void read_peer(State& rank, const Operand& source, const Op& op, double bytes) {
    const auto piece = static_cast<double>(fetched_piece(op.source_count + 1).value());
    const bool fresh = source.place == Place::peer_output;
    const bool seen = seen_ >= (fresh ? PeerMappedBuffers::all : PeerMappedBuffers::inputs);
    const double call = seen                  ? model_.load
                        : op.source_count > 1 ? std::max(1.0, bytes / piece) * model_.read_piece
                                              : model_.read_call;
    const double near = !fresh ? model_.read_byte
                        : seen ? model_.staging_read_byte
                               : model_.read_fresh_byte;
    const double far = seen    ? model_.read_byte * model_.dram_load_factor
                       : fresh ? model_.read_fresh_byte * pages_
                               : model_.read_byte * model_.dram_read_factor * pages_;
    const double again = !seen && op.source_count > 1 ? model_.read_piece_byte : 0;
    const Transfer cost{call, bytes * ((in_dram_ ? far : near) + again)};
    if (!seen) await_other_copies(rank, source.owner, cost);
    read(rank, {Place::peer_input, source.owner}, cost,
         huge_ ? model_.huge_contention : model_.buffer_contention);
  }

  struct Interval {
    double begin, end;
  };

  /// The time of a read or write without others at the same time.
  struct Transfer {
    double fixed, moving;
    double alone() const { return fixed + moving; }
  };

  /// Ranks that read the same memory at the same time contend for it.
  void read(State& rank, std::pair<Place, Rank> memory, const Transfer& cost, double contention) {
    const double now = rank.clock.now();
    auto& others = reads_[memory];
    const double overlapping = overlaps(others, now, now + cost.alone());
    rank.clock.latency(cost.fixed);
    rank.clock.bandwidth(cost.moving);
    rank.clock.waiting(cost.alone() * contention * overlapping);
    others.push_back({now, rank.clock.now()});
  }

  /// Copies that the kernel of one host makes at the same time contend, whatever they read.
  void await_other_copies(State& rank, Rank peer, const Transfer& cost) {
    const double now = rank.clock.now(), end = now + cost.alone();
    auto& others = copies_[hosts_.host_of(peer)];
    rank.clock.waiting(cost.moving * model_.copy_contention * overlaps(others, now, end));
    others.push_back({now, end});
  }

  static double overlaps(const std::vector<Interval>& others, double begin, double end) {
    return static_cast<double>(std::ranges::count_if(
        others, [&](const Interval& other) { return other.begin < end && begin < other.end; }));
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
  const SlotKind slot_kind_;
  const bool tells_;  // each call ends with notices to writers on other hosts
  const bool in_place_;
  const bool in_dram_;  // buffers exceed the cache
  const double local_byte_;
  const bool huge_;     // buffers are in huge pages
  const double pages_;  // LinkModel::page_lookup_factor where it applies, else 1
  const PeerMappedBuffers seen_;
  const double time_slice_;
  const LinkModel& model_;
  std::vector<SimulatedSpan>* const trace_;
  ByRank<State> ranks_;
  std::vector<ByRank<double>> finished_;                           // by call: the time of its end
  std::map<std::pair<Place, Rank>, std::vector<Interval>> reads_;  // this call, by owner of memory
  std::map<int, std::vector<Interval>> copies_;                    // the kernel's, by host
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
