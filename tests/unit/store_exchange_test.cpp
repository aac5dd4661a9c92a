// SPDX-License-Identifier: Apache-2.0

// Agreements of ranks that have nothing but a store.

#include "core/engine/world/store_exchange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "capstan/error.hpp"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A map. A key that is missing will never be put.
class FakeStore final : public JobStore {
 public:
  const Secret& secret() const override { return secret_; }
  void put(std::string_view key, std::span<const std::byte> value) override {
    values_[std::string{key}] = {value.begin(), value.end()};
  }
  std::vector<std::byte> get(std::string_view key, Deadline) override {
    const auto found = values_.find(std::string{key});
    if (found == values_.end()) throw TimedOut(std::string{key});
    return found->second;
  }
  std::optional<std::vector<std::byte>> try_get(std::string_view) override { return {}; }

 private:
  Secret secret_ = Secret::random();
  std::map<std::string, std::vector<std::byte>> values_;
};

/// Rank 1 of three.
struct RankOne : ::testing::Test {
  template <std::size_t Size>
  void peers_say(std::string_view subject, std::array<std::uint8_t, Size> first,
                 std::array<std::uint8_t, Size> last) {
    store.put(fmt_key(subject, 0), std::as_bytes(std::span{first}));
    store.put(fmt_key(subject, 2), std::as_bytes(std::span{last}));
  }
  static std::string fmt_key(std::string_view subject, int rank) {
    return std::string{subject} + "/" + std::to_string(rank);
  }

  FakeStore store;
  StoreExchange exchange{store, Rank{1}, 3, Deadline::never()};
};

TEST_F(RankOne, TakesTheLeastElementByElement) {
  peers_say("abilities", std::array<std::uint8_t, 3>{1, 0, 1},
            std::array<std::uint8_t, 3>{1, 1, 1});
  const std::array<std::uint8_t, 3> own{1, 1, 0};
  std::array<std::uint8_t, 3> all{};
  exchange.run({.subject = "abilities", .count = 3}, own.data(), all.data());
  EXPECT_THAT(all, ElementsAre(1, 0, 0));
}

TEST_F(RankOne, GathersAllInTheOrderOfRanks) {
  peers_say("position", std::array<std::uint8_t, 1>{7}, std::array<std::uint8_t, 1>{9});
  const auto all = gather_answers(exchange, std::uint8_t{8}, "position");
  EXPECT_THAT(all.elements(), ElementsAre(7, 8, 9));
}

TEST_F(RankOne, GathersTextOfAnyLength) {
  put_text(store, "host/0", "a");
  put_text(store, "host/2", "");
  EXPECT_THAT(exchange.gather_text("host", "bb").elements(), ElementsAre("a", "bb", ""));
}

TEST_F(RankOne, RefusesAnswersOfAnotherLength) {
  peers_say("position", std::array<std::uint8_t, 2>{7, 7}, std::array<std::uint8_t, 2>{9, 9});
  try {
    gather_answers(exchange, std::uint8_t{8}, "position");
    FAIL() << "rank 0 has said two bytes";
  } catch (const BootstrapError& error) {
    EXPECT_THAT(error.what(), HasSubstr("different versions"));
  }
}

TEST_F(RankOne, TakesTheWordOfRankZero) {
  const std::array<std::uint8_t, 1> first{42};
  store.put("caches/0", std::as_bytes(std::span{first}));
  EXPECT_EQ(exchange.from_first("caches", std::uint8_t{3}), 42);
}

TEST_F(RankOne, NamesTheKeyThatNeverComes) {
  EXPECT_THROW(holds_everywhere(exchange, true, "rdma"), TimedOut);
}

}  // namespace
}  // namespace capstan
