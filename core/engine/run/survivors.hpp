// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <span>

#include "capstan/deadline.hpp"
#include "capstan/quantity.hpp"
#include "core/engine/control/peers.hpp"
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
/// One thread of a rank uses it at a time.
class Survivors {
 public:
  /// The ranks that are gone, and whether something tells so but their silence: the end of a
  /// process of this host, or their goodbye.
  using Gone = std::map<Rank, bool>;
  struct Opinion {
    bool agrees = true;  ///< as a result: all that voted agree, and nobody went meanwhile
    Gone gone{};
  };

  Survivors(Progress& progress, Peers& peers, Watchdog& watchdog,
            std::chrono::milliseconds timeout);

  /// One agreement. Those that `gone` has are left out: all ranks pass the same. `own` are the
  /// bytes that others find in announcement_of() afterwards, at most 1024. Throws TimedOut with a
  /// rank that takes no part, and Aborted after stop(), both also in all later agreements;
  /// LimitReached where too many ranks are gone.
  Opinion agree(bool agrees, const Gone& gone, std::span<const std::byte> own = {});
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
  bool is_gone(Rank rank);
  void note_gone(Opinion& opinion, Rank rank);
  Opinion read(const Record::Opinion& record, Rank rank) const;
  template <class Ending>
  [[noreturn]] void end(const Ending& error);

  Progress& progress_;
  Peers& peers_;
  Watchdog& watchdog_;
  const std::chrono::milliseconds timeout_;
  std::uint64_t number_ = 0;  ///< of the agreement
  std::exception_ptr ended_;  ///< the error because of which there are no more
  std::atomic<bool> agreeing_ = false, stopped_ = false;
};

}  // namespace capstan
