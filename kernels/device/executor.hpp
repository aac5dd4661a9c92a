#pragma once

#include "kernels/device/program.hpp"
#include "kernels/device/reduce.hpp"

/// The executor on a device: a thread block runs the blocks of its lane, without the host.
///
/// Order between ranks rests on two rules. What a rank has staged is seen by whoever has received
/// the signal after it: the lane meets, then one thread releases and raises the flag, which one
/// thread of the peer polls and acquires, before its lane meets. And a slot is written again only
/// after its readers have raised how many blocks they have finished. Packets need no signal: each
/// word of data lies beside the number of the block that it belongs to.
namespace capstan::kernels::device {

template <class T, ReduceOp op, class M>
class Executor {
 public:
  CAPSTAN_DEVICE Executor(const M& m, const ProgramArguments& arguments)
      : m_(m),
        a_(arguments),
        lane_(m.block()),
        kind_(arguments.packets),
        state_(arguments.lanes[m.block()]),
        pointers_(arguments.pointers + std::uint64_t{m.block()} * arguments.most_operands),
        number_(state_.blocks),
        slots_used_(state_.slots_used[kind_]) {}

  CAPSTAN_DEVICE void run() {
    if (lane_ >= a_.block_count) return;
    for (std::uint64_t b = lane_; b < a_.block_count; b += m_.blocks()) run_block(a_.blocks[b]);
    if (m_.thread() != 0) return;
    state_.blocks = number_;
    state_.slots_used[kind_] = slots_used_;
  }

 private:
  CAPSTAN_DEVICE void run_block(const ProgramBlock& block) {
    block_ = &block;
    ++number_;
    const std::uint64_t slot = slots_used_++ % a_.shape.slot_count[kind_];
    slot_offset_ = lane_ * a_.shape.lane_bytes + a_.shape.slots_begin[kind_] +
                   slot * a_.shape.slot_distance[kind_];
    if (block.readers != 0) acquire(state_.slots[kind_][slot]);
    for (std::uint32_t i = block.first_op; i < block.end_op; ++i) execute(a_.ops[i]);
    finish();
  }

  /// Waits until the slot's last readers have finished.
  CAPSTAN_DEVICE void acquire(LaneState::Slot& slot) {
    for (std::uint32_t reader = m_.thread(); reader < a_.shape.ranks; reader += m_.threads())
      if ((slot.readers >> reader & 1) != 0)
        await(word(a_.self, a_.shape.finished(), reader), slot.must_finish);
    m_.sync_block();
    if (m_.thread() == 0) slot = {block_->readers, number_};
  }

  /// Tells those whose staging buffers the block has read.
  CAPSTAN_DEVICE void finish() {
    m_.sync_block();
    for (std::uint32_t writer = m_.thread(); writer < a_.shape.ranks; writer += m_.threads())
      if ((block_->writers >> writer & 1) != 0) {
        m_.release();
        m_.raise(word(writer, a_.shape.finished(), a_.self), number_);
      }
  }

  CAPSTAN_DEVICE void execute(const ProgramOp& o) {
    switch (o.code) {
      case ProgramCode::gather:
        return a_.packets != 0 ? gather_packets(o) : gather(o);
      case ProgramCode::signal:
        return signal(o.peer);
      case ProgramCode::wait:
        return wait(o.peer);
    }
  }

  /// The lane has met after the operation before.
  CAPSTAN_DEVICE void signal(std::uint32_t peer) {
    if (m_.thread() != 0) return;
    const std::uint64_t sent = ++state_.sent[peer];
    m_.release();
    m_.raise(word(peer, SegmentShape::signals, a_.self), sent);
  }
  CAPSTAN_DEVICE void wait(std::uint32_t peer) {
    if (m_.thread() == 0)
      await(word(a_.self, SegmentShape::signals, peer), ++state_.consumed[peer]);
    m_.sync_block();
  }

  /// Polls by loads that order nothing, and orders once, at the end.
  CAPSTAN_DEVICE void await(const std::uint64_t* flag, std::uint64_t value) {
    for (unsigned spins = 1; m_.poll(flag) < value; ++spins)
      if (is_over(spins)) return;
    m_.acquire(flag);
  }
  CAPSTAN_DEVICE bool is_over(unsigned spins) {
    m_.pause();
    return spins % 64 == 0 && m_.poll(a_.abort) != 0;
  }

  /// A word for the lane in the control part of a rank's segment, about another rank.
  CAPSTAN_DEVICE std::uint64_t* word(std::uint32_t rank, std::uint64_t table,
                                     std::uint32_t about) const {
    return reinterpret_cast<std::uint64_t*>(a_.segments[rank] + lane_ * a_.shape.lane_bytes +
                                            table) +
           about;
  }

  CAPSTAN_DEVICE std::byte* address(const ProgramOperand& operand) const {
    switch (operand.base) {
      case 0:
        return a_.input + block_->buffer_offset + operand.offset;
      case 1:
        return a_.output + block_->buffer_offset + operand.offset;
      case 2:
        return a_.scratch + lane_ * a_.scratch_bytes + operand.offset;
      default:
        return a_.segments[operand.base - 3] + slot_offset_ + operand.offset;
    }
  }

  CAPSTAN_DEVICE void gather(const ProgramOp& o) {
    const std::uint32_t operands = o.destination_count + o.source_count;
    for (std::uint32_t i = m_.thread(); i < operands; i += m_.threads())
      pointers_[i] = address(a_.operands[o.first_operand + i]);
    m_.sync_block();
    reduce<T, op>(m_, block_of(m_),
                  {.destinations = const_cast<void* const*>(pointers_),
                   .sources = pointers_ + o.destination_count,
                   .destination_count = o.destination_count,
                   .source_count = o.source_count,
                   .divisor = o.divisor,
                   .element_count = o.count});
    m_.sync_block();
  }

  // Packets. A unit is what a thread moves at a time: a word, or an element where that is longer.

  static constexpr std::uint64_t unit = sizeof(T) > 8 ? sizeof(T) : 8;
  static constexpr std::uint64_t payload = packet_payload / unit * unit;
  struct Unit {
    T at[unit / sizeof(T)];
  };
  struct UnitWords {
    std::uint64_t at[unit / 8];
  };

  CAPSTAN_DEVICE void gather_packets(const ProgramOp& o) {
    const std::uint64_t bytes = o.count * sizeof(T);
    const ProgramOperand* const to = a_.operands + o.first_operand;
    const ProgramOperand* const from = to + o.destination_count;
    for (std::uint64_t offset = m_.thread() * unit; offset < bytes; offset += m_.threads() * unit) {
      const std::uint64_t left = bytes - offset < unit ? bytes - offset : unit;
      const Unit result = combined(o, from, offset, left);
      for (std::uint32_t d = 0; d < o.destination_count; ++d) put(to[d], offset, left, result);
    }
    m_.sync_block();
  }

  CAPSTAN_DEVICE Unit combined(const ProgramOp& o, const ProgramOperand* from, std::uint64_t offset,
                               std::uint64_t left) {
    Unit first = take(from[0], offset, left);
    if (o.source_count == 1 && o.divisor <= 1) return first;
    constexpr unsigned count = unit / sizeof(T);
    Wide<T> sums[count];
    for (unsigned e = 0; e < count; ++e) sums[e] = lift<op>(widen(m_, first.at[e]));
    for (std::uint32_t s = 1; s < o.source_count; ++s) {
      const Unit next = take(from[s], offset, left);
      for (unsigned e = 0; e < count; ++e)
        sums[e] = combine<op>(sums[e], lift<op>(widen(m_, next.at[e])));
    }
    for (unsigned e = 0; e < count; ++e) first.at[e] = narrow<T>(m_, finish_of(sums[e], o.divisor));
    return first;
  }
  static CAPSTAN_DEVICE Wide<T> finish_of(Wide<T> value, std::uint32_t divisor) {
    return device::finish<op>(value, divisor);
  }

  /// Where a unit of a staged operand lies.
  static CAPSTAN_DEVICE Pack* pack_at(std::byte* base, std::uint64_t offset) {
    return reinterpret_cast<Pack*>(base + offset / payload * packet_stride +
                                   offset % payload / 8 * sizeof(Pack));
  }
  CAPSTAN_DEVICE Unit take(const ProgramOperand& from, std::uint64_t offset, std::uint64_t left) {
    std::byte* const base = address(from);
    if (from.staged != 0) return receive(pack_at(base, offset));
    Unit unit_{};
    for (std::uint64_t e = 0; e * sizeof(T) < left; ++e)
      unit_.at[e] = load_element<T>(m_, base + offset + e * sizeof(T));
    return unit_;
  }
  CAPSTAN_DEVICE void put(const ProgramOperand& to, std::uint64_t offset, std::uint64_t left,
                          const Unit& unit_) {
    std::byte* const base = address(to);
    if (to.staged != 0) return send(pack_at(base, offset), unit_);
    for (std::uint64_t e = 0; e * sizeof(T) < left; ++e)
      store_element(m_, base + offset + e * sizeof(T), unit_.at[e]);
  }

  /// The number of the block, never 0, the content of memory before its first use.
  CAPSTAN_DEVICE std::uint32_t tag() const {
    return static_cast<std::uint32_t>(number_ % 0xffff'ffff) + 1;
  }
  CAPSTAN_DEVICE Unit receive(const Pack* at) {
    UnitWords words;
    for (unsigned w = 0; w < unit / 8; ++w) {
      Pack pack = m_.poll_pack(at + w);
      for (unsigned spins = 1; pack.words[1] != tag() || pack.words[3] != tag(); ++spins) {
        if (is_over(spins)) break;
        pack = m_.poll_pack(at + w);
      }
      words.at[w] = std::uint64_t{pack.words[2]} << 32 | pack.words[0];
    }
    return std::bit_cast<Unit>(words);
  }
  CAPSTAN_DEVICE void send(Pack* to, const Unit& unit_) {
    const auto words = std::bit_cast<UnitWords>(unit_);
    for (unsigned w = 0; w < unit / 8; ++w)
      m_.raise_pack(to + w, {{static_cast<std::uint32_t>(words.at[w]), tag(),
                              static_cast<std::uint32_t>(words.at[w] >> 32), tag()}});
  }

  const M& m_;
  const ProgramArguments& a_;
  const std::uint64_t lane_;
  const std::uint32_t kind_;
  LaneState& state_;
  const void** const pointers_;
  const ProgramBlock* block_ = nullptr;
  std::uint64_t number_, slots_used_;  // written back when the call ends
  std::uint64_t slot_offset_ = 0;
};

}  // namespace capstan::kernels::device
