// SPDX-License-Identifier: Apache-2.0
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
    if (lane_ == 0) tell(0);
    if (lane_ >= a_.block_count) return;
    for (std::uint64_t b = lane_; b < a_.block_count; b += m_.blocks()) {
      buffer_offset_ = b * a_.block_distance;
      run_block(a_.blocks[a_.program_of(b)]);
    }
    if (m_.thread() == 0) {
      state_.blocks = number_;
      state_.slots_used[kind_] = slots_used_;
    }
    if (a_.progress == nullptr) return;
    m_.sync_block();
    // The host may overwrite the program, and begin a kernel that has the state of the lane.
    if (m_.thread() == 0) m_.hand_over();
    tell(1 + lane_);
  }

 private:
  CAPSTAN_DEVICE void tell(std::uint64_t word) {
    if (a_.progress != nullptr && m_.thread() == 0) m_.raise(a_.progress + word, a_.number);
  }

  CAPSTAN_DEVICE void run_block(const ProgramBlock& block) {
    block_ = &block;
    ++number_;
    const std::uint64_t slot = a_.shape.slot(kind_, slots_used_++);
    slot_offset_ = lane_ * a_.shape.lane_bytes + a_.shape.slot_offset(kind_, slot);
    find_operands();
    if (block.readers != 0) await_readers(state_.slots[kind_][slot]);
    ProgramOp o{};
    if (block.first_op < block.end_op) o = a_.ops[block.first_op];
    m_.sync_block();
    if (block.readers != 0 && m_.thread() == 0)
      state_.slots[kind_][slot] = {block.readers, number_};
    for (std::uint32_t i = block.first_op + 1; i < block.end_op; ++i) {
      const ProgramOp next = a_.ops[i];  // on its way while the one before runs
      execute(o);
      o = next;
    }
    if (block.first_op < block.end_op) execute(o);
    finish();
  }

  /// By other warps than the one that awaits readers at the same time.
  CAPSTAN_DEVICE void find_operands() {
    const std::uint32_t operands = block_->end_operand - block_->first_operand;
    const unsigned first = (m_.thread() + m_.threads() - M::warp_size) % m_.threads();
    for (std::uint32_t i = first; i < operands; i += m_.threads())
      pointers_[i] = address(a_.operands[block_->first_operand + i]);
  }

  /// Waits until the slot's last readers have finished. What they have read may be overwritten.
  CAPSTAN_DEVICE void await_readers(const LaneState::Slot& slot) {
    for_each_of(slot.readers, [&](std::uint32_t reader) {
      const std::uint64_t* const finished = word(a_.self, a_.shape.finished(), reader);
      await(finished, slot.must_finish);
      m_.renew(finished);
    });
  }

  /// Tells those whose staging buffers the block has read.
  CAPSTAN_DEVICE void finish() {
    m_.sync_block();
    for_each_of(block_->writers, [&](std::uint32_t writer) {
      m_.retire();
      m_.raise(word(writer, a_.shape.finished(), a_.self), number_);
    });
  }

  /// The threads of the block share the ranks whose bits are set.
  template <class Body>
  CAPSTAN_DEVICE void for_each_of(std::uint64_t ranks, const Body& body) {
    for (std::uint32_t rank = m_.thread(); rank < a_.shape.ranks; rank += m_.threads())
      if ((ranks >> rank & 1) != 0) body(rank);
  }

  CAPSTAN_DEVICE void execute(const ProgramOp& o) {
    if (o.meets != 0) m_.sync_block();
    switch (o.code) {
      case ProgramCode::gather:
        return a_.packets != 0 ? gather_packets(o) : gather(o);
      case ProgramCode::signal:
        return signal(o.peers);
      case ProgramCode::wait:
        return wait(o.peers);
    }
  }

  CAPSTAN_DEVICE void signal(std::uint64_t peers) {
    for_each_of(peers, [&](std::uint32_t peer) {
      m_.release();
      m_.raise(word(peer, SegmentShape::signals, a_.self), ++state_.sent[peer]);
    });
  }
  CAPSTAN_DEVICE void wait(std::uint64_t peers) {
    for_each_of(peers, [&](std::uint32_t peer) {
      const std::uint64_t* const signals = word(a_.self, SegmentShape::signals, peer);
      await(signals, ++state_.consumed[peer]);
      m_.acquire(signals);
    });
    m_.sync_block();
  }

  /// Polls by loads that order nothing.
  CAPSTAN_DEVICE void await(const std::uint64_t* flag, std::uint64_t value) {
    for (unsigned spins = 1; m_.poll(flag) < value; ++spins)
      if (is_over(spins)) return;
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
        return a_.input + buffer_offset_ + operand.offset;
      case 1:
        return a_.output + buffer_offset_ + operand.offset;
      case 2:
        return a_.scratch + lane_ * a_.scratch_bytes + operand.offset;
      default:
        return a_.segments[operand.base - 3] + slot_offset_ + operand.offset;
    }
  }
  CAPSTAN_DEVICE const void* const* sources(const ProgramOp& o) const {
    return pointers_ + o.first_source;
  }
  CAPSTAN_DEVICE void* const* destinations(const ProgramOp& o) const {
    return const_cast<void* const*>(pointers_ + o.first_source + o.source_count);
  }

  CAPSTAN_DEVICE void gather(const ProgramOp& o) {
    reduce<T, op>(m_, block_of(m_),
                  {.destinations = destinations(o),
                   .sources = sources(o),
                   .destination_count = o.destination_count,
                   .source_count = o.source_count,
                   .divisor = o.divisor,
                   .element_count = o.count});
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
    for (std::uint64_t offset = m_.thread() * unit; offset < bytes; offset += m_.threads() * unit) {
      const std::uint64_t left = bytes - offset < unit ? bytes - offset : unit;
      const Unit result = combined(o, offset, left);
      for (std::uint32_t d = 0; d < o.destination_count; ++d) {
        auto* const to = static_cast<std::byte*>(destinations(o)[d]);
        if ((o.staged_destinations >> d & 1) != 0)
          send(pack_at(to, offset), result);
        else
          store_unit(to + offset, left, result);
      }
    }
  }

  CAPSTAN_DEVICE Unit combined(const ProgramOp& o, std::uint64_t offset, std::uint64_t left) {
    if (o.source_count == 1 && o.divisor <= 1) {
      Flight alone;
      depart(alone, o, 0, offset, left);
      return arrive(alone);
    }
    constexpr unsigned count = unit / sizeof(T);
    Wide<T> sums[count] = {};
    // Several loads are under way at a time: each takes as long as all.
    constexpr std::uint32_t batch = M::most_loads;
    for (std::uint32_t first = 0; first < o.source_count; first += batch) {
      Flight flights[batch];
      CAPSTAN_UNROLL
      for (std::uint32_t i = 0; i < batch; ++i)
        if (first + i < o.source_count) depart(flights[i], o, first + i, offset, left);
      CAPSTAN_UNROLL
      for (std::uint32_t i = 0; i < batch; ++i) {
        if (first + i >= o.source_count) continue;
        const Unit next = arrive(flights[i]);
        for (unsigned e = 0; e < count; ++e) {
          const auto value = lift<op>(widen(m_, next.at[e]));
          sums[e] = first + i == 0 ? value : combine<op>(sums[e], value);
        }
      }
    }
    Unit result;
    for (unsigned e = 0; e < count; ++e)
      result.at[e] = narrow<T>(m_, device::finish<op>(sums[e], o.divisor));
    return result;
  }

  /// A unit of a source that has been asked for.
  struct Flight {
    const Pack* packs;  ///< null: the source is not staged
    Pack seen[unit / 8];
    Unit unstaged;
  };
  CAPSTAN_DEVICE void depart(Flight& flight, const ProgramOp& o, std::uint32_t source,
                             std::uint64_t offset, std::uint64_t left) const {
    const auto* const from = static_cast<const std::byte*>(sources(o)[source]);
    flight.packs = (o.staged_sources >> source & 1) != 0 ? pack_at(from, offset) : nullptr;
    if (flight.packs)
      for (unsigned w = 0; w < unit / 8; ++w) flight.seen[w] = m_.poll_pack(flight.packs + w);
    else
      flight.unstaged = load_unit(from + offset, left);
  }
  CAPSTAN_DEVICE Unit arrive(Flight& flight) {
    if (!flight.packs) return flight.unstaged;
    UnitWords words;
    for (unsigned w = 0; w < unit / 8; ++w) {
      Pack& pack = flight.seen[w];
      for (unsigned spins = 1; pack.words[1] != tag() || pack.words[3] != tag(); ++spins) {
        if (is_over(spins)) break;
        pack = m_.poll_pack(flight.packs + w);
      }
      words.at[w] = std::uint64_t{pack.words[2]} << 32 | pack.words[0];
    }
    return std::bit_cast<Unit>(words);
  }

  /// Where a unit of a staged operand lies.
  static CAPSTAN_DEVICE const Pack* pack_at(const std::byte* base, std::uint64_t offset) {
    return reinterpret_cast<const Pack*>(base + offset / payload * packet_stride +
                                         offset % payload / 8 * sizeof(Pack));
  }
  static CAPSTAN_DEVICE Pack* pack_at(std::byte* base, std::uint64_t offset) {
    return const_cast<Pack*>(pack_at(const_cast<const std::byte*>(base), offset));
  }
  CAPSTAN_DEVICE Unit load_unit(const std::byte* from, std::uint64_t left) const {
    Unit loaded{};
    for (std::uint64_t e = 0; e * sizeof(T) < left; ++e)
      loaded.at[e] = load_element<T>(m_, from + e * sizeof(T));
    return loaded;
  }
  CAPSTAN_DEVICE void store_unit(std::byte* to, std::uint64_t left, const Unit& stored) const {
    for (std::uint64_t e = 0; e * sizeof(T) < left; ++e)
      store_element(m_, to + e * sizeof(T), stored.at[e]);
  }

  /// The number of the block, never 0, the content of memory before its first use.
  CAPSTAN_DEVICE std::uint32_t tag() const {
    return static_cast<std::uint32_t>(number_ % 0xffff'ffff) + 1;
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
  std::uint64_t number_, slots_used_;                  // written back when the call ends
  std::uint64_t buffer_offset_ = 0, slot_offset_ = 0;  // of the block
};

}  // namespace capstan::kernels::device
