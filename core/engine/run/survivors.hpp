// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <span>

#include "capstan/deadline.hpp"
#include "capstan/quantity.hpp"
#include "core/engine/control/peers.hpp"
#include "core/engine/control/rank_names.hpp"
#include "core/engine/control/wait.hpp"
#include "core/engine/run/watchdog.hpp"

namespace capstan {

class Progress;

/// Agreements of the ranks of a communicator that are left, whatever fails meanwhile.
///
/// No call and no message is used, as the communicator may have failed: each rank publishes what it
/// thinks in its segment, as it publishes a failure, and looks at those of the others. First all
/// vote. Then each in turn, in the order of ranks, publishes its estimate of the result; the ranks
/// behind it take that over, and so do those before it. A rank is waited for until it has published
/// or is gone. When all have had their turn, everybody has the estimate of the first rank that has
/// lived through its turn: all results are equal. This needs that nobody takes a rank for gone that
/// lives and is heard by others: the ends of processes and connections are final.
///
/// One thread of a rank uses it at a time, with a Turn.
class Survivors {
 public:
  /// The calls of programs that agree. Ranks may make different ones: where a member dies, one
  /// rank may have got the result of the call before, and another the error.
  enum class Call : std::uint32_t { shrink = Wait::shrinks, grow = Wait::grows };

  /// The right of a thread to agree. Throws InvalidArgument while another thread has it.
  class Turn {
   public:
    /// `patience`: how long to wait for a rank that lives.
    Turn(Survivors& survivors, Call call, std::chrono::milliseconds patience);
    ~Turn() { survivors_.taken_ = false; }
    Turn(const Turn&) = delete;

   private:
    Survivors& survivors_;
  };

  /// The ranks that are gone, and whether something tells so but their silence: the end of a
  /// process of this host, or their goodbye.
  using Gone = std::map<Rank, bool>;
  struct Opinion {
    bool agrees = true;  ///< as a result: all that voted agree, and nobody went meanwhile
    Gone gone{};
    std::uint32_t calls = 0;  ///< those that ranks make, one bit for each

    bool mixed() const { return (calls & (calls - 1)) != 0; }
  };

  /// `world_ranks` and `names` are those of the communicator, and live longer.
  Survivors(Progress& progress, Peers& peers, Watchdog& watchdog, const ByRank<int>& world_ranks,
            const RankNames& names)
      : progress_(progress),
        peers_(peers),
        watchdog_(watchdog),
        world_ranks_(world_ranks),
        names_(names) {}

  /// One agreement. Those that `gone` has are left out: all ranks pass the same. `own` are the
  /// bytes that others find in announcement_of() afterwards, at most 1024. Throws TimedOut with a
  /// rank that takes no part, and Aborted after stop(), both also in all later agreements;
  /// LimitReached where too many ranks are gone.
  Opinion agree(bool agrees, const Gone& gone, std::span<const std::byte> own = {});
  /// The first rank that is gone, or has voted against this rank's next agreement already: what
  /// the agreement is to be about need not be tried any longer.
  std::optional<Rank> objector();
  /// Ends the agreement that is under way, if there is one, with Aborted. Any thread.
  void stop() {
    if (agreeing_) stopped_ = true;
  }
  /// Until this rank's next but one agreement.
  std::span<const std::byte> announcement_of(Rank rank) const;

 private:
  using Record = SurvivorRecord;
  using Kind = Record::Opinion (Record::*)[2];

  Opinion agree_now(bool agrees, const Gone& gone, std::span<const std::byte> own);
  void announce(std::span<const std::byte> own, const Gone& left_out);
  void publish(Kind kind, const Opinion& opinion, const Gone& left_out);
  /// False: it is gone and has not published.
  bool hear(Kind kind, Rank rank, Opinion& opinion);
  /// Other ranks may wait for this one meanwhile, or want to know what it does.
  void tell_wait_for(Rank rank, std::chrono::milliseconds waited);
  [[noreturn]] void give_up_on(Rank rank);
  bool is_gone(Rank rank);
  void note_gone(Opinion& opinion, Rank rank);
  Opinion read(const Record::Opinion& record, Rank rank) const;
  template <class Ending>
  [[noreturn]] void end(const Ending& error);

  Progress& progress_;
  Peers& peers_;
  Watchdog& watchdog_;
  const ByRank<int>& world_ranks_;
  const RankNames& names_;
  Call call_ = Call::shrink;
  std::chrono::milliseconds patience_{};
  std::uint64_t number_ = 0;  ///< of the agreement
  std::exception_ptr ended_;  ///< the error because of which there are no more
  std::atomic<bool> taken_ = false, agreeing_ = false, stopped_ = false;
};

}  // namespace capstan
