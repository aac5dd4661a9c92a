// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "capstan/error.hpp"
#include "core/bootstrap/store/hosted_store.hpp"
#include "core/bootstrap/store/local_store.hpp"
#include "core/engine/world/store_exchange.hpp"
#include "core/platform/net/secret.hpp"
#include "tests/bootstrap/bootstrap_helpers.hpp"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Barrier, NamesTheRankThatNeverCameOnEveryOther) {
  StoreServer server{on_loopback()};
  std::vector<std::string> texts(4);
  std::vector<std::jthread> ranks;
  for (int rank : {0, 1, 3}) {
    ranks.emplace_back([&, rank] {
      StoreClient store{rank_of(server, rank, 4), patience()};
      put_text(store, "here/" + std::to_string(rank), "");
      for (int peer : {0, 1, 3}) store.get("here/" + std::to_string(peer), patience());
      texts[static_cast<std::size_t>(rank)] =
          message_of<TimedOut>([&] { barrier(store, "start", rank, 4, while_all_come()); });
    });
  }
  ranks.clear();
  for (std::size_t rank : {0u, 1u, 3u}) {
    EXPECT_THAT(texts[rank], AllOf(HasSubstr("rank " + std::to_string(rank) + ": barrier"),
                                   HasSubstr("rank 2 never joined within 2 s")));
  }
}

TEST(Barrier, NamesRankZeroWhenThatIsWhoIsMissing) {
  StoreServer server{on_loopback()};
  StoreClient store{rank_of(server, 1, 2), patience()};
  EXPECT_THAT(message_of<TimedOut>([&] { barrier(store, "start", 1, 2, soon()); }),
              HasSubstr("rank 0 never joined"));
}

/// Rank 0 serves the store, and leaves at its deadline: the others blame who is missing, not rank
/// 0.
TEST(Exchange, NamesTheRankThatComesNoFurtherOnEveryOther) {
  StoreClient::Settings settings{.endpoint = AbstractEndpoint{"capstan-test-" + random_text()},
                                 .secret = secret(),
                                 .scope = "world",
                                 .size = 4};
  std::vector<std::string> texts(4);
  std::latch told{3};
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks.emplace_back([&, rank, own = settings]() mutable {
      own.rank = rank;
      const auto store = rank == 0 ? std::unique_ptr<JobStore>{new HostedStore{own, patience()}}
                                   : std::make_unique<StoreClient>(own, patience());
      StoreExchange joins{*store, Rank{rank}, 4, patience()};
      joins.introduce(fmt::format("host b, process {}", 4700 + rank));
      joins.barrier("joined");
      if (rank == 2) return told.wait();
      StoreExchange exchange{*store, Rank{rank}, 4, while_all_come()};
      texts[static_cast<std::size_t>(rank)] =
          message_of<TimedOut>([&] { exchange.gather_text("layout", "the same"); });
      told.count_down();
    });
  ranks.clear();
  for (const std::size_t rank : {0u, 1u, 3u})
    EXPECT_THAT(texts[rank],
                AllOf(HasSubstr("rank 2 (host b, process 4702) did not come within 2 s"),
                      Not(HasSubstr("layout/"))));
}

/// Rank 0 ends the server as soon as the barrier lets it go; nobody else may notice.
TEST(Barrier, LetsRankZeroDestroyTheServer) {
  for (int round = 0; round < 20; ++round) {
    auto server = std::make_unique<StoreServer>(on_loopback());
    std::atomic<int> passed{0};
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 6; ++rank) {
      ranks.emplace_back([&, rank, settings = rank_of(*server, rank, 6)] {
        StoreClient store{settings, patience()};
        barrier(store, "end", rank, 6, patience());
        if (rank == 0) server.reset();
        ++passed;
      });
    }
    ranks.clear();
    ASSERT_EQ(passed, 6);
  }
}

TEST(ListRanks, ReadsAsText) {
  EXPECT_EQ(list_ranks(std::vector{3}), "rank 3");
  EXPECT_EQ(list_ranks(std::vector{3, 5}), "ranks 3 and 5");
  EXPECT_EQ(list_ranks(std::vector{1, 2, 3}), "ranks 1, 2 and 3");
  const std::vector<int> many(40, 9);
  EXPECT_THAT(list_ranks(many), HasSubstr("and 24 more"));
}

TEST(LocalStore, PutsGetsAndTimesOut) {
  LocalStore store;
  EXPECT_EQ(store.try_get("key"), std::nullopt);
  EXPECT_THAT(message_of<TimedOut>([&] { store.get("key", soon()); }), HasSubstr("\"key\""));
  std::jthread writer{[&] { put_text(store, "key", "value"); }};
  EXPECT_EQ(get_text(store, "key", patience()), "value");
  barrier(store, "alone", 0, 1, patience());
}

}  // namespace
}  // namespace capstan
