// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>

namespace capstan {

/// Says when the error about peers that are gone may be formed. Ranks that end together are noticed
/// one after another, and the error names all of them: it waits until no further one has been
/// noticed for a while, and until it is known of all peers whether they are there, though not for
/// long.
class Losses {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// A process of much memory ends so long after the signal.
  static constexpr std::chrono::milliseconds others_may_end{100};
  /// Below the time that `capstan run` gives survivors to say what they have lost.
  static constexpr std::chrono::milliseconds longest{300};

  /// `gone`: how many peers are gone now, at least one; `all_known`: nobody's answer is missing.
  bool are_complete(std::size_t gone, bool all_known, Time now) {
    if (gone_ == 0) first_ = now;
    if (gone != gone_) last_ = now;
    gone_ = gone;
    return now - first_ >= longest || (all_known && now - last_ >= others_may_end);
  }
  void forget() { gone_ = 0; }

 private:
  std::size_t gone_ = 0;
  Time first_{}, last_{};
};

}  // namespace capstan
