// SPDX-License-Identifier: Apache-2.0

// Commands that start ranks, under every combination of signals, of the streams 0 to 2 and of
// children that somebody has left: each ends by itself, with the status of its ranks and results.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/processes/starts.hpp"
#include "tests/temporary_folder.hpp"

namespace capstan {
namespace {

enum Children { none, of_before, of_ranks };
enum Command { running, measuring, calibrating, tuning };
constexpr std::array commands{"run", "perf", "calibrate", "tune"};

/// A value of each: signals, the three streams, children, command.
using Combination = std::array<int, 6>;
constexpr Combination numbers{4, 4, 4, 4, 3, 4};

/// All of them; of the commands that run no program, none with its children.
std::vector<Combination> product() {
  std::vector<Combination> all{{}};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::vector<Combination> longer;
    for (Combination one : all)
      for (one[i] = 0; one[i] < numbers[i]; ++one[i])
        if (i < 5 || one[4] != of_ranks || one[5] == running) longer.push_back(one);
    all = std::move(longer);
  }
  return all;
}

/// Every three of its values, as numbers.
std::vector<int> triples_of(const Combination& one) {
  std::vector<int> triples;
  const auto value = [&](std::size_t i) { return static_cast<int>(i) * 10 + one[i]; };
  for (std::size_t i = 0; i < one.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      for (std::size_t m = 0; m < k; ++m)
        triples.push_back((value(i) * 100 + value(k)) * 100 + value(m));
  return triples;
}

/// A few combinations that hold every three values: the one with most of those that lack, and on.
std::vector<Combination> every_triple() {
  const auto all = product();
  std::set<int> lacking;
  for (const Combination& one : all)
    for (const int triple : triples_of(one)) lacking.insert(triple);
  std::vector<Combination> chosen;
  while (!lacking.empty()) {
    const auto gain = [&](const Combination& one) {
      return std::ranges::count_if(triples_of(one),
                                   [&](int triple) { return lacking.contains(triple); });
    };
    chosen.push_back(*std::ranges::max_element(all, {}, gain));
    for (const int triple : triples_of(chosen.back())) lacking.erase(triple);
  }
  return chosen;
}

Start start_of(const Combination& one) {
  Start start{.signals = kinds_of_signals[static_cast<std::size_t>(one[0])],
              .has_child = one[4] == of_before};
  for (std::size_t i = 0; i < 3; ++i)
    start.descriptors[i] = streams[static_cast<std::size_t>(one[1 + i])];
  return start;
}

/// A process that has been started, and its files.
class Started {
 public:
  explicit Started(const Combination& one) : one_(one) {
    pid_ = begin_capstan(start_of(one), words());
  }

  /// The status, once it has ended.
  void check() {
    const int status = status_of(pid_);
    EXPECT_TRUE(may_be(status)) << status << ", " << commands[static_cast<std::size_t>(one_[5])]
                                << ", " << describe(start_of(one_))
                                << (one_[4] == of_ranks ? ", children of ranks" : "");
    if (one_[4] == of_ranks) end_children();
  }

 private:
  Words words() const {
    if (one_[5] == calibrating)
      return {"calibrate", "-n", "2", "--patience", "0", "-o", folder_ / "calibrated.json"};
    if (one_[5] == tuning)
      return {"tune",
              "broadcast",
              "--sizes",
              "8",
              "-n",
              "2",
              "--seconds",
              "0.01",
              "--patience",
              "0",
              "--restart",
              "-o",
              folder_ / "profile.json"};
    if (one_[5] == measuring)
      return {"perf", "barrier", "-n", "2", "--seconds", "0.01", "--patience", "0"};
    const std::string end = "echo a line >&2; echo a line; exit 3";
    if (one_[4] != of_ranks) return run(end);
    return run(
        fmt::format("f={}$CAPSTAN_RANK; setsid sh -c \"echo \\$\\$ > $f.new; mv $f.new $f; "
                    "exec sleep 100000\" & while [ ! -e $f ]; do sleep 0.01; done; {}",
                    folder_ / "left", end));
  }

  bool may_be(int status) const {
    constexpr int nobody_reads = 128 + SIGPIPE;
    const auto stream = [&](int fd) {
      return streams[static_cast<std::size_t>(one_[1 + static_cast<std::size_t>(fd)])];
    };
    const bool unread = stream(1) == Stream::unread || stream(2) == Stream::unread;
    if (status == nobody_reads) return unread;
    const bool output_lost = stream(1) != Stream::usable;
    if (one_[5] == running) return status == 3 || (status == 1 && output_lost);
    return status == 0 || (status == 1 && (output_lost || stream(2) != Stream::usable));
  }

  void end_children() const {
    for (const char* rank : {"0", "1"}) {
      pid_t left = 0;
      std::ifstream{folder_ / "left" + rank} >> left;
      if (left > 1) EXPECT_EQ(::kill(left, SIGKILL), 0) << "it was to live on";
    }
  }

  Combination one_;
  test::TemporaryFolder folder_;
  pid_t pid_ = 0;
};

/// As they mostly wait, some run at once.
void check(const std::vector<Combination>& all) {
  constexpr std::size_t at_once = 4;
  for (std::size_t i = 0; i < all.size(); i += at_once) {
    std::vector<std::unique_ptr<Started>> started;
    for (std::size_t k = i; k < std::min(all.size(), i + at_once); ++k)
      started.push_back(std::make_unique<Started>(all[k]));
    for (const auto& one : started) one->check();
  }
}

TEST(StartsInTriples, EndWithTheirStatus) {
  check(every_triple());
}

class EveryStart : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(EveryStart, EndsWithItsStatus) {
  const auto [command, signals] = GetParam();
  std::vector<Combination> chosen = product();
  std::erase_if(chosen, [&, command = command, signals = signals](const Combination& one) {
    return one[5] != command || one[0] != signals;
  });
  check(chosen);
}

INSTANTIATE_TEST_SUITE_P(Of, EveryStart,
                         ::testing::Combine(::testing::Range(0, 4), ::testing::Range(0, 4)),
                         [](const auto& test) {
                           return fmt::format(
                               "{}_{}", commands[static_cast<std::size_t>(std::get<0>(test.param))],
                               std::get<1>(test.param));
                         });

}  // namespace
}  // namespace capstan
