#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/control/call_log.hpp"
#include "core/control/peers.hpp"
#include "core/engine/executor/slot_ring.hpp"
#include "core/engine/spin.hpp"
#include "core/lowering/plan.hpp"

namespace capstan {

/// Runs plans, one after the other, over a transport. It never blocks: `advance` goes as far as
/// what has arrived allows and can be called again later, from any loop.
///
/// Used by one thread at a time.
class Executor {
 public:
  /// `spins`: how often advance() looks for something that has not arrived before it gives up.
  Executor(Peers& peers, const SegmentLayout& layout, int spins);

  /// Begins an operation; the one before it must be finished. Plan and buffers must stay valid
  /// until advance() returns true.
  void start(const Plan& plan, const void* input, void* output);

  /// From now on no peer writes to the buffers of the operation that runs, until redirect(). False,
  /// and nothing has changed, if one does not stop, as it has been stopped itself.
  bool hold_buffers();
  /// Goes on with other buffers, which hold what these ones hold by now, after hold_buffers(). When
  /// it returns, no peer reads the former ones any more.
  void redirect(const void* input, void* output);
  /// The same for an operation that has failed; its peers have been told.
  void withdraw_buffers();
  /// Before the first call whose plan uses them.
  void map_small_packets();
  void set_spins(int spins) { spins_ = spins; }

  /// Both: begins it and runs as far as it gets at once.
  bool run(const Plan& plan, const void* input, void* output);

  /// Runs on. True when the operation is finished: the output is complete, the input may change.
  /// Throws Mismatch when a peer turns out to be in a different call.
  bool advance();

  /// Blocks that will have been finished, over all calls, when the current operation is.
  std::uint64_t goal() const { return slots_.first_block() + (plan_ ? plan_->blocks : 0); }
  /// Changes whenever advance() got something done.
  std::uint64_t progress() const { return progress_ + packet_index_; }
  /// What the operation waits for, for reports.
  std::string position() const;
  /// For whom, in rising order.
  std::vector<int> awaited() const;

  /// Throws Mismatch when a peer has entered this call with other arguments. advance() compares
  /// with every peer whose signal it consumes; this is for waits that last.
  void check_calls() {
    if (plan_) log_.compare_all();
  }

 private:
  std::vector<int> awaited_by(const BoundOp& op) const;
  bool run_stream();
  void next_phase();
  bool run_phase();
  inline void enter(const Plan& plan, const void* input, void* output);
  inline bool go_on();
  inline bool run_block();
  inline bool run_ops(std::uint32_t end);
  /// So that what it has written is only on its way.
  bool all_run() const {
    return plan_->blocks == 1 ? op_ == program_->phase_end.back() : round_ == plan_->rounds();
  }
  inline void enter_block(std::uint64_t block);
  inline void place_block();
  void place_buffers();
  inline bool acquire_slot();
  void leave_phase();
  bool push(const BoundOp& op);
  bool flush(int peer);
  bool flush_buffers();
  template <class Condition>
  bool comes(int peer, Condition condition);
  inline bool execute(const BoundOp& op);
  bool gather(const BoundOp& op);
  void combine(const BoundOp& op, std::byte* to, std::byte* second, std::uint64_t count);
  void combine_in_tiles(const BoundOp& op, std::byte* to, std::byte* second, std::uint64_t count);
  void reduce(const BoundOp& op, kernels::Reduction reduction);
  bool gather_at_peers(const BoundOp& op);
  bool locate(const BoundOp& op);
  void spread(const BoundOp& op);
  bool gather_pieces(const BoundOp& op);
  bool hand_on(const BoundOp& op);
  bool fetch_pieces(const BoundOp& op, std::uint64_t at, std::uint64_t bytes, std::size_t room);
  bool fetch(const BoundOp& op, std::size_t which, std::uint64_t at, void* to, std::uint64_t bytes);
  bool store(const BoundOp& op, std::size_t which, std::uint64_t at, const void* from,
             std::uint64_t bytes);
  std::span<const BoundOperand> operands_of(const BoundOp& op) const;
  void wait_for_users();
  void forget_sources();
  std::uint64_t times_abandoned(const BoundOp& op) const;
  bool were_kept(const BoundOp& op, std::uint64_t abandoned_before) const;
  PeerBuffer buffer_at_owner(const BoundOperand& operand) const;
  const std::byte* kept(const std::byte* input, const std::byte* output);
  inline void begin_call();
  void announce_sources();
  bool gather_packets(const BoundOp& op);
  inline std::ptrdiff_t taken_ahead() const;
  inline std::ptrdiff_t fetched_ahead() const;
  inline void send(std::byte* packet, std::ptrdiff_t ahead);
  bool copy_packet(const BoundOp& op);
  inline bool copy_packets(const BoundOp& op);
  bool gather_packet(const BoundOp& op, std::uint64_t count);
  std::byte* address(const BoundOperand& operand) const {
    return bases_[operand.base] + operand.offset + (operand.in_staging() ? slots_.offset() : 0);
  }
  std::uint64_t packet_step(const BoundOperand& operand) const;
  std::byte* packet_address(const BoundOperand& operand) const;
  inline bool arrives(int sender, const std::byte* at, std::ptrdiff_t ahead);
  void signal(int peer);
  bool wait(int peer);
  bool hear(int peer, std::uint64_t signals);
  inline void finish();

  Peers& peers_;
  Transport& transport_;
  const SegmentLayout layout_;
  const int self_;
  int spins_;
  std::byte* const segment_;
  CallLog log_;
  SlotRing slots_;
  // Of a peer's flag, when it was last looked at: it may be ahead of what is waited for.
  struct Heard {
    std::uint64_t signals = 0, histories[Flag::history_depth] = {};
  };
  std::vector<std::uint64_t> sent_, received_;  // signals, by peer
  std::vector<Heard> heard_;                    // by peer

  bool small_packets_mapped_ = false;
  std::uint64_t progress_ = 0;

  // The operation that runs, and where it stands.
  const Plan* plan_ = nullptr;
  const std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  std::vector<std::byte> scratch_;
  std::uint64_t round_ = 0, phase_ = 0;
  bool has_block_ = false;  // there is one for this phase in this round
  std::uint64_t block_ = 0;
  const BoundProgram* program_ = nullptr;
  bool acquired_ = false;  // the slot of block_ may be written
  std::uint32_t op_ = 0;
  std::uint64_t packet_index_ = 0;  // within the current gather
  std::uint64_t tag_ = 0;
  std::vector<std::byte*> bases_;     // see BoundOperand
  std::vector<const void*> sources_;  // of the operation: as many as it has, or more
  // Of one tile of a result on its way to peers, and that tile, in cache lines.
  std::vector<const void*> tile_sources_;
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> tile_;
  // Of a gather that uses buffers of peers: where each operand is seen, or null; and where it lies.
  std::vector<std::byte*> located_;
  std::vector<void*> further_;  // destinations of one operation after the first
  std::vector<PeerBuffer> at_owner_;
  std::vector<std::byte> pieces_;  // of peers' buffers, on their way through the cache
  std::vector<std::byte> kept_;    // the input, where the output is about to overwrite it
};

/// This block's part of them.
inline void Executor::place_buffers() {
  const std::uint64_t shift = block_ * bytes_of(plan_->block_count, plan_->element).value();
  bases_[0] = const_cast<std::byte*>(input_) + shift;  // programs never write to the input
  bases_[1] = output_ + shift;
  bases_[2] = scratch_.data();
}

/// Looks for what is to come from a peer. What comes from other hosts has to be taken in.
template <class Condition>
bool Executor::comes(int peer, Condition condition) {
  if (peers_.posted().empty()) return soon(spins_, condition);
  constexpr int now_and_then = 64, most_from_afar = 100;
  const bool mapped = peers_.mapped(peer);
  const int spins = mapped ? spins_ : std::min(spins_, most_from_afar);
  for (int i = 0; i < spins; ++i) {
    if (condition()) return true;
    if (!mapped || i % now_and_then == 0)
      transport_.progress();
    else
      relax();
  }
  return false;
}

}  // namespace capstan
