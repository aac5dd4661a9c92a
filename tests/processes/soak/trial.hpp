// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tests/processes/soak/scenario.hpp"
#include "tests/processes/soak/testbed.hpp"
#include "tests/processes/soak/watched_rank.hpp"

namespace capstan::soak {

/// The findings of a run.
struct Verdict {
  std::vector<std::string> complaints;   ///< empty: all was right
  std::chrono::duration<double> told{};  ///< from the fault to the last survivor's error
  std::string transcript;                ///< what every rank said
};

/// One run of a scenario on a testbed.
class Trial {
 public:
  Trial(const Testbed& testbed, const Scenario& scenario, std::string network);
  Verdict run();

 private:
  void start_ranks();
  void kill_one();
  void stop_one();
  void cut_cable();
  void be_slow();
  void pause_again_and_again();

  /// Watches all ranks until the condition is met; false when that takes longer than it may.
  template <class Condition>
  bool until(Condition condition, std::chrono::milliseconds at_most);
  void pass(std::chrono::milliseconds time);
  bool await_moment();
  void await_survivors(Clock::time_point fault);
  void await_end(const std::string& of_whom);
  void look_for_leftovers();

  WatchedRank& victim() { return ranks_[static_cast<std::size_t>(scenario_.victim)]; }
  /// Whether an error of this rank is expected: of all but a victim that is dead or stopped.
  bool survives(int rank) const;
  void judge(int rank);
  void judge_error(int rank, const std::string& error);
  void judge_culprits(int rank, const std::string& error);
  bool may_lose(int rank, int lost) const;
  void complain(std::string what) { verdict_.complaints.push_back(std::move(what)); }

  const Testbed& testbed_;
  const Scenario scenario_;
  const std::string network_;
  std::vector<WatchedRank> ranks_;
  Verdict verdict_;
};

}  // namespace capstan::soak
