// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/engine/run/progress.hpp"

namespace capstan {

/// A thread that progresses operations: a caller that waits, or the progress thread that leads.
class Progress::Turn {
 public:
  enum class Of { caller, thread };

  /// A progress thread has been made the leader, and stays it until it says otherwise, under the
  /// lock.
  Turn(Progress& progress, Of of);
  ~Turn();
  Turn(const Turn&) = delete;

  bool held() const { return held_; }

  /// While such an object exists, callbacks run on this thread, and another one moves operations
  /// on. Then the thread takes its turn again; a progress thread does so only if no other has it.
  class Away {
   public:
    explicit Away(Turn* turn);
    ~Away();
    Away(const Away&) = delete;

   private:
    Turn* const turn_;  // null: there is none
  };

 private:
  void give_up();
  void take_again();

  Progress& progress_;
  const Of of_;
  bool held_ = true;
};

/// The time between two looks at whether peers live.
inline constexpr std::chrono::milliseconds check_interval{20};

/// Spin, then yield, then sleep, by time without progress. Peers are checked now and then.
class Progress::Backoff {
 public:
  Backoff(Progress& progress, Turn& turn) : progress_(progress), turn_(turn) {}

  /// There was progress.
  void reset() { since_ = Clock::time_point{}; }
  void pause(Deadline deadline);
  /// Its wait ends by its deadline, and may be one of many by which a program waits in slices: the
  /// next one looks when this one would have, or at once where it has told what it waits for. False
  /// if it ends without a pause.
  bool ends_early();

 private:
  Progress& progress_;
  Turn& turn_;
  Clock::time_point since_{}, check_due_{};
};

}  // namespace capstan
