#include "core/runtime/executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "core/ir/error.hpp"

namespace capstan {
namespace {

/// Lets the other hyperthread of this core have the pipeline for a moment.
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

bool is_copy(const BoundOp& op) {
  return op.source_count == 1 && op.divisor == 1 && op.destination_count == 1;
}

/// Looks at a condition for a short while: long enough for a peer that runs at the same time,
/// short enough not to keep the core from one that shares it.
template <class Condition>
bool soon(int spins, Condition condition) {
  constexpr int eager = 128;
  for (int i = 0; i < spins; ++i) {
    if (condition()) return true;
    if (i > eager) relax();
  }
  return false;
}

}  // namespace

Executor::Executor(Transport& transport, Transport& bell, const std::vector<const Link*>& bells,
                   const SegmentLayout& layout, Rank self, int ranks, int spins)
    : transport_(transport),
      bell_(bell),
      bells_(bells),
      layout_(layout),
      self_(self.value()),
      spins_(spins),
      segment_(transport.segment().data()) {
  const auto size = static_cast<std::size_t>(ranks);
  for (int rank = 0; rank < ranks; ++rank) links_.push_back(&transport.link(Rank{rank}));
  sent_.resize(size);
  received_.resize(size);
  checked_.resize(size);
  known_finished_.resize(size);
  for (const SlotKind kind : {SlotKind::small_packets, SlotKind::packets, SlotKind::board})
    slots_[static_cast<std::size_t>(kind)].resize(
        static_cast<std::size_t>(SegmentLayout::slots(kind)));
  marks_.resize(CallRecord::kept);
  bases_.resize(BoundOperand::bases(ranks));
}

void Executor::start(const Plan& plan, const void* input, void* output) {
  plan_ = &plan;
  input_ = static_cast<const std::byte*>(input);
  output_ = static_cast<std::byte*>(output);
  if (scratch_.size() < plan.scratch.value()) scratch_.resize(plan.scratch.value());
  keep_input();
  round_ = 0;
  phase_ = 0;
  packet_index_ = 0;
  ++call_;
  tag_ = packet_tag(call_, plan.mark.digest());
  record_call();
  enter_phase();
}

/// In place, what this rank receives may overwrite what peers have yet to read.
void Executor::keep_input() {
  kept_.clear();
  if (!reads_buffers(plan_->form) || !overwrites_input(plan_->call.collective)) return;
  const std::size_t length = plan_->input_bytes.value();
  const std::byte* const output = output_;
  if (length == 0 || output >= input_ + length || input_ >= output + plan_->output_bytes.value())
    return;
  kept_.assign(input_, input_ + length);
  input_ = kept_.data();
}

void Executor::redirect(const void* input, void* output) {
  if (kept_.empty()) input_ = static_cast<const std::byte*>(input);
  output_ = static_cast<std::byte*>(output);
  CallRecord& record = control_of(segment_).calls[call_ % CallRecord::kept];
  record.input.store(reinterpret_cast<std::uint64_t>(input_), std::memory_order_seq_cst);
  record.output.store(reinterpret_cast<std::uint64_t>(output_), std::memory_order_seq_cst);
  withdraw_buffers();
  if (has_block()) place_block();
}

/// A peer either sees that the buffers are withdrawn, or is seen reading them and waited for. One
/// that has been stopped meanwhile notices afterwards.
void Executor::withdraw_buffers() {
  constexpr std::chrono::milliseconds longest_read{500};
  if (!plan_ || !reads_buffers(plan_->form)) return;
  const auto end = std::chrono::steady_clock::now() + longest_read;
  for (int peer = 0; peer < static_cast<int>(links_.size()); ++peer) {
    const auto& reading = control_of(links_[static_cast<std::size_t>(peer)]->segment).reading;
    while (peer != self_ && reading.load(std::memory_order_seq_cst) != 0 &&
           !transport_.departed(Rank{peer}) &&
           (transport_.shares_addresses() || std::chrono::steady_clock::now() < end))
      std::this_thread::yield();
  }
}

bool Executor::advance() {
  if (!plan_) return true;
  const std::uint64_t phases = plan_->programs.front().phase_end.size();
  const std::uint64_t rounds = plan_->blocks + phases - 1;
  while (round_ < rounds) {
    if (!run_phase()) return false;
    leave_phase();
    if (++phase_ == static_cast<int>(phases)) phase_ = 0, ++round_;
    if (round_ < rounds) enter_phase();
  }
  finish();
  return true;
}

/// Round t runs phase k of block t-k, for each k: a block's first phase overlaps the waits of those
/// before it.
bool Executor::has_block() const {
  const auto phase = static_cast<std::uint64_t>(phase_);
  return round_ >= phase && round_ - phase < plan_->blocks;
}

void Executor::enter_phase() {
  if (!has_block()) return;
  block_ = round_ - static_cast<std::uint64_t>(phase_);
  program_ = &plan_->program(block_);
  op_ = phase_ == 0 ? 0 : program_->phase_end[static_cast<std::size_t>(phase_) - 1];
  acquired_ = phase_ > 0;
  place_block();
}

/// Points the bases of all operands at this block's part of the buffers and at its slots.
void Executor::place_block() {
  const std::uint64_t shift = block_ * bytes_of(plan_->block_count, plan_->element).value();
  bases_[0] = const_cast<std::byte*>(input_) + shift;  // programs never write to the input
  bases_[1] = output_ + shift;
  bases_[2] = scratch_.data();
  const std::uint64_t slot = layout_.slot(plan_->slots, slot_number()).value();
  next_slot_ = 0;
  if (plan_->form == Form::packets && !plan_->guarantees.synchronizes)
    next_slot_ =
        static_cast<std::ptrdiff_t>(layout_.slot(plan_->slots, slot_number() + 1).value() - slot);
  for (std::size_t rank = 0; rank < links_.size(); ++rank)
    bases_[BoundOperand::board_of(static_cast<int>(rank))] =
        const_cast<std::byte*>(links_[rank]->segment) + slot;  // only the own one is written
  bases_[BoundOperand::board_of(self_)] = segment_ + slot;
}

std::uint64_t Executor::slot_number() const {
  return used_[static_cast<std::size_t>(plan_->slots)] + block_;
}

/// A slot comes round: its last readers must be done with it. After calls that synchronize that is
/// known without looking (see finish); within a paced one the order of its steps sees to it.
bool Executor::acquire_slot() {
  auto& slots = slots_[static_cast<std::size_t>(plan_->slots)];
  if (program_->readers.empty()) return acquired_ = true;  // nothing is written to it
  Slot& slot = slots[slot_number() % slots.size()];
  const bool own_stream = plan_->guarantees.paced && slot.user > first_block_;
  for (const int reader : slot.readers)
    if (!own_stream && !has_finished(reader, slot.user)) return false;
  slot.user = first_block_ + block_ + 1;
  if (slot.readers != program_->readers) slot.readers = program_->readers;
  return acquired_ = true;
}

bool Executor::has_finished(int peer, std::uint64_t blocks) {
  std::uint64_t& known = known_finished_[static_cast<std::size_t>(peer)];
  if (known >= blocks) return true;
  const auto& finished = control_of(links_[static_cast<std::size_t>(peer)]->segment).finished;
  const auto look = [&] { return (known = finished.load(std::memory_order_acquire)) >= blocks; };
  if (!look() && !soon(spins_, look)) return false;
  const auto& calls = control_of(links_[static_cast<std::size_t>(peer)]->segment).finished_calls;
  compare(peer, std::min(calls.load(std::memory_order_relaxed), call_));
  return true;
}

/// From the last phase on that reads boards, nothing of the block is read here any more.
void Executor::leave_phase() {
  if (has_block() && phase_ == plan_->last_reading_phase && !plan_->guarantees.paced &&
      block_ + 1 < plan_->blocks)
    publish_finished(first_block_ + block_ + 1);
}

void Executor::publish_finished(std::uint64_t blocks) {
  control_of(segment_).finished.store(blocks, std::memory_order_release);
  for (std::size_t peer = 0; peer < links_.size(); ++peer)
    if (static_cast<int>(peer) != self_) wake(static_cast<int>(peer));
}

bool Executor::run_phase() {
  if (!has_block()) return true;
  if (!acquired_ && !acquire_slot()) return false;
  const std::uint32_t end = program_->phase_end[static_cast<std::size_t>(phase_)];
  for (; op_ < end; ++op_, ++progress_)
    if (!execute(program_->ops[op_])) return false;
  return true;
}

bool Executor::execute(const BoundOp& op) {
  switch (op.code) {
    case OpCode::gather:
      if (plan_->form == Form::packets) return gather_packets(op);
      return op.reads_peers ? gather_from_peers(op) : gather(op);
    case OpCode::signal:
      signal(op.peer);
      return true;
    case OpCode::wait:
      return wait(op.peer);
    case OpCode::notify:
      wake(op.peer);
      return true;
  }
  return true;
}

bool Executor::gather(const BoundOp& op) {
  const BoundOperand* const destinations = &program_->operands[op.first_operand];
  const BoundOperand* const sources = destinations + op.destination_count;
  sources_.resize(op.source_count);
  for (std::uint32_t i = 0; i < op.source_count; ++i) sources_[i] = address(sources[i]);
  combine(op, destinations, 0, op.count);
  return true;
}

/// Elements [first, first + count) of the operation, from sources_.
void Executor::combine(const BoundOp& op, const BoundOperand* destinations, std::uint64_t first,
                       std::uint64_t count) {
  const std::uint64_t element = plan_->element.value();
  std::byte* const to = address(destinations[0]) + first * element;
  const bool stream = streams_to(destinations[0]);
  if (is_copy(op)) {
    // In place there is nothing to do, and peers may be reading.
    if (to != sources_[0]) kernels::copy(to, sources_[0], count * element, stream);
    return;
  }
  std::byte* const second =
      op.destination_count == 2 ? address(destinations[1]) + first * element : nullptr;
  plan_->reduce({.destination = to,
                 .second_destination = second,
                 .sources = sources_.data(),
                 .source_count = op.source_count,
                 .element_count = count,
                 .divisor = op.divisor,
                 .stream_destination = stream,
                 .context = &plan_->user});
}

/// False when a peer's buffer cannot be read (any more): whoever looks after the peers finds out
/// why.
bool Executor::gather_from_peers(const BoundOp& op) {
  auto& reading = control_of(segment_).reading;
  reading.store(1, std::memory_order_seq_cst);
  const bool read = read_pieces(op);
  reading.store(0, std::memory_order_release);
  return read;
}

/// Sources that cannot be addressed go through the cache in pieces; a copy goes straight to where
/// it is wanted.
bool Executor::read_pieces(const BoundOp& op) {
  // All pieces together stay in the cache.
  constexpr std::uint64_t most = 64 << 10, least = 4 << 10, all = 1 << 20;
  const std::uint64_t piece_bytes = std::clamp(all / op.source_count / least * least, least, most);
  const BoundOperand* const destinations = &program_->operands[op.first_operand];
  const BoundOperand* const sources = destinations + op.destination_count;
  const std::uint64_t element = plan_->element.value(), piece = piece_bytes / element;
  const bool addressed = transport_.shares_addresses();
  if (is_copy(op) && !addressed)
    return fetch(sources[0], 0, address(destinations[0]), op.count * element);

  sources_.resize(op.source_count);
  if (const std::size_t room = op.source_count * piece_bytes; !addressed && fetched_.size() < room)
    fetched_.resize(room);
  for (std::uint64_t first = 0; first < op.count; first += piece) {
    const std::uint64_t count = std::min(piece, op.count - first), at = first * element;
    for (std::uint32_t k = 1; k <= op.source_count; ++k) {
      // Every rank begins with another peer: two that read the same one hinder each other.
      const std::uint32_t i = (static_cast<std::uint32_t>(self_) + k) % op.source_count;
      std::byte* const room = addressed ? nullptr : fetched_.data() + i * piece_bytes;
      if (!sources[i].in_peer_buffer())
        sources_[i] = address(sources[i]) + at;
      else if (!stands(sources[i].owner()) ||
               (!addressed && !fetch(sources[i], at, room, count * element)))
        return false;
      else
        sources_[i] = addressed ? address_at_owner(sources[i]) + at : room;
    }
    combine(op, destinations, first, count);
  }
  return true;
}

/// Reads until the owner has not moved the buffer meanwhile.
bool Executor::fetch(const BoundOperand& operand, std::uint64_t at, void* to, std::uint64_t bytes) {
  for (;;) {
    const std::byte* const from = address_at_owner(operand);
    const bool read = transport_.read_remote(
        Rank{operand.owner()}, reinterpret_cast<std::uint64_t>(from) + at, to, Bytes{bytes});
    std::atomic_thread_fence(std::memory_order_acquire);
    if (!read || !stands(operand.owner())) return false;
    if (address_at_owner(operand) == from) return true;
  }
}

/// Where an operand lies in its owner's memory.
const std::byte* Executor::address_at_owner(const BoundOperand& operand) const {
  const Control& theirs = control_of(links_[static_cast<std::size_t>(operand.owner())]->segment);
  const CallRecord& record = theirs.calls[call_ % CallRecord::kept];
  const std::uint64_t buffer =
      (operand.in_peer_input() ? record.input : record.output).load(std::memory_order_seq_cst);
  const std::uint64_t shift = block_ * bytes_of(plan_->block_count, plan_->element).value();
  return reinterpret_cast<const std::byte*>(buffer + shift + operand.offset);
}

/// A peer that gives up gives its buffers back to the caller: what is read since may be anything.
/// It says so before.
bool Executor::stands(int peer) const {
  const Control& theirs = control_of(links_[static_cast<std::size_t>(peer)]->segment);
  return theirs.abort.kind.load(std::memory_order_seq_cst) == 0 &&
         theirs.left.load(std::memory_order_seq_cst) == 0;
}

/// Whether it is written past the cache.
bool Executor::streams_to(const BoundOperand& destination) const {
  return plan_->stream_output && destination.base == static_cast<std::uint32_t>(Place::output);
}

bool Executor::gather_packets(const BoundOp& op) {
  const std::uint64_t per_packet = elements_per_packet(plan_->element);
  for (std::uint64_t done = packet_index_ * per_packet; done < op.count; done += per_packet) {
    if (!gather_packet(op, std::min(per_packet, op.count - done))) return false;
    ++packet_index_;
  }
  packet_index_ = 0;
  return true;
}

/// One packet's worth of a gather: waits for it on peers' boards, sends it on the own one.
bool Executor::gather_packet(const BoundOp& op, std::uint64_t count) {
  const BoundOperand* const destinations = &program_->operands[op.first_operand];
  const BoundOperand* const sources = destinations + op.destination_count;
  sources_.resize(op.source_count);
  for (std::uint32_t i = 0; i < op.source_count; ++i) {
    sources_[i] = packet_address(sources[i]);
    if (!sources[i].on_board()) continue;
    const auto* packet = static_cast<const Packet*>(sources_[i]);
    if (!packet->arrived(tag_) && !soon(spins_, [&] { return packet->arrived(tag_); }))
      return false;
    // A sender that waits for nobody is probably ahead already.
    if (next_slot_ != 0)
      __builtin_prefetch(static_cast<const std::byte*>(sources_[i]) + next_slot_);
  }

  std::byte* const first = packet_address(destinations[0]);
  std::byte* const second = op.destination_count == 2 ? packet_address(destinations[1]) : nullptr;
  if (op.source_count == 1 && op.divisor == 1 && !second)
    std::memcpy(first, sources_[0], count * plan_->element.value());
  else
    plan_->reduce({.destination = first,
                   .second_destination = second,
                   .sources = sources_.data(),
                   .source_count = op.source_count,
                   .element_count = count,
                   .divisor = op.divisor,
                   .context = &plan_->user});
  if (destinations[0].on_board()) reinterpret_cast<Packet*>(first)->publish(tag_);
  if (second) reinterpret_cast<Packet*>(second)->publish(tag_);
  return true;
}

std::byte* Executor::address(const BoundOperand& operand) const {
  return bases_[operand.base] + operand.offset;
}

std::byte* Executor::packet_address(const BoundOperand& operand) const {
  return address(operand) +
         packet_index_ * (operand.on_board()
                              ? sizeof(Packet)
                              : elements_per_packet(plan_->element) * plan_->element.value());
}

void Executor::signal(int peer) {
  const auto p = static_cast<std::size_t>(peer);
  flag_of(segment_, layout_, peer).signals.store(++sent_[p], std::memory_order_release);
  wake(peer);
}

bool Executor::wait(int peer) {
  const auto p = static_cast<std::size_t>(peer);
  const auto& signals = flag_of(links_[p]->segment, layout_, self_).signals;
  const std::uint64_t next = received_[p] + 1;
  if (!soon(spins_, [&] { return signals.load(std::memory_order_acquire) >= next; })) return false;
  received_[p] = next;
  if (checked_[p] != call_) compare(peer, call_);
  return true;
}

void Executor::finish() {
  control_of(segment_).finished_calls.store(call_, std::memory_order_relaxed);
  used_[static_cast<std::size_t>(plan_->slots)] += plan_->blocks;
  // All peers have entered this call, and so have finished what came before it.
  if (plan_->guarantees.synchronizes) std::ranges::fill(known_finished_, first_block_);
  first_block_ += plan_->blocks;
  plan_ = nullptr;
  publish_finished(first_block_);
  ++progress_;
}

void Executor::record_call() {
  const std::uint64_t history = plan_->mark.after(histories_[(call_ - 1) % CallRecord::kept]);
  marks_[call_ % CallRecord::kept] = plan_->mark;
  histories_[call_ % CallRecord::kept] = history;
  CallRecord& record = control_of(segment_).calls[call_ % CallRecord::kept];
  record.signature.store(plan_->mark.signature, std::memory_order_relaxed);
  record.count.store(plan_->mark.count, std::memory_order_relaxed);
  record.root.store(plan_->mark.root, std::memory_order_relaxed);
  record.tensor.store(plan_->mark.tensor, std::memory_order_relaxed);
  record.input.store(reinterpret_cast<std::uint64_t>(input_), std::memory_order_relaxed);
  record.output.store(reinterpret_cast<std::uint64_t>(output_), std::memory_order_relaxed);
  record.history.store(history, std::memory_order_relaxed);
  record.call.store(call_, std::memory_order_release);
}

/// Compares one call with a peer's; false when the peer has not entered it yet.
bool Executor::check_call(int peer, std::uint64_t call) const {
  const CallRecord& theirs =
      control_of(links_[static_cast<std::size_t>(peer)]->segment).calls[call % CallRecord::kept];
  const std::uint64_t recorded = theirs.call.load(std::memory_order_acquire);
  if (recorded != call) return recorded > call;
  const CallMark mark{.signature = theirs.signature.load(std::memory_order_relaxed),
                      .count = theirs.count.load(std::memory_order_relaxed),
                      .root = theirs.root.load(std::memory_order_relaxed),
                      .tensor = theirs.tensor.load(std::memory_order_relaxed)};
  const CallMark& own = marks_[call % CallRecord::kept];
  // A peer that is ahead may have begun to reuse the record meanwhile.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (theirs.call.load(std::memory_order_relaxed) != call || mark == own) return true;
  throw Mismatch(fmt::format(
      "ranks disagree about call {}: rank {} called {}, rank {} called {}: all ranks must call the "
      "same collectives in the same order with the same count, type, operation, root and settings",
      call, self_, to_string(own), peer, to_string(mark)));
}

/// Compares all calls up to one that the peer has entered, at one glance.
void Executor::compare(int peer, std::uint64_t call) {
  std::uint64_t& checked = checked_[static_cast<std::size_t>(peer)];
  if (call <= checked || call > call_ || call + CallRecord::kept <= call_) return;
  const CallRecord& theirs =
      control_of(links_[static_cast<std::size_t>(peer)]->segment).calls[call % CallRecord::kept];
  if (theirs.call.load(std::memory_order_acquire) != call) return;
  const std::uint64_t history = theirs.history.load(std::memory_order_relaxed);
  // A peer that is ahead may have begun to reuse the record meanwhile.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (theirs.call.load(std::memory_order_relaxed) != call) return;
  if (history != histories_[call % CallRecord::kept]) {
    check_history(peer);  // names the first difference
    throw Mismatch(fmt::format("ranks {} and {} have not made the same calls up to call {}", self_,
                               peer, call));
  }
  checked = call;
}

/// Compares this call, and earlier ones in which nothing came from the peer.
void Executor::check_history(int peer) {
  std::uint64_t& checked = checked_[static_cast<std::size_t>(peer)];
  if (call_ > CallRecord::kept) checked = std::max(checked, call_ - CallRecord::kept);
  while (checked < call_ && check_call(peer, checked + 1)) ++checked;
}

void Executor::check_calls() {
  if (!plan_) return;
  for (int peer = 0; peer < static_cast<int>(links_.size()); ++peer)
    if (peer != self_) check_history(peer);
}

std::string Executor::position() const {
  if (!plan_) return "between calls";
  if (program_->ops.empty()) return fmt::format("{} (call {})", to_string(plan_->call), call_);
  const BoundOp& bound = program_->ops[std::min<std::size_t>(op_, program_->ops.size() - 1)];
  const Op& op = program_->source.ops[bound.source_op];
  std::string what = to_string(program_->source, op);
  if (bound.code == OpCode::gather) what = "packets for: " + what;
  if (!acquired_) what = "all ranks to finish earlier blocks";
  return fmt::format("{} (call {}), algorithm {}, step {} of block {} of {}: {}",
                     to_string(plan_->call), call_, plan_->algorithm->name, op.step, block_,
                     plan_->blocks, what);
}

}  // namespace capstan
